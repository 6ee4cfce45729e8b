//! Which arrivals need a yes, as data.

use holm_core::concern::{
    Arrival, Concern, Kind, LINK_INTO_GIT, LINK_LEAVES_TREE, LOOKS_LIKE_GIT, SPECIAL_MODE, concerns,
};

fn arrival(path: &[u8], mode: u32, target: Option<&str>) -> Vec<Concern> {
    concerns(&Arrival {
        path: path.to_vec(),
        mode,
        target: target.map(|target| target.as_bytes().to_vec()),
    })
}

/// Attack 191: every kind of file that tools execute by themselves needs consent, and ordinary ones
/// do not.
#[test]
fn attack_191_files_that_tools_execute_by_themselves() {
    let check = |kind: Kind, paths: &[&str]| {
        for path in paths {
            let found = arrival(path.as_bytes(), 0o100_644, None);
            let kinds: Vec<_> = found.iter().map(|concern| concern.kind).collect();
            assert_eq!(kinds, [kind], "{path}");
            assert!(!found[0].reason.is_empty());
        }
    };
    check(
        Kind::Hook,
        &[
            ".husky/post-merge",
            "web/.husky/pre-commit",
            ".githooks/pre-push",
        ],
    );
    check(
        Kind::Hook,
        &[
            ".pre-commit-config.yaml",
            "lefthook.yml",
            ".lefthook.toml",
            "lefthook-local.json",
        ],
    );
    check(
        Kind::Hook,
        &[
            ".overcommit.yml",
            "captainhook.json",
            ".lintstagedrc.js",
            "commitlint.config.mjs",
        ],
    );
    check(
        Kind::Git,
        &[
            ".gitattributes",
            "deep/er/.gitattributes",
            ".gitmodules",
            ".lfsconfig",
            ".gitconfig",
        ],
    );
    check(
        Kind::Editor,
        &[
            ".vscode/tasks.json",
            ".VSCode/tasks.json",
            ".idea/workspace.xml",
            "x.code-workspace",
        ],
    );
    check(
        Kind::Editor,
        &[
            ".exrc",
            ".vimrc",
            ".nvim.lua",
            ".dir-locals.el",
            "eslint.config.js",
            "vitest.config.ts",
        ],
    );
    check(
        Kind::Container,
        &[
            ".devcontainer/devcontainer.json",
            ".devcontainer.json",
            ".gitpod.yml",
        ],
    );
    check(
        Kind::Container,
        &["docker-compose.override.yml", "compose.override.yaml"],
    );
    check(
        Kind::Shell,
        &[
            ".envrc",
            "api/.envrc",
            "mise.toml",
            ".mise.local.toml",
            ".config/mise/config.toml",
        ],
    );
    check(
        Kind::Shell,
        &[
            "flake.nix",
            "shell.nix",
            "devbox.json",
            ".zshrc",
            ".pdbrc",
            ".Rprofile",
            ".irbrc",
        ],
    );
    check(
        Kind::Agent,
        &[
            "CLAUDE.md",
            "AGENTS.md",
            "docs/agents.MD",
            "GEMINI.md",
            ".mcp.json",
            ".cursorrules",
        ],
    );
    check(
        Kind::Agent,
        &[
            ".claude/settings.json",
            ".claude/settings.local.json",
            ".cursor/mcp.json",
        ],
    );
    check(
        Kind::Agent,
        &[
            ".codex/config.toml",
            ".windsurfrules",
            ".github/copilot-instructions.md",
            "opencode.json",
        ],
    );
    check(
        Kind::Agent,
        &[
            ".aider.conf.yml",
            ".continue/config.yaml",
            ".roo/rules/x.md",
            ".clinerules/x.md",
        ],
    );
    check(
        Kind::Package,
        &[
            ".npmrc",
            ".yarnrc.yml",
            ".yarn/releases/yarn.cjs",
            ".pnpmfile.cjs",
            "bunfig.toml",
        ],
    );
    check(
        Kind::Package,
        &[
            "pip.conf",
            "setup.py",
            "sitecustomize.py",
            "lib/x.pth",
            ".bundle/config",
            ".mvn/jvm.config",
        ],
    );
    check(
        Kind::Package,
        &[
            "gradle/wrapper/gradle-wrapper.properties",
            "gradlew",
            "init.gradle.kts",
            ".pypirc",
        ],
    );
    check(
        Kind::Build,
        &[
            ".cargo/config.toml",
            "crates/x/.cargo/config",
            "build.rs",
            "rust-toolchain.toml",
        ],
    );
    check(
        Kind::Build,
        &[
            ".bazelrc",
            "tools/bazel",
            "conftest.py",
            "GNUmakefile",
            "Directory.Build.props",
        ],
    );
    check(
        Kind::Ci,
        &[
            ".github/workflows/ci.yml",
            ".github/actions/x/action.yml",
            ".gitlab-ci.yml",
            "Jenkinsfile",
        ],
    );
    check(
        Kind::Ci,
        &[
            ".forgejo/workflows/x.yml",
            ".gitea/workflows/x.yml",
            ".circleci/config.yml",
            ".drone.yml",
        ],
    );
    check(
        Kind::Ci,
        &[
            "azure-pipelines.yml",
            ".azure-pipelines/x.yml",
            "bitbucket-pipelines.yml",
            ".travis.yml",
        ],
    );
    check(
        Kind::Ci,
        &[
            ".woodpecker/x.yaml",
            ".buildkite/pipeline.yml",
            "appveyor.yml",
            ".teamcity/settings.kts",
        ],
    );
    check(
        Kind::Ci,
        &[
            ".tekton/x.yaml",
            ".cirrus.yml",
            ".builds/x.yml",
            "netlify.toml",
            "action.yml",
        ],
    );
    // As file systems with other ideas of names read them.
    check(
        Kind::Editor,
        &[
            ".vs\u{200c}code/tasks.json",
            ".vscode./tasks.json",
            ".v\u{17f}code/tasks.json",
        ],
    );
    for path in [
        "src/main.rs",
        "package.json",
        "Makefile",
        "Procfile",
        "Cargo.toml",
        "docs/.gitignore",
        "git/x",
        "vscode/tasks.json",
        ".github/CODEOWNERS",
        ".gitlab/issue_templates/bug.md",
        ".editorconfig",
        ".nvmrc",
        ".python-version",
        ".tool-versions",
        "vite.config.ts",
        "docs/rebuild.rs.md",
        "prebuild.rs",
        "src/agents.rs",
        "docs/action.yml.md",
        "x/action.yml",
        "cargo/config.toml",
    ] {
        assert_eq!(arrival(path.as_bytes(), 0o100_644, None), [], "{path}");
    }
}

#[test]
fn names_that_some_file_system_takes_for_git() {
    let check = |path: &str, expect: bool| {
        let found = arrival(path.as_bytes(), 0o100_644, None);
        assert_eq!(found.contains(&LOOKS_LIKE_GIT), expect, "{path:?}");
    };
    check(".GIT/config", true);
    check("sub/.Git", true);
    check(".g\u{200c}it/config", true);
    check(".git\u{feff}", true);
    check(".git . .", true);
    check("git~1/config", true);
    check(".git::$INDEX_ALLOCATION/config", true);
    check(".gitx/config", false);
    check(".gitkeep", false);
    check("my.git", false);
}

#[test]
fn links_that_leave_the_tree() {
    let check = |path: &str, target: &str, expect: &[Concern]| {
        let found = arrival(path.as_bytes(), 0o120_000, Some(target));
        assert_eq!(found, expect, "{path} -> {target}");
    };
    check("a", "b", &[]);
    check("a/b", "../c", &[]);
    check("a/b", "./x/../y", &[]);
    check("a", "../b", &[LINK_LEAVES_TREE]);
    check("a/b", "../../c", &[LINK_LEAVES_TREE]);
    check("a/b", "x/../../../a/c", &[LINK_LEAVES_TREE]);
    check("a", "/etc/passwd", &[LINK_LEAVES_TREE]);
    check("a", ".git/hooks", &[LINK_INTO_GIT]);
    check("a/b", "../.GIT/config", &[LINK_INTO_GIT]);
    // A symlink or a submodule brings everything below it.
    for (path, kind) in [
        (".vscode", Kind::Editor),
        (".github", Kind::Agent),
        (".config", Kind::Shell),
    ] {
        for mode in [0o120_000, 0o160_000] {
            let found = arrival(path.as_bytes(), mode, Some("x"));
            assert_eq!(found[0].kind, kind, "{path}");
        }
    }
    let unknown = arrival(b"a", 0o120_000, None);
    assert_eq!(unknown, [LINK_LEAVES_TREE]);
}

#[test]
fn modes_that_no_ordinary_file_has() {
    let check = |mode: u32, expect: &[Concern]| {
        assert_eq!(arrival(b"a", mode, None), expect, "{mode:o}");
    };
    check(0o100_644, &[]);
    check(0o100_755, &[]);
    check(0o160_000, &[]);
    check(0o104_755, &[SPECIAL_MODE]);
    check(0o102_755, &[SPECIAL_MODE]);
    check(0o020_644, &[SPECIAL_MODE]);
}

#[test]
fn several_concerns_of_one_arrival_and_names_that_are_not_text() {
    let found = arrival(b".husky/post-merge", 0o120_000, Some("/bin/sh"));
    assert_eq!(found[0].kind, Kind::Hook);
    assert_eq!(found[1..], [LINK_LEAVES_TREE]);
    assert_eq!(arrival(b"caf\xe9", 0o100_644, None), []);
    assert_eq!(
        arrival(b".vscode/\xff", 0o100_644, None)[0].kind,
        Kind::Editor
    );
}
