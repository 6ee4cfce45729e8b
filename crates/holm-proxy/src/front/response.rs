//! Rewrites a response for the browser: removes headers that would affect other sites than the
//! workspace's own.

use super::request::{remove_one_hop, replace_authority};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Headers with which a workspace could affect other servers on this machine: force TLS, advertise
/// another port, or clear data of others.
const REMOVED: [HeaderName; 5] = [
    header::STRICT_TRANSPORT_SECURITY,
    header::ALT_SVC,
    header::PUBLIC_KEY_PINS,
    CLEAR_SITE_DATA,
    HeaderName::from_static("clear-site-data-report-only"),
];

pub const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Rewrites a response head. `site` is the name below `localhost` in the request.
pub fn clean(headers: &mut HeaderMap, site: &str) {
    remove_one_hop(headers);
    for name in REMOVED {
        headers.remove(name);
    }
    keep_cookies_at_home(headers, site);
    // Without this header, pages of other workspaces could embed its scripts and images. The
    // workspace may opt out by sending its own.
    if !headers.contains_key(RESOURCE_POLICY) {
        headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-site"));
    }
}

/// A redirect to the `Host` that the server was shown leads to the preview instead.
pub fn lead_back(headers: &mut HeaderMap, host: &HeaderValue, shown: &str) {
    if let Ok(host) = host.to_str() {
        replace_authority(headers, &header::LOCATION, shown, host);
    }
}

/// Limits cookies to the workspace's site: all its ports, and no other workspace.
fn keep_cookies_at_home(headers: &mut HeaderMap, site: &str) {
    let is_abroad = |cookie: &HeaderValue| domains(cookie.as_bytes()).any(|at| !is_home(at, site));
    if !headers.get_all(header::SET_COOKIE).iter().any(is_abroad) {
        return;
    }
    let cookies: Vec<HeaderValue> = headers
        .get_all(header::SET_COOKIE)
        .iter()
        .map(|cookie| {
            if is_abroad(cookie) {
                without_domain(cookie)
            } else {
                cookie.clone()
            }
        })
        .collect();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie);
    }
}

fn without_domain(cookie: &HeaderValue) -> HeaderValue {
    let kept: Vec<&[u8]> = cookie
        .as_bytes()
        .split(|byte| *byte == b';')
        .enumerate()
        .filter(|(index, attribute)| *index == 0 || domain(attribute).is_none())
        .map(|(_, attribute)| attribute)
        .collect();
    // A substring of a valid header value is valid.
    HeaderValue::from_bytes(&kept.join(&b';')).unwrap_or(HeaderValue::from_static(""))
}

/// The values of all `Domain` attributes.
fn domains(cookie: &[u8]) -> impl Iterator<Item = &[u8]> {
    cookie
        .split(|byte| *byte == b';')
        .skip(1)
        .filter_map(domain)
}

fn domain(attribute: &[u8]) -> Option<&[u8]> {
    let equals = attribute.iter().position(|byte| *byte == b'=')?;
    let (name, value) = attribute.split_at(equals);
    let is_domain = name.trim_ascii().eq_ignore_ascii_case(b"domain");
    is_domain.then(|| value[1..].trim_ascii())
}

/// Whether the domain is the workspace's site, or one of its ports.
fn is_home(domain: &[u8], site: &str) -> bool {
    let domain = domain
        .strip_prefix(b".")
        .unwrap_or(domain)
        .to_ascii_lowercase();
    let Some(below) = domain.strip_suffix(b".localhost") else {
        // Browsers ignore the attribute without a value.
        return domain.is_empty();
    };
    let own = below.rsplit(|byte| *byte == b'.').next();
    own == Some(site.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_stay_at_home() {
        let check = |cookie: &'static str, expect: &str| {
            let mut headers = HeaderMap::new();
            headers.append(
                header::SET_COOKIE,
                HeaderValue::from_static("first=1; Path=/"),
            );
            headers.append(header::SET_COOKIE, HeaderValue::from_static(cookie));
            clean(&mut headers, "fix-login");
            let all: Vec<&HeaderValue> = headers.get_all(header::SET_COOKIE).iter().collect();
            assert_eq!(all, ["first=1; Path=/", expect]);
        };
        for kept in [
            "a=1",
            "a=1; Path=/; HttpOnly",
            "a=1; Domain=fix-login.localhost",
            "a=1; domain=.Fix-Login.localhost",
            "a=1; Domain=web.fix-login.localhost",
            "a=1; Domain=",
            "domain=localhost; Path=/",
        ] {
            check(kept, kept);
        }
        check("a=1; Domain=localhost; Path=/", "a=1; Path=/");
        check("a=1; DOMAIN = .localhost ;Secure", "a=1;Secure");
        check("a=1; Domain=b.localhost", "a=1");
        check("a=1; Domain=xfix-login.localhost", "a=1");
        check("a=1; Domain=fix-login.localhost; Domain=localhost", "a=1");
        check("a=1; Domain=example.org", "a=1");
        check("a=1; Domain=127.0.0.1", "a=1");
    }

    #[test]
    fn redirects_lead_back_to_the_preview() {
        let check = |location: &'static str, expect: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, HeaderValue::from_static(location));
            let host = HeaderValue::from_static("web.a.localhost:7070");
            lead_back(&mut headers, &host, "localhost:8000");
            assert_eq!(headers["location"], expect);
        };
        check("http://localhost:8000/x", "http://web.a.localhost:7070/x");
        check("http://localhost:8000", "http://web.a.localhost:7070");
        check("/x", "/x");
        check("http://localhost:80001/x", "http://localhost:80001/x");
        check("https://localhost:8000/x", "https://localhost:8000/x");
        check("http://example.org/", "http://example.org/");
    }

    #[test]
    fn what_reaches_beyond_the_site_is_gone() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (
                "strict-transport-security",
                "max-age=1000; includeSubDomains",
            ),
            ("clear-site-data", "\"*\""),
            ("alt-svc", "h3=\":443\""),
            ("connection", "keep-alive, x-private"),
            ("x-private", "1"),
            ("access-control-allow-origin", "*"),
            ("content-type", "text/html"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        clean(&mut headers, "a");
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expect = [
            "access-control-allow-origin",
            "content-type",
            "cross-origin-resource-policy",
        ];
        assert_eq!(names, expect);
    }
}
