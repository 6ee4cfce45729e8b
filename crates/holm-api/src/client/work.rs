//! The work done in a workspace: capture it, list it, read it as a patch.

use super::Client;
use super::transport::{full, good, not_json, went_away};
use crate::ErrorBody;
use crate::work::{Capture, CaptureEvent, Captured, ChangeList};
use bytes::{Bytes, BytesMut};
use holm_core::{Code, Fault, WorkspaceId};
use http_body_util::BodyExt;
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
        let mut body = good(response).await?.into_body();
        let mut unread = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| went_away(&error))?;
            if let Ok(data) = frame.into_data() {
                unread.extend_from_slice(&data);
            }
            while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line = unread.split_to(end + 1);
                match serde_json::from_slice(&line).map_err(not_json)? {
                    CaptureEvent::Progress { step, done, total } => progress(&step, done, total),
                    CaptureEvent::Captured(captured) => return Ok(*captured),
                    CaptureEvent::Error(error) => return Err(ErrorBody { error }.into()),
                }
            }
        }
        Err(Fault::new(
            Code::DaemonUnreachable,
            "the daemon's answer ended in the middle",
            "see `holm daemon status`, then try again",
        ))
    }

    /// Changed files between the start and a captured tree.
    pub async fn changes(&self, id: &WorkspaceId, tree: &str) -> Result<ChangeList, Fault> {
        let route = format!("/workspaces/{id}/changes?tree={tree}");
        self.transport.plain(Method::GET, &route).await
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
