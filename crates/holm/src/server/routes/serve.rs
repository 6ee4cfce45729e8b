//! `/ports`, `/workspaces/{id}/ports` and `/checkout`.

use crate::server::App;
use crate::server::caller::Caller;
use crate::server::failure::{Answer, Body, WorkspaceKey, workspace_id};
use axum::Json;
use axum::extract::State;
use holm_api::port::{Checkout, CheckoutList, PortList, WorkspacePort};
use holm_proxy::Island;
use std::sync::Arc;

pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer<PortList> {
    app.routes.settle().await;
    let islands = app.routes.table().snapshot();
    let seen = islands.iter().filter(|island| caller.sees(&island.id));
    let ports = seen.flat_map(|island| ports(&app, island));
    Ok(Json(PortList {
        ports: ports.collect(),
    }))
}

pub async fn of_workspace(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<PortList> {
    // Says so if there is no such workspace.
    app.engine.show(&id).await?;
    app.routes.settle().await;
    let islands = app.routes.table().snapshot();
    let island = islands.iter().find(|island| island.id == id);
    Ok(Json(PortList {
        ports: island.map_or_else(Vec::new, |island| ports(&app, island)),
    }))
}

fn ports(app: &App, island: &Island) -> Vec<WorkspacePort> {
    let ports = app.routes.told(island).into_iter();
    let ports = ports.map(|port| WorkspacePort {
        workspace: island.id.to_string(),
        label: island.label.to_string(),
        project: island.project.to_string(),
        port,
    });
    ports.collect()
}

pub async fn checked_out(State(app): State<Arc<App>>) -> Answer<CheckoutList> {
    let checkout = app.routes.checked_out().await?;
    Ok(Json(CheckoutList { checkout }))
}

pub async fn check_out(
    State(app): State<Arc<App>>,
    Body(checkout): Body<Checkout>,
) -> Answer<CheckoutList> {
    let id = workspace_id(&checkout.workspace)?;
    let checkout = app.routes.check_out(&id, checkout.ports).await?;
    Ok(Json(CheckoutList { checkout }))
}

pub async fn release(State(app): State<Arc<App>>) -> Answer<CheckoutList> {
    let checkout = app.routes.release().await?;
    Ok(Json(CheckoutList { checkout }))
}
