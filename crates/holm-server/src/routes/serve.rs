//! `/ports`, `/workspaces/{id}/ports` and `/checkout`.

use crate::App;
use crate::caller::Caller;
use crate::failure::{Answer, Body, WorkspaceKey, workspace_id};
use axum::Json;
use axum::extract::State;
use holm_api::port::{Checkout, CheckoutList, PortList, WorkspacePort};
use holm_api::workspace::Port;
use holm_proxy::LiveWorkspace;
use std::collections::HashMap;
use std::sync::Arc;

operations! {
    /// Every port of every workspace.
    get "/ports" "port_list" list -> PortList;
    /// The ports of one workspace: declared and discovered.
    get "/workspaces/{id}/ports" "workspace_ports" of_workspace of (WorkspaceKey) -> PortList;
    /// The holders of canonical ports.
    get "/checkout" "checkout_list" checked_out -> CheckoutList;
    /// Gives a workspace canonical ports.
    post "/checkout" "checkout" check_out sends Checkout -> CheckoutList;
    /// Releases all canonical ports.
    delete "/checkout" "checkout_none" release -> CheckoutList;
}

async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer<PortList> {
    let views = app.engine.list().await?.into_iter();
    let views: HashMap<_, _> = views.map(|view| (view.record.id.clone(), view)).collect();
    app.routes.settle().await;
    let workspaces = app.routes.table().snapshot();
    let mut all = Vec::new();
    for workspace in workspaces
        .iter()
        .filter(|workspace| caller.sees(&workspace.id))
    {
        let mut shown = app.routes.api_ports(workspace);
        // A workspace that was just removed keeps its last state.
        if let Some(view) = views.get(&workspace.id) {
            shown = app.routes.seen_anew(view, shown).await;
        }
        all.extend(ports(workspace, shown));
    }
    Ok(Json(PortList { ports: all }))
}

async fn of_workspace(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<PortList> {
    // Fails if the workspace does not exist.
    let view = app.engine.show(&id).await?;
    app.routes.settle().await;
    let workspaces = app.routes.table().snapshot();
    let Some(workspace) = workspaces.iter().find(|workspace| workspace.id == id) else {
        return Ok(Json(PortList { ports: Vec::new() }));
    };
    let shown = app
        .routes
        .seen_anew(&view, app.routes.api_ports(workspace))
        .await;
    Ok(Json(PortList {
        ports: ports(workspace, shown).collect(),
    }))
}

fn ports(workspace: &LiveWorkspace, shown: Vec<Port>) -> impl Iterator<Item = WorkspacePort> {
    shown.into_iter().map(|port| WorkspacePort {
        workspace: workspace.id.to_string(),
        label: workspace.label.to_string(),
        project: workspace.project.to_string(),
        port,
    })
}

async fn checked_out(State(app): State<Arc<App>>) -> Answer<CheckoutList> {
    let checkout = app.routes.checked_out().await?;
    Ok(Json(CheckoutList { checkout }))
}

async fn check_out(
    State(app): State<Arc<App>>,
    Body(checkout): Body<Checkout>,
) -> Answer<CheckoutList> {
    let id = workspace_id(&checkout.workspace)?;
    app.require_canonical_ports()?;
    let checkout = app.routes.check_out(&id, checkout.ports).await?;
    Ok(Json(CheckoutList { checkout }))
}

async fn release(State(app): State<Arc<App>>) -> Answer<CheckoutList> {
    let checkout = app.routes.release().await?;
    Ok(Json(CheckoutList { checkout }))
}
