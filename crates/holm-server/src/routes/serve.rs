//! `/ports`, `/workspaces/{id}/ports` and `/checkout`.

use crate::App;
use crate::caller::Caller;
use crate::failure::{Answer, Body, WorkspaceKey, workspace_id};
use axum::Json;
use axum::extract::State;
use holm_api::port::{Checkout, CheckoutList, PortList, WorkspacePort};
use holm_api::workspace::Port;
use holm_proxy::LiveWorkspace;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(of_workspace))
        .routes(routes!(checked_out, check_out, release))
}

/// Every port of every workspace.
#[utoipa::path(
    get,
    path = "/ports",
    operation_id = "port_list",
    responses((status = 200, body = PortList))
)]
async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer<PortList> {
    app.routes.settle().await;
    let islands = app.routes.table().snapshot();
    let mut all = Vec::new();
    for island in islands.iter().filter(|island| caller.sees(&island.id)) {
        let mut told = app.routes.told(island);
        if told.iter().any(|port| !port.listening) {
            // A workspace that was just removed keeps its last state.
            if let Ok(view) = app.engine.show(&island.id).await {
                told = app.routes.seen_anew(&view, told).await;
            }
        }
        all.extend(ports(island, told));
    }
    Ok(Json(PortList { ports: all }))
}

/// The ports of one workspace: declared and discovered.
#[utoipa::path(
    get,
    path = "/workspaces/{id}/ports",
    operation_id = "workspace_ports",
    params(WorkspaceKey),
    responses((status = 200, body = PortList))
)]
async fn of_workspace(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<PortList> {
    // Fails if the workspace does not exist.
    let view = app.engine.show(&id).await?;
    app.routes.settle().await;
    let islands = app.routes.table().snapshot();
    let Some(island) = islands.iter().find(|island| island.id == id) else {
        return Ok(Json(PortList { ports: Vec::new() }));
    };
    let told = app.routes.seen_anew(&view, app.routes.told(island)).await;
    Ok(Json(PortList {
        ports: ports(island, told).collect(),
    }))
}

fn ports(island: &LiveWorkspace, told: Vec<Port>) -> impl Iterator<Item = WorkspacePort> {
    told.into_iter().map(|port| WorkspacePort {
        workspace: island.id.to_string(),
        label: island.label.to_string(),
        project: island.project.to_string(),
        port,
    })
}

/// The holders of canonical ports.
#[utoipa::path(
    get,
    path = "/checkout",
    operation_id = "checkout_list",
    responses((status = 200, body = CheckoutList))
)]
async fn checked_out(State(app): State<Arc<App>>) -> Answer<CheckoutList> {
    let checkout = app.routes.checked_out().await?;
    Ok(Json(CheckoutList { checkout }))
}

/// Gives a workspace canonical ports.
#[utoipa::path(
    post,
    path = "/checkout",
    operation_id = "checkout",
    request_body = Checkout,
    responses((status = 200, body = CheckoutList))
)]
async fn check_out(
    State(app): State<Arc<App>>,
    Body(checkout): Body<Checkout>,
) -> Answer<CheckoutList> {
    let id = workspace_id(&checkout.workspace)?;
    app.require_canonical_ports()?;
    let checkout = app.routes.check_out(&id, checkout.ports).await?;
    Ok(Json(CheckoutList { checkout }))
}

/// Releases all canonical ports.
#[utoipa::path(
    delete,
    path = "/checkout",
    operation_id = "checkout_none",
    responses((status = 200, body = CheckoutList))
)]
async fn release(State(app): State<Arc<App>>) -> Answer<CheckoutList> {
    let checkout = app.routes.release().await?;
    Ok(Json(CheckoutList { checkout }))
}
