//! Clears browser data when a label is used again for another workspace.
//!
//! If a site had an earlier workspace, each browser sees once per host a page that clears all its
//! data (`Clear-Site-Data`) and then loads the page it wanted. A script sets two cookies afterwards
//! that record the clearing: one for the site, because cookies are cleared per site, and one for
//! the host, because storage is cleared per host. A service worker of the earlier workspace would
//! answer instead of the network; when it asks for its own update it gets a version that
//! unregisters itself. The cookies contain only the workspace's own id, which is not a secret to
//! it.

use super::relay::Relay;
use super::response::CLEAR_SITE_DATA;
use holm_core::WorkspaceId;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response};

/// Whether the requested site name belonged to an earlier workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// This workspace is the first one with the name.
    First,
    /// Another workspace had the name before.
    Later,
}

/// What to send before the browser may see anything of the new workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// Nothing: the browser is clean.
    Done,
    /// A page that clears the host's storage, and also the site's cookies if they were not cleared
    /// yet.
    Page { cookies: Cookies },
    /// A service worker script that unregisters itself.
    Worker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookies {
    Clear,
    Keep,
}

const SITE_COOKIE: &str = "holm-site";
const HOST_COOKIE: &str = "holm-host";

const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");

const WORKER: &str = "self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(
  self.registration.unregister()
    .then(() => self.clients.matchAll({ type: 'window' }))
    .then((windows) => Promise.all(windows.map((window) => window.navigate(window.url))))));
";

/// Decides what a request to a reused name needs. Only browsers keep data, and only navigations can
/// be answered with a page.
pub fn needed(method: &Method, headers: &HeaderMap, id: &WorkspaceId) -> Clearing {
    let is = |name: &HeaderName, value: &str| headers.get(name).is_some_and(|is| is == value);
    let is_navigation = method == Method::GET && is(&FETCH_MODE, "navigate");
    let is_worker = is(&SERVICE_WORKER, "script");
    if !is_navigation && !is_worker {
        return Clearing::Done;
    }
    let cookies = if has_cookie(headers, SITE_COOKIE, id) {
        Cookies::Keep
    } else {
        Cookies::Clear
    };
    if has_cookie(headers, HOST_COOKIE, id) && cookies == Cookies::Keep {
        Clearing::Done
    } else if is_worker {
        Clearing::Worker
    } else {
        Clearing::Page { cookies }
    }
}

fn has_cookie(headers: &HeaderMap, name: &str, id: &WorkspaceId) -> bool {
    let values = headers.get_all(header::COOKIE).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .any(|(found, value)| found == name && value == id.as_str())
}

/// The page that clears. It contains no text that a client or a workspace can choose.
pub fn clearing_page(cookies: Cookies, site: &str, id: &WorkspaceId) -> Response<Relay> {
    let what = match cookies {
        Cookies::Clear => "\"cache\", \"cookies\", \"storage\"",
        Cookies::Keep => "\"cache\", \"storage\"",
    };
    let text = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>One moment</title>\
         <p>Another workspace had this name. What the browser kept of it is cleared.\
         <script>var age='; Path=/; SameSite=Lax; Max-Age=31536000';\
         document.cookie='{SITE_COOKIE}={id}; Domain={site}.localhost'+age;\
         document.cookie='{HOST_COOKIE}={id}'+age;\
         if(document.cookie.includes('{HOST_COOKIE}={id}'))location.reload()</script>"
    );
    let mut response = own(text, "text/html; charset=utf-8");
    response
        .headers_mut()
        .insert(CLEAR_SITE_DATA, HeaderValue::from_static(what));
    response
}

pub fn last_worker() -> Response<Relay> {
    own(WORKER.to_owned(), "text/javascript")
}

fn own(text: String, kind: &'static str) -> Response<Relay> {
    let mut response = Response::new(Relay::own(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_cleared_once_per_host() {
        let id = WorkspaceId::parse("w0123456789ab").unwrap();
        let check = |mode: &'static str, cookies: &'static str, expect: Clearing| {
            let mut headers = HeaderMap::new();
            let name = match mode {
                "script" => SERVICE_WORKER,
                _ => FETCH_MODE,
            };
            headers.insert(name, HeaderValue::from_static(mode));
            headers.insert(header::COOKIE, HeaderValue::from_static(cookies));
            assert_eq!(
                needed(&Method::GET, &headers, &id),
                expect,
                "{mode} {cookies}"
            );
        };
        let all = Clearing::Page {
            cookies: Cookies::Clear,
        };
        let storage = Clearing::Page {
            cookies: Cookies::Keep,
        };
        check("navigate", "a=1", all);
        check(
            "navigate",
            "holm-site=w0000000000000; holm-host=w0000000000000",
            all,
        );
        check("navigate", "holm-host=w0123456789ab", all);
        check("navigate", "a=1; holm-site=w0123456789ab", storage);
        check(
            "navigate",
            "holm-site=w0123456789ab; holm-host=w0123456789ab",
            Clearing::Done,
        );
        check("script", "", Clearing::Worker);
        check("cors", "", Clearing::Done);
        assert_eq!(needed(&Method::GET, &HeaderMap::new(), &id), Clearing::Done);
    }
}
