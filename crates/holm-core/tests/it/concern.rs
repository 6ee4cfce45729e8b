//! Which arrivals need a yes, as data.

use holm_core::concern::{Arrival, Concern, concerns};

fn arrival(path: &[u8], mode: u32, target: Option<&str>) -> Vec<Concern> {
    concerns(&Arrival {
        path: path.to_vec(),
        mode,
        target: target.map(|target| target.as_bytes().to_vec()),
    })
}

#[test]
fn files_that_tools_execute_by_themselves() {
    let check = |path: &str, expect: &[Concern]| {
        assert_eq!(arrival(path.as_bytes(), 0o100_644, None), expect, "{path}");
    };
    check("src/main.rs", &[]);
    check("package.json", &[]);
    check("AGENTS.md", &[]);
    check("docs/.gitignore", &[]);
    check("git/x", &[]);
    check("vscode/tasks.json", &[]);
    check(".github/CODEOWNERS", &[]);
    check(".husky/post-merge", &[Concern::GitHook]);
    check("web/.husky/pre-commit", &[Concern::GitHook]);
    check(".githooks/pre-push", &[Concern::GitHook]);
    check(".pre-commit-config.yaml", &[Concern::GitHook]);
    check(".vscode/tasks.json", &[Concern::EditorTask]);
    check(".VSCode/tasks.json", &[Concern::EditorTask]);
    check(".idea/workspace.xml", &[Concern::EditorTask]);
    check(".devcontainer/devcontainer.json", &[Concern::EditorTask]);
    check(".envrc", &[Concern::ShellEnvironment]);
    check("api/.envrc", &[Concern::ShellEnvironment]);
    check(".mcp.json", &[Concern::AgentSettings]);
    check(".claude/settings.json", &[Concern::AgentSettings]);
    check(".claude/settings.local.json", &[Concern::AgentSettings]);
    check(".cursor/mcp.json", &[Concern::AgentSettings]);
    check(
        ".github/workflows/ci.yml",
        &[Concern::ContinuousIntegration],
    );
    check(".gitlab-ci.yml", &[Concern::ContinuousIntegration]);
    check("Jenkinsfile", &[Concern::ContinuousIntegration]);
    check(".gitattributes", &[Concern::GitAttributes]);
    check("deep/er/.gitattributes", &[Concern::GitAttributes]);
    check(".gitmodules", &[Concern::Submodules]);
}

#[test]
fn names_that_some_file_system_takes_for_git() {
    let check = |path: &str, expect: bool| {
        let found = arrival(path.as_bytes(), 0o100_644, None);
        assert_eq!(found.contains(&Concern::LooksLikeGit), expect, "{path:?}");
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
    check("a", "../b", &[Concern::LinkLeavesTree]);
    check("a/b", "../../c", &[Concern::LinkLeavesTree]);
    check("a/b", "x/../../../a/c", &[Concern::LinkLeavesTree]);
    check("a", "/etc/passwd", &[Concern::LinkLeavesTree]);
    check("a", ".git/hooks", &[Concern::LinkIntoGit]);
    check("a/b", "../.GIT/config", &[Concern::LinkIntoGit]);
    check(".vscode", "elsewhere", &[Concern::EditorTask]);
    check(".github", "x", &[Concern::ContinuousIntegration]);
    let unknown = arrival(b"a", 0o120_000, None);
    assert_eq!(unknown, [Concern::LinkLeavesTree]);
}

#[test]
fn modes_that_no_ordinary_file_has() {
    let check = |mode: u32, expect: &[Concern]| {
        assert_eq!(arrival(b"a", mode, None), expect, "{mode:o}");
    };
    check(0o100_644, &[]);
    check(0o100_755, &[]);
    check(0o160_000, &[]);
    check(0o104_755, &[Concern::SpecialMode]);
    check(0o102_755, &[Concern::SpecialMode]);
    check(0o020_644, &[Concern::SpecialMode]);
}

#[test]
fn several_concerns_of_one_arrival_and_names_that_are_not_text() {
    let found = arrival(b".husky/post-merge", 0o120_000, Some("/bin/sh"));
    assert_eq!(found, [Concern::GitHook, Concern::LinkLeavesTree]);
    assert_eq!(arrival(b"caf\xe9", 0o100_644, None), []);
    assert_eq!(
        arrival(b".vscode/\xff", 0o100_644, None),
        [Concern::EditorTask]
    );
}
