//! Finds work in a workspace that the user's repository does not have.
//!
//! Used before a removal. git runs *inside*, where the workspace's configuration can do no harm.
//! Its output comes from a hostile program: its size and time are limited, the engine parses it
//! strictly, and anything unclear counts as unsaved.

use crate::captured::{Aside, Captured};
use crate::engine::MissingObjects;
use crate::inside::{Answer, Question, ask, failed};
use crate::{bridge::blocking, store::WorkspaceRecord};
use holm_core::Fault;
use holm_core::exec::Masking;
use holm_core::head::object_id;
use holm_keeper::client::KeeperClient;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The findings. Empty means that nothing would be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unsaved {
    pub changed: Tally,
    pub untracked: Tally,
    pub stashes: usize,
    /// Refs whose commits the user's repository does not have.
    pub refs: Tally,
    /// How many commits these refs have; `None`: not known.
    pub commits: Option<usize>,
    /// Why the examination failed.
    pub unexamined: Option<String>,
}

/// A count, and the first few names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub count: usize,
    pub names: Vec<String>,
}

const MOST_NAMES: usize = 5;
/// More refs than this are not counted exactly.
const MOST_COUNTED: usize = 200;
const HEAD: &str = "HEAD";
const TIPS: &str = "--format=%(objectname) %(*objectname) %(refname)";
/// git's exit code when it cannot start.
const FATAL: u8 = 128;

/// Finds work that `fetch` or `apply` of a running workspace leaves behind.
pub(crate) async fn aside(
    keeper: &KeeperClient,
    missing_objects: &MissingObjects,
    record: &WorkspaceRecord,
    captured: &Captured,
) -> Result<Aside, Fault> {
    let refs = captured.refs.join(&b'\n');
    let tips = tips_of(&refs, captured.head.clone())?;
    let mut missing = missing_tips(tips, missing_objects, record).await?;
    missing.retain(|(_, name)| name != HEAD);
    if !missing.is_empty() {
        // Refs that HEAD contains are fetched with it. Without a HEAD git fails, and nothing is
        // excluded.
        let arguments = ["for-each-ref", "--no-merged=HEAD", TIPS];
        let apart = git(keeper, "for-each-ref", &arguments).await?;
        if apart.code != FATAL {
            let apart: HashSet<_> = refs_of(&apart.good("for-each-ref")?)?.into_iter().collect();
            missing.retain(|tip| apart.contains(tip));
        }
    }
    let refs = missing.into_iter().map(|(_, name)| name);
    let refs = refs.take(MOST_NAMES).collect();
    Ok(Aside {
        stashes: captured.stashes,
        refs,
    })
}

/// Examines a running workspace.
pub(crate) async fn examine(
    keeper: &KeeperClient,
    missing_objects: &MissingObjects,
    record: &WorkspaceRecord,
) -> Unsaved {
    let examination = async {
        let status = git(keeper, "status", &STATUS).await?;
        let mut unsaved = status_of(&status.good("status")?)?;
        unsaved.stashes = stashes(keeper).await?;
        let tips = tips(keeper).await?;
        let missing = missing_tips(tips.clone(), missing_objects, record).await?;
        for (_, name) in &missing {
            unsaved.refs.add(name.as_bytes());
        }
        if !missing.is_empty() {
            unsaved.commits = commits(keeper, &tips, &missing, record).await;
        }
        Ok(unsaved)
    };
    examination.await.unwrap_or_else(Unsaved::unexamined)
}

const STATUS: [&str; 5] = [
    "status",
    "--porcelain=v1",
    "-z",
    // The repository's own settings could hide untracked files.
    "--untracked-files=normal",
    "--ignore-submodules=none",
];

async fn stashes(keeper: &KeeperClient) -> Result<usize, Fault> {
    let stashes = git(keeper, "stash list", &["stash", "list"]).await?;
    Ok(lines(&stashes.good("stash list")?).count())
}

/// Counts the commits of refs that the user's repository does not have. Commits of other refs, and the commit that the
/// workspace started from, are in that repository. The number is only shown, so a git that does not answer is no
/// obstacle.
async fn commits(
    keeper: &KeeperClient,
    tips: &[(String, String)],
    missing: &[(String, String)],
    record: &WorkspaceRecord,
) -> Option<usize> {
    let objects = |tips: &[(String, String)]| -> Vec<String> {
        let objects = tips.iter().take(MOST_COUNTED);
        objects.map(|(object, _)| object.clone()).collect()
    };
    let known: Vec<_> = tips
        .iter()
        .filter(|tip| !missing.contains(tip))
        .cloned()
        .collect();
    let (missing, known) = (objects(missing), objects(&known));
    let start = record.spec.code.base_commit();
    let mut arguments = vec!["rev-list", "--count"];
    arguments.extend(missing.iter().map(String::as_str));
    arguments.push("--not");
    arguments.extend(known.iter().map(String::as_str).chain(start));
    let counted = git(keeper, "rev-list", &arguments).await.ok()?;
    let counted = counted.good("rev-list").ok()?;
    String::from_utf8(counted).ok()?.trim().parse().ok()
}

/// Refs, and a detached HEAD, whose commits the user's repository does not have.
async fn missing_tips(
    mut tips: Vec<(String, String)>,
    missing_objects: &MissingObjects,
    record: &WorkspaceRecord,
) -> Result<Vec<(String, String)>, Fault> {
    let (project, missing_objects) = (record.project_id.clone(), Arc::clone(missing_objects));
    let objects: Vec<_> = tips.iter().map(|(object, _)| object.clone()).collect();
    let missing = blocking(move || missing_objects(&project, &objects)).await??;
    tips.retain(|(object, _)| missing.contains(object));
    Ok(tips)
}

/// The objects of all refs and of a detached HEAD.
async fn tips(keeper: &KeeperClient) -> Result<Vec<(String, String)>, Fault> {
    let refs = git(keeper, "for-each-ref", &["for-each-ref", TIPS]).await?;
    let refs = refs.good("for-each-ref")?;
    let arguments = ["rev-parse", "--verify", "--quiet", "HEAD"];
    let head = git(keeper, "rev-parse", &arguments).await?;
    // Without a commit there is no HEAD, and git exits with 1.
    let head = if head.code == 1 {
        None
    } else {
        let head = head.good("rev-parse")?;
        let object = lines(&head).next().and_then(object_id);
        Some(object.ok_or_else(|| unknown("rev-parse"))?)
    };
    tips_of(&refs, head)
}

fn tips_of(refs: &[u8], head: Option<String>) -> Result<Vec<(String, String)>, Fault> {
    let mut tips = refs_of(refs)?;
    // Usually HEAD is a branch, which is listed already.
    if let Some(head) = head
        && tips.iter().all(|(tip, _)| *tip != head)
    {
        tips.push((head, HEAD.to_owned()));
    }
    Ok(tips)
}

async fn git(
    keeper: &KeeperClient,
    what: &'static str,
    arguments: &[&str],
) -> Result<Answer, Fault> {
    let words = ["git", "--no-optional-locks", "--no-pager"];
    let words = words.iter().chain(arguments);
    let question = Question {
        what,
        argv: words.map(|word| word.as_bytes().to_vec()).collect(),
        env: Vec::new(),
        input: Vec::new(),
        masking: Masking::Never,
    };
    let keep = |piece: &[u8], kept: &mut Vec<u8>| kept.extend_from_slice(piece);
    ask(keeper, question, keep).await
}

fn unknown(what: &str) -> Fault {
    failed(what, "unknown answer")
}

// === impl Unsaved ===

impl Unsaved {
    pub(crate) fn unexamined(fault: Fault) -> Self {
        Self {
            unexamined: Some(fault.message()),
            ..Self::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there are uncommitted changes, if known.
    pub fn is_dirty(&self) -> Option<bool> {
        match self.unexamined {
            Some(_) => None,
            None => Some(self.changed.count + self.untracked.count > 0),
        }
    }
}

impl Unsaved {
    /// Each kind of work, and where it is.
    fn parts(&self) -> Vec<(String, String)> {
        let mut parts = Vec::new();
        if let Some(why) = &self.unexamined {
            parts.push(("cannot be examined".to_owned(), why.clone()));
        }
        if self.refs.count > 0 {
            let what = match self.commits {
                None | Some(0) => "commits".to_owned(),
                Some(count) => counted(count, "commit"),
            };
            parts.push((what, format!("on {}", self.refs.listed())));
        }
        for (tally, what) in [
            (&self.changed, "changed file"),
            (&self.untracked, "new file"),
        ] {
            if tally.count > 0 {
                parts.push((counted(tally.count, what), tally.listed()));
            }
        }
        match self.stashes {
            0 => {}
            1 => parts.push(("1 stash".to_owned(), "`git stash list` inside".to_owned())),
            more => parts.push((
                format!("{more} stashes"),
                "`git stash list` inside".to_owned(),
            )),
        }
        parts
    }

    /// A table of the findings, one row each.
    pub fn rows(&self) -> String {
        let parts = self.parts();
        let width = parts.iter().map(|(what, _)| what.chars().count());
        let width = width.max().unwrap_or(0);
        let rows = parts
            .iter()
            .map(|(what, names)| format!("  {what:width$}   {names}"));
        rows.collect::<Vec<_>>().join("\n")
    }
}

/// In one line.
impl fmt::Display for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts().into_iter();
        let parts: Vec<String> = parts
            .map(|(what, names)| format!("{what} ({names})"))
            .collect();
        f.write_str(&parts.join(", "))
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

// === impl Tally ===

impl Tally {
    fn add(&mut self, name: &[u8]) {
        self.count += 1;
        if self.names.len() < MOST_NAMES {
            let name = String::from_utf8_lossy(name);
            // Names come from inside: they must not control a terminal or fill a screen.
            let short: String = name.chars().take(80).collect();
            self.names.push(short.escape_debug().to_string());
        }
    }

    fn listed(&self) -> String {
        let mut listed = self.names.join(", ");
        if self.count > self.names.len() {
            listed.push_str(", …");
        }
        listed
    }
}

/// Parses `git status --porcelain=v1 -z`.
pub(crate) fn status_of(output: &[u8]) -> Result<Unsaved, Fault> {
    let unknown = || unknown("status");
    let mut unsaved = Unsaved::default();
    let Some(output) = output.strip_suffix(b"\0") else {
        return if output.is_empty() {
            Ok(unsaved)
        } else {
            Err(unknown())
        };
    };
    let mut fields = output.split(|byte| *byte == 0);
    while let Some(field) = fields.next() {
        let (code, name) = field.split_at_checked(3).ok_or_else(unknown)?;
        match code {
            b"?? " => unsaved.untracked.add(name),
            [b'R' | b'C', _, b' '] | [_, b'R' | b'C', b' '] => {
                fields.next().ok_or_else(unknown)?;
                unsaved.changed.add(name);
            }
            [_, _, b' '] => unsaved.changed.add(name),
            _ => return Err(unknown()),
        }
    }
    Ok(unsaved)
}

/// Parses `objectname *objectname refname` lines: the object of a ref or of the tag in it.
fn refs_of(output: &[u8]) -> Result<Vec<(String, String)>, Fault> {
    let unknown = || unknown("for-each-ref");
    let mut tips = Vec::new();
    for line in lines(output) {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let (direct, peeled) = (words.next(), words.next());
        let name = words.next().ok_or_else(unknown)?;
        let object = peeled.filter(|word| !word.is_empty()).or(direct);
        let object = object.and_then(object_id).ok_or_else(unknown)?;
        // Stashes are counted separately.
        if name != b"refs/stash" {
            let name = String::from_utf8_lossy(name);
            let short = name.strip_prefix("refs/heads/").unwrap_or(&name);
            tips.push((object, short.to_owned()));
        }
    }
    Ok(tips)
}

fn lines(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_status_says() {
        let check = |output: &[u8], expect: Option<&str>| {
            let found = status_of(output).ok().map(|unsaved| unsaved.to_string());
            assert_eq!(found.as_deref(), expect, "{}", output.escape_ascii());
        };
        check(b"", Some(""));
        check(b" M a b\0", Some("1 changed file (a b)"));
        check(
            b"R  new\0old\0?? x\0",
            Some("1 changed file (new), 1 new file (x)"),
        );
        check(
            b"?? 1\0?? 2\0?? 3\0?? 4\0?? 5\0?? 6\0",
            Some("6 new files (1, 2, 3, 4, 5, …)"),
        );
        check(b"?? \x1b[2J\n\0", Some("1 new file (\\u{1b}[2J\\n)"));
        check(b"?? cut", None);
        check(b"R  new\0", None);
        check(b"??\0", None);
        check(b"hello world\0", None);
    }

    #[test]
    fn what_refs_lead_to() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let output = format!(
            "{one}  refs/heads/main\n{one} {two} refs/tags/v1\n{one}  refs/stash\n{two}  refs/x\n"
        );
        let expect = vec![
            (one.clone(), "main".to_owned()),
            (two.clone(), "refs/tags/v1".to_owned()),
            (two, "refs/x".to_owned()),
        ];
        assert_eq!(refs_of(output.as_bytes()).unwrap(), expect);
        for wrong in [
            "x",
            "123  refs/heads/a\n",
            &format!("{one}\n"),
            "--exec=/bin/sh  a\n",
        ] {
            assert!(refs_of(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
