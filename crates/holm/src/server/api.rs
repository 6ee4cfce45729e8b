//! All routes. Every group is a module with a `routes()`, and the router accepts a route only with
//! its description, so the API document is complete.

use super::{
    App, audit, browsers, create, daemon, data, disk, egress, events, exec, failure, files, gate,
    gc, health, make, mcp, metrics, moves, numbers, openapi, projects, receive_pack, reload,
    routes, runs, secrets, services, sessions, tokens, trees, trust, uploads, work, workspaces,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;

/// Requests of repositories with very many refs are large; nothing legitimate is larger than this.
const LARGEST_BODY: usize = 256 << 20;

/// The router of the daemon's socket.
pub fn router(app: Arc<App>) -> Router {
    let (router, _) = described().split_for_parts();
    let router = router.merge(mcp::routes());
    let counting = from_fn_with_state(Arc::clone(&app), metrics::count_request);
    router
        .fallback(failure::not_found)
        .method_not_allowed_fallback(failure::not_found)
        .layer(from_fn_with_state(Arc::clone(&app), gate::gate))
        .layer(counting)
        .with_state(app)
}

/// Every route, with its description.
pub fn described() -> OpenApiRouter<Arc<App>> {
    let groups = [
        audit::routes(),
        browsers::routes(),
        create::routes(),
        daemon::routes(),
        data::routes(),
        disk::routes(),
        egress::routes(),
        events::routes(),
        exec::routes(),
        files::routes(),
        gc::routes(),
        make::routes(),
        moves::routes(),
        numbers::routes(),
        openapi::routes(),
        projects::routes(),
        receive_pack::routes(),
        reload::routes(),
        routes::routes(),
        runs::routes(),
        secrets::routes(),
        services::routes(),
        sessions::routes(),
        tokens::routes(),
        trees::routes(),
        trust::routes(),
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
