//! Attacks on the API at the front door: no token or a wrong one, pages of other origins, and
//! invalid bodies (attacks 108–111, 118, 119, 147). Every listed route is tried.

use crate::support::{
    Chromium, Door, Island, JSON, Reply, UPGRADE, background, eventually, host_port, read_head,
    times,
};
use holm_api::PREFIX;
use holm_api::route::{Access, Content, ROUTES, Route};
use std::io::{Read, Write};
use std::net::TcpStream;

pub const NOBODY: &str = "w000000000000";

/// A route's path with something for every parameter.
pub fn path(route: &Route, workspace: &str) -> String {
    let id = if route.path.starts_with("/projects") {
        "p000000000000"
    } else {
        workspace
    };
    let path = route.path.replace("{id}", id);
    format!("{PREFIX}{}", path.replace("{token}", "t000000000000"))
}

/// Asks for a route in the way that it is meant to be asked, but for its body, which is wrong where it
/// would do something.
pub fn ask(door: &Door, route: &Route, headers: &[(&str, &str)]) -> Reply {
    let path = path(route, NOBODY);
    let mut all = headers.to_vec();
    let mut body = "";
    match route.content {
        Content::WebSocket => {
            all.extend(UPGRADE);
            return read_head(&mut door.begin("GET", &path, &all, 0, b""));
        }
        _ if route.method == "GET" => {}
        Content::Json => {
            all.push(JSON);
            body = "[]";
        }
        Content::Bytes => all.push(("Content-Type", "application/octet-stream")),
    }
    door.ask_bare(route.method, &path, &all, body.as_bytes())
}

#[test]
fn attack_108_every_route_needs_a_token_that_is_valid_here() {
    let [island, elsewhere] = [Island::new(), Island::new()];
    let (door, other) = (Door::of(&island), Door::of(&elsewhere));
    let expiring = ["token", "new", "--expires", "1s", "--json"];
    let expired = island.holm(&expiring).json()["token"].clone();
    let expired = Door::bearer(expired.as_str().unwrap());
    let list = |authorization: &str| {
        let headers = [("Authorization", authorization)];
        door.ask_bare("GET", "/api/v1/workspaces", &headers, b"")
    };
    eventually("the token has expired", || list(&expired).status == 401);
    let right = Door::bearer(&door.token);
    let (start, end) = right.split_at(right.len() - 1);
    let almost = format!("{start}{}", if end == "0" { "1" } else { "0" });
    let foreign = Door::bearer(&other.token);
    let cookie = format!("token={}; holm={}", door.token, door.token);
    let wrong: Vec<Vec<(&str, &str)>> = vec![
        vec![],
        vec![("Authorization", "Bearer x")],
        vec![("Authorization", &almost)],
        vec![("Authorization", &expired)],
        vec![("Authorization", &foreign)],
        vec![("Authorization", &door.token)],
        vec![("Authorization", &right), ("Authorization", &right)],
        vec![("Cookie", &cookie), ("X-Token", &door.token)],
    ];
    for route in ROUTES {
        let name = format!("{} {}", route.method, route.path);
        for headers in &wrong {
            let reply = ask(&door, route, headers);
            assert_eq!(reply.status, 401, "{name} {headers:?} {reply:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            assert!(reply.header("x-request-id").is_some(), "{reply:?}");
        }
        // With the right one it is another matter what becomes of it.
        let reply = ask(&door, route, &[("Authorization", &right)]);
        let expect = match route.access {
            Access::Person => reply.status == 403,
            _ => !matches!(reply.status, 401 | 403 | 405) && reply.code() != "not_found",
        };
        assert!(expect, "{name} {reply:?}");
    }
    // What says how the daemon is needs none; its numbers do.
    for headers in &wrong {
        let status = |path: &str| door.ask_bare("GET", path, headers, b"").status;
        assert_eq!(
            (status("/health"), status("/metrics")),
            (200, 401),
            "{headers:?}"
        );
        assert_eq!((status("/mcp"), status("/api")), (401, 401), "{headers:?}");
    }
    assert_eq!(door.ask("GET", "/metrics", "").status, 200);
    // Unknown methods are not recorded.
    for number in 0..50 {
        door.ask_bare(&format!("X{number}"), "/api/v1/workspaces", &[], b"");
    }
    let numbers = door.ask("GET", "/metrics", "").body;
    assert!(!String::from_utf8_lossy(&numbers).contains("X49"));
    // Neither in the address.
    let query = format!("/api/v1/workspaces?token={0}&access_token={0}", door.token);
    assert_eq!(door.ask_bare("GET", &query, &[], b"").status, 401);
    // Missing things are not revealed to strangers either.
    assert_eq!(
        door.ask_bare("GET", "/api/v1/nothing", &[], b"").status,
        401
    );
    let own = door.ask("GET", "/api/v1/nothing", "");
    assert_eq!((own.status, own.code().as_str()), (404, "not_found"));
    assert_eq!(list(&right).status, 200);
    assert_eq!(list(&right.replace("Bearer", "bearer")).status, 200);
    assert_eq!(other.ask("GET", "/api/v1/workspaces", "").status, 200);
}

#[test]
fn attack_109_other_pages_cannot_send_anything_that_is_done() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let door = Door::of(&island);
    let simple = [
        "text/plain",
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json-patch",
    ];
    for route in ROUTES.iter().filter(|route| route.method != "GET") {
        let path = path(route, &id);
        for kind in simple {
            if route.content == Content::Bytes && kind == "application/json-patch" {
                continue;
            }
            for body in ["", "{}"] {
                let headers = [("Content-Type", kind)];
                let reply = door.ask_with(route.method, &path, &headers, body.as_bytes());
                let expect = match route.access {
                    Access::Person => 403,
                    _ => 415,
                };
                assert_eq!(reply.status, expect, "{} {path} {kind}", route.method);
            }
        }
        if route.content == Content::Json && route.access != Access::Person {
            let reply = door.ask_with(route.method, &path, &[], b"{}");
            assert_eq!(reply.status, 415, "{} {path} without a type", route.method);
        }
    }
    // Nothing of it was done, and none of these says GET and means another thing.
    let state = || island.holm(&["show", "x", "--json"]).json()["state"].clone();
    for (name, value) in [
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-Method-Override", "DELETE"),
    ] {
        let path = format!("/api/v1/workspaces/{id}?_method=DELETE");
        let reply = door.ask_with("GET", &path, &[(name, value)], b"");
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    for verb in ["start", "stop", "restart", "fork", "reload"] {
        let reply = door.ask("GET", &format!("/api/v1/workspaces/{id}/{verb}"), "");
        assert_eq!(reply.code(), "method_not_allowed", "{verb}");
    }
    assert_eq!(state(), "running");
    // A correct request succeeds.
    let stop = format!("/api/v1/workspaces/{id}/stop");
    assert_eq!(door.ask("POST", &stop, "").status, 200);
    assert_eq!(state(), "stopped");
    // A page that can send the request is refused for its origin, with everything else right.
    let start = format!("/api/v1/workspaces/{id}/start");
    for origin in ["null", "http://evil.test", "http://web.x.localhost:7070"] {
        let headers = [JSON, ("Origin", origin)];
        let reply = door.ask_with("POST", &start, &headers, b"");
        assert_eq!((reply.status, reply.code().as_str()), (403, "forbidden"));
    }
    assert_eq!(state(), "stopped");
}

#[test]
fn attack_110_foreign_pages_get_no_socket() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let door = Door::of(&island);
    let port = door.port;
    let path = format!("/api/v1/workspaces/{id}/exec");
    for origin in [
        "null".to_owned(),
        "http://evil.test".to_owned(),
        format!("http://web.x.localhost:{port}"),
        format!("http://localhost.evil.test:{port}"),
        format!("http://localhost:{port}.evil.test"),
        format!("https://localhost:{port}"),
        "http://localhost:1".to_owned(),
        "http://[::1".to_owned(),
        String::new(),
    ] {
        let reply = door.open_socket(&door.token, &path, &[("Origin", &origin)]);
        assert_eq!(reply.status, 403, "{origin} {reply:?}");
    }
    let own = format!("http://localhost:{port}");
    let twice = [("Origin", own.as_str()), ("Origin", own.as_str())];
    assert_eq!(door.open_socket(&door.token, &path, &twice).status, 403);
    assert_eq!(
        door.open_socket("x", &path, &[("Origin", &own)]).status,
        401
    );
    // Own pages and programs do.
    for host in ["localhost", "holm.localhost", "127.0.0.1", "[::1]"] {
        let origin = format!("http://{host}:{port}");
        let reply = door.open_socket(&door.token, &path, &[("Origin", &origin)]);
        assert_eq!(reply.status, 101, "{origin} {reply:?}");
    }
    assert_eq!(door.open_socket(&door.token, &path, &[]).status, 101);
    // Without the port it is a name of another server, and so are all others.
    for host in ["localhost", "holm.localhost", "127.0.0.1", "evil.test"] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let token = &door.token;
        let request = format!(
            "GET /api/v1/workspaces HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(read_head(&mut stream).status, 421, "{host}");
    }
}

#[test]
fn attack_111_no_page_of_another_origin_reads_an_answer() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nweb = 3000\n");
    repository.commit("ports");
    repository.up("one");
    let serve = "exec python3 -m http.server 3000 --bind 127.0.0.1";
    background(&island, "one", serve);
    host_port(&island, "one", 3000);
    let door = Door::of(&island);
    let port = door.port;
    for route in ROUTES {
        let path = path(route, NOBODY);
        for origin in [
            "null",
            "http://evil.test",
            &format!("http://localhost:{port}"),
        ] {
            let asked = [
                ("Origin", origin),
                ("Access-Control-Request-Method", route.method),
                ("Access-Control-Request-Headers", "authorization"),
            ];
            for reply in [
                door.ask_bare("OPTIONS", &path, &asked, b""),
                ask(&door, route, &[("Origin", origin)]),
            ] {
                assert!(matches!(reply.status, 401 | 403), "{path} {reply:?}");
                assert!(
                    !reply.head.to_lowercase().contains("access-control"),
                    "{reply:?}"
                );
            }
        }
    }
    // A page of a preview that even knows the token, in a real browser.
    let browser = Chromium::new(&island);
    let ask = |to: &str| {
        let token = &door.token;
        format!(
            "fetch('http://{to}:{port}/api/v1/workspaces', \
             {{headers: {{Authorization: 'Bearer {token}'}}}}).then(r => 'read ' + r.status, e => 'refused')"
        )
    };
    let preview = format!("http://web.one.localhost:{port}/");
    let mut tab = browser.tab(&island, &preview);
    for name in ["localhost", "holm.localhost", "127.0.0.1"] {
        assert_eq!(tab.evaluate(&ask(name)), "refused", "{name}");
    }
    let socket = |to: &str| {
        format!(
            "new Promise(done => {{ const s = new WebSocket('ws://{to}:{port}/api/v1/events'); \
             s.onopen = () => done('open'); s.onerror = () => done('refused') }})"
        )
    };
    assert_eq!(tab.evaluate(&socket("localhost")), "refused");
    // A page of the daemon's own may.
    tab.go(&format!("http://localhost:{port}/"));
    assert_eq!(tab.evaluate(&ask("localhost")), "read 200");
}

/// A client tries many wrong tokens while others work.
#[test]
fn attack_118_guessing_costs_little_and_is_written_down() {
    let guesses = times(10_000, 100_000);
    let island = Island::new();
    let door = Door::of(&island);
    let daemon = island.daemon_pid();
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let before = memory();
    let (id, _) = door.token.rsplit_once('_').unwrap();
    let port = door.port;
    let guessers: Vec<_> = (0..4)
        .map(|guesser| {
            // A known id with another secret every time: the most that a guess can cost.
            let id = id.to_owned();
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let mut refused = 0;
                for round in 0..guesses / 4 / 100 {
                    let mut requests = String::new();
                    for guess in 0..100 {
                        let number = (guesser * guesses + round * 100 + guess).to_string();
                        let secret = format!("{number:0>52}");
                        requests.push_str(&format!(
                            "POST /api/v1/daemon/stop HTTP/1.1\r\nHost: localhost:{port}\r\n\
                             Authorization: Bearer {id}_{secret}\r\nContent-Length: 0\r\n\r\n"
                        ));
                    }
                    stream.write_all(requests.as_bytes()).unwrap();
                    let mut heard = Vec::new();
                    let mut piece = [0; 1 << 16];
                    let answers = |heard: &[u8]| {
                        heard
                            .windows(12)
                            .filter(|window| window == b"HTTP/1.1 401")
                            .count()
                    };
                    // Each answer ends with the body of the error.
                    while answers(&heard) < 100 || !heard.ends_with(b"}}") {
                        let length = stream.read(&mut piece).unwrap();
                        assert!(length > 0, "the connection ended");
                        heard.extend(&piece[..length]);
                    }
                    refused += answers(&heard);
                }
                refused
            })
        })
        .collect();
    // Meanwhile others are served.
    assert_eq!(door.ask("GET", "/api/v1/workspaces", "").status, 200);
    island.holm(&["ls"]).ok();
    let refused: usize = guessers
        .into_iter()
        .map(|guesser| guesser.join().unwrap())
        .sum();
    assert_eq!(refused, guesses);
    let more = times(32 << 10, 64 << 10);
    assert!(memory() < before + more, "{before} {}", memory());
    // All of them are in the record, and take a few lines.
    let mut lines = Vec::new();
    eventually("every guess is counted", || {
        let list = island.holm(&["audit", "--json", "--limit", "1000"]).json();
        let all = list["audit"].as_array().unwrap().clone();
        lines = all
            .into_iter()
            .filter(|entry| entry["actor"] == "nobody")
            .collect();
        let count = lines.iter().map(|entry| entry["count"].as_u64().unwrap());
        count.sum::<u64>() == guesses as u64
    });
    assert!(lines.len() < 100, "{}", lines.len());
    assert!(lines.iter().all(|entry| entry["status"] == 401));
}

#[test]
fn attack_119_and_147_bodies_that_are_no_bodies() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let door = Door::of(&island);
    // Fields that a request does not have.
    for (method, path, body) in [
        (
            "PATCH",
            format!("/workspaces/{id}"),
            r#"{"label":"y","owner":"root"}"#,
        ),
        (
            "PATCH",
            format!("/workspaces/{id}"),
            r#"{"label":"y","id":"w000000000000"}"#,
        ),
        (
            "POST",
            format!("/workspaces/{id}/snapshots"),
            r#"{"name":"s","path":"/etc"}"#,
        ),
        (
            "POST",
            format!("/workspaces/{id}/fork"),
            r#"{"label":"f","privileged":true}"#,
        ),
        (
            "POST",
            format!("/workspaces/{id}/reset"),
            r#"{"force":true,"uid":0}"#,
        ),
        (
            "POST",
            format!("/workspaces/{id}/reload"),
            r#"{"mounts":["/"]}"#,
        ),
        (
            "POST",
            "/checkout".to_owned(),
            &format!(r#"{{"workspace":"{id}","host":"0.0.0.0"}}"#),
        ),
        (
            "POST",
            "/daemon/stop".to_owned(),
            r#"{"all":false,"uid":0}"#,
        ),
        ("POST", "/gc".to_owned(), r#"{"all":false,"path":"/"}"#),
    ] {
        let reply = door.ask(method, &format!("{PREFIX}{path}"), body);
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "bad_request"),
            "{path} {reply:?}"
        );
    }
    let create = r#"{"project":"shop","owner":"root","mounts":["/"],"nested":true}"#;
    for path in ["workspaces", "projects/p000000000000/workspaces"] {
        let reply = door.ask("POST", &format!("{PREFIX}/{path}"), create);
        assert_eq!(reply.status, 400, "{path}");
    }
    let (status, _) = island.ask(
        "POST",
        "/api/v1/tokens",
        br#"{"name":"a","id":"t000000000000"}"#,
    );
    assert_eq!(status, 400);
    let renamed = door.ask(
        "PATCH",
        &format!("/api/v1/workspaces/{id}"),
        r#"{"label":"y"}"#,
    );
    assert_eq!(
        (renamed.status, renamed.json()["owner"] == "root"),
        (200, false)
    );

    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deeper = format!("{{\"label\":{deep}}}");
    for body in [&deep, &deeper] {
        let reply = door.ask("PATCH", &format!("/api/v1/workspaces/{id}"), body);
        assert_eq!((reply.status, reply.code().as_str()), (400, "bad_request"));
    }
    let packed = [JSON, ("Content-Encoding", "gzip")];
    let reply = door.ask_with("POST", "/api/v1/daemon/stop", &packed, &[0x1f, 0x8b, 8, 0]);
    assert_eq!(reply.status, 415);
    // A gigabyte, said and not sent.
    let bearer = Door::bearer(&door.token);
    let headers = [("Authorization", bearer.as_str()), JSON];
    let mut huge = door.begin("POST", "/api/v1/daemon/stop", &headers, 1 << 30, b"{");
    // At once, and not when it has been waited for in vain.
    let reply = read_head(&mut huge);
    assert_eq!(reply.status, 409, "{reply:?}");
    // Sent and not said.
    let chunked = [headers[0], JSON, ("Transfer-Encoding", "chunked")];
    let mut endless = door.begin("GET", "/api/v1/workspaces", &headers, 0, b"");
    assert_eq!(read_head(&mut endless).status, 200);
    let mut endless = TcpStream::connect(("127.0.0.1", door.port)).unwrap();
    let head: String = chunked
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "POST /api/v1/gc HTTP/1.1\r\nHost: localhost:{}\r\n{head}\r\n",
        door.port
    );
    endless.write_all(head.as_bytes()).unwrap();
    let mut chunk = b"100000\r\n".to_vec();
    chunk.resize(chunk.len() + (1 << 20), b' ');
    chunk.extend(b"\r\n");
    let mut sent = 0;
    while sent < 64 && endless.write_all(&chunk).is_ok() {
        sent += 1;
    }
    assert!(sent < 64, "everything was read");
    // A client that begins a body and stops delays no other.
    let slow: Vec<_> = (0..50)
        .map(|_| door.begin("POST", "/api/v1/daemon/stop", &headers, 20, b"{"))
        .collect();
    assert_eq!(door.ask("GET", "/api/v1/workspaces", "").status, 200);
    island.holm(&["show", "y"]).ok();
    drop(slow);
}

/// Labels are no keys. Only the user's own client at the socket may send what was typed.
#[test]
fn only_the_user_at_the_socket_names_a_workspace_by_its_label() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "fix", "--json"]).json();
    let path = format!("{PREFIX}/workspaces/-");
    let ask = |headers: &str| island.ask_with("GET", &path, headers, b"");
    let (status, body) = ask("x-holm-workspace: fix\r\n");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let shown: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(shown["id"], made["id"]);
    assert_eq!(ask("x-holm-workspace: nosuch\r\n").0, 404);
    assert_eq!(ask("").0, 404);
    // An id in the path is not replaced by a label in the header.
    let nobody = format!("{PREFIX}/workspaces/{NOBODY}");
    let (status, _) = island.ask_with("GET", &nobody, "x-holm-workspace: fix\r\n", b"");
    assert_eq!(status, 404);
    let door = Door::of(&island);
    let token = Door::bearer(&door.token);
    let headers = [
        ("Authorization", token.as_str()),
        ("x-holm-workspace", "fix"),
    ];
    assert_eq!(door.ask_bare("GET", &path, &headers, b"").status, 404);
}
