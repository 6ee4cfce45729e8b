//! The API as a contract: its document, pages and filters, requests with a key, health and metrics.

use crate::support::{Island, Repository, eventually};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Barrier;

fn get(island: &Island, path: &str) -> (u16, Value) {
    let (status, body) = island.ask("GET", path, b"");
    let text = String::from_utf8_lossy(&body);
    (
        status,
        serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{path}: {error}: {text}")),
    )
}

fn ids(answer: &Value) -> Vec<String> {
    let list = answer["workspaces"].as_array().unwrap().iter();
    list.map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Everything that a client has to say to make a workspace of a project that the daemon has.
fn wish(repository: &Repository<'_>, label: Option<&str>) -> Value {
    let commit = repository.git(&["rev-parse", "HEAD"]);
    json!({
        "label": label, "reuse": false,
        "commit": commit.trim(), "ref": "main", "default_root": "/src/shop", "home": "/home/me",
        "config": null, "untrusted": false, "allow_degraded": [], "user_name": null,
        "user_email": null, "remotes": [], "shallow": [], "path": "/usr/bin:/bin", "lang": null,
        "tz": null, "include": null, "excluded": [], "dirty": null, "notes": [],
    })
}

/// Sends it with a key; the status, and the last line of the answer.
fn create(island: &Island, key: &str, wish: &Value) -> Option<(u16, Value)> {
    let header = format!("idempotency-key: {key}\r\n");
    let body = wish.to_string();
    let projects = get(island, "/api/v1/projects").1;
    let project = projects["projects"][0]["id"].as_str().unwrap();
    let path = format!("/api/v1/projects/{project}/workspaces");
    let (status, body) = island.try_ask("POST", &path, &header, body.as_bytes())?;
    let text = String::from_utf8(body).unwrap();
    let last = text.lines().last().unwrap();
    Some((status, serde_json::from_str(last).unwrap()))
}

/// The paths of the document with their methods.
fn operations(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(|method| (method.to_uppercase(), path.clone()))
    });
    methods.collect()
}

#[test]
fn attack_120_no_part_of_a_path_takes_nonsense() {
    let island = Island::new();
    island.repository("shop").up("one");
    let document = get(&island, "/api/v1/openapi.json").1;
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let committed = std::fs::read_to_string(committed).unwrap();
    let committed: Value = serde_json::from_str(&committed).unwrap();
    assert!(document == committed, "what is served is what is committed");
    let long = "w".repeat(10_000);
    let nonsense = [
        "../..",
        "..%2f..",
        "%2e%2e%2f",
        "%2e%2e",
        "%00",
        "w00000000000%00",
        "%e2%80%a4%e2%80%a4",
        "%ef%bc%8e%ef%bc%8e%ef%bc%8f",
        "%c0%ae%c0%ae%c0%af",
        "%ff",
        "one",
        "W000000000000",
        "w000000000000%20",
        "w00000000000o",
        &long,
    ];
    let mut asked = 0;
    for (method, path) in operations(&document) {
        let Some((before, rest)) = path.split_once('{') else {
            continue;
        };
        let (_, after) = rest.split_once('}').unwrap();
        // Of several parts, the others are of the right form.
        let after = after.split('/').map(|part| {
            if part.starts_with('{') {
                "r000000000000"
            } else {
                part
            }
        });
        let after = after.collect::<Vec<_>>().join("/");
        for part in nonsense {
            let path = format!("{before}{part}{after}");
            let (status, body) = island.ask(&method, &path, b"{}");
            let shown: String = path.chars().take(80).collect();
            assert!(
                matches!(status, 400 | 404 | 414),
                "{method} {shown}: {status}"
            );
            if status != 414 {
                let error: Value = serde_json::from_slice(&body).unwrap();
                let message = error["error"]["message"].as_str().unwrap();
                assert!(message.len() < 11_000, "{method} {shown}");
            }
            asked += 1;
        }
    }
    assert!(asked > 300, "{asked}");
    assert_eq!(
        get(&island, "/api/v1/workspaces").1["workspaces"][0]["state"],
        "running"
    );
}

#[test]
fn lists_come_in_pages_and_are_filtered() {
    let island = Island::new();
    let shop = island.repository("shop");
    let all: Vec<_> = ["one", "two", "three"].map(|label| shop.up(label)).into();
    let site = island.repository("site").up("one");
    island.holm(&["stop", "two"]).ok();
    let (_, everything) = get(&island, "/api/v1/workspaces");
    assert_eq!(ids(&everything).len(), 4);
    assert!(everything.get("next").is_none());

    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let (status, page) = get(&island, &format!("/api/v1/workspaces?limit=2{after}"));
        assert_eq!(status, 200);
        found.extend(ids(&page));
        let Some(next) = page.get("next") else { break };
        assert_eq!(ids(&page).len(), 2);
        // An entry that was shown already is removed: no other is skipped because of it.
        if after.is_empty() {
            island.holm(&["rm", "--force", &found[1]]).ok();
        }
        after = format!("&after={}", next.as_str().unwrap());
    }
    assert_eq!(found, ids(&everything));

    let filtered = |query: &str| {
        let (status, answer) = get(&island, &format!("/api/v1/workspaces?{query}"));
        assert_eq!(status, 200, "{query}");
        ids(&answer)
    };
    assert_eq!(filtered("project=site"), [site.as_str()]);
    let project_id = &everything["workspaces"][0]["project_id"].as_str().unwrap();
    assert_eq!(
        filtered(&format!("project={project_id}")),
        [&*all[0], &*all[2]]
    );
    assert_eq!(filtered("label=one&state=running"), [&*all[0], &*site]);
    assert_eq!(filtered("state=stopped"), [""; 0]);
    assert_eq!(filtered("trash=true&project=shop"), [all[1].as_str()]);
    assert_eq!(filtered("trash=true&state=running"), [""; 0]);
    for wrong in ["limit=0", "limit=1001", "limit=x", "state=asleep", "sort=x"] {
        let (status, _) = get(&island, &format!("/api/v1/workspaces?{wrong}"));
        assert_eq!(status, 400, "{wrong}");
    }

    let (_, page) = get(&island, "/api/v1/projects?limit=1");
    assert_eq!(page["projects"][0]["name"], "shop");
    let next = page["next"].as_str().unwrap();
    let (_, page) = get(&island, &format!("/api/v1/projects?limit=1&after={next}"));
    assert_eq!(page["projects"][0]["name"], "site");
    assert!(page.get("next").is_none());
    let (_, page) = get(&island, "/api/v1/projects?name=site");
    assert_eq!(page["projects"].as_array().unwrap().len(), 1);
}

#[test]
fn a_request_with_a_key_is_carried_out_once() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("first");
    let count = || ids(&get(&island, "/api/v1/workspaces").1).len();
    let made = |key: &str, wish: &Value| {
        let (status, last) = create(&island, key, wish).unwrap();
        assert_eq!(status, 200, "{last}");
        assert_eq!(last["workspace"]["created"], true, "{last}");
        last
    };
    let unnamed = wish(&repository, None);
    let first = made("k-1", &unnamed);
    assert_eq!(
        made("k-1", &unnamed),
        first,
        "the same answer, to the letter"
    );
    assert_eq!(count(), 2);
    assert_ne!(
        made("k-2", &unnamed)["workspace"]["id"],
        first["workspace"]["id"]
    );
    assert_eq!(count(), 3);

    // The key stands for one request, also while that is in progress, and in any order of fields.
    let (status, refused) = create(&island, "k-1", &wish(&repository, Some("x"))).unwrap();
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("key_reused"))
    );
    let (status, _) = create(&island, &"k".repeat(201), &unnamed).unwrap();
    assert_eq!(status, 400);

    // Several at once, of which one is carried out.
    let together = Barrier::new(4);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let tries = [(); 4].map(|()| {
            scope.spawn(|| {
                together.wait();
                made("k-3", &unnamed)
            })
        });
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:#?}"
    );
    assert_eq!(count(), 4);

    // A failed request left nothing, and its key is free.
    let (status, _) = create(&island, "k-4", &wish(&repository, Some("Bad"))).unwrap();
    assert_eq!(status, 400);
    let good = wish(&repository, Some("good"));
    assert_eq!(made("k-4", &good)["workspace"]["label"], "good");

    // After a day a key is forgotten, and free for another request.
    let age = "import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute(\"update request_keys set noted_at = '2026-01-01T00:00:00.000Z' where key = 'k-4'\")
store.commit()";
    let database = island.data().join("holm.db");
    let arguments = ["-c", age, database.to_str().unwrap()];
    island
        .run(&island.home(), "/usr/bin/python3", &arguments)
        .ok();
    let other = wish(&repository, Some("other"));
    assert_eq!(made("k-4", &other)["workspace"]["label"], "other");

    // The next daemon knows it.
    island.kill_daemon();
    island.holm(&["daemon", "start"]).ok();
    assert_eq!(made("k-1", &unnamed), first);

    // A daemon dies when the workspace is made and not acknowledged: the next one returns it.
    island.holm(&["daemon", "stop"]).ok();
    let at = "acknowledge:after:kill";
    island
        .holm_at(&island.home(), at, &["daemon", "start"])
        .ok();
    assert!(create(&island, "k-5", &unnamed).is_none(), "it died");
    island.holm(&["daemon", "start"]).ok();
    let before = count();
    let found = made("k-5", &unnamed);
    assert_eq!(made("k-5", &unnamed), found);
    assert_eq!(count(), before);
    // A daemon that dies before: nothing exists, and it is created once.
    island.holm(&["daemon", "stop"]).ok();
    let at = "acknowledge:before:kill";
    island
        .holm_at(&island.home(), at, &["daemon", "start"])
        .ok();
    assert!(create(&island, "k-6", &unnamed).is_none(), "it died");
    island.holm(&["daemon", "start"]).ok();
    assert_eq!(count(), before);
    let found = made("k-6", &unnamed);
    assert_eq!(made("k-6", &unnamed), found);
    assert_eq!(count(), before + 1);
}

#[test]
fn health_is_found_out_and_numbers_are_told() {
    let island = Island::new();
    let repository = island.shop(
        "[services.web]\nrun = \"exit 3\"\nrestart = \"on-failure\"\n\
         [egress]\nmode = \"none\"\n",
        "",
    );
    repository.holm(&["up", "one", "--no-wait"]).ok();
    let (status, health) = get(&island, "/health");
    assert_eq!(status, 200, "{health}");
    for part in ["status", "store", "data_dir"] {
        assert_eq!(health[part], "ok", "{health}");
    }
    assert_eq!(health["drivers"], json!({"linux": "ok"}));
    assert!(health["timestamp"].as_str().unwrap().ends_with('Z'));

    // A directory that cannot be written is not well, and is well again.
    let permit = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(island.data(), permissions).unwrap();
    };
    permit(0o500);
    eventually("the directory is not well", || {
        get(&island, "/health").0 == 503
    });
    let sick = get(&island, "/health").1;
    assert_eq!(
        (&sick["status"], &sick["data_dir"]),
        (&json!("failing"), &json!("failing"))
    );
    assert!(!sick.to_string().contains("holm-it-"), "no paths: {sick}");
    permit(0o700);
    eventually("all is well", || get(&island, "/health").0 == 200);

    // Every directory that it needs is looked for, and so is the file of the store.
    for name in [
        "workspaces",
        "projects",
        "trash",
        "secrets",
        "incoming",
        "holm.db",
    ] {
        let (place, aside) = (island.data().join(name), island.data().join("aside"));
        std::fs::rename(&place, &aside).unwrap();
        let what = format!("{name} is missed");
        eventually(&what, || get(&island, "/health").0 == 503);
        let sick = get(&island, "/health").1;
        std::fs::rename(&aside, &place).unwrap();
        let problem = sick["problems"][0].as_str().unwrap();
        let words = if name == "holm.db" { "the store" } else { name };
        assert!(problem.starts_with(words), "{sick}");
        assert!(!sick.to_string().contains("holm-it-"), "no paths: {sick}");
        eventually("all is well", || get(&island, "/health").0 == 200);
    }

    // A store that another process locks is unhealthy.
    let hold = "import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute('begin immediate')
print('held', flush=True)
sys.stdin.read()";
    let mut command: Command = island.command("/usr/bin/python3", &island.home());
    command
        .args(["-c", hold])
        .arg(island.data().join("holm.db"));
    let mut holder = crate::support::Running::new(&mut command);
    holder.says("held");
    eventually("the store is not well", || {
        get(&island, "/health").1["store"] == "failing"
    });
    drop(holder);
    eventually("all is well", || get(&island, "/health").0 == 200);

    island
        .sh("one", "curl -s -m 2 http://192.0.2.1/ ; true")
        .ok();
    let metrics = || {
        let (status, body) = island.ask("GET", "/metrics", b"");
        assert_eq!(status, 200);
        String::from_utf8(body).unwrap()
    };
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let text = metrics();
    assert_eq!(value(&text, "holm_workspaces{state=\"running\"}"), 1.0);
    assert_eq!(value(&text, "holm_workspaces{state=\"removed\"}"), 0.0);
    assert_eq!(value(&text, "holm_creations_total{result=\"made\"}"), 1.0);
    assert_eq!(value(&text, "holm_creation_seconds_count"), 1.0);
    assert!(value(&text, "holm_disk_free_bytes") > 0.0);
    let health = "holm_api_requests_total{method=\"GET\",route=\"/health\",status=\"503\"}";
    assert!(value(&text, health) > 0.0);
    assert!(text.ends_with("# EOF\n"));
    // There may be no line for what has not happened yet.
    let counted = |name: &str| {
        let text = metrics();
        let is_there = text.lines().any(|line| line.starts_with(name));
        if is_there { value(&text, name) } else { 0.0 }
    };
    eventually("what was refused is counted", || {
        counted("holm_gateway_decisions_total{decision=\"refuse\"}") > 0.0
    });
    eventually("restarts are counted", || {
        counted("holm_service_restarts_total") > 0.0
    });
    let port = island.holm(&["daemon", "status", "--json"]).json()["port"].to_string();
    let url = format!("http://nobody.localhost:{port}/");
    let resolve = format!("nobody.localhost:{port}:127.0.0.1");
    island
        .run(&island.home(), "curl", &["-s", "--resolve", &resolve, &url])
        .ok();
    eventually("the request is counted", || {
        counted("holm_proxy_requests_total{status=\"404\"}") == 1.0
    });
    // A new daemon starts new counters.
    island.kill_daemon();
    island.holm(&["stop", "one"]).ok();
    let text = metrics();
    assert_eq!(value(&text, "holm_creations_total{result=\"made\"}"), 0.0);
    assert_eq!(value(&text, "holm_workspaces{state=\"stopped\"}"), 1.0);
}

/// Every route that takes JSON takes an object. By position, `[null, null, true]` would be a reset by
/// force.
#[test]
fn bodies_are_objects_and_never_lists_by_position() {
    let island = Island::new();
    island.repository("shop").up("one");
    let document = get(&island, "/api/v1/openapi.json").1;
    let mut asked = 0;
    for (method, path) in operations(&document) {
        let operation = &document["paths"][&path][method.to_lowercase()];
        if operation["requestBody"]["content"]["application/json"].is_null() {
            continue;
        }
        asked += 1;
        let whole = path
            .replace("/workspaces/{id}", "/workspaces/w000000000000")
            .replace("/projects/{id}", "/projects/p000000000000")
            .replace("{session}", "s000000000000");
        for body in ["[]", "[null, null, true]", " [true]"] {
            let (status, answer) = island.ask(&method, &whole, body.as_bytes());
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            let message = answer["error"]["message"].as_str().unwrap();
            assert_eq!(status, 400, "{method} {path} {body} {answer}");
            // Errors of a body with values say only where it is wrong; one is an enum.
            let expect = match (method.as_str(), path.as_str()) {
                ("POST", "/api/v1/projects/{id}/trees") => "expected value",
                (_, path) if path.contains("/secrets") => "line 1",
                _ => "invalid type: sequence",
            };
            assert!(message.contains(expect), "{method} {path} {body} {message}");
        }
    }
    assert!(asked > 30, "{asked}");
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": [null, "workspace_list", {}],
    });
    let headers =
        "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
    let (status, answer) = island.ask_with("POST", "/mcp", headers, call.to_string().as_bytes());
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32602)));
    assert_eq!(answer["id"], 7);
}
