//! The inbox: scripted agents ask, work, fail, are refused and fall silent, and every item closes with its cause.

use crate::support::{Act, Island, Running, eventually};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Agents that ask in each way, one that works, and one that fails.
const HOLM_TOML: &str = r#"
[agents.rings]
command = ["sh", "-c", "printf 'waits\\a'; exec cat"]
[agents.asks]
command = ["sh", "-c", "printf '\\033]9;Is tax before the coupon?\\007'; exec cat"]
[agents.notifies]
command = ["sh", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done; holm notify 'Which' 'branch?'; exec cat"]
[agents.works]
command = ["sh", "-c", "cat > got.txt; printf 'a\\nb\\n' > new.txt"]
[agents.fails]
command = ["sh", "-c", "exit 3"]
[agents.busy]
command = ["sh", "-c", "while :; do n=0; while [ $n -lt 30000 ]; do n=$((n + 1)); done; sleep 0.1; done"]
[egress]
mode = "none"
[services.web]
run = "test -e well && exec sleep 100000; exit 4"
restart = "no"
"#;

fn items(island: &Island) -> Vec<Value> {
    let list = island.holm(&["inbox", "--json"]).json();
    list["items"].as_array().unwrap().clone()
}

/// Reason, text and next command of each item of a workspace.
fn told(island: &Island, label: &str) -> Vec<String> {
    let own = items(island)
        .into_iter()
        .filter(|item| item["label"] == label);
    let text = |item: &Value, key: &str| item[key].as_str().unwrap().to_owned();
    own.map(|item| {
        let [reason, said, next] = ["reason", "text", "next"].map(|key| text(&item, key));
        format!("{reason} | {said} | {next}")
    })
    .collect()
}

fn events(island: &Island, kind: &str) -> Vec<Value> {
    let ran = island.holm(&["events", "--json"]).ok();
    let text = String::from_utf8(ran.stdout).unwrap();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == kind).collect()
}

/// Waits until this many items were told to be open. An item that opens and closes between two looks of the daemon is
/// never told, so a test waits before it closes an item.
#[track_caller]
fn waits_until_told(island: &Island, opened: usize) {
    eventually(&format!("{opened} items were told"), || {
        events(island, "inbox.opened").len() >= opened
    });
}

fn session(island: &Island, agent: &str) -> String {
    let new = ["session", "new", "x", "--agent", agent, "--detach"];
    island.holm(&new).ok().out()
}

#[track_caller]
fn waits_for(island: &Island, label: &str, expect: &[&str]) {
    let mut found = Vec::new();
    eventually(&format!("{expect:?}"), || {
        found = told(island, label);
        found == expect
    });
}

fn up(island: &Island) -> PathBuf {
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM_TOML);
    repository.write("well", "");
    repository.commit("agents");
    repository.up("x");
    repository.path.clone()
}

/// Answers a session as a person would.
fn answered(island: &Island, id: &str) {
    island.holm(&["session", "send", id, "ok", "--enter"]).ok();
}

#[test]
fn agents_ask_and_an_answer_closes_the_item() {
    let island = Island::new();
    let path = up(&island);
    assert_eq!(items(&island), [] as [Value; 0]);
    let empty = island.holm(&["inbox"]).ok().out();
    assert_eq!(empty, "Nothing needs you. No agent is working.");
    let asking = [
        ("rings", "rings rang"),
        ("asks", "Is tax before the coupon?"),
        ("notifies", "Which branch?"),
    ];
    for (before, (agent, text)) in asking.into_iter().enumerate() {
        island.sh("x", "rm -f /tmp/go").ok();
        let id = session(&island, agent);
        // By now the keeper knows the session, and whose program calls.
        island.sh("x", "touch /tmp/go").ok();
        let expect = format!("question | {text} | holm session attach shop/x");
        waits_for(&island, "x", &[&expect]);
        assert_eq!(items(&island)[0]["origin"], "workspace");
        waits_until_told(&island, before + 1);
        answered(&island, &id);
        waits_for(&island, "x", &[]);
        // Its end closes what it asked after that, too.
        island.holm(&["session", "kill", &id]).ok();
        waits_for(&island, "x", &[]);
    }
    // The end of the last item is recorded a moment after the item is gone.
    eventually("the inbox says when its last item closed", || {
        let empty = island.holm(&["inbox"]).ok().out();
        empty.starts_with("Nothing needs you. No agent is working; the last item")
    });
    // A person who is attached sees the question, so it is none of the inbox.
    session(&island, "rings");
    waits_for(
        &island,
        "x",
        &["question | rings rang | holm session attach shop/x"],
    );
    waits_until_told(&island, asking.len() + 1);
    let holm = crate::support::program();
    let seen = island.home().join("seen");
    let look = format!(
        "for n in $(seq 300); do n=$({0} inbox --count); test $n = 0 && break; sleep 0.1; done; echo $n > {1}",
        holm.display(),
        seen.display()
    );
    let acts = [
        Act::See("waits"),
        Act::Meanwhile(&look),
        Act::Type("\u{1c}"),
    ];
    // The item's command names the workspace.
    island.play(&path, &["session", "attach", "shop/x"], &acts);
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "0\n");
    waits_for(
        &island,
        "x",
        &["question | rings rang | holm session attach shop/x"],
    );
    // `ls`, `holm` and the count say the same.
    let ls = island.holm(&["ls"]).ok().out();
    assert!(
        ls.starts_with("needs-you  shop/x  question  rings rang  "),
        "{ls}"
    );
    assert_eq!(island.holm(&["inbox", "--count"]).ok().out(), "1");
    assert_eq!(island.holm(&["inbox", "-q"]).ok().out(), "shop/x");
    let outside = island.holm(&[]).ok().out();
    let expect = "Not in a git repository. 1 item needs you in 1 project; 0 agents are working.";
    assert_eq!(outside, expect);
    let shown = island.holm(&["show", "x"]).ok().out();
    let mut words = shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert!(
        words.any(|line| line == ["question", "rings", "rang"]),
        "{shown}"
    );
    // A workspace sees its own items only, and `holm notify` is refused outside.
    island.repository("other").up("y");
    island.sh("y", "holm notify from the other").ok();
    waits_for(
        &island,
        "y",
        &["question | from the other | holm review other/y"],
    );
    let inside = island.sh("x", "holm inbox --json").json();
    let labels: Vec<&Value> = inside["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["label"])
        .collect();
    assert_eq!(labels, ["x"]);
    assert_eq!(island.holm(&["inbox", "--count"]).ok().out(), "2");
    let refused = island.holm(&["--json", "notify", "hello"]).error(4);
    assert_eq!(refused["code"], "outside_workspace");
    eventually("the item of y was told", || {
        let opened = events(&island, "inbox.opened");
        opened.iter().any(|event| event["label"] == "y")
    });
    island.holm(&["review", "y", "--looked", "--stat"]).ok();
    waits_for(&island, "y", &[]);
    eventually("the end of each item was told", || {
        let closed = events(&island, "inbox.closed");
        let of = |label| closed.iter().filter(|one| one["label"] == label).count();
        of("x") >= asking.len() && of("y") == 1
    });
    let opened = &events(&island, "inbox.opened")[0];
    assert_eq!(
        (&opened["reason"], &opened["label"]),
        (&json!("question"), &json!("x"))
    );
}

#[test]
fn work_is_ready_until_it_is_looked_at_and_failures_until_they_are_gone() {
    let island = Island::new();
    let path = up(&island);
    let mut command = island.holm_command(&path, &["inbox", "--follow"]);
    let mut follower = Running::new(&mut command);
    follower.says("Nothing needs you. No agent is working.");
    island.holm(&["run", "x", "--agent", "works", "go"]).ok();
    waits_for(&island, "x", &["ready | 2 files +3 | holm review shop/x"]);
    let line = follower.line();
    assert!(
        line.starts_with("ready  shop/x  ready  2 files +3  "),
        "{line}"
    );
    assert!(line.ends_with("  holm review shop/x"), "{line}");
    let ls = island.holm(&["ls"]).ok().out();
    assert!(ls.starts_with("ready-to-read  shop/x  ready  "), "{ls}");
    island.holm(&["review", "x", "--looked", "--stat"]).ok();
    waits_for(&island, "x", &[]);
    let line = follower.line();
    assert!(line.starts_with("closed  shop/x  ready  "), "{line}");
    follower.signal(rustix::process::Signal::KILL);
    follower.code();
    // A run that fails, until the next one.
    assert_eq!(
        island.holm(&["run", "x", "--agent", "fails", "go"]).code,
        Some(3)
    );
    let failed = told(&island, "x");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].starts_with("failed | Run of fails: exit 3 | holm runs show r"),
        "{failed:?}"
    );
    let slow = ["run", "x", "--timeout", "1s", "--", "sleep", "100"];
    assert_eq!(island.holm(&slow).code, Some(124));
    let late = told(&island, "x");
    assert!(
        late[0].starts_with("limit | sleep hit its time limit of 1 s | holm runs show r"),
        "{late:?}"
    );
    island.holm(&["run", "x", "--", "true"]).ok();
    waits_for(&island, "x", &[]);
    // A service that fails, until it is ready again.
    island.sh("x", "rm well").ok();
    island.holm(&["service", "x", "restart", "web"]);
    eventually("the service failed", || {
        let found = told(&island, "x");
        found.len() == 1
            && found[0].starts_with("failed | Service web: ")
            && found[0].ends_with("holm logs shop/x web")
    });
    island.sh("x", "touch well").ok();
    island.holm(&["service", "x", "restart", "web"]).ok();
    waits_for(&island, "x", &[]);
    // A host that the policy refuses, with a count, until a person looks.
    let connect = "import socket\nfor _ in range(3):\n  try: socket.create_connection(('errors.example.net', 443), 2)\n  except OSError: pass";
    island.python("x", connect).ok();
    eventually("it is refused", || {
        let found = told(&island, "x");
        found.len() == 1
            && found[0].starts_with("refused | errors.example.net")
            && found[0].ends_with("holm egress shop/x")
    });
    island.holm(&["review", "x", "--looked", "--stat"]).ok();
    waits_for(&island, "x", &[]);
    // So is a request that only a person may make.
    island.sh("x", "holm comments reopen . c1; true").ok();
    eventually("policy said no", || {
        let found = told(&island, "x");
        found.len() == 1 && found[0].starts_with("refused | policy: POST /")
    });
}

#[test]
fn an_agent_that_neither_writes_nor_works_has_stalled() {
    let island = Island::new();
    up(&island);
    // One waits for ever, the other one is busy without a word.
    let id = session(&island, "works");
    session(&island, "busy");
    let mut ahead = 0;
    eventually("only the idle one has stalled", || {
        ahead += 11 * 60;
        island.write("clock", format!("{ahead}"));
        // The daemon measures what runs when it is asked.
        island.holm(&["show", "x"]).ok();
        let expect = format!("stalled | No output and no CPU | holm session attach {id}");
        told(&island, "x") == [expect]
    });
    // What a person writes is activity, in the time of the keeper.
    island.write("clock", "0");
    answered(&island, &id);
    waits_for(&island, "x", &[]);
}

#[test]
fn work_that_could_not_be_recorded_is_told_until_it_is() {
    let island = Island::new();
    island.repository("shop").up("x");
    let first = ["run", "x", "--", "sh", "-c", "echo first > f.txt"];
    island.holm(&first).ok();
    // A look closes the item of the recorded turn.
    island.holm(&["review", "x", "--stat", "--looked"]).ok();
    let run = ["run", "x", "--", "sh", "-c", "echo x > f.txt"];
    island.holm_at(&island.home(), "turn:before:fail", &run);
    let found = told(&island, "x");
    let [failed] = &found[..] else {
        panic!("{found:?}")
    };
    assert!(
        failed.starts_with("failed | Its changes are not recorded: ")
            && failed.ends_with(" | holm review shop/x --mark"),
        "{failed}"
    );
    assert_eq!(events(&island, "turn.failed").len(), 1);
    let review = island.holm(&["review", "x", "--stat"]).ok();
    assert!(review.stderr.contains("not be recorded"), "{review:?}");
    let review = island.holm(&["review", "x", "--mark", "--stat"]).ok();
    assert!(!review.stderr.contains("not be recorded"), "{review:?}");
    assert_eq!(told(&island, "x"), [] as [&str; 0]);
}

#[test]
fn limits_and_conflicts_need_a_person_until_they_are_gone() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("a.txt", "one\n");
    repository.commit("a file");
    repository.up("x");
    repository.up("y");
    let reasons = |label: &str| -> Vec<String> {
        let told = told(&island, label).into_iter();
        told.map(|item| item.split(' ').next().unwrap().to_owned())
            .collect()
    };
    let write = |label: &str, word: &str| {
        let script = format!("echo {word} > a.txt");
        island.holm(&["run", label, "--", "sh", "-c", &script]).ok();
    };
    write("x", "mine");
    write("y", "theirs");
    // The pair is one item, of the workspace that came later.
    eventually("a conflict", || reasons("y") == ["conflict", "ready"]);
    assert_eq!(reasons("x"), ["ready"]);
    let conflict = told(&island, "y")[0].clone();
    assert!(
        conflict.contains("Same lines as x: a.txt")
            && conflict.ends_with("holm compare shop/y shop/x"),
        "{conflict}"
    );
    write("y", "mine");
    eventually("no conflict", || reasons("y") == ["ready"]);
    island.holm(&["review", "x", "--looked", "--stat"]).ok();
    island.holm(&["run", "x", "--timeout", "1s", "--", "sleep", "100"]);
    let limit = told(&island, "x");
    assert!(
        limit.len() == 1 && limit[0].starts_with("limit | sleep hit its time limit of 1 s"),
        "{limit:?}"
    );
}
