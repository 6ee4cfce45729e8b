//! Rules of a project itself (`project_create`, `POST /projects`, `holm project add`) hold for
//! every workspace that is created from then on, whatever its `holm.toml` says.

use crate::support::{Door, Island, Repository};
use serde_json::{Value, json};

const PROJECTS: &str = "/api/v1/projects";
const WORKSPACES: &str = "/api/v1/workspaces";

fn shop(island: &Island) -> Repository<'_> {
    let shop = Repository::new(island, island.home().join("src/shop"));
    shop.write("infra/prod/main.tf", "original\n");
    shop.write("infra/dev/main.tf", "original\n");
    shop.commit("infrastructure");
    shop
}

#[track_caller]
fn post(door: &Door, route: &str, body: &Value) -> Value {
    let reply = door.ask("POST", route, &body.to_string());
    assert!(matches!(reply.status, 200 | 201), "{body}: {reply:?}");
    reply.json()
}

/// Tries to change protected files, and files beside them.
#[track_caller]
fn is_kept(island: &Island, workspace: &str) {
    for attempt in [
        "echo x > infra/prod/main.tf",
        "echo x > infra/prod/new",
        "rm -r infra/prod",
        "mv infra infra-away",
        "echo x > AGENTS.md",
    ] {
        let ran = island.sh(workspace, attempt);
        assert_ne!(ran.code, Some(0), "{workspace}: {attempt}");
    }
    let beside =
        "echo x > infra/dev/main.tf && git checkout -q infra/dev && git status --porcelain";
    assert_eq!(island.sh(workspace, beside).ok().out(), "");
    assert_eq!(island.sh(workspace, "ls -A | grep -c AGENTS.md").out(), "0");
}

#[test]
fn paths_that_a_program_protects_are_protected_in_the_next_workspace() {
    let island = Island::new();
    let shop = shop(&island);
    let door = Door::of(&island);
    let wish = json!({ "path": shop.path, "protected_paths": ["infra/prod/", "AGENTS.md"] });
    let made = post(&door, PROJECTS, &wish);
    assert_eq!(made["protected_paths"], json!(["AGENTS.md", "infra/prod"]));
    assert!(
        !shop.path.join("holm.toml").exists(),
        "the repository is the user's"
    );
    let first = post(
        &door,
        WORKSPACES,
        &json!({ "path": shop.path, "label": "first" }),
    );
    assert_eq!(first["protected_paths"], made["protected_paths"]);
    is_kept(&island, "first");
    // Every output that shows the project has it.
    let shown = island.holm(&["show", "first"]).ok().out();
    assert!(
        shown.contains("  read-only   AGENTS.md, infra/prod\n"),
        "{shown}"
    );
    let here = island.sh("first", "holm here --json").json();
    assert_eq!(here["protected_paths"], made["protected_paths"]);
    let told = island.sh("first", "cat /run/holm/AGENTS.md").ok().out();
    assert!(
        told.contains("## Protected paths") && told.contains("- `infra/prod`\n"),
        "{told}"
    );
    let listed = island.holm(&["project", "ls", "--json"]).json();
    assert_eq!(
        listed["projects"][0]["protected_paths"],
        made["protected_paths"]
    );

    // Also for one with a file, which adds to them; and after the daemon's end.
    shop.write(
        "holm.toml",
        "[project]\nprotected_paths = [\"README.md\"]\n",
    );
    shop.commit("a file");
    island.kill_daemon();
    let second = shop.holm(&["up", "second", "--json"]).json();
    let all = json!(["README.md", "AGENTS.md", "infra/prod"]);
    assert_eq!(second["protected_paths"], all);
    is_kept(&island, "second");
    // A file that names less does not remove them: no approval is needed, and they stay.
    shop.write("holm.toml", "[project]\nprotected_paths = []\n");
    shop.commit("less");
    let error = shop.holm(&["up", "third", "--json"]).error(4);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("README.md") && !message.contains("infra/prod"),
        "{message}"
    );
    shop.holm(&["trust", "--yes"]).ok();
    let third = shop.holm(&["up", "third", "--json"]).json();
    assert_eq!(third["protected_paths"], made["protected_paths"]);
    is_kept(&island, "third");
    // Nor does a reload, from a file that a program inside wrote.
    island.sh("third", "rm holm.toml").ok();
    island.holm(&["reload", "third", "--inside"]).ok();
    island.holm(&["restart", "third"]).ok();
    island.sh("third", "git checkout -q holm.toml").ok();
    is_kept(&island, "third");
    // More come by asking again, and nothing goes.
    let more = post(
        &Door::of(&island),
        PROJECTS,
        &json!({ "path": shop.path, "protected_paths": ["x"] }),
    );
    assert_eq!(
        more["protected_paths"],
        json!(["AGENTS.md", "infra/prod", "x"])
    );

    // A person can take one away, and then is asked for what that means.
    shop.holm(&["project", "add", "--unprotect", "infra/prod"])
        .ok();
    let error = shop.holm(&["up", "fourth", "--json"]).error(4);
    assert_eq!(error["code"], "not_trusted");
    shop.holm(&["trust", "--yes"]).ok();
    shop.up("fourth");
    island.sh("fourth", "echo x > infra/prod/main.tf").ok();
}

#[test]
fn isolation_that_a_program_asks_for_is_approved_by_a_person_and_closed_for_good() {
    let island = Island::new();
    let shop = shop(&island);
    let door = Door::of(&island);
    let open = json!({ "path": shop.path, "isolation": "project" });
    let made = post(&door, PROJECTS, &open);
    assert_eq!(made["isolation"], "project");
    assert!(made["notes"].to_string().contains("holm trust"), "{made}");
    let body = json!({ "path": shop.path, "label": "first" }).to_string();
    let refused = door.ask("POST", WORKSPACES, &body);
    assert_eq!(refused.code(), "not_trusted", "{refused:?}");
    shop.holm(&["trust", "--yes"]).ok();
    shop.up("first");
    island.sh("first", "ls /workspaces").ok();

    // Closed again, an approval from before does not open it.
    shop.write("holm.toml", "[project]\nisolation = \"project\"\n");
    shop.commit("open");
    post(
        &door,
        PROJECTS,
        &json!({ "path": shop.path, "isolation": "workspace" }),
    );
    let error = shop.holm(&["up", "second", "--json"]).error(4);
    assert_eq!(error["code"], "not_trusted");
    shop.holm(&["up", "second", "--untrusted"]).ok();
    island.sh("second", "test ! -e /workspaces").ok();
}
