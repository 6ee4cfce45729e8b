//! `/workspaces/{id}/assign` and `/sync`: moves a live workspace to another commit, with progress
//! line by line.

use super::caller::Caller;
use super::failure::{Body, Failure, WorkspaceKey, bad_request, error_body, project_id};
use super::{App, jsonl};
use crate::helper::program;
use axum::extract::State;
use axum::response::Response;
use holm_api::moves::{Assign, Move, MoveEvent, Moved, Reaction, Sync};
use holm_core::head::object_id;
use holm_core::image_reference::ImageReference;
use holm_core::moves::SetUp;
use holm_core::spec::Manner;
use holm_core::{Fault, WorkspaceId};
use holm_engine::progress::ProgressEvent;
use holm_engine::store::WorkspaceRecord;
use holm_engine::{Assign as Wanted, Progress};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;

/// The longest name of a ref that is stored.
const LONGEST_REF: usize = 1024;

const HOLM_TOML: &str = "holm.toml";

operations! {
    /// Moves a live workspace to another commit.
    post "/workspaces/{id}/assign" "workspace_assign" assign
        of (WorkspaceKey) sends Assign streams MoveEvent until "moved";
    /// The same, only forward.
    post "/workspaces/{id}/sync" "workspace_sync" sync
        of (WorkspaceKey) sends Sync streams MoveEvent until "moved";
}

async fn assign(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Body(assign): Body<Assign>,
) -> Result<Response, Failure> {
    let Some(commit) = assign.commit else {
        let reference = assign.reference.as_deref();
        let reference = reference.ok_or_else(|| bad_request("`ref` or `commit` is needed"))?;
        check_name(reference)?;
        let mut words = vec!["assign".to_owned(), id.to_string(), reference.to_owned()];
        words.extend(assign.stash.then(|| "--stash".to_owned()));
        return by_program(app, &caller, &id, words).await;
    };
    let wanted = Wanted {
        commit,
        ref_name: assign.reference,
        manner: if assign.stash {
            Manner::Stash
        } else {
            Manner::Refuse
        },
        shallow: assign.shallow,
        images: Vec::new(),
    };
    move_streaming(app, id, wanted, assign.built).await
}

async fn sync(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Body(sync): Body<Sync>,
) -> Result<Response, Failure> {
    let Some(commit) = sync.commit else {
        let mut words = vec!["sync".to_owned(), id.to_string()];
        if let Some(reference) = &sync.reference {
            check_name(reference)?;
            words.push(format!("--branch={reference}"));
        }
        return by_program(app, &caller, &id, words).await;
    };
    let wanted = Wanted {
        commit,
        ref_name: sync.reference,
        manner: Manner::Forward,
        shallow: sync.shallow,
        images: Vec::new(),
    };
    move_streaming(app, id, wanted, sync.built).await
}

/// Moves it as if the user had typed the command: the client's own program finds the commit in the user's
/// repository, and sends what the daemon lacks.
async fn by_program(
    app: Arc<App>,
    caller: &Caller,
    id: &WorkspaceId,
    mut words: Vec<String>,
) -> Result<Response, Failure> {
    caller.local().allow()?;
    let spec = app.engine.spec(id).await?;
    let project = app.engine.project(&project_id(&spec.project_id)?).await?;
    words.push("--no-wait".to_owned());
    let (_, reports) = mpsc::unbounded_channel();
    let moving = async move {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match program::holm(Path::new(&project.path), &words, None).await {
            Ok(moved) => MoveEvent::Moved(Box::new(moved)),
            Err(fault) => MoveEvent::Error(error_body(&fault).error),
        }
    };
    let report = |ProgressEvent { step, done, total }| MoveEvent::Progress { step, done, total };
    Ok(jsonl::progress(moving, reports, report))
}

/// The response body owns the move: it is dropped when the client disconnects.
async fn move_streaming(
    app: Arc<App>,
    id: WorkspaceId,
    mut wanted: Wanted,
    built: BTreeMap<String, ImageReference>,
) -> Result<Response, Failure> {
    check(&wanted)?;
    let spec = app.engine.spec(&id).await?;
    let project = project_id(&spec.project_id)?;
    let project = app.engine.project(&project).await?;
    app.require_commit(&wanted.commit, &project, "holm assign")
        .await?;
    let (images, held) = app.built_images(&spec, built).await?;
    wanted.images = images;
    let (progress, reports) = mpsc::unbounded_channel();
    let moving = async move {
        // Until the images are on record, `gc` must not delete them.
        let _held = held;
        match app.carry(&id, wanted, Progress::to(progress)).await {
            Ok(moved) => MoveEvent::Moved(Box::new(moved)),
            Err(fault) => MoveEvent::Error(error_body(&fault).error),
        }
    };
    let report = |ProgressEvent { step, done, total }| MoveEvent::Progress { step, done, total };
    Ok(jsonl::progress(moving, reports, report))
}

/// Validates what reaches a command line inside.
fn check(wanted: &Wanted) -> Result<(), Failure> {
    if object_id(wanted.commit.as_bytes()).is_none() {
        return Err(bad_request("`commit` is not a whole object id"));
    }
    let is_object = |line: &String| object_id(line.as_bytes()).is_some();
    if !wanted.shallow.iter().all(is_object) {
        return Err(bad_request(
            "`shallow` has something that is not an object id",
        ));
    }
    wanted.ref_name.as_deref().map_or(Ok(()), check_name)
}

fn check_name(name: &str) -> Result<(), Failure> {
    let has_control = name.chars().any(char::is_control);
    if name.is_empty() || name.len() > LONGEST_REF || name.starts_with('-') || has_control {
        return Err(bad_request("`ref` is not a name of a ref"));
    }
    Ok(())
}

/// What to do when the commit declares other settings or services than those in force.
fn other_declarations(record: &WorkspaceRecord, changed: &[String]) -> Option<String> {
    let declares = |path: &&String| *path == HOLM_TOML || record.spec.compose_files.contains(path);
    let different: Vec<&str> = changed
        .iter()
        .filter(declares)
        .map(String::as_str)
        .collect();
    let reload = format!("`holm reload {}`", record.id);
    match different.as_slice() {
        [] => None,
        [one] => Some(format!(
            "{one} of this commit differs from the one in force. Apply it: {reload}"
        )),
        several => {
            let names = several.join(" and ");
            Some(format!(
                "{names} of this commit differ from those in force. Apply them: {reload}"
            ))
        }
    }
}

// === impl App ===

impl App {
    async fn carry(
        &self,
        id: &WorkspaceId,
        wanted: Wanted,
        progress: Progress,
    ) -> Result<Moved, Fault> {
        let asked = Instant::now();
        let moved = self.engine.assign(id, wanted, progress).await?;
        let services = moved
            .reactions
            .into_iter()
            .map(|(name, reaction)| Reaction {
                name,
                reaction: reaction.as_str().to_owned(),
            });
        let done = Move {
            from: moved.from,
            changed: moved.changed.len() as u64,
            stash: moved.stash,
            setup: moved.set_up == SetUp::Again,
            restarted: moved.is_restarted,
            services: services.collect(),
        };
        let other_declarations = other_declarations(&moved.view.record, &moved.changed);
        let mut workspace = self.workspace(moved.view).await;
        workspace.notes.extend(other_declarations);
        workspace.ms = u64::try_from(asked.elapsed().as_millis()).ok();
        Ok(Moved { workspace, done })
    }
}
