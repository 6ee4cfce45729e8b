//! `/workspaces`: everything except creating one and running programs in it.

use super::App;
use super::caller::Caller;
use super::failure::{Answer, Body, Parameters, WorkspaceKey, bad_request};
use super::metrics::STATES;
use super::page::{Order, Page};
use axum::Json;
use axum::extract::State;
use holm_api::workspace::{Name, NameList, Rename, Workspace, WorkspaceList};
use holm_core::{Code, Fault, Label};
use holm_engine::{Removal, Restored, try_blocking};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The parameters of `DELETE /workspaces/{id}`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Remove {
    #[serde(default)]
    force: bool,
}

/// The parameters of `GET /workspaces`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct List {
    /// Those in the trash, instead of the live ones.
    #[serde(default)]
    trash: bool,
    /// Only of this project: its name or its id.
    project: Option<String>,
    /// Only in this state.
    #[param(pattern = "^(creating|running|stopped|failed|removed)$")]
    state: Option<String>,
    /// Only with this label.
    label: Option<String>,
    /// The maximum number.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next` of the page before.
    after: Option<String>,
}

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(names))
        .routes(routes!(show, rename, remove))
        .routes(routes!(start))
        .routes(routes!(stop))
        .routes(routes!(restart))
        .routes(routes!(restore))
        .routes(routes!(cancel))
}

/// The live workspaces of all projects, or those in the trash.
#[utoipa::path(
    get,
    path = "/workspaces",
    operation_id = "workspace_list",
    params(List),
    responses((status = 200, body = WorkspaceList))
)]
async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Parameters(parameters): Parameters<List>,
) -> Answer<WorkspaceList> {
    let page = Page::new(parameters.limit, parameters.after.clone())?;
    let state = parameters.state.as_deref();
    if !state.is_none_or(|state| STATES.contains(&state)) {
        let why = format!("`state` is not one of {}", STATES.join(", "));
        return Err(bad_request(&why));
    }
    let (workspaces, next) = if !parameters.trash {
        app.live(&caller, &parameters, &page).await?
    } else if caller.is_guest() {
        // A workspace that asks is not in the trash.
        (Vec::new(), None)
    } else {
        let mut workspaces = app.trash().await?;
        workspaces.retain(|workspace| parameters.wants(workspace));
        let next = page.cut(&mut workspaces, Order::Falling, |workspace| {
            let removed_at = workspace.removed_at.as_deref().unwrap_or_default();
            format!("{removed_at}.{}", workspace.id)
        });
        (workspaces, next)
    };
    if let Caller::Workspace(_) = caller {
        return Ok(Json(WorkspaceList {
            workspaces: workspaces.into_iter().map(without_notes).collect(),
            next,
            notes: Vec::new(),
        }));
    }
    let notes = [app.shortage().await?, app.engine.clock().look().doubt()];
    Ok(Json(WorkspaceList {
        workspaces,
        next,
        notes: notes.into_iter().flatten().collect(),
    }))
}

/// Notes are for the user: they mention the machine and other workspaces.
fn without_notes(workspace: Workspace) -> Workspace {
    Workspace {
        notes: Vec::new(),
        policy: None,
        ..workspace
    }
}

/// The names of live workspaces.
#[utoipa::path(
    get,
    path = "/names",
    operation_id = "workspace_names",
    responses((status = 200, body = NameList))
)]
async fn names(State(app): State<Arc<App>>, caller: Caller) -> Answer<NameList> {
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

/// Everything about one workspace.
#[utoipa::path(
    get,
    path = "/workspaces/{id}",
    operation_id = "workspace_show",
    params(WorkspaceKey),
    responses((status = 200, body = Workspace))
)]
async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<Workspace> {
    let view = app.engine.show(&id).await?;
    let workspace = app.workspace(view).await;
    Ok(Json(if caller.is_guest() {
        without_notes(workspace)
    } else {
        workspace
    }))
}

/// Changes the label and nothing else.
#[utoipa::path(
    patch,
    path = "/workspaces/{id}",
    operation_id = "workspace_rename",
    params(WorkspaceKey),
    request_body = Rename,
    responses((status = 200, body = Workspace))
)]
async fn rename(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(rename): Body<Rename>,
) -> Answer<Workspace> {
    let label = label(&rename.label)?;
    let view = app.engine.rename(&id, label).await?;
    Ok(Json(app.workspace(view).await))
}

/// To the trash.
#[utoipa::path(
    delete,
    path = "/workspaces/{id}",
    operation_id = "workspace_remove",
    params(WorkspaceKey, Remove),
    responses((status = 200, body = Workspace))
)]
async fn remove(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    caller: Caller,
    Parameters(parameters): Parameters<Remove>,
) -> Answer<Workspace> {
    let removal = if parameters.force {
        Removal::Force
    } else {
        Removal::RefuseUnsaved
    };
    let view = app.engine.remove(&id, removal).await?;
    let (secrets, gone, who) = (Arc::clone(&app.secrets), id.clone(), caller.actor());
    let withdrawn = try_blocking(move || secrets.withdraw(&gone, &who)).await;
    if let Err(fault) = withdrawn {
        tracing::warn!(%id, %fault, "what the workspace was given stays sealed");
    }
    Ok(Json(app.workspace(view).await))
}

/// Starts its processes.
#[utoipa::path(
    post,
    path = "/workspaces/{id}/start",
    operation_id = "workspace_start",
    params(WorkspaceKey),
    responses((status = 200, body = Workspace))
)]
async fn start(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Workspace> {
    let narrowing = app.policy_notes(&id).await?;
    let view = app.engine.start(&id).await?;
    let mut workspace = app.workspace(view).await;
    // A workspace that ran already was not narrowed.
    if app.policy_notes(&id).await?.is_empty() {
        workspace.notes.extend(narrowing);
    }
    Ok(Json(workspace))
}

/// Ends its processes; code and data stay.
#[utoipa::path(
    post,
    path = "/workspaces/{id}/stop",
    operation_id = "workspace_stop",
    params(WorkspaceKey),
    responses((status = 200, body = Workspace))
)]
async fn stop(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Workspace> {
    let view = app.engine.stop(&id).await?;
    Ok(Json(app.workspace(view).await))
}

/// Stops and starts it.
#[utoipa::path(
    post,
    path = "/workspaces/{id}/restart",
    operation_id = "workspace_restart",
    params(WorkspaceKey),
    responses((status = 200, body = Workspace))
)]
async fn restart(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Workspace> {
    let narrowing = app.policy_notes(&id).await?;
    let view = app.engine.restart(&id).await?;
    let mut workspace = app.workspace(view).await;
    // A workspace that ran already was not narrowed.
    if app.policy_notes(&id).await?.is_empty() {
        workspace.notes.extend(narrowing);
    }
    Ok(Json(workspace))
}

/// Restores it from the trash, stopped.
#[utoipa::path(
    post,
    path = "/workspaces/{id}/restore",
    operation_id = "workspace_restore",
    params(WorkspaceKey),
    responses((status = 200, body = Workspace))
)]
async fn restore(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Workspace> {
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

/// Cancels a creation; answers when it is undone.
#[utoipa::path(
    post,
    path = "/workspaces/{id}/cancel",
    operation_id = "workspace_cancel",
    params(WorkspaceKey),
    responses((status = 200, body = serde_json::Value))
)]
async fn cancel(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<serde_json::Value> {
    app.engine.cancel(&id).await?;
    Ok(Json(serde_json::json!({})))
}

// === impl List ===

impl List {
    fn wants(&self, workspace: &Workspace) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let is_of_project =
            is(&self.project, &workspace.project) || is(&self.project, &workspace.project_id);
        is_of_project && is(&self.state, &workspace.state) && is(&self.label, &workspace.label)
    }
}

// === impl App ===

impl App {
    /// The filtered live workspaces, and the cursor of the next page.
    async fn live(
        &self,
        caller: &Caller,
        list: &List,
        page: &Page,
    ) -> Result<(Vec<Workspace>, Option<String>), Fault> {
        let mut views = self.engine.list().await?;
        views.retain(|view| caller.sees(&view.record.id));
        self.routes.settle().await;
        let mut found = Vec::new();
        for view in views {
            let spec = Arc::clone(&view.record.spec);
            let workspace = self.with_ports(view).await;
            if list.wants(&workspace) {
                found.push((workspace, spec));
            }
        }
        let next = page.cut(&mut found, Order::Rising, |(workspace, _)| {
            format!("{}.{}", workspace.created_at, workspace.id)
        });
        let (mut workspaces, specs): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        self.measure_volumes(specs, &mut workspaces).await;
        Ok((workspaces, next))
    }
}

/// Parses a typed label.
pub fn label(text: &str) -> Result<Label, Fault> {
    Label::parse(text).map_err(|error| {
        Fault::new(
            Code::InvalidLabel,
            format!("`{}` cannot be a label: {error}", text.escape_debug()),
            "a label is 1 to 40 of a-z, 0-9 and -, such as `fix-login`",
        )
    })
}
