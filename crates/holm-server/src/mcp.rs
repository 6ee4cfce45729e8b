//! `/mcp`: MCP as streamable HTTP, for callers of the API. Inside a workspace `holm mcp` serves it
//! instead, on stdin and stdout.

use super::App;
use super::caller::Caller;
use crate::helper::Local;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::post;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Answers a request of a caller, whose name is theirs alone and never used again.
pub type Mcp = Box<dyn Fn(String, Local, Request) -> BoxFuture<'static, Response> + Send + Sync>;

pub fn routes() -> Router<Arc<App>> {
    let methods = post(answer).get(answer).delete(answer);
    Router::new().route("/mcp", methods)
}

async fn answer(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Response {
    let local = caller.local();
    let is_end = request.method() == Method::DELETE;
    let mut response = (app.mcp)(caller.actor(), local, request).await;
    // An ended session is gone at once, which clients check.
    if is_end && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}
