//! All routes. Every group is a module with a `routes()`, and the router accepts a route only with
//! its description, so the API document is complete.

use super::{
    App, apply, audit, browsers, checks, comments, compare, create, daemon, dashboard, data, disk,
    egress, events, exec, failure, files, gate, gc, health, images, inbox, make, mcp, metrics,
    moves, numbers, openapi, projects, receive_pack, reload, review, runs, secrets, services,
    sessions, tokens, trees, trust, turns, uploads, work, workspaces,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use std::sync::{Arc, LazyLock};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Requests of repositories with very many refs are large; nothing legitimate is larger than this.
const LARGEST_BODY: usize = 256 << 20;

pub static TEXT: LazyLock<String> = LazyLock::new(|| {
    // What was made of types serialises.
    let text = document().to_pretty_json().unwrap_or_default() + "\n";
    // Client generators do not know `false` as a schema; the length of a pair says the same.
    text.replace("\"items\": false", "\"items\": {}")
});

/// The router of the daemon's socket.
pub fn router(app: Arc<App>) -> Router {
    let (router, _) = described().split_for_parts();
    let router = router.merge(mcp::routes()).merge(dashboard::page_routes());
    let counting = from_fn_with_state(Arc::clone(&app), metrics::count_request);
    router
        .fallback(failure::not_found)
        .method_not_allowed_fallback(failure::wrong_method)
        .layer(from_fn_with_state(Arc::clone(&app), gate::gate))
        .layer(counting)
        .with_state(app)
}

/// Every route, with its description.
pub fn described() -> OpenApiRouter<Arc<App>> {
    let groups = [
        apply::routes(),
        audit::routes(),
        browsers::routes(),
        checks::routes(),
        comments::routes(),
        compare::routes(),
        create::routes(),
        daemon::routes(),
        dashboard::routes(),
        data::routes(),
        disk::routes(),
        egress::routes(),
        events::routes(),
        exec::routes(),
        files::routes(),
        gc::routes(),
        images::routes(),
        inbox::routes(),
        inbox::notify::routes(),
        make::routes(),
        moves::routes(),
        numbers::routes(),
        OpenApiRouter::new().routes(routes!(openapi_document)),
        projects::routes(),
        receive_pack::routes(),
        reload::routes(),
        review::routes(),
        review::approve_routes(),
        super::routes::routes(),
        runs::routes(),
        runs::output::routes(),
        secrets::routes(),
        secrets::key::routes(),
        services::routes(),
        sessions::routes(),
        sessions::attach::routes(),
        tokens::routes(),
        trees::routes(),
        trust::routes(),
        turns::routes(),
        uploads::routes(),
        work::routes(),
        workspaces::routes(),
    ];
    let groups = groups.into_iter();
    let api = groups.fold(OpenApiRouter::new(), OpenApiRouter::merge);
    let api = api.layer(DefaultBodyLimit::max(LARGEST_BODY));
    OpenApiRouter::new()
        .nest(holm_api::PREFIX, api)
        .merge(health::routes())
        .merge(metrics::routes())
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "openapi",
    responses((status = 200, body = serde_json::Value))
)]
async fn openapi_document() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, TEXT.as_str()).into_response()
}

pub fn document() -> OpenApi {
    openapi::complete(described().split_for_parts().1)
}
