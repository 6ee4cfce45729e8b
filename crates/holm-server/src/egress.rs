//! `GET /workspaces/{id}/egress`: the keeper's egress record; with `follow`, line by line as it is
//! written.

use super::App;
use super::failure::{Failure, Parameters, WorkspaceKey};
use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use holm_api::egress::{EgressEntry, EgressList};
use holm_engine::try_blocking;
use serde::Deserialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The default and the maximum of entries.
const USUAL: usize = 1000;
const MOST: usize = 100_000;

/// How often the record is polled for followers.
const OFTEN: Duration = Duration::from_millis(200);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    limit: Option<usize>,
    #[serde(default)]
    follow: bool,
}

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(egress))
}

/// What left the workspace and what was refused.
#[utoipa::path(
    get,
    path = "/workspaces/{id}/egress",
    operation_id = "workspace_egress",
    params(WorkspaceKey, Which),
    responses((status = 200, content(
        (EgressList = "application/json"),
        (EgressEntry = "application/jsonl")
    )))
)]
async fn egress(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Failure> {
    app.engine.spec(&id).await?;
    let limit = which.limit.unwrap_or(USUAL).min(MOST);
    let files = app.linux.egress_record(&id);
    let current = files.last().cloned().unwrap_or_default();
    let (last, end) = try_blocking(move || Ok(last_lines(&files, limit))).await?;
    if !which.follow {
        let read = |line: String| serde_json::from_str::<EgressEntry>(&line).ok();
        let egress = last.into_iter().filter_map(read).collect();
        return Ok(Json(EgressList { egress }).into_response());
    }
    let mut first = last.join("\n").into_bytes();
    if !first.is_empty() {
        first.push(b'\n');
    }
    let lines = stream::unfold(Some((Tail::new(current, end), first)), |state| async move {
        let (mut tail, mut ready) = state?;
        while ready.is_empty() {
            tokio::time::sleep(OFTEN).await;
            // An unreadable record may be readable at the next poll.
            (tail, ready) = tokio::task::spawn_blocking(move || {
                let fresh = tail.read().unwrap_or_default();
                (tail, fresh)
            })
            .await
            .ok()?;
        }
        Some((io::Result::Ok(Bytes::from(ready)), Some((tail, Vec::new()))))
    });
    let body = HttpBody::from_stream(lines);
    Ok(([(header::CONTENT_TYPE, "application/jsonl")], body).into_response())
}

/// The last lines of all files, and where the newest file ended.
fn last_lines(files: &[PathBuf], limit: usize) -> (Vec<String>, Option<Place>) {
    let mut last = VecDeque::new();
    let mut end = None;
    for path in files {
        // A missing file has no lines.
        let Ok(file) = File::open(path) else {
            end = None;
            continue;
        };
        let inode = file.metadata().map_or(0, |metadata| metadata.ino());
        let mut read = 0;
        let mut reader = BufReader::new(file);
        let mut line = String::new();
        while let Ok(length) = reader.read_line(&mut line)
            && line.ends_with('\n')
        {
            read += length as u64;
            last.push_back(line.trim_end().to_owned());
            if last.len() > limit {
                last.pop_front();
            }
            line.clear();
        }
        end = Some(Place { inode, read });
    }
    (last.into(), end)
}

/// How far a file was read.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    inode: u64,
    read: u64,
}

/// Follows a file that grows and is sometimes rotated.
pub struct Tail {
    path: PathBuf,
    place: Option<Place>,
}

// === impl Tail ===

impl Tail {
    pub fn new(path: PathBuf, place: Option<Place>) -> Self {
        Self { path, place }
    }

    /// For readers that want only new lines.
    pub fn at_the_end(path: PathBuf) -> Self {
        let place = std::fs::metadata(&path).ok().map(|metadata| Place {
            inode: metadata.ino(),
            read: metadata.len(),
        });
        Self { path, place }
    }

    /// The complete lines since the last call.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut fresh = Vec::new();
        let inode = inode(&self.path)?;
        if let Some(place) = self.place
            && place.inode != inode
        {
            // Lines that were written to the old file before the rotation.
            let mut name = self.path.as_os_str().to_owned();
            name.push(".1");
            let before = PathBuf::from(name);
            if inode_is(&before, place.inode) {
                self.take(&before, &mut fresh)?;
            }
            self.place = None;
        }
        let place = self.place.get_or_insert(Place { inode, read: 0 });
        place.inode = inode;
        let path = self.path.clone();
        self.take(&path, &mut fresh)?;
        Ok(fresh)
    }

    fn take(&mut self, path: &Path, fresh: &mut Vec<u8>) -> io::Result<()> {
        let Some(place) = &mut self.place else {
            return Ok(());
        };
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(place.read))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(whole.map_or(0, |end| end + 1));
        place.read += bytes.len() as u64;
        fresh.extend(bytes);
        Ok(())
    }
}

fn inode(path: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.ino())
}

fn inode_is(path: &Path, expected: u64) -> bool {
    inode(path).is_ok_and(|found| found == expected)
}
