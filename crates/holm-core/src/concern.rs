//! Finds what a person should review in a change from a workspace before it reaches a checkout:
//! files that tools execute by themselves ([`files`]), symlinks that leave the tree, and dangerous
//! modes.
//!
//! `apply` and `merge` ask before they continue. Names and symlink targets come from inside, so
//! they are hostile bytes.

mod files;

use files::{ROWS, Row};
use std::fmt;

/// An entry that a change would add or modify. Deletions cannot execute anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub path: Vec<u8>,
    /// The mode in git's trees: `0o100644`, `0o120000` and so on.
    pub mode: u32,
    /// The target of a symlink.
    pub target: Option<Vec<u8>>,
}

/// Why an entry needs the user's consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concern {
    pub kind: Kind,
    /// Which program runs it, or what it does.
    pub reason: &'static str,
}

/// The kind of risk. Its word is part of `--json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Git,
    Hook,
    Agent,
    Editor,
    Shell,
    Package,
    Build,
    Container,
    Ci,
    Link,
    Mode,
}

/// Names that git accepts but that some file systems treat as `.git`.
pub const LOOKS_LIKE_GIT: Concern = Concern {
    kind: Kind::Git,
    reason: "some file systems take it for `.git`",
};
pub const LINK_LEAVES_TREE: Concern = Concern {
    kind: Kind::Link,
    reason: "a link that leaves the tree",
};
pub const LINK_INTO_GIT: Concern = Concern {
    kind: Kind::Link,
    reason: "a link into `.git`",
};
pub const SPECIAL_MODE: Concern = Concern {
    kind: Kind::Mode,
    reason: "has a mode that is not of an ordinary file",
};

/// The file types of git's tree entries, without permissions.
const TYPE: u32 = 0o170_000;
const LINK: u32 = 0o120_000;
const SUBMODULE: u32 = 0o160_000;
const MODES: [u32; 5] = [0o100_644, 0o100_664, 0o100_755, LINK, SUBMODULE];

/// Everything a person should review about one entry.
pub fn concerns(arrival: &Arrival) -> Vec<Concern> {
    let mut found = Vec::new();
    let parts: Vec<String> = arrival
        .path
        .split(|byte| *byte == b'/')
        // Case-folding file systems would fold these names too.
        .map(|part| String::from_utf8_lossy(part).to_lowercase())
        .collect();
    if parts.iter().any(|part| looks_like_git(part)) {
        found.push(LOOKS_LIKE_GIT);
    }
    // A symlink or a submodule brings everything below it.
    let is_directory = matches!(arrival.mode & TYPE, LINK | SUBMODULE);
    let read: Vec<String> = parts.iter().map(|part| as_folded(part)).collect();
    let mut rows = ROWS.iter();
    let row = rows.find(|row| row.matches(&read, is_directory));
    found.extend(row.map(|row| Concern {
        kind: row.kind,
        reason: row.reason,
    }));
    if !MODES.contains(&arrival.mode) {
        found.push(SPECIAL_MODE);
    }
    if arrival.mode & TYPE == LINK {
        found.extend(link_concern(&parts, arrival.target.as_deref()));
    }
    found
}

// === impl Row ===

impl Row {
    fn matches(&self, parts: &[String], is_directory: bool) -> bool {
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| matches(pattern, parts, is_directory))
    }
}

/// Whether a pattern matches a path. `is_directory`: it may contain any file.
fn matches(pattern: &str, parts: &[String], is_directory: bool) -> bool {
    let names = pattern.strip_prefix('/').unwrap_or(pattern);
    let is_whole = !names.ends_with('/');
    let names: Vec<&str> = names.trim_end_matches('/').split('/').collect();
    let last_start = if pattern.starts_with('/') {
        0
    } else {
        parts.len() - 1
    };
    (0..=last_start).any(|start| {
        let rest = &parts[start..];
        let is_like = names
            .iter()
            .zip(rest)
            .all(|(name, part)| is_name(name, part));
        let is_long = if is_whole {
            rest.len() == names.len()
        } else {
            rest.len() >= names.len()
        };
        is_like && (is_long || (is_directory && rest.len() < names.len()))
    })
}

/// Matches a name against a pattern with any number of `*`.
fn is_name(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match name.find(piece) {
            Some(place) => name = &name[place + piece.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

/// Whether HFS+ (ignored characters), NTFS (trailing dots, short names, streams) or a reader would
/// take the name for `.git`. The part must be in lower case.
fn looks_like_git(part: &str) -> bool {
    let stem = as_folded(part);
    stem == ".git" || stem == "git~1"
}

/// A lower-case name as such file systems store or find it.
fn as_folded(part: &str) -> String {
    let visible = part.chars().filter(|c| !is_invisible(*c));
    // Already lower case, but case-folding file systems treat it as an `s`.
    let visible: String = visible.map(|c| if c == 'ſ' { 's' } else { c }).collect();
    let stem = visible.split(':').next().unwrap_or_default();
    stem.trim_end_matches(['.', ' ']).to_owned()
}

fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}')
}

fn link_concern(parts: &[String], target: Option<&[u8]>) -> Option<Concern> {
    // A symlink with an unknown target may point anywhere.
    let Some(target) = target else {
        return Some(LINK_LEAVES_TREE);
    };
    if target.starts_with(b"/") {
        return Some(LINK_LEAVES_TREE);
    }
    let mut place: Vec<String> = parts[..parts.len().saturating_sub(1)].to_vec();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                if place.pop().is_none() {
                    return Some(LINK_LEAVES_TREE);
                }
            }
            part => place.push(String::from_utf8_lossy(part).to_lowercase()),
        }
    }
    let is_git = place.iter().any(|part| looks_like_git(part));
    is_git.then_some(LINK_INTO_GIT)
}

// === impl Kind ===

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Git => "git",
            Kind::Hook => "hook",
            Kind::Agent => "agent",
            Kind::Editor => "editor",
            Kind::Shell => "shell",
            Kind::Package => "package",
            Kind::Build => "build",
            Kind::Container => "container",
            Kind::Ci => "ci",
            Kind::Link => "link",
            Kind::Mode => "mode",
        }
    }
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_like_patterns() {
        for (pattern, name, expect) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a*", "a", true),
            ("*.x", ".x", true),
            ("*.x", "a.y", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "acb", false),
            ("a.y*ml", "a.yml", true),
            ("a.y*ml", "a.yaml", true),
            ("a.y*ml*", "a.yml.dist", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(is_name(pattern, name), expect, "{pattern} {name}");
        }
    }

    #[test]
    fn the_table_is_written_as_it_is_read() {
        let mut seen = std::collections::BTreeSet::new();
        for row in ROWS {
            assert!(!row.reason.is_empty() && !row.patterns.is_empty());
            for pattern in row.patterns {
                assert_eq!(*pattern, pattern.to_lowercase());
                assert!(!pattern.trim_matches(['/', '*']).is_empty(), "{pattern}");
                assert!(seen.insert(pattern), "{pattern} is there twice");
            }
        }
    }
}
