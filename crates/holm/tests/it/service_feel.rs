//! Services as a person or a program sees them: live on a terminal, the same JSON everywhere, and not
//! counted as use.

use crate::services::{service, with_services};
use crate::support::{Act, Island, eventually};
use serde_json::Value;

#[test]
fn on_a_terminal_each_service_is_shown_live_and_ctrl_c_ends_the_waiting_only() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.db]\nrun = \"until test -e ~/go; do sleep 0.01; done; echo up; sleep 1000\"\n\
         ready = { log = \"up\" }\n\
         [services.web]\nrun = \"sleep 1000\"\ndepends_on = [\"db\"]\n",
    );
    let played = island.play(
        &repository.path,
        &["up", "x"],
        &[
            Act::See("db  starting"),
            Act::See("web  starting  waits for db"),
            Act::Type("\u{3}"),
            Act::See("no longer waiting; workspace `x` stays"),
        ],
    );
    assert_eq!(played.code, 130, "{played:?}");
    assert!(played.is_restored);
    assert_eq!(island.states()["x"], "running");
    island.sh("x", "touch ~/go").ok();
    let played = island.play(&repository.path, &["up", "x"], &[Act::See("was running")]);
    assert_eq!(played.code, 0, "{played:?}");
    // Ready services need no line.
    let last = played.screen.rsplit("\u{1b}[2K").next().unwrap();
    assert!(!last.contains("web"), "{last:?}");
}

#[test]
fn nothing_of_a_log_steers_the_terminal() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.bad]\nrun = \"printf '\\\\033]0;owned\\\\007\\\\033[2J\\\\n'; exit 1\"\nrestart = \"no\"\n",
    );
    let played = island.play(&repository.path, &["up", "x"], &[Act::See("exited with 1")]);
    assert_eq!(played.code, 1);
    assert!(!played.screen.contains("\u{1b}]0;"), "{played:?}");
    let played = island.play(&island.home(), &["logs", "x"], &[Act::See("owned")]);
    assert!(!played.screen.contains("\u{1b}]0;"), "{played:?}");
    assert!(played.screen.contains("\\u{1b}]0;owned"), "{played:?}");
    let raw = island.holm(&["logs", "x"]).ok().out();
    assert!(
        raw.contains("\u{1b}]0;owned\u{7}"),
        "for programs it is as it came"
    );
}

#[test]
fn services_and_logs_have_the_documented_fields() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"echo hello; sleep 1000\"\n",
    );
    repository.up("x");
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let list = island.holm(&["service", "x", "ls", "--json"]).json();
    assert_eq!(keys(&list), ["services", "verdict"]);
    assert_eq!(list["verdict"], "ready");
    let expect = ["name", "pid", "port", "reason", "restarts", "state"];
    assert_eq!(keys(&service(&list, "web")), expect);
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["services"], list["services"], "the same everywhere");
    eventually("it said something", || {
        !island.holm(&["logs", "x"]).ok().out().is_empty()
    });
    let line = island.holm(&["logs", "x", "--json"]).ok().out();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(keys(&line), ["service", "stream", "text", "time"]);
    assert_eq!(line["text"], "hello");
    island.holm(&["stop", "x"]).ok();
    let list = island.holm(&["service", "x", "ls", "--json"]).json();
    assert_eq!(
        (&list["verdict"], &service(&list, "web")["state"]),
        (&Value::Null, &"stopped".into())
    );
}

#[test]
fn a_workspace_that_only_runs_services_is_idle() {
    let island = Island::new();
    let repository = with_services(&island, "[services.web]\nrun = \"sleep 1000\"\n");
    repository.up("x");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "stop_after = \"1s\"\n");
    eventually("it is stopped", || island.states()["x"] == "stopped");
}
