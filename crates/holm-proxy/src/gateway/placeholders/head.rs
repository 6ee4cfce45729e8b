//! What becomes of the head of a request and of an answer. Values in, values out.
//!
//! Values are put into header values (also within `Authorization: Basic`) and into the query, never
//! into a path, a name or a body, and never into what says where a request ends or who it is for.

use super::Inspected;
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

/// What says how a message is read, rather than what it says.
const FRAMING: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::ACCEPT_ENCODING,
];

/// Why a request is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is for somebody else than whom the connection was made to.
    OtherHost,
    NoHost,
    Method,
    /// It says in two ways where it ends.
    TwoLengths,
}

/// Why an answer is not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded(pub String);

/// Whether a request is for the host that the connection was made to, by whichever name it says it.
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
    match [Some(host), authority]
        .into_iter()
        .flatten()
        .all(|text| is_same(text, at))
    {
        true => Ok(()),
        false => Err(Refusal::OtherHost),
    }
}

fn is_same(text: &str, at: &Inspected) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => match port.parse::<u16>() {
            Ok(port) => (name, port),
            Err(_) => return false,
        },
        // That of https, as everybody understands it.
        None => (text, 443),
    };
    port == at.port && parse_query(name).is_ok_and(|name| name == at.host)
}

/// Makes the head of a request what the host is to see; says which secrets it has now.
pub fn prepare(head: &mut Parts, at: &Inspected, usable: &[(&str, &Exchange)]) -> BTreeSet<String> {
    let upgrade = upgrade(&head.headers)
        .filter(|wanted| wanted.as_bytes().eq_ignore_ascii_case(b"websocket"));
    remove_one_hop(&mut head.headers);
    head.headers.remove(header::EXPECT);
    head.headers.remove(header::TRAILER);
    // What comes back has to be readable here.
    head.headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    head.headers.remove("sec-websocket-extensions");
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
    if !used.is_empty() {
        // Of a part of an answer nobody could see that it has a part of a value.
        head.headers.remove(header::RANGE);
        head.headers.remove(header::IF_RANGE);
    }
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
        // Of the same kinds of characters as what was there, so it is a value too.
        if let Some(Ok(mut changed)) = changed.map(|bytes| HeaderValue::from_bytes(&bytes)) {
            changed.set_sensitive(true);
            *value = changed;
            is_used = true;
        }
    }
    is_used
}

/// The user and the password of `Authorization: Basic`.
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

/// Path and query only: whom it is for says `Host`.
fn origin_form(uri: &Uri) -> Uri {
    let path = uri.path_and_query().cloned();
    let path = path.unwrap_or(PathAndQuery::from_static("/"));
    Uri::from(path)
}

/// Makes the head of an answer what the workspace may see.
pub fn clean(head: &mut http::response::Parts, answers: Option<&Exchange>) -> Result<(), Encoded> {
    let encodings = head.headers.get_all(header::CONTENT_ENCODING).iter();
    for encoding in encodings {
        if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") {
            let text = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
            return Err(Encoded(text));
        }
    }
    let upgrade = match head.status {
        http::StatusCode::SWITCHING_PROTOCOLS => upgrade(&head.headers),
        _ => None,
    };
    remove_one_hop(&mut head.headers);
    head.headers.remove(header::TRAILER);
    // Other ways to the same host would lead past this one.
    head.headers.remove(header::ALT_SVC);
    // The words behind the number are the server's too.
    head.extensions.clear();
    head.version = http::Version::HTTP_11;
    for value in head.headers.values_mut() {
        let changed = answers.and_then(|answers| answers.swap(value.as_bytes()));
        if let Some(Ok(changed)) = changed.map(|bytes| HeaderValue::from_bytes(&bytes)) {
            *value = changed;
        }
    }
    if let Some(upgrade) = upgrade {
        head.headers.insert(header::UPGRADE, upgrade);
        head.headers
            .insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
