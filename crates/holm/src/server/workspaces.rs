//! `/workspaces`: everything but making one and running something in it.

use super::App;
use super::caller::Caller;
use super::failure::{Answer, Body, Parameters, WorkspaceKey};
use axum::Json;
use axum::extract::State;
use holm_api::workspace::{Name, NameList, Rename, Workspace, WorkspaceList};
use holm_core::{Code, Fault, Label};
use holm_engine::{Removal, Restored};
use serde::Deserialize;
use std::sync::Arc;

/// The parameters of `DELETE /workspaces/{id}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    #[serde(default)]
    force: bool,
}

/// The parameters of `GET /workspaces`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    #[serde(default)]
    trash: bool,
}

pub async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Parameters(parameters): Parameters<List>,
) -> Answer<WorkspaceList> {
    let workspaces = match parameters.trash {
        // A workspace that asks is not in the trash.
        true if caller.is_guest() => Vec::new(),
        true => app.trash().await?,
        false => {
            let mut views = app.engine.list().await?;
            views.retain(|view| caller.sees(&view.record.id));
            app.routes.settle().await;
            let specs = views.iter().map(|view| Arc::clone(&view.record.spec));
            let specs = specs.collect();
            let views = views.into_iter().map(|view| app.with_ports(view));
            let mut workspaces: Vec<_> = views.collect();
            app.measure_volumes(specs, &mut workspaces).await;
            workspaces
        }
    };
    if let Caller::Workspace(_) = caller {
        return Ok(Json(WorkspaceList {
            workspaces: workspaces.into_iter().map(without_notes).collect(),
            notes: Vec::new(),
        }));
    }
    Ok(Json(WorkspaceList {
        workspaces,
        notes: app.shortage().await?.into_iter().collect(),
    }))
}

/// Notes are for the user: they speak of the machine and of other workspaces.
fn without_notes(workspace: Workspace) -> Workspace {
    Workspace {
        notes: Vec::new(),
        ..workspace
    }
}

pub async fn names(State(app): State<Arc<App>>, caller: Caller) -> Answer<NameList> {
    let names = app.engine.names().await?.into_iter();
    let names = names.filter(|(record, _)| caller.sees(&record.id));
    let names = names.map(|(record, project)| Name {
        id: record.id.to_string(),
        label: record.label.to_string(),
        project: project.to_string(),
        project_id: record.project_id.to_string(),
    });
    Ok(Json(NameList {
        names: names.collect(),
    }))
}

pub async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<Workspace> {
    let view = app.engine.show(&id).await?;
    let workspace = app.workspace(view).await;
    Ok(Json(match caller.is_guest() {
        true => without_notes(workspace),
        false => workspace,
    }))
}

pub async fn rename(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(rename): Body<Rename>,
) -> Answer<Workspace> {
    let label = label(&rename.label)?;
    let view = app.engine.rename(&id, label).await?;
    Ok(Json(app.workspace(view).await))
}

pub async fn remove(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(parameters): Parameters<Remove>,
) -> Answer<Workspace> {
    let removal = match parameters.force {
        true => Removal::Force,
        false => Removal::RefuseUnsaved,
    };
    let view = app.engine.remove(&id, removal).await?;
    Ok(Json(app.workspace(view).await))
}

pub async fn start(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<Workspace> {
    let view = app.engine.start(&id).await?;
    Ok(Json(app.workspace(view).await))
}

pub async fn stop(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<Workspace> {
    let view = app.engine.stop(&id).await?;
    Ok(Json(app.workspace(view).await))
}

pub async fn restart(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<Workspace> {
    let view = app.engine.restart(&id).await?;
    Ok(Json(app.workspace(view).await))
}

pub async fn restore(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<Workspace> {
    let Restored {
        view: found,
        earlier_label,
    } = app.engine.restore(&id).await?;
    let mut workspace = app.workspace(found).await;
    if workspace.label != earlier_label.as_str() {
        workspace.notes.push(format!(
            "`{earlier_label}` is the label of another workspace now, so this one is `{}`",
            workspace.label
        ));
    }
    Ok(Json(workspace))
}

pub async fn cancel(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<serde_json::Value> {
    app.engine.cancel(&id).await?;
    Ok(Json(serde_json::json!({})))
}

/// Reads a label that somebody typed.
pub fn label(text: &str) -> Result<Label, Fault> {
    Label::parse(text).map_err(|error| {
        Fault::new(
            Code::InvalidLabel,
            format!("`{}` cannot be a label: {error}", text.escape_debug()),
            "a label is 1 to 40 of a-z, 0-9 and -, such as `fix-login`",
        )
    })
}
