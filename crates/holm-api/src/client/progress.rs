//! Routes that report progress before their answer.

use super::Client;
use super::lines::Lines;
use super::transport::{full, good, not_json};
use crate::ErrorBody;
use crate::disk::{Collected, Gc, GcEvent};
use crate::image::{ImageEvent, ImageList, ImportImages, PullImage};
use crate::moves::{Assign, MoveEvent, Moved, Sync};
use crate::work::{Capture, CaptureEvent, Captured};
use bytes::Bytes;
use holm_core::{Fault, WorkspaceId};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One line of a response.
enum Line<A> {
    Progress(String, u64, u64),
    Answer(A),
    Error(ErrorBody),
}

// === impl Client ===

impl Client {
    /// Deletes unused data and calls `progress` on the way.
    pub async fn gc(
        &self,
        gc: &Gc,
        progress: impl FnMut(&str, u64, u64),
    ) -> Result<Collected, Fault> {
        let line = |event| match event {
            GcEvent::Progress { step, done, total } => Line::Progress(step, done, total),
            GcEvent::Done(collected) => Line::Answer(collected),
            GcEvent::Error(error) => Line::Error(ErrorBody { error }),
        };
        self.watch("/gc", gc, line, progress).await
    }

    /// Pulls an image from its registry and calls `progress` on the way.
    pub async fn pull_image(
        &self,
        pull: &PullImage,
        progress: impl FnMut(&str, u64, u64),
    ) -> Result<ImageList, Fault> {
        self.watch("/images", pull, images, progress).await
    }

    /// Takes the images of an uploaded archive and calls `progress` on the way.
    pub async fn import_images(
        &self,
        import: &ImportImages,
        progress: impl FnMut(&str, u64, u64),
    ) -> Result<ImageList, Fault> {
        self.watch("/images/import", import, images, progress).await
    }

    /// Writes the working tree as git objects and calls `progress` on the way.
    pub async fn capture(
        &self,
        id: &WorkspaceId,
        capture: &Capture,
        progress: impl FnMut(&str, u64, u64),
    ) -> Result<Captured, Fault> {
        let route = format!("/workspaces/{id}/capture");
        let line = |event| match event {
            CaptureEvent::Progress { step, done, total } => Line::Progress(step, done, total),
            CaptureEvent::Captured(captured) => Line::Answer(*captured),
            CaptureEvent::Error(error) => Line::Error(ErrorBody { error }),
        };
        self.watch(&route, capture, line, progress).await
    }

    /// Moves a workspace to another commit and calls `progress` on the way.
    pub async fn assign(
        &self,
        id: &WorkspaceId,
        assign: &Assign,
        progress: impl FnMut(&str, u64, u64),
    ) -> Result<Moved, Fault> {
        let route = format!("/workspaces/{id}/assign");
        self.watch(&route, assign, moved, progress).await
    }

    /// Fast-forwards a workspace, if its own changes allow that.
    pub async fn sync(
        &self,
        id: &WorkspaceId,
        sync: &Sync,
        progress: impl FnMut(&str, u64, u64),
    ) -> Result<Moved, Fault> {
        let route = format!("/workspaces/{id}/sync");
        self.watch(&route, sync, moved, progress).await
    }

    async fn watch<E: DeserializeOwned, A>(
        &self,
        route: &str,
        body: &impl Serialize,
        line: impl Fn(E) -> Line<A>,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<A, Fault> {
        let body = full(Bytes::from(serde_json::to_vec(body).map_err(not_json)?));
        let (response, _connection) = self.transport.send(Method::POST, route, body).await?;
        let mut lines = Lines::new(good(response).await?.into_body());
        loop {
            match line(lines.next().await?) {
                Line::Progress(step, done, total) => progress(&step, done, total),
                Line::Answer(answer) => return Ok(answer),
                Line::Error(error) => return Err(error.into()),
            }
        }
    }
}

fn images(event: ImageEvent) -> Line<ImageList> {
    match event {
        ImageEvent::Progress { step, done, total } => Line::Progress(step, done, total),
        ImageEvent::Done(list) => Line::Answer(list),
        ImageEvent::Error(error) => Line::Error(ErrorBody { error }),
    }
}

fn moved(event: MoveEvent) -> Line<Moved> {
    match event {
        MoveEvent::Progress { step, done, total } => Line::Progress(step, done, total),
        MoveEvent::Moved(moved) => Line::Answer(*moved),
        MoveEvent::Error(error) => Line::Error(ErrorBody { error }),
    }
}
