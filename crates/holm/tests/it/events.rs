//! `holm events`: what happened, in order, from a cursor on.

use crate::support::{Island, Running, background, eventually, host_port, send};
use rustix::process::Signal;
use serde_json::Value;

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn all(island: &Island, arguments: &[&str]) -> Vec<Value> {
    let ran = island
        .holm(&[&["events", "--json"], arguments].concat())
        .ok();
    ran.out().lines().map(parse).collect()
}

fn types(events: &[Value]) -> Vec<String> {
    let types = events.iter().map(|event| event["type"].as_str().unwrap());
    types.map(str::to_owned).collect()
}

#[test]
fn a_life_is_told_from_its_beginning_to_its_end() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("one");
    island.holm(&["stop", "one"]).ok();
    island.holm(&["start", "one"]).ok();
    island.holm(&["rename", "one", "two"]).ok();
    island.holm(&["rm", "two", "--force"]).ok();
    island.holm(&["restore", &id]).ok();
    let told = all(&island, &[]);
    assert_eq!(
        types(&told),
        [
            "workspace.created",
            "workspace.stopped",
            "workspace.started",
            "workspace.renamed",
            "workspace.stopped",
            "workspace.removed",
            "workspace.restored",
        ]
    );
    let cursors: Vec<u64> = told
        .iter()
        .map(|event| event["cursor"].as_u64().unwrap())
        .collect();
    assert!(cursors.is_sorted());
    for event in &told {
        assert_eq!(event["workspace"], *id);
        assert_eq!(event["project"], "shop");
        assert!(event["time"].as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(told[3]["earlier"], "one");
    assert_eq!(told[3]["label"], "two");
    let rest = all(&island, &["--after", &cursors[4].to_string()]);
    assert_eq!(types(&rest), ["workspace.removed", "workspace.restored"]);
    let text = island.holm(&["events"]).ok().out();
    assert_eq!(text.lines().count(), told.len());
    // A new daemon has them, and continues the cursors.
    island.kill_daemon();
    island.holm(&["start", "two"]).ok();
    let more = all(&island, &["--after", &cursors[6].to_string()]);
    assert_eq!(types(&more), ["workspace.started"]);
    assert!(more[0]["cursor"].as_u64().unwrap() > cursors[6]);
}

#[test]
fn ports_and_deaths_are_told_as_they_happen() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("one");
    let cursor = all(&island, &[])[0]["cursor"].to_string();
    let arguments = ["events", "--follow", "--json", "--after", &cursor];
    let mut following = Running::new(&mut island.holm_command(&island.home(), &arguments));
    island.holm(&["restart", "one"]).ok();
    assert_eq!(parse(&following.line())["type"], "workspace.stopped");
    assert_eq!(parse(&following.line())["type"], "workspace.started");

    background(
        &island,
        "one",
        "exec timeout 1000 python3 -m http.server 3000",
    );
    let opened = parse(&following.line());
    assert_eq!(opened["type"], "port.opened");
    assert_eq!(opened["workspace"], *id);
    assert_eq!(opened["port"], 3000);
    assert_eq!(opened["name"], "3000");
    assert_eq!(opened["host_port"], host_port(&island, "one", 3000));
    assert!(opened.get("url").is_some());
    island.sh("one", "pkill -x python3").ok();
    let closed = parse(&following.line());
    assert_eq!(closed["type"], "port.closed");
    assert_eq!(closed["port"], 3000);

    let keeper = island.keeper_of(&id).unwrap();
    send(keeper, Signal::KILL);
    let failed = parse(&following.line());
    assert_eq!(failed["type"], "workspace.failed");
    assert_eq!(failed["workspace"], *id);
    eventually("it is shown so", || {
        island.holm(&["show", "one", "--json"]).json()["state"] == "failed"
    });
}

#[test]
fn cursors_that_were_never_given_and_nonsense() {
    let island = Island::new();
    island.repository("shop").up("one");
    assert_eq!(all(&island, &["--after", "999999"]), Vec::<Value>::new());
    island.holm(&["events", "--after", "x"]).exits(2);
    island.holm(&["events", "--after", "-1"]).exits(2);
}

#[test]
fn who_is_so_slow_that_events_are_gone_is_told_and_let_go() {
    let island = Island::new();
    island.repository("shop").up("one");
    assert_eq!(
        types(&all(&island, &["--after", "0"])),
        ["workspace.created"]
    );
    // As if ten thousand others had come and the oldest had gone.
    let add = "import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute('''insert into events select 20000, at, 'port.opened', workspace_id, detail from events''')
store.commit()";
    let database = island.data().join("holm.db");
    let arguments = ["-c", add, database.to_str().unwrap()];
    island
        .run(&island.home(), "/usr/bin/python3", &arguments)
        .ok();
    let told = all(&island, &["--after", "1"]);
    assert_eq!(types(&told), ["events.missed"]);
    assert_eq!(told[0]["missed"], 19_998);
    let cursor = told[0]["cursor"].to_string();
    assert_eq!(types(&all(&island, &["--after", &cursor])), ["port.opened"]);
    let said = island.holm(&["events", "--after", "1"]).ok().out();
    assert!(said.contains("19998 events are gone"), "{said}");
}
