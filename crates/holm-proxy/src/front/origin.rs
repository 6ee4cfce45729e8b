//! Decides which web pages may send requests to a preview. Pure.
//!
//! One browser shows many workspaces. A page of one workspace must not act on another workspace or
//! read from it, even if the dev server there allows every `*.localhost`, as several do. Requests
//! from pages that holm does not serve are left to the dev server.

use super::host::{self, Host};
use crate::table::LiveWorkspace;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a page of another workspace, of the daemon, or with the opaque origin `null` made the
/// request. A second `Origin`, or one that does not parse, also counts as foreign.
pub fn is_foreign(headers: &HeaderMap, workspace: &LiveWorkspace, door: u16) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else {
        return false;
    };
    let Ok(origin) = origin.to_str() else {
        return true;
    };
    if origins.next().is_some() {
        return true;
    }
    if origin == "null" {
        return !is_from_same_site(headers);
    }
    let Some((scheme, host)) = origin.split_once("://") else {
        return true;
    };
    match host::parse(host, door) {
        Ok(Host::Preview { site, .. }) => site != workspace.site && site != workspace.id.as_str(),
        // Without a port it is a page of the server on port 80, which is not this server.
        Ok(Host::Own | Host::Dashboard) => host::says_port(host),
        Err(host::Wrong::Malformed(_)) => scheme == "http" || scheme == "https",
        Err(host::Wrong::Foreign | host::Wrong::Unknown) => false,
    }
}

/// A page can hide its origin even from its own server (`Referrer-Policy: no-referrer`).
/// `Sec-Fetch-Site`, which pages cannot set, then tells whether page and target are the same site.
fn is_from_same_site(headers: &HeaderMap) -> bool {
    let related = |value: &HeaderValue| value == "same-origin" || value == "same-site";
    headers.get(FETCH_SITE).is_some_and(related)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::{Label, ProjectName, WorkspaceId};

    #[test]
    fn pages_of_others_are_foreign() {
        let workspace = LiveWorkspace {
            id: WorkspaceId::parse("w0123456789ab").unwrap(),
            label: Label::parse("a").unwrap(),
            project: ProjectName::parse("shop").unwrap(),
            site: "a".to_owned(),
            is_running: true,
            ports: Vec::new(),
        };
        let check = |origins: &[&str], site: Option<&'static str>, expect: bool| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
            }
            if let Some(site) = site {
                headers.insert(FETCH_SITE, HeaderValue::from_static(site));
            }
            assert_eq!(
                is_foreign(&headers, &workspace, 7070),
                expect,
                "{origins:?} {site:?}"
            );
        };
        check(&[], None, false);
        for own in [
            "http://web.a.localhost:7070",
            "http://api.a.localhost:7070",
            "http://a.localhost:7070",
            "http://web.w0123456789ab.localhost:7070",
            "http://localhost:3000",
            "http://127.0.0.1:23107",
            "http://localhost",
            "https://example.org",
            "http://web.b.localhost:8080",
        ] {
            check(&[own], Some("cross-site"), false);
        }
        for foreign in [
            "null",
            "http://web.b.localhost:7070",
            "http://b.localhost:7070",
            "http://web.a--shop.localhost:7070",
            "http://holm.localhost:7070",
            "http://localhost:7070",
            "http://127.0.0.1:7070",
            "http://[::1]:7070",
            "http://[::1",
            "http://web.a.localhost.:7070",
            "",
            "x",
        ] {
            check(&[foreign], None, true);
        }
        check(&["null"], Some("cross-site"), true);
        check(&["null"], Some("same-origin"), false);
        let own = "http://web.a.localhost:7070";
        check(&[own, own], None, true);
    }
}
