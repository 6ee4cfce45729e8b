//! `/workspaces/{id}/files`: files of a workspace's tree, through a program of ours inside.
//!
//! Content is streamed, except for a file to write, which must be complete before anything is
//! touched. Data from inside is passed on as bytes or shown as JSON.

mod masked;
mod query;

use super::App;
use super::failure::{Answer, Failure, WorkspaceKey, bad_request};
use super::work::escaped;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use holm_api::files::{FileDone, FileEntry, FileList, FileMatch, FileMatches, RawBytes};
use holm_core::exec::Masking;
use holm_core::files::{
    Depth, Entry, Head, Kind, MOST_ARCHIVE, Match, Operation, Page, Parents, Range, Search, Syntax,
    Write,
};
use holm_core::{Code, Fault, TreePath};
use holm_engine::files::{Content, FileAnswer, FileBody, FileRequest, Piece};
use jiff::Timestamp;
use masked::Part;
use query::FileQuery;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The size limit of a written file: it is held in memory until it is complete.
const MOST_WRITTEN: u64 = 64 << 20;

const ORDINARY_PAGE: usize = 1000;
const MOST_ENTRIES: usize = 5000;
const ORDINARY_MATCHES: usize = 200;
const MOST_MATCHES: usize = 2000;
const MOST_PATTERN: usize = 1000;

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(get, put, delete))
        .routes(routes!(stat))
        .routes(routes!(search))
        .routes(routes!(download, upload))
}

/// A directory as a list, a file as its bytes.
#[utoipa::path(
    get,
    path = "/workspaces/{id}/files",
    operation_id = "file_get",
    params(
        WorkspaceKey,
        ("path" = Option<String>, Query, description = "below the project's root; left out: the root"),
        ("after" = Option<String>, Query, description = "of a directory: what comes after this name"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 5000, description = "of a directory: at most so many"),
        ("offset" = Option<u64>, Query, description = "of a file: from this byte on"),
        ("length" = Option<u64>, Query, description = "of a file: at most so many bytes"),
        ("mask" = Option<bool>, Query, description = "of a file: with stars for the bytes of the workspace's secrets")
    ),
    responses((status = 200, content(
        (FileList = "application/json"),
        (RawBytes = "application/octet-stream")
    )))
)]
async fn get(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    mut query: FileQuery,
) -> Result<Response, Failure> {
    let path = query.path()?;
    let is_list = query.has("after") || query.has("limit");
    let is_read = query.has("offset") || query.has("length") || query.has("mask");
    let mut part = None;
    let operation = match (is_list, is_read) {
        (false, false) => Operation::Get,
        (true, false) => Operation::List(Page {
            after: query.bytes("after"),
            limit: query.limit(ORDINARY_PAGE, MOST_ENTRIES)?,
        }),
        (false, true) => {
            let mut range = Range {
                offset: query.number("offset")?.unwrap_or(0),
                length: query.number("length")?,
            };
            if query.flag("mask")? {
                let (masked, wider) = Part::of(&range);
                (part, range) = (Some(masked), wider);
            }
            Operation::Read(range)
        }
        (true, true) => {
            let why =
                "`after` and `limit` are of directories, `offset`, `length` and `mask` of files";
            return Err(bad_request(why));
        }
    };
    query.end()?;
    let masking = match part {
        Some(_) => Masking::Bytes,
        None => Masking::Never,
    };
    let request = FileRequest {
        path,
        operation,
        masking,
    };
    let answer = app.engine.file_masked(&id, request, Content::nothing());
    let FileAnswer { head, body } = answer.await?;
    match head {
        Head::Listed { entries, more } => {
            let entries = entries.into_iter().map(entry).collect();
            Ok(Json(FileList { entries, more }).into_response())
        }
        Head::Content { length, .. } => {
            let kind = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
            let (length, body) = match part {
                Some(part) => (part.length(length), part.body(body, length)),
                None => (length, passed_on(body)),
            };
            let length = (header::CONTENT_LENGTH, length.to_string());
            Ok(([kind, length], body).into_response())
        }
        _ => Err(wrong_answer()),
    }
}

/// Metadata of a path.
#[utoipa::path(
    get,
    path = "/workspaces/{id}/files/stat",
    operation_id = "file_stat",
    params(
        WorkspaceKey,
        ("path" = Option<String>, Query, description = "below the project's root; left out: the root")
    ),
    responses((status = 200, body = FileEntry))
)]
async fn stat(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    mut query: FileQuery,
) -> Answer<FileEntry> {
    let path = query.path()?;
    query.end()?;
    let content = Content::nothing();
    let answer = app.engine.file(&id, path, Operation::Stat, content).await?;
    match answer.head {
        Head::Entry(found) => Ok(Json(entry(found))),
        _ => Err(wrong_answer()),
    }
}

/// Writes a file atomically.
#[utoipa::path(
    put,
    path = "/workspaces/{id}/files",
    operation_id = "file_write",
    params(
        WorkspaceKey,
        ("path" = Option<String>, Query, description = "below the project's root; left out: the root"),
        ("mode" = Option<String>, Query, pattern = "^[0-7]{1,3}$", description = "permission bits, in octal"),
        ("parents" = Option<bool>, Query, description = "make directories that are missing")
    ),
    request_body(content = RawBytes, content_type = "application/octet-stream"),
    responses((status = 200, body = FileEntry))
)]
async fn put(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    mut query: FileQuery,
    body: Body,
) -> Answer<FileEntry> {
    let path = query.path()?;
    let mode = query.mode()?;
    let parents = if query.flag("parents")? {
        Parents::Make
    } else {
        Parents::Require
    };
    query.end()?;
    let bytes = whole(body).await?;
    let operation = Operation::Write(Write {
        length: bytes.len() as u64,
        mode,
        parents,
    });
    let content = Content::whole(bytes);
    let answer = app.engine.file(&id, path, operation, content).await?;
    match answer.head {
        Head::Entry(written) => Ok(Json(entry(written))),
        _ => Err(wrong_answer()),
    }
}

/// Deletes a file or a directory.
#[utoipa::path(
    delete,
    path = "/workspaces/{id}/files",
    operation_id = "file_delete",
    params(
        WorkspaceKey,
        ("path" = Option<String>, Query, description = "below the project's root; left out: the root"),
        ("recursive" = Option<bool>, Query, description = "with everything below it")
    ),
    responses((status = 200, body = FileDone))
)]
async fn delete(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    mut query: FileQuery,
) -> Answer<FileDone> {
    let path = query.path()?;
    let depth = if query.flag("recursive")? {
        Depth::Whole
    } else {
        Depth::One
    };
    query.end()?;
    if path.is_root() {
        let message = "the project's root is not deleted";
        let hint = "`holm rm` removes the workspace; `path=` names what is in it";
        return Err(Failure(Fault::new(Code::Refused, message, hint)));
    }
    let (operation, content) = (Operation::Delete(depth), Content::nothing());
    let answer = app.engine.file(&id, path.clone(), operation, content);
    done(answer.await?, &path)
}

/// Searches text in files.
#[utoipa::path(
    get,
    path = "/workspaces/{id}/files/search",
    operation_id = "file_search",
    params(
        WorkspaceKey,
        ("path" = Option<String>, Query, description = "below the project's root; left out: the root"),
        ("pattern" = String, Query, min_length = 1, max_length = 1000, description = "what to look for"),
        ("regex" = Option<bool>, Query, description = "the pattern is a regular expression"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 2000, description = "at most so many matches")
    ),
    responses((status = 200, body = FileMatches))
)]
async fn search(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    mut query: FileQuery,
) -> Answer<FileMatches> {
    let path = query.path()?;
    let pattern = query.text("pattern")?.unwrap_or_default();
    if pattern.is_empty() || pattern.len() > MOST_PATTERN {
        let why = format!("`pattern` is not of 1 to {MOST_PATTERN} bytes");
        return Err(bad_request(why));
    }
    let syntax = if query.flag("regex")? {
        Syntax::Regex
    } else {
        Syntax::Literal
    };
    let limit = query.limit(ORDINARY_MATCHES, MOST_MATCHES)?;
    query.end()?;
    let operation = Operation::Search(Search {
        pattern,
        syntax,
        limit,
    });
    let content = Content::nothing();
    let answer = app.engine.file(&id, path, operation, content).await?;
    match answer.head {
        Head::Found(found) => Ok(Json(FileMatches {
            matches: found.matches.into_iter().map(matched).collect(),
            more: found.more,
            skipped: found.skipped,
        })),
        _ => Err(wrong_answer()),
    }
}

/// A directory as a tar archive. Files that the workspace's user may not read are refused before
/// the first byte; an archive that fails later has no end, which readers detect.
#[utoipa::path(
    get,
    path = "/workspaces/{id}/files/archive",
    operation_id = "file_download",
    params(
        WorkspaceKey,
        ("path" = Option<String>, Query, description = "below the project's root; left out: the root")
    ),
    responses((status = 200, content_type = "application/x-tar", body = RawBytes))
)]
async fn download(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    mut query: FileQuery,
) -> Result<Response, Failure> {
    let path = query.path()?;
    query.end()?;
    let content = Content::nothing();
    let answer = app.engine.file(&id, path, Operation::Pack, content).await?;
    match answer.head {
        Head::Archive => {
            let kind = [(header::CONTENT_TYPE, "application/x-tar")];
            Ok((kind, passed_on(answer.body)).into_response())
        }
        _ => Err(wrong_answer()),
    }
}

/// Unpacks a tar archive.
#[utoipa::path(
    put,
    path = "/workspaces/{id}/files/archive",
    operation_id = "file_upload",
    params(
        WorkspaceKey,
        ("path" = Option<String>, Query, description = "below the project's root; left out: the root")
    ),
    request_body(content = RawBytes, content_type = "application/x-tar"),
    responses((status = 200, body = FileDone))
)]
async fn upload(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    mut query: FileQuery,
    body: Body,
) -> Answer<FileDone> {
    let path = query.path()?;
    query.end()?;
    let (sender, pieces) = mpsc::channel(1);
    let content = Content::stream(pieces);
    let unpacking = app
        .engine
        .file(&id, path.clone(), Operation::Unpack, content);
    let (unpacked, fed) = tokio::join!(unpacking, feed(body, sender));
    fed?;
    done(unpacked?, &path)
}

/// Passes a body on. If it is not needed any more it is still read, so that the client gets the
/// reason.
async fn feed(body: Body, to: mpsc::Sender<Piece>) -> Result<(), Failure> {
    let mut chunks = body.into_data_stream();
    let mut length = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(bad_request)?;
        length += chunk.len() as u64;
        if length > MOST_ARCHIVE {
            return Err(too_large("the archive", MOST_ARCHIVE));
        }
        let _ = to.send(Piece::Bytes(chunk.to_vec())).await;
    }
    let _ = to.send(Piece::End).await;
    Ok(())
}

/// Reads a complete body. Excess data is still read, within limits, so that the client gets the
/// reason.
async fn whole(body: Body) -> Result<Vec<u8>, Failure> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(bad_request)?;
        length += chunk.len() as u64;
        if length > MOST_ARCHIVE {
            break;
        }
        if length > MOST_WRITTEN {
            bytes = Vec::new()
        } else {
            bytes.extend_from_slice(&chunk)
        }
    }
    if length > MOST_WRITTEN {
        Err(too_large("what is to be written", MOST_WRITTEN))
    } else {
        Ok(bytes)
    }
}

/// The client recognises an incomplete response by a broken body.
fn passed_on(body: FileBody) -> Body {
    let pieces = stream::try_unfold(body, |mut body| async move {
        match body.next().await {
            Ok(piece) => Ok(piece.map(|bytes| (bytes, body))),
            Err(fault) => {
                // Headers are sent already; the log is the only place for the reason.
                tracing::warn!(%fault, "content from inside broke off");
                Err(io::Error::other(fault.message()))
            }
        }
    });
    Body::from_stream(pieces)
}

fn done(answer: FileAnswer, path: &TreePath) -> Answer<FileDone> {
    match answer.head {
        Head::Done => Ok(Json(FileDone {
            path: escaped(path.as_bytes()),
        })),
        _ => Err(wrong_answer()),
    }
}

fn entry(entry: Entry) -> FileEntry {
    let kind = match entry.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
        Kind::Other => "other",
    };
    FileEntry {
        name: escaped(&entry.name),
        kind: kind.to_owned(),
        size: entry.size,
        mode: format!("{:04o}", entry.mode),
        modified: time(entry.seconds, entry.nanoseconds).to_string(),
        target: entry.target.as_deref().map(escaped),
        name_bytes: raw(&entry.name),
        target_bytes: entry.target.as_deref().and_then(raw),
    }
}

fn matched(found: Match) -> FileMatch {
    FileMatch {
        path: escaped(&found.path),
        line: found.line,
        text: escaped(&found.text),
        path_bytes: raw(&found.path),
    }
}

/// Only if the text is not exact.
fn raw(name: &[u8]) -> Option<Vec<u8>> {
    std::str::from_utf8(name).is_err().then(|| name.to_vec())
}

/// File times outside the calendar become its first or last time.
fn time(seconds: i64, nanoseconds: u32) -> Timestamp {
    let nanoseconds = i32::try_from(nanoseconds).unwrap_or(0);
    Timestamp::new(seconds, nanoseconds).unwrap_or(match seconds {
        ..0 => Timestamp::MIN,
        _ => Timestamp::MAX,
    })
}

fn too_large(what: &str, most: u64) -> Failure {
    let message = format!("{what} is more than {} MiB", most >> 20);
    let hint = "send less at a time; larger files go in by `holm exec WS -- sh -c 'cat > FILE'`";
    Failure(Fault::new(Code::TooLarge, message, hint))
}

fn wrong_answer() -> Failure {
    let message = "the program inside answered something else than was asked";
    let hint = "try again; `holm restart` renews the workspace's processes";
    Failure(Fault::new(Code::ExecFailed, message, hint))
}
