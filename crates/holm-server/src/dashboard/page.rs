//! The files of the dashboard, as the front door serves them. They are part of the program and hold no secret, so no
//! sign-in is needed to load them.

use super::{App, is_page_host};
use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use holm_core::token::random_secret;
use hyper::Request;

/// A file that the build of the page made.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Below the root of the site; the names of all but the first page have a digest of their content.
    pub path: &'static str,
    pub plain: &'static [u8],
    pub brotli: Option<&'static [u8]>,
}

/// The page itself, which is the answer to every path of the site.
const INDEX: &str = "index.html";

/// Stands in the page for the nonce of its style elements.
const NONCE: &str = "__NONCE__";

/// Paths that the API answers.
const OTHERS: [&str; 5] = ["/api/", "/ui/", "/mcp", "/health", "/metrics"];

/// Answers a request for the page; `None`: it is a request to the API.
pub fn answer<B>(app: &App, request: &Request<B>) -> Option<Response> {
    let path = request.uri().path();
    let is_other = OTHERS.iter().any(|other| path.starts_with(other));
    if is_other || !is_page_host(request.headers(), app.door_port()) {
        return None;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let assets = app.dashboard.assets();
    let find = |path: &str| assets.iter().find(|asset| asset.path == path);
    let mut response = match (find(path.trim_start_matches('/')), find(INDEX)) {
        (Some(asset), _) if asset.path != INDEX => file(asset, request.headers()),
        _ if path.starts_with("/assets/") => StatusCode::NOT_FOUND.into_response(),
        (_, Some(index)) => page(index, app.door_port()),
        (_, None) => missing(),
    };
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    Some(response)
}

/// Headers of every file.
const HEADERS: [(header::HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

fn file(asset: &Asset, headers: &HeaderMap) -> Response {
    let takes_brotli = headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|coding| coding.trim() == "br");
    let kind = (header::CONTENT_TYPE, kind(asset.path));
    let cache = (header::CACHE_CONTROL, "public, max-age=31536000, immutable");
    let vary = (header::VARY, "Accept-Encoding");
    match asset.brotli {
        Some(brotli) if takes_brotli => {
            let coding = (header::CONTENT_ENCODING, "br");
            ([kind, cache, vary, coding], Body::from(brotli)).into_response()
        }
        _ => ([kind, cache, vary], Body::from(asset.plain)).into_response(),
    }
}

fn page(index: &Asset, port: u16) -> Response {
    let nonce = random_secret();
    let text = String::from_utf8_lossy(index.plain).replace(NONCE, &nonce);
    let policy = policy(&nonce, &super::origin(port));
    let headers = [
        (header::CONTENT_TYPE, kind(INDEX).to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, text).into_response()
}

/// What the page may load and do. Nothing comes from another origin, and nothing inline is executed. The terminal inserts
/// style elements of its own, which carry the nonce.
fn policy(nonce: &str, origin: &str) -> String {
    let socket = origin.replacen("http", "ws", 1);
    format!(
        "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self' 'nonce-{nonce}'; \
         img-src 'self' data:; font-src 'self'; connect-src 'self' {socket}; form-action 'none'; \
         frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'"
    )
}

fn missing() -> Response {
    let text = "This build of holm has no dashboard. `make build` builds holm with it.\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}
