//! File operations on a workspace's tree, which is visible only inside: our own program runs there,
//! does one operation below `project.root`, and answers. Called by the server.
//!
//! A hostile program could send the same response, so it is bounded, parsed strictly, and shown or
//! passed on, never acted on.

mod ask;
mod fault;

pub use ask::{Content, FileAnswer, FileBody, Piece};

use crate::command::Stopped;
use crate::engine::{Engine, detached};
use holm_core::exec::{ExecRequest, Masking};
use holm_core::files::{Operation, Request};
use holm_core::{Code, Fault, TreePath, WorkspaceId};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// An operation on a path.
#[derive(Debug)]
pub struct FileRequest {
    pub path: TreePath,
    pub operation: Operation,
    pub masking: Masking,
}

/// The path of the program inside.
const PROGRAM: &str = "/run/holm/bin/holm";

/// The time limit of a response that is not a stream.
const SHORT: Duration = Duration::from_secs(60);

/// The time limit of a streamed body.
const LONG: Duration = Duration::from_secs(3600);

// === impl Engine ===

impl Engine {
    /// Does one operation on the tree. Starts a stopped workspace and counts as use. An operation
    /// that has begun runs until its response, even when the caller is dropped.
    pub async fn file(
        &self,
        id: &WorkspaceId,
        path: TreePath,
        operation: Operation,
        content: Content,
    ) -> Result<FileAnswer, Fault> {
        let request = FileRequest {
            path,
            operation,
            masking: Masking::Never,
        };
        self.file_masked(id, request, content).await
    }

    /// As [`Self::file`]; [`Masking::Bytes`] replaces every byte of the workspace's secrets by a
    /// star.
    pub async fn file_masked(
        &self,
        id: &WorkspaceId,
        request: FileRequest,
        content: Content,
    ) -> Result<FileAnswer, Fault> {
        let FileRequest {
            path,
            operation,
            masking,
        } = request;
        let (engine, id) = (self.clone(), id.clone());
        detached(async move {
            let root = engine.inner.live(&id).await?.spec.root.clone();
            let timeout = match operation {
                Operation::List(_) | Operation::Stat | Operation::Search(_) => SHORT,
                _ => LONG,
            };
            let asked = Request {
                root: root.as_os_str().as_bytes().to_vec(),
                path: path.as_bytes().to_vec(),
                operation,
            };
            let asked = serde_json::to_vec(&asked).map_err(|error| {
                let message = format!("cannot ask for `{path}`");
                Fault::new(Code::Internal, message, "see the daemon's log").because(error)
            })?;
            let request = ExecRequest {
                argv: vec![PROGRAM.into(), holm_core::files::ROLE.into(), asked],
                timeout_ms: Some(timeout.as_millis() as u64),
                masking,
                ..ExecRequest::default()
            };
            let stream = engine.exec(&id, request, Stopped::Start).await?;
            ask::converse(stream, content, path).await
        })
        .await
    }
}
