//! One request: found where it leads, checked, passed on, answered.

use super::Shared;
use super::generation::{self, Clearing, Generation};
use super::host::{self, Host, Wrong};
use super::link::{NoAnswer, Upload};
use super::names::WAITING;
use super::pages::{Form, Page, Then};
use super::pool::{Failed, Permit};
use super::relay::Relay;
use super::request::{self, Arrival};
use super::route::{self, Route};
use super::{origin, response, tunnel};
use crate::table::{Inside, Island};
use http_body_util::Empty;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{PathAndQuery, Uri};
use hyper::{Method, Request, Response, StatusCode, Version};
use std::convert::Infallible;
use std::error::Error;

/// The port that addresses do not say.
const HTTP: u16 = 80;

/// A port of a workspace, as one request reaches it.
struct Target<'a> {
    island: &'a Island,
    port: u16,
    /// The name below `localhost` that was used.
    site: String,
}

// === impl Shared ===

impl<I: Inside> Shared<I> {
    /// Never fails: what goes wrong is an answer too.
    pub async fn handle(
        &self,
        request: Request<Incoming>,
        arrival: &Arrival,
    ) -> Result<Response<Relay>, Infallible> {
        let form = Form::wanted(request.headers());
        let islands = self.table.snapshot();
        let answered = self.route(request, arrival, &islands).await;
        Ok(answered.unwrap_or_else(|page| page.answer(form)))
    }

    async fn route(
        &self,
        request: Request<Incoming>,
        arrival: &Arrival,
        islands: &[Island],
    ) -> Result<Response<Relay>, Box<Page>> {
        let host = named_host(&request).map_err(|why| self.malformed(why))?;
        let text = host.to_str().unwrap_or_default();
        let (name, site) = match host::parse(text, self.door) {
            Ok(Host::Preview { port, site }) => (port, site),
            Ok(Host::Own) => return self.own_name(request, text, arrival).await,
            Err(Wrong::Malformed(why)) => return Err(self.malformed(why)),
            Err(Wrong::Foreign) => return Err(self.foreign()),
            Err(Wrong::Unknown) => return Err(self.unknown(text)),
        };
        if request.method() == Method::CONNECT {
            return Err(self.no_connect());
        }
        let (island, port) = match route::find(islands, name.as_deref(), &site) {
            Route::Port { island, port } => (island, port),
            Route::NoPort { island } => return Err(self.no_port(island, &site)),
            Route::UnknownPort { .. } | Route::UnknownSite => {
                return Err(self.unknown(text));
            }
        };
        let target = Target { island, port, site };
        self.reach(&target, request, &host, arrival).await
    }

    /// The request is for the daemon itself, or for nothing.
    async fn own_name(
        &self,
        request: Request<Incoming>,
        host: &str,
        arrival: &Arrival,
    ) -> Result<Response<Relay>, Box<Page>> {
        let Some(daemon) = &self.hooks.daemon else {
            return Err(self.own());
        };
        if !is_of_the_daemon(request.uri().path()) {
            return Err(self.own());
        }
        if request.method() == Method::CONNECT {
            return Err(self.no_connect());
        }
        // A name without the port is a name of whoever has port 80.
        if !host::says_port(host) && self.door != HTTP {
            return Err(self.foreign());
        }
        let answer = daemon(request, arrival.sever.clone()).await;
        Ok(answer.map(Relay::daemon))
    }

    /// The request is for this port of this workspace.
    async fn reach(
        &self,
        target: &Target<'_>,
        request: Request<Incoming>,
        host: &HeaderValue,
        arrival: &Arrival,
    ) -> Result<Response<Relay>, Box<Page>> {
        let island = target.island;
        let Some(hops) = request::hops(request.headers()) else {
            return Err(self.circle());
        };
        if request.headers().contains_key(WAITING) {
            return Ok(self.is_there_something(target).await);
        }
        if origin::is_foreign(request.headers(), island, self.door) {
            return Err(self.foreign_page());
        }
        if !island.is_running {
            return Err(self.stopped(island, &target.site));
        }
        if let Some(page) = self.clearing(target, &request) {
            return Ok(page);
        }
        (self.hooks.used)(&island.id);
        let sent = async {
            let permit = self.pool.permit(&island.id)?;
            let (mut head, body) = request.into_parts();
            let wanted = request::upgrade(&head.headers);
            let is_http2 = head.version == Version::HTTP_2;
            arrival.prepare(&mut head, host, hops);
            match wanted {
                Some(protocol) if !is_http2 => {
                    self.upgrade(target, head, body, protocol, permit).await
                }
                _ => self.pass(target, head, body, permit).await,
            }
        };
        let mut answer = sent.await.map_err(|failed| self.failed(target, &failed))?;
        // What an old server speaks does not keep the client from using its connection again.
        *answer.version_mut() = Version::HTTP_11;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            response::clean(answer.headers_mut(), &target.site);
        }
        Ok(answer)
    }

    async fn pass(
        &self,
        target: &Target<'_>,
        mut head: Parts,
        body: Incoming,
        permit: Permit,
    ) -> Result<Response<Relay>, Failed> {
        let (id, port) = (&target.island.id, target.port);
        let is_grpc = head.version == Version::HTTP_2
            && head
                .headers
                .get(header::CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if !is_grpc {
            to_origin_form(&mut head);
            let request = Request::from_parts(head, upload(body));
            return self
                .pool
                .send(id, port, request, permit)
                .await
                .and_then(not_switched);
        }
        // The authority says what `Host` would.
        head.headers.remove(header::HOST);
        let request = Request::from_parts(head, upload(body));
        self.pool.send_http2(id, port, request, permit).await
    }

    async fn upgrade(
        &self,
        target: &Target<'_>,
        mut head: Parts,
        body: Incoming,
        protocol: HeaderValue,
        permit: Permit,
    ) -> Result<Response<Relay>, Failed> {
        let (id, port) = (&target.island.id, target.port);
        to_origin_form(&mut head);
        let upgrade = HeaderValue::from_static("upgrade");
        head.headers.insert(header::CONNECTION, upgrade.clone());
        head.headers.insert(header::UPGRADE, protocol.clone());
        let mut request = Request::from_parts(head, upload(body));
        let client = hyper::upgrade::on(&mut request);
        let mut link = self.pool.fresh(id, port).await?;
        let mut answer = link.send(request).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(self.pool.relayed(id, port, answer, link, permit));
        }
        if !tunnel::is_what_was_asked(&answer, &protocol) {
            return Err(Failed::WrongProtocol);
        }
        tunnel::join(client, &mut answer, link, permit);
        response::clean(answer.headers_mut(), &target.site);
        answer.headers_mut().insert(header::CONNECTION, upgrade);
        answer.headers_mut().insert(header::UPGRADE, protocol);
        Ok(answer.map(|_| Relay::own("")))
    }

    /// The page that waits asks this.
    async fn is_there_something(&self, target: &Target<'_>) -> Response<Relay> {
        let island = target.island;
        let is_there = island.is_running && self.pool.is_listening(&island.id, target.port).await;
        let mut answer = Response::new(Relay::own(""));
        *answer.status_mut() = match is_there {
            true => StatusCode::NO_CONTENT,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        let no_store = HeaderValue::from_static("no-store");
        answer.headers_mut().insert(header::CACHE_CONTROL, no_store);
        answer
    }

    fn clearing(
        &self,
        target: &Target<'_>,
        request: &Request<Incoming>,
    ) -> Option<Response<Relay>> {
        let id = &target.island.id;
        // An id is never used again.
        if target.site == id.as_str() {
            return None;
        }
        if (self.hooks.generations)(&target.site, id) == Generation::First {
            return None;
        }
        match generation::needed(request.method(), request.headers(), id) {
            Clearing::Done => None,
            Clearing::Worker => Some(generation::last_worker()),
            Clearing::Page { cookies } => {
                Some(generation::clearing_page(cookies, &target.site, id))
            }
        }
    }
}

/// What the daemon answers below its own names.
fn is_of_the_daemon(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    matches!(first, Some("api" | "health" | "metrics" | "mcp"))
}

/// The one `Host` of a request. In HTTP/2 it is the authority.
fn named_host(request: &Request<Incoming>) -> Result<HeaderValue, &'static str> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err("there is more than one");
    }
    let authority = request.uri().authority();
    match (host, authority) {
        (None, None) => Err("there is none"),
        (Some(host), None) => Ok(host.clone()),
        (None, Some(authority)) if request.version() == Version::HTTP_2 => {
            HeaderValue::from_str(authority.as_str()).map_err(|_| "it cannot be read")
        }
        (None, Some(_)) => Err("there is none"),
        (Some(host), Some(authority)) => {
            match host
                .as_bytes()
                .eq_ignore_ascii_case(authority.as_str().as_bytes())
            {
                true => Ok(host.clone()),
                false => Err("the request is for another one"),
            }
        }
    }
}

fn to_origin_form(head: &mut Parts) {
    head.version = Version::HTTP_11;
    if head.uri.authority().is_some() || head.uri.scheme().is_some() {
        let path = head.uri.path_and_query().cloned();
        head.uri = Uri::from(path.unwrap_or(PathAndQuery::from_static("/")));
    }
}

fn upload(body: Incoming) -> Upload {
    match body.is_end_stream() {
        true => Upload::Right(Empty::new()),
        false => Upload::Left(body),
    }
}

/// Nobody asked for another protocol.
fn not_switched(answer: Response<Relay>) -> Result<Response<Relay>, Failed> {
    match answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        true => Err(Failed::WrongProtocol),
        false => Ok(answer),
    }
}

// === The pages ===

impl<I> Shared<I> {
    fn page(
        &self,
        status: StatusCode,
        code: &'static str,
        title: impl Into<String>,
        text: impl Into<String>,
    ) -> Box<Page> {
        Box::new(Page {
            status,
            code,
            title: title.into(),
            text: text.into(),
            command: None,
            then: Then::Stay,
        })
    }

    fn malformed(&self, why: &str) -> Box<Page> {
        let text = format!("The Host of the request leads nowhere: {why}.");
        self.page(StatusCode::BAD_REQUEST, "bad_request", "Bad request", text)
    }

    fn foreign(&self) -> Box<Page> {
        let text = "The Host of the request is not one of this machine's own names.";
        let status = StatusCode::MISDIRECTED_REQUEST;
        self.page(status, "refused", "Not for this server", text)
    }

    fn own(&self) -> Box<Page> {
        let text = "Every workspace has its own names. This lists them:";
        let mut page = self.page(StatusCode::NOT_FOUND, "not_found", "Nothing here", text);
        page.command = Some("holm ports".to_owned());
        page
    }

    fn unknown(&self, host: &str) -> Box<Page> {
        let title = format!("{host} does not exist");
        let text = "Workspaces have other names. This lists them:";
        let mut page = self.page(StatusCode::NOT_FOUND, "not_found", title, text);
        page.command = Some("holm ports".to_owned());
        page
    }

    fn no_port(&self, island: &Island, site: &str) -> Box<Page> {
        if !island.is_running {
            return self.stopped(island, site);
        }
        if island.ports.iter().any(|port| port.is_listening) {
            let title = format!("Which port of {site}?");
            let text = "More than one listens, and holm.toml declares none. This lists them:";
            let mut page = self.page(StatusCode::NOT_FOUND, "not_found", title, text);
            page.command = Some(format!("holm ports {}", named(island, site)));
            return page;
        }
        let text = "Nothing listens in this workspace yet. This page reloads when something does.";
        self.waiting(format!("Waiting for {site}"), text)
    }

    fn waiting(&self, title: String, text: impl Into<String>) -> Box<Page> {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let mut page = self.page(status, "not_listening", title, text);
        page.then = Then::Wait;
        page
    }

    fn stopped(&self, island: &Island, site: &str) -> Box<Page> {
        let text = "This page reloads when the workspace runs and something listens.";
        let mut page = self.waiting(format!("{site} is stopped"), text);
        page.code = "not_running";
        page.command = Some(format!("holm start {}", named(island, site)));
        page
    }

    fn circle(&self) -> Box<Page> {
        let text = "The request came by again and again: the server in the workspace passes it on \
                    to its own preview.";
        self.page(
            StatusCode::LOOP_DETECTED,
            "loop",
            "It goes in circles",
            text,
        )
    }

    fn no_connect(&self) -> Box<Page> {
        let text = "The front door is no proxy for CONNECT.";
        self.page(StatusCode::METHOD_NOT_ALLOWED, "refused", "Not here", text)
    }

    fn foreign_page(&self) -> Box<Page> {
        let text = "A page of another workspace, or of nobody, asked for this. Workspaces do not \
                    reach each other through the browser.";
        self.page(StatusCode::FORBIDDEN, "refused", "Refused", text)
    }

    fn failed(&self, target: &Target<'_>, failed: &Failed) -> Box<Page> {
        let site = &target.site;
        match failed {
            Failed::Refused => {
                let text =
                    "Nothing listens on this port yet. This page reloads when something does.";
                self.waiting(format!("Waiting for {site}"), text)
            }
            Failed::TooMany(_) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                self.page(status, "busy", format!("{site} is busy"), sentence(failed))
            }
            Failed::NoAnswer(NoAnswer::SlowHead(_)) => {
                let status = StatusCode::GATEWAY_TIMEOUT;
                self.page(
                    status,
                    "bad_gateway",
                    format!("{site} did not answer"),
                    sentence(failed),
                )
            }
            _ => {
                let title = format!("{site} gave no proper answer");
                let text = match failed {
                    // Why is the daemon's own affair, with names of files in it.
                    Failed::Dial(error) => {
                        let id = &target.island.id;
                        tracing::warn!(%id, %error, "a preview cannot connect");
                        failed.to_string()
                    }
                    failed => sentence(failed),
                };
                self.page(StatusCode::BAD_GATEWAY, "bad_gateway", title, text)
            }
        }
    }
}

/// How the workspace is called in a command, by no more than what the request says of it.
fn named(island: &Island, site: &str) -> String {
    if site == island.id.as_str() || site == island.label.as_str() {
        return site.to_owned();
    }
    // Such a site is made of both.
    format!("{}/{}", island.project, island.label)
}

/// An error with its causes.
fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
