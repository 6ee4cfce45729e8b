//! What in a change from a workspace a person should look at before it reaches a checkout: files
//! that tools execute by themselves, links that leave the tree, bits that give rights.
//!
//! `apply` and `merge` ask before they go on. The names and link targets come from inside, so they
//! are bytes, and nothing about them is believed but what is checked here.

use std::fmt;

/// One entry of a tree that a change would make or alter. What is only deleted executes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub path: Vec<u8>,
    /// As git's trees say it: `0o100644`, `0o120000` and so on.
    pub mode: u32,
    /// Where it leads, of a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// Why an arrival needs a yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Concern {
    GitHook,
    GitAttributes,
    Submodules,
    EditorTask,
    ShellEnvironment,
    AgentSettings,
    ContinuousIntegration,
    /// Not one of the names that git itself refuses, and yet `.git` to some file systems.
    LooksLikeGit,
    LinkLeavesTree,
    LinkIntoGit,
    SpecialMode,
}

/// Files of these names, in any directory.
const NAMES: &[(&str, Concern)] = &[
    (".gitattributes", Concern::GitAttributes),
    (".gitmodules", Concern::Submodules),
    (".pre-commit-config.yaml", Concern::GitHook),
    (".pre-commit-config.yml", Concern::GitHook),
    ("lefthook.yml", Concern::GitHook),
    (".lefthook.yml", Concern::GitHook),
    (".envrc", Concern::ShellEnvironment),
    (".mise.toml", Concern::ShellEnvironment),
    ("mise.toml", Concern::ShellEnvironment),
    (".mcp.json", Concern::AgentSettings),
    (".aider.conf.yml", Concern::AgentSettings),
    (".cursorrules", Concern::AgentSettings),
    (".gitlab-ci.yml", Concern::ContinuousIntegration),
    (".travis.yml", Concern::ContinuousIntegration),
    ("azure-pipelines.yml", Concern::ContinuousIntegration),
    ("bitbucket-pipelines.yml", Concern::ContinuousIntegration),
    ("jenkinsfile", Concern::ContinuousIntegration),
];

/// Everything below directories of these names, in any directory.
const DIRECTORIES: &[(&str, Concern)] = &[
    (".husky", Concern::GitHook),
    (".githooks", Concern::GitHook),
    (".git-hooks", Concern::GitHook),
    (".vscode", Concern::EditorTask),
    (".idea", Concern::EditorTask),
    (".fleet", Concern::EditorTask),
    (".zed", Concern::EditorTask),
    (".devcontainer", Concern::EditorTask),
    (".claude", Concern::AgentSettings),
    (".cursor", Concern::AgentSettings),
    (".codex", Concern::AgentSettings),
    (".gemini", Concern::AgentSettings),
    (".windsurf", Concern::AgentSettings),
    (".circleci", Concern::ContinuousIntegration),
    (".buildkite", Concern::ContinuousIntegration),
];

/// Pairs of directories, one in the other.
const PAIRS: &[(&str, &str, Concern)] = &[
    (".github", "workflows", Concern::ContinuousIntegration),
    (".github", "actions", Concern::ContinuousIntegration),
    (".gitea", "workflows", Concern::ContinuousIntegration),
    (".forgejo", "workflows", Concern::ContinuousIntegration),
];

/// The git types of a tree's entry, without permissions.
const TYPE: u32 = 0o170_000;
const LINK: u32 = 0o120_000;
const MODES: [u32; 5] = [0o100_644, 0o100_664, 0o100_755, LINK, 0o160_000];

/// What a person should look at in one arrival.
pub fn concerns(arrival: &Arrival) -> Vec<Concern> {
    let mut found = Vec::new();
    let parts: Vec<String> = arrival
        .path
        .split(|byte| *byte == b'/')
        // File systems that fold case would fold these names, too.
        .map(|part| String::from_utf8_lossy(part).to_lowercase())
        .collect();
    if parts.iter().any(|part| looks_like_git(part)) {
        found.push(Concern::LooksLikeGit);
    }
    if let Some(concern) = executed(&parts) {
        found.push(concern);
    }
    if !MODES.contains(&arrival.mode) {
        found.push(Concern::SpecialMode);
    }
    if arrival.mode & TYPE == LINK {
        found.extend(link_concern(&parts, arrival.target.as_deref()));
    }
    found
}

fn executed(parts: &[String]) -> Option<Concern> {
    let (name, directories) = parts.split_last()?;
    let by_name = NAMES.iter().find(|(known, _)| known == name);
    // A directory may also arrive as a link or a submodule, which is then the last part.
    let by_directory = DIRECTORIES
        .iter()
        .find(|(known, _)| parts.iter().any(|part| part == known));
    let by_pair = PAIRS.iter().find(|(outer, inner, _)| {
        let within = parts
            .windows(2)
            .any(|two| two[0] == *outer && two[1] == *inner);
        within || (directories.is_empty() && name == outer)
    });
    by_name
        .map(|(_, concern)| *concern)
        .or(by_directory.map(|(_, concern)| *concern))
        .or(by_pair.map(|(_, _, concern)| *concern))
}

/// `.git` as HFS+ (ignored characters), NTFS (trailing dots, short names, streams) and people's
/// eyes would read it. The part is in lower case already.
fn looks_like_git(part: &str) -> bool {
    let visible: String = part.chars().filter(|c| !is_invisible(*c)).collect();
    let stem = visible.split(':').next().unwrap_or_default();
    let stem = stem.trim_end_matches(['.', ' ']);
    stem == ".git" || stem == "git~1"
}

fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}')
}

fn link_concern(parts: &[String], target: Option<&[u8]>) -> Option<Concern> {
    // A link whose target is not known may lead anywhere.
    let Some(target) = target else {
        return Some(Concern::LinkLeavesTree);
    };
    if target.starts_with(b"/") {
        return Some(Concern::LinkLeavesTree);
    }
    let mut place: Vec<String> = parts[..parts.len().saturating_sub(1)].to_vec();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                if place.pop().is_none() {
                    return Some(Concern::LinkLeavesTree);
                }
            }
            part => place.push(String::from_utf8_lossy(part).to_lowercase()),
        }
    }
    let is_git = place.iter().any(|part| looks_like_git(part));
    is_git.then_some(Concern::LinkIntoGit)
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Concern::GitHook => "git hooks run it",
            Concern::GitAttributes => "tells git which filters to run",
            Concern::Submodules => "tells git where to fetch submodules from",
            Concern::EditorTask => "editors run it",
            Concern::ShellEnvironment => "shells run it",
            Concern::AgentSettings => "coding agents obey it",
            Concern::ContinuousIntegration => "continuous integration runs it",
            Concern::LooksLikeGit => "some file systems take it for `.git`",
            Concern::LinkLeavesTree => "a link that leaves the tree",
            Concern::LinkIntoGit => "a link into `.git`",
            Concern::SpecialMode => "has a mode that is not of an ordinary file",
        })
    }
}
