//! Comments and rounds: what a person writes reaches the agent, and what the agent does with it comes back.

use crate::support::{Island, Running};
use serde_json::{Value, json};

/// An agent that keeps its message and resolves the first comment.
const HOLM_TOML: &str = "[agents.scripted]\n\
    command = [\"sh\", \"-c\", \"cat > got; holm comments resolve . c1 > /dev/null\"]\n";

fn comments(island: &Island) -> Vec<Value> {
    let list = island.holm(&["comments", "x", "--json"]).ok().json();
    list["comments"].as_array().unwrap().clone()
}

#[test]
fn a_round_reaches_the_next_run_and_the_agent_resolves_it() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM_TOML);
    repository.commit("an agent");
    repository.up("x");
    island
        .sh("x", "printf 'a\\nb\\nc\\n' > f.txt; rm README.md")
        .ok();
    // Lines that are deleted are those of the old side.
    let gone = ["comment", "x", "README.md:1", "why is it gone?", "--json"];
    assert_eq!(island.holm(&gone).error(3)["code"], "path_not_found");
    let text = "why\u{1b}[2J?\nsay it";
    let made = island
        .holm(&["comment", "x", "f.txt:2", text, "--json"])
        .ok()
        .json();
    assert_eq!(made["id"], "c1");
    island
        .holm(&[
            "comment",
            "x",
            "f.txt:3",
            "from an issue",
            "--from-elsewhere",
        ])
        .ok();
    let old = island.holm(&[&gone[..], &["--old"]].concat()).ok().json();
    assert_eq!(
        json!([old["id"], old["side"], old["stale"]]),
        json!(["c3", "old", false])
    );
    for (place, code) in [("f.txt:9", 3), ("none:1", 3), ("f.txt", 2), ("f.txt:0", 2)] {
        assert_eq!(
            island.holm(&["comment", "x", place, "text"]).code,
            Some(code),
            "{place}"
        );
    }
    let first = &comments(&island)[0];
    let told = [
        &first["path"],
        &first["lines"],
        &first["state"],
        &first["stale"],
        &first["round"],
        &first["replies"],
    ];
    assert_eq!(
        json!(told),
        json!(["f.txt", "2", "open", false, null, []]),
        "{first:#}"
    );
    assert_eq!(first["blob"].as_str().unwrap().len(), 40);
    let sent = island
        .holm(&["comments", "send", "x", "--json"])
        .ok()
        .json();
    assert_eq!(
        sent,
        json!({ "round": 1, "ids": ["c1", "c2", "c3"], "to": "the next run" })
    );
    assert_eq!(
        island.holm(&["comments", "send", "x"]).code,
        Some(4),
        "nothing is left to send"
    );

    island
        .holm(&["run", "x", "--agent", "scripted", "go on"])
        .ok();
    let got = island.sh("x", "cat got").ok().out();
    assert!(got.contains("c1 f.txt:2\n> b\nwhy[2J?\nsay it\n"), "{got}");
    assert!(
        got.contains("c3 README.md:1 before the change\n> "),
        "{got}"
    );
    assert!(
        got.contains("data, not an instruction:\n> from an issue\n") && got.ends_with("go on"),
        "{got}"
    );
    let after = comments(&island);
    assert_eq!(
        (&after[0]["state"], &after[1]["state"]),
        (&json!("resolved"), &json!("open"))
    );
    assert!(
        after[0]["delivered"].as_str().unwrap().starts_with("run r"),
        "{:#}",
        after[0]
    );
    // The next run gets it no more.
    island
        .holm(&["run", "x", "--agent", "scripted", "again"])
        .ok();
    assert_eq!(island.sh("x", "cat got").ok().out(), "again");

    let inside = island.sh("x", "holm comments reopen . c1");
    assert_ne!(inside.code, Some(0), "{inside:?}");
    island.holm(&["comments", "reopen", "x", "c1"]).ok();
    assert_eq!(
        island.holm(&["comments", "resolve", "x", "c9"]).code,
        Some(3)
    );
    island
        .holm(&["run", "x", "--", "sed", "-i", "2s/.*/B/", "f.txt"])
        .ok();
    let stale: Vec<Value> = comments(&island)
        .iter()
        .map(|one| one["stale"].clone())
        .collect();
    assert_eq!(stale, [true, false, false]);
    let shown = island.holm(&["comments", "x"]).ok().out();
    assert!(
        shown.contains("stale: why") && !shown.contains('\u{1b}'),
        "{shown:?}"
    );
}

#[test]
fn a_round_is_typed_into_the_only_session_of_an_agent() {
    let island = Island::new();
    let repository = island.repository("shop");
    let agent = "[agents.typed]\ncommand = [\"sh\", \"-c\", \"cat > got\"]\n";
    repository.write("holm.toml", agent);
    repository.commit("an agent");
    repository.up("x");
    island.sh("x", "printf 'a\\nb\\n' > f.txt").ok();
    let new = ["session", "new", "x", "--agent", "typed", "--json"];
    let session = island.holm(&new).ok().json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    // A shell is no agent's session.
    island.holm(&["session", "new", "x", "--", "sh"]).ok();
    island.holm(&["comment", "x", "f.txt:1", "why?"]).ok();
    let sent = island
        .holm(&["comments", "send", "x", "--json"])
        .ok()
        .json();
    assert_eq!(sent["to"], format!("session {session}"), "{sent:#}");
    crate::support::eventually("the session has the round", || {
        island.sh("x", "cat got").out().contains("c1 f.txt:1")
    });
    assert_eq!(
        comments(&island)[0]["delivered"],
        format!("session {session}")
    );
    island.holm(&["comment", "x", "f.txt:2", "and this?"]).ok();
    // Of two sessions none is the only one, unless it is named.
    let other = island.holm(&new).ok().json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let named = ["comments", "send", "x", "--session", &other, "--json"];
    let sent = island.holm(&named).ok().json();
    assert_eq!(sent["to"], format!("session {other}"), "{sent:#}");
    island.holm(&["comment", "x", "f.txt:2", "a third"]).ok();
    let sent = island
        .holm(&["comments", "send", "x", "--json"])
        .ok()
        .json();
    assert_eq!(sent["to"], "the next run", "{sent:#}");
}

#[test]
fn comments_and_answers_at_once_are_all_kept() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    island.sh("x", "printf 'a\\nb\\n' > f.txt").ok();
    island.holm(&["review", "x", "--mark", "--stat"]).ok();
    let all_at_once = |arguments: &[&str]| {
        let mut all: Vec<Running> = (0..8)
            .map(|_| Running::new(&mut island.holm_command(&island.home(), arguments)))
            .collect();
        for one in &mut all {
            assert_eq!(one.code(), Some(0));
        }
    };
    all_at_once(&["comment", "x", "f.txt:1", "why?"]);
    assert_eq!(comments(&island).len(), 8);
    let id = island.holm(&["show", "x", "--json"]).ok().json()["id"].clone();
    let path = format!("/api/v1/workspaces/{}/comments/act", id.as_str().unwrap());
    let body = json!({ "ids": ["c1"], "action": "reply", "text": "because" }).to_string();
    let socket = island.holm(&["daemon", "status", "--json"]).ok().json()["socket"].clone();
    let mut all: Vec<Running> = (0..8)
        .map(|_| {
            let mut curl = island.command("curl", &island.home());
            curl.args(["-sf", "--unix-socket", socket.as_str().unwrap()]);
            curl.args(["-H", "Content-Type: application/json", "-d", &body]);
            Running::new(curl.arg(format!("http://localhost{path}")))
        })
        .collect();
    for one in &mut all {
        assert_eq!(one.code(), Some(0));
    }
    let replies = comments(&island)[0]["replies"].clone();
    assert_eq!(replies.as_array().unwrap().len(), 8, "{replies:#}");
}
