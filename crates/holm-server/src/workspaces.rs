//! `/workspaces`: everything except creating one and running programs in it.

use super::App;
use super::caller::Caller;
use super::disk;
use super::failure::{Answer, Body, Parameters, WorkspaceKey, bad_request};
use super::metrics::STATES;
use super::page::{Order, Page};
use super::sessions::listed;
use axum::Json;
use axum::extract::State;
use holm_api::workspace::{NameList, Rename, Workspace, WorkspaceList};
use holm_core::reference::Candidate;
use holm_core::trash::Removal;
use holm_core::{Code, Fault, Label, WorkspaceId};
use holm_engine::{Restored, View, try_blocking};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

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

operations! {
    [cancel]
    /// The live workspaces of all projects, or those in the trash.
    get "/workspaces" "workspace_list" list of (List) -> WorkspaceList;
    /// The names of live workspaces.
    get "/names" "workspace_names" names -> NameList;
    /// Everything about one workspace.
    get "/workspaces/{id}" "workspace_show" show of (WorkspaceKey) -> Workspace;
    /// Changes the label and nothing else.
    patch "/workspaces/{id}" "workspace_rename" rename of (WorkspaceKey) sends Rename -> Workspace;
    /// To the trash.
    delete "/workspaces/{id}" "workspace_remove" remove of (WorkspaceKey, Remove) -> Workspace;
    /// Starts its processes.
    post "/workspaces/{id}/start" "workspace_start" start of (WorkspaceKey) -> Workspace;
    /// Ends its processes; code and data stay.
    post "/workspaces/{id}/stop" "workspace_stop" stop of (WorkspaceKey) -> Workspace;
    /// Stops and starts it.
    post "/workspaces/{id}/restart" "workspace_restart" restart of (WorkspaceKey) -> Workspace;
    /// Restores it from the trash, stopped.
    post "/workspaces/{id}/restore" "workspace_restore" restore of (WorkspaceKey) -> Workspace;
}

async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Parameters(parameters): Parameters<List>,
) -> Answer<WorkspaceList> {
    let page = Page::new(parameters.limit, parameters.after.clone())?;
    let state = parameters.state.as_deref();
    if !state.is_none_or(|state| STATES.contains(&state)) {
        let why = format!("`state` is not one of {}", STATES.join(", "));
        return Err(bad_request(why));
    }
    let mut list = if !parameters.trash {
        app.live(&caller, &parameters, &page).await?
    } else if caller.is_guest() {
        // A workspace that asks is not in the trash.
        WorkspaceList::default()
    } else {
        let mut workspaces = app.trash().await?;
        workspaces.retain(|workspace| parameters.wants(workspace));
        let next = page.cut(&mut workspaces, Order::Falling, |workspace| {
            let removed_at = workspace.removed_at.as_deref().unwrap_or_default();
            format!("{removed_at}.{}", workspace.id)
        });
        WorkspaceList {
            workspaces,
            next,
            ..WorkspaceList::default()
        }
    };
    if let Caller::Workspace(_) = caller {
        let workspaces = list.workspaces.into_iter();
        list.workspaces = workspaces.map(without_notes).collect();
    } else {
        let notes = [app.shortage().await?, app.engine.clock().look().doubt()];
        list.notes = notes.into_iter().flatten().collect();
    }
    Ok(Json(list))
}

/// Notes are for the user: they mention the machine and other workspaces.
fn without_notes(workspace: Workspace) -> Workspace {
    Workspace {
        notes: Vec::new(),
        policy: None,
        ..workspace
    }
}

async fn names(State(app): State<Arc<App>>, caller: Caller) -> Answer<NameList> {
    let names = app.engine.names().await?.into_iter();
    let names = names.filter(|(record, _)| caller.sees(&record.id));
    let names = names.map(|(record, project)| Candidate {
        id: record.id,
        label: record.label.to_string(),
        project: project.to_string(),
        project_id: record.project_id,
    });
    Ok(Json(NameList {
        names: names.collect(),
    }))
}

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

async fn rename(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(rename): Body<Rename>,
) -> Answer<Workspace> {
    let label = label(&rename.label)?;
    let view = app.engine.rename(&id, label).await?;
    Ok(Json(app.workspace(view).await))
}

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
    let removed_at = view.record.removed_at;
    let mut workspace = app.workspace(view).await;
    // It is removed, even if the settings cannot be read.
    if let (Some(at), Ok(keep_for)) = (removed_at, app.keep_for().await) {
        workspace.expires_at = Some(disk::expiry(at, keep_for));
    }
    Ok(Json(workspace))
}

async fn start(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Workspace> {
    app.started(&id, app.engine.start(&id)).await
}

async fn stop(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Workspace> {
    let view = app.engine.stop(&id).await?;
    Ok(Json(app.workspace(view).await))
}

async fn restart(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Workspace> {
    app.started(&id, app.engine.restart(&id)).await
}

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
    /// The workspace after a start, with notes about what the policy removed from it.
    async fn started(
        &self,
        id: &WorkspaceId,
        start: impl Future<Output = Result<View, Fault>>,
    ) -> Answer<Workspace> {
        let narrowing = self.policy_notes(id).await?;
        let mut workspace = self.workspace(start.await?).await;
        // A workspace that ran already was not narrowed.
        if self.policy_notes(id).await?.is_empty() {
            workspace.notes.extend(narrowing);
        }
        Ok(Json(workspace))
    }

    /// The filtered live workspaces with their running sessions, and the cursor of the next page.
    async fn live(
        &self,
        caller: &Caller,
        list: &List,
        page: &Page,
    ) -> Result<WorkspaceList, Fault> {
        let mut views = self.engine.list().await?;
        views.retain(|view| caller.sees(&view.record.id));
        let records = self.engine.inbox_records().await?;
        let mut items = self.inbox_items(&views, &records, caller).await?;
        let mut ports = self.routes.ports().await;
        let policy = self.policy_in_force();
        let mut found = Vec::new();
        for view in views {
            let spec = Arc::clone(&view.record.spec);
            let ports = ports.remove(&view.record.id).unwrap_or_default();
            let running = self.engine.running_sessions(&view).await?;
            let running = listed(&view.record.id, running).sessions;
            let mut workspace = self.with_ports(view, ports).await;
            workspace.policy.clone_from(&policy);
            if list.wants(&workspace) {
                found.push((workspace, (spec, running)));
            }
        }
        let next = page.cut(&mut found, Order::Rising, |(workspace, _)| {
            format!("{}.{}", workspace.created_at, workspace.id)
        });
        let (mut workspaces, others): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (specs, sessions): (Vec<_>, Vec<_>) = others.into_iter().unzip();
        self.measure_volumes(specs, &mut workspaces).await;
        items.retain(|item| workspaces.iter().any(|one| one.id == item.workspace));
        Ok(WorkspaceList {
            workspaces,
            sessions: sessions.into_iter().flatten().collect(),
            runs: self.runs_under_way(caller).await?,
            items,
            next,
            notes: Vec::new(),
        })
    }
}

/// Parses a typed label.
pub fn label(text: &str) -> Result<Label, Fault> {
    Label::parse(text).map_err(|error| {
        Fault::new(
            Code::InvalidLabel,
            format!("`{}` cannot be a label", text.escape_debug()),
            "a label is 1 to 40 of a-z, 0-9 and -, such as `fix-login`",
        )
        .because(error)
    })
}
