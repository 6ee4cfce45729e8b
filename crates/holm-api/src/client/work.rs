//! The work done in a workspace: capture it, list it, read it as a patch.

use super::Client;
use super::lines::Lines;
use super::transport::{full, good, not_json};
use crate::ErrorBody;
use crate::work::{Capture, CaptureEvent, Captured};
use bytes::Bytes;
use holm_core::{Fault, WorkspaceId};
use hyper::Method;

// === impl Client ===

impl Client {
    /// Writes the working tree as git objects and calls `progress` on the way.
    pub async fn capture(
        &self,
        id: &WorkspaceId,
        capture: &Capture,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<Captured, Fault> {
        let route = format!("/workspaces/{id}/capture");
        let body = full(Bytes::from(serde_json::to_vec(capture).map_err(not_json)?));
        let (response, _connection) = self.transport.send(Method::POST, &route, body).await?;
        let mut lines = Lines::new(good(response).await?.into_body());
        loop {
            match lines.next().await? {
                CaptureEvent::Progress { step, done, total } => progress(&step, done, total),
                CaptureEvent::Captured(captured) => return Ok(*captured),
                CaptureEvent::Error(error) => return Err(ErrorBody { error }.into()),
            }
        }
    }

    /// The same as a patch, streamed to `take`, until it returns `false`.
    pub async fn diff(
        &self,
        id: &WorkspaceId,
        tree: &str,
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Fault> {
        let route = format!("/workspaces/{id}/diff?tree={tree}");
        self.transport.pieces(&route, take).await
    }
}
