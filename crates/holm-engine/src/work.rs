//! The work done in a workspace, compared with the commit it started from.
//!
//! git runs *inside*, where the workspace's configuration, hooks and filters can do no harm, with a
//! copy of the index: the workspace's own index is unchanged. Its output is displayed or used to
//! request objects, which the host checks again.

use crate::captured::captured;
pub use crate::captured::{Capture, Captured};
use crate::command::Stopped;
use crate::engine::Engine;
use crate::inside::{Question, ask, complaints, failed};
use crate::progress::Progress;
use crate::store::WorkspaceRecord;
use crate::unsaved::aside;
use holm_core::capture::Depth;
use holm_core::exec::{ExecInput, ExecRequest, Masking};
use holm_core::spec::WorkspaceSpec;
use holm_keeper::client::ExecStream;

use holm_core::head::object_id;
use holm_core::tree_change::{TreeChange, tree_changes};
use holm_core::{Fault, WorkspaceId};

/// `$1` is the commit that the workspace started from, or empty; `$2` a commit message, or empty;
/// `$3` a [`Depth`]. Prints a line per recorded file, and then fields that end with a zero byte:
/// head, tree, state, `n` + nested repositories, `u` + uncommitted paths. Then for a tree `i` + ignored
/// paths, unless they are many, and `e` if settings name files outside of the tree; otherwise `r` +
/// each ref with its objects, and an `s` for each stash.
///
/// `git status` scans the tree once; the paths it prints are recorded by name. Only if that fails,
/// because of unreadable files, git scans everything again. Reading files may take long and be
/// interrupted, so the index inside is locked only while the commit is made.
const CAPTURE: &str = r#"
set -eu
umask 077
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git() {
    command git --no-pager -c core.safecrlf=false -c core.fsmonitor=false -c core.untrackedCache=false \
        -c core.splitIndex=false -c advice.addEmbeddedRepo=false -c commit.gpgSign=false \
        -c core.hooksPath=/dev/null "$@"
}
look() {
    git --no-optional-locks status --porcelain=v2 -z --branch --untracked-files=all --no-renames \
        --ignore-submodules=dirty $ignored > "$scratch/status"
    sed -zn 's/^? \(.*\/\)$/\1/p' "$scratch/status" > "$scratch/nested"
    sed -znE '/^\? .*\/$/d;s/^1 ([^ ]+ ){7}//p;t;s/^u ([^ ]+ ){9}//p;t;s/^\? //p' \
        "$scratch/status" > "$scratch/paths"
}
record() {
    git update-index --add --remove --replace --verbose -z --stdin < "$scratch/paths" 2> /dev/null && return
    { printf '.\0'; sed -z 's/^/:(exclude,literal)/' "$scratch/nested"; } > "$scratch/everything"
    git add -A -v --ignore-errors --pathspec-from-file="$scratch/everything" --pathspec-file-nul || [ $? -eq 1 ]
}
copy_index() {
    index=$(git rev-parse --git-path index)
    if [ -f "$index" ]; then cp -p "$index" "$scratch/index"; fi
    export GIT_INDEX_FILE="$scratch/index"
}
ignored=
if [ "$3" = tree ]; then ignored=--ignored=matching; fi
look
if [ -n "$2" ] && [ -s "$scratch/paths" ]; then
    copy_index
    record
    if ! git diff --cached --quiet --ignore-submodules=none; then
        (set -C; : > "$index.lock")
        trap 'rm -rf "$scratch" "$index.lock"' EXIT
        git commit -q --no-verify -m "$2" >&2
        cp -p "$scratch/index" "$index.lock"
        mv "$index.lock" "$index"
        trap 'rm -rf "$scratch"' EXIT
    fi
    unset GIT_INDEX_FILE
    look
fi
head=$(sed -zn 's/^# branch.oid \([0-9a-f]*\)$/\1/p;2q' "$scratch/status" | tr -d '\0')
tree= state=
if [ "$3" = head ]; then
    :
elif [ -n "$head" ] && ! [ -s "$scratch/paths" ]; then
    tree=$(git rev-parse "$head^{tree}")
else
    copy_index
    record
    tree=$(git write-tree)
fi
if [ "$3" = state ]; then
    state=$(GIT_AUTHOR_NAME=holm GIT_AUTHOR_EMAIL=holm GIT_AUTHOR_DATE='@0 +0000' \
        GIT_COMMITTER_NAME=holm GIT_COMMITTER_EMAIL=holm GIT_COMMITTER_DATE='@0 +0000' \
        git commit-tree "$tree" ${1:+-p "$1"} -m 'the state of a workspace')
fi
printf '\0%s\0%s\0%s\0' "$head" "$tree" "$state"
sed -z 's/^/n/' "$scratch/nested"
sed -z 's/^/u/' "$scratch/paths"
if [ "$3" = tree ]; then
    sed -znE 's/^! (.*[^/])\/?$/i\1/p' "$scratch/status" > "$scratch/ignored"
    if [ -s "$scratch/ignored" ] && [ "$(wc -c < "$scratch/ignored")" -le 262144 ]; then cat "$scratch/ignored"; fi
    if git config --get-regexp '^(include(if\..*)?\.path|core\.(excludesfile|attributesfile|worktree))$' > /dev/null; then
        printf 'e\0'
    fi
else
    git for-each-ref --format='r%(objectname) %(*objectname) %(refname)' > "$scratch/refs"
    tr '\n' '\0' < "$scratch/refs"
    if grep -q ' refs/stash$' "$scratch/refs"; then
        git stash list > "$scratch/stashes"
        sed 's/.*/s/' "$scratch/stashes" | tr '\n' '\0'
    fi
fi
"#;

/// The ids of the empty tree, which git knows without storing it.
const EMPTY_SHA1: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const EMPTY_SHA256: &str = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321";

/// Progress is reported after this many files.
const TELL_EVERY: u64 = 100;

// === impl Engine ===

impl Engine {
    /// Writes all files that are not ignored as objects, as far as `depth` says; with a message,
    /// commits them first. Starts a stopped workspace.
    pub async fn capture(
        &self,
        id: &WorkspaceId,
        how: Capture,
        progress: Progress,
    ) -> Result<Captured, Fault> {
        let record = self.work_of(id).await?;
        let is_taken_over = how.depth != Depth::Tree;
        let captured = self.capture_running(id, &record.spec, how, progress);
        let mut captured = captured.await?;
        if is_taken_over {
            let inner = &self.inner;
            let keeper = inner.driver(&record.spec)?.keeper(&record.id);
            captured.aside = aside(&keeper, &inner.missing_objects, &record, &captured).await?;
        }
        Ok(captured)
    }

    /// The same for a running workspace. Callers use
    /// [`capture_running`](Self::capture_running), which knows when nothing changed.
    pub(crate) async fn capture_by_git(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
        how: Capture,
        progress: Progress,
    ) -> Result<Captured, Fault> {
        let Capture { message, depth } = how;
        let start = spec.code.commit.clone().unwrap_or_default();
        let message = message.unwrap_or_default().into_bytes();
        let mut argv: Vec<Vec<u8>> = ["sh", "-c", CAPTURE, "capture"]
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect();
        argv.extend([start.into_bytes(), message, depth.as_str().into()]);
        let question = Question {
            what: "add",
            argv,
            env: identity(spec),
            input: Vec::new(),
            masking: Masking::Never,
        };
        let (mut done, mut is_counting) = (0, true);
        let keeper = self.inner.driver(spec)?.keeper(id);
        let answer = ask(&keeper, question, |piece, kept| {
            let mut piece = piece;
            if is_counting {
                let end = piece.iter().position(|byte| *byte == 0);
                let (names, rest) = piece.split_at(end.unwrap_or(piece.len()));
                let before = done;
                done += names.iter().filter(|byte| **byte == b'\n').count() as u64;
                if done / TELL_EVERY != before / TELL_EVERY {
                    progress.report("reading changed files", done, 0);
                }
                is_counting = end.is_none();
                piece = rest;
            }
            kept.extend_from_slice(piece);
        });
        let answer = answer.await?;
        let mut unread = complaints(&answer.stderr);
        unread.retain(|line| line.starts_with("error:"));
        let fields = answer.good("add")?;
        let captured = captured(&fields, depth);
        let mut captured = captured.ok_or_else(|| failed("add", "unknown answer"))?;
        captured.start = spec.code.commit.clone();
        let dirty = spec.brought.dirty.as_ref();
        captured.dirty_start = dirty.map(|dirty| dirty.worktree_tree.clone());
        captured.unread = unread;
        let is_dirty = !captured.uncommitted.is_empty();
        self.inner.note_dirty(id, is_dirty).await?;
        Ok(captured)
    }

    /// The differences between the workspace's starting commit and a captured tree.
    pub async fn changes(&self, id: &WorkspaceId, tree: &str) -> Result<Vec<TreeChange>, Fault> {
        let spec = self.work_of(id).await?.spec;
        self.changes_between(id, &start_of(&spec), tree).await
    }

    /// The differences between two trees of a running workspace.
    pub(crate) async fn changes_between(
        &self,
        id: &WorkspaceId,
        from: &str,
        to: &str,
    ) -> Result<Vec<TreeChange>, Fault> {
        let flags = ["-z", "-M", "-l1000", "--raw", "--numstat", "--no-abbrev"];
        let question = Question {
            what: "diff-tree",
            argv: diff_tree(&flags, from, to),
            env: Vec::new(),
            input: Vec::new(),
            masking: Masking::Never,
        };
        let keep = |piece: &[u8], kept: &mut Vec<u8>| kept.extend_from_slice(piece);
        let keeper = self.inner.keeper(id).await?;
        let answer = ask(&keeper, question, keep).await?;
        let said = answer.good("diff-tree")?;
        tree_changes(&said).ok_or_else(|| failed("diff-tree", "unknown answer"))
    }

    /// The tree of a commit, as git inside says.
    pub async fn tree_of(&self, id: &WorkspaceId, commit: &str) -> Result<String, Fault> {
        self.work_of(id).await?;
        let words = [
            "git",
            "--no-replace-objects",
            "rev-parse",
            "--verify",
            "--end-of-options",
        ];
        let mut argv: Vec<Vec<u8>> = words.map(|word| word.as_bytes().to_vec()).to_vec();
        argv.push(format!("{commit}^{{tree}}").into_bytes());
        let question = Question {
            what: "rev-parse",
            argv,
            env: Vec::new(),
            input: Vec::new(),
            masking: Masking::Never,
        };
        let keep = |piece: &[u8], kept: &mut Vec<u8>| kept.extend_from_slice(piece);
        let answer = ask(&self.inner.keeper(id).await?, question, keep).await?;
        let said = answer.good("rev-parse")?;
        object_id(said.trim_ascii_end()).ok_or_else(|| failed("rev-parse", "unknown answer"))
    }

    /// The same as a patch from git, with the workspace's secrets masked.
    pub async fn diff(&self, id: &WorkspaceId, tree: &str) -> Result<ExecStream, Fault> {
        let spec = self.work_of(id).await?.spec;
        let flags = ["-p", "-M", "-l1000", "--binary", "--full-index"];
        let request: ExecRequest = Question {
            what: "diff-tree",
            argv: diff_tree(&flags, &start_of(&spec), tree),
            env: Vec::new(),
            input: Vec::new(),
            masking: Masking::Words,
        }
        .request();
        let patch = self.inner.keeper(id).await?.exec(request).await?;
        // A program that git starts inside may wait for input, so stdin is closed. A git that has
        // ended does not need that.
        let _ = patch.input.send(ExecInput::StdinEof).await;
        Ok(patch)
    }

    /// The record of a workspace, started if necessary.
    async fn work_of(&self, id: &WorkspaceId) -> Result<WorkspaceRecord, Fault> {
        self.inner.awaken(id, Stopped::Start).await?;
        self.inner.live(id).await
    }
}

/// Commits inside have the user's identity, whatever the configuration inside says.
pub(crate) fn identity(spec: &WorkspaceSpec) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut env = Vec::new();
    for (value, names) in [
        (
            &spec.code.user_name,
            ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"],
        ),
        (
            &spec.code.user_email,
            ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"],
        ),
    ] {
        let value = value.as_deref().unwrap_or("holm");
        for name in names {
            env.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
    }
    env
}

/// The commit that the workspace started from, or an empty text.
fn start_of(spec: &WorkspaceSpec) -> String {
    let empty = match spec.code.object_format.as_str() {
        "sha256" => EMPTY_SHA256,
        _ => EMPTY_SHA1,
    };
    spec.code.commit.as_deref().unwrap_or(empty).to_owned()
}

fn diff_tree(flags: &[&str], start: &str, tree: &str) -> Vec<Vec<u8>> {
    let plain = ["git", "--no-pager", "-c", "core.quotePath=true", "-c"];
    let plain = plain.iter().chain(&["core.fsmonitor=false", "diff-tree"]);
    let safe = ["-r", "--no-ext-diff", "--no-textconv", "--no-color"];
    let words = plain.chain(&safe).chain(flags);
    let trees = ["--end-of-options", start, tree];
    words
        .chain(&trees)
        .map(|word| word.as_bytes().to_vec())
        .collect()
}
