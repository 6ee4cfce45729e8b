//! Which pages may ask a preview for something. Pure.
//!
//! A browser shows many workspaces; a page of one must not act on another or read it, whatever the
//! dev server there allows (several allow every `*.localhost`). Pages that holm did not serve are
//! the dev server's own matter.

use super::host::{self, Host};
use crate::table::Island;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether the request was made by a page of another workspace, of the daemon itself, or of nobody
/// (`null`). More than one `Origin`, or one that cannot be read, is foreign too.
pub fn is_foreign(headers: &HeaderMap, island: &Island, door: u16) -> bool {
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
        Ok(Host::Preview { site, .. }) => site != island.site && site != island.id.as_str(),
        // Without a port it is a page of whoever has port 80 here, which is not this server.
        Ok(Host::Own) => host::says_port(host),
        Err(host::Wrong::Malformed(_)) => scheme == "http" || scheme == "https",
        Err(host::Wrong::Foreign | host::Wrong::Unknown) => false,
    }
}

/// A page can hide its origin even from its own server (`Referrer-Policy: no-referrer`); then the
/// browser says in a way that no page can change how they are related.
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
        let island = Island {
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
                is_foreign(&headers, &island, 7070),
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
