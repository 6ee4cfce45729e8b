//! `/mcp`: MCP as streamable HTTP, for whoever may call the API. Inside a workspace `holm mcp` serves it
//! instead, on stdin and stdout.

use super::App;
use super::caller::Caller;
use crate::mcp::Local;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use std::sync::Arc;

pub fn routes() -> Router<Arc<App>> {
    let methods = post(answer).get(answer).delete(answer);
    Router::new().route("/mcp", methods)
}

async fn answer(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    // A token is of the user whose daemon this is; root's is another user's.
    let is_the_user = caller.is_daemon_user() || matches!(caller, Caller::Token { .. });
    let local = match is_the_user {
        true => Local::Allowed,
        false => Local::Refused,
    };
    let response = app.mcp.answer(caller.actor(), local, request).await;
    response.map(Body::new)
}
