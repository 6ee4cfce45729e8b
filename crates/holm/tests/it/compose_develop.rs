//! Compose files whose services follow the tree (`develop.watch`), and steps before a service (`pre_start`).

use crate::services::service;
use crate::support::{Island, TestImage, eventually};
use serde_json::{Value, json};

/// Each rule, with a command that shows what the service sees.
const WATCHING: &str = r#"
services:
  app:
    image: app:1
    command: [/bin/sh, -c, "echo started with $$(cat /app/conf/mode); exec sleep 1000"]
    develop:
      watch:
        - {path: ./src, action: sync, target: /app/src, ignore: ["*.tmp"]}
        - {path: ./conf, action: sync+restart, target: /app/conf, initial_sync: true}
        - {path: ./package.json, action: rebuild}
        - path: ./show
          action: sync+exec
          target: /app/show
          exec: {command: [/bin/sh, -c, "cat /app/show; for file in /app/src/* /app/src/*/*; do echo \"$$file $$(cat $$file)\"; done; echo shown"]}
  other: {image: app:1, command: sleep 1000}
"#;

fn tool() -> TestImage {
    TestImage::with_shell(json!({"Env": ["PATH=/usr/bin:/bin"]}))
        .libraries(env!("CARGO_BIN_EXE_holm"))
        .file("app/conf/mode", "the image's mode", 0o644)
        .file("app/src/text", "the image's text", 0o644)
        .file("app/src/old", "the image's file", 0o644)
}

#[test]
fn a_service_follows_the_tree() {
    let island = Island::new();
    tool().add(&island, "app:1");
    let repository = island.repository("shop");
    repository.write("compose.yaml", WATCHING);
    repository.write("holm.toml", "[project]\ncompose = \"compose.yaml\"\n");
    repository.write("src/text", "the commit's text");
    repository.write("src/old", "the commit's file");
    repository.write("conf/mode", "the commit's mode");
    repository.commit("a stack");
    let made = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(service(&made, "app")["state"], "ready", "{made:#}");
    let wait = |text: &str| {
        let mut logs = String::new();
        eventually(text, || {
            logs = island.holm(&["logs", "x", "app"]).ok().out();
            logs.contains(text)
        });
        logs
    };
    // What is to be copied at first was there before the program.
    wait("started with the commit's mode");
    let show = |script: &str, round: &str| -> String {
        let script = format!("{script}; echo round {round} > show");
        island.sh("x", &script).ok();
        let logs = wait(&format!("round {round}"));
        let begin = logs.find(&format!("round {round}")).unwrap();
        let mut shown = String::new();
        eventually("all is shown", || {
            shown = island
                .holm(&["logs", "x", "app"])
                .ok()
                .out()
                .split_off(begin);
            shown.contains("shown")
        });
        shown
    };
    let shown = show(
        "echo new > src/text; mkdir src/deep; echo below > src/deep/file; echo x > src/a.tmp; rm src/old",
        "one",
    );
    assert!(shown.contains("/app/src/text new"), "{shown}");
    assert!(shown.contains("/app/src/deep/file below"), "{shown}");
    assert!(!shown.contains("tmp") && !shown.contains("old"), "{shown}");

    island.sh("x", "echo faster > conf/mode").ok();
    wait("started with faster");
    let status = || service(&island.holm(&["show", "x", "--json"]).json(), "app");
    assert_eq!(status()["restarts"], 1);

    // What changes while it does not run is there when it starts.
    island.holm(&["service", "x", "stop", "app"]).ok();
    island.sh("x", "echo late > src/late").ok();
    island.holm(&["service", "x", "start", "app"]).ok();
    let shown = show("true", "two");
    assert!(shown.contains("/app/src/late late"), "{shown}");

    island.sh("x", "echo {} > package.json").ok();
    let mut found = Value::Null;
    eventually("users see it", || {
        found = status();
        found["reason"] == "its image is older than package.json"
    });
    assert_eq!(found["state"], "ready", "{found}");
    // Only this service has our program in its root.
    let rooms = island.holm(&["logs", "x", "other"]).ok().out();
    assert!(!rooms.contains("watch"), "{rooms}");
}

const STEPS: &str = r#"
services:
  app:
    image: app:1
    command: [/bin/sh, -c, "cat /data/made; exec sleep 1000"]
    environment: {ROLE: app}
    volumes: ["data:/data"]
    pre_start:
      - {command: [/bin/sh, -c, "echo $$ROLE one >> /data/made"]}
      - {command: [/bin/sh, -c, "echo $$ROLE two in $$(pwd) >> /data/made"], environment: {ROLE: step}, working_dir: /tmp}
  broken:
    image: app:1
    command: [/bin/sh, -c, "echo must not run"]
    pre_start: [{command: [/bin/sh, -c, "exit 3"]}]
volumes: {data: {}}
"#;

#[test]
fn steps_end_before_their_service_starts() {
    let island = Island::new();
    tool().add(&island, "app:1");
    let repository = island.repository("shop");
    repository.write("compose.yaml", STEPS);
    repository.write("holm.toml", "[project]\ncompose = \"compose.yaml\"\n");
    repository.commit("a stack");
    let failed = repository.holm(&["up", "x"]).exits(1);
    assert!(failed.stderr.contains("broken-pre-start-1"), "{failed:?}");
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(service(&shown, "app")["state"], "ready", "{shown:#}");
    let mut logs = String::new();
    eventually("it prints what the steps made", || {
        logs = island.holm(&["logs", "x", "app"]).ok().out();
        logs.contains("two")
    });
    let (one, two) = (logs.find("app one"), logs.find("step two in /tmp"));
    assert!(one.is_some() && one < two, "{logs}");
    let broken = service(&shown, "broken").to_string();
    assert!(broken.contains("waits for broken-pre-start-1"), "{broken}");
    let logs = island.holm(&["logs", "x", "broken"]).ok().out();
    assert!(!logs.contains("must not run"), "{logs}");
}
