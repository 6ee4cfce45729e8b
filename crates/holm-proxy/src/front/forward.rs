//! Handles one preview request: finds its workspace, checks the request, forwards it and relays the
//! answer.

use super::Shared;
use super::generation::{self, Clearing, Generation};
use super::host::{self, Host, Wrong};
use super::idle::Permit;
use super::link::{NoAnswer, Upload};
use super::names::WAITING;
use super::pages::{Form, Page, Then};
use super::pool::Failed;
use super::preview::{self, PreviewTarget};
use super::relay::Relay;
use super::request::{self, Arrival};
use super::{origin, response, tunnel};
use crate::table::{Inside, LiveWorkspace};
use holm_core::fault::with_causes;
use http_body_util::Empty;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{PathAndQuery, Uri};
use hyper::{Method, Request, Response, StatusCode, Version};
use std::convert::Infallible;

/// The port that URLs may leave out.
const HTTP: u16 = 80;

/// The workspace port that this request is for.
struct Target<'a> {
    workspace: &'a LiveWorkspace,
    port: u16,
    /// The site name below `localhost` in the request.
    site: String,
    /// The `Host` that the server is shown, if not that of the request.
    shown: Option<&'a str>,
}

// === impl Shared ===

impl<I: Inside> Shared<I> {
    /// Infallible: a failure becomes an error response.
    pub async fn handle(
        &self,
        request: Request<Incoming>,
        arrival: &Arrival,
    ) -> Result<Response<Relay>, Infallible> {
        let form = Form::wanted(request.headers());
        let workspaces = self.table.snapshot();
        let answered = self.dispatch(request, arrival, &workspaces).await;
        Ok(answered.unwrap_or_else(|page| page.answer(form)))
    }

    async fn dispatch(
        &self,
        request: Request<Incoming>,
        arrival: &Arrival,
        workspaces: &[LiveWorkspace],
    ) -> Result<Response<Relay>, Box<Page>> {
        let host = named_host(&request).map_err(|why| self.malformed(why))?;
        let text = host.to_str().unwrap_or_default();
        let (name, site) = match host::parse(text, self.door) {
            Ok(Host::Preview { port, site }) => (port, site),
            Ok(Host::Own) if !is_of_the_api(request.uri().path()) => return Err(self.own()),
            Ok(Host::Own | Host::Dashboard) => return self.own_name(request, text, arrival).await,
            Err(Wrong::Malformed(why)) => return Err(self.malformed(why)),
            Err(Wrong::Foreign) => return Err(self.foreign()),
            Err(Wrong::Unknown) => return Err(self.unknown(text)),
        };
        if request.method() == Method::CONNECT {
            return Err(self.no_connect());
        }
        let (workspace, port) = match preview::find(workspaces, name.as_deref(), &site) {
            PreviewTarget::Port { workspace, port } => (workspace, port),
            PreviewTarget::NoPort { workspace } => return Err(self.no_port(workspace, &site)),
            PreviewTarget::UnknownPort { .. } | PreviewTarget::UnknownSite => {
                return Err(self.unknown(text));
            }
        };
        let target = Target {
            workspace,
            port,
            site,
            shown: preview::shown_host(workspace, port),
        };
        self.reach(&target, request, &host, arrival).await
    }

    /// Handles a request to one of the daemon's own names.
    async fn own_name(
        &self,
        request: Request<Incoming>,
        host: &str,
        arrival: &Arrival,
    ) -> Result<Response<Relay>, Box<Page>> {
        let Some(daemon) = &self.hooks.daemon else {
            return Err(self.own());
        };
        if request.method() == Method::CONNECT {
            return Err(self.no_connect());
        }
        // A name without a port belongs to the server on port 80, which may be another program.
        if !host::says_port(host) && self.door != HTTP {
            return Err(self.foreign());
        }
        let answer = daemon(request, arrival.sever.clone()).await;
        Ok(answer.map(Relay::daemon))
    }

    /// Forwards the request to this port of this workspace.
    async fn reach(
        &self,
        target: &Target<'_>,
        request: Request<Incoming>,
        host: &HeaderValue,
        arrival: &Arrival,
    ) -> Result<Response<Relay>, Box<Page>> {
        let workspace = target.workspace;
        let Some(hops) = request::hops(request.headers()) else {
            return Err(self.circle());
        };
        if request.headers().contains_key(WAITING) {
            return Ok(self.is_there_something(target).await);
        }
        if origin::is_foreign(request.headers(), workspace, self.door) {
            return Err(self.foreign_page());
        }
        if !workspace.is_running {
            return Err(self.stopped(workspace, &target.site));
        }
        if let Some(page) = self.clearing(target, &request) {
            return Ok(page);
        }
        (self.hooks.used)(&workspace.id);
        let sent = async {
            let permit = self.pool.permit(&workspace.id)?;
            let (mut head, body) = request.into_parts();
            let wanted = request::upgrade(&head.headers);
            let is_http2 = head.version == Version::HTTP_2;
            arrival.prepare(&mut head, host, hops);
            if let Some(shown) = target.shown {
                request::show_host(&mut head.headers, host, shown);
            }
            match wanted {
                Some(protocol) if !is_http2 => {
                    self.upgrade(target, head, body, protocol, permit).await
                }
                _ => self.pass(target, head, body, permit).await,
            }
        };
        let mut answer = sent.await.map_err(|failed| self.failed(target, &failed))?;
        // Even when the server inside speaks HTTP/1.0, the client may reuse its connection.
        *answer.version_mut() = Version::HTTP_11;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            response::clean(answer.headers_mut(), &target.site);
            if let Some(shown) = target.shown {
                response::lead_back(answer.headers_mut(), host, shown);
            }
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
        let (id, port) = (&target.workspace.id, target.port);
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
        // The authority replaces `Host`.
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
        let (id, port) = (&target.workspace.id, target.port);
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

    /// Answers the waiting page, which polls whether the port listens now.
    async fn is_there_something(&self, target: &Target<'_>) -> Response<Relay> {
        let workspace = target.workspace;
        let is_there =
            workspace.is_running && self.pool.is_listening(&workspace.id, target.port).await;
        let mut answer = Response::new(Relay::own(""));
        *answer.status_mut() = if is_there {
            StatusCode::NO_CONTENT
        } else {
            StatusCode::SERVICE_UNAVAILABLE
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
        let id = &target.workspace.id;
        // An id is never reused, so the browser cannot hold data of an earlier workspace.
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

/// Whether the path belongs to the daemon's API.
fn is_of_the_api(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    matches!(first, Some("api" | "health" | "metrics" | "mcp"))
}

/// The single `Host` of a request, which is the authority in HTTP/2.
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
            if host
                .as_bytes()
                .eq_ignore_ascii_case(authority.as_str().as_bytes())
            {
                Ok(host.clone())
            } else {
                Err("the request is for another one")
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
    if body.is_end_stream() {
        Upload::Right(Empty::new())
    } else {
        Upload::Left(body)
    }
}

/// Refuses a 101 answer to a request without `Upgrade`.
fn not_switched(answer: Response<Relay>) -> Result<Response<Relay>, Failed> {
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        Err(Failed::WrongProtocol)
    } else {
        Ok(answer)
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

    fn no_port(&self, workspace: &LiveWorkspace, site: &str) -> Box<Page> {
        if !workspace.is_running {
            return self.stopped(workspace, site);
        }
        if workspace.ports.iter().any(|port| port.is_listening) {
            let title = format!("Which port of {site}?");
            let text = "More than one listens, and holm.toml declares none. This lists them:";
            let mut page = self.page(StatusCode::NOT_FOUND, "not_found", title, text);
            page.command = Some(format!("holm ports {}", named(workspace, site)));
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

    fn stopped(&self, workspace: &LiveWorkspace, site: &str) -> Box<Page> {
        let text = "This page reloads when the workspace runs and something listens.";
        let mut page = self.waiting(format!("{site} is stopped"), text);
        page.code = "not_running";
        page.command = Some(format!("holm start {}", named(workspace, site)));
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
                self.page(
                    status,
                    "busy",
                    format!("{site} is busy"),
                    with_causes(failed),
                )
            }
            Failed::NoAnswer(NoAnswer::SlowHead(_)) => {
                let status = StatusCode::GATEWAY_TIMEOUT;
                self.page(
                    status,
                    "bad_gateway",
                    format!("{site} did not answer"),
                    with_causes(failed),
                )
            }
            _ => {
                let title = format!("{site} gave no proper answer");
                let text = match failed {
                    // The cause names files of the daemon, so only the daemon's log gets it.
                    Failed::Dial(error) => {
                        let id = &target.workspace.id;
                        tracing::warn!(%id, %error, "a preview cannot connect");
                        failed.to_string()
                    }
                    failed => with_causes(failed),
                };
                self.page(StatusCode::BAD_GATEWAY, "bad_gateway", title, text)
            }
        }
    }
}

/// How a command may name the workspace, using only names that the request contained.
fn named(workspace: &LiveWorkspace, site: &str) -> String {
    if site == workspace.id.as_str() || site == workspace.label.as_str() {
        return site.to_owned();
    }
    // The site is made of label and project, so both are known to the client.
    format!("{}/{}", workspace.project, workspace.label)
}
