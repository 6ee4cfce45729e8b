//! Real programs read the API document: schemathesis sends the described requests, as the user and
//! as a guest (attack 177), and a generator makes types of it.

use crate::support::{Door, Island, times};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `scripts/set-up test` installed beside the build output.
pub fn tool(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_holm"));
    // With `--target`, cargo builds one directory deeper.
    let targets = built.ancestors().skip(2).take(2);
    let mut tools = targets.map(|target| target.join("tools").join(name));
    let found = tools.find(|tool| tool.exists());
    found.unwrap_or_else(|| panic!("`scripts/set-up test` installs {name}"))
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/openapi.json")
        .canonicalize()
        .unwrap()
}

/// What would end the daemon, change what the user has, or never end.
const LEFT_OUT: [&str; 3] = ["daemon_stop", "checkout", "project_receive_pack"];

#[test]
fn attack_177_the_document_is_true_for_the_user_and_for_a_guest() {
    let island = Island::new();
    let repository = island.repository("shop");
    let (id, of_guest) = (repository.up("one"), repository.up("guest"));
    let guest = island
        .holm(&["token", "new", "--workspace", "guest", "--json"])
        .json();
    let projects = island.holm(&["project", "ls", "--json"]).json();
    let pid = island.daemon_pid();
    let door = Door::of(&island);
    let place = tempfile::tempdir().unwrap();
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support");
    let mut command = Command::new(tool("schemathesis/bin/schemathesis"));
    command
        .current_dir(place.path())
        .env("PYTHONPATH", hooks)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONHASHSEED", "0")
        .env("SCHEMATHESIS_HOOKS", "schemathesis_hooks")
        .env("WORKSPACE", id)
        .env("PROJECT", projects["projects"][0]["id"].as_str().unwrap())
        .env("USER_TOKEN", &door.token)
        .env("GUEST_TOKEN", guest["token"].as_str().unwrap())
        .env("WORKSPACE_OF_GUEST", of_guest)
        .arg("run")
        .arg(document())
        .args(["--url", &format!("http://127.0.0.1:{}", door.port)])
        .args([
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        ])
        // A quarter of them by the guest.
        .args(["--phases", "fuzzing", "--max-examples", times("4", "16")])
        .args(["--seed", "7", "--request-timeout", "30", "--no-color"])
        .args(["--suppress-health-check", "all", "--continue-on-failure"]);
    for operation in LEFT_OUT {
        command.args(["--exclude-operation-id", operation]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answered = said.matches("the guest got").count();
    assert!(answered >= 5, "{said}");
    assert_eq!(island.daemon_pid(), pid, "the daemon lives");
}

#[test]
fn types_are_generated_from_the_document() {
    let place = tempfile::tempdir().unwrap();
    let types = place.path().join("holm.d.ts");
    let output = Command::new(tool("types/node_modules/.bin/openapi-typescript"))
        .arg(document())
        .arg("--output")
        .arg(&types)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    // A program that uses the types, and one that uses them wrongly.
    for (name, state) in [("right.ts", "state"), ("wrong.ts", "mood")] {
        let program = format!(
            "import type {{ components, operations }} from './holm';\n\
             export const made: components['schemas']['Workspace']['{state}'] = 'running';\n\
             type Id = operations['workspace_show']['parameters']['path']['id'];\n\
             export const id: Id = 'w000000000000';\n"
        );
        std::fs::write(place.path().join(name), program).unwrap();
    }
    let output = Command::new(tool("types/node_modules/.bin/tsc"))
        .current_dir(place.path())
        .args(["--noEmit", "--strict", "--pretty", "false"])
        .args(["--lib", "es2022"])
        .args(["--moduleResolution", "bundler", "--module", "esnext"])
        .args(["right.ts", "wrong.ts"])
        .output()
        .unwrap();
    // One start of the compiler, which names the file of each error.
    let errors = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success(), "{errors}");
    assert!(!errors.is_empty());
    for error in errors.lines() {
        assert!(error.starts_with("wrong.ts("), "{errors}");
        assert!(error.contains("'mood'"), "{errors}");
    }
    let text: Value = serde_json::from_slice(&std::fs::read(document()).unwrap()).unwrap();
    let generated = std::fs::read_to_string(types).unwrap();
    for path in text["paths"].as_object().unwrap().keys() {
        assert!(generated.contains(&format!("\"{path}\"")), "{path}");
    }
}
