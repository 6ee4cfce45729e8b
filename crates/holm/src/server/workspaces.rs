//! `/workspaces`: everything but making one and running something in it.

use super::App;
use super::failure::{Answer, Body, Parameters, WorkspaceKey};
use super::listen::Peer;
use axum::Json;
use axum::extract::{ConnectInfo, State};
use holm_api::workspace::{Name, NameList, Rename, Workspace, WorkspaceList};
use holm_core::{Code, Fault, Label};
use holm_engine::{Removal, Restored, try_blocking};
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
    Parameters(parameters): Parameters<List>,
) -> Answer<WorkspaceList> {
    let workspaces = match parameters.trash {
        true => app.trash().await?,
        false => {
            let views = app.engine.list().await?;
            app.routes.settle().await;
            let specs = views.iter().map(|view| Arc::clone(&view.record.spec));
            let specs = specs.collect();
            let views = views.into_iter().map(|view| app.with_ports(view));
            let mut workspaces: Vec<_> = views.collect();
            app.measure_volumes(specs, &mut workspaces).await;
            workspaces
        }
    };
    Ok(Json(WorkspaceList {
        workspaces,
        notes: app.shortage().await?.into_iter().collect(),
    }))
}

pub async fn names(State(app): State<Arc<App>>) -> Answer<NameList> {
    let names = app.engine.names().await?.into_iter();
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
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<Workspace> {
    let view = app.engine.show(&id).await?;
    Ok(Json(app.workspace(view).await))
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
    ConnectInfo(peer): ConnectInfo<Peer>,
    Parameters(parameters): Parameters<Remove>,
) -> Answer<Workspace> {
    let removal = match parameters.force {
        true => Removal::Force,
        false => Removal::RefuseUnsaved,
    };
    let view = app.engine.remove(&id, removal).await?;
    let (secrets, gone, who) = (Arc::clone(&app.secrets), id.clone(), peer.name());
    let withdrawn = try_blocking(move || secrets.withdraw(&gone, &who)).await;
    if let Err(fault) = withdrawn {
        tracing::warn!(%id, %fault, "what the workspace was given stays sealed");
    }
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
