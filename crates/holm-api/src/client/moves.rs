//! Moving a live workspace to another commit.

use super::Client;
use super::lines::Lines;
use super::transport::{full, good, not_json};
use crate::ErrorBody;
use crate::moves::{Assign, MoveEvent, Moved, Sync};
use bytes::Bytes;
use holm_core::{Fault, WorkspaceId};
use hyper::Method;
use serde::Serialize;

// === impl Client ===

impl Client {
    /// Moves a workspace to another commit and calls `progress` on the way.
    pub async fn assign(
        &self,
        id: &WorkspaceId,
        assign: &Assign,
        progress: impl FnMut(&str, u64, u64),
    ) -> Result<Moved, Fault> {
        self.moved(&format!("/workspaces/{id}/assign"), assign, progress)
            .await
    }

    /// Fast-forwards a workspace, if its own changes allow that.
    pub async fn sync(
        &self,
        id: &WorkspaceId,
        sync: &Sync,
        progress: impl FnMut(&str, u64, u64),
    ) -> Result<Moved, Fault> {
        self.moved(&format!("/workspaces/{id}/sync"), sync, progress)
            .await
    }

    async fn moved(
        &self,
        route: &str,
        body: &impl Serialize,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<Moved, Fault> {
        let body = full(Bytes::from(serde_json::to_vec(body).map_err(not_json)?));
        let (response, _connection) = self.transport.send(Method::POST, route, body).await?;
        let mut lines = Lines::new(good(response).await?.into_body());
        loop {
            match lines.next().await? {
                MoveEvent::Progress { step, done, total } => progress(&step, done, total),
                MoveEvent::Moved(moved) => return Ok(*moved),
                MoveEvent::Error(error) => return Err(ErrorBody { error }.into()),
            }
        }
    }
}
