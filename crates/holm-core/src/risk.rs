//! Finds what a person should look at first in the difference between two trees. Names and contents come from
//! inside a workspace, so they are hostile bytes; nothing here is executed or followed.

mod content;

use crate::concern::{self, Arrival, concerns};
use crate::turn::{Discrepancy, DiscrepancyKind};
use content::{install_scripts, is_invisible, lines_added, secret_in};

/// One changed path, with its content as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    pub path: Vec<u8>,
    pub old_mode: Option<u32>,
    /// `None`: deleted.
    pub new_mode: Option<u32>,
    /// Added and removed lines; `None`: binary.
    pub lines: Option<(u64, u64)>,
    /// `None`: too large, or not read.
    pub old: Option<Vec<u8>>,
    /// Of a symlink it is the target.
    pub new: Option<Vec<u8>>,
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Risk {
    /// Empty if the risk is about the whole tree. Bytes that are not UTF-8 are replaced.
    pub path: String,
    pub kind: RiskKind,
    /// What it is, in a few words.
    pub text: String,
}

/// The kind of a risk. Its word is part of `--json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RiskKind {
    /// The layer and git inside differ.
    Differs,
    /// Ignored only by a rule of the workspace.
    Hidden,
    Protected,
    Secret,
    /// Bidirectional or invisible characters.
    Invisible,
    /// A test was deleted.
    Test,
    /// Another workspace, or the branch, changed the same lines.
    Conflict,
    /// A file that a program executes or obeys by itself.
    Concern(concern::Kind),
    Install,
    Lock,
    Exec,
    Link,
    Submodule,
    Nested,
    Unread,
    Deletion,
    Binary,
}

/// How much a risk matters; the first matters most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    High,
    Middle,
    Low,
}

const LINK: u32 = 0o120_000;
const SUBMODULE: u32 = 0o160_000;
const EXECUTABLE: u32 = 0o100_755;

/// A deletion of so many lines, with far fewer added, is worth a look.
const MANY_LINES: u64 = 200;

/// The files named that were not searched; the others are counted.
const MOST_UNSEARCHED: usize = 20;

const LOCK_FILES: [&str; 19] = [
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.lock",
    "cargo.lock",
    "poetry.lock",
    "uv.lock",
    "pipfile.lock",
    "pdm.lock",
    "gemfile.lock",
    "composer.lock",
    "go.sum",
    "mix.lock",
    "pubspec.lock",
    "podfile.lock",
    "flake.lock",
];

/// All risks of a difference, the heaviest first.
pub fn risks(changes: &[Changed], protected: &[String], found: &[Discrepancy]) -> Vec<Risk> {
    let mut risks: Vec<Risk> = found.iter().map(of_discrepancy).collect();
    for change in changes {
        let mut add = |kind: RiskKind, text: String| {
            let path = String::from_utf8_lossy(&change.path).into_owned();
            risks.push(Risk { path, kind, text });
        };
        of_names(change, protected, &mut add);
        of_modes(change, &mut add);
        of_content(change, &mut add);
    }
    risks.extend(unsearched(changes));
    risks.sort_by_key(|risk| risk.kind.weight());
    risks
}

fn of_names(change: &Changed, protected: &[String], add: &mut dyn FnMut(RiskKind, String)) {
    let path = String::from_utf8_lossy(&change.path);
    let is_below = |above: &String| {
        let rest = path.strip_prefix(above.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if protected.iter().any(is_below) {
        add(RiskKind::Protected, "a protected path changed".to_owned());
    }
    if path.chars().any(is_invisible) {
        add(
            RiskKind::Invisible,
            "its name has invisible characters".to_owned(),
        );
    }
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    if LOCK_FILES.contains(&name.as_str()) {
        add(RiskKind::Lock, "lock file".to_owned());
    }
    let (added, removed) = change.lines.unwrap_or_default();
    match change.new_mode {
        None if is_test(&path) => add(RiskKind::Test, format!("test deleted, {removed} lines")),
        None if removed >= MANY_LINES => {
            add(RiskKind::Deletion, format!("deleted, {removed} lines"))
        }
        Some(_) if removed >= MANY_LINES && removed > 3 * added => {
            add(RiskKind::Deletion, format!("{removed} lines deleted"));
        }
        _ => {}
    }
}

fn of_modes(change: &Changed, add: &mut dyn FnMut(RiskKind, String)) {
    let Some(mode) = change.new_mode else { return };
    let arrival = Arrival {
        path: change.path.clone(),
        mode,
        target: change.new.clone().filter(|_| mode == LINK),
    };
    for concern in concerns(&arrival) {
        add(RiskKind::Concern(concern.kind), concern.reason.to_owned());
    }
    let was = |mode: u32| change.old_mode == Some(mode);
    match mode {
        LINK => {
            let target = change.new.as_deref().map(String::from_utf8_lossy);
            add(
                RiskKind::Link,
                format!("link to {}", target.unwrap_or_default()),
            );
        }
        SUBMODULE => add(RiskKind::Submodule, "submodule".to_owned()),
        EXECUTABLE if change.old_mode.is_none() => {
            add(RiskKind::Exec, "new, executable".to_owned())
        }
        EXECUTABLE if !was(EXECUTABLE) => add(RiskKind::Exec, "now executable".to_owned()),
        _ => {}
    }
    if change.lines.is_none() && mode != SUBMODULE {
        add(RiskKind::Binary, "binary".to_owned());
    }
}

fn of_content(change: &Changed, add: &mut dyn FnMut(RiskKind, String)) {
    let (Some(new), Some(_)) = (&change.new, change.lines) else {
        return;
    };
    if change.new_mode == Some(LINK) {
        return;
    }
    let added = lines_added(change.old.as_deref().unwrap_or_default(), new);
    let invisible = added
        .iter()
        .find(|(_, line)| line.chars().any(is_invisible));
    if let Some((number, _)) = invisible {
        let text = format!("bidirectional or invisible characters in line {number}");
        add(RiskKind::Invisible, text);
    }
    let secret = added
        .iter()
        .find_map(|(number, line)| Some((number, secret_in(line)?)));
    if let Some((number, what)) = secret {
        add(
            RiskKind::Secret,
            format!("looks like {what}, line {number}"),
        );
    }
    let name = change
        .path
        .rsplit(|byte| *byte == b'/')
        .next()
        .unwrap_or_default();
    for script in install_scripts(name, &added) {
        add(RiskKind::Install, script);
    }
}

/// New text that was not searched, because the file is too large or there are too many files.
fn unsearched(changes: &[Changed]) -> Vec<Risk> {
    let is_text = |change: &&Changed| {
        change.lines.is_some() && !matches!(change.new_mode, None | Some(LINK | SUBMODULE))
    };
    let changes = changes.iter().filter(is_text);
    let paths: Vec<_> = changes
        .filter(|change| change.new.is_none())
        .map(|change| String::from_utf8_lossy(&change.path).into_owned())
        .collect();
    let why = "not searched for secrets and invisible characters: too much text";
    let risk = |path: String, text: String| Risk {
        path,
        kind: RiskKind::Unread,
        text,
    };
    let more = paths.len().saturating_sub(MOST_UNSEARCHED);
    let named = paths.into_iter().take(MOST_UNSEARCHED);
    let named = named.map(|path| risk(path, why.to_owned()));
    let more = (more > 0).then(|| risk(String::new(), format!("{more} further files were {why}")));
    named.chain(more).collect()
}

/// Whether a path looks like a test.
fn is_test(path: &str) -> bool {
    let lower = path.to_lowercase();
    let mut parts: Vec<&str> = lower.split('/').collect();
    let name = parts.pop().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let in_directory = ["test", "tests", "spec", "specs", "__tests__", "e2e"];
    parts.iter().any(|part| in_directory.contains(part))
        || name.contains(".test.")
        || name.contains(".spec.")
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_spec")
}

fn of_discrepancy(found: &Discrepancy) -> Risk {
    // `12 more paths` is stored as the path of `Unlisted`.
    let number = found.path.split(' ').next().unwrap_or_default();
    let further =
        format!("{number} further differences between the tree and the disk are not listed");
    let (kind, text) = match found.kind {
        DiscrepancyKind::Differs => (
            RiskKind::Differs,
            "git inside recorded other content than the file has",
        ),
        DiscrepancyKind::Invented => (
            RiskKind::Differs,
            "git inside recorded a change that is not there",
        ),
        DiscrepancyKind::Hidden => (
            RiskKind::Hidden,
            "ignored only by a rule that was added inside; not recorded",
        ),
        DiscrepancyKind::Nested => (
            RiskKind::Nested,
            "a repository of its own; its files are not recorded",
        ),
        DiscrepancyKind::Unread => (RiskKind::Unread, "could not be read"),
        DiscrepancyKind::Moving => (RiskKind::Differs, "changed while it was recorded"),
        DiscrepancyKind::TooLarge => (
            RiskKind::Unread,
            "so large that its content was not compared",
        ),
        DiscrepancyKind::Uncompared => (
            RiskKind::Hidden,
            "the layer has too many entries, so holm did not compare the tree with the disk; the tree may lack files",
        ),
        DiscrepancyKind::Unlisted => (RiskKind::Hidden, further.as_str()),
    };
    let is_of_whole_tree = matches!(
        found.kind,
        DiscrepancyKind::Uncompared | DiscrepancyKind::Unlisted
    );
    Risk {
        path: if is_of_whole_tree {
            String::new()
        } else {
            found.path.clone()
        },
        kind,
        text: text.to_owned(),
    }
}

// === impl RiskKind ===

impl RiskKind {
    pub fn as_str(self) -> &'static str {
        match self {
            RiskKind::Differs => "differs",
            RiskKind::Hidden => "hidden",
            RiskKind::Protected => "protected",
            RiskKind::Secret => "secret",
            RiskKind::Invisible => "invisible",
            RiskKind::Test => "test",
            RiskKind::Conflict => "conflict",
            RiskKind::Concern(kind) => kind.as_str(),
            RiskKind::Install => "install",
            RiskKind::Lock => "lock",
            RiskKind::Exec => "exec",
            RiskKind::Link => "link",
            RiskKind::Submodule => "submodule",
            RiskKind::Nested => "nested",
            RiskKind::Unread => "unread",
            RiskKind::Deletion => "deletion",
            RiskKind::Binary => "binary",
        }
    }

    pub fn weight(self) -> Weight {
        match self {
            RiskKind::Differs
            | RiskKind::Hidden
            | RiskKind::Protected
            | RiskKind::Secret
            | RiskKind::Invisible
            | RiskKind::Test => Weight::High,
            RiskKind::Conflict
            | RiskKind::Concern(_)
            | RiskKind::Install
            | RiskKind::Lock
            | RiskKind::Exec
            | RiskKind::Link
            | RiskKind::Submodule
            | RiskKind::Nested
            | RiskKind::Unread => Weight::Middle,
            RiskKind::Deletion | RiskKind::Binary => Weight::Low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, old: &str, new: &str) -> Changed {
        let count = |text: &str| text.lines().count() as u64;
        Changed {
            path: path.as_bytes().to_vec(),
            old_mode: (!old.is_empty()).then_some(0o100_644),
            new_mode: (!new.is_empty()).then_some(0o100_644),
            lines: Some((count(new), count(old))),
            old: Some(old.as_bytes().to_vec()),
            new: (!new.is_empty()).then(|| new.as_bytes().to_vec()),
        }
    }

    #[test]
    fn a_risk_of_the_whole_tree_has_no_path() {
        let of = |path: &str, kind| {
            let path = path.to_owned();
            of_discrepancy(&Discrepancy { path, kind })
        };
        let unlisted = of("12 more paths", DiscrepancyKind::Unlisted);
        assert_eq!(unlisted.path, "");
        assert!(unlisted.text.starts_with("12 further differences"));
        assert_eq!(of(".", DiscrepancyKind::Uncompared).path, "");
        assert_eq!(of("a", DiscrepancyKind::Hidden).path, "a");
    }

    #[test]
    fn text_that_was_not_searched_is_named_or_counted() {
        let large = |number: usize| Changed {
            new: None,
            ..change(&format!("f{number}"), "", "x\n")
        };
        let changes: Vec<Changed> = (0..MOST_UNSEARCHED + 3).map(large).collect();
        let found = risks(&changes, &[], &[]);
        assert_eq!(found.len(), MOST_UNSEARCHED + 1);
        assert_eq!(found[0].path, "f0");
        let more = &found[MOST_UNSEARCHED];
        assert_eq!(more.path, "", "it is about no path");
        assert!(
            more.text.starts_with("3 further files were not searched"),
            "{}",
            more.text
        );
        // A deleted file and a link have no text.
        let deleted = change("gone", "x\n", "");
        let link = Changed {
            new_mode: Some(LINK),
            new: None,
            ..change("link", "", "x\n")
        };
        let found = risks(&[deleted, link], &[], &[]);
        assert!(found.iter().all(|risk| risk.kind != RiskKind::Unread));
    }

    /// The words of the kinds that a change has.
    fn words(change: Changed) -> Vec<&'static str> {
        let protected = ["infra/prod".to_owned()];
        let risks = risks(&[change], &protected, &[]);
        risks.iter().map(|risk| risk.kind.as_str()).collect()
    }

    #[test]
    fn each_kind_is_found_and_ordinary_changes_have_none() {
        let long = "line\n".repeat(300);
        for (path, old, new, expected) in [
            ("src/main.rs", "a\n", "b\n", &[][..]),
            ("infra/prod/db.tf", "a\n", "b\n", &["protected"]),
            ("infra/production.tf", "a\n", "b\n", &[]),
            (".github/workflows/ci.yml", "", "on: push\n", &["ci"]),
            (".husky/pre-commit", "", "npm test\n", &["hook"]),
            ("AGENTS.md", "", "obey\n", &["agent"]),
            ("web/package-lock.json", "{}\n", "{ }\n", &["lock"]),
            ("Cargo.lock", "", "x\n", &["lock"]),
            ("src/a.js", "", "let x = \"\u{202e}\";\n", &["invisible"]),
            ("src/\u{200b}a.js", "", "x\n", &["invisible"]),
            ("src/a.js", "\u{202e}\n", "\u{202e}\nx\n", &[]),
            (
                "key.pem",
                "",
                "-----BEGIN RSA PRIVATE KEY-----\n",
                &["secret"],
            ),
            ("test/login.test.ts", "a\n", "", &["test"]),
            ("src/login_test.go", "a\n", "", &["test"]),
            ("src/old.rs", &long, "", &["deletion"]),
            ("src/big.rs", &long, "x\n", &["deletion"]),
            (
                "package.json",
                "",
                "  \"postinstall\": \"node x.js\"\n",
                &["install"],
            ),
        ] {
            assert_eq!(words(change(path, old, new)), expected, "{path}");
        }
    }

    #[test]
    fn modes_and_binaries_are_risks() {
        let check = |old_mode, new_mode, lines, new: &[u8], expected: &[&str]| {
            let found = words(Changed {
                path: b"tool".to_vec(),
                old_mode,
                new_mode: Some(new_mode),
                lines,
                old: None,
                new: Some(new.to_vec()),
            });
            assert_eq!(found, expected);
        };
        let file = Some(0o100_644);
        check(file, EXECUTABLE, Some((0, 0)), b"x", &["exec"]);
        check(None, EXECUTABLE, Some((1, 0)), b"x", &["exec"]);
        check(Some(EXECUTABLE), EXECUTABLE, Some((1, 0)), b"x", &[]);
        check(None, LINK, Some((1, 0)), b"src/a", &["link"]);
        check(None, LINK, Some((1, 0)), b"/etc/passwd", &["link", "link"]);
        check(file, 0o100_644, None, b"\0", &["binary"]);
        check(None, SUBMODULE, Some((1, 0)), b"", &["submodule"]);
    }

    #[test]
    fn the_heaviest_come_first() {
        let found = [
            Discrepancy {
                path: "x".to_owned(),
                kind: DiscrepancyKind::Hidden,
            },
            Discrepancy {
                path: "lib".to_owned(),
                kind: DiscrepancyKind::Nested,
            },
        ];
        let all = risks(
            &[change("yarn.lock", "", "x\n"), change("tests/a", "x\n", "")],
            &[],
            &found,
        );
        let words: Vec<_> = all.iter().map(|risk| risk.kind.as_str()).collect();
        assert_eq!(words, ["hidden", "test", "nested", "lock"]);
    }
}
