//! Nothing that holm records or shows contains a secret of a workspace, in any encoding that a
//! program prints and at any split of the output: logs, runs, sessions, diffs, events, responses of
//! the API and of MCP. And after crashes, kills and a removal, no file, process or response of holm
//! has it either (attacks 127, 136).

use crate::support::{Island, Ran, Repository, Running, eventually, send};
use holm_api::client::AttachEvent;
use holm_api::session::Attach;
use holm_core::{SessionId, WorkspaceId};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

/// Has something that every encoding changes.
const CANARY: &str = "ca/na+ry \"41d0\" ä=7c9e2b&x";

/// The last line of [`LEAK`].
const LEAKED: &str = "that was all of it";

/// Prints the secret in every form that is promised to be masked, each in two parts.
const LEAK: &str = r#"
import base64, json, os, sys, time, urllib.parse
value = os.environ["TOKEN"]
raw = value.encode()
forms = [value, raw.hex(), json.dumps(value), json.dumps(value, ensure_ascii=False),
    urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value)]
for before in (b"", b"x", b"xy"):
    forms.append(base64.b64encode(before + raw).decode())
    forms.append(base64.urlsafe_b64encode(before + raw).decode())
for form in forms:
    for part in (form[:len(form) // 2], form[len(form) // 2:] + "\n"):
        os.write(1, part.encode())
        # Each is read by itself, and longer than a session waits for what follows.
        time.sleep(0.04)
print("that was all of it", flush=True)
"#;

const CONFIG: &str = r#"
[services.api]
run = "python3 leak.py; exec sleep 1000"

[services.fails]
run = "test -e ~/fail || exec sleep 1000; python3 leak.py >&2; exit 3"

[secrets.TOKEN]
to = ["api", "fails", "runs", "sessions"]
"#;

fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", CONFIG);
    repository.write("leak.py", LEAK);
    repository.commit("a service that prints what it is given");
    repository.holm(&["trust", "--yes"]).ok();
    // Not below anything of holm's.
    let file = std::fs::File::open(island.write("given", CANARY)).unwrap();
    let mut set = island.holm_command(&repository.path, &["secret", "set", "TOKEN"]);
    Ran::new(set.stdin(Stdio::from(file))).ok();
    repository
}

/// What reveals the canary: written by hand, so that no code of holm decides what is searched for.
fn forms() -> Vec<&'static str> {
    vec![
        // Plain, and in JSON, however often that is quoted again.
        "/na+ry",
        "7c9e2b",
        "%2Fna%2Bry",
        "63612f6e612b7279",
        // In base64, the letters for "na+ry" and its neighbours after 0, 1 and 2 other bytes.
        "Y2EvbmErcnkg",
        "L25hK3J5ICI0",
        "hL25hK3J5ICI",
        "jYS9uYStyeSA",
    ]
}

fn given_away(bytes: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(bytes);
    forms().into_iter().find(|form| text.contains(form))
}

/// That something was shown, and nothing of the secret with it.
#[track_caller]
fn is_masked(what: &str, shown: &str) {
    assert_eq!(given_away(shown.as_bytes()), None, "{what}: {shown}");
    let is_shown = shown.contains("[secret]") || shown.contains("******");
    assert!(is_shown, "{what}: {shown}");
}

fn logged(island: &Island, service: &str) -> String {
    island.holm(&["logs", "x", service]).ok().out()
}

/// What an attached client receives, until the last line is there.
fn attached(island: &Island, workspace: &str, session: &str, attach: &Attach) -> String {
    let workspace = WorkspaceId::parse(workspace).unwrap();
    let session = SessionId::parse(session).unwrap();
    let mut seen = Vec::new();
    island.api(async |client| {
        let opened = client.attach_session(&workspace, &session, attach).await;
        let mut socket = opened.unwrap();
        while !String::from_utf8_lossy(&seen).contains(LEAKED) {
            if let AttachEvent::Output(bytes) = socket.receiver.next().await.unwrap() {
                seen.extend_from_slice(&bytes);
            }
        }
    });
    String::from_utf8_lossy(&seen).into_owned()
}

/// The answers of `holm mcp`, as text.
fn asked_by_mcp(island: &Island, calls: &[(&str, Value)]) -> Vec<String> {
    let mut mcp = Running::new(&mut island.holm_command(&island.home(), &["mcp"]));
    let request = |id: usize, method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        format!("{message}\n")
    };
    let client = json!({ "name": "test", "version": "1" });
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    mcp.write(&request(0, "initialize", hello));
    mcp.line();
    mcp.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    let mut answers = Vec::new();
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let call = json!({ "name": name, "arguments": arguments });
        mcp.write(&request(index + 1, "tools/call", call));
        let answer = loop {
            let line = mcp.line();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == index + 1 {
                break line;
            }
        };
        answers.push(answer);
    }
    answers
}

fn services_are_masked(island: &Island) {
    eventually("the service printed all", || {
        logged(island, "api").contains(LEAKED)
    });
    is_masked("the log", &logged(island, "api"));
    island.sh("x", "touch ~/fail").ok();
    // It fails on purpose.
    let _ = island.holm(&["service", "x", "restart", "fails"]);
    eventually("the other one printed all", || {
        logged(island, "fails").contains(LEAKED)
    });
    is_masked("the log of what failed", &logged(island, "fails"));
    island.sh("x", "rm ~/fail").ok();
}

/// The id of the run.
fn runs_are_masked(island: &Island) -> String {
    let script = "python3 leak.py; python3 leak.py > leaked.txt; printf %s \"$TOKEN\" > plain.txt";
    let ran = island.holm(&["run", "x", "--", "sh", "-c", script]).ok();
    is_masked("what a run says", &ran.out());
    let runs = island.holm(&["runs", "ls", "x", "--json"]).json();
    let id = runs["runs"][0]["id"].as_str().unwrap().to_owned();
    let output = island.holm(&["runs", "show", &id, "--output"]).ok().out();
    is_masked("the record of a run", &output);
    let shown = island.holm(&["runs", "show", &id, "--json"]).json();
    assert!(shown.to_string().contains("plain.txt"), "{shown}");
    is_masked("what a run changed", &shown.to_string());
    id
}

/// The id of the session.
fn sessions_are_masked(island: &Island, workspace: &str) -> String {
    let words = ["session", "new", "x", "--name", "s", "--size", "200x50"];
    let program = ["--", "sh", "-c", "python3 leak.py; exec sleep 1000"];
    let id = island.holm(&[&words[..], &program].concat()).ok().out();
    // From its beginning on, drawn and as text.
    let drawn = Attach {
        rows: Some(50),
        cols: Some(200),
        ..Attach::default()
    };
    is_masked("what is drawn", &attached(island, workspace, &id, &drawn));
    let text = Attach {
        since: Some(0),
        ..Attach::default()
    };
    is_masked("what is told", &attached(island, workspace, &id, &text));
    for arguments in [&["--screen"][..], &["--since", "0"]] {
        let read = island.holm(&[&["session", "read", &id], arguments].concat());
        let read = read.ok().out();
        assert!(read.contains(LEAKED), "{read}");
        is_masked("what is read of a session", &read);
    }
    // Every column is where the program put it.
    let screen = island.holm(&["session", "read", &id]).ok().out();
    let first = screen.lines().next().unwrap();
    assert_eq!(first, "*".repeat(CANARY.chars().count()), "{screen}");
    id
}

fn answers_are_masked(island: &Island, id: &str, session: &str) {
    is_masked("a difference", &island.holm(&["diff", "x"]).ok().out());
    let (code, patch) = island.ask("GET", &format!("/api/v1/workspaces/{id}/diff"), b"");
    assert_eq!(code, 200);
    is_masked("the API's difference", &String::from_utf8_lossy(&patch));
    let x = json!("x");
    let calls = [
        (
            "exec",
            json!({ "workspace": x, "command": ["cat", "leaked.txt", "plain.txt"] }),
        ),
        ("file_read", json!({ "workspace": x, "path": "leaked.txt" })),
        (
            "file_read",
            json!({ "workspace": x, "path": "plain.txt", "offset": 3, "length": 12 }),
        ),
        ("diff", json!({ "workspace": x })),
        ("logs", json!({ "workspace": x, "service": "api" })),
        (
            "run",
            json!({ "workspace": x, "command": ["python3", "leak.py"] }),
        ),
        ("session_read", json!({ "session": session })),
        ("session_read", json!({ "session": session, "since": 0 })),
    ];
    let answers = asked_by_mcp(island, &calls);
    for ((name, arguments), answer) in calls.iter().zip(&answers) {
        is_masked(&format!("{name} {arguments} by MCP"), answer);
    }
    let part: Value = serde_json::from_str(&answers[2]).unwrap();
    let part = &part["result"]["structuredContent"];
    assert_eq!(part["content"], "*".repeat(12), "{part}");
    // Output for the user's own programs must arrive unchanged.
    let raw = island.sh("x", "cat plain.txt").ok().out();
    assert_eq!(raw, CANARY);
    let (_, raw) = island.ask(
        "GET",
        &format!("/api/v1/workspaces/{id}/files?path=plain.txt"),
        b"",
    );
    assert_eq!(raw, CANARY.as_bytes());
}

/// Every list and every description that the API has.
fn no_answer_has_it(island: &Island) {
    let paths = [
        "/workspaces",
        "/projects",
        "/secrets",
        "/secrets/audit",
        "/events?after=0&limit=1000",
        "/audit",
        "/runs",
        "/sessions",
        "/daemon",
        "/doctor",
        "/health",
        "/metrics",
        "/disk",
        "/trash",
        "/openapi.json",
    ];
    let mut answered = 0;
    for path in paths {
        let (code, body) = island.ask("GET", &format!("/api/v1{path}"), b"");
        answered += usize::from(code == 200);
        assert_eq!(given_away(&body), None, "{path}");
    }
    assert!(answered >= 10, "{answered}");
    let events = island.holm(&["events", "--json"]).ok().out();
    assert_eq!(given_away(events.as_bytes()), None, "{events}");
}

/// Files below a directory that have the canary, links not followed.
fn sweep(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
            continue;
        };
        if given_away(path.as_os_str().as_encoded_bytes()).is_some() {
            found.push(path.display().to_string());
        }
        if kind.is_dir() {
            sweep(&path, found);
        } else if kind.is_file() {
            // A file that was deleted meanwhile is skipped; programs are large and not written
            // here.
            let bytes = std::fs::read(&path).unwrap_or_default();
            if !bytes.starts_with(b"\x7fELF") && given_away(&bytes).is_some() {
                found.push(path.display().to_string());
            }
        }
    }
}

#[track_caller]
fn nothing_is_left(island: &Island) {
    let mut found = Vec::new();
    for place in [
        island.holm_home().as_path(),
        Path::new("/dev/shm"),
        Path::new("/var/lib/systemd/coredump"),
        Path::new("/var/crash"),
    ] {
        sweep(place, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Environments and arguments of holm's own processes.
fn processes_do_not_have_it(pids: &[Option<i32>]) {
    for pid in pids {
        let pid = pid.expect("it runs");
        for file in ["environ", "cmdline"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert_eq!(given_away(&bytes), None, "{file} of {pid}");
        }
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let cores = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"));
        let cores: Vec<_> = cores.unwrap().split_whitespace().rev().take(3).collect();
        assert!(
            matches!(cores[2], "0" | "1"),
            "{pid} leaves cores: {limits}"
        );
    }
}

#[test]
fn attacks_127_and_136_nothing_that_is_recorded_shown_or_left_has_a_secret() {
    let island = Island::new();
    let repository = shop(&island);
    let id = repository.up("x");
    services_are_masked(&island);
    let run = runs_are_masked(&island);
    let session = sessions_are_masked(&island, &id);
    answers_are_masked(&island, &id, &session);
    no_answer_has_it(&island);
    processes_do_not_have_it(&[
        island.daemon_of_the_lock(),
        island.keeper_of(&id),
        island.init_of(&id),
    ]);
    // What the guest itself wrote into its tree is the guest's. From here on holm's own is looked at.
    island.sh("x", "rm leaked.txt plain.txt").ok();

    // The daemon dies during a run, twice, once as by a bug of its own.
    let going = [
        "run",
        "x",
        "--detach",
        "--",
        "sh",
        "-c",
        "python3 leak.py; sleep 1000",
    ];
    let going = island.holm(&going).ok().out();
    island.kill_daemon();
    eventually("the run said all", || {
        let output = island.holm(&["runs", "show", &going, "--json"]);
        output.out().contains("running")
    });
    let daemon = island.daemon_of_the_lock().expect("one was started");
    send(daemon, Signal::ABORT);
    eventually("it is gone", || island.daemon_of_the_lock() != Some(daemon));
    island.holm(&["snapshot", "x", "before"]).ok();
    // The keeper dies, and everything inside with it.
    let keeper = island.keeper_of(&id).expect("it runs");
    send(keeper, Signal::KILL);
    eventually("the workspace is not running", || {
        island.states()["x"] != "running"
    });
    nothing_is_left(&island);
    island.holm(&["start", "x"]).ok();
    repository.holm(&["fork", "x", "y"]).ok();
    eventually("it printed all again", || {
        logged(&island, "api").matches(LEAKED).count() >= 2
    });
    is_masked("the log", &logged(&island, "api"));
    let shown = island.holm(&["runs", "show", &run, "--json"]).json();
    is_masked("what a run changed", &shown.to_string());
    island.holm(&["stop", "x", "y"]).ok();
    no_answer_has_it(&island);
    nothing_is_left(&island);

    // Removed and collected, with the secret itself.
    repository.holm(&["secret", "rm", "TOKEN"]).ok();
    island.holm(&["rm", "x", "y", "--force"]).ok();
    island.holm(&["gc", "--all"]).ok();
    nothing_is_left(&island);
    // The search finds the value where it is.
    island.write("holm/left", format!("<{CANARY}>"));
    let mut found = Vec::new();
    sweep(&island.holm_home(), &mut found);
    assert_eq!(found.len(), 1, "{found:?}");
}
