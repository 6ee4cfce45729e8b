//! `/workspaces/{id}/snapshots`, `/fork` and `/reset`.

use super::failure::{Answer, Body, WorkspaceKey, bad_request};
use super::turns::Ignored;
use super::workspaces::label;
use super::{App, view};
use axum::Json;
use axum::extract::State;
use holm_api::workspace::{Fork, Reset, SnapshotList, TakeSnapshot, Workspace};
use holm_core::trash::Removal;
use holm_core::turn::TurnNumber;
use holm_core::{Code, Fault, Label, WorkspaceId};
use holm_engine::{Admission, WasReset};
use std::sync::Arc;
use std::time::Instant;

operations! {
    /// The snapshots of a workspace.
    get "/workspaces/{id}/snapshots" "snapshot_list" snapshots of (WorkspaceKey) -> SnapshotList;
    /// Takes a snapshot of code and volumes.
    post "/workspaces/{id}/snapshots" "snapshot" take_snapshot
        of (WorkspaceKey) sends TakeSnapshot -> Workspace;
    /// Creates a workspace as a copy of this one or of its snapshot.
    post "/workspaces/{id}/fork" "workspace_fork" fork of (WorkspaceKey) sends Fork -> Workspace;
    /// Resets to the initial state, or to a snapshot.
    post "/workspaces/{id}/reset" "workspace_reset" reset
        of (WorkspaceKey) sends Reset -> Workspace;
}

async fn snapshots(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<SnapshotList> {
    let spec = app.engine.spec(&id).await?;
    Ok(Json(SnapshotList {
        snapshots: view::snapshots(&spec),
    }))
}

async fn take_snapshot(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(take): Body<TakeSnapshot>,
) -> Answer<Workspace> {
    let name = name(&take.name)?;
    let view = app.engine.snapshot(&id, &name).await?;
    Ok(Json(app.workspace(view).await))
}

async fn fork(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(fork): Body<Fork>,
) -> Answer<Workspace> {
    let asked = Instant::now();
    let label = fork.label.as_deref().map(label).transpose()?;
    let admission = Admission::Check;
    let made = app.engine.fork(&id, label, fork.at.as_deref(), admission);
    let workspace = app.workspace(made.await?).await;
    let elapsed = asked.elapsed().as_millis();
    Ok(Json(Workspace {
        created: Some(true),
        ms: Some(u64::try_from(elapsed).unwrap_or(u64::MAX)),
        ..workspace
    }))
}

async fn reset(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(reset): Body<Reset>,
) -> Answer<Workspace> {
    if let Some(number) = reset.at.as_deref().and_then(TurnNumber::parse) {
        return reset_to_turn(&app, &id, number, &reset).await;
    }
    let removal = if reset.force {
        Removal::Force
    } else {
        Removal::RefuseUnsaved
    };
    let wanted = holm_engine::Reset {
        volume: reset.volume,
        at: reset.at,
    };
    let WasReset { view, kept } = app.engine.reset(&id, wanted, removal).await?;
    let mut workspace = app.workspace(view).await;
    let label = &workspace.label;
    let note = kept.map(|name| {
        format!("what was there is in the snapshot `{name}`: `holm fork {label} --at {name}`")
    });
    workspace.notes.extend(note);
    Ok(Json(workspace))
}

/// A turn has code only, so volumes and processes stay.
async fn reset_to_turn(
    app: &App,
    id: &WorkspaceId,
    number: TurnNumber,
    reset: &Reset,
) -> Answer<Workspace> {
    if let Some(volume) = &reset.volume {
        return Err(bad_request(format!(
            "a turn has no volumes, so `{volume}` cannot be reset to {number}"
        )));
    }
    let ignored = if reset.force {
        Ignored::Replace
    } else {
        Ignored::Keep
    };
    let kept = app.restore_turn(id, number, ignored).await?;
    let mut workspace = app.workspace(app.engine.show(id).await?).await;
    workspace.notes.extend(kept.map(|kept| {
        format!("what was there is turn @{kept}: `holm reset {id} --at @{kept}` brings it back")
    }));
    Ok(Json(workspace))
}

/// Parses the name of a snapshot, which has the form of a label.
fn name(text: &str) -> Result<Label, Fault> {
    Label::parse(text).map_err(|error| {
        Fault::new(
            Code::InvalidLabel,
            format!("`{}` cannot be the name of a snapshot", text.escape_debug()),
            "a name is 1 to 40 of a-z, 0-9 and -, such as `before-upgrade`",
        )
        .because(error)
    })
}
