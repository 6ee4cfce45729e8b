//! Sessions that cannot start in their directory, and sessions that ended before a client attached.

use crate::support::{Act, Island, eventually, play};

#[test]
fn a_directory_that_cannot_be_gone_to_is_named() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    island.sh("x", "mkdir closed; chmod 000 closed").ok();
    let route = format!("/api/v1/workspaces/{id}/sessions");
    for (directory, code, status, expected) in [
        ("not-there", 3, 404, "path_not_found"),
        ("README.md", 4, 409, "not_a_directory"),
        ("README.md/x", 4, 409, "not_a_directory"),
        ("closed", 4, 409, "permission_denied"),
    ] {
        let new = ["session", "new", "x", "--cwd", directory, "--json"];
        let error = island.holm(&new).error(code);
        assert_eq!(error["code"], expected, "{error}");
        let body = format!("{{\"cwd\":\"{directory}\"}}");
        let asked = island.ask("POST", &route, body.as_bytes());
        assert_eq!(asked.0, status, "{directory}");
        // A command says it as a shell does.
        let ran = island.holm(&["exec", "x", "--cwd", directory, "--", "true"]);
        assert_eq!(ran.code, Some(126), "{ran:?}");
        assert!(ran.stderr.contains("cannot go to"), "{ran:?}");
        assert!(ran.stderr.contains(directory), "{ran:?}");
    }
    // A directory that can be entered but not listed is good enough.
    island.sh("x", "chmod 111 closed").ok();
    island
        .holm(&["exec", "x", "--cwd", "closed", "--", "true"])
        .ok();
}

#[test]
fn who_attaches_too_late_has_the_exit_code_of_the_program() {
    let island = Island::new();
    island.repository("shop").up("x");
    let new = [
        "session", "new", "x", "--detach", "--", "sh", "-c", "exit 7",
    ];
    let id = island.holm(&new).ok().out();
    eventually("it has ended", || {
        let list = island.holm(&["session", "ls", "--json"]).json();
        list["sessions"][0]["exit_code"] == 7
    });
    let attach = || {
        let attach = island.holm_command(&island.home(), &["session", "attach", &id]);
        let played = play(&attach, &[Act::See("ended")]);
        assert!(played.is_restored, "{played:?}");
        assert!(played.screen.contains("holm session read"), "{played:?}");
        played.code
    };
    assert_eq!(attach(), 7);
    island.holm(&["stop", "x"]).ok();
    assert_eq!(attach(), 7, "of a workspace that is stopped");
    island.holm(&["start", "x"]).ok();
    assert_eq!(attach(), 7, "of an earlier run of the workspace");
}
