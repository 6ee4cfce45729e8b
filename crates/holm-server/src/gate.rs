//! The gate that every request passes, through any listener: identifies the caller, checks access
//! and content type. Behind it every route has a [`Caller`].
//!
//! Invariants: routes that are not in the list do not exist; at the front door nothing is read or
//! done before origin and token were checked.

use super::App;
use super::audit::{Answered, Asked, Outcome};
use super::bounds::{self, Bounds};
use super::caller::{Caller, Way, discreet};
use super::dashboard;
use super::failure::{Failure, Named, no_such_route, not_with, workspace_id};
use super::listen::Peer;
use super::tokens::Refusal;
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequestParts, Request};
use axum::extract::{MatchedPath, RawPathParams, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use holm_api::route::{Access, Content, Route};
use holm_core::token::Holder;
use holm_core::{Code, Fault, ProjectId, RequestId, RunId, SessionId, TokenId, WorkspaceId, hint};
use holm_keeper::guests::Speaker;
use holm_proxy::sever::Sever;
use std::sync::Arc;

/// The daemon's own names at the front door.
const OWN_NAMES: [&str; 4] = ["holm.localhost", "localhost", "127.0.0.1", "[::1]"];

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Who was refused, if known, and why.
struct Refused {
    caller: Caller,
    fault: Fault,
}

pub async fn gate(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let confirms = dashboard::offers_ticket(&head.headers);
    let way = Way::of(&head.extensions);
    let named = match typed(way.as_ref(), &head) {
        Some(typed) => match app.engine.resolve(&typed).await {
            Ok(id) => Some(Named(id)),
            // Nothing was requested of a workspace, so nothing is recorded.
            Err(fault) => {
                let mut response = Failure(fault).into_response();
                finish(&mut response, &RequestId::random());
                return response;
            }
        },
        None => None,
    };
    if let Some(named) = &named {
        head.extensions.insert(named.clone());
    }
    let asked = asked(&mut head).await;
    let behalf = on_behalf_of(way.as_ref(), &head.headers);
    let admitted = match &way {
        Some(way) => admit(&app, way, &head, &body, &asked),
        None => Err(Refused::nobody(unknown_way())),
    };
    let (caller, mut response) = match admitted {
        Ok((caller, bounds)) => {
            head.extensions.insert(caller.clone());
            head.extensions.insert(asked.id.clone());
            let body = bounds::within(bounds, body);
            let response = next.run(Request::from_parts(head, body)).await;
            (caller, response)
        }
        Err(Refused { caller, fault }) => (caller, Failure(fault).into_response()),
    };
    let fault = response.extensions().get::<Fault>().cloned();
    if let (Some(fault), Caller::Workspace(own)) = (&fault, &caller) {
        let status = response.status();
        response = Failure(discreet(&app.paths, own, fault)).into_response();
        *response.status_mut() = status;
    }
    if let (Some(fault), Caller::Token { .. }) = (&fault, &caller) {
        let status = response.status();
        let hint = hint::for_routes(&fault.hint);
        response = Failure(fault.clone().with_hint(hint)).into_response();
        *response.status_mut() = status;
    }
    if response.status() == axum::http::StatusCode::UNAUTHORIZED {
        app.tokens.note_ended().await;
    }
    let actor = behalf.unwrap_or_else(|| actor(way.as_ref(), &caller));
    let answered = Answered {
        status: response.status(),
        code: fault.map(|fault| fault.code),
        outcome: response.extensions().get::<Outcome>().cloned(),
    };
    app.audit.note(&asked, &caller, actor, answered).await;
    finish(&mut response, &asked.id);
    if confirms {
        dashboard::confirm_protocol(&mut response);
    }
    let id = named.map(|Named(id)| HeaderValue::from_str(id.as_str()));
    if let Some(Ok(id)) = id {
        response.headers_mut().insert(holm_api::WORKSPACE, id);
    }
    response
}

/// What the user typed for the workspace of this route. Labels are no keys: only the user's own
/// client sends them, at the socket.
fn typed(way: Option<&Way>, head: &Parts) -> Option<String> {
    let typed = head.headers.get(holm_api::WORKSPACE)?;
    let is_typed = head.uri.path().split('/').nth(4) == Some(holm_api::TYPED);
    match way {
        Some(Way::Socket(_)) if is_typed => Some(typed.to_str().ok()?.to_owned()),
        _ => None,
    }
}

/// The actor that the daemon names when it calls itself. Accepted only from this process.
fn on_behalf_of(way: Option<&Way>, headers: &HeaderMap) -> Option<String> {
    let Some(Way::Socket(Peer {
        is_daemon: true, ..
    })) = way
    else {
        return None;
    };
    let actor = headers.get(holm_api::ON_BEHALF_OF)?;
    Some(String::from_utf8_lossy(actor.as_bytes()).into_owned())
}

/// The actor in the audit record.
fn actor(way: Option<&Way>, caller: &Caller) -> String {
    let actor = caller.actor();
    match way {
        Some(Way::Guests(_, Some(Speaker::Session(id)))) => format!("{actor} session {id}"),
        Some(Way::Guests(_, Some(Speaker::Run(id)))) => format!("{actor} run {id}"),
        _ => actor,
    }
}

/// Headers of every response.
fn finish(response: &mut Response, id: &RequestId) {
    let is_unauthorized = response.status() == axum::http::StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        headers.insert(REQUEST_ID, value);
    }
    if is_unauthorized {
        let scheme = HeaderValue::from_static("Bearer");
        headers.insert(header::WWW_AUTHENTICATE, scheme);
    }
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        let value = HeaderValue::from_static(value);
        headers.entry(name).or_insert(value);
    }
}

async fn asked(head: &mut Parts) -> Asked {
    let pattern = head.extensions.get::<MatchedPath>();
    let pattern = pattern.map(|pattern| pattern.as_str().to_owned());
    let method = head.method.as_str();
    let route = pattern
        .as_deref()
        .and_then(|pattern| Route::find(method, pattern));
    let params = RawPathParams::from_request_parts(head, &()).await.ok();
    let params = params.as_ref();
    let parameter = |wanted: &str| {
        let found = params.and_then(|params| params.iter().find(|(name, _)| *name == wanted));
        found.map(|(_, value)| value)
    };
    let id = parameter("id");
    // Only text with the shape of an id: other text from clients must not reach the record.
    let of = |kind: &str, id: Option<String>| id.map(|id| format!("{kind} {id}"));
    let project = id.and_then(|id| Some(ProjectId::parse(id).ok()?.to_string()));
    let run = parameter("run").and_then(|id| Some(RunId::parse(id).ok()?.to_string()));
    let session = parameter("session").and_then(|id| Some(SessionId::parse(id).ok()?.to_string()));
    let token = parameter("token").and_then(|id| Some(TokenId::parse(id).ok()?.to_string()));
    let subjects = [
        of("run", run),
        of("session", session),
        of("token", token),
        of("project", project),
    ];
    Asked {
        id: RequestId::random(),
        method: head.method.to_string(),
        route,
        workspace: match head.extensions.get::<Named>() {
            Some(Named(id)) => Some(id.clone()),
            None => id.and_then(|id| WorkspaceId::parse(id).ok()),
        },
        subject: subjects.into_iter().flatten().next(),
    }
}

/// Whether a request may continue; its body was not read yet.
fn admit(
    app: &App,
    way: &Way,
    head: &Parts,
    body: &Body,
    asked: &Asked,
) -> Result<(Caller, Bounds), Refused> {
    let caller = identify(app, way, head, asked.route).map_err(Refused::nobody)?;
    let refuse = |fault| Refused {
        caller: caller.clone(),
        fault,
    };
    let Some(route) = asked.route else {
        let is_path = head.extensions.get::<MatchedPath>().is_some();
        let missing = if is_path { not_with } else { no_such_route };
        return Err(refuse(missing(&head.method, &head.uri).0));
    };
    judge(route, &caller, asked, head).map_err(refuse)?;
    let has_body = !body.is_end_stream();
    match (way, type_of(&head.headers)) {
        // The user at the socket need not set the content type, and `curl -d` calls everything a
        // form.
        (Way::Socket(_), Some(Ok(kind))) if kind == FORM => {}
        (Way::Socket(_), None) => {}
        (_, kind) => check_type(route.content, kind, has_body).map_err(refuse)?,
    }
    let is_packed = |value: &HeaderValue| value != "identity";
    if head
        .headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(is_packed)
    {
        return Err(refuse(wrong_type(
            "the body is packed, and nothing unpacks it",
        )));
    }
    let bounds = match (way, &caller) {
        (Way::Socket(_), _) => Bounds::NONE,
        (_, Caller::Workspace(_)) => Bounds::guest(route.content),
        _ => Bounds::token(route.content),
    };
    bounds
        .check_length(body.size_hint().lower())
        .map_err(refuse)?;
    Ok((caller, bounds))
}

/// Identifies the caller.
fn identify(app: &App, way: &Way, head: &Parts, route: Option<&Route>) -> Result<Caller, Fault> {
    let headers = &head.headers;
    match way {
        Way::Socket(peer) => Ok(Caller::Person { uid: peer.uid }),
        Way::Guests(own, _) => {
            let caller = Caller::Workspace(own.clone());
            // A token of another caller must not be used from a workspace.
            if headers.contains_key(header::AUTHORIZATION) && token(app, headers)? != caller {
                return Err(forbidden(
                    "this token is not for the workspace that it was shown from",
                    "leave it out: inside a workspace no token is needed",
                ));
            }
            Ok(caller)
        }
        Way::Door(sever) => {
            check_origin(headers, app.door_port())?;
            if route.is_some_and(|route| route.access == Access::Anyone) {
                return Ok(Caller::Anyone);
            }
            if dashboard::is_browsers(headers, app.door_port()) {
                return browser(app, head, route, sever);
            }
            let caller = token(app, headers)?;
            hold(app, &caller, headers, sever)?;
            Ok(caller)
        }
    }
}

/// The signed-in browser. Its connection is cut with its sign-in, which is checked once more afterwards.
fn browser(app: &App, head: &Parts, route: Option<&Route>, sever: &Sever) -> Result<Caller, Fault> {
    let id = dashboard::signed_in(app, head, route)?;
    app.tokens.cuts().hold(id.as_str(), sever);
    if app.tokens.is_known(&id) {
        Ok(Caller::Browser { id })
    } else {
        Err(unauthorized("the browser was signed out"))
    }
}

/// The owner of the request's token.
fn token(app: &App, headers: &HeaderMap) -> Result<Caller, Fault> {
    let text =
        bearer(headers).ok_or_else(|| unauthorized("there is no `Authorization: Bearer`"))?;
    let record = app.tokens.check(text).map_err(|refusal| match refusal {
        Refusal::Unknown => unauthorized("nobody has this token"),
        Refusal::Expired => unauthorized("this token has expired"),
    })?;
    if record.holder == Holder::Browser {
        return Err(unauthorized("this token counts only as a browser's cookie"));
    }
    Ok(match record.workspace {
        Some(workspace) => Caller::Workspace(workspace),
        None => Caller::Token {
            id: record.id,
            name: record.name,
        },
    })
}

/// Registers the connection to be cut with the token, and checks the token once more afterwards:
/// nothing passes in between.
fn hold(app: &App, caller: &Caller, headers: &HeaderMap, sever: &Sever) -> Result<(), Fault> {
    if let Some(record) = bearer(headers).and_then(|text| app.tokens.check(text).ok()) {
        app.tokens.cuts().hold(record.id.as_str(), sever);
    }
    if let Caller::Workspace(id) = caller {
        app.tokens.cuts().hold(id.as_str(), sever);
    }
    token(app, headers).map(drop)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut found = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (found.next()?.to_str().ok()?, found.next()) else {
        return None;
    };
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Refuses web pages of other origins, whatever else they send.
fn check_origin(headers: &HeaderMap, port: u16) -> Result<(), Fault> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let is_own = match (origins.next(), origins.next()) {
        (None, _) => true,
        (Some(origin), None) => origin
            .to_str()
            .is_ok_and(|origin| is_own_origin(origin, port)),
        (Some(_), Some(_)) => false,
    };
    if is_own {
        Ok(())
    } else {
        Err(forbidden(
            "the Origin of the request is not the daemon's own",
            "pages of other origins cannot use the API; a program sends no Origin",
        ))
    }
}

fn is_own_origin(origin: &str, port: u16) -> bool {
    let Some(host) = origin.strip_prefix("http://") else {
        return false;
    };
    let own = OWN_NAMES.iter();
    match port {
        80 => own.into_iter().any(|name| host == *name),
        port => own
            .into_iter()
            .any(|name| host.strip_prefix(name) == Some(&format!(":{port}"))),
    }
}

/// Whether this caller may use this route.
fn judge(route: &Route, caller: &Caller, asked: &Asked, head: &Parts) -> Result<(), Fault> {
    let own = match caller {
        Caller::Person { .. } | Caller::Browser { .. } => return Ok(()),
        Caller::Token { .. } if route.access == Access::Browser => {
            return Err(forbidden(
                "this route is for the page of the dashboard",
                "`holm ui` opens the dashboard",
            ));
        }
        Caller::Token { .. } if route.access == Access::Person => {
            return Err(forbidden(
                "tokens are made and ended by the user at the Unix socket, not by a token",
                "`holm token` does it",
            ));
        }
        Caller::Token { .. } => return Ok(()),
        Caller::Anyone if route.access == Access::Anyone => return Ok(()),
        Caller::Anyone => return Err(unauthorized("there is no token")),
        Caller::Workspace(own) => own,
    };
    let is_about_another =
        route.path.starts_with("/workspaces/{id}") && asked.workspace.as_ref() != Some(own);
    match route.access {
        _ if is_about_another => Err(no_such_workspace(head)),
        Access::Anyone | Access::Own | Access::Filtered => Ok(()),
        Access::User | Access::Browser => Err(no_such_route(&head.method, &head.uri).0),
        Access::Policy | Access::Person => Err(forbidden(
            "a workspace does not decide what it may do",
            "ask the user; outside of the workspace `holm` does it",
        )),
    }
}

/// The same whether the workspace exists or not.
fn no_such_workspace(head: &Parts) -> Fault {
    let named = head.uri.path().split('/').nth(4).unwrap_or_default();
    match workspace_id(named) {
        Ok(id) => Fault::new(
            Code::WorkspaceNotFound,
            format!("no workspace {id}"),
            "`holm here` says which workspace this is",
        ),
        Err(failure) => failure.0,
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

/// Content types that a page of another origin can send without a preflight.
const SIMPLE: [&str; 3] = [FORM, "multipart/form-data", "text/plain"];

/// The content type in lower case, without parameters.
fn type_of(headers: &HeaderMap) -> Option<Result<String, ()>> {
    let mut found = headers.get_all(header::CONTENT_TYPE).iter();
    let value = found.next()?;
    let text = value.to_str().ok().filter(|_| found.next().is_none());
    let essence = |text: &str| {
        let essence = text.split(';').next().unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    };
    Some(text.map(essence).ok_or(()))
}

fn check_type(
    content: Content,
    kind: Option<Result<String, ()>>,
    has_body: bool,
) -> Result<(), Fault> {
    match (content, kind) {
        (_, Some(Err(()))) => Err(wrong_type("its type cannot be read")),
        (Content::Bytes, Some(Ok(kind))) if SIMPLE.contains(&kind.as_str()) => {
            Err(wrong_type("its type is one that any page can send"))
        }
        (Content::Bytes, _) => Ok(()),
        (Content::Json | Content::WebSocket, Some(Ok(kind))) if kind == "application/json" => {
            Ok(())
        }
        (Content::Json | Content::WebSocket, None) if !has_body => Ok(()),
        (Content::Json | Content::WebSocket, _) => Err(wrong_type("it is not said to be JSON")),
    }
}

fn wrong_type(why: &str) -> Fault {
    Fault::new(
        Code::UnsupportedType,
        format!("the body is not taken: {why}"),
        "send `Content-Type: application/json`; file contents as `application/octet-stream`",
    )
}

fn unauthorized(why: &str) -> Fault {
    Fault::new(
        Code::Unauthorized,
        format!("the request is not authorized: {why}"),
        "`holm token new` makes a token; send it as `Authorization: Bearer …`",
    )
}

fn forbidden(why: &str, hint: &str) -> Fault {
    Fault::new(Code::Forbidden, why, hint)
}

fn unknown_way() -> Fault {
    let message = "the request came by no known way";
    Fault::new(Code::Internal, message, "see the daemon's log")
}

// === impl Refused ===

impl Refused {
    fn nobody(fault: Fault) -> Self {
        Self {
            caller: Caller::Anyone,
            fault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_whole() {
        for own in [
            "http://holm.localhost:7070",
            "http://localhost:7070",
            "http://127.0.0.1:7070",
            "http://[::1]:7070",
        ] {
            assert!(is_own_origin(own, 7070), "{own}");
            assert!(!is_own_origin(own, 7071), "{own}");
        }
        for foreign in [
            "null",
            "",
            "http://localhost",
            "http://localhost:70700",
            "http://localhost:7070/",
            "http://localhost.evil.test:7070",
            "http://evil.test/http://localhost:7070",
            "http://xlocalhost:7070",
            "http://web.localhost:7070",
            "http://a.holm.localhost:7070",
            "https://localhost:7070",
            "http://localhost:7070@evil.test",
            "http://LOCALHOST:7070",
        ] {
            assert!(!is_own_origin(foreign, 7070), "{foreign}");
        }
        assert!(is_own_origin("http://localhost", 80));
        assert!(!is_own_origin("http://localhost:80", 80));
    }

    #[test]
    fn bodies_say_what_they_are() {
        let check = |content: Content, kind: Option<&str>, has_body: bool, expect: bool| {
            let mut headers = HeaderMap::new();
            if let Some(kind) = kind {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
            }
            let checked = check_type(content, type_of(&headers), has_body);
            assert_eq!(checked.is_ok(), expect, "{content:?} {kind:?} {has_body}");
        };
        for simple in [
            "text/plain",
            "Text/Plain;charset=utf-8",
            FORM,
            "multipart/form-data; boundary=x",
        ] {
            for content in [Content::Json, Content::Bytes, Content::WebSocket] {
                check(content, Some(simple), true, false);
                check(content, Some(simple), false, false);
            }
        }
        check(Content::Json, Some("application/json"), true, true);
        check(
            Content::Json,
            Some("Application/JSON; charset=utf-8"),
            true,
            true,
        );
        check(Content::Json, Some("application/jsonx"), true, false);
        check(Content::Json, None, true, false);
        check(Content::Json, None, false, true);
        check(Content::Bytes, Some("application/x-tar"), true, true);
        check(Content::Bytes, None, true, true);
    }
}
