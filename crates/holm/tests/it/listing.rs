//! `ls` and `show` of running workspaces: listing asks no keeper, and nothing old is shown as if it were new.

use crate::support::{Island, Ran, eventually, send, state_of};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;

const WEB: &str = "[services.web]\nrun = \"touch ~/up; exec sleep 1000\"\nrestart = \"no\"\n";

/// Stops keepers, so that they cannot answer, while `work` is done.
fn without_keepers<T>(island: &Island, ids: &[&str], work: impl FnOnce() -> T) -> T {
    let keepers: Vec<i32> = ids
        .iter()
        .map(|id| island.keeper_of(id).expect("a keeper"))
        .collect();
    for keeper in &keepers {
        send(*keeper, Signal::STOP);
        eventually("it stands still", || state_of(*keeper) == "T");
    }
    let done = work();
    for keeper in keepers {
        send(keeper, Signal::CONT);
    }
    done
}

fn states(found: &[(&str, &str)]) -> BTreeMap<String, String> {
    let found = found.iter();
    found
        .map(|(label, state)| ((*label).to_owned(), (*state).to_owned()))
        .collect()
}

fn service(island: &Island, label: &str) -> Value {
    let listed = island.holm(&["ls", "--json"]).json();
    let workspaces = listed["workspaces"].as_array().unwrap().iter();
    let mut found = workspaces.filter(|one| one["label"] == label);
    found.next().expect("the workspace")["services"][0]["state"].clone()
}

#[test]
fn keepers_that_stand_still_are_listed_as_failed_whether_they_are_watched_or_not() {
    let island = Island::new();
    let repository = island.repository("shop");
    let ids = ["x", "y", "z"].map(|label| repository.up(label));
    let all = |state| states(&[("x", state), ("y", "running"), ("z", state)]);
    // The second daemon speaks another protocol, so it has to ask these keepers each time.
    for wire in ["1", "2"] {
        let list = || {
            let mut command = island.holm_command(&island.home(), &["ls", "--json"]);
            let listed = Ran::new(command.env("HOLM_TEST_WIRE", wire)).json();
            let workspaces = listed["workspaces"].as_array().unwrap().iter();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let states = workspaces.map(|one| (text(&one["label"]), text(&one["state"])));
            states.collect::<BTreeMap<_, _>>()
        };
        for _ in 0..3 {
            assert_eq!(list(), all("running"));
            without_keepers(&island, &[&ids[0], &ids[2]], || {
                assert_eq!(list(), all("failed"));
                let shown = island.holm(&["show", "x", "--json"]).json();
                let reason = shown["reason"].as_str().unwrap();
                assert!(reason.contains("keeper is stopped"), "{shown}");
            });
            eventually("they answer again", || list() == all("running"));
        }
        island.kill_daemon();
    }
}

#[test]
fn a_list_shows_what_was_just_done() {
    let island = Island::new();
    let repository = island.shop(WEB, "");
    let id = repository.up("x");
    let lists = |state: &str| assert_eq!(island.states(), states(&[("x", state)]));
    for _ in 0..3 {
        lists("running");
        island.holm(&["stop", "x"]).ok();
        lists("stopped");
        island.holm(&["start", "x"]).ok();
        lists("running");
        island.holm(&["restart", "x"]).ok();
        lists("running");
    }
    eventually("the service is up", || service(&island, "x") == "ready");
    for _ in 0..3 {
        island.holm(&["service", "x", "stop", "web"]).ok();
        assert_ne!(service(&island, "x"), "ready");
        island.holm(&["service", "x", "start", "web"]).ok();
        eventually("it is up again", || service(&island, "x") == "ready");
    }
    // It dies without a word of the daemon.
    island.sh("x", "pkill -x sleep").ok();
    eventually("its end is listed", || service(&island, "x") == "exited");
    send(island.keeper_of(&id).expect("a keeper"), Signal::KILL);
    eventually("the end of the keeper is listed", || {
        island.states() == states(&[("x", "failed")])
    });
    island.holm(&["start", "x"]).ok();
    lists("running");
    island.holm(&["rm", "x", "--force"]).ok();
    assert_eq!(island.states(), BTreeMap::new());
}
