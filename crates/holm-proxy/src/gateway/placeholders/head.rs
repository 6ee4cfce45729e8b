//! Rewrites the heads of requests and responses on inspected connections. Pure.
//!
//! Values replace tokens in header values (also inside `Authorization: Basic`) and in the query.
//! They are never put into a path, a header name or a body, nor into headers that frame the message
//! or name its host.

use super::{Answers, Inspected};
use crate::front::request::{remove_one_hop, upgrade};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holm_core::egress::parse_query;
use holm_secrets::exchange::Exchange;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Uri, http};
use std::collections::BTreeSet;

/// Headers that frame the message.
const FRAMING: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::ACCEPT_ENCODING,
];

/// Removed from every request: headers that ask for a part of a response, or for an encoding in
/// which a value would be invisible. This also applies to requests without a token, because their
/// response may contain a value.
const UNREADABLE: [HeaderName; 7] = [
    header::RANGE,
    header::IF_RANGE,
    // Apache and Azure accept it as `Range`.
    HeaderName::from_static("request-range"),
    HeaderName::from_static("x-ms-range"),
    header::ACCEPT_CHARSET,
    // Asks for a delta or a compressed response (RFC 3229).
    HeaderName::from_static("a-im"),
    header::SEC_WEBSOCKET_EXTENSIONS,
];

/// Says which transformation `a-im` led to.
const IM: HeaderName = HeaderName::from_static("im");

/// Why the gateway refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its `Host` is not the host that the connection was made to.
    OtherHost,
    NoHost,
    Method,
    /// It has both `Content-Length` and `Transfer-Encoding`.
    TwoLengths,
}

/// Why the gateway refuses a response: a value in it could be invisible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Coding(String),
    /// It is a partial response.
    Part,
    /// It switches to a protocol that was not requested.
    Protocol,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Answer,
    WebSocket,
}

/// The only protocol that a connection may upgrade to.
const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// Checks that a request is for the host that the connection was made to, in every place that names
/// a host.
pub fn judge(head: &Parts, at: &Inspected) -> Result<(), Refusal> {
    if head.method == Method::CONNECT {
        return Err(Refusal::Method);
    }
    let has = |name: &HeaderName| head.headers.contains_key(name);
    if has(&header::TRANSFER_ENCODING) && has(&header::CONTENT_LENGTH) {
        return Err(Refusal::TwoLengths);
    }
    if head.uri.authority().is_some() && head.uri.scheme() != Some(&http::uri::Scheme::HTTPS) {
        return Err(Refusal::OtherHost);
    }
    let mut named = head.headers.get_all(header::HOST).iter();
    let host = match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().map_err(|_| Refusal::OtherHost)?,
        (None, _) => return Err(Refusal::NoHost),
        (Some(_), Some(_)) => return Err(Refusal::OtherHost),
    };
    let authority = head.uri.authority().map(|authority| authority.as_str());
    if [Some(host), authority]
        .into_iter()
        .flatten()
        .all(|text| is_same(text, at))
    {
        Ok(())
    } else {
        Err(Refusal::OtherHost)
    }
}

fn is_same(text: &str, at: &Inspected) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => match port.parse::<u16>() {
            Ok(port) => (name, port),
            Err(_) => return false,
        },
        // The default port of https.
        None => (text, 443),
    };
    port == at.port && parse_query(name).is_ok_and(|name| name == at.host)
}

/// Rewrites a request head for the host and returns the names of the secrets that were put in.
pub fn prepare(head: &mut Parts, at: &Inspected, usable: &[(&str, &Exchange)]) -> BTreeSet<String> {
    let upgrade = upgrade(&head.headers)
        .filter(|wanted| wanted.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()));
    remove_one_hop(&mut head.headers);
    head.headers.remove(header::EXPECT);
    head.headers.remove(header::TRAILER);
    for name in UNREADABLE {
        head.headers.remove(name);
    }
    // Asks for a response that the gateway can read.
    head.headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    if let Ok(host) = HeaderValue::from_str(&match at.port {
        443 => at.host.clone(),
        port => format!("{}:{port}", at.host),
    }) {
        head.headers.insert(header::HOST, host);
    }
    let mut used = BTreeSet::new();
    for (name, exchange) in usable {
        let mut is_used = put_into_headers(&mut head.headers, exchange);
        if let Some(changed) = put_into_query(&head.uri, exchange) {
            head.uri = changed;
            is_used = true;
        }
        if is_used {
            used.insert((*name).to_owned());
        }
    }
    head.uri = origin_form(&head.uri);
    head.version = http::Version::HTTP_11;
    if let Some(upgrade) = upgrade {
        head.headers.insert(header::UPGRADE, upgrade);
        head.headers
            .insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    used
}

fn put_into_headers(headers: &mut HeaderMap, exchange: &Exchange) -> bool {
    let mut is_used = false;
    for (name, value) in headers.iter_mut() {
        if FRAMING.contains(name) {
            continue;
        }
        let changed = match credentials(name, value) {
            Some(credentials) => exchange.swap(&credentials).map(|changed| {
                let mut text = b"Basic ".to_vec();
                text.extend(STANDARD.encode(changed).into_bytes());
                text
            }),
            None => exchange.swap(value.as_bytes()),
        };
        // The value has the same character classes as the token, so the result is a valid header
        // value.
        if let Some(Ok(mut changed)) = changed.map(|bytes| HeaderValue::from_bytes(&bytes)) {
            changed.set_sensitive(true);
            *value = changed;
            is_used = true;
        }
    }
    is_used
}

/// The decoded user and password of `Authorization: Basic`.
fn credentials(name: &HeaderName, value: &HeaderValue) -> Option<Vec<u8>> {
    if name != header::AUTHORIZATION {
        return None;
    }
    let (scheme, encoded) = value.as_bytes().split_at_checked(6)?;
    let is_basic = scheme.eq_ignore_ascii_case(b"basic ");
    is_basic
        .then(|| STANDARD.decode(encoded.trim_ascii()).ok())
        .flatten()
}

fn put_into_query(uri: &Uri, exchange: &Exchange) -> Option<Uri> {
    let changed = exchange.swap(uri.query()?.as_bytes())?;
    let mut text = uri.path().as_bytes().to_vec();
    text.push(b'?');
    text.extend(changed);
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
    Uri::from_parts(parts).ok()
}

/// Reduces the URI to path and query; `Host` names the host.
fn origin_form(uri: &Uri) -> Uri {
    let path = uri.path_and_query().cloned();
    let path = path.unwrap_or(PathAndQuery::from_static("/"));
    Uri::from(path)
}

/// The kind of a prepared request.
pub fn request_kind(head: &Parts) -> RequestKind {
    if head.headers.contains_key(header::UPGRADE) {
        RequestKind::WebSocket
    } else {
        RequestKind::Answer
    }
}

/// Rewrites a response head for the workspace.
pub fn clean(
    head: &mut http::response::Parts,
    answers: Option<&Answers>,
    kind: RequestKind,
) -> Result<(), Unreadable> {
    check_codings(&head.headers, answers)?;
    if is_part(head) {
        return Err(Unreadable::Part);
    }
    let is_switch = head.status == http::StatusCode::SWITCHING_PROTOCOLS;
    if is_switch && !is_websocket(&head.headers, kind) {
        return Err(Unreadable::Protocol);
    }
    remove_one_hop(&mut head.headers);
    head.headers.remove(header::TRAILER);
    // An alternative service would bypass the gateway.
    head.headers.remove(header::ALT_SVC);
    // The reason phrase is text of the server and could contain a value.
    head.extensions.clear();
    head.version = http::Version::HTTP_11;
    if let Some(answers) = answers {
        head.headers = answers.without_values(&head.headers);
    }
    if is_switch {
        head.headers.insert(header::UPGRADE, WEBSOCKET);
        head.headers
            .insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    Ok(())
}

/// Refuses every content coding, and every transfer coding except `chunked`.
fn check_codings(headers: &HeaderMap, answers: Option<&Answers>) -> Result<(), Unreadable> {
    let mut content = headers.get_all(header::CONTENT_ENCODING).iter();
    let content = content.find(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    let mut transfer = headers.get_all(header::TRANSFER_ENCODING).iter();
    let transfer = transfer.find(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    let manipulated = headers.get(IM);
    let Some(coding) = content.or(transfer).or(manipulated) else {
        return Ok(());
    };
    // The error text quotes the server, so values in it are replaced too.
    let swapped = answers.and_then(|answers| answers.text.swap(coding.as_bytes()));
    let text = swapped.as_deref().unwrap_or(coding.as_bytes());
    Err(Unreadable::Coding(
        String::from_utf8_lossy(text).into_owned(),
    ))
}

/// A byte range that the request did not ask for. Ranges of other units (rows of a table) are
/// complete responses.
fn is_part(head: &http::response::Parts) -> bool {
    let begins = |name: &HeaderName, word: &str| {
        let value = head.headers.get(name).map(HeaderValue::as_bytes);
        value.map(|value| {
            let first = value.get(..word.len());
            first.is_some_and(|first| first.eq_ignore_ascii_case(word.as_bytes()))
        })
    };
    let is_of_bytes = begins(&header::CONTENT_RANGE, "bytes").unwrap_or(true);
    let are_several = begins(&header::CONTENT_TYPE, "multipart/byteranges").unwrap_or(false);
    are_several || (head.status == http::StatusCode::PARTIAL_CONTENT && is_of_bytes)
}

fn is_websocket(headers: &HeaderMap, kind: RequestKind) -> bool {
    let is_named = upgrade(headers)
        .is_some_and(|found| found.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()));
    // No extension was offered.
    let has_extensions = headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS);
    kind == RequestKind::WebSocket && is_named && !has_extensions
}

// === impl Answers ===

impl Answers {
    fn without_values(&self, headers: &HeaderMap) -> HeaderMap {
        let mut clean = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            if let Some((name, value)) = self.header_without_value(name, value) {
                clean.append(name, value);
            }
        }
        clean
    }

    /// `None`: the header cannot be passed on.
    fn header_without_value(
        &self,
        name: &HeaderName,
        value: &HeaderValue,
    ) -> Option<(HeaderName, HeaderValue)> {
        let new_name = match self.names.swap(name.as_str().as_bytes()) {
            Some(changed) => HeaderName::from_bytes(&changed).ok()?,
            None => name.clone(),
        };
        let new_value = match self.text.swap(value.as_bytes()) {
            Some(changed) => HeaderValue::from_bytes(&changed).ok()?,
            None => value.clone(),
        };
        // A value that contains a colon, sent as header name and value.
        let is_split = [": ", ":"].iter().any(|colon| {
            let new_line = line(&new_name, colon, &new_value);
            let swapped = self.names.swap(&line(name, colon, value));
            swapped.is_some_and(|swapped| swapped != new_line)
        });
        (!is_split).then_some((new_name, new_value))
    }
}

fn line(name: &HeaderName, colon: &str, value: &HeaderValue) -> Vec<u8> {
    let parts = [name.as_str().as_bytes(), colon.as_bytes(), value.as_bytes()];
    parts.concat().to_ascii_lowercase()
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
