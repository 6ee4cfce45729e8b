//! The dashboard's sign-in: who gets in, with what, and for how long. The page itself is tried in a browser (`ui/e2e`).

use crate::support::{Door, Island, JSON, Reply, UPGRADE, eventually, read_head};
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

/// A browser that is signed in, as far as HTTP sees it.
pub struct Browser<'a> {
    door: &'a Door,
    host: String,
    origin: String,
    cookie: String,
    tab: String,
}

/// The code of an address that `holm ui` prints.
fn code(island: &Island) -> String {
    let opened = island.holm(&["ui", "--print", "--json"]).ok().json();
    let url = opened["url"].as_str().unwrap().to_owned();
    let (_, code) = url.split_once("/#code=").expect("a code in the fragment");
    code.to_owned()
}

fn login(door: &Door, code: &str, headers: &[(&str, &str)]) -> Reply {
    let host = format!("holm.localhost:{}", door.port);
    let mut all = vec![("Host", host.as_str()), JSON];
    all.extend(headers);
    let body = format!("{{\"code\":\"{code}\"}}");
    door.ask_bare("POST", "/ui/login", &all, body.as_bytes())
}

// === impl Browser ===

impl<'a> Browser<'a> {
    pub fn sign_in(island: &Island, door: &'a Door) -> Self {
        let host = format!("holm.localhost:{}", door.port);
        let origin = format!("http://{host}");
        let reply = login(door, &code(island), &[("Origin", &origin)]);
        assert_eq!(reply.status, 200, "{reply:?}");
        let cookie = reply.header("set-cookie").expect("a cookie").to_owned();
        for part in [
            "__Host-holm-",
            "Path=/",
            "Secure",
            "HttpOnly",
            "SameSite=Strict",
        ] {
            assert!(cookie.contains(part), "{cookie}");
        }
        Self {
            door,
            host,
            origin,
            cookie: cookie.split(';').next().unwrap().to_owned(),
            tab: reply.json()["token"].as_str().unwrap().to_owned(),
        }
    }

    /// Asks with these headers and nothing else of the browser's.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut all = vec![("Host", self.host.as_str())];
        all.extend(headers);
        if method != "GET" {
            all.push(JSON);
        }
        self.door.ask_bare(method, path, &all, body.as_bytes())
    }

    pub fn cookie(&self) -> (&str, &str) {
        ("Cookie", &self.cookie)
    }

    pub fn tab(&self) -> (&str, &str) {
        ("X-Holm-Tab", &self.tab)
    }

    pub fn origin(&self) -> (&str, &str) {
        ("Origin", &self.origin)
    }

    /// As the page does.
    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[self.cookie(), self.tab()], "")
    }

    pub fn post(&self, path: &str, body: &str) -> Reply {
        let headers = [self.cookie(), self.tab(), self.origin()];
        self.ask("POST", path, &headers, body)
    }

    fn ticket(&self) -> String {
        let ticket = self.post("/ui/ticket", "").json();
        format!("holm, ticket.{}", ticket["ticket"].as_str().unwrap())
    }

    fn socket(&self, path: &str, offered: &str, headers: &[(&str, &str)]) -> (Reply, TcpStream) {
        let mut all = vec![
            ("Host", self.host.as_str()),
            self.cookie(),
            ("Sec-WebSocket-Protocol", offered),
        ];
        all.extend(UPGRADE);
        all.extend(headers);
        let mut stream = self.door.begin("GET", path, &all, 0, b"");
        (read_head(&mut stream), stream)
    }
}

#[test]
fn a_browser_signs_in_once_per_code_and_acts_as_the_user() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let door = Door::of(&island);
    let browser = Browser::sign_in(&island, &door);
    let list = browser.get("/api/v1/workspaces");
    assert_eq!(list.status, 200, "{list:?}");
    assert_eq!(list.json()["workspaces"][0]["id"], id);
    let stopped = browser.post(&format!("/api/v1/workspaces/{id}/stop"), "{}");
    assert_eq!(stopped.status, 200, "{stopped:?}");
    assert_eq!(browser.get("/ui/state").json()["port"], door.port);
    // Another tab of the same browser.
    let tab = browser.ask("POST", "/ui/tab", &[browser.cookie(), browser.origin()], "");
    let other = tab.json()["token"].as_str().unwrap().to_owned();
    let headers = [browser.cookie(), ("X-Holm-Tab", other.as_str())];
    assert_eq!(
        browser
            .ask("GET", "/api/v1/workspaces", &headers, "")
            .status,
        200
    );
    // The page names the tree that it approves.
    let approve = browser.post(&format!("/api/v1/workspaces/{id}/approve"), "{}");
    assert_eq!(
        (approve.status, approve.code().as_str()),
        (400, "bad_request")
    );
    // The user sees it among the tokens and in the record, and can end it.
    let audit = island.holm(&["audit", "--json"]).ok().json().to_string();
    assert!(audit.contains("(browser "), "{audit}");
    // A code is used up by its first use, a wrong one gets nothing.
    let used = code(&island);
    let origin = browser.origin.clone();
    assert_eq!(login(&door, &used, &[("Origin", &origin)]).status, 200);
    for code in [used.as_str(), "", "x"] {
        let reply = login(&door, code, &[("Origin", &origin)]);
        assert_eq!(
            (reply.status, reply.header("set-cookie")),
            (401, None),
            "{reply:?}"
        );
    }
    // The next daemon knows the cookie, and gives its page another secret. It has another port if the daemon of
    // another test took the old one.
    island.holm(&["daemon", "stop"]).ok();
    let door = Door::of(&island);
    let (_, session) = browser.cookie.split_once('=').unwrap();
    let host = format!("holm.localhost:{}", door.port);
    let browser = Browser {
        door: &door,
        origin: format!("http://{host}"),
        cookie: format!("__Host-holm-{}={session}", door.port),
        host,
        ..browser
    };
    assert_eq!(browser.get("/api/v1/workspaces").status, 401);
    let tab = browser.ask("POST", "/ui/tab", &[browser.cookie(), browser.origin()], "");
    let tab = tab.json()["token"].as_str().unwrap().to_owned();
    let browser = Browser { tab, ..browser };
    assert_eq!(browser.get("/api/v1/workspaces").status, 200);
    island.holm(&["token", "rm", "browser"]);
    let list = island.holm(&["token", "ls", "--json"]).ok().json();
    let of_browsers: Vec<_> = list["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|token| token["may"][0] == "dashboard")
        .map(|token| token["id"].as_str().unwrap().to_owned())
        .collect();
    for id in of_browsers {
        island.holm(&["token", "rm", &id]).ok();
    }
    assert_eq!(browser.get("/api/v1/workspaces").status, 401);
}

#[test]
fn attack_198_cookie_page_and_ticket_are_all_needed() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let door = Door::of(&island);
    let browser = Browser::sign_in(&island, &door);
    let stop = format!("/api/v1/workspaces/{id}/stop");
    let (cookie, tab, origin) = (browser.cookie(), browser.tab(), browser.origin());
    let preview = format!("http://web.x.localhost:{}", door.port);
    let elsewhere = format!("http://localhost:{}", door.port);
    let bearer = Door::bearer(browser.cookie.split_once('=').unwrap().1);
    // What a page of a preview, a foreign page, and a program with the stolen cookie can send.
    let refused: [(&str, Vec<(&str, &str)>); 9] = [
        ("no proof of a tab", vec![cookie, origin]),
        ("no cookie", vec![tab, origin]),
        ("no origin", vec![cookie, tab]),
        (
            "a preview's origin",
            vec![cookie, tab, ("Origin", &preview)],
        ),
        (
            "the API's origin",
            vec![cookie, tab, ("Origin", &elsewhere)],
        ),
        ("origin null", vec![cookie, tab, ("Origin", "null")]),
        (
            "another site",
            vec![cookie, tab, origin, ("Sec-Fetch-Site", "same-site")],
        ),
        ("a wrong tab", vec![cookie, ("X-Holm-Tab", "x"), origin]),
        ("the cookie as a token", vec![("Authorization", &bearer)]),
    ];
    for (what, headers) in &refused {
        let reply = browser.ask("POST", &stop, headers, "{}");
        assert!(matches!(reply.status, 401 | 403), "{what}: {reply:?}");
    }
    for (what, headers) in &refused[..2] {
        let reply = browser.ask("GET", "/api/v1/workspaces", headers, "");
        assert_eq!(reply.status, 401, "{what}: {reply:?}");
    }
    // At the other names of the daemon the cookie is nothing, and there is no page.
    let at_localhost = door.ask_bare("GET", "/api/v1/workspaces", &[cookie, tab], b"");
    assert_eq!(at_localhost.status, 401);
    assert_eq!(door.ask_bare("GET", "/", &[], b"").status, 404);
    let body = format!("{{\"code\":\"{}\"}}", code(&island));
    let login = door.ask_bare(
        "POST",
        "/ui/login",
        &[JSON, ("Origin", &elsewhere)],
        body.as_bytes(),
    );
    assert_eq!(login.status, 404, "{login:?}");
    assert_eq!(
        island.holm(&["show", "x", "--json"]).json()["state"],
        "running"
    );
    // The same request with all of it.
    assert_eq!(
        browser
            .ask("POST", &stop, &[cookie, tab, origin], "{}")
            .status,
        200
    );
    island.holm(&["start", "x"]).ok();

    let exec = format!("/api/v1/workspaces/{id}/exec");
    let ticket = browser.ticket();
    let (reply, open) = browser.socket(&exec, &ticket, &[origin]);
    assert_eq!(reply.status, 101, "{reply:?}");
    assert_eq!(reply.header("sec-websocket-protocol"), Some("holm"));
    assert!(!reply.head.contains("ticket."), "{reply:?}");
    // A stream of a route that answers with a document, too.
    let (events, _) = browser.socket("/api/v1/events?after=0", &browser.ticket(), &[origin]);
    assert_eq!(events.status, 101, "{events:?}");
    let again = browser.socket(&exec, &ticket, &[origin]).0;
    assert_eq!(again.status, 401, "{again:?}");
    for headers in [vec![], vec![("Origin", preview.as_str())]] {
        let reply = browser.socket(&exec, &browser.ticket(), &headers).0;
        assert_eq!(reply.status, 403, "{headers:?} {reply:?}");
    }
    assert_eq!(browser.socket(&exec, "holm", &[origin]).0.status, 401);
    // Signing out cuts what is open.
    assert_eq!(browser.post("/ui/logout", "").status, 204);
    assert_eq!(browser.get("/api/v1/workspaces").status, 401);
    let mut open = open;
    eventually("the connection is cut", || {
        open.set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        matches!(open.read(&mut [0; 64]), Ok(0))
    });
}

#[test]
fn the_page_is_at_one_name_and_loads_nothing_from_elsewhere() {
    let island = Island::new();
    let door = Door::of(&island);
    let host = format!("holm.localhost:{}", door.port);
    let get = |path: &str, headers: &[(&str, &str)]| {
        let mut all = vec![("Host", host.as_str())];
        all.extend(headers);
        door.ask_bare("GET", path, &all, b"")
    };
    let page = get("/", &[]);
    assert_eq!(page.status, 200, "{page:?}");
    let policy = page.header("content-security-policy").unwrap().to_owned();
    for part in [
        "default-src 'none'",
        "script-src 'self';",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = String::from_utf8(page.body).unwrap();
    assert!(!text.contains("__NONCE__"), "{text}");
    for loads in ["src=\"http", "href=\"http", "url(", "<style", "style="] {
        assert!(!text.contains(loads), "{loads}: {text}");
    }
    let deep = get("/w/w000000000000/review", &[]);
    assert_eq!(
        (deep.status, deep.header("cache-control")),
        (200, Some("no-store"))
    );
    // Every page has a nonce of its own.
    assert_ne!(
        deep.header("content-security-policy"),
        Some(policy.as_str())
    );
    let script = text
        .split("src=\"/")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let script = format!("/{}", script.expect("a script"));
    let plain = get(&script, &[]);
    let packed = get(&script, &[("Accept-Encoding", "gzip, br")]);
    assert_eq!((plain.status, packed.status), (200, 200));
    assert_eq!(packed.header("content-encoding"), Some("br"));
    assert!(packed.body.len() < plain.body.len());
    assert!(plain.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(get("/assets/nothing.js", &[]).status, 404);
    for path in ["/api/v1/workspaces", "/ui/state"] {
        assert_eq!(get(path, &[]).status, 401, "{path}");
    }
}
