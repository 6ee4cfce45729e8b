//! Routes with one request and one response.

use super::Client;
use super::create::CreateStream;
use super::lines::Lines;
use super::transport::{Body, full, good, not_json, whole};
use crate::ErrorBody;
use crate::disk::{Collected, Gc, GcEvent};
use crate::workspace::{CreateWorkspace, Rename, Upload, Workspace};
use bytes::Bytes;
use futures_util::stream;
use holm_core::{Fault, WorkspaceId};
use http_body_util::{BodyExt, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Whether unsaved work prevents a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    RefuseUnsaved,
    Force,
}

const CHUNK: usize = 256 * 1024;

// === impl Client ===

impl Client {
    /// Deletes unused data and calls `progress` on the way.
    pub async fn gc(
        &self,
        gc: &Gc,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<Collected, Fault> {
        let body = full(Bytes::from(serde_json::to_vec(gc).map_err(not_json)?));
        let sent = self.transport.send(Method::POST, "/gc", body).await;
        let (response, _connection) = sent?;
        let mut lines = Lines::new(good(response).await?.into_body());
        loop {
            match lines.next().await? {
                GcEvent::Progress { step, done, total } => progress(&step, done, total),
                GcEvent::Done(collected) => return Ok(collected),
                GcEvent::Error(error) => return Err(ErrorBody { error }.into()),
            }
        }
    }

    pub async fn rename(&self, id: &WorkspaceId, label: &str) -> Result<Workspace, Fault> {
        let route = format!("/workspaces/{id}");
        let label = label.to_owned();
        let rename = Rename { label };
        self.transport.json(Method::PATCH, &route, &rename).await
    }

    pub async fn remove(&self, id: &WorkspaceId, removal: Removal) -> Result<Workspace, Fault> {
        let force = removal == Removal::Force;
        let route = format!("/workspaces/{id}?force={force}");
        self.transport.plain(Method::DELETE, &route).await
    }

    /// Uploads a file that a later request can name.
    pub async fn upload<R>(&self, content: R) -> Result<Upload, Fault>
    where
        R: AsyncRead + Send + Unpin + 'static,
    {
        let body = chunks_of(content);
        let sent = self.transport.send(Method::POST, "/uploads", body).await;
        let (response, connection) = sent?;
        let answer = whole(response).await?;
        self.transport.keep(connection);
        serde_json::from_slice(&answer).map_err(not_json)
    }

    /// Creates a workspace of a project. Dropping the stream before its last event cancels the
    /// creation, and the daemon undoes it.
    pub async fn create(
        &self,
        project_id: &str,
        create: &CreateWorkspace,
    ) -> Result<CreateStream, Fault> {
        let body = full(Bytes::from(serde_json::to_vec(create).map_err(not_json)?));
        let route = format!("/projects/{project_id}/workspaces");
        let sent = self.transport.send(Method::POST, &route, body).await;
        let (response, connection) = sent?;
        let response = good(response).await?;
        Ok(CreateStream::new(
            self.clone(),
            connection,
            response.into_body(),
        ))
    }

    /// Cancels the creation of a workspace; returns when it is undone.
    pub(super) async fn cancel(&self, id: &str) -> Result<serde_json::Value, Fault> {
        let route = format!("/workspaces/{id}/cancel");
        self.transport.plain(Method::POST, &route).await
    }
}

/// A body that is streamed from `content`.
pub(super) fn chunks_of(content: impl AsyncRead + Send + Unpin + 'static) -> Body {
    let chunks = stream::try_unfold(content, |mut content| async move {
        let mut chunk = vec![0; CHUNK];
        let length = content.read(&mut chunk).await?;
        chunk.truncate(length);
        let frame = Frame::data(Bytes::from(chunk));
        Ok((length > 0).then_some((frame, content)))
    });
    StreamBody::new(chunks).boxed_unsync()
}
