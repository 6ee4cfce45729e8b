//! `/workspaces/{id}/turns`, and the differences between turns.

use super::Effort;
use crate::App;
use crate::failure::{Answer, Body, Failure, Parameters, WorkspaceKey};
use crate::view;
use crate::work::{escaped, turn_number};
use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use holm_api::review::{Extent, Marked, Turn, TurnList, TurnState, TurnWish};
use holm_api::workspace::{ChangedFile, Dirty};
use holm_core::hunk::{self, FilePatch};
use holm_core::tree_change::{TreeChange, sum_of_lines};
use holm_core::turn::TurnNumber;
use holm_core::{Cause, Code, Fault, WorkspaceId};
use holm_engine::review::TurnRecord;
use holm_engine::try_blocking;
use holm_secrets::mask::{Known, Masker};
use serde::Deserialize;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};
use utoipa::IntoParams;

const CHUNK: usize = 64 * 1024;

/// A longer patch is not read by people.
const MOST_DIFF: u64 = 4 << 30;

/// How much of one file a page gets.
const MOST_HUNKS: usize = 16 << 20;
const MOST_LINES: usize = 100_000;
const CONTEXT: usize = 3;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OneFile {
    /// A turn (`@2`) instead of the commit that the workspace started from.
    from: Option<String>,
    /// A turn (`@3`) instead of the last one.
    to: Option<String>,
    /// The file, as a review names it.
    path: String,
    /// How many unchanged lines to list around each changed one; 3 without it.
    context: Option<usize>,
}

operations! {
    /// The turns of a workspace, the oldest first.
    get "/workspaces/{id}/turns" "turn_list" list of (WorkspaceKey) -> TurnList;
    /// Records the tree of this moment as a turn, if it is another one than before.
    post "/workspaces/{id}/turns" "turn_mark" mark of (WorkspaceKey) -> Marked;
    /// The changed lines of one file between two turns.
    get "/workspaces/{id}/hunks" "hunks" hunks of (WorkspaceKey, OneFile) -> FilePatch;
    /// A turn as the uncommitted state of a new workspace. The pack can be used once.
    post "/workspaces/{id}/turns/state" "turn_state" state
        of (WorkspaceKey) sends TurnWish -> TurnState;
}

async fn list(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<TurnList> {
    // An unknown workspace is an error, also for one that never had a turn.
    app.engine.project_of(&id).await?;
    let turns = app.engine.turns(&id).await?;
    let since_start = match turns.last() {
        Some(last) => app.since_start(last).await.inspect_err(|fault| {
            tracing::warn!(%id, %fault, "the turns are listed without what they changed since the start");
        }),
        None => return Ok(Json(TurnList::default())),
    };
    let turns = turns.iter().map(turn).collect();
    Ok(Json(TurnList {
        turns,
        since_start: since_start.ok(),
    }))
}

async fn mark(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Marked> {
    let recorded = app.mark_turn(&id, Effort::Read).await?;
    Ok(Json(Marked {
        turn: recorded.turn.as_ref().map(turn),
        recorded: recorded.is_new,
    }))
}

async fn hunks(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(of): Parameters<OneFile>,
) -> Answer<FilePatch> {
    let between = [turn_number(of.from)?, turn_number(of.to)?];
    let context = of.context.unwrap_or(CONTEXT).min(MOST_LINES);
    Ok(Json(app.hunks(&id, between, &of.path, context).await?))
}

async fn state(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(wish): Body<TurnWish>,
) -> Answer<TurnState> {
    let turn = app.turn(&id, TurnNumber(wish.turn)).await?;
    if wish.only_commit {
        let commit = turn.details.start;
        return Ok(Json(TurnState {
            commit,
            dirty: None,
        }));
    }
    let objects = app.turn_objects(&id).await?;
    let (name, received) = app.uploads.new_file();
    let path = received.path().to_owned();
    let (tree, commit) = (turn.tree.clone(), turn.details.start.clone());
    let (changes, index_tree) = try_blocking(move || {
        objects.pack(&tree, commit.as_deref(), &path)?;
        let changes = objects.changes(commit.as_deref(), &tree)?;
        Ok((changes, objects.tree_of(commit.as_deref())?))
    })
    .await?;
    received.keep();
    let changed = changed_files(&changes).into_iter();
    let changed = changed.map(|(path, object)| ChangedFile { path, object });
    Ok(Json(TurnState {
        dirty: Some(Dirty {
            pack: name,
            worktree_tree: turn.tree,
            index_tree,
            intended: Vec::new(),
            changed: changed.collect(),
        }),
        commit: turn.details.start,
    }))
}

/// Changed paths with the ids of their content; `None`: deleted. Only whole names can be inputs of a set-up.
pub fn changed_files(changes: &[TreeChange]) -> Vec<(String, Option<String>)> {
    let gone = changes
        .iter()
        .filter_map(|change| Some((change.from.as_ref()?, None)));
    let changed = changes.iter().map(|change| {
        let new = change.new.as_ref();
        (&change.path, new.map(|entry| entry.object.clone()))
    });
    let changed = changed.chain(gone);
    changed
        .filter_map(|(path, object)| Some((String::from_utf8(path.clone()).ok()?, object)))
        .collect()
}

pub fn turn(record: &TurnRecord) -> Turn {
    Turn {
        n: record.number,
        at: view::time(record.at),
        cause: record.cause,
        tree: record.tree.clone(),
        files: record.details.files,
        added: record.details.added,
        removed: record.details.removed,
    }
}

// === impl App ===

impl App {
    /// A patch between two turns, with the workspace's secrets masked. Without `from` it begins at the
    /// commit that the workspace started from; without `to` it ends at the last turn.
    pub async fn diff_of_turns(
        &self,
        id: &WorkspaceId,
        from: Option<TurnNumber>,
        to: Option<TurnNumber>,
    ) -> Result<Response, Failure> {
        let (from, to) = self.ends(id, [from, to]).await?;
        self.patch(id, from, to).await
    }

    /// The trees of two turns.
    async fn ends(
        &self,
        id: &WorkspaceId,
        [from, to]: [Option<TurnNumber>; 2],
    ) -> Result<(Option<String>, String), Fault> {
        let to = match to {
            Some(number) => self.turn(id, number).await?,
            None => self.last_turn(id).await?,
        };
        let from = match from {
            Some(number) => Some(self.turn(id, number).await?.tree),
            None => to.details.start.clone(),
        };
        Ok((from, to.tree))
    }

    pub async fn last_turn(&self, id: &WorkspaceId) -> Result<TurnRecord, Fault> {
        let last = self.engine.last_turn(id).await?;
        last.ok_or_else(|| {
            Fault::new(
                Code::TurnNotFound,
                format!("workspace {id} has no turn yet"),
                format!("`holm review {id} --mark` records one"),
            )
        })
    }

    /// What a turn changed since the commit that its workspace started from. One process, and none for the first turn.
    async fn since_start(&self, turn: &TurnRecord) -> Result<Extent, Fault> {
        let details = &turn.details;
        if turn.number == 1 {
            return Ok(Extent {
                files: details.files,
                added: details.added,
                removed: details.removed,
            });
        }
        let objects = self.turn_objects(&turn.workspace).await?;
        let (start, tree) = (details.start.clone(), turn.tree.clone());
        let changes = try_blocking(move || Ok(objects.changes(start.as_deref(), &tree)?)).await?;
        let (added, removed) = sum_of_lines(&changes);
        Ok(Extent {
            files: changes.len() as u64,
            added,
            removed,
        })
    }

    async fn patch(
        &self,
        id: &WorkspaceId,
        from: Option<String>,
        to: String,
    ) -> Result<Response, Failure> {
        let objects = self.turn_objects(id).await?;
        let command = try_blocking(move || Ok(objects.patch(from.as_deref(), &to)?)).await?;
        let reading = self.read_patch(id, command).await?;
        // The client recognises an incomplete patch by a broken body.
        let pieces = stream::try_unfold(reading, |mut reading| async move {
            let piece = reading.next().await?;
            Ok::<_, io::Error>(piece.map(|piece| (piece, reading)))
        });
        let kind = [(header::CONTENT_TYPE, "text/x-patch")];
        Ok((kind, HttpBody::from_stream(pieces)).into_response())
    }

    /// The changed lines of one file between two turns, with the workspace's secrets masked.
    pub async fn hunks(
        &self,
        id: &WorkspaceId,
        between: [Option<TurnNumber>; 2],
        path: &str,
        context: usize,
    ) -> Result<FilePatch, Fault> {
        let (from, to) = self.ends(id, between).await?;
        let objects = self.turn_objects(id).await?;
        let wanted = path.to_owned();
        let command = try_blocking(move || {
            let changes = objects.changes(from.as_deref(), &to)?;
            let mut changes = changes.iter();
            let change = changes.find(|change| escaped(&change.path) == wanted);
            let Some(change) = change else {
                let wanted = wanted.escape_debug();
                let message = format!("`{wanted}` did not change between these turns");
                let hint = "`GET /workspaces/{id}/review` lists the files";
                return Err(Fault::new(Code::PathNotFound, message, hint));
            };
            Ok(objects.patch_of(from.as_deref(), &to, change, context)?)
        });
        let mut reading = self.read_patch(id, command.await?).await?;
        let mut patch = Vec::new();
        while let Some(piece) = reading.next().await.map_err(diff_failed)? {
            patch.extend_from_slice(&piece);
            // The rest would not be listed.
            if patch.len() > MOST_HUNKS {
                break;
            }
        }
        Ok(hunk::parse(&String::from_utf8_lossy(&patch), MOST_LINES))
    }

    /// Starts git and masks what it writes.
    async fn read_patch(
        &self,
        id: &WorkspaceId,
        command: std::process::Command,
    ) -> Result<Reading, Fault> {
        let known = self.secrets_of(id).await?;
        let mut command = Command::from(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().map_err(diff_failed)?;
        let output = child.stdout.take();
        let output = output.ok_or_else(|| diff_failed("it has no output"))?;
        Ok(Reading {
            child,
            output,
            masker: Masker::new(known),
            length: 0,
            is_over: false,
        })
    }

    /// The values that must not be shown.
    pub async fn secrets_of(&self, id: &WorkspaceId) -> Result<Known, Fault> {
        let spec = match self.engine.spec(id).await {
            Ok(spec) if !spec.secrets.is_empty() => spec,
            // A workspace in the trash has none any more.
            _ => return Ok(Known::none()),
        };
        let secrets = Arc::clone(&self.secrets);
        try_blocking(move || {
            let grants = secrets.grants(&spec)?;
            let values = grants.iter().filter_map(|grant| grant.value.as_ref());
            Ok(Known::new(values))
        })
        .await
    }
}

/// A patch that git is writing.
struct Reading {
    child: Child,
    output: ChildStdout,
    masker: Masker,
    length: u64,
    is_over: bool,
}

// === impl Reading ===

impl Reading {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.is_over {
            return Ok(None);
        }
        let mut chunk = vec![0; CHUNK];
        let piece = match self.output.read(&mut chunk).await? {
            0 => {
                let status = self.child.wait().await?;
                if !status.success() {
                    return Err(io::Error::other("git diff-tree failed"));
                }
                self.is_over = true;
                self.masker.finish()
            }
            length => self.masker.take(&chunk[..length]),
        };
        self.length += piece.len() as u64;
        if self.length > MOST_DIFF {
            return Err(io::Error::other("the patch is too long"));
        }
        Ok(Some(Bytes::from(piece)))
    }
}

fn diff_failed(cause: impl Into<Cause>) -> Fault {
    let hint = "see the daemon's log; `holm daemon status` says where it is";
    Fault::new(Code::GitFailed, "`git diff-tree` failed", hint).because(cause)
}
