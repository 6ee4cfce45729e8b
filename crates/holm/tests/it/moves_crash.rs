//! The daemon, a keeper or git dies while a workspace moves: its tree is the old one or the new
//! one, and the following steps happen.

use crate::services::service;
use crate::support::{Island, Repository, Running, eventually, send};
use rustix::process::Signal;
use serde_json::Value;
use std::path::PathBuf;

/// Two branches that differ in many files, with a setup and services that record what they saw.
fn with_branches(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    let config = "[project]\nsetup = [\"cp word deps\"]\nsetup_inputs = [\"word\"]\n\
        [services.web]\nrun = \"echo $(cut -d' ' -f1 many/0.txt) $(cat word deps) >> ~/runs; exec sleep 1000\"\n\
        [services.db]\nrun = \"echo started >> ~/db-runs; exec sleep 1000\"\non_assign = \"none\"\n";
    repository.write("holm.toml", config);
    repository.write(".gitignore", "deps\n");
    repository.write("word", "main\n");
    for number in 0..50 {
        repository.write(&format!("many/{number}.txt"), format!("main {number}\n"));
    }
    repository.commit("main");
    repository.git(&["switch", "-q", "-c", "feature"]);
    repository.write("word", "feature\n");
    for number in 0..50 {
        repository.write(&format!("many/{number}.txt"), format!("feature {number}\n"));
        repository.write(&format!("new/{number}.txt"), "new\n");
    }
    repository.commit("feature");
    repository.git(&["switch", "-q", "main"]);
    repository
}

/// Which of the two the tree is; a mixture is a failure.
#[track_caller]
fn whole(island: &Island) -> String {
    let script = "cat many/*.txt | cut -d' ' -f1 | sort -u; ls new 2> /dev/null | wc -l; \
        git status --porcelain; git rev-parse HEAD | cut -c1-4; ls .git/holm-move .git/index.lock 2> /dev/null";
    let seen = island.sh("x", script);
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    match lines.as_slice() {
        ["main", "0", _] => "main".to_owned(),
        ["feature", "50", _] => "feature".to_owned(),
        _ => panic!("neither the one nor the other: {text}"),
    }
}

fn show(island: &Island) -> Value {
    island.holm(&["show", "x", "--json"]).json()
}

fn runs(island: &Island) -> Vec<String> {
    let text = island.sh("x", "cat ~/runs").ok().out();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_daemon_that_dies_at_any_step_leaves_the_old_or_the_new_and_the_next_goes_on() {
    let island = Island::new();
    let repository = with_branches(&island);
    for step in ["switch", "set_up", "react"] {
        for moment in ["before", "after"] {
            let at = format!("{step}:{moment}");
            repository.up("x");
            let died = island.holm_at(
                &repository.path,
                &format!("{at}:kill"),
                &["assign", "x", "feature", "--json"],
            );
            assert_eq!(died.code, Some(5), "{at}: {died:?}");
            // The next daemon finishes before any command runs inside.
            assert_eq!(whole(&island), "feature", "{at}");
            let shown = show(&island);
            assert_eq!(
                (&shown["ref"], &shown["notes"]),
                (&"feature".into(), &Value::Null),
                "{at}"
            );
            assert_eq!(island.sh("x", "cat deps").ok().out(), "feature", "{at}");
            eventually("the service reacts", || {
                runs(&island)
                    .last()
                    .is_some_and(|run| run == "feature feature feature")
            });
            assert_eq!(
                island.sh("x", "cat ~/db-runs").ok().out(),
                "started",
                "{at}"
            );
            repository.holm(&["rm", "x", "--force"]).ok();
        }
    }
}

#[test]
fn a_step_that_fails_says_so_and_the_same_command_goes_on() {
    let island = Island::new();
    let repository = with_branches(&island);
    for (at, tree) in [
        ("switch:before", "main"),
        ("set_up:before", "feature"),
        ("react:before", "feature"),
    ] {
        repository.up("x");
        let failed = island.holm_at(
            &repository.path,
            &format!("{at}:fail"),
            &["assign", "x", "feature", "--json"],
        );
        let error = failed.error(1);
        assert!(error["message"].as_str().unwrap().contains(at), "{error}");
        assert_eq!(whole(&island), tree, "{at}");
        let notes = show(&island)["notes"].to_string();
        assert!(notes.contains("holm assign"), "{at}: {notes}");
        repository.holm(&["assign", "x", "feature"]).ok();
        assert_eq!(whole(&island), "feature");
        assert_eq!(
            runs(&island).last().unwrap(),
            "feature feature feature",
            "{at}"
        );
        assert_eq!(show(&island)["notes"], Value::Null);
        repository.holm(&["rm", "x", "--force"]).ok();
    }
}

/// git blocks in the middle of the checkout, until there is a file `go` in /tmp.
fn held<'a>(island: &'a Island, repository: &Repository<'a>) -> (Running, PathBuf, String) {
    let id = repository.up("x");
    // Not home, which is an overlay here: files put below it are not visible.
    let shared = island.data().join("workspaces").join(&id).join("tmp");
    let hold = "git config filter.hold.smudge 'touch /tmp/held; while ! test -e /tmp/go; do sleep 0.02; done; cat'; \
        echo 'new/25.txt filter=hold' > .git/info/attributes";
    island.sh("x", hold).ok();
    let mut command = island.holm_command(&repository.path, &["assign", "x", "feature", "--json"]);
    let running = Running::new(&mut command);
    eventually("git is in the middle", || shared.join("held").exists());
    (running, shared, id)
}

#[test]
fn a_keeper_that_dies_in_the_middle_leaves_a_tree_that_the_next_start_makes_whole() {
    let island = Island::new();
    let repository = with_branches(&island);
    let (mut assign, shared, id) = held(&island, &repository);
    let keeper = island.keeper_of(&id).expect("its keeper");
    send(keeper, Signal::KILL);
    assert_ne!(assign.code(), Some(0));
    island.write(shared.join("go"), "");
    assert_ne!(show(&island)["state"], "running");
    repository.holm(&["start", "x"]).ok();
    assert_eq!(whole(&island), "feature");
    assert_eq!(show(&island)["ref"], "feature");
    eventually("the set-up ran and the service saw it", || {
        runs(&island)
            .last()
            .is_some_and(|run| run == "feature feature feature")
    });
    let mixed = |run: &String| {
        let words: Vec<&str> = run.split(' ').collect();
        words[0] != words[1]
    };
    assert!(!runs(&island).iter().any(mixed), "{:?}", runs(&island));
}

#[test]
fn a_daemon_that_dies_in_the_middle_does_not_disturb_git_and_the_next_one_waits_for_it() {
    let island = Island::new();
    let repository = with_branches(&island);
    let (mut assign, shared, _) = held(&island, &repository);
    let daemon = island.daemon_of_the_lock().expect("a daemon");
    send(daemon, Signal::KILL);
    assert_eq!(assign.code(), Some(5));
    // The next command for the workspace starts a daemon, which waits for git first.
    let arguments = ["exec", "x", "--", "cat", "many/7.txt"];
    let mut next = Running::new(&mut island.holm_command(&repository.path, &arguments));
    eventually("there is another daemon", || {
        island.daemon_of_the_lock().is_some_and(|pid| pid != daemon)
    });
    island.write(shared.join("go"), "");
    assert_eq!(next.line(), "feature 7");
    assert_eq!(next.code(), Some(0));
    assert_eq!(whole(&island), "feature");
    assert_eq!(runs(&island).last().unwrap(), "feature feature feature");
}

/// A client that goes away does not stop a switch; the set-up that would follow is ended, and said.
#[test]
fn a_client_that_dies_in_the_middle_leaves_the_new() {
    let island = Island::new();
    let repository = with_branches(&island);
    let (assign, shared, _) = held(&island, &repository);
    assign.signal(Signal::KILL);
    island.write(shared.join("go"), "");
    eventually("it moved", || show(&island)["ref"] == "feature");
    assert_eq!(whole(&island), "feature");
    repository.holm(&["assign", "x", "feature"]).ok();
    assert_eq!(runs(&island).last().unwrap(), "feature feature feature");
    assert_eq!(service(&show(&island), "web")["state"], "ready");
}

/// Files that a program wrote in between are not lost, even when the tree is restored by force.
#[test]
fn what_lay_between_two_commits_is_kept() {
    let island = Island::new();
    let repository = with_branches(&island);
    // Commands wait for the move, but running programs do not.
    let id = repository.up("x");
    let writer = "(while ! test -e /tmp/held; do sleep 0.02; done; echo precious > many/7.txt; \
        echo fresh > fresh.txt; touch /tmp/written) > /dev/null 2>&1 &";
    island.sh("x", writer).ok();
    let (mut assign, shared, _) = held(&island, &repository);
    eventually("it is written", || shared.join("written").exists());
    send(island.keeper_of(&id).expect("its keeper"), Signal::KILL);
    assert_ne!(assign.code(), Some(0));
    island.write(shared.join("go"), "");
    repository.holm(&["start", "x"]).ok();
    let script = "for ref in $(git for-each-ref --format='%(refname)' refs/holm/before); do \
        git show $ref:many/7.txt; done; cat fresh.txt";
    let kept = island.sh("x", script).ok().out();
    assert!(
        kept.contains("precious") && kept.contains("fresh"),
        "{kept}"
    );
}

/// A move that hangs does not prevent stopping the workspace.
#[test]
fn a_workspace_can_be_stopped_while_it_moves() {
    let island = Island::new();
    let repository = with_branches(&island);
    let (mut assign, shared, _) = held(&island, &repository);
    repository.holm(&["stop", "x"]).ok();
    assert_eq!(assign.code(), Some(130), "it is told");
    assert_eq!(show(&island)["state"], "stopped");
    island.write(shared.join("go"), "");
    repository.holm(&["start", "x"]).ok();
    assert_eq!(whole(&island), "feature");
    assert_eq!(show(&island)["ref"], "feature");
    eventually("the set-up ran and the service saw it", || {
        let runs = runs(&island);
        runs.last()
            .is_some_and(|run| run == "feature feature feature")
    });
}
