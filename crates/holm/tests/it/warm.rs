//! `up --warm`: build output of the user's checkout is the project's first layer.

use crate::support::{Island, Place, Ran, Repository, Toolchain};
use std::os::unix::fs::MetadataExt;

/// A cargo project that was built in the checkout.
fn built<'a>(island: &'a Island, toolchain: &Toolchain) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write(
        "Cargo.toml",
        "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    repository.write(
        "src/main.rs",
        "mod other;\nfn main() { println!(\"{}\", other::NUMBER); }\n",
    );
    repository.write("src/other.rs", "pub const NUMBER: u32 = 1;\n");
    repository.write(".gitignore", "target/\n.env\nsecrets/\n");
    repository.write(".env", "SECRET\n");
    repository.write("secrets/key", "SECRET\n");
    let mut command = island.command("cargo", &repository.path);
    command
        .args(["build", "--offline"])
        .env("PATH", toolchain.path());
    Ran::new(&mut command).ok();
    repository.commit("a program");
    repository
}

/// What cargo says inside, without the time it took.
fn build_inside(island: &Island, workspace: &str) -> String {
    let built = island.sh(
        workspace,
        "cargo build --offline -v 2>&1 && target/debug/shop",
    );
    built.ok().out()
}

fn up_with(
    toolchain: &Toolchain,
    repository: &Repository<'_>,
    arguments: &[&str],
) -> serde_json::Value {
    let island = repository.island;
    let mut command =
        island.holm_command(&repository.path, &[&["up", "--json"], arguments].concat());
    Ran::new(command.env("PATH", toolchain.path())).json()
}

#[test]
fn a_build_of_the_checkout_is_not_repeated() {
    let island = Island::in_tmp();
    let toolchain = Toolchain::install(&island);
    let repository = built(&island, &toolchain);
    let up = |arguments: &[&str]| up_with(&toolchain, &repository, arguments);
    let made = up(&["a", "--warm"]);
    let notes = made["notes"].to_string();
    assert!(
        notes.contains("build output of this checkout (target: "),
        "{notes}"
    );
    assert!(
        !notes.contains("not copied (dependencies): target"),
        "{notes}"
    );
    let said = build_inside(&island, "a");
    assert!(
        said.contains("Fresh shop") && said.ends_with("\n1"),
        "{said}"
    );
    assert_eq!(
        island.sh("a", "ls -A").ok().out(),
        ".git\n.gitignore\nCargo.lock\nCargo.toml\nREADME.md\nsrc\ntarget"
    );
    assert_eq!(island.sh("a", "git status --porcelain").ok().out(), "");
    // Later workspaces have it without asking, also of another commit, where only what changed is built.
    up(&["b"]);
    assert!(build_inside(&island, "b").contains("Fresh shop"));
    repository.write("src/other.rs", "pub const NUMBER: u32 = 2;\n");
    repository.commit("two");
    up(&["c"]);
    let said = build_inside(&island, "c");
    assert!(
        said.contains("Dirty shop") && said.ends_with("\n2"),
        "{said}"
    );
    assert_eq!(build_inside(&island, "b").lines().last(), Some("1"));
    // It is taken once.
    let again = up(&["d", "--warm"]);
    let notes = again["notes"].to_string();
    assert!(
        notes.contains("has build output of a checkout already"),
        "{notes}"
    );
    let disk = island.holm(&["df", "--json"]).json();
    assert_eq!(disk["layers"].as_array().unwrap().len(), 1, "{disk}");
    assert_eq!(disk["layers"][0]["used_by"], 4);
    // It is a copy: later writes inside or by the user do not affect the other.
    let ours = repository.path.join("target/debug/shop");
    assert_eq!(std::fs::metadata(&ours).unwrap().nlink(), 2, "cargo links");
    std::fs::write(ours, "changed").unwrap();
    assert_eq!(island.sh("a", "target/debug/shop").ok().out(), "1");
    // Nothing uses it, and it stays until all is to go.
    island.holm(&["rm", "a", "b", "c", "d", "--force"]).ok();
    island.holm(&["gc"]).ok();
    assert_eq!(
        island.holm(&["df", "--json"]).json()["layers"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    island.holm(&["gc", "--all"]).ok();
    assert_eq!(
        island.holm(&["df", "--json"]).json()["layers"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn a_source_that_is_newer_than_the_build_is_built_again() {
    let island = Island::in_tmp();
    let toolchain = Toolchain::install(&island);
    let repository = built(&island, &toolchain);
    let up = |arguments: &[&str]| up_with(&toolchain, &repository, arguments);
    // Committed, and not built in the checkout.
    repository.write("src/other.rs", "pub const NUMBER: u32 = 3;\n");
    repository.commit("three");
    up(&["a", "--warm"]);
    let said = build_inside(&island, "a");
    assert!(
        said.contains("Dirty shop") && said.ends_with("\n3"),
        "{said}"
    );
    // So is an uncommitted change.
    repository.write("src/other.rs", "pub const NUMBER: u32 = 4;\n");
    up(&["b", "--dirty"]);
    assert_eq!(build_inside(&island, "b").lines().last(), Some("4"));
}

#[test]
fn setup_runs_on_top_of_what_was_brought() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(".gitignore", "node_modules/\ntarget/\n");
    repository.write("node_modules/old/x", "of the checkout\n");
    repository.write("target/out", "built\n");
    repository.write("holm.toml", "[project]\nsetup = [\"rm -rf node_modules; mkdir -p node_modules/new; cat target/out > node_modules/new/x\"]\n");
    repository.commit("set up");
    repository.holm(&["up", "a", "--warm"]).ok();
    let look = "ls node_modules target; cat node_modules/new/x; git status --porcelain";
    let seen = island.sh("a", look).ok().out();
    assert_eq!(seen, "node_modules:\nnew\n\ntarget:\nout\nbuilt");
    // A checkout without build output gets a message.
    let empty = island.repository("empty");
    let made = empty.holm(&["up", "x", "--warm", "--json"]).json();
    assert!(
        made["notes"]
            .to_string()
            .contains("no ignored build output"),
        "{made}"
    );
}

#[test]
fn the_daemon_of_another_user_gets_it_too() {
    let Some(place) = Place::new() else {
        return;
    };
    let repository = place.repository();
    let script = "mkdir -p target && echo built > target/out && touch -d 2001-02-03T04:05:06Z target/out \
        && echo target >> .gitignore && git add . && git commit -qm ignored";
    let ran = Ran::new(place.command("sh", &repository).args(["-c", script]));
    ran.ok();
    place.holm(&repository, &["up", "a", "--warm"]).ok();
    let seen = place.sh(
        "a",
        "cat target/out; stat -c %Y target/out; touch target/new",
    );
    assert_eq!(seen.ok().out(), "built\n981173106");
}

#[test]
fn what_npm_installed_in_the_checkout_is_the_layer_while_the_lock_file_is_the_same() {
    let island = Island::new();
    let repository = island.repository("shop");
    let lock = |version: &str| {
        format!(
            r#"{{"packages":{{"":{{}},"node_modules/a":{{"version":"{version}","integrity":"i"}}}}}}"#
        )
    };
    // In place of npm, which needs a registry: it deletes what is there, as `npm ci` does.
    repository.write(
        "bin/npm",
        "#!/bin/sh\nrm -rf node_modules; mkdir node_modules; touch node_modules/new\n",
    );
    repository.write("holm.toml", "[project]\nsetup = [\"npm ci\"]\n");
    repository.write(".gitignore", "node_modules/\n");
    repository.write("package-lock.json", lock("1.0.0"));
    repository.write("node_modules/a/index.js", "1");
    repository.write(
        "node_modules/.package-lock.json",
        lock("1.0.0").replace(r#""":{},"#, ""),
    );
    repository.commit("a project");
    let tools = island.home().join("tools/bin");
    std::fs::create_dir_all(&tools).unwrap();
    let npm = tools.join("npm");
    std::fs::copy(repository.path.join("bin/npm"), &npm).unwrap();
    std::fs::set_permissions(&npm, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let up = |arguments: &[&str]| {
        let mut command =
            island.holm_command(&repository.path, &[&["up", "--json"], arguments].concat());
        command.env(
            "PATH",
            format!("{}:/usr/local/bin:/usr/bin:/bin", tools.display()),
        );
        Ran::new(&mut command).json()
    };
    let made = up(&["a", "--warm"]);
    assert!(
        made["notes"]
            .to_string()
            .contains("has installed exactly this lock file"),
        "{made}"
    );
    assert_eq!(island.sh("a", "ls node_modules").ok().out(), "a");
    // It survives a restart, and is there without asking.
    island.holm(&["stop", "a"]).ok();
    island.holm(&["start", "a"]).ok();
    assert_eq!(island.sh("a", "ls node_modules").ok().out(), "a");
    up(&["b"]);
    assert_eq!(island.sh("b", "ls node_modules").ok().out(), "a");
    // Another lock file is installed.
    repository.write("package-lock.json", lock("2.0.0"));
    repository.commit("another version");
    let made = up(&["c"]);
    assert!(
        !made["notes"].to_string().contains("exactly this lock file"),
        "{made}"
    );
    assert_eq!(island.sh("c", "ls node_modules").ok().out(), "new");
}
