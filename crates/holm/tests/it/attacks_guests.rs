//! What programs inside may ask of the daemon, and what not: by the socket inside and by a token of the
//! workspace (attacks 112, 114, 122–125). Every route of the list is tried.

use crate::attacks_api::path;
use crate::support::{Door, Island, JSON, Reply, UPGRADE, eventually, read_head};
use holm_api::route::{Access, Content, ROUTES};
use serde_json::{Value, json};
use std::io::Read;
use std::net::TcpStream;

/// Requests everything in its first argument from `/run/holm/api.sock`; prints the responses.
pub const ASK: &str = r#"
import http.client, json, socket, sys
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/holm/api.sock")
replies = []
for method, path, headers, body in json.loads(sys.argv[1]):
    connection = Connection("holm.localhost", timeout=60)
    connection.request(method, path, body=body or None, headers=dict(headers))
    reply = connection.getresponse()
    text = "" if reply.status == 101 else reply.read().decode("utf-8", "replace")
    replies.append([reply.status, str(reply.headers), text])
    connection.close()
print(json.dumps(replies))
"#;

pub type Request = (String, String, Vec<(String, String)>, String);

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    (
        method.to_owned(),
        path.to_owned(),
        headers.collect(),
        body.to_owned(),
    )
}

/// From inside a workspace, with no token.
pub fn ask_inside(island: &Island, workspace: &str, requests: &[Request]) -> Vec<Reply> {
    let asked = serde_json::to_string(requests).unwrap();
    let command = ["/usr/bin/python3", "-c", ASK, &asked];
    let said = island.inside(workspace, &command).ok().out();
    let replies: Vec<(u16, String, String)> = serde_json::from_str(&said).unwrap();
    let replies = replies.into_iter();
    replies
        .map(|(status, head, body)| Reply {
            status,
            head,
            body: body.into_bytes(),
        })
        .collect()
}

/// From outside, with a token of the workspace.
fn ask_outside(door: &Door, token: &str, requests: &[Request]) -> Vec<Reply> {
    let bearer = Door::bearer(token);
    let ask = |(method, path, headers, body): &Request| {
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        if headers.iter().any(|(name, _)| name == "Upgrade") {
            read_head(&mut door.begin(method, path, &all, 0, b""))
        } else {
            door.ask_bare(method, path, &all, body.as_bytes())
        }
    };
    requests.iter().map(ask).collect()
}

fn token_of(island: &Island, workspace: &str) -> String {
    let made = island
        .holm(&["token", "new", "--workspace", workspace, "--json"])
        .json();
    made["token"].as_str().unwrap().to_owned()
}

/// Every route, about this workspace, in a way that would do something if it was let through.
fn every_route(workspace: &str) -> Vec<Request> {
    let asked = ROUTES.iter().map(|route| {
        let path = match route.path {
            "/workspaces/{id}/files" | "/workspaces/{id}/files/stat" => {
                format!("{}?path=README.md", path(route, workspace))
            }
            "/workspaces/{id}/files/search" => {
                format!("{}?path=.&pattern=hello", path(route, workspace))
            }
            "/workspaces/{id}/files/archive" => format!("{}?path=.", path(route, workspace)),
            _ => path(route, workspace),
        };
        match (route.content, route.method) {
            (Content::WebSocket, _) => request("GET", &path, &UPGRADE, ""),
            (_, "GET") => request("GET", &path, &[], ""),
            (Content::Json, method) => request(method, &path, &[JSON], "[]"),
            (Content::Bytes, method) => {
                let kind = ("Content-Type", "application/octet-stream");
                request(method, &path, &[kind], "")
            }
        }
    });
    asked.collect()
}

#[test]
fn attack_112_and_124_a_workspace_knows_itself_only() {
    let island = Island::new();
    let [mine, theirs] = ["mine", "their-project"].map(|name| island.repository(name));
    let [a, b] = [mine.up("a"), theirs.up("their-label")];
    let door = Door::of(&island);
    let token = token_of(&island, "a");
    let nobody = "w000000000000";
    let place = island.holm_home().display().to_string();
    for way in ["inside", "token"] {
        let ask = |requests: &[Request]| match way {
            "inside" => ask_inside(&island, "a", requests),
            _ => ask_outside(&door, &token, requests),
        };
        let (others, absent) = (ask(&every_route(&b)), ask(&every_route(nobody)));
        for ((route, other), absent) in ROUTES.iter().zip(&others).zip(&absent) {
            let name = format!("{way}: {} {}", route.method, route.path);
            let is_about = route.path.starts_with("/workspaces/{id}");
            let expect = match route.access {
                _ if is_about => other.status == 404,
                // Of an answer instead of a WebSocket only the head is read.
                Access::User | Access::Browser => {
                    other.status == 404 && (other.body.is_empty() || other.code() == "not_found")
                }
                Access::Policy | Access::Person => other.status == 403,
                Access::Filtered | Access::Anyone | Access::Own => other.status == 200,
            };
            assert!(expect, "{name} {other:?}");
            // Whether it exists cannot be told.
            let told = String::from_utf8_lossy(&other.body).replace(&b, nobody);
            if is_about {
                assert_eq!(told, String::from_utf8_lossy(&absent.body), "{name}");
            }
        }
        let own = ask(&every_route(&a));
        for (route, own) in ROUTES.iter().zip(&own) {
            let name = format!("{way}: {} {}", route.method, route.path);
            let expect = match route.access {
                // There need not be such a file any more.
                Access::Own => {
                    !matches!(own.status, 401 | 403 | 500)
                        && !matches!(own.code().as_str(), "not_found" | "workspace_not_found")
                }
                Access::User | Access::Browser => own.status == 404,
                Access::Policy | Access::Person => own.status == 403,
                Access::Filtered | Access::Anyone => own.status == 200,
            };
            assert!(expect, "{name} {own:?}");
        }
        // No response is about others or about the host.
        for reply in others.iter().chain(&own) {
            let text = String::from_utf8_lossy(&reply.body);
            // The request may be quoted.
            let text = text
                .replace(&format!("/workspaces/{b}"), "")
                .replace(&format!("no workspace {b}"), "");
            for secret in [b.as_str(), "their-label", "their-project", &place] {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
        let lists = ["workspaces", "names", "ports", "numbers", "events"];
        let lists = lists.map(|list| request("GET", &format!("/api/v1/{list}"), &[], ""));
        let told: Vec<String> = ask(&lists)
            .iter()
            .map(|reply| String::from_utf8_lossy(&reply.body).into_owned())
            .collect();
        for list in [0, 1, 3, 4] {
            assert!(told[list].contains(&a), "{way} {}", told[list]);
        }
    }
    // The user sees both.
    for list in ["workspaces", "names", "numbers", "events"] {
        let reply = door.ask("GET", &format!("/api/v1/{list}"), "");
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(text.contains(&a) && text.contains(&b), "{list} {text}");
    }
    // Nothing was changed.
    let ls = island.holm(&["ls", "--json"]).json();
    let states: Vec<_> = ls["workspaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["state"])
        .collect();
    assert_eq!(states, ["running", "running"]);

    // What went wrong outside is not told inside: here the place for its snapshots is a file.
    let snapshots = island.data().join(format!("workspaces/{a}/snapshots"));
    let _ = std::fs::remove_dir_all(&snapshots);
    island.write(&snapshots, "");
    let path = format!("/api/v1/workspaces/{a}/snapshots");
    let take = |name: &str| request("POST", &path, &[JSON], &format!(r#"{{"name":"{name}"}}"#));
    let told = &ask_inside(&island, "a", &[take("one")])[0];
    let own = door.ask("POST", &path, r#"{"name":"two"}"#);
    assert_eq!((told.status, told.code()), (own.status, own.code()));
    let [told, own] = [told, &own].map(|reply| String::from_utf8_lossy(&reply.body).into_owned());
    assert!(own.contains("cannot take a snapshot"), "{own}");
    assert!(told.contains("outside of this workspace"), "{told}");
    assert!(!told.contains("snapshot"), "{told}");
}

#[test]
fn attack_114_tokens_are_for_whom_they_are_for_and_the_socket_outlives_daemons() {
    let island = Island::new();
    let repository = island.repository("shop");
    let [a, b] = [repository.up("a"), repository.up("b")];
    let door = Door::of(&island);
    let [of_a, of_b] = ["a", "b"].map(|label| token_of(&island, label));
    let show = |id: &str, token: &str| {
        let bearer = Door::bearer(token);
        let headers: &[(&str, &str)] = match token {
            "" => &[],
            _ => &[("Authorization", &bearer)],
        };
        request("GET", &format!("/api/v1/workspaces/{id}"), headers, "")
    };
    let stolen = [
        show(&a, ""),
        show(&a, &door.token),
        show(&b, &door.token),
        show(&a, &of_b),
        show(&b, &of_b),
        show(&a, "holm_x"),
        show(&a, &of_a),
    ];
    let replies = ask_inside(&island, "a", &stolen);
    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [200, 403, 403, 403, 403, 401, 200]);
    // Outside, a token of a workspace is a workspace's.
    let list = [request("GET", "/api/v1/workspaces", &[], "")];
    let told = ask_outside(&door, &of_a, &list)[0].json();
    assert_eq!(told["workspaces"].as_array().unwrap().len(), 1);
    let stop = [request(
        "POST",
        &format!("/api/v1/workspaces/{a}/stop"),
        &[JSON],
        "",
    )];
    assert_eq!(ask_outside(&door, &of_a, &stop)[0].code(), "not_found");
    let more = [request("POST", "/api/v1/tokens", &[JSON], "{}")];
    assert_eq!(ask_outside(&door, &of_a, &more)[0].status, 403);
    // A token of the user's makes no other: it would outlive itself.
    assert_eq!(ask_outside(&door, &door.token, &more)[0].status, 403);
    assert_eq!(ask_outside(&door, &door.token, &list)[0].status, 200);

    // What proves a workspace to the daemon is nowhere inside.
    let digest = std::fs::read(island.data().join(format!("workspaces/{a}/guest.digest"))).unwrap();
    assert_eq!(digest.len(), 32);
    let seen = island
        .sh("a", "ls -A /run/holm; cat /proc/*/environ | tr '\\0' '\\n'")
        .out();
    assert!(
        seen.contains("api.sock") && !seen.contains("guest.digest"),
        "{seen}"
    );
    // A process that finds the guests' socket, as this user can, has to prove its workspace.
    let talk = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'holm 1 ' + sys.argv[2].encode() + b' ' + b'0' * 52 + b'\\nGET /api/v1/ping HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
print(len(s.recv(100)))";
    let socket = island.holm_home().join("run/guests.sock");
    let arguments = ["-c", talk, socket.to_str().unwrap(), &a];
    let forged = island.run(&island.home(), "/usr/bin/python3", &arguments);
    assert!(forged.out() != "100", "{}", forged.out());

    // Without a daemon the error says so; the next connection finds the next daemon.
    let asked = serde_json::to_string(&[show(&a, "")]).unwrap();
    let look = "while ! /usr/bin/python3 -c \"$0\" \"$1\" | tee /tmp/said | grep -q daemon_unreachable; do :; done";
    let script = "setsid sh -c \"$0\" \"$1\" \"$2\" >/dev/null 2>&1 &";
    island
        .inside("a", &["sh", "-c", script, look, ASK, &asked])
        .ok();
    island.holm(&["daemon", "stop"]).ok();
    let said = island.data().join(format!("workspaces/{a}/tmp/said"));
    eventually("a program inside hears that there is no daemon", || {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        said.starts_with("[[503,") && said.contains("daemon_unreachable")
    });
    island.holm(&["daemon", "start"]).ok();
    assert_eq!(ask_inside(&island, "a", &[show(&a, "")])[0].status, 200);
}

/// A connection with a stream in progress: the head has come.
fn follow(door: &Door, token: &str, path: &str, headers: &[(&str, &str)]) -> TcpStream {
    let bearer = Door::bearer(token);
    let mut all = vec![("Authorization", bearer.as_str())];
    all.extend(headers);
    let mut stream = door.begin("GET", path, &all, 0, b"");
    let reply = read_head(&mut stream);
    assert!(matches!(reply.status, 101 | 200), "{reply:?}");
    stream
}

fn is_over(stream: &mut TcpStream) -> bool {
    let limit = Some(std::time::Duration::from_millis(20));
    stream.set_read_timeout(limit).unwrap();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
}

#[test]
fn attack_122_and_125_what_is_ended_is_cut_and_what_comes_after_is_another() {
    let island = Island::new();
    let repository = island.repository("shop");
    let a = repository.up("a");
    let door = Door::of(&island);
    let make = |arguments: &[&str]| {
        let all = [&["token", "new", "--json"], arguments].concat();
        let made = island.holm(&all).json();
        ["id", "token"].map(|name| made[name].as_str().unwrap().to_owned())
    };
    let open = |token: &str, id: &str| {
        let exec = format!("/api/v1/workspaces/{id}/exec");
        [
            follow(&door, token, &exec, &UPGRADE),
            follow(&door, token, "/api/v1/events?follow=true", &[]),
            follow(
                &door,
                token,
                &format!("/api/v1/workspaces/{id}/logs?follow=true"),
                &[],
            ),
            follow(
                &door,
                token,
                &format!("/api/v1/workspaces/{id}/services?watch=true"),
                &[],
            ),
        ]
    };
    let [first, first_token] = make(&["--name", "first"]);
    let [_, second_token] = make(&["--name", "second"]);
    let mut cut = open(&first_token, &a);
    let mut kept = open(&second_token, &a);
    island.holm(&["token", "rm", "first"]).ok();
    for (number, stream) in cut.iter_mut().enumerate() {
        eventually(&format!("stream {number} is cut"), || is_over(stream));
    }
    assert!(kept.iter_mut().all(|stream| !is_over(stream)));
    assert_eq!(
        island.holm(&["token", "rm", &first, "--json"]).error(3)["code"],
        "token_not_found"
    );
    // One that expires, after all of them are open.
    let [_, short] = make(&["--expires", "6s"]);
    let mut cut = open(&short, &a);
    for (number, stream) in cut.iter_mut().enumerate() {
        eventually(&format!("stream {number} ends with its token"), || {
            is_over(stream)
        });
    }
    assert!(kept.iter_mut().all(|stream| !is_over(stream)));

    // A workspace is removed, with the connections of its guests; one with the same label is
    // another one.
    let guest = token_of(&island, "a");
    let mut cut = open(&guest, &a);
    island.holm(&["rm", "a", "--force"]).ok();
    let again = repository.up("a");
    assert_ne!(a, again);
    for (number, stream) in cut.iter_mut().enumerate() {
        eventually(&format!("stream {number} ends with its workspace"), || {
            is_over(stream)
        });
    }
    for id in [&a, &again] {
        let show = [request("GET", &format!("/api/v1/workspaces/{id}"), &[], "")];
        assert_eq!(ask_outside(&door, &guest, &show)[0].status, 401);
    }
    let listed = island.holm(&["token", "ls", "--json"]).json();
    let names: Vec<_> = listed["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["default", "second", "token"], "{listed}");
    // A request for the old one does nothing to the new one.
    let stop = door.ask("POST", &format!("/api/v1/workspaces/{a}/stop"), "");
    assert_eq!(stop.status, 404);
    let shown = island.holm(&["show", "a", "--json"]).json();
    assert_eq!(
        (&shown["id"], &shown["state"]),
        (&json!(again), &json!("running"))
    );
    // Also not after it came back from the trash.
    island.holm(&["restore", &a]).ok();
    let show = [request("GET", &format!("/api/v1/workspaces/{a}"), &[], "")];
    assert_eq!(ask_outside(&door, &guest, &show)[0].status, 401);
}

#[test]
fn attack_123_the_record_says_who_did_what_and_nobody_else_writes_it() {
    let island = Island::new();
    let a = island.repository("shop").up("a");
    let door = Door::of(&island);
    let audit = || {
        let list = island.holm(&["audit", "--json", "--limit", "500"]).json();
        list["audit"].as_array().unwrap().clone()
    };
    let find = |request: &str| -> Value {
        let mut found = Value::Null;
        eventually("the request is in the record", || {
            let all = audit();
            let entry = all.into_iter().find(|entry| entry["request_id"] == request);
            found = entry.unwrap_or_default();
            !found.is_null()
        });
        found
    };
    let named = island
        .holm(&["token", "new", "--name", "ci \"x\"", "--json"])
        .json();
    let token = named["token"].as_str().unwrap();
    let stop = format!("/api/v1/workspaces/{a}/stop");
    let headers = [JSON, ("X-Request-Id", "forged\u{9}id")];
    let reply = &ask_outside(&door, token, &[request("POST", &stop, &headers, "")])[0];
    let entry = find(reply.header("x-request-id").unwrap());
    assert_eq!(
        entry["actor"],
        format!("token {} (ci \\\"x\\\")", named["id"].as_str().unwrap())
    );
    assert_eq!(entry["method"], "POST");
    assert_eq!(entry["route"], "/workspaces/{id}/stop");
    assert_eq!(entry["workspace"], a);
    assert_eq!(
        (&entry["status"], &entry["code"]),
        (&json!(200), &Value::Null)
    );
    // The user's own, with the result; requests that only read are not recorded.
    island.holm(&["start", "a"]).ok();
    island.holm(&["snapshot", "a", "-x-"]).exits(2);
    island.holm(&["show", "a"]).ok();
    let all = audit();
    let user = |route: &str| {
        let mut found = all.iter().filter(|entry| entry["route"] == route);
        found
            .find(|entry| entry["actor"].as_str().unwrap().starts_with("user "))
            .cloned()
    };
    assert_eq!(user("/workspaces/{id}/start").unwrap()["status"], 200);
    assert!(user("/projects/{id}/workspaces").is_some());
    assert!(
        all.iter()
            .all(|entry| entry["method"] != "GET" || entry["status"] == 101),
        "{all:?}"
    );
    // From inside: as itself, and nothing it sends becomes a line of the record.
    let write = format!("/api/v1/workspaces/{a}/files?path=x%0a%1b%5b2Jroot%20did%20it");
    let bytes = ("Content-Type", "application/octet-stream");
    let fake = "/api/v1/workspaces/%0a2026-11-16%20200%20user%20root/stop";
    let asked = [
        request(
            "PUT",
            &write,
            &[bytes, ("X-Request-Id", "q000000000000")],
            "x",
        ),
        request("POST", fake, &[JSON, ("User-Agent", "root")], ""),
    ];
    let replies = ask_inside(&island, "a", &asked);
    assert_eq!(replies[0].status, 200, "{replies:?}");
    assert_eq!(replies[1].status, 404, "{replies:?}");
    for reply in &replies {
        let entry = find(reply.header("x-request-id").unwrap());
        assert_eq!(entry["actor"], format!("workspace {a}"));
        assert_eq!(entry["status"], reply.status);
    }
    let text = island.holm(&["audit", "--limit", "500"]).ok().out();
    assert!(
        !text.contains('\u{1b}') && !text.contains("root did it"),
        "{text}"
    );
    assert!(!text.contains("user root/"), "{text}");
    let entries = audit().len();
    assert_eq!(text.lines().count(), entries, "{text}");
    // Names that could are refused.
    let named = ["token", "new", "--name", "a\nb", "--json"];
    assert_eq!(island.holm(&named).error(2)["code"], "bad_request");
    // A program inside does not read it.
    let read = [request("GET", "/api/v1/audit", &[], "")];
    assert_eq!(ask_inside(&island, "a", &read)[0].code(), "not_found");
}
