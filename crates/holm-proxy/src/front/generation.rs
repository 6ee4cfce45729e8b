//! A label that is used again: what a browser kept of the workspace that had it before is cleared.
//!
//! A site that had more than one workspace shows, once per browser and host, a page that clears
//! everything (`Clear-Site-Data`) and then loads what was asked for. That it was done is kept in
//! two cookies, set by a script after the clearing: one for the site, because cookies are cleared
//! for the whole site, and one for the host, because storage is cleared per host. A service worker
//! that was left behind would answer in place of the network; when it looks for its own next
//! version it gets one that removes itself. Neither cookie tells a workspace anything new: it is
//! its own id.

use super::relay::Relay;
use super::response::CLEAR_SITE_DATA;
use holm_core::WorkspaceId;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response};

/// What is known about the name under which a workspace was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Nobody had the name before.
    First,
    /// Somebody did.
    Later,
}

/// What a request is answered with before anything of the new workspace is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// Nothing is left.
    Done,
    /// A page that clears the host's storage, and the site's cookies unless they are clear.
    Page { cookies: Cookies },
    /// A service worker that removes itself.
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

/// What a request to a name of a later generation needs. Only browsers keep anything, and only
/// navigations can be answered with a page.
pub fn needed(method: &Method, headers: &HeaderMap, id: &WorkspaceId) -> Clearing {
    let is = |name: &HeaderName, value: &str| headers.get(name).is_some_and(|is| is == value);
    let is_navigation = method == Method::GET && is(&FETCH_MODE, "navigate");
    let is_worker = is(&SERVICE_WORKER, "script");
    if !is_navigation && !is_worker {
        return Clearing::Done;
    }
    let cookies = match has_cookie(headers, SITE_COOKIE, id) {
        true => Cookies::Keep,
        false => Cookies::Clear,
    };
    match has_cookie(headers, HOST_COOKIE, id) && cookies == Cookies::Keep {
        true => Clearing::Done,
        false if is_worker => Clearing::Worker,
        false => Clearing::Page { cookies },
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

/// The page that clears. It names nothing that somebody else could choose.
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
