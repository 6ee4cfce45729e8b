//! `/workspaces/{id}/capture`, `/changes` and `/diff`: the work done in a workspace.

use super::failure::{Answer, Body, Failure, Parameters, WorkspaceKey, bad_request, error_body};
use super::{App, jsonl};
use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holm_api::work::{Capture, CaptureEvent, Captured, Change, ChangeList};
use holm_core::exec::{ExecInput, ExecOutput};
use holm_core::tree_change::TreeChange;
use holm_core::turn::TurnNumber;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::Progress;
use holm_engine::progress::ProgressEvent;
use holm_engine::{inside, work};
use holm_keeper::client::ExecStream;
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc;
use utoipa::IntoParams;

/// How many names of uncommitted files are listed.
const MOST_NAMES: usize = 10;

/// A longer patch is not read by people.
const MOST_DIFF: u64 = 4 << 30;

/// The parameters of `changes` and `diff`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Of {
    tree: Option<String>,
}

/// The parameters of `diff`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Between {
    tree: Option<String>,
    /// A turn (`@2`) instead of the commit that the workspace started from.
    from: Option<String>,
    /// A turn (`@3`) instead of the tree of now; with `from` alone, the last turn.
    to: Option<String>,
}

operations! {
    [diff]
    /// Writes the working tree as git objects.
    post "/workspaces/{id}/capture" "workspace_capture" capture
        of (WorkspaceKey) sends Capture streams CaptureEvent until "captured";
    /// Files that differ from the commit it started from.
    get "/workspaces/{id}/changes" "workspace_changes" changes of (WorkspaceKey, Of) -> ChangeList;
}

async fn capture(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(capture): Body<Capture>,
) -> Result<Response, Failure> {
    let is_zero = |message: &String| message.contains('\0');
    if capture.commit.as_ref().is_some_and(is_zero) {
        return Err(bad_request("the message has a zero byte"));
    }
    let (progress, events) = mpsc::unbounded_channel();
    let capturing = async move {
        let how = work::Capture {
            message: capture.commit,
            depth: capture.depth,
        };
        match app.engine.capture(&id, how, Progress::to(progress)).await {
            Ok(captured) => CaptureEvent::Captured(Box::new(captured_to_api(captured))),
            Err(fault) => CaptureEvent::Error(error_body(&fault).error),
        }
    };
    let report = |ProgressEvent { step, done, total }| CaptureEvent::Progress { step, done, total };
    Ok(jsonl::progress(capturing, events, report))
}

async fn changes(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(of): Parameters<Of>,
) -> Answer<ChangeList> {
    let tree = app.tree(&id, of).await?;
    let changes = app.engine.changes(&id, &tree).await?;
    let changes = changes.into_iter().map(change).collect();
    Ok(Json(ChangeList { changes }))
}

/// The same as a patch.
#[utoipa::path(
    get,
    path = "/workspaces/{id}/diff",
    operation_id = "workspace_diff",
    params(WorkspaceKey, Between),
    responses((status = 200, content_type = "text/x-patch", body = String))
)]
async fn diff(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(of): Parameters<Between>,
) -> Result<Response, Failure> {
    if of.from.is_some() || of.to.is_some() {
        let (from, to) = (turn_number(of.from)?, turn_number(of.to)?);
        return app.diff_of_turns(&id, from, to).await;
    }
    let tree = app.tree(&id, Of { tree: of.tree }).await?;
    let mut patch = app.engine.diff(&id, &tree).await?;
    // A git that fails before any output gets an error response.
    let kind = [(header::CONTENT_TYPE, "text/x-patch")];
    let Some(first) = next_piece(&mut patch).await? else {
        return Ok((kind, HttpBody::empty()).into_response());
    };
    let state = (patch, first.len() as u64);
    // The client recognises an incomplete patch by a broken body.
    let pieces = stream::try_unfold(state, |(mut patch, length)| async move {
        let piece = next_piece(&mut patch).await.map_err(io::Error::other)?;
        Ok::<_, io::Error>(match piece {
            Some(piece) if length + piece.len() as u64 > MOST_DIFF => {
                // The program may have ended just now.
                let _ = patch.input.try_send(ExecInput::Hangup);
                return Err(io::Error::other("the patch is too long"));
            }
            Some(piece) => {
                let length = length + piece.len() as u64;
                Some((piece, (patch, length)))
            }
            None => None,
        })
    });
    let first = stream::iter([Ok(first)]);
    let body = HttpBody::from_stream(first.chain(pieces));
    Ok((kind, body).into_response())
}

/// Parses a turn as a person types it.
pub fn turn_number(text: Option<String>) -> Result<Option<TurnNumber>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let number = TurnNumber::parse(&text);
    number.map(Some).ok_or_else(|| {
        let text = text.escape_debug();
        bad_request(format!("`{text}` is not a turn; a turn is typed as `@3`"))
    })
}

async fn next_piece(patch: &mut ExecStream) -> Result<Option<Bytes>, Fault> {
    while let Some(output) = patch.output.recv().await {
        match output {
            ExecOutput::Stdout(bytes) => return Ok(Some(Bytes::from(bytes))),
            ExecOutput::Exit(0) => return Ok(None),
            ExecOutput::Exit(inside::TIMED_OUT) => return Err(inside::timed_out("diff-tree")),
            ExecOutput::Exit(code) => {
                return Err(diff_failed(&format!("ended with exit code {code}")));
            }
            ExecOutput::Failed(fault) => return Err(fault),
            ExecOutput::Started
            | ExecOutput::Kept
            | ExecOutput::Resumed { .. }
            | ExecOutput::Stderr(_)
            | ExecOutput::StdinTaken(_) => {}
        }
    }
    Err(diff_failed("ended without saying how"))
}

fn diff_failed(why: &str) -> Fault {
    Fault::new(
        Code::GitFailed,
        format!("`git diff-tree` inside the workspace {why}"),
        "look inside: `holm exec WS -- git status`",
    )
}

// === impl App ===

impl App {
    /// The requested tree: one that was captured earlier, or one that is captured now.
    async fn tree(&self, id: &WorkspaceId, of: Of) -> Result<String, Fault> {
        match of.tree {
            Some(text) => holm_core::head::object_id(text.as_bytes()).ok_or_else(|| {
                let message = "`tree` is not an object id";
                Fault::new(Code::BadRequest, message, "leave it out")
            }),
            None => {
                let captured = self
                    .engine
                    .capture(id, work::Capture::TREE, Progress::default());
                let captured = captured.await?;
                captured.tree.ok_or_else(|| {
                    let message = "a capture has no tree";
                    Fault::new(Code::Internal, message, "this is a bug; please report it")
                })
            }
        }
    }
}

fn captured_to_api(captured: work::Captured) -> Captured {
    let text = |name: &Vec<u8>| escaped(name);
    Captured {
        start: captured.start,
        dirty_start: captured.dirty_start,
        head: captured.head,
        tree: captured.tree,
        state: captured.state,
        uncommitted: captured.uncommitted.len() as u64,
        uncommitted_names: captured
            .uncommitted
            .iter()
            .take(MOST_NAMES)
            .map(text)
            .collect(),
        nested: captured.nested.iter().take(MOST_NAMES).map(text).collect(),
        unread: captured.unread,
        stashes: captured.aside.stashes as u64,
        aside: captured.aside.refs,
    }
}

fn change(change: TreeChange) -> Change {
    let raw = |name: &Vec<u8>| std::str::from_utf8(name).is_err().then(|| name.clone());
    Change {
        operation: change.operation().to_owned(),
        from: change.from.as_ref().map(|name| escaped(name)),
        binary: change.is_binary(),
        path_bytes: raw(&change.path),
        from_bytes: change.from.as_ref().and_then(raw),
        path: escaped(&change.path),
    }
}

/// A name as text; bytes that are not UTF-8 as `\xNN`.
pub fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
