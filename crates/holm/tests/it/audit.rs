//! `holm audit`: every route that changes something leaves a record of caller, action and result,
//! also when it was refused.

use crate::attacks_api::{NOBODY, ask, path};
use crate::attacks_guests::{ASK, Request, ask_inside, request};
use crate::support::{Door, Island, JSON, eventually};
use holm_api::route::{Content, ROUTES, Route};
use serde_json::{Value, json};

fn audit(island: &Island, arguments: &[&str]) -> Vec<Value> {
    let all = [&["audit", "--json"], arguments].concat();
    let list = island.holm(&all).json();
    list["audit"].as_array().unwrap().clone()
}

/// Waits for an entry: some are written asynchronously.
#[track_caller]
fn entry(island: &Island, arguments: &[&str], is_wanted: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    let all = [&["--limit", "5000"], arguments].concat();
    eventually("it is in the record", || {
        found = audit(island, &all)
            .into_iter()
            .find(&is_wanted)
            .unwrap_or_default();
        !found.is_null()
    });
    found
}

#[test]
fn every_route_that_changes_something_leaves_a_record() {
    let island = Island::new();
    let own = island.repository("shop").up("a");
    let door = Door::of(&island);
    let changing: Vec<&Route> = ROUTES.iter().filter(|route| route.changes()).collect();
    assert!(changing.len() > 35, "{}", changing.len());
    let bearer = Door::bearer(&door.token);
    let (mut by_person, mut by_token) = (Vec::new(), Vec::new());
    for route in &changing {
        let path = path(route, NOBODY);
        let kind = match route.content {
            Content::Bytes => "Content-Type: application/octet-stream\r\n",
            _ => "Content-Type: application/json\r\n",
        };
        let (status, _) = island.ask_with(route.method, &path, kind, b"[]");
        by_person.push(status);
        by_token.push(ask(&door, route, &[("Authorization", &bearer)]).status);
        let status = ask(&door, route, &[]).status;
        assert_eq!(status, 401, "{route:?}");
    }
    let guests: Vec<Request> = changing
        .iter()
        .map(|route| match route.content {
            Content::Bytes => {
                let bytes = [("Content-Type", "application/octet-stream")];
                request(route.method, &path(route, NOBODY), &bytes, "")
            }
            _ => request(route.method, &path(route, NOBODY), &[JSON], "[]"),
        })
        .collect();
    let replies = ask_inside(&island, "a", &guests);
    for (actor, statuses) in [("user ", by_person), ("token ", by_token)] {
        // Read once: most entries are there already.
        let recorded = audit(&island, &["--actor", actor, "--limit", "5000"]);
        for (route, status) in changing.iter().zip(statuses) {
            let is_wanted = |entry: &Value| {
                entry["route"] == route.path
                    && entry["method"] == route.method
                    && entry["status"] == status
            };
            let found = match recorded.iter().find(|entry| is_wanted(entry)) {
                Some(entry) => entry.clone(),
                None => entry(&island, &["--actor", actor], is_wanted),
            };
            let is_about = route.path.contains("{id}") && !route.path.starts_with("/projects");
            let workspace = is_about.then_some(NOBODY);
            assert_eq!(found["workspace"], json!(workspace), "{found}");
            if status >= 400 {
                assert!(found["code"].is_string(), "{found}");
            }
        }
    }
    // Refusals of strangers are counted; none is lost, and all have their actor.
    for (actor, asked) in [
        ("nobody".to_owned(), changing.len()),
        (format!("workspace {own}"), replies.len()),
    ] {
        let mut counted = 0;
        let is_counted = || {
            let found = audit(&island, &["--actor", &actor, "--limit", "5000"]);
            counted = found.iter().map(|it| it["count"].as_u64().unwrap()).sum();
            counted >= asked as u64
        };
        eventually("every refusal is counted", is_counted);
        assert_eq!(counted, asked as u64, "{actor}");
    }
}

#[test]
fn the_record_says_who_it_was_and_what_came_of_it() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("a");
    let made = entry(&island, &["--workspace", "a"], |it| {
        it["route"] == "/projects/{id}/workspaces"
    });
    assert_eq!(
        (&made["outcome"], &made["workspace"]),
        (&json!("made"), &json!(id))
    );
    // What seemed to go well when its answer began.
    island.sh("a", "exit 3").exits(3);
    let exec = |it: &Value| it["route"] == "/workspaces/{id}/exec" && it["outcome"] == "exit 3";
    let ran = entry(&island, &["--workspace", &id], exec);
    assert!(ran["actor"].as_str().unwrap().starts_with("user "), "{ran}");
    repository.write("holm.toml", "[project]\nsetup = [\"false\"]\n");
    repository.commit("broken");
    repository.holm(&["up", "b", "--json"]).error(1);
    let failed = entry(&island, &["--bad"], |it| {
        it["route"] == "/projects/{id}/workspaces"
    });
    assert_eq!(failed["outcome"], "failed", "{failed}");
    assert!(failed["code"].is_string(), "{failed}");
    // A session and a run of a workspace, by what their programs did.
    let snapshot = |name: &str| {
        let body = json!({ "name": name }).to_string();
        let route = format!("/api/v1/workspaces/{id}/snapshots");
        serde_json::to_string(&[request("POST", &route, &[JSON], &body)]).unwrap()
    };
    let argv = |asked: &str| ["python3", "-c", ASK, asked].map(str::to_owned);
    let asked = argv(&snapshot("one"));
    let mut command = vec!["session", "new", "a", "--json", "--"];
    command.extend(asked.iter().map(String::as_str));
    let session = island.holm(&command).json();
    let actor = format!("workspace {id} session {}", session["id"].as_str().unwrap());
    let route = |it: &Value| it["route"] == "/workspaces/{id}/snapshots";
    assert_eq!(
        entry(&island, &["--actor", "session"], route)["actor"],
        actor
    );
    let asked = argv(&snapshot("two"));
    let mut command = vec!["run", "a", "--json", "--"];
    command.extend(asked.iter().map(String::as_str));
    island.holm(&command).ok();
    let runs = island.holm(&["runs", "ls", "--json"]).json();
    let run = runs["runs"][0]["id"].as_str().unwrap().to_owned();
    let found = entry(&island, &["--actor", &run], route);
    assert_eq!(found["actor"], format!("workspace {id} run {run}"));
    // A caller that claims to be another is not believed.
    let forged = "Content-Type: application/json\r\nX-Holm-On-Behalf-Of: token t (root)\r\n";
    let stop = format!("/api/v1/workspaces/{id}/cancel");
    island.ask_with("POST", &stop, forged, b"");
    let cancel = |it: &Value| it["route"] == "/workspaces/{id}/cancel";
    let found = entry(&island, &[], cancel);
    assert!(
        found["actor"].as_str().unwrap().starts_with("user "),
        "{found}"
    );
    // Through MCP: the entry names the token's owner, and not the daemon that calls itself for it.
    rename_by_mcp(&Door::of(&island), "c");
    let rename = |it: &Value| it["method"] == "PATCH";
    let found = entry(&island, &["--actor", "token"], rename);
    assert_eq!(
        (&found["workspace"], &found["status"]),
        (&json!(id), &json!(200))
    );
    filters(&island, &id);
}

/// With `nested`, a program chooses its pid in its own namespace. The process that calls the daemon
/// has there the pid that a session's first process has in the workspace.
const DISGUISED: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(function, *arguments):
    answer = function(*arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return answer
victim, ask, asked = sys.argv[1:]
def is_victim(number):
    try:
        return victim.encode() in open(f"/proc/{number}/cmdline", "rb").read().split(b"\0")[:2]
    except OSError:
        return False
[number] = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and is_victim(entry)]
CLONE_NEWUSER, CLONE_NEWPID, SIGCHLD, clone3 = 0x10000000, 0x20000000, 17, 435
call(libc.unshare, CLONE_NEWUSER | CLONE_NEWPID)
def wait(child):
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        sys.exit(code)
first = os.fork()
if first:
    wait(first)
    sys.exit()
chosen = (ctypes.c_int32 * 1)(number)
arguments = (ctypes.c_uint64 * 11)(0, 0, 0, 0, SIGCHLD, 0, 0, 0, ctypes.addressof(chosen), 1, 0)
second = call(libc.syscall, clone3, arguments, 88)
if second == 0:
    assert os.getpid() == number
    os.execv("/usr/bin/python3", ["python3", "-c", ask, asked])
wait(second)
os._exit(0)
"#;

#[test]
fn a_process_that_gave_itself_the_number_of_a_session_is_not_that_session() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[project]\nnested = true\n");
    repository.commit("nested");
    repository.holm(&["trust", "--yes"]).ok();
    let id = repository.up("a");
    let victim = ["session", "new", "a", "--detach", "--", "sleep", "98765"];
    island.holm(&victim).ok();
    let route = format!("/api/v1/workspaces/{id}/files?path=x");
    let bytes = ("Content-Type", "application/octet-stream");
    let asked = serde_json::to_string(&[request("PUT", &route, &[bytes], "x")]).unwrap();
    let command = ["/usr/bin/python3", "-c", DISGUISED, "98765", ASK, &asked];
    island.inside("a", &command).ok();
    let found = entry(&island, &["--workspace", &id], |it| {
        it["route"] == "/workspaces/{id}/files"
    });
    assert_eq!(found["actor"], format!("workspace {id}"));
}

fn rename_by_mcp(door: &Door, label: &str) {
    let accept = ("Accept", "application/json, text/event-stream");
    let client = json!({ "name": "test", "version": "1" });
    let hello =
        json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client });
    let say = |session: Option<&str>, message: Value| {
        let mut headers = vec![JSON, accept];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        door.ask_with("POST", "/mcp", &headers, message.to_string().as_bytes())
    };
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
    let reply = say(None, hello);
    let session = reply.header("mcp-session-id").unwrap().trim().to_owned();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    say(Some(&session), ready);
    let arguments = json!({ "workspace": "a", "label": label });
    let call = json!({ "name": "workspace_rename", "arguments": arguments });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call });
    let reply = say(Some(&session), call);
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn filters(island: &Island, id: &str) {
    let all = audit(island, &["--limit", "5000"]);
    let of_one = audit(island, &["--workspace", id, "--limit", "5000"]);
    assert!(!of_one.is_empty() && of_one.len() < all.len());
    assert!(of_one.iter().all(|entry| entry["workspace"] == id));
    let bad = audit(island, &["--bad", "--limit", "5000"]);
    let is_bad =
        |entry: &Value| entry["status"].as_u64().unwrap() >= 400 || !entry["code"].is_null();
    assert!(!bad.is_empty() && bad.iter().all(is_bad), "{bad:?}");
    assert_eq!(
        audit(island, &["--since", "2999-01-01T00:00:00Z"]),
        [] as [Value; 0]
    );
    assert!(audit(island, &["--since", "1h", "--limit", "5000"]).len() >= all.len());
    // In pages, without a gap and without anything twice.
    let (mut paged, mut before) = (Vec::new(), None::<String>);
    loop {
        let mut arguments = vec!["audit", "--json", "--limit", "7"];
        if let Some(before) = &before {
            arguments.extend(["--before", before.as_str()]);
        }
        let page = island.holm(&arguments).json();
        let cursors = page["audit"].as_array().unwrap().iter();
        paged.extend(cursors.map(|entry| entry["cursor"].as_u64().unwrap()));
        match page["next"].as_u64() {
            Some(next) => before = Some(next.to_string()),
            None => break,
        }
    }
    assert!(paged.windows(2).all(|pair| pair[0] > pair[1]), "{paged:?}");
    assert!(paged.len() >= all.len(), "{} {}", paged.len(), all.len());
    for wrong in [
        &["audit", "--since", "whenever"][..],
        &["audit", "--limit", "0"],
        &["audit", "--before", "x"],
    ] {
        island.holm(wrong).exits(2);
    }
    island
        .holm(&["audit", "--workspace", "nothing-like-it"])
        .exits(3);
}
