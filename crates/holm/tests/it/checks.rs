//! Checks: what they run on, when they run again, and how they end. An agent can neither lie about them nor reach the
//! workspace that they run in.

use crate::support::{Island, Repository, Running, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

const HOLM_TOML: &str = r#"
[checks.test]
run = "sh test.sh"

[checks.types]
run = "true"

[checks.docs]
run = "false"
when = ["docs/**"]

[agents.liar]
command = ["sh", "-c", "cat; echo bad > a.txt; echo all tests pass"]
"#;

/// Passes in a fresh workspace whose tree is good.
const TEST: &str = "\
echo tested $(cat a.txt)
[ -e ~/evil ] && { echo a file of the home of the agent; exit 11; }
[ -e ignored/evil ] && { echo an ignored file; exit 12; }
pgrep -x evil-server && { echo a process; exit 13; }
[ \"$(git stash list)\" ] && { echo a stash; exit 14; }
grep -q good a.txt
";

fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM_TOML);
    repository.write("test.sh", TEST);
    repository.write("a.txt", "good\n");
    repository.write(".gitignore", "ignored/\n");
    repository.commit("files");
    repository
}

/// `name state exit_code` of each check.
fn told(list: &Value) -> Vec<String> {
    let checks = list["checks"].as_array().unwrap().iter();
    let told = checks.map(|check| {
        let code = &check["exit_code"];
        format!(
            "{} {} {code}",
            check["name"].as_str().unwrap(),
            check["state"].as_str().unwrap()
        )
    });
    told.collect()
}

fn check(island: &Island, arguments: &[&str], code: i32) -> Value {
    let all = [&["check", "x", "--json"], arguments].concat();
    let ran = island.holm(&all).exits(code);
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// The events of checks so far: `started test`, `ended test passed`.
fn events(island: &Island) -> Vec<String> {
    let lines = island.holm(&["events", "--json"]).ok().out();
    let events = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told = events.filter_map(|event| {
        let kind = event["type"].as_str()?.strip_prefix("check.")?;
        let state = event["state"].as_str().unwrap_or_default();
        let name = event["check"].as_str()?;
        Some(format!("{kind} {name} {state}").trim_end().to_owned())
    });
    told.collect()
}

fn count(island: &Island, event: &str) -> usize {
    let events = events(island);
    events.iter().filter(|told| *told == event).count()
}

/// The directories of workspaces, also of those that are not shown.
fn workspaces(island: &Island) -> usize {
    std::fs::read_dir(island.data().join("workspaces"))
        .unwrap()
        .count()
}

#[test]
fn an_agent_that_lies_is_contradicted_by_the_check() {
    let island = Island::new();
    let repository = shop(&island);
    let new = [
        "run",
        "--new",
        "x",
        "--agent",
        "liar",
        "make the tests pass",
    ];
    let run = repository.holm(&new).ok();
    assert!(run.out().contains("all tests pass"), "{run:?}");
    // The check contradicts, and the exit code is the run's.
    assert!(
        run.stderr
            .contains("checks    – docs skipped   ✗ test exit 1   ● types "),
        "{run:?}"
    );
    let first = check(&island, &[], 1);
    assert_eq!(
        told(&first),
        ["docs skipped null", "test failed 1", "types passed 0"]
    );
    assert_eq!(first["turn"], 1);
    assert_eq!(count(&island, "started test"), 1, "the tree has a result");
    let log = island.holm(&["logs", "x", "check/test"]).ok().out();
    assert!(log.ends_with("tested bad"), "{log}");
    let unknown = island.holm(&["logs", "x", "check/nope", "--json"]).error(3);
    assert!(
        unknown["hint"].as_str().unwrap().contains("test, types"),
        "{unknown}"
    );

    let review = island.holm(&["review", "x", "--json"]).json();
    let evidence = &review["evidence"]["checks"];
    assert_eq!(told(&json!({ "checks": evidence })), told(&first));
    let text = island.holm(&["review", "x", "--stat"]).ok().out();
    assert!(text.contains("✗ test exit 1"), "{text}");
    let approved = island.holm(&["approve", "x"]).ok();
    assert!(
        approved.stderr.contains("1 of 3 checks passed"),
        "{approved:?}"
    );

    // Results are for one tree.
    island.sh("x", "echo very good > a.txt").ok();
    island.holm(&["review", "x", "--mark", "--stat"]).ok();
    let review = island.holm(&["review", "x", "--json"]).json();
    assert_eq!(review["evidence"]["checks"], json!([]));
    let second = check(&island, &["test"], 0);
    assert_eq!(told(&second), ["test passed 0"]);
    assert_ne!(first["checks"][1]["tree"], second["tree"]);
    assert_eq!(count(&island, "started test"), 2);
    check(&island, &["test"], 0);
    assert_eq!(count(&island, "started test"), 2);
    check(&island, &["test", "--again"], 0);
    assert_eq!(count(&island, "started test"), 3);
    let approved = island.holm(&["approve", "x"]).ok();
    assert!(approved.stderr.contains(": 1 check passed"), "{approved:?}");
    // `when` is about the paths that changed since the start.
    island.sh("x", "mkdir docs; echo x > docs/x").ok();
    assert_eq!(told(&check(&island, &["docs"], 1)), ["docs failed 1"]);

    let unknown = island.holm(&["check", "x", "nope", "--json"]).error(3);
    assert_eq!(unknown["code"], "check_not_found");
    assert!(
        unknown["hint"]
            .as_str()
            .unwrap()
            .contains("docs, test, types")
    );
    // The definition in force is the stored one, until a reload.
    repository.write("holm.toml", "[checks.only]\nrun = \"true\"\n");
    assert_eq!(
        check(&island, &[], 1)["checks"].as_array().unwrap().len(),
        3
    );
    repository.holm(&["reload", "x", "--yes"]).ok();
    assert_eq!(told(&check(&island, &[], 0)), ["only passed 0"]);
    repository.write("holm.toml", "");
    repository.holm(&["reload", "x", "--yes"]).ok();
    let none = island.holm(&["check", "x", "--json"]).error(3);
    assert!(
        none["hint"].as_str().unwrap().contains("[checks.test]"),
        "{none}"
    );
    assert_eq!(workspaces(&island), 1, "the fresh ones are gone");
    let listed = island.holm(&["ls", "--json"]).json();
    assert_eq!(listed["workspaces"].as_array().unwrap().len(), 1);
}

#[test]
fn attack_212_nothing_of_the_agents_workspace_but_its_tree_reaches_a_check() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("x");
    let evil = "touch ~/evil; mkdir ignored; touch ignored/evil; cp $(which sleep) ~/evil-server; \
        (setsid ~/evil-server 1000 > /dev/null 2>&1 &); echo better good > a.txt; git stash -q; git stash apply -q";
    island.sh("x", evil).ok();
    assert_eq!(told(&check(&island, &["test"], 0)), ["test passed 0"]);
    // An edit while the check runs does not reach it either.
    let mut slow = island.holm_command(&island.home(), &["check", "x", "test", "--again"]);
    let mut running = Running::new(&mut slow);
    eventually("it runs", || count(&island, "started test") == 2);
    island.sh("x", "echo bad > a.txt").ok();
    assert_eq!(running.code(), Some(0));
    // Counterpart: the same script in the agent's workspace sees all of it.
    let script = "sh test.sh; rm ~/evil; sh test.sh; rm -r ignored; sh test.sh; pkill -x evil-server; \
        while pgrep -x evil-server; do :; done; sh test.sh; git stash drop -q; sh test.sh; true";
    let seen = island.sh("x", script).ok().out();
    for word in ["of the home", "an ignored file", "a process", "a stash"] {
        assert!(seen.contains(word), "{word}: {seen}");
    }
}

#[test]
fn a_check_has_layers_services_secrets_and_volumes_of_its_own() {
    let island = Island::new();
    let holm_toml = r#"
[project]
setup = ["echo made > made.out"]
[services.web]
run = "python3 -m http.server 3000 --bind 127.0.0.1"
ready = { tcp = 3000 }
[volumes.data]
path = "/data"
[secrets.KEY]
to = ["runs"]
[checks.fresh]
run = "test ! -e /data/mark && test -e made.out && test \"$KEY\" = value-of-the-key && touch /data/checked"
[checks.now]
run = "test -e /data/mark && touch /data/checked"
volumes = "current"
[checks.web]
run = "python3 -c 'import urllib.request as r; r.urlopen(\"http://127.0.0.1:3000\")'"
"#;
    let files = [("holm.toml", holm_toml), (".gitignore", "*.out\n")];
    let repository = island.repository_of("shop", &files);
    let mut set = island.holm_command(&repository.path, &["secret", "set", "KEY"]);
    let mut set = Running::new(&mut set);
    set.write("value-of-the-key\n");
    assert_eq!(set.code(), Some(0));
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("x");
    island.sh("x", "touch /data/mark; echo x > new.txt").ok();
    let all = ["fresh passed 0", "now passed 0", "web passed 0"];
    let list = island.holm(&["check", "x", "--json"]);
    let logs = ["fresh", "now", "web"]
        .map(|name| island.holm(&["logs", "x", &format!("check/{name}")]).out());
    assert_eq!(told(&list.json()), all, "{logs:?}");
    island.sh("x", "test ! -e /data/checked").ok();
    // A copy of now is another one when the data is another one; the others have their results.
    island.sh("x", "touch /data/more").ok();
    assert_eq!(told(&check(&island, &[], 0)), all);
    assert_eq!(count(&island, "started now"), 2);
    assert_eq!(count(&island, "started fresh"), 1);
    assert_eq!(workspaces(&island), 1);
}

#[test]
fn checks_are_limited_cancelled_and_undone_after_a_crash() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[checks.a]\nrun = \"sleep 1000\"\n[checks.b]\nrun = \"sleep 1000\"\n\
         [checks.late]\nrun = \"sleep 1000\"\ntimeout = \"200ms\"\n[checks.quick]\nrun = \"true\"\n\
         [review]\ncheck = true\n",
    );
    repository.commit("checks");
    for directory in ["holm", "holm/config"] {
        island.make_dir(directory);
    }
    island.write("holm/config/config.toml", "[daemon]\nchecks_at_once = 1\n");
    let id = repository.up("x");
    assert_eq!(told(&check(&island, &["late"], 1)), ["late failed 124"]);
    let started = |arguments: &[&str]| {
        let all = [&["check", "x"], arguments].concat();
        Running::new(&mut island.holm_command(&island.home(), &all))
    };
    let states = || {
        let (_, body) = island.ask("GET", &format!("/api/v1/workspaces/{id}/checks"), b"");
        let list: Value = serde_json::from_slice(&body).unwrap();
        told(&list).join(", ")
    };
    // One at a time: the other waits.
    let mut older = started(&["a", "b"]);
    eventually("one runs", || states().contains("running"));
    let now = states();
    assert_eq!(now.matches("running").count(), 1, "{now}");
    assert_eq!(now.matches("queued").count(), 1, "{now}");
    // A newer turn cancels them.
    island.sh("x", "echo new > new.txt").ok();
    assert_eq!(told(&check(&island, &["quick"], 0)), ["quick passed 0"]);
    assert_eq!(older.code(), Some(1));
    assert_eq!(count(&island, "ended a cancelled"), 1);
    assert_eq!(count(&island, "ended b cancelled"), 1);
    // Ctrl-C cancels, and leaves nothing.
    let mut interrupted = started(&["a"]);
    eventually("it runs", || states().contains("a running"));
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.code(), Some(130));
    assert_eq!(count(&island, "ended a cancelled"), 2);
    assert_eq!(workspaces(&island), 1);
    // A run starts the checks by itself where the project wants it, and does not wait for them.
    island
        .holm(&["run", "x", "--", "sh", "-c", "echo more > new.txt"])
        .ok();
    // Whichever takes the one place first; the short ones end.
    eventually("one of the long ones runs", || {
        states().contains("a running") || states().contains("b running")
    });
    assert_eq!(workspaces(&island), 2, "that of the check under way");
    // The daemon dies: the next one undoes the workspace and says how it ended.
    island.kill_daemon();
    island.holm(&["ls"]).ok();
    assert_eq!(workspaces(&island), 1);
    let now = states();
    assert!(
        now.contains("a cancelled") && now.contains("b cancelled"),
        "{now}"
    );
    assert!(!now.contains("running") && !now.contains("queued"), "{now}");
    assert_eq!(told(&check(&island, &["quick"], 0)), ["quick passed 0"]);
    // Removing the workspace ends its checks.
    let mut removed = started(&["b"]);
    eventually("b runs", || states().contains("b running"));
    island.holm(&["rm", "x", "--force"]).ok();
    assert_eq!(removed.code(), Some(1));
    eventually("it is gone", || workspaces(&island) == 0);
}

#[test]
fn a_watch_checks_each_new_turn_until_it_is_ended() {
    let island = Island::new();
    shop(&island).up("x");
    let arguments = ["check", "x", "test", "--watch", "--json"];
    let mut watch = Running::new(&mut island.holm_command(&island.home(), &arguments));
    eventually("the first tree", || {
        count(&island, "ended test passed") == 1
    });
    let edit = |text: &str| {
        let script = format!("echo {text} > a.txt");
        island.holm(&["run", "x", "--", "sh", "-c", &script]).ok();
    };
    edit("bad");
    eventually("a bad turn", || count(&island, "ended test failed") == 1);
    edit("good again");
    eventually("a good turn", || count(&island, "ended test passed") == 2);
    // An edit without a turn is not checked.
    island.sh("x", "echo bad > a.txt").ok();
    let review = island.holm(&["review", "x", "--json"]).ok().json();
    assert_eq!(
        json!([review["to"], review["changed_since"]]),
        json!([2, true])
    );
    edit("good third");
    eventually("a third good tree", || {
        count(&island, "ended test passed") == 3
    });
    let turns = [(); 4].map(|()| {
        let list: Value = serde_json::from_str(&watch.line()).unwrap();
        list["turn"].clone()
    });
    assert_eq!(json!(turns), json!([null, 1, 2, 3]));
    watch.signal(Signal::INT);
    assert_eq!(watch.code(), Some(130));
    assert_eq!(count(&island, "started test"), 4);
}
