//! Repositories by URL: on the command line and for programs, at once, and after the remote has moved.

use crate::support::{Door, Island, Reply, Repository};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Barrier;

const WORKSPACES: &str = "/api/v1/workspaces";
const PROJECTS: &str = "/api/v1/projects";

/// Sends one request several times at the same moment.
fn at_once(door: &Door, body: &Value) -> Vec<Value> {
    let together = Barrier::new(3);
    let ask = || {
        together.wait();
        let reply: Reply = door.ask("POST", WORKSPACES, &body.to_string());
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
        reply.json()
    };
    std::thread::scope(|scope| {
        let asking = [(); 3].map(|()| scope.spawn(ask));
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn entries(island: &Island) -> BTreeSet<String> {
    let entries = std::fs::read_dir(island.home().join("src")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn requests_for_one_url_at_once_each_get_a_workspace() {
    let island = Island::new();
    let remote = island.remote("owner-a/x");
    let door = Door::of(&island);
    let made = at_once(&door, &json!({ "url": remote.url, "wait": false }));
    let ids: BTreeSet<_> = made.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3, "{made:?}");
    assert!(
        made.iter()
            .all(|one| one["created"] == true && one["project"] == "x")
    );
    let projects: BTreeSet<_> = made
        .iter()
        .map(|one| one["project_id"].as_str().unwrap())
        .collect();
    assert_eq!(projects.len(), 1);
    // With a label the first one makes it, and the others get it.
    let made = at_once(
        &door,
        &json!({ "url": remote.url, "label": "same", "wait": false }),
    );
    let ids: BTreeSet<_> = made.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1, "{made:?}");
    let created = made.iter().filter(|one| one["created"] == true);
    assert_eq!(created.count(), 1, "{made:?}");
    assert_eq!(entries(&island), BTreeSet::from(["x".to_owned()]));

    // Another repository of the same name is another project; another spelling is none.
    let other = island.remote("owner-b/x");
    other.repository.write("other.txt", "other\n");
    other.repository.commit("other");
    let project = |url: &str| {
        let reply = door.ask("POST", PROJECTS, &json!({ "url": url }).to_string());
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
        reply.json()
    };
    let second = project(&other.url);
    assert_eq!(
        (&second["name"], &second["created"]),
        (&json!("x-2"), &json!(true))
    );
    assert_eq!(
        second["path"],
        island.home().join("src/x-2").to_str().unwrap()
    );
    let again = project(&format!("git+{}/", remote.url));
    assert_eq!(
        (&again["name"], &again["created"]),
        (&json!("x"), &json!(false))
    );
    assert_eq!(again["id"].as_str().unwrap(), *projects.first().unwrap());
    assert_eq!(entries(&island).len(), 2);
    let made = door.ask(
        "POST",
        WORKSPACES,
        &json!({ "url": other.url, "wait": false }).to_string(),
    );
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(island.sh(&id, "cat other.txt").ok().out(), "other");

    // A name that was said is that of the directory, or is refused.
    let third = island.remote("owner-c/x");
    let named = |url: &str, name: &str| {
        door.ask(
            "POST",
            PROJECTS,
            &json!({ "url": url, "name": name }).to_string(),
        )
    };
    let refused = named(&third.url, "x");
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "already_exists")
    );
    assert_eq!(named(&third.url, "third").json()["name"], "third");
    assert_eq!(project(&third.url)["name"], "third");

    // What cannot be cloned is the other side's fault, and says why in git's words.
    for route in [PROJECTS, WORKSPACES] {
        let url = remote.url.replace("owner-a/x", "nothing");
        let reply = door.ask("POST", route, &json!({ "url": url }).to_string());
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (502, "remote_failed"),
            "{reply:?}"
        );
        let error = &reply.json()["error"];
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("does not appear to be a git repository"),
            "{error}"
        );
        assert!(
            error["hint"]
                .as_str()
                .unwrap()
                .contains("git ls-remote ssh://"),
            "{error}"
        );
    }
    assert_eq!(entries(&island).len(), 3, "{:?}", entries(&island));
}

#[test]
fn workspaces_of_a_url_start_where_the_remote_is_now() {
    let island = Island::new();
    let remote = island.remote("team/shop");
    let moved = |text: &str| {
        remote.repository.write("state", text);
        remote.repository.commit(text);
        remote.repository.head()
    };
    let first = moved("first");
    let up = |arguments: &[&str]| {
        let fixed = ["up", "--url", &remote.url, "--json"];
        island.holm(&[&fixed[..], arguments].concat())
    };
    let one = up(&["one"]).ok().json();
    assert_eq!(
        (&one["created"], &one["project"]),
        (&json!(true), &json!("shop"))
    );
    assert_eq!(
        (&one["commit"], &one["ref"]),
        (&json!(first), &json!("origin/main"))
    );
    assert_eq!(island.sh("one", "cat state").ok().out(), "first");

    // A second workspace, and a moved one, have the remote's state.
    let second = moved("second");
    assert_eq!(up(&["two"]).ok().json()["commit"], second.as_str());
    let synced = island.holm(&["sync", "one", "--json"]).ok().json();
    assert_eq!(synced["commit"], second.as_str(), "{synced}");
    assert_eq!(island.sh("one", "cat state").ok().out(), "second");
    let third = moved("third");
    let door = Door::of(&island);
    let body = json!({ "project": "shop", "label": "three", "wait": false });
    let three = door.ask("POST", WORKSPACES, &body.to_string()).json();
    assert_eq!(three["commit"], third.as_str(), "{three}");
    remote.repository.git(&["switch", "-q", "-c", "feature"]);
    let feature = moved("feature");
    assert_eq!(
        up(&["four", "--from", "feature"]).ok().json()["commit"],
        feature.as_str()
    );
    let assigned = island
        .holm(&["assign", "two", "feature", "--json"])
        .ok()
        .json();
    assert_eq!(assigned["commit"], feature.as_str());
    // HEAD of the remote is another branch now.
    assert_eq!(up(&["five"]).ok().json()["ref"], "origin/feature");
    up(&["six", "--from", "nothing"]).error(3);

    // A live workspace is returned, without asking the remote.
    let connections = island.connections();
    let again = up(&["one"]).ok().json();
    assert_eq!(
        (&again["created"], &again["id"]),
        (&json!(false), &one["id"])
    );
    assert_eq!(island.connections(), connections);
    up(&["one", "--from", "main"]).error(4);

    // A repository in the current directory, not named by URL, is used as it is.
    let connections = island.connections();
    let clone = Repository {
        island: &island,
        path: island.home().join("src/shop"),
    };
    assert_eq!(clone.git(&["rev-parse", "HEAD"]), first);
    let typed = clone.holm(&["up", "typed", "--json"]).ok().json();
    assert_eq!(
        (&typed["commit"], &typed["ref"]),
        (&json!(first), &json!("main"))
    );
    assert_eq!(island.connections(), connections);

    // The remote is gone: an error that names it, and existing things stay.
    let gone = remote.repository.path.with_extension("gone");
    std::fs::rename(&remote.repository.path, gone).unwrap();
    let error = up(&["seven"]).error(1);
    assert_eq!(error["code"], "remote_failed", "{error}");
    island.holm(&["sync", "one", "--json"]).error(1);
    assert_eq!(island.sh("one", "cat state").ok().out(), "second");
}

#[test]
fn a_project_is_added_by_its_url() {
    let island = Island::new();
    let remote = island.remote("team/shop");
    let added = island
        .holm(&["project", "add", &remote.url, "--json"])
        .ok()
        .json();
    assert_eq!(added["name"], "shop");
    let again = island
        .holm(&["project", "add", "--url", &remote.url, "--json"])
        .ok()
        .json();
    assert_eq!(again["id"], added["id"]);
    let other = island.remote("team/other");
    let named = ["project", "add", &other.url, "--name", "mine", "--json"];
    assert_eq!(island.holm(&named).ok().json()["name"], "mine");
    island
        .holm(&["project", "add", "nowhere", "--json"])
        .error(3);
    island
        .holm(&["project", "add", "--name", "x", "--json"])
        .error(2);
    // A clone that the user made is used, and their branch is theirs.
    let by_hand = island.remote("team/by-hand");
    island
        .run(
            &island.home().join("src"),
            "git",
            &["clone", "-q", &by_hand.url],
        )
        .ok();
    let found = island
        .holm(&["project", "add", &by_hand.url, "--json"])
        .ok()
        .json();
    assert_eq!(
        found["path"],
        island.home().join("src/by-hand").to_str().unwrap()
    );
    assert_eq!(entries(&island).len(), 3);
}
