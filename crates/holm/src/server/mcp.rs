//! `/mcp`: MCP as streamable HTTP, for whoever may call the API.

use super::App;
use super::listen::Peer;
use crate::mcp::Local;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;
use axum::routing::any;
use std::sync::Arc;

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/mcp", any(answer))
}

async fn answer(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    let is_same_user = peer.uid == rustix::process::geteuid().as_raw();
    let local = match is_same_user {
        true => Local::Allowed,
        false => Local::Refused,
    };
    let caller = format!("user {}", peer.uid);
    let response = app.mcp.answer(caller, local, request).await;
    response.map(Body::new)
}
