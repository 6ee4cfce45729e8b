//! Siblings side by side, and conflicts between live workspaces and with the user's branch.

use crate::support::{Door, Island, Repository, eventually};
use serde_json::{Value, json};

const LINES: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

/// `a` and `b` change the same line; `c` another one of the same file, and deletes a file.
fn race(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", "[egress]\nmode = \"none\"\n");
    repository.write("cart.txt", LINES);
    repository.write("other.txt", "x\n");
    repository.commit("files");
    repository.holm(&["up", "a", "b", "c"]).ok();
    for (label, script) in [
        (
            "a",
            "sed -i 's/one/ONE/' cart.txt; echo new > package-lock.json",
        ),
        ("b", "sed -i 's/one/1/' cart.txt; exit 3"),
        ("c", "sed -i 's/seven/7/' cart.txt; rm other.txt"),
    ] {
        island.holm(&["run", label, "--", "sh", "-c", script]);
    }
    repository
}

fn compare(repository: &Repository<'_>, labels: &[&str]) -> Value {
    let all = [&["compare"], labels, &["--json"]].concat();
    repository.holm(&all).ok().json()
}

/// `with: paths` of each conflict.
fn conflicts(compared: &Value) -> Vec<String> {
    let all = compared["conflicts"].as_array().unwrap().iter();
    let told = all.map(|one| format!("{} {}", one["with"].as_str().unwrap(), one["paths"]));
    told.collect()
}

fn risks(island: &Island, label: &str) -> Vec<String> {
    let review = island.holm(&["review", label, "--json"]).ok().json();
    let risks = review["risks"].as_array().unwrap().iter();
    let risks = risks.filter(|risk| risk["kind"] == "conflict");
    let told = risks.map(|risk| {
        let (path, text) = (risk["path"].as_str(), risk["text"].as_str());
        format!("{}: {}", path.unwrap(), text.unwrap())
    });
    told.collect()
}

#[test]
fn siblings_are_compared_by_their_last_turns() {
    let island = Island::new();
    let repository = race(&island);
    let all = compare(&repository, &["a", "b", "c"]);
    let [a, b, c] = [0, 1, 2].map(|place| &all["workspaces"][place]);
    let lines = |one: &Value| {
        json!([
            one["label"],
            one["turn"],
            one["files"],
            one["added"],
            one["removed"]
        ])
    };
    assert_eq!(lines(a), json!(["a", 1, 2, 2, 1]), "{all:#}");
    assert_eq!(lines(b), json!(["b", 1, 1, 1, 1]));
    assert_eq!(lines(c), json!(["c", 1, 2, 1, 2]));
    assert_eq!(conflicts(a), [r#"b ["cart.txt"]"#]);
    assert_eq!(conflicts(b), [r#"a ["cart.txt"]"#]);
    assert_eq!(conflicts(c), [] as [&str; 0], "git can merge both lines");
    assert_eq!(a["conflicts"][0]["workspace"], b["id"]);
    assert_eq!(a["risks"][0]["kind"], "lock");
    assert!(a["ms"].as_u64().unwrap() > 0, "{a:#}");
    for list in ["checks", "hosts", "volumes"] {
        assert!(a[list].is_array(), "{list}");
    }
    assert_eq!(a["branch"], "main");
    assert_eq!(
        (&a["changed_since"], &all["notes"]),
        (&json!(false), &json!([]))
    );
    let text = repository.holm(&["compare", "a", "b"]).ok().out();
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(
        text.contains("✗ b: cart.txt") && text.contains("✗ a: cart.txt"),
        "{text}"
    );
    let quiet = repository
        .holm(&["compare", "a", "b", "--quiet"])
        .ok()
        .out();
    assert!(
        quiet.lines().all(|line| line.contains(['✗', '◆', '▲'])),
        "{quiet}"
    );

    assert_eq!(risks(&island, "a"), ["cart.txt: same lines as b"]);
    // An event says when the pair was found; the later turn has it.
    eventually("the conflict is recorded", || {
        let events = island.holm(&["events", "--json"]).ok().out();
        events.contains("turn.conflicts")
    });
    // It ends when the cause is gone.
    island
        .sh("b", "git checkout -q cart.txt; echo more >> other.txt")
        .ok();
    island.holm(&["review", "b", "--mark", "--stat"]).ok();
    assert_eq!(risks(&island, "a"), [] as [&str; 0]);
    assert_eq!(risks(&island, "b"), ["other.txt: same lines as c"]);
    island.holm(&["rm", "c", "--force"]).ok();
    assert_eq!(risks(&island, "b"), [] as [&str; 0]);
}

#[test]
fn the_users_branch_is_compared_as_it_is_now() {
    let island = Island::new();
    let repository = race(&island);
    assert_eq!(risks(&island, "c"), [] as [&str; 0]);
    repository.write("cart.txt", LINES.replace("seven", "SEVEN"));
    repository.commit("on main");
    // A workspace that starts later has another base.
    repository.up("d");
    island.sh("d", "sed -i 's/one/Uno/' cart.txt").ok();
    let all = compare(&repository, &["c", "d"]);
    let [c, d] = [0, 1].map(|place| &all["workspaces"][place]);
    assert_eq!(conflicts(c), [r#"main ["cart.txt"]"#], "{all:#}");
    assert_eq!(
        conflicts(d),
        [r#"a ["cart.txt"]"#, r#"b ["cart.txt"]"#],
        "{all:#}"
    );
    assert_eq!(c["conflicts"][0]["workspace"], Value::Null);
    repository.write("cart.txt", LINES.replace("one", "ein"));
    repository.commit("another on main");
    let review = repository.holm(&["review", "a", "--stat"]).ok().out();
    assert!(review.contains("cart.txt: same lines as main"), "{review}");
    // Inside, the branch is told, and siblings are not.
    let inside = island.sh("a", "holm review . --json").ok().out();
    assert!(inside.contains("same lines as main"), "{inside}");
    assert!(!inside.contains("same lines as b"), "{inside}");
    let refused = island.sh("a", "holm compare a b");
    assert_ne!(refused.code, Some(0), "{refused:?}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let island = Island::new();
    let repository = race(&island);
    let elsewhere = island.repository("elsewhere");
    elsewhere.write("x", "x\n");
    elsewhere.commit("x");
    elsewhere.up("far");
    for (arguments, code) in [
        (&["compare"][..], 2),
        (&["compare", "a"], 2),
        (&["compare", "a", "a"], 2),
        (&["compare", "a", "none"], 3),
        (&["compare", "a", "far"], 4),
    ] {
        let ran = repository.holm(arguments);
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
    let door = Door::of(&island);
    let token = island.holm(&["token", "new", "--json"]).ok().json()["token"].clone();
    let own = ["token", "new", "--workspace", "a", "--json"];
    let own = island.holm(&own).ok().json()["token"].clone();
    let ids: Vec<String> = ["a", "b"]
        .iter()
        .map(|label| {
            let shown = island.holm(&["show", label, "--json"]).ok().json();
            shown["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let ask = |token: &Value, ids: &str| {
        let bearer = Door::bearer(token.as_str().unwrap());
        let path = format!("/api/v1/compare?workspaces={ids}");
        door.ask_bare("GET", &path, &[("Authorization", &bearer)], b"")
    };
    let both = ids.join(",");
    assert_eq!(ask(&token, &both).status, 200);
    assert_eq!(ask(&own, &both).status, 404, "a workspace knows no sibling");
    for wrong in [
        "",
        "a,b",
        &ids[0],
        &format!("{0},{0}", ids[0]),
        &"x,".repeat(40),
    ] {
        assert_eq!(ask(&token, wrong).status, 400, "{wrong}");
    }
}
