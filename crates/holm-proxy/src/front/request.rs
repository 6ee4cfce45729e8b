//! Rewrites a request for the workspace: removes hop-by-hop headers, removes forwarding headers
//! that the client must not set, and adds holm's own.
//!
//! `Host` and `Origin` stay as the browser sent them, unless the port has a `host` of its own ([`show_host`]).

use super::names::{HOPS, LONGEST_WAY, OURS};
use crate::sever::Sever;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use std::net::IpAddr;

/// The client connection that a request came on.
#[derive(Clone)]
pub struct Arrival {
    peer: HeaderValue,
    /// The client address in the syntax of `Forwarded`.
    quoted: String,
    door: HeaderValue,
    /// Cuts the client connection.
    pub sever: Sever,
}

/// Headers that tell a server who asks and over which path. Only holm may set them.
const RESERVED_HEADERS: [&str; 17] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "x-cluster-client-ip",
    "x-original-url",
    "x-original-host",
    "x-original-forwarded-for",
    "x-rewrite-url",
    "x-remote-user",
    "remote-user",
    "x-forwarded",
    "proxy",
];

const RESERVED_PREFIXES: [&str; 4] = ["x-forwarded-", "x-auth-request-", "x-authenticated-", OURS];

/// Hop-by-hop headers, besides those that `Connection` names.
const ONE_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

// === impl Arrival ===

impl Arrival {
    pub fn new(peer: IpAddr, door: u16, sever: Sever) -> Self {
        let text = peer.to_string();
        let quoted = match peer {
            IpAddr::V4(_) => text.clone(),
            IpAddr::V6(_) => format!("\"[{text}]\""),
        };
        Self {
            peer: HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("unknown")),
            quoted,
            door: HeaderValue::from(door),
            sever,
        }
    }

    /// Rewrites a request head. `host` is the client's `Host`, already checked.
    pub fn prepare(&self, head: &mut Parts, host: &HeaderValue, hops: u8) {
        let takes_trailers = has_token(&head.headers, &header::TE, "trailers");
        remove_one_hop(&mut head.headers);
        remove_reserved(&mut head.headers);
        join_cookies(&mut head.headers);
        let forwarded = format!(
            "for={};host=\"{}\";proto=http",
            self.quoted,
            host.to_str().unwrap_or_default()
        );
        let headers = &mut head.headers;
        headers.insert(header::HOST, host.clone());
        headers.insert(FOR, self.peer.clone());
        headers.insert(HOST, host.clone());
        headers.insert(PROTO, HeaderValue::from_static("http"));
        headers.insert(PORT, self.door.clone());
        if let Ok(forwarded) = HeaderValue::from_str(&forwarded) {
            headers.insert(header::FORWARDED, forwarded);
        }
        headers.insert(HOPS, HeaderValue::from(u16::from(hops) + 1));
        if takes_trailers {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
    }
}

/// Shows the server another `Host` than the preview's. `Origin` and `Referer` of the preview's own pages
/// change with it: servers compare them with `Host` to recognise requests of other sites.
pub fn show_host(headers: &mut HeaderMap, host: &HeaderValue, shown: &str) {
    let (Ok(named), Ok(value)) = (host.to_str(), HeaderValue::from_str(shown)) else {
        return;
    };
    headers.insert(header::HOST, value);
    for name in [header::ORIGIN, header::REFERER] {
        replace_authority(headers, &name, named, shown);
    }
}

/// Replaces the authority of a header's URL, if it is `from`.
pub fn replace_authority(headers: &mut HeaderMap, name: &HeaderName, from: &str, to: &str) {
    let text = headers.get(name).and_then(|value| value.to_str().ok());
    let rest = text.and_then(|text| text.strip_prefix("http://")?.strip_prefix(from));
    let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
    else {
        return;
    };
    // Both parts come from valid header values.
    if let Ok(value) = HeaderValue::from_str(&format!("http://{to}{rest}")) {
        headers.insert(name, value);
    }
}

/// How many front doors the request has passed; `None` when it loops.
pub fn hops(headers: &HeaderMap) -> Option<u8> {
    let mut said = headers.get_all(HOPS).iter();
    let hops = match said.next() {
        Some(hops) => hops.to_str().ok()?.parse().ok()?,
        None => 0,
    };
    (said.next().is_none() && hops < LONGEST_WAY).then_some(hops)
}

/// The protocol that the client wants to upgrade to.
pub fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_wanted = has_token(headers, &header::CONNECTION, "upgrade");
    headers.get(header::UPGRADE).filter(|_| is_wanted).cloned()
}

pub fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|found| found.eq_ignore_ascii_case(token))
}

/// Removes hop-by-hop headers.
pub fn remove_one_hop(headers: &mut HeaderMap) {
    // Usually `keep-alive` or `close`, which are not header names.
    let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
        .filter(|token| !matches!(*token, "keep-alive" | "close" | "Upgrade" | "upgrade"))
        .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
        .filter(|name| name != header::HOST && name != header::CONTENT_LENGTH)
        .collect();
    for name in named.iter().chain(&ONE_HOP) {
        headers.remove(name);
    }
    headers.remove(KEEP_ALIVE);
    headers.remove(PROXY_CONNECTION);
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim)
}

fn remove_reserved(headers: &mut HeaderMap) {
    let reserved: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_reserved(name.as_str()))
        .cloned()
        .collect();
    for name in reserved {
        headers.remove(name);
    }
}

/// Many servers treat `_` like `-`, so both spellings are the same name here.
fn is_reserved(name: &str) -> bool {
    let same = |left: u8, right: u8| left == right || (left == b'_' && right == b'-');
    let begins = |with: &str| {
        let (name, with) = (name.as_bytes(), with.as_bytes());
        name.len() >= with.len()
            && name
                .iter()
                .zip(with)
                .all(|(left, right)| same(*left, *right))
    };
    // A quick check: most header names start with another letter.
    if !matches!(
        name.as_bytes().first(),
        Some(b'c' | b'f' | b'h' | b'p' | b'r' | b't' | b'v' | b'x')
    ) {
        return false;
    }
    RESERVED_HEADERS
        .iter()
        .any(|reserved| reserved.len() == name.len() && begins(reserved))
        || RESERVED_PREFIXES.iter().any(|below| begins(below))
}

/// HTTP/2 may split cookies over several headers; HTTP/1.1 allows one.
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(header::COOKIE).iter();
    if cookies.next().is_none() || cookies.next().is_none() {
        return;
    }
    let all: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn prepared(headers: &[(&str, &str)]) -> HeaderMap {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        let host = HeaderValue::from_static("web.a.localhost:7070");
        let arrival = Arrival::new("::1".parse().unwrap(), 7070, Sever::default());
        arrival.prepare(&mut head, &host, 2);
        head.headers
    }

    #[test]
    fn what_a_client_says_about_itself_is_replaced() {
        let headers = prepared(&[
            ("X-Forwarded-For", "203.0.113.1"),
            ("X-Forwarded-For", "203.0.113.2"),
            ("X_Forwarded_For", "203.0.113.3"),
            ("X-Forwarded-Server", "x"),
            ("Forwarded", "for=203.0.113.1"),
            ("X-Real-IP", "203.0.113.1"),
            ("Via", "1.1 x"),
            ("Remote-User", "root"),
            ("Holm-Workspace", "w"),
            ("Origin", "http://web.a.localhost:7070"),
            ("Accept", "*/*"),
        ]);
        let all: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert!(!all.join("\n").contains("203.0.113"), "{all:?}");
        for expect in [
            "x-forwarded-for: ::1",
            "x-forwarded-host: web.a.localhost:7070",
            "x-forwarded-proto: http",
            "x-forwarded-port: 7070",
            "forwarded: for=\"[::1]\";host=\"web.a.localhost:7070\";proto=http",
            "holm-hops: 3",
            "host: web.a.localhost:7070",
            "origin: http://web.a.localhost:7070",
            "accept: */*",
        ] {
            assert!(all.iter().any(|line| line == expect), "{expect}: {all:?}");
        }
        assert_eq!(all.len(), 9, "{all:?}");
    }

    #[test]
    fn a_server_that_checks_its_host_sees_its_own() {
        let host = HeaderValue::from_static("web.a.localhost:7070");
        let shown = |origin: &str, referer: &str| {
            let mut headers = prepared(&[("Origin", origin), ("Referer", referer)]);
            show_host(&mut headers, &host, "localhost:8000");
            ["host", "origin", "referer", "x-forwarded-host"]
                .map(|name| headers[name].to_str().unwrap().to_owned())
        };
        let own = "http://web.a.localhost:7070";
        assert_eq!(
            shown(own, &format!("{own}/login?next=/")),
            [
                "localhost:8000",
                "http://localhost:8000",
                "http://localhost:8000/login?next=/",
                "web.a.localhost:7070"
            ]
        );
        // Other pages stay what they are, so that the server can refuse them.
        for other in ["http://evil.test", "http://web.a.localhost:70701", "null"] {
            assert_eq!(shown(other, other)[1..3], [other, other]);
        }
    }

    #[test]
    fn one_hop_is_one_hop() {
        let headers = prepared(&[
            ("Connection", "close, X-Secret , x-forwarded-for, host"),
            ("X-Secret", "1"),
            ("Keep-Alive", "5"),
            ("TE", "trailers, deflate"),
            ("Transfer-Encoding", "chunked"),
            ("Cookie", "a=1"),
            ("Cookie", "b=2"),
        ]);
        assert!(!headers.contains_key("x-secret"));
        assert!(!headers.contains_key("connection"));
        assert!(!headers.contains_key("keep-alive"));
        assert!(!headers.contains_key("transfer-encoding"));
        assert_eq!(headers["te"], "trailers");
        assert_eq!(headers["cookie"], "a=1; b=2");
        assert_eq!(headers["host"], "web.a.localhost:7070");
        assert_eq!(headers["x-forwarded-for"], "::1");
    }

    #[test]
    fn circles_are_seen() {
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HOPS, HeaderValue::from_str(value).unwrap());
            }
            hops(&headers)
        };
        assert_eq!(with(&[]), Some(0));
        assert_eq!(with(&["7"]), Some(7));
        assert_eq!(with(&["8"]), None);
        assert_eq!(with(&["999"]), None);
        assert_eq!(with(&["x"]), None);
        assert_eq!(with(&["1", "1"]), None);
    }
}
