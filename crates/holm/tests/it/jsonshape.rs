//! `--json`: the shapes that programs rely on, field by field, and errors that go to stderr alone.

use crate::support::{Island, Ran};
use serde_json::{Value, json};

/// Checks a value against a shape: `"string"`, `"string?"` (or null), `"time"`, an array with one
/// shape for its items, an object with a shape for each field that must be there.
#[track_caller]
fn has_shape(value: &Value, shape: &Value, at: &str) {
    match shape {
        Value::String(kind) => {
            let is_right = match kind.trim_end_matches('?') {
                _ if kind.ends_with('?') && value.is_null() => true,
                "string" => value.is_string(),
                "number" => value.is_number(),
                "count" => value.is_u64(),
                "bool" => value.is_boolean(),
                "time" => value.as_str().is_some_and(is_time),
                other => panic!("no such shape: {other}"),
            };
            assert!(is_right, "{at} is no {kind}: {value}");
        }
        Value::Array(items) => {
            let list = value
                .as_array()
                .unwrap_or_else(|| panic!("{at} is no list: {value}"));
            for item in list {
                has_shape(item, &items[0], at);
            }
        }
        Value::Object(fields) => {
            let found = value
                .as_object()
                .unwrap_or_else(|| panic!("{at} is no object: {value}"));
            for (name, shape) in fields {
                let at = format!("{at}.{name}");
                let field = found
                    .get(name)
                    .unwrap_or_else(|| panic!("{at} is missing: {value}"));
                has_shape(field, shape, &at);
            }
        }
        other => panic!("no shape: {other}"),
    }
}

/// RFC 3339 in UTC.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes
            .get(range)
            .is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    digits(0..4)
        && digits(5..7)
        && digits(8..10)
        && digits(11..13)
        && digits(14..16)
        && digits(17..19)
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
        && text.ends_with('Z')
}

fn workspace() -> Value {
    json!({
        "id": "string", "label": "string", "project": "string", "project_id": "string",
        "owner": "string", "state": "string", "reason": "string?", "ref": "string?",
        "commit": "string?", "created_at": "time", "last_used_at": "time", "driver": "string",
        "root": "string", "head": "string?", "branch": "string?", "dirty": "bool?",
        "ports": [{ "name": "string", "port": "count", "host_port": "count?", "url": "string?",
                    "canonical": "bool", "source": "string" }],
        "services": [{ "name": "string", "state": "string", "pid": "count?", "restarts": "count",
                       "port": "count?", "reason": "string?" }],
        "volumes": [{ "name": "string", "policy": "string", "bytes": "count?" }],
        "limits": { "memory": "count?", "cpus": "number?", "processes": "count?", "disk": "count?" },
        "isolation": {
            "user": "bool", "mount": "bool", "pid": "bool", "net": "bool", "ipc": "bool",
            "seccomp": "bool", "no_new_privs": "bool", "landlock": "bool", "cgroup": "string?",
            "limits": { "memory": "string?", "cpus": "string?", "processes": "string?",
                        "disk": "string?" },
            "degraded": ["string"], "oom_kills": "count",
        },
    })
}

fn with(mut shape: Value, more: &Value) -> Value {
    for (name, field) in more.as_object().unwrap() {
        shape[name] = field.clone();
    }
    shape
}

#[test]
fn a_workspace_has_the_same_fields_everywhere() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "x", "--json"]).json();
    let up = with(workspace(), &json!({ "created": "bool", "ms": "count" }));
    has_shape(&made, &up, "up");
    assert_eq!(made["driver"], "linux");
    assert_eq!(made["ref"], "main");
    assert_eq!(made["reason"], Value::Null);
    for part in [
        "user",
        "mount",
        "pid",
        "net",
        "ipc",
        "seccomp",
        "no_new_privs",
    ] {
        assert_eq!(made["isolation"][part], true, "{part}");
    }
    has_shape(
        &repository.holm(&["up", "x", "--json"]).json(),
        &up,
        "up again",
    );
    let several = repository.holm(&["up", "-n", "2", "y", "--json"]).json();
    has_shape(&several, &json!({ "workspaces": [up] }), "up -n");
    assert_eq!(several["workspaces"].as_array().unwrap().len(), 2);

    let mut shown = island.holm(&["show", "x", "--json"]).json();
    has_shape(&shown, &workspace(), "show");
    let list = island.holm(&["ls", "--json"]).json();
    has_shape(&list, &json!({ "workspaces": [workspace()] }), "ls");
    let find = |list: &Value| {
        let mut all = list["workspaces"].as_array().unwrap().iter();
        all.find(|workspace| workspace["label"] == "x")
            .unwrap()
            .clone()
    };
    let mut listed = find(&list);
    // Only `show` includes the current resource use.
    assert!(shown["numbers"]["memory"].is_u64(), "{shown}");
    assert_eq!(listed["numbers"], Value::Null);
    shown["numbers"] = Value::Null;
    for workspace in [&mut shown, &mut listed] {
        // It may have been looked at in between.
        workspace.as_object_mut().unwrap().remove("dirty");
    }
    assert_eq!(shown, listed, "show and ls say the same");
    for extra in ["created", "ms"] {
        assert_eq!(shown.get(extra), None, "only up has {extra}");
    }
    let empty = Island::new();
    assert_eq!(
        empty.holm(&["ls", "--json"]).json(),
        json!({ "workspaces": [] })
    );
}

#[test]
fn changes_of_state_answer_with_the_workspace() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let states = [
        ("stop", "stopped"),
        ("start", "running"),
        ("restart", "running"),
    ];
    for (verb, state) in states {
        let answer = island.holm(&[verb, "x", "--json"]).json();
        let one = match answer.get("workspaces") {
            Some(list) => list[0].clone(),
            None => answer,
        };
        has_shape(&one, &workspace(), verb);
        assert_eq!(one["state"], state, "{verb}");
        let isolation = one["isolation"]["seccomp"].clone();
        assert_eq!(
            isolation,
            json!(state == "running"),
            "what does not run is not isolated"
        );
    }
    let renamed = island.holm(&["rename", "x", "y", "--json"]).json();
    has_shape(&renamed, &workspace(), "rename");
    let removed = island.holm(&["rm", "y", "--json"]).json();
    let removed = match removed.get("workspaces") {
        Some(list) => list[0].clone(),
        None => removed,
    };
    has_shape(&removed, &workspace(), "rm");
    assert_eq!(removed["state"], "removed");
}

#[test]
fn times_move_as_they_are_called() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "x", "--json"]).json();
    island.sh("x", "true").ok();
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["created_at"], made["created_at"]);
    let used = |workspace: &Value| workspace["last_used_at"].as_str().unwrap().to_owned();
    assert!(used(&shown) > used(&made), "{shown}");
    // Looking is no use.
    assert_eq!(
        used(&island.holm(&["show", "x", "--json"]).json()),
        used(&shown)
    );
}

#[test]
fn dirty_is_what_was_last_seen() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let dirty = || island.holm(&["show", "x", "--json"]).json()["dirty"].clone();
    assert_eq!(dirty(), Value::Null, "nobody has looked yet");
    island.sh("x", "echo new > new").ok();
    island.holm(&["rm", "x", "--json"]).error(4);
    assert_eq!(dirty(), json!(true));
    island.holm(&["stop", "x"]).ok();
    island.holm(&["daemon", "stop"]).ok();
    assert_eq!(dirty(), json!(true));
    // A look that finds nothing says nothing of the moment after it.
    island.sh("x", "rm new").ok();
    repository.holm(&["changes", "x"]).ok();
    assert_eq!(dirty(), Value::Null);
    island.sh("x", "echo untracked > new").ok();
    assert_eq!(dirty(), Value::Null);
    repository.holm(&["changes", "x"]).ok();
    assert_eq!(dirty(), json!(true));
    repository.holm(&["assign", "x", "main", "--stash"]).ok();
    assert_eq!(dirty(), Value::Null);
    island.sh("x", "echo again > new").ok();
    repository.holm(&["changes", "x"]).ok();
    island.holm(&["reset", "x", "--force"]).ok();
    assert_eq!(dirty(), Value::Null);
}

#[test]
fn head_and_branch_are_those_of_now() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "x", "--json"]).json();
    let start = made["commit"].as_str().unwrap();
    let now = |id: &str| {
        let shown = island.holm(&["show", id, "--json"]).json();
        assert_eq!(shown["commit"], start, "where it started");
        (shown["head"].clone(), shown["branch"].clone())
    };
    let inside = |script: &str| {
        let script = format!("{script} >&2 && git rev-parse HEAD");
        json!(island.sh("x", &script).ok().out())
    };
    assert_eq!(
        (&made["head"], &made["branch"]),
        (&json!(start), &json!("holm/x"))
    );
    let one = inside("git commit -q --allow-empty -m one");
    assert_eq!(now("x"), (one.clone(), json!("holm/x")));
    let two = inside("git switch -qc topic/two && git commit -q --allow-empty -m two");
    assert_eq!(now("x"), (two.clone(), json!("topic/two")));
    let shown = island.holm(&["show", "x"]).ok().out();
    assert!(shown.contains("topic/two"), "{shown}");
    inside("git pack-refs --all --prune");
    assert_eq!(now("x"), (two, json!("topic/two")));
    inside("git checkout -q --detach holm/x");
    assert_eq!(now("x"), (one.clone(), Value::Null));
    let listed = island.holm(&["ls", "--json"]).json();
    assert_eq!(listed["workspaces"][0]["head"], one);
    island.holm(&["stop", "x"]).ok();
    assert_eq!(now("x"), (one, Value::Null));
    island.sh("x", "git switch -q --orphan none").ok();
    assert_eq!(now("x"), (Value::Null, json!("none")));
    // An invalid HEAD is unknown, and blocks nothing.
    island
        .sh("x", "rm .git/HEAD; ln -s /etc/passwd .git/HEAD")
        .ok();
    assert_eq!(now("x"), (Value::Null, Value::Null));
}

#[test]
fn projects() {
    let island = Island::new();
    assert_eq!(
        island.holm(&["project", "ls", "--json"]).json(),
        json!({ "projects": [] })
    );
    let repository = island.repository("shop");
    let shape = json!({ "id": "string", "name": "string", "path": "string", "created_at": "time",
                        "workspaces": "count" });
    let added = repository.holm(&["project", "add", "--json"]).json();
    has_shape(&added, &shape, "project add");
    assert_eq!(added["workspaces"], 0);
    repository.up("x");
    let list = island.holm(&["project", "ls", "--json"]).json();
    has_shape(&list, &json!({ "projects": [shape] }), "project ls");
    assert_eq!(list["projects"][0]["workspaces"], 1);
    assert_eq!(
        list["projects"][0]["path"],
        repository.path.to_str().unwrap()
    );
    let error = island.holm(&["project", "rm", "shop", "--json"]).error(4);
    assert_eq!(error["code"], "project_in_use");
    assert_eq!(
        island.holm(&["project", "rm", "no", "--json"]).error(3)["code"],
        "project_not_found"
    );
    island.holm(&["rm", "x"]).ok();
    let removed = island.holm(&["project", "rm", "shop", "--json"]).json();
    has_shape(&removed, &shape, "project rm");
    assert_eq!(
        island.holm(&["project", "ls", "--json"]).json()["projects"],
        json!([])
    );
    // Found in ~/src without being known.
    let found = island.holm(&["project", "find", "--json"]).json();
    assert!(
        found
            .to_string()
            .contains(repository.path.to_str().unwrap()),
        "{found}"
    );
}

#[test]
fn trust_and_daemon() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[project]\nnested = true\n");
    repository.commit("asks");
    let shape = json!({ "asks": [{ "key": "string", "words": "string" }], "digest": "string",
                        "approved": "bool" });
    has_shape(
        &repository.holm(&["trust", "--yes", "--json"]).json(),
        &shape,
        "trust",
    );
    let status = island.holm(&["daemon", "status", "--json"]).json();
    has_shape(
        &status,
        &json!({ "pid": "count", "version": "string" }),
        "daemon status",
    );
    island.holm(&["daemon", "stop", "--json"]).json();
}

#[test]
fn errors_are_one_document_on_stderr_and_the_exit_code_says_the_kind() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let check = |ran: Ran, exit: i32, code: &str| {
        assert!(ran.stdout.is_empty(), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        let error = ran.error(exit);
        assert_eq!(error["code"], code);
        for field in ["message", "hint"] {
            assert!(
                !error[field].as_str().unwrap().is_empty(),
                "{field} of {error}"
            );
        }
    };
    check(island.holm(&["up", "x", "--json"]), 2, "not_a_repository");
    check(island.holm(&["shwo", "--json"]), 2, "usage");
    check(island.holm(&["show", "--json"]), 2, "usage");
    check(
        repository.holm(&["up", "--from", "a", "--dirty", "--json"]),
        2,
        "usage",
    );
    check(repository.holm(&["up", "X", "--json"]), 2, "invalid_label");
    check(
        island.holm(&["show", "no", "--json"]),
        3,
        "workspace_not_found",
    );
    check(
        repository.holm(&["up", "y", "--from", "no", "--json"]),
        3,
        "ref_not_found",
    );
    check(
        repository.holm(&["up", "y", "--include", "no", "--json"]),
        3,
        "path_not_found",
    );
    check(
        repository.holm(&["up", "x", "--dirty", "--json"]),
        4,
        "already_exists",
    );
    check(island.holm(&["here", "--json"]), 4, "refused");
    island.sh("x", "echo new > new").ok();
    check(island.holm(&["rm", "x", "--json"]), 4, "unsaved_work");
    repository.write("holm.toml", "[project]\nroot = 1\nnothing = 2\n");
    check(
        repository.holm(&["up", "y", "--dirty", "--json"]),
        2,
        "invalid_config",
    );
    island.holm(&["daemon", "stop"]).ok();
    check(
        island.holm(&["daemon", "status", "--json"]),
        5,
        "daemon_unreachable",
    );
    // Without --json the same three, as text, on stderr.
    let ran = repository.holm(&["show", "no"]).exits(3);
    assert!(ran.stdout.is_empty());
    assert!(
        ran.stderr.starts_with("error: ") && ran.stderr.contains("hint: "),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains('\u{1b}'), "no colours in a pipe");
}
