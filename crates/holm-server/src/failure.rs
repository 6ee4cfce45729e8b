//! Error responses: every error of the API is one body, with the status of its kind. Requests are
//! parsed here too, so that every parse error has the same form.

use super::objects;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use holm_api::ErrorBody;
use holm_api::route::ROUTES;
use holm_core::{
    Cause, Code, Fault, Kind, ProjectId, RunId, SessionId, TokenId, WorkspaceId, session,
};
use serde::de::DeserializeOwned;
use std::error::Error;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{Ref, Required};

/// A fault on its way to the client.
#[derive(Debug)]
pub struct Failure(pub Fault);

/// A JSON body of exactly the documented form.
pub struct Body<T>(pub T);

/// Query parameters of exactly the documented form.
pub struct Parameters<T>(pub T);

/// The workspace of the path, which the gate resolved from what the user typed.
#[derive(Clone, Debug)]
pub struct Named(pub WorkspaceId);

pub type Answer<T> = Result<Json<T>, Failure>;

// === impl Failure ===

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Failure(fault) = self;
        let status = StatusCode::from_u16(fault.code.kind().http_status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(error_body(&fault))).into_response();
        // For the gate, which reduces it for some callers and records the code.
        response.extensions_mut().insert(fault);
        response
    }
}

// === impl Body ===

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|error: BytesRejection| bad_request(explained(&error)))?;
        let value = objects::from_slice(&bytes);
        let value = value.map_err(bad_request)?;
        Ok(Self(value))
    }
}

// === impl Parameters ===

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(value) = query.map_err(|error: QueryRejection| bad_request(error.body_text()))?;
        Ok(Self(value))
    }
}

/// The ids in the path of a route, and nothing else: how each is parsed, and its name, type and
/// description in the API document.
macro_rules! key {
    ($key:ident: $($name:ident $id:ident $parse:ident $words:literal),+) => {
        pub struct $key($(pub $id),+);

        impl<S: Send + Sync> FromRequestParts<S> for $key {
            type Rejection = Failure;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
                let path = RawPathParams::from_request_parts(parts, state).await;
                let path = path.map_err(|error| bad_request(error.body_text()))?;
                let named = parts.extensions.get::<Named>();
                $(
                    let $name = path.iter().find(|(name, _)| *name == stringify!($name));
                    let $name = match ($name.map_or("", |(_, text)| text), named) {
                        (holm_api::TYPED, Some(Named(id))) => id.as_str(),
                        (text, _) => text,
                    };
                )+
                Ok(Self($($parse($name)?),+))
            }
        }

        impl IntoParams for $key {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$(in_path(stringify!($name), stringify!($id), $words)),+]
            }
        }
    };
}

key!(WorkspaceKey: id WorkspaceId workspace_id "The id of a workspace.");
key!(ProjectKey: id ProjectId project_id "The id of a project.");
key!(TokenKey: token TokenId token_id "The id of a token.");
key!(RunKey: id WorkspaceId workspace_id "The id of a workspace.",
    run RunId run_id "The id of a run.");
key!(SessionKey: id WorkspaceId workspace_id "The id of a workspace.",
    session SessionId session_id "The id of a session.");

/// A path parameter in the API document, with the name of its schema.
fn in_path(name: &str, schema: &str, words: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(words))
        .schema(Some(Ref::from_schema_name(schema)))
        .build()
}

/// The error body for a fault. Server errors are also logged.
pub fn error_body(fault: &Fault) -> ErrorBody {
    if fault.code.kind() == Kind::Failed && fault.code != Code::Cancelled {
        tracing::error!(code = %fault.code, "{}", fault.message());
    }
    ErrorBody::from(fault)
}

/// Parses a workspace's id in a body or a path.
pub fn workspace_id(text: &str) -> Result<WorkspaceId, Failure> {
    WorkspaceId::parse(text).map_err(|error| {
        let hint = "`holm ls` lists the workspaces with their ids";
        Failure(Fault::of(Code::WorkspaceNotFound, error, hint))
    })
}

/// Parses a project's id in a body or a path.
pub fn project_id(text: &str) -> Result<ProjectId, Failure> {
    ProjectId::parse(text).map_err(|error| {
        let hint = "`holm project ls` lists the projects with their ids";
        Failure(Fault::of(Code::ProjectNotFound, error, hint))
    })
}

fn token_id(text: &str) -> Result<TokenId, Failure> {
    TokenId::parse(text).map_err(|error| {
        let hint = "`holm token ls` lists the tokens with their ids";
        Failure(Fault::of(Code::TokenNotFound, error, hint))
    })
}

fn run_id(text: &str) -> Result<RunId, Failure> {
    RunId::parse(text).map_err(|error| {
        let hint = "`holm runs ls` lists the runs with their ids";
        Failure(Fault::of(Code::RunNotFound, error, hint))
    })
}

fn session_id(text: &str) -> Result<SessionId, Failure> {
    SessionId::parse(text).map_err(|_| Failure(session::not_found(text)))
}

pub fn bad_request(cause: impl Into<Cause>) -> Failure {
    let hint = "/api/v1/openapi.json describes it; a client of another version? `holm daemon stop`, then try again";
    let message = "the request is not of the documented form";
    Failure(Fault::new(Code::BadRequest, message, hint).because(cause))
}

/// axum's reason why a body could not be read.
fn explained(error: &BytesRejection) -> String {
    let mut text = error.body_text();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

pub async fn not_found(method: Method, uri: Uri) -> Failure {
    no_such_route(&method, &uri)
}

/// The path exists, with other methods.
pub async fn wrong_method(method: Method, uri: Uri) -> Failure {
    not_with(&method, &uri)
}

pub fn not_with(method: &Method, uri: &Uri) -> Failure {
    let path = uri.path();
    let path = path.strip_prefix(holm_api::PREFIX).unwrap_or(path);
    let others: Vec<&str> = ROUTES
        .iter()
        .filter(|route| matches(route.path, path))
        .map(|route| route.method)
        .collect();
    Failure(Fault::new(
        Code::MethodNotAllowed,
        format!("{} does not take {method}", path.escape_debug()),
        format!("it takes {}", others.join(", ")),
    ))
}

/// Whether a path is one of a route such as `/workspaces/{id}`.
fn matches(route: &str, path: &str) -> bool {
    let (mut route, mut path) = (route.split('/'), path.split('/'));
    loop {
        match (route.next(), path.next()) {
            (None, None) => return true,
            (Some(part), Some(word)) if part == word || part.starts_with('{') => {}
            _ => return false,
        }
    }
}

pub fn no_such_route(method: &Method, uri: &Uri) -> Failure {
    let path = uri.path();
    Failure(Fault::new(
        Code::NotFound,
        format!("the API has no route {method} {}", path.escape_debug()),
        "every route begins with /api/v1; is the daemon older than this program? `holm daemon stop`",
    ))
}
