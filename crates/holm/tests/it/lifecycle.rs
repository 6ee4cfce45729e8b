//! Up, stop, start, rename, rm: the life of a workspace.

use crate::support::Island;

#[test]
fn a_workspace_is_made_used_stopped_started_and_removed() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "fix-login", "--json"]).json();
    assert_eq!(made["label"], "fix-login");
    assert_eq!(made["project"], "shop");
    assert_eq!(made["state"], "running");
    assert_eq!(made["created"], true);
    assert_eq!(made["root"], repository.path.to_str().unwrap());

    assert_eq!(
        island.sh("fix-login", "cat README.md; pwd").ok().out(),
        format!("# hello\n{}", repository.path.display())
    );
    island
        .sh("fix-login", "echo new > file; echo more > ~/note")
        .ok();
    island.holm(&["stop", "fix-login"]).ok();
    assert_eq!(
        island.holm(&["show", "fix-login", "--json"]).json()["state"],
        "stopped"
    );
    island.holm(&["start", "fix-login"]).ok();
    assert_eq!(
        island.sh("fix-login", "cat file ~/note").ok().out(),
        "new\nmore"
    );

    let again = repository.holm(&["up", "fix-login", "--json"]).json();
    assert_eq!(
        (&again["id"], &again["created"]),
        (&made["id"], &false.into())
    );

    let refused = island.holm(&["rm", "fix-login", "--json"]).error(4);
    assert_eq!(refused["code"], "unsaved_work");
    assert!(
        refused["message"].as_str().unwrap().contains("file"),
        "{refused}"
    );
    island.holm(&["rm", "fix-login", "--force"]).ok();
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"],
        serde_json::json!([])
    );
    island.holm(&["show", "fix-login", "--json"]).error(3);
    assert!(!repository.path.join("file").exists());
}
