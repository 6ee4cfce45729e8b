//! Routes with one request and one response.

use super::Client;
use super::create::CreateStream;
use super::query::{escaped, query_string};
use super::transport::{Body, good, not_json};
use crate::audit::{AuditList, AuditQuery};
use crate::secret::Audit;
use crate::workspace::{CreateWorkspace, Rename, Upload, Workspace};
use bytes::Bytes;
use futures_util::stream;
use holm_core::trash::Removal;
use holm_core::{Fault, WorkspaceId};
use http_body_util::{BodyExt, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Whether to check the integrity of the audit record of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    No,
    Yes,
}

const CHUNK: usize = 256 * 1024;

// === impl Client ===

impl Client {
    /// Entries of the audit record, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AuditList, Fault> {
        let route = format!("/audit?{}", query_string(query));
        self.transport.plain(Method::GET, &route).await
    }

    /// The audit record of secrets; with `verify`, also whether it is intact.
    pub async fn secrets_audit(&self, verify: Verify) -> Result<Audit, Fault> {
        let route = match verify {
            Verify::Yes => "/secrets/audit?verify=true",
            Verify::No => "/secrets/audit",
        };
        self.transport.plain(Method::GET, route).await
    }

    /// The difference between the start and a captured tree as a patch, streamed to `take`, until it
    /// returns `false`.
    pub async fn diff(
        &self,
        id: &WorkspaceId,
        tree: &str,
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Fault> {
        let route = format!("/workspaces/{id}/diff?tree={tree}");
        self.transport.pieces(&route, take).await
    }

    /// The difference between two turns (`@2`), streamed to `take` until it returns `false`. Without `from` it
    /// begins at the starting commit, without `to` it ends at the last turn.
    pub async fn diff_turns(
        &self,
        id: &WorkspaceId,
        from: Option<&str>,
        to: Option<&str>,
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Fault> {
        let named = [("from", from), ("to", to)].into_iter();
        let named = named.filter_map(|(name, turn)| Some(format!("{name}={}", escaped(turn?))));
        let query = named.collect::<Vec<_>>().join("&");
        let route = format!("/workspaces/{id}/diff?{query}");
        self.transport.pieces(&route, take).await
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
        self.transport
            .streamed(Method::POST, "/uploads", body)
            .await
    }

    /// Creates a workspace of a project. Dropping the stream before its last event cancels the
    /// creation, and the daemon undoes it.
    pub async fn create(
        &self,
        project_id: &str,
        create: &CreateWorkspace,
    ) -> Result<CreateStream, Fault> {
        let body = Bytes::from(serde_json::to_vec(create).map_err(not_json)?);
        let route = format!("/projects/{project_id}/workspaces");
        let sent = self.transport.send_bytes(Method::POST, &route, body).await;
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
