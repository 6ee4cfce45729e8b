//! Programs create projects and workspaces over plain HTTP: by path, project and URL, refusals, and
//! requests with a key whose client or daemon disappears.

use crate::support::{Door, Island, JSON, Reply, Repository, eventually};
use serde_json::{Value, json};
use std::io::Read;
use std::sync::Barrier;

const WORKSPACES: &str = "/api/v1/workspaces";
const PROJECTS: &str = "/api/v1/projects";

/// A service that is ready on command.
const WEB: &str =
    "[services.web]\nrun = \"sleep 1000\"\nready = { command = \"test -e /tmp/go\" }\n";

fn count(island: &Island) -> usize {
    let list = island.holm(&["ls", "--json"]).json();
    list["workspaces"].as_array().unwrap().len()
}

#[track_caller]
fn made(reply: &Reply) -> Value {
    let made = reply.json();
    let status = if made["created"] == true { 201 } else { 200 };
    assert_eq!(reply.status, status, "{reply:?}");
    made
}

/// What curl can do.
#[test]
fn curl_makes_projects_and_workspaces() {
    let island = Island::new();
    let shop = island.shop(WEB, "");
    shop.git(&["branch", "other"]);
    shop.write(".gitignore", "*.local\n");
    shop.commit("more");
    shop.write("new.txt", "new\n");
    shop.write("env.local", "x\n");
    let door = Door::of(&island);
    let socket = island.holm_home().join("run/daemon.sock");
    let curl = |route: &str, body: Value| {
        let body = body.to_string();
        let url = format!("http://localhost{route}");
        let words = ["-sS", "--unix-socket", socket.to_str().unwrap(), "-d"];
        let words = [&words[..], &[&body, &url]].concat();
        island.run(&island.home(), "curl", &words).ok().json()
    };
    let project = curl(PROJECTS, json!({ "path": shop.path }));
    assert_eq!(
        (&project["name"], &project["workspaces"]),
        (&json!("shop"), &json!(0))
    );
    let again = curl(PROJECTS, json!({ "path": shop.path.join(".") }));
    assert_eq!(again["id"], project["id"]);
    assert_eq!(
        (&project["created"], &again["created"]),
        (&json!(true), &json!(false))
    );

    let one = curl(
        WORKSPACES,
        json!({ "path": shop.path, "label": "one", "wait": false }),
    );
    assert_eq!(
        (&one["label"], &one["state"]),
        (&json!("one"), &json!("running"))
    );
    assert_eq!(
        (&one["created"], &one["project_id"]),
        (&json!(true), &project["id"])
    );
    let shown = island.holm(&["show", "one", "--json"]).json();
    for field in shown.as_object().unwrap().keys() {
        assert!(one.get(field).is_some(), "{field} of `holm show`");
    }
    assert_eq!((&one["id"], &one["root"]), (&shown["id"], &shown["root"]));
    let door_ask = |body: Value| made(&door.ask("POST", WORKSPACES, &body.to_string()));
    let again = door_ask(json!({ "project": "shop", "label": "one", "wait": false }));
    assert_eq!(
        (&again["created"], &again["id"]),
        (&json!(false), &one["id"])
    );

    let other = door_ask(json!({ "project": project["id"], "from": "other", "wait": false }));
    assert_eq!(other["ref"], "other");
    let dirty = door_ask(json!({
        "path": shop.path, "label": "dirty", "dirty": true, "include": ["env.local"], "wait": false,
    }));
    let id = dirty["id"].as_str().unwrap();
    island.inside(id, &["cat", "new.txt", "env.local"]).ok();
    let entries = island.holm(&["audit", "--json"]).json();
    let entries = entries["audit"].as_array().unwrap().iter();
    let mut by_token = entries.filter(|entry| {
        let actor = entry["actor"].as_str().unwrap();
        actor.starts_with("token") && entry["route"] == "/workspaces" && entry["status"] == 201
    });
    assert!(by_token.next().is_some());

    // A clone, and a new repository.
    let bare = island.home().join("shop.git");
    shop.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    island.answer_ssh();
    let url = format!("ssh://git@git.test{}", bare.display());
    let cloned = curl(PROJECTS, json!({ "url": url, "name": "clone" }));
    let place = island.home().join("src/clone");
    assert_eq!(cloned["path"], place.to_str().unwrap());
    let left = std::fs::read_dir(island.home().join("src")).unwrap();
    let left = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with('.')
    });
    assert_eq!(left.count(), 0, "nothing is beside it");
    let fresh = json!({ "name": "fresh", "protected_paths": ["AGENTS.md"] });
    let made = curl(PROJECTS, fresh.clone());
    assert_eq!(made["name"], "fresh");
    let workspace = curl(WORKSPACES, json!({ "project": "fresh", "label": "first" }));
    let refused = island.sh(workspace["id"].as_str().unwrap(), "echo x > AGENTS.md");
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert_eq!(curl(PROJECTS, fresh)["error"]["code"], "already_exists");
}

#[test]
fn what_cannot_be_made_says_why() {
    let island = Island::new();
    let shop = island.shop("[services.web]\nrun = \"exit 3\"\nrestart = \"no\"\n", "");
    island.make_dir("home/src/plain");
    island.make_dir("home/elsewhere");
    Repository::new(&island, island.home().join("elsewhere/secret"));
    let door = Door::of(&island);
    let at = |path: &str| json!(island.home().join(path));
    let check = |route: &str, body: Value, status: u16, code: &str| {
        let reply = door.ask("POST", route, &body.to_string());
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (status, code),
            "{body}: {reply:?}"
        );
        let error = &reply.json()["error"];
        assert!(!error["hint"].as_str().unwrap().is_empty(), "{error}");
    };
    for route in [PROJECTS, WORKSPACES] {
        check(route, json!({ "path": "src/shop" }), 400, "invalid_path");
        check(route, json!({ "path": "/etc" }), 409, "refused");
        check(route, json!({ "path": "/nowhere" }), 409, "refused");
        check(route, json!({ "path": "/\u{0}" }), 409, "refused");
        check(
            route,
            json!({ "path": at("elsewhere/secret") }),
            409,
            "refused",
        );
        check(
            route,
            json!({ "path": at("src/../elsewhere/secret") }),
            409,
            "refused",
        );
        check(
            route,
            json!({ "path": at("src/nothing") }),
            404,
            "path_not_found",
        );
        check(
            route,
            json!({ "path": at("src/plain") }),
            400,
            "not_a_repository",
        );
        check(
            route,
            json!({ "path": shop.path, "url": "file:///x" }),
            400,
            "bad_request",
        );
        check(route, json!({}), 400, "bad_request");
        check(
            route,
            json!({ "path": shop.path, "sort": 1 }),
            400,
            "bad_request",
        );
        check(route, json!({ "url": "ext::sh -c x" }), 400, "bad_request");
        check(route, json!({ "url": "/etc" }), 400, "bad_request");
    }
    check(
        WORKSPACES,
        json!({ "project": "nothing" }),
        404,
        "project_not_found",
    );
    let of_shop = |more: Value| {
        let mut body = json!({ "path": shop.path });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    check(
        WORKSPACES,
        of_shop(json!({ "label": "Bad" })),
        400,
        "invalid_label",
    );
    check(
        WORKSPACES,
        of_shop(json!({ "label": "--warm" })),
        400,
        "invalid_label",
    );
    check(
        WORKSPACES,
        of_shop(json!({ "label": "a\u{0}" })),
        400,
        "bad_request",
    );
    check(
        WORKSPACES,
        of_shop(json!({ "from": "nothing" })),
        404,
        "ref_not_found",
    );
    check(
        WORKSPACES,
        of_shop(json!({ "from": "main", "dirty": true })),
        400,
        "usage",
    );
    check(
        WORKSPACES,
        of_shop(json!({ "include": ["/etc/passwd"] })),
        400,
        "usage",
    );
    check(
        WORKSPACES,
        of_shop(json!({ "include": ["nothing"] })),
        404,
        "path_not_found",
    );
    check(PROJECTS, json!({ "name": "../x" }), 400, "bad_request");
    check(
        PROJECTS,
        json!({ "name": "x", "isolation": "none" }),
        400,
        "bad_request",
    );
    assert_eq!(count(&island), 0);

    // It was made, and something is wrong with it.
    let sick = made(&door.ask(
        "POST",
        WORKSPACES,
        &of_shop(json!({ "label": "sick" })).to_string(),
    ));
    assert_eq!(sick["state"], "running", "{sick}");
    assert_eq!(sick["trouble"]["code"], "service_not_ready", "{sick}");

    // Without approval: the same refusal as on the command line, with a route as its hint.
    shop.write("holm.toml", "[project]\ninclude = [\"*.local\"]\n");
    shop.commit("asks for something");
    let wish = of_shop(json!({ "label": "wide" }));
    let typed = shop.holm(&["up", "wide", "--json"]).error(4);
    check(WORKSPACES, wish.clone(), 409, "not_trusted");
    let reply = door.ask("POST", WORKSPACES, &wish.to_string()).json();
    for key in ["code", "message"] {
        assert_eq!(reply["error"][key], typed[key]);
    }
    let hint = reply["error"]["hint"].as_str().unwrap();
    assert!(
        hint.ends_with("`POST /workspaces with \"untrusted\": true`"),
        "{hint}"
    );
    let without = of_shop(json!({ "label": "wide", "untrusted": true }));
    made(&door.ask("POST", WORKSPACES, &without.to_string()));
    shop.holm(&["trust", "--yes"]).ok();
    made(&door.ask(
        "POST",
        WORKSPACES,
        &of_shop(json!({ "label": "wide-2" })).to_string(),
    ));

    // For a workspace there are no such routes, by its token and by its socket.
    let guest = island
        .holm(&["token", "new", "--workspace", "sick", "--json"])
        .json();
    let bearer = Door::bearer(guest["token"].as_str().unwrap());
    for route in [PROJECTS, WORKSPACES] {
        let headers = [("Authorization", bearer.as_str()), JSON];
        let reply = door.ask_bare(
            "POST",
            route,
            &headers,
            of_shop(json!({})).to_string().as_bytes(),
        );
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"));
        let inside = format!(
            "curl -s --unix-socket /run/holm/api.sock -H 'Content-Type: application/json' \
             -d '{{\"project\":\"shop\"}}' http://localhost{route}"
        );
        let told = island.sh("sick", &inside).ok().json();
        assert_eq!(told["error"]["code"], "not_found", "{told}");
    }
    assert_eq!(count(&island), 3);
}

#[test]
fn what_is_made_with_a_key_is_made_once_whoever_dies() {
    let island = Island::new();
    let shop = island.shop(WEB, "");
    let door = Door::of(&island);
    let bearer = Door::bearer(&door.token);
    let headers = |key: &'static str| {
        [
            ("Authorization", bearer.as_str()),
            JSON,
            ("Idempotency-Key", key),
        ]
    };
    let unnamed = json!({ "path": shop.path, "wait": false });
    let send = |key: &'static str, route: &str, body: &Value| {
        // Another daemon may have another port.
        let door = Door::of(&island);
        door.ask_bare("POST", route, &headers(key), body.to_string().as_bytes())
    };
    let make = |key: &'static str, body: &Value| made(&send(key, WORKSPACES, body));

    // Several at once, of which one is carried out; another request is refused.
    let together = Barrier::new(3);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let tries = [(); 3].map(|()| {
            scope.spawn(|| {
                together.wait();
                let body = unnamed.to_string();
                made(&door.ask_bare("POST", WORKSPACES, &headers("k-1"), body.as_bytes()))
            })
        });
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:#?}"
    );
    assert_eq!(count(&island), 1);
    let reused = send(
        "k-1",
        WORKSPACES,
        &json!({ "path": shop.path, "label": "x" }),
    );
    assert_eq!((reused.status, reused.code().as_str()), (409, "key_reused"));
    // A failed request left nothing, and its key is free.
    let wrong = send(
        "k-2",
        WORKSPACES,
        &json!({ "path": shop.path, "from": "nothing" }),
    );
    assert_eq!(wrong.status, 404);
    assert_ne!(make("k-2", &unnamed)["id"], answers[0]["id"]);
    assert_eq!(count(&island), 2);

    // The caller may disconnect in the middle: the workspace is made, and the key returns it when
    // it is ready.
    shop.write(
        "holm.toml",
        format!("[project]\nsetup = [\"sleep 2\"]\n{WEB}"),
    );
    shop.commit("something that takes a while");
    let waiting = json!({ "path": shop.path, "label": "later" });
    let state = || {
        let list = island.holm(&["ls", "--json"]).json();
        let rows = list["workspaces"].as_array().unwrap().clone();
        let row = rows.into_iter().find(|row| row["label"] == "later");
        row.map(|row| row["state"].as_str().unwrap().to_owned())
    };
    let text = waiting.to_string();
    let connection = door.begin(
        "POST",
        WORKSPACES,
        &headers("k-3"),
        text.len(),
        text.as_bytes(),
    );
    eventually("it is under way", || state().is_some());
    drop(connection);
    eventually("it is made although nobody waits", || {
        state().as_deref() == Some("running")
    });
    island.sh("later", "touch /tmp/go").ok();
    let later = make("k-3", &waiting);
    assert_eq!(
        (&later["label"], &later["created"]),
        (&json!("later"), &json!(true))
    );
    assert_eq!(later["services"][0]["state"], "ready", "{later}");
    assert_eq!(count(&island), 3);
    let events = island.holm(&["events", "--json"]).out();
    assert!(events.contains(later["id"].as_str().unwrap()), "{events}");

    // The daemon dies when it is made and not acknowledged, or just before.
    for (key, at, more) in [
        ("k-4", "acknowledge:after:kill", 1),
        ("k-5", "acknowledge:before:kill", 0),
    ] {
        let before = count(&island);
        island.holm(&["daemon", "stop"]).ok();
        island
            .holm_at(&island.home(), at, &["daemon", "start"])
            .ok();
        let door = Door::of(&island);
        let body = unnamed.to_string();
        let mut connection = door.begin(
            "POST",
            WORKSPACES,
            &headers(key),
            body.len(),
            body.as_bytes(),
        );
        let mut told = Vec::new();
        // Whether the connection ends or is cut makes no difference.
        let _ = connection.read_to_end(&mut told);
        assert!(
            !String::from_utf8_lossy(&told).contains("created"),
            "it died"
        );
        island.holm(&["daemon", "start"]).ok();
        assert_eq!(count(&island), before + more, "{at}");
        let found = make(key, &unnamed);
        assert_eq!(make(key, &unnamed), found);
        assert_eq!(count(&island), before + 1, "{at}");
    }

    // A new repository is made once, too.
    let fresh = json!({ "name": "fresh", "isolation": "project" });
    let first = made(&send("p-1", PROJECTS, &fresh));
    assert_eq!(made(&send("p-1", PROJECTS, &fresh)), first);
    assert_eq!(send("p-2", PROJECTS, &fresh).code(), "already_exists");
    // As if the daemon had died before it could answer: its work is continued.
    let forget = "import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute(\"update request_keys set answer = null where key = 'p-1'\")
store.commit()";
    let database = island.data().join("holm.db");
    let arguments = ["-c", forget, database.to_str().unwrap()];
    island
        .run(&island.home(), "/usr/bin/python3", &arguments)
        .ok();
    assert_eq!(made(&send("p-1", PROJECTS, &fresh))["id"], first["id"]);
}
