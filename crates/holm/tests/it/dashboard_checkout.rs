//! Work that the dashboard puts into the user's checkout, and what it reads there: effect, apply, undo, merge, refs, trust. The
//! same refusals hold as in a terminal.

use crate::dashboard::Browser;
use crate::support::{Door, Island, Reply, Repository};
use serde_json::{Value, json};

fn code(reply: &Reply) -> (u16, String) {
    (reply.status, reply.code())
}

/// Long enough that edits at both ends do not conflict.
const TEXT: &str = "one\n\n\n\n\n\n\n\n";

/// A project whose workspace `x` changed `a.txt`, uncommitted.
fn changed(island: &Island) -> (Repository<'_>, String) {
    let repository = island.repository("shop");
    repository.write("a.txt", TEXT);
    repository.write("b.txt", "b\n");
    repository.commit("begin");
    let id = repository.up("x");
    island.sh("x", "echo two >> a.txt; echo new > c.txt").ok();
    (repository, format!("/api/v1/workspaces/{id}"))
}

fn approve(browser: &Browser<'_>, at: &str) {
    browser.post(&format!("{at}/turns"), "{}");
    let tree = browser.get(&format!("{at}/review")).json()["tree"].clone();
    let reply = browser.post(
        &format!("{at}/approve"),
        &json!({ "tree": tree }).to_string(),
    );
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[test]
fn a_person_in_a_browser_sees_the_effect_applies_and_undoes() {
    let island = Island::new();
    let (repository, at) = changed(&island);
    let door = Door::of(&island);
    let browser = Browser::sign_in(&island, &door);
    let apply = format!("{at}/apply");
    let file = |name: &str| std::fs::read_to_string(repository.path.join(name)).ok();

    let effect = browser.get(&apply).json();
    assert_eq!(effect["checkout"], repository.path.to_str().unwrap());
    assert_eq!(
        (&effect["changed"], &effect["added"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        (&effect["uncommitted"], &effect["edited"]),
        (&json!(2), &json!([]))
    );
    assert_eq!(file("c.txt"), None, "a look changes nothing");

    // A dirty file that would be touched refuses, and one that would not be does not.
    let mine = TEXT.replace("one", "mine");
    repository.write("a.txt", &mine);
    assert_eq!(
        code(&browser.get(&apply)),
        (409, "dirty_checkout".to_owned())
    );
    assert_eq!(
        code(&browser.post(&apply, "{}")),
        (409, "dirty_checkout".to_owned())
    );
    assert_eq!(file("a.txt").unwrap(), mine);
    repository.write("a.txt", TEXT);
    repository.write("b.txt", "mine\n");
    assert_eq!(browser.get(&apply).json()["edited"], json!(["b.txt"]));

    // The approved tree, or nothing.
    let approved = r#"{"approved":true}"#;
    assert_eq!(
        code(&browser.post(&apply, approved)),
        (409, "not_approved".to_owned())
    );
    approve(&browser, &at);
    let applied = browser.post(&apply, approved);
    assert_eq!(
        (applied.status, &applied.json()["changed"]),
        (200, &json!(2)),
        "{applied:?}"
    );
    assert_eq!(file("c.txt").unwrap(), "new\n");
    let undone = browser.ask(
        "DELETE",
        &apply,
        &[browser.cookie(), browser.tab(), browser.origin()],
        "",
    );
    assert_eq!(undone.json()["undone"], 2, "{undone:?}");
    assert_eq!(
        (file("a.txt").unwrap().as_str(), file("c.txt")),
        (TEXT, None)
    );

    // Files that tools execute need consent, and the effect names them.
    island
        .sh(
            "x",
            "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/ci.yml",
        )
        .ok();
    approve(&browser, &at);
    let flagged = browser.get(&apply).json()["flagged"].clone();
    assert_eq!(flagged[0]["path"], ".github/workflows/ci.yml", "{flagged}");
    assert_eq!(
        code(&browser.post(&apply, approved)),
        (409, "needs_yes".to_owned())
    );
    assert_eq!(file(".github/workflows/ci.yml"), None);
    assert_eq!(
        browser
            .post(&apply, r#"{"approved":true,"yes":true}"#)
            .status,
        200
    );
    assert!(file(".github/workflows/ci.yml").is_some());
}

#[test]
fn a_merge_commits_inside_first_and_refuses_a_dirty_checkout() {
    let island = Island::new();
    let (repository, at) = changed(&island);
    let door = Door::of(&island);
    let browser = Browser::sign_in(&island, &door);
    let merge = format!("{at}/merge");
    approve(&browser, &at);
    // The approved tree has files that no commit has.
    assert_eq!(
        code(&browser.post(&merge, r#"{"approved":true}"#)),
        (409, "not_approved".to_owned())
    );
    repository.write("b.txt", "mine\n");
    let with_message = r#"{"approved":true,"commit":"Two more"}"#;
    assert_eq!(
        code(&browser.post(&merge, with_message)),
        (409, "dirty_checkout".to_owned())
    );
    repository.write("b.txt", "b\n");
    let merged = browser.post(&merge, with_message);
    assert_eq!(
        (merged.status, &merged.json()["merged"]),
        (200, &json!(true)),
        "{merged:?}"
    );
    let log = repository.git(&["log", "-1", "--format=%s"]);
    assert!(log.contains("Two more"), "{log}");
    // The workspace goes on from what was merged, in the same lines.
    island.sh("x", "echo more >> c.txt").ok();
    let effect = browser.get(&format!("{at}/apply")).json();
    assert_eq!(
        (&effect["changed"], &effect["added"]),
        (&json!(1), &json!(1)),
        "{effect}"
    );
    // A program with a token cannot change the checkout.
    let token = island
        .holm(&["token", "new", "--name", "t", "--json"])
        .ok()
        .json();
    let bearer = Door::bearer(token["token"].as_str().unwrap());
    for (method, path) in [
        ("GET", "apply"),
        ("POST", "apply"),
        ("DELETE", "apply"),
        ("POST", "merge"),
    ] {
        let path = format!("{at}/{path}");
        let reply = door.ask_bare(
            method,
            &path,
            &[
                ("Authorization", &bearer),
                ("Content-Type", "application/json"),
            ],
            b"{}",
        );
        assert_eq!(reply.status, 403, "{method} {path}: {reply:?}");
    }
}

#[test]
fn the_page_finds_refs_and_asks_for_trust() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[secrets.KEY]\nfrom = { env = \"KEY\" }\nto = [\"runs\"]\n",
    );
    repository.commit("asks");
    for branch in ["feature/one", "release/2.x"] {
        repository.git(&["branch", branch]);
    }
    repository.git(&["tag", "-a", "v1", "-m", "the first"]);
    repository.holm(&["project", "add"]).ok();
    repository.write("new.txt", "x\ny");
    repository.write(".git/info/exclude", ".env*\n");
    repository.write(".env", "KEY=1\n");
    let door = Door::of(&island);
    let browser = Browser::sign_in(&island, &door);
    let project = browser.get("/api/v1/projects").json()["projects"][0]["id"].clone();
    let at = format!("/api/v1/projects/{}", project.as_str().unwrap());
    let names = |starts: &Value| {
        let refs = starts["refs"].as_array().unwrap().iter();
        let mut names: Vec<String> = refs
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    let all = browser.get(&format!("{at}/refs")).json();
    assert_eq!(names(&all), ["feature/one", "main", "release/2.x", "v1"]);
    assert_eq!(
        (&all["branch"], &all["uncommitted"]),
        (&json!("main"), &json!(1))
    );
    assert_eq!((&all["added"], &all["removed"]), (&json!(2), &json!(0)));
    assert_eq!(all["not_brought"], json!([".env"]));
    let commits: Vec<&Value> = all["refs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["commit"])
        .collect();
    assert!(
        commits.iter().all(|commit| *commit == commits[0]),
        "a tag is its commit: {all}"
    );
    assert_eq!(
        names(&browser.get(&format!("{at}/refs?find=RELEASE")).json()),
        ["release/2.x"]
    );

    let trust = format!("{at}/trust");
    let questions = browser.get(&trust).json()["questions"].clone();
    assert_eq!(questions[0]["approved"], false, "{questions}");
    let digest = questions[0]["digest"].as_str().unwrap().to_owned();
    // Other requests than those that were shown are not approved.
    let other = browser.post(&trust, r#"{"digests":["0000"]}"#);
    assert_eq!(code(&other), (409, "not_trusted".to_owned()));
    assert_eq!(
        browser.get(&trust).json()["questions"][0]["approved"],
        false
    );
    let yes = browser.post(&trust, &json!({ "digests": [digest] }).to_string());
    assert_eq!(yes.status, 200, "{yes:?}");
    assert_eq!(browser.get(&trust).json()["questions"][0]["approved"], true);
}

#[test]
fn a_start_from_a_turn_asks_what_the_commit_of_the_turn_asks() {
    let island = Island::new();
    let repository = island.repository("shop");
    let asks = "[secrets.KEY]\nfrom = { env = \"KEY\" }\nto = [\"runs\"]\n";
    repository.write("holm.toml", asks);
    repository.commit("asks");
    let made = repository.holm(&["up", "x", "--untrusted", "--json"]);
    let id = made.ok().json()["id"].as_str().unwrap().to_owned();
    island.sh("x", "echo new > c.txt").ok();
    repository.write("holm.toml", "");
    repository.commit("asks for nothing");
    let door = Door::of(&island);
    let browser = Browser::sign_in(&island, &door);
    browser.post(&format!("/api/v1/workspaces/{id}/turns"), "{}");
    let project = browser.get("/api/v1/projects").json()["projects"][0]["id"].clone();
    let trust = format!("/api/v1/projects/{}/trust", project.as_str().unwrap());
    assert_eq!(browser.get(&trust).json()["questions"], json!([]));
    let turn = format!("{id}@1");
    let of_turn = format!("{trust}?at={turn}");
    let question = browser.get(&of_turn).json()["questions"][0].clone();
    assert_eq!(question["approved"], false, "{question}");
    for wrong in ["x@1", &id, "w000000000000@1", &format!("{id}@9")] {
        let reply = browser.get(&format!("{trust}?at={wrong}"));
        assert!(matches!(reply.status, 400 | 404), "{wrong}: {reply:?}");
    }
    let from_turn = json!({ "project": "shop", "label": "y", "at": turn }).to_string();
    let refused = browser.post("/api/v1/workspaces", &from_turn);
    assert_eq!(code(&refused), (409, "not_trusted".to_owned()));
    let yes = json!({ "digests": [question["digest"]], "at": turn });
    let yes = browser.post(&trust, &yes.to_string());
    assert_eq!(yes.status, 200, "{yes:?}");
    let made = browser.post("/api/v1/workspaces", &from_turn);
    assert_eq!(made.status, 201, "{made:?}");
}

#[test]
fn a_viewed_mark_is_no_look() {
    let island = Island::new();
    let (_repository, at) = changed(&island);
    let door = Door::of(&island);
    let browser = Browser::sign_in(&island, &door);
    browser.post(&format!("{at}/turns"), "{}");
    let review = format!("{at}/review");
    browser.post(&review, r#"{"turn":1,"paths":["a.txt"]}"#);
    let after = browser.get(&review).json();
    assert_eq!(
        (&after["from"], &after["looked_at"]),
        (&Value::Null, &Value::Null),
        "{after}"
    );
    let viewed = |name: &str| {
        let files = after["files"].as_array().unwrap().iter();
        let mut named = files.filter(|file| file["path"] == name);
        named.next().map(|file| file["viewed"].clone())
    };
    assert_eq!(
        (viewed("a.txt"), viewed("c.txt")),
        (Some(json!(true)), Some(json!(false)))
    );
    browser.post(&review, r#"{"turn":1}"#);
    assert_eq!(browser.get(&review).json()["from"], 1);
}
