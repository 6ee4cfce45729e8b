//! `GET /openapi.json`: the API document, generated from the descriptions at the routes.
//!
//! This module adds what all routes share: errors, groups, access. A copy is committed as
//! `docs/openapi.json`, and a test fails when it is outdated: `UPDATE_DOCS=1 cargo nextest run -p
//! holm openapi` rewrites it.

use holm_api::ErrorBody;
use holm_api::event::{Event, Missed};
use holm_api::exec::{ToClient, ToServer};
use holm_api::run::RunEvent;
use holm_api::session::{AttachToClient, AttachToServer};
use holm_core::{Kind, ProjectId, RunId, TokenId, WorkspaceId};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::{Response as Described, ResponseBuilder};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Info, OpenApi, Ref, RefOr};

/// Schemas that no route mentions: messages of WebSockets, forms of ids.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(
    AttachToClient,
    AttachToServer,
    ErrorBody,
    Event,
    Missed,
    ProjectId,
    RunEvent,
    RunId,
    TokenId,
    ToClient,
    ToServer,
    WorkspaceId
)))]
struct Unmentioned;

/// Errors by kind: the status and the name of the response in the document.
const FAILURES: [(Kind, &str, &str); 10] = [
    (
        Kind::Usage,
        "BadRequest",
        "It was asked for in a wrong way.",
    ),
    (Kind::NotFound, "NotFound", "What was named does not exist."),
    (
        Kind::Refused,
        "Refused",
        "It could be done, and policy or safety says no.",
    ),
    (
        Kind::Unauthorized,
        "Unauthorized",
        "At the front door: no token, or none that is valid.",
    ),
    (
        Kind::Forbidden,
        "Forbidden",
        "Whoever asks is known, and may not do this.",
    ),
    (
        Kind::Unsupported,
        "Unsupported",
        "The body is not of the type that the route takes.",
    ),
    (
        Kind::Method,
        "MethodNotAllowed",
        "The path exists, and does not take this method.",
    ),
    (Kind::Failed, "Failed", "It was tried and did not work."),
    (
        Kind::Unavailable,
        "Unavailable",
        "The daemon's database does not answer, so nothing can be changed.",
    ),
    (
        Kind::Upstream,
        "Upstream",
        "A remote repository cannot be reached or read.",
    ),
];

/// The operations that talk to another server.
const REMOTE: [&str; 2] = ["project_create", "workspace_create"];

/// The whole document, from what stands with the routes.
pub fn complete(mut document: OpenApi) -> OpenApi {
    document.info = Info::new("holm", env!("CARGO_PKG_VERSION"));
    document.info.description = Some(
        "An island for every agent. On the daemon's Unix socket no token is needed; on the front \
         door `Authorization: Bearer` is. Errors are always of one form."
            .to_owned(),
    );
    document.merge(Unmentioned::openapi());
    let components = document.components.get_or_insert_default();
    for (_, name, words) in FAILURES {
        components.responses.insert(name.to_owned(), failure(words));
    }
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme("token", bearer);
    let token = SecurityRequirement::new("token", Vec::<String>::new());
    document.security = Some(vec![token, SecurityRequirement::default()]);
    for (path, item) in &mut document.paths.paths {
        for (_, operation) in operations(item) {
            finish(path, operation);
        }
    }
    document
}

fn finish(path: &str, operation: &mut Operation) {
    operation.tags = Some(vec![group(path).to_owned()]);
    for answer in operation.responses.responses.values_mut() {
        if let RefOr::T(answer) = answer
            && answer.description.is_empty()
        {
            answer.description = "It was done.".to_owned();
        }
    }
    for (kind, name, _) in FAILURES {
        // An operation is described for its own method.
        let is_of_no_use =
            kind == Kind::Method || kind == Kind::Unsupported && operation.request_body.is_none();
        if is_of_no_use {
            continue;
        }
        let id = operation.operation_id.as_deref().unwrap_or_default();
        if kind == Kind::Upstream && !REMOTE.contains(&id) {
            continue;
        }
        let status = kind.http_status().to_string();
        let failure = RefOr::Ref(Ref::from_response_name(name));
        let answers = &mut operation.responses.responses;
        answers.entry(status).or_insert(failure);
    }
}

/// The group of a route in the document.
fn group(path: &str) -> &str {
    let path = path.strip_prefix(holm_api::PREFIX).unwrap_or(path);
    let mut words = path.split('/').filter(|word| !word.is_empty());
    let first = words.next().unwrap_or("daemon");
    match (first, words.nth(1)) {
        ("workspaces", Some(below @ ("files" | "runs" | "sessions" | "services"))) => below,
        ("workspaces" | "names" | "uploads" | "numbers", _) => "workspaces",
        ("projects" | "trust", _) => "projects",
        ("ports" | "checkout", _) => "ports",
        (
            "daemon" | "ping" | "doctor" | "disk" | "gc" | "openapi.json" | "health" | "metrics"
            | "audit" | "tokens",
            _,
        ) => "daemon",
        (other, _) => other,
    }
}

fn failure(words: &str) -> RefOr<Described> {
    let schema = Ref::from_schema_name("ErrorBody");
    let content = Content::new(Some(schema));
    let answer = ResponseBuilder::new().description(words);
    answer.content("application/json", content).build().into()
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem {
        get,
        put,
        post,
        delete,
        patch,
        ..
    } = item;
    let all = [
        ("GET", get),
        ("PUT", put),
        ("POST", post),
        ("DELETE", delete),
        ("PATCH", patch),
    ];
    let there = all.into_iter();
    there.filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{TEXT, document};
    use holm_api::route::{OUTSIDE, ROUTES};
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn the_committed_document_is_fresh() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&file, TEXT.as_str()).unwrap();
        }
        assert!(
            std::fs::read_to_string(&file).unwrap_or_default() == *TEXT,
            "docs/openapi.json is stale: UPDATE_DOCS=1 cargo nextest run -p holm-server openapi"
        );
    }

    #[test]
    fn every_operation_is_described() {
        let mut document = document();
        let mut ids = BTreeSet::new();
        for (path, item) in &mut document.paths.paths {
            for (_, operation) in operations(item) {
                let id = operation.operation_id.clone().unwrap_or_default();
                let summary = operation.summary.clone().unwrap_or_default();
                assert!(ids.insert(id.clone()), "two operations are called {id:?}");
                assert!(summary.ends_with('.'), "{id} has no summary: {summary:?}");
                let parameters = serde_json::to_value(&operation.parameters).unwrap();
                let parameters = parameters.as_array().into_iter().flatten();
                let described: BTreeSet<&str> = parameters
                    .filter(|parameter| parameter["in"] == "path")
                    .map(|parameter| parameter["name"].as_str().unwrap())
                    .collect();
                let named = path.split('/').filter_map(|part| part.strip_prefix('{'));
                let named = named.filter_map(|part| part.strip_suffix('}')).collect();
                assert_eq!(described, named, "the parts of {path} are described");
            }
        }
        assert!(ids.len() > 50, "{}", ids.len());
    }

    /// Routes outside the access list are refused.
    #[test]
    fn every_operation_is_in_the_list_of_routes() {
        let mut document = document();
        let mut described = BTreeSet::new();
        for (path, item) in &mut document.paths.paths {
            let methods = operations(item).map(|(method, _)| (method.to_owned(), path.clone()));
            described.extend(methods);
        }
        let below = ROUTES.iter().map(|route| {
            let path = format!("{}{}", holm_api::PREFIX, route.path);
            (route.method.to_owned(), path)
        });
        // MCP has its own specification, and the page's sign-in is for the page alone.
        let outside = OUTSIDE
            .iter()
            .filter(|route| route.path != "/mcp" && !route.path.starts_with("/ui/"))
            .map(|route| (route.method.to_owned(), route.path.to_owned()));
        let listed: BTreeSet<_> = below.chain(outside).collect();
        let difference: Vec<_> = described.symmetric_difference(&listed).collect();
        assert!(
            difference.is_empty(),
            "{difference:?}: see holm-api/src/route.rs"
        );
    }

    /// Two types with one name would share one schema.
    #[test]
    fn every_reference_leads_somewhere() {
        let document: serde_json::Value = serde_json::from_str(&TEXT).unwrap();
        let references = TEXT.split("\"$ref\": \"#").skip(1);
        let references: BTreeSet<_> = references
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert!(references.len() > 40);
        for reference in references {
            assert!(document.pointer(reference).is_some(), "{reference}");
        }
    }
}
