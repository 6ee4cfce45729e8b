//! The daemon's API for a client on the socket: every wrong request gets the error body, and
//! unusable state is reported before anything is touched.

use crate::support::Island;
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};

/// Asks the daemon; the status and the JSON of the answer.
fn ask(island: &Island, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let (status, body) = island.ask(method, path, body);
    (status, serde_json::from_slice(&body).unwrap())
}

#[test]
fn every_wrong_request_gets_the_error_body() {
    let island = Island::new();
    island.holm(&["daemon", "start"]).ok();
    let check = |method: &str, path: &str, body: &str, expect: (u16, &str)| {
        let (status, answer) = ask(&island, method, path, body.as_bytes());
        let error = &answer["error"];
        assert_eq!(
            (status, error["code"].as_str().unwrap()),
            expect,
            "{path} {answer}"
        );
        assert_ne!(error["message"], "");
        assert_ne!(error["hint"], "");
    };
    let nobody = "/api/v1/workspaces/w000000000000";
    check("GET", "/", "", (404, "not_found"));
    check("GET", "/api/v1/nothing", "", (404, "not_found"));
    check("PUT", "/api/v1/workspaces", "", (405, "method_not_allowed"));
    check(
        "GET",
        "/api/v1/workspaces/fix-login",
        "",
        (404, "workspace_not_found"),
    );
    check(
        "GET",
        "/api/v1/workspaces/W000000000000",
        "",
        (404, "workspace_not_found"),
    );
    check(
        "GET",
        "/api/v1/workspaces/..%2f..%2fetc",
        "",
        (404, "workspace_not_found"),
    );
    check("GET", "/api/v1/workspaces/%ff", "", (400, "bad_request"));
    check("GET", nobody, "", (404, "workspace_not_found"));
    check(
        "DELETE",
        &format!("{nobody}?force=maybe"),
        "",
        (400, "bad_request"),
    );
    check(
        "DELETE",
        &format!("{nobody}?forced=true"),
        "",
        (400, "bad_request"),
    );
    check(
        "PATCH",
        nobody,
        r#"{"label":"a"}"#,
        (404, "workspace_not_found"),
    );
    check("PATCH", nobody, r#"{"label":"-a"}"#, (400, "invalid_label"));
    check(
        "PATCH",
        nobody,
        r#"{"label":"a","more":1}"#,
        (400, "bad_request"),
    );
    check("POST", "/api/v1/workspaces", "{", (400, "bad_request"));
    check("POST", "/api/v1/workspaces", "{}", (400, "bad_request"));
    check("POST", "/api/v1/daemon/stop", "[]", (400, "bad_request"));
    check("GET", &format!("{nobody}/exec"), "", (400, "bad_request"));
    check(
        "DELETE",
        "/api/v1/projects/p000000000000",
        "",
        (404, "project_not_found"),
    );
    check(
        "DELETE",
        "/api/v1/projects/shop",
        "",
        (404, "project_not_found"),
    );
    island.holm(&["daemon", "status"]).ok();
}

#[test]
fn what_is_sent_ahead_is_private_and_does_not_outlive_the_daemon() {
    let island = Island::new();
    island.holm(&["daemon", "start"]).ok();
    let (status, answer) = ask(&island, "POST", "/api/v1/uploads", b"\0some bytes");
    assert_eq!(status, 200);
    let incoming = island.data().join("incoming");
    let path = incoming.join(answer["upload"].as_str().unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"\0some bytes");
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.clone()), 0o600);
    assert_eq!(mode(island.data()), 0o700);
    assert_eq!(mode(island.holm_home().join("run")), 0o700);
    assert_eq!(mode(island.holm_home().join("run/daemon.sock")), 0o600);
    island.holm(&["daemon", "stop"]).ok();
    island.holm(&["daemon", "start"]).ok();
    assert!(!path.exists());
}

#[test]
fn a_directory_has_one_daemon() {
    let island = Island::new();
    island.holm(&["daemon", "start"]).ok();
    let pid = island.daemon_pid();
    let error = island.holm(&["daemon", "run", "--json"]).error(4);
    assert_eq!(error["code"], "another_daemon");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&format!("pid {pid}")), "{message}");
    island.holm(&["daemon", "start"]).ok();
    assert_eq!(island.daemon_pid(), pid);
}

#[test]
fn state_that_cannot_be_used_is_refused_and_kept() {
    let island = Island::new();
    island.holm(&["daemon", "start"]).ok();
    island.holm(&["daemon", "stop"]).ok();
    let path = island.data().join("holm.db");
    let good = std::fs::read(&path).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    // The schema's number is in the header of the file.
    for (bytes, offset, code) in [
        (&i32::MAX.to_be_bytes()[..], 60, "newer_state"),
        (&b"something else"[..], 0, "corrupt_state"),
    ] {
        file.write_all_at(&good, 0).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        let changed = std::fs::read(&path).unwrap();
        let error = island.holm(&["ls", "--json"]).error(1);
        assert_eq!(error["code"], code, "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), changed);
    }
    file.write_all_at(&good, 0).unwrap();
    island.holm(&["ls"]).ok();
}
