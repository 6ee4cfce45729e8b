//! Ignored files that travel along: `include` of holm.toml and `.worktreeinclude` after approval,
//! `--include` without, and an uncommitted AGENTS.md.

use crate::support::{Island, Repository};

/// A repository that ignores some files which programs need.
fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write(".gitignore", ".env*\nconf/local/\nbuild/\n");
    repository.commit("ignore");
    repository.write(".env", "KEY=one\n");
    repository.write(".env.local", "KEY=local\n");
    repository.write("conf/local/a.yml", "a\n");
    repository.write("conf/local/deep/b.yml", "b\n");
    repository
}

fn inside(island: &Island, label: &str, script: &str) -> String {
    island.sh(label, script).ok().out()
}

#[test]
fn what_is_not_brought_is_named_with_the_command_that_does() {
    let island = Island::new();
    let repository = shop(&island);
    let workspace = repository.holm(&["up", "x", "--json"]).json();
    let notes = workspace["notes"].to_string();
    assert!(notes.contains(".env, .env.local"), "{notes}");
    assert!(
        notes.contains("--include .env --include .env.local"),
        "{notes}"
    );
    island.sh("x", "test -e .env").exits(1);
    let brought = [
        "up",
        "y",
        "--include",
        ".env",
        "--include",
        ".env.local",
        "--json",
    ];
    let workspace = repository.holm(&brought).json();
    assert_eq!(workspace["notes"], serde_json::Value::Null, "{workspace}");
    assert_eq!(
        inside(&island, "y", "cat .env .env.local"),
        "KEY=one\nKEY=local"
    );
}

#[test]
fn what_the_user_types_needs_no_approval() {
    let island = Island::new();
    let repository = shop(&island);
    let script = "ln -s .env link; ln -s /etc/hostname conf/local/away; mkdir -p build/empty; \
                  printf run > build/run; chmod 750 build/run; printf ro > build/ro; \
                  chmod 444 build/ro; chmod 700 build/empty; touch -d @1234567.123456789 build/ro; \
                  echo x > untracked; chmod 555 conf/local/deep";
    island.run(&repository.path, "sh", &["-c", script]).ok();
    let arguments = [
        "up",
        "x",
        "--include",
        ".env",
        "--include",
        "conf",
        "--include",
        "link",
        "--include",
        "build/",
        "--include",
        "untracked",
        "--json",
    ];
    repository.holm(&arguments).ok();
    assert_eq!(
        inside(
            &island,
            "x",
            "cat .env conf/local/a.yml conf/local/deep/b.yml"
        ),
        "KEY=one\na\nb"
    );
    assert_eq!(
        inside(&island, "x", "readlink link conf/local/away"),
        ".env\n/etc/hostname"
    );
    let stat = "stat -c '%a %n' build/run build/ro build/empty conf/local/deep";
    assert_eq!(
        inside(&island, "x", stat),
        "750 build/run\n444 build/ro\n700 build/empty\n555 conf/local/deep"
    );
    assert_eq!(
        inside(&island, "x", "stat -c %.9Y build/ro"),
        "1234567.123456789"
    );
    // git sees none of it: not even untracked files that are not ignored.
    assert_eq!(
        inside(&island, "x", "git status --porcelain --untracked-files=all"),
        ""
    );
    // They are copies.
    island.sh("x", "echo inside > .env").ok();
    assert_eq!(
        std::fs::read_to_string(repository.path.join(".env")).unwrap(),
        "KEY=one\n"
    );
    island.holm(&["rm", "x", "--force"]).ok();
    island
        .run(&repository.path, "chmod", &["755", "conf/local/deep"])
        .ok();
    // Relative to the current directory, and absolute.
    let deep = [
        "up",
        "y",
        "--include",
        "a.yml",
        "--include",
        "../../.env",
        "--json",
    ];
    repository.holm_in("conf/local", &deep).ok();
    assert_eq!(
        inside(&island, "y", "cat .env conf/local/a.yml; ls conf/local"),
        "KEY=one\na\na.yml"
    );
    let absolute = repository.path.join(".env");
    repository
        .holm(&["up", "z", "--include", absolute.to_str().unwrap()])
        .ok();
    assert_eq!(inside(&island, "z", "cat .env"), "KEY=one");
}

#[test]
fn only_what_is_in_the_checkout() {
    let island = Island::new();
    let repository = shop(&island);
    island.write("home/secret", "secret\n");
    let script = "ln -s ~ home-link; mkfifo pipe";
    island.run(&repository.path, "sh", &["-c", script]).ok();
    let check = |path: &str, exit: i32, code: &str| {
        let ran = repository.holm(&["up", "x", "--include", path, "--json"]);
        assert!(ran.stdout.is_empty(), "{path}");
        let error = ran.error(exit);
        assert_eq!(error["code"], code, "{path}: {error}");
        assert!(error["message"].as_str().unwrap().contains(path), "{error}");
    };
    check("absent", 3, "path_not_found");
    check("conf/absent/x", 3, "path_not_found");
    check("../../secret", 2, "usage");
    check("/etc/hostname", 2, "usage");
    check("home-link/secret", 2, "usage");
    check(".git", 2, "usage");
    check(".git/config", 2, "usage");
    check("pipe", 2, "usage");
    let left = island.holm(&["ls", "--json"]).json();
    assert_eq!(left["workspaces"], serde_json::json!([]));
    // The symlink itself is in the checkout; its target does not exist inside.
    repository.holm(&["up", "y", "--include", "home-link"]).ok();
    island.sh("y", "test -L home-link").ok();
    island.sh("y", "cat home-link/secret").exits(1);
}

#[test]
fn a_tracked_file_can_be_brought_as_it_lies_there() {
    let island = Island::new();
    let repository = shop(&island);
    repository.write("README.md", "# in the checkout\n");
    repository.holm(&["up", "x", "--include", "README.md"]).ok();
    assert_eq!(inside(&island, "x", "cat README.md"), "# in the checkout");
    assert_eq!(
        inside(&island, "x", "git status --porcelain"),
        " M README.md"
    );
    // Together with the uncommitted state, which has it too.
    repository
        .holm(&[
            "up",
            "y",
            "--dirty",
            "--include",
            "README.md",
            "--include",
            ".env",
        ])
        .ok();
    assert_eq!(
        inside(&island, "y", "cat README.md .env"),
        "# in the checkout\nKEY=one"
    );
    assert_eq!(
        inside(&island, "y", "git status --porcelain"),
        " M README.md"
    );
    // An untracked file that both bring.
    repository.write("new", "new\n");
    repository
        .holm(&["up", "z", "--dirty", "--include", "new"])
        .ok();
    assert_eq!(inside(&island, "z", "cat new"), "new");
}

#[test]
fn include_of_holm_toml_needs_an_approval_of_exactly_this() {
    let island = Island::new();
    let repository = shop(&island);
    let toml = "[project]\ninclude = [\".env.local\", \"conf/**/*.yml\"]\n";
    repository.write("holm.toml", toml);
    repository.commit("include");
    let refused = || {
        let ran = repository.holm(&["up", "x", "--json"]);
        assert!(ran.stdout.is_empty());
        let error = ran.error(4);
        assert_eq!(error["code"], "not_trusted");
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("project.include"),
            "{error}"
        );
        assert!(
            error["hint"].as_str().unwrap().contains("holm trust"),
            "{error}"
        );
        assert!(
            error["hint"].as_str().unwrap().contains("--untrusted"),
            "{error}"
        );
    };
    refused();
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"],
        serde_json::json!([])
    );
    // Without it.
    let without = repository
        .holm(&["up", "without", "--untrusted", "--json"])
        .json();
    assert!(
        without["notes"].to_string().contains("not approved"),
        "{without}"
    );
    island
        .sh("without", "test -e .env.local || test -e conf")
        .exits(1);
    refused();
    // With it.
    repository.holm(&["trust", "--yes"]).ok();
    repository.holm(&["up", "with", "--json"]).ok();
    assert_eq!(
        inside(&island, "with", "find conf .env* -type f | sort"),
        ".env.local\nconf/local/a.yml\nconf/local/deep/b.yml"
    );
    assert_eq!(inside(&island, "with", "git status --porcelain"), "");
    // The same asks in another file are still approved; one more is not.
    repository.write("holm.toml", format!("{toml}setup = [\"true\"]\n"));
    repository.commit("commands need no approval");
    repository.holm(&["up", "same", "--json"]).ok();
    repository.write(
        "holm.toml",
        "[project]\ninclude = [\".env.local\", \".env\"]\n",
    );
    repository.commit("another include");
    refused();
    // An approval here does not apply to another clone.
    let clone = Repository {
        island: &island,
        path: repository.path.with_file_name("clone"),
    };
    let arguments = [
        "clone",
        "-q",
        repository.path.to_str().unwrap(),
        clone.path.to_str().unwrap(),
    ];
    island.run(&island.home(), "git", &arguments).ok();
    repository.holm(&["trust", "--yes"]).ok();
    repository.holm(&["up", "approved", "--json"]).ok();
    assert_eq!(
        clone.holm(&["up", "c", "--json"]).error(4)["code"],
        "not_trusted"
    );
}

#[test]
fn worktreeinclude_is_asked_for_like_include() {
    let island = Island::new();
    let repository = shop(&island);
    repository.write(
        ".worktreeinclude",
        "# settings\n.env\n\nconf/local/\n/README.md\n",
    );
    repository.commit("worktreeinclude");
    repository.write("below/.env", "BELOW=1\n");
    let error = repository.holm(&["up", "x", "--json"]).error(4);
    assert_eq!(error["code"], "not_trusted");
    repository
        .holm(&["up", "without", "--untrusted", "--json"])
        .ok();
    island.sh("without", "test -e .env").exits(1);
    repository.holm(&["trust", "--yes"]).ok();
    repository.write("README.md", "# changed, tracked: not an ignored file\n");
    repository.holm(&["up", "x", "--json"]).ok();
    assert_eq!(
        inside(&island, "x", "cat .env below/.env conf/local/a.yml"),
        "KEY=one\nBELOW=1\na"
    );
    assert_eq!(
        inside(
            &island,
            "x",
            "cat README.md; git status --porcelain; ls -A | grep local || true"
        ),
        "# hello"
    );
    repository.write(".worktreeinclude", ".env\n.env.local\n");
    let error = repository.holm(&["up", "y", "--json"]).error(4);
    assert_eq!(
        error["code"], "not_trusted",
        "changed content is asked for again"
    );
    for outside in ["../x", "!.env"] {
        repository.write(".worktreeinclude", format!("{outside}\n"));
        let error = repository.holm(&["up", "y", "--json"]).error(2);
        assert_eq!(error["code"], "invalid_config", "{outside}");
        assert!(
            error["message"].as_str().unwrap().contains(outside),
            "{error}"
        );
    }
}

#[test]
fn a_link_on_the_way_does_not_lead_out_of_the_checkout() {
    let island = Island::new();
    let repository = shop(&island);
    island.write("home/secret", "secret\n");
    repository.write(
        "holm.toml",
        "[project]\ninclude = [\"build/secret\", \"build/**\"]\n",
    );
    repository.commit("include");
    island
        .run(&repository.path, "sh", &["-c", "ln -s ~ build"])
        .ok();
    repository.holm(&["trust", "--yes"]).ok();
    repository.holm(&["up", "x", "--json"]);
    let found = island.sh("x", "cat build/secret");
    assert_ne!(found.out(), "secret");
    assert!(
        !island
            .sh("x", "grep -r secret . --exclude-dir=.git")
            .out()
            .contains(":secret")
    );
}

#[test]
fn an_uncommitted_agents_md_is_there_and_a_committed_one_wins() {
    let island = Island::new();
    let repository = shop(&island);
    repository.write("AGENTS.md", "be kind\n");
    repository.up("x");
    assert_eq!(
        inside(&island, "x", "cat AGENTS.md; git status --porcelain"),
        "be kind"
    );
    // Nor is it committed by accident.
    assert_eq!(
        inside(&island, "x", "git add -A && git status --porcelain"),
        ""
    );
    // In the uncommitted state it is the same as outside: untracked.
    repository.holm(&["up", "y", "--dirty"]).ok();
    assert_eq!(
        inside(&island, "y", "cat AGENTS.md; git status --porcelain"),
        "be kind\n?? AGENTS.md"
    );
    repository.commit("agents");
    repository.write("AGENTS.md", "be changed\n");
    repository.up("z");
    assert_eq!(
        inside(&island, "z", "cat AGENTS.md; git status --porcelain"),
        "be kind"
    );
    // A commit that has none, while the checkout does.
    repository
        .holm(&["up", "old", "--from", "HEAD~1", "--json"])
        .ok();
    assert_eq!(
        inside(&island, "old", "cat AGENTS.md; git status --porcelain"),
        "be changed"
    );
    // Ignored by git, it comes as well; a directory of that name does not.
    let other = island.repository("other");
    other.write(".gitignore", "AGENTS.md\n");
    other.commit("ignore");
    other.write("AGENTS.md", "ignored\n");
    other.holm(&["up", "i", "--dirty"]).ok();
    assert_eq!(
        inside(&island, "i", "cat AGENTS.md; git status --porcelain"),
        "ignored"
    );
}

#[test]
fn agents_md_that_is_a_link_is_not_followed() {
    let island = Island::new();
    let repository = shop(&island);
    island.write("home/secret", "secret\n");
    let script = "ln -s ~/secret AGENTS.md";
    island.run(&repository.path, "sh", &["-c", script]).ok();
    repository.up("x");
    assert_ne!(island.sh("x", "cat AGENTS.md").out(), "secret");
}
