//! A workspace can block git inside forever: a filter that sleeps, a pipe in place of a file of
//! `.git`. Every git that holm runs there ends in time, with everything that it started.

use crate::support::{Island, Ran, Repository};
use serde_json::Value;

/// Short, so that the test is: `holm_engine::inside` has the real one.
const QUIET_MS: &str = "1500";

fn holm(repository: &Repository, arguments: &[&str]) -> Ran {
    let mut command = repository.island.holm_command(&repository.path, arguments);
    Ran::new(command.env("HOLM_TEST_QUIET_MS", QUIET_MS))
}

fn sleepers(island: &Island) -> String {
    island.sh("x", "pgrep -x sleep | wc -l").ok().out()
}

#[test]
fn a_filter_that_sleeps_is_ended_and_the_command_says_so() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.git(&["branch", "other"]);
    holm(&repository, &["up", "x"]).ok();
    // One sleeps in git's process group, one in its own session, without its parent.
    let hang = "(setsid sleep 1000 > /dev/null 2>&1 < /dev/null &); sleep 1000";
    let script = format!(
        "echo '* filter=hang' > .git/info/attributes; git config filter.hang.clean '{hang}'; \
         touch README.md"
    );
    island.sh("x", &script).ok();
    let blocked = island.sh(
        "x",
        "timeout 0.5 git status; code=$?; pkill -x sleep; exit $code",
    );
    assert_eq!(blocked.code, Some(124), "git itself waits: {blocked:?}");
    assert_eq!(sleepers(&island), "0");

    for arguments in [
        &["changes", "x", "--json"][..],
        &["diff", "x", "--json"],
        &["fetch", "x", "--json"],
        &["fetch", "x", "--commit", "all", "--json"],
        &["apply", "x", "--json"],
        &["merge", "x", "--json"],
        &["assign", "x", "other", "--json"],
    ] {
        let error = holm(&repository, arguments).error(1);
        assert_eq!(error["code"], "git_timed_out", "{arguments:?}: {error}");
        let hint = error["hint"].as_str().unwrap();
        assert!(hint.contains("holm exec"), "{arguments:?}: {error}");
        assert_eq!(sleepers(&island), "0", "{arguments:?}");
    }
    // A run is run, and says that its changes are not known.
    let run = holm(&repository, &["run", "x", "--json", "--", "true"]).ok();
    assert!(run.out().contains("changes are not known"), "{run:?}");
    assert_eq!(sleepers(&island), "0");

    // What cannot be examined counts as unsaved.
    for arguments in [&["rm", "x", "--json"][..], &["reset", "x", "--json"]] {
        let refused = holm(&repository, arguments).error(4);
        assert_eq!(refused["code"], "unsaved_work", "{refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("cannot be examined"), "{message}");
        assert_eq!(sleepers(&island), "0");
    }
    let shown = holm(&repository, &["show", "x", "--json"]).json();
    assert_eq!(shown["dirty"], Value::Null);
    holm(&repository, &["rm", "x", "--force"]).ok();
}

#[test]
fn a_pipe_in_place_of_a_file_of_git_is_no_reason_to_wait() {
    let island = Island::new();
    let repository = island.repository("shop");
    holm(&repository, &["up", "x"]).ok();
    island
        .sh(
            "x",
            "rm .git/config holm.toml; mkfifo .git/config holm.toml",
        )
        .ok();
    for arguments in [&["changes", "x", "--json"][..], &["apply", "x", "--json"]] {
        let error = holm(&repository, arguments).error(1);
        assert_eq!(error["code"], "git_timed_out", "{arguments:?}: {error}");
    }
    // The same holds for files that are read without git.
    let reload = holm(&repository, &["reload", "x", "--inside", "--json"]);
    assert!(!matches!(reload.code, Some(0) | None), "{reload:?}");
    holm(&repository, &["rm", "x"]).exits(4);
    holm(&repository, &["rm", "x", "--force"]).ok();
}

#[test]
fn work_that_takes_longer_than_the_limit_and_tells_of_it_is_not_ended() {
    let island = Island::new();
    let repository = island.repository("shop");
    holm(&repository, &["up", "x"]).ok();
    // Each file takes half of the limit, and there are six.
    let script = "echo '* filter=slow' > .git/info/attributes; \
        git config filter.slow.clean 'sleep 0.7; cat'; for n in 1 2 3 4 5 6; do echo $n > new-$n; done";
    island.sh("x", script).ok();
    let changes = holm(&repository, &["changes", "x", "--json"]).json();
    assert_eq!(changes["changes"].as_array().unwrap().len(), 6, "{changes}");
}
