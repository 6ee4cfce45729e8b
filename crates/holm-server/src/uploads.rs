//! `POST /uploads`: files that a client sends before the request that uses them.
//!
//! They are in `data_dir/incoming` under random names, readable by the daemon alone, and are
//! deleted after use or when a daemon starts.

use super::App;
use super::failure::{Answer, Failure, bad_request};
use super::startup::unusable;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use futures_util::StreamExt;
use holm_api::files::RawBytes;
use holm_api::workspace::Upload;
use holm_core::{Code, Fault, WorkspaceId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub struct Uploads {
    directory: PathBuf,
}

/// A directory that a client may fill with a tree.
pub struct NewTree {
    pub name: String,
    /// Has the directory `tree`.
    pub directory: PathBuf,
}

/// An uploaded file that is deleted when this is dropped.
#[derive(Debug)]
pub struct Received {
    path: PathBuf,
}

pub fn routes() -> OpenApiRouter<Arc<App>> {
    // An upload is streamed to disk, so only the disk limits its size.
    OpenApiRouter::new().routes(routes!(upload))
}

/// Uploads a file for a later request.
#[utoipa::path(
    post,
    path = "/uploads",
    operation_id = "upload",
    request_body(content = RawBytes, content_type = "application/octet-stream"),
    responses((status = 200, body = Upload))
)]
async fn upload(State(app): State<Arc<App>>, body: Body) -> Answer<Upload> {
    let (name, received) = app.uploads.new_file();
    let path = received.path();
    let failed = |error: io::Error| Failure(unusable("write", path, error));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).await.map_err(failed)?;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(bad_request)?;
        file.write_all(&chunk).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    received.keep();
    Ok(Json(Upload { upload: name }))
}

// === impl Uploads ===

impl Uploads {
    /// Takes over the directory, and deletes what an earlier daemon left.
    pub fn open(directory: PathBuf) -> Result<Self, Fault> {
        let failed = |error: io::Error| unusable("clear", &directory, error);
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !entry.file_type().map_err(failed)?.is_dir() {
                std::fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(Self { directory })
    }

    /// The upload of this name, for one use.
    pub fn take(&self, name: &str) -> Result<Received, Failure> {
        let is_name = WorkspaceId::parse(name).is_ok();
        let path = self.directory.join(name);
        if !is_name || !path.is_file() {
            return Err(Failure(Fault::new(
                Code::PathNotFound,
                format!("there is no upload `{}`", name.escape_debug()),
                "try again: an upload can be used once, by the daemon that received it",
            )));
        }
        Ok(Received { path })
    }

    /// An empty directory for a tree.
    pub fn new_tree(&self) -> Result<NewTree, Fault> {
        let name = WorkspaceId::random().to_string();
        let directory = self.directory.join(&name);
        let tree = directory.join("tree");
        std::fs::create_dir_all(&tree).map_err(|error| unusable("make", &tree, error))?;
        Ok(NewTree { name, directory })
    }

    /// The directory of a tree that was begun.
    pub fn take_tree(&self, name: &str) -> Result<PathBuf, Failure> {
        WorkspaceId::parse(name).map_err(|_| bad_request("`name` is not of a tree"))?;
        let directory = self.directory.join(name);
        if !directory.join("tree").is_dir() {
            let message = format!("there is no tree `{name}`");
            return Err(Failure(Fault::new(
                Code::PathNotFound,
                message,
                "begin it again",
            )));
        }
        Ok(directory)
    }

    pub fn new_file(&self) -> (String, Received) {
        // Of the same form as an id, and as hard to guess.
        let name = WorkspaceId::random().to_string();
        let path = self.directory.join(&name);
        (name, Received { path })
    }
}

// === impl Received ===

impl Received {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "an upload stays behind");
        }
    }
}
