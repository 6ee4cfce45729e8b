//! The dashboard: a page that the daemon serves at `holm.localhost`, and the sign-in of browsers to it.
//!
//! A person at the Unix socket gets a code that works once (`holm ui`). The page exchanges it for a cookie, which names
//! a token of the kind [`Holder::Browser`], and for a secret of its tab. A request counts as the person's only with
//! both: other pages of the browser send the cookie and do not know the secret. The gate checks that ([`signed_in`]).
//!
//! Invariants: page and cookie exist at one host name, which no preview has; nothing here is in an address but the
//! code, in its fragment, which browsers do not send.

pub mod page;
mod proofs;

pub use page::Asset;

use crate::App;
use crate::caller::Caller;
use crate::failure::{Answer, Body, Failure};
use axum::extract::State;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holm_api::dashboard::{Code as SignInCode, Opened, SignedIn, Ticket, UiState};
use holm_api::route::{Content, Route};
use holm_core::token::Holder;
use holm_core::{Code, Fault, TokenId};
use proofs::{OneUse, Tabs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The only name that has the page.
pub const HOST: &str = "holm.localhost";

/// The header with the secret of a tab.
const TAB: HeaderName = HeaderName::from_static("x-holm-tab");

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The subprotocol of the page's WebSockets, and the prefix of the one that carries its ticket.
const PROTOCOL: &str = "holm";
const TICKET: &str = "ticket.";

/// How long a code and a ticket can be used.
const CODE_LASTS: Duration = Duration::from_secs(300);
const TICKET_LASTS: Duration = Duration::from_secs(30);

/// What browsers can prove, and the page itself.
pub struct Dashboard {
    assets: &'static [Asset],
    proofs: Mutex<Proofs>,
}

#[derive(Default)]
struct Proofs {
    codes: OneUse<()>,
    tickets: OneUse<TokenId>,
    tabs: Tabs,
}

operations! {
    /// Makes a code that signs a browser in to the dashboard, once.
    post "/dashboard" "dashboard_open" open -> Opened;
}

/// The routes of the page, outside of the API.
pub fn page_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/ui/login", post(login))
        .route("/ui/tab", post(tab))
        .route("/ui/ticket", post(ticket))
        .route("/ui/logout", post(logout))
        .route("/ui/state", get(state))
}

async fn open(State(app): State<Arc<App>>) -> Answer<Opened> {
    if app.dashboard.assets.is_empty() {
        return Err(Failure(Fault::new(
            Code::DashboardMissing,
            "this build of holm has no dashboard",
            "`make build` builds holm with it; it needs Node.js, which it installs on Debian",
        )));
    }
    let code = app
        .dashboard
        .proofs()
        .codes
        .add((), CODE_LASTS, Instant::now());
    Ok(Json(Opened {
        url: format!("{}/#code={code}", origin(app.door_port())),
        expires_seconds: CODE_LASTS.as_secs(),
    }))
}

/// Exchanges a code for a cookie and the secret of a tab.
async fn login(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(SignInCode { code }): Body<SignInCode>,
) -> Result<Response, Failure> {
    check_page(&headers, &app, Sent::Origin)?;
    let used = app.dashboard.proofs().codes.take(&code, Instant::now());
    if used.is_none() {
        return Err(Failure(signed_out("the code is unknown, used or too old")));
    }
    let bearer = app.tokens.sign_in().await?;
    let token = app.dashboard.proofs().tabs.add(&bearer.id);
    let cookie = format!(
        "{}={}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=2592000",
        cookie_name(app.door_port()),
        bearer.text()
    );
    Ok((cookie_header(&cookie), Json(SignedIn { token })).into_response())
}

/// A secret for another tab of a browser that is signed in.
async fn tab(State(app): State<Arc<App>>, headers: HeaderMap) -> Answer<SignedIn> {
    check_page(&headers, &app, Sent::Origin)?;
    let id = browser(&app, &headers)?;
    let token = app.dashboard.proofs().tabs.add(&id);
    Ok(Json(SignedIn { token }))
}

/// A proof for one WebSocket, which cannot have the header.
async fn ticket(State(app): State<Arc<App>>, caller: Caller) -> Answer<Ticket> {
    let id = browser_of(&caller)?.clone();
    let mut proofs = app.dashboard.proofs();
    let ticket = proofs.tickets.add(id, TICKET_LASTS, Instant::now());
    Ok(Json(Ticket { ticket }))
}

async fn logout(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Failure> {
    let id = browser_of(&caller)?;
    app.tokens.sign_out(id).await?;
    app.dashboard.proofs().tabs.forget(id);
    let name = cookie_name(app.door_port());
    let cookie = format!("{name}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0");
    Ok((StatusCode::NO_CONTENT, cookie_header(&cookie)).into_response())
}

async fn state(State(app): State<Arc<App>>) -> Answer<UiState> {
    // All drivers are on this machine. The page does without a number that cannot be read.
    let room = match app.engine.drivers().all().next() {
        Some(driver) => driver.room().await.ok(),
        None => None,
    };
    Ok(Json(UiState {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        port: app.door_port(),
        home: app.home().display().to_string(),
        memory: room.map(|room| room.memory),
    }))
}

/// Whether the request must name its origin: browsers leave it out only when they read from their own origin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Origin,
    PerhapsOrigin,
}

/// Identifies the signed-in browser of a request to the API, from its cookie and the proof of its page.
pub fn signed_in(app: &App, head: &Parts, route: Option<&Route>) -> Result<TokenId, Fault> {
    // Some routes answer with a document or a WebSocket, as the client asks.
    let is_socket = head.headers.contains_key(header::UPGRADE)
        || route.is_some_and(|route| route.content == Content::WebSocket);
    let reads = !is_socket && matches!(head.method, Method::GET | Method::HEAD);
    let sent = if reads {
        Sent::PerhapsOrigin
    } else {
        Sent::Origin
    };
    let id = browser(app, &head.headers)?;
    check_page(&head.headers, app, sent)?;
    let mut proofs = app.dashboard.proofs();
    let is_proved = if is_socket {
        let ticket = ticket_of(&head.headers);
        let owner = ticket.and_then(|ticket| proofs.tickets.take(ticket, Instant::now()));
        owner.as_ref() == Some(&id)
    } else {
        let secret = one(&head.headers, &TAB);
        secret.is_some_and(|secret| proofs.tabs.has(&id, secret))
    };
    if is_proved {
        Ok(id)
    } else {
        Err(signed_out(
            "the proof of the page is unknown, used or too old",
        ))
    }
}

/// Whether a request comes to the name of the page and shows no token of a program.
pub fn is_browsers(headers: &HeaderMap, port: u16) -> bool {
    !headers.contains_key(header::AUTHORIZATION) && is_page_host(headers, port)
}

pub fn is_page_host(headers: &HeaderMap, port: u16) -> bool {
    let own = origin(port);
    one(headers, &header::HOST).is_some_and(|host| Some(host) == own.strip_prefix("http://"))
}

pub fn offers_ticket(headers: &HeaderMap) -> bool {
    ticket_of(headers).is_some()
}

/// Confirms the subprotocol of the page's WebSockets; a browser closes the connection otherwise.
pub fn confirm_protocol(answer: &mut Response) {
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let protocol = HeaderValue::from_static(PROTOCOL);
        answer
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
}

/// The origin of the page.
fn origin(port: u16) -> String {
    if port == 80 {
        format!("http://{HOST}")
    } else {
        format!("http://{HOST}:{port}")
    }
}

/// Refuses requests that the page itself did not make.
fn check_page(headers: &HeaderMap, app: &App, sent: Sent) -> Result<(), Fault> {
    let port = app.door_port();
    let is_own_origin = match one(headers, &header::ORIGIN) {
        Some(named) => named == origin(port),
        None => sent == Sent::PerhapsOrigin && !headers.contains_key(header::ORIGIN),
    };
    let is_own_site = headers
        .get(FETCH_SITE)
        .is_none_or(|site| site == "same-origin");
    if is_page_host(headers, port) && is_own_origin && is_own_site {
        return Ok(());
    }
    Err(Fault::new(
        Code::Forbidden,
        "the request does not come from the page of the dashboard",
        "`holm ui` opens the dashboard",
    ))
}

/// The browser that the cookie of a request names.
fn browser(app: &App, headers: &HeaderMap) -> Result<TokenId, Fault> {
    let name = cookie_name(app.door_port());
    let found = cookie(headers, &name).and_then(|text| app.tokens.check(text).ok());
    found
        .filter(|record| record.holder == Holder::Browser)
        .map(|record| record.id)
        .ok_or_else(|| signed_out("this browser is not signed in"))
}

fn browser_of(caller: &Caller) -> Result<&TokenId, Fault> {
    match caller {
        Caller::Browser { id } => Ok(id),
        _ => Err(signed_out("this is for the page of the dashboard")),
    }
}

fn signed_out(why: &str) -> Fault {
    Fault::new(
        Code::Unauthorized,
        format!("not signed in: {why}"),
        "`holm ui` opens the dashboard with a new code",
    )
}

/// Cookies do not know ports, so the name does: two daemons must not sign each other's browsers out.
fn cookie_name(port: u16) -> String {
    format!("__Host-holm-{port}")
}

/// The value of a cookie that is there once.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter();
    let pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'));
    let mut values = pairs.filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    });
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    Some(value)
}

fn cookie_header(cookie: &str) -> [(HeaderName, String); 1] {
    [(header::SET_COOKIE, cookie.to_owned())]
}

/// The ticket among the offered subprotocols.
fn ticket_of(headers: &HeaderMap) -> Option<&str> {
    let offered = one(headers, &header::SEC_WEBSOCKET_PROTOCOL)?;
    let mut offered = offered.split(',').map(str::trim);
    offered.find_map(|protocol| protocol.strip_prefix(TICKET))
}

/// The value of a header that is there once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut found = headers.get_all(name).iter();
    let (value, None) = (found.next()?, found.next()) else {
        return None;
    };
    value.to_str().ok()
}

// === impl Dashboard ===

impl Dashboard {
    pub fn new(assets: &'static [Asset]) -> Self {
        Self {
            assets,
            proofs: Mutex::default(),
        }
    }

    pub fn assets(&self) -> &'static [Asset] {
        self.assets
    }

    fn proofs(&self) -> MutexGuard<'_, Proofs> {
        self.proofs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
