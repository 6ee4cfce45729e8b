//! Switches the tree of a workspace to another commit, by git *inside*, where its configuration can
//! do no harm. Called by [`moves`](crate::moves) in a running workspace, and by drivers before
//! anything else runs in one.
//!
//! It may be repeated at any time: it waits for a switch under way, does nothing when the tree has
//! the commit, and continues an interrupted one. A mark in `.git` says that a tree may be between
//! two commits; such a tree is recorded before it is replaced.

use crate::inside::{Answer, Question, TIMED_OUT, failed};
use crate::unsaved::{Unsaved, status_of};
use crate::work::identity;
use holm_core::Fault;
use holm_core::exec::{ExecRequest, Masking};
use holm_core::head::object_id;
use holm_core::spec::{Manner, Move, WorkspaceSpec};

/// Whether protected paths are in force: then a switch that would change them is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protected {
    InForce,
    NotYet,
}

/// Whether the move was requested before, so that a tree with its commit has it because of the
/// move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    First,
    Again,
}

/// The result of a switch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Switched {
    /// The tree has the commit.
    There {
        /// The stash with its changes.
        stash: Option<String>,
        /// The commit before, and the changed paths.
        from: Option<String>,
        changed: Vec<String>,
    },
    /// It has the commit and commits of its own.
    Ahead,
    /// It would change protected paths, so it must be done before they are in force.
    Protected {
        stash: Option<String>,
    },
    Refused(Refusal),
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
    Dirty(Unsaved),
    /// A merge, a rebase and so on.
    Underway(String),
    /// Own commits that the new commit does not contain.
    Diverged(u64),
    /// HEAD is not on the workspace's branch.
    Elsewhere(String),
}

/// `$1` commit, `$2` branch, `$3` the name for the earlier state, `$4` a [`Manner`], `$5` the
/// message of the stash, `$6` a [`Time`], then protected paths. Prints fields that end with a zero
/// byte: a word, then its values.
///
/// git prints the progress of a checkout on stderr, so that a long one does not look blocked. git
/// inherits the lock, so the next script waits for a git whose shell was killed.
const SWITCH: &str = r#"
set -eu
commit=$1 branch=$2 before=refs/holm/before/$3 manner=$4 words=$5 time=$6
shift 6
git() {
    command git --no-pager -c core.hooksPath=/dev/null -c core.fsmonitor=false -c commit.gpgSign=false \
        -c advice.detachedHead=false -c submodule.recurse=false "$@"
}
directory=$(git rev-parse --absolute-git-dir)
mark=$directory/holm-move
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
exec 9> "$directory/holm-move.lock"
if command -v flock > /dev/null; then flock 9; fi
if [ -n "${HOLM_SHALLOW-}" ]; then printf '%s\n' "$HOLM_SHALLOW" > "$directory/shallow"; fi
at() { git rev-parse -q --verify "$1^{commit}" || true; }
say_there() {
    from=$(at "$before-head")
    if [ -z "$from" ]; then from=$(at "$before"); fi
    printf 'there\0%s\0%s\0' "$stash" "$from"
    if [ -n "$from" ]; then git diff-tree -r -z --name-only --no-renames "$from" "$commit"; fi
    exit 0
}
look() { git status --porcelain=v1 -z --untracked-files=normal --ignore-submodules=none > "$scratch/status"; }
stash=
head=$(at HEAD)
name=$(git symbolic-ref -q HEAD || true)
if [ -e "$mark" ]; then
    # An earlier switch was cut off. The process that had the index is gone, or gets time to end.
    patience=50
    while [ -e "$directory/index.lock" ] && [ $patience -gt 0 ]; do sleep 0.1; patience=$((patience - 1)); done
    rm -f "$directory/index.lock"
    if [ -e "$directory/index" ]; then cp -p "$directory/index" "$scratch/index"; fi
    export GIT_INDEX_FILE="$scratch/index"
    git add -A --ignore-errors 2> /dev/null || true
    found=$(git write-tree)
    unset GIT_INDEX_FILE
    if [ -n "$head" ] && [ "$found" != "$(git rev-parse "$head^{tree}")" ] && [ "$found" != "$(git rev-parse "$commit^{tree}")" ]; then
        kept=$(git commit-tree "$found" -p "$head" -m 'what lay there when a move was taken up again')
        git update-ref "$before-found" "$kept"
    fi
    git checkout --progress -f --no-track -B "$branch" "$commit" -- >&2
    rm -f "$mark"
    say_there
fi
is_there=
if [ "$name" = "refs/heads/$branch" ] && [ "$head" = "$commit" ]; then is_there=yes; fi
# A move that is only asked for refuses or stashes changes, also where nothing is to be switched.
if [ -n "$is_there" ] && { [ "$manner" = forward ] || [ "$time" = again ]; }; then say_there; fi
for file in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply BISECT_LOG; do
    if [ -e "$directory/$file" ]; then printf 'underway\0%s\0' "$file"; exit 0; fi
done
if [ "$manner" = forward ]; then
    if [ "$name" != "refs/heads/$branch" ]; then printf 'elsewhere\0%s\0' "${name:-HEAD}"; exit 0; fi
    if [ -n "$head" ] && git merge-base --is-ancestor "$commit" "$head"; then printf 'ahead\0'; exit 0; fi
    if [ -n "$head" ] && ! git merge-base --is-ancestor "$head" "$commit"; then
        printf 'diverged\0%s\0' "$(git rev-list --count "$commit..$head")"
        exit 0
    fi
fi
look
if [ -s "$scratch/status" ] && [ "$manner" = stash ]; then
    git stash push -q --include-untracked -m "$words" >&2
    stash=$(git rev-parse -q --verify refs/stash)
    look
fi
if [ -s "$scratch/status" ]; then printf 'dirty\0'; cat "$scratch/status"; exit 0; fi
if [ -n "$is_there" ]; then say_there; fi
if [ $# -gt 0 ] && [ -n "$head" ] &&
    [ -n "$(git --literal-pathspecs diff-tree -r --name-only "$head" "$commit" -- "$@" | head -c 1)" ]; then
    printf 'protected\0%s\0' "$stash"
    exit 0
fi
old=$(at "refs/heads/$branch")
if [ -n "$old$head" ]; then git update-ref "$before" "${old:-$head}"; fi
if [ -n "$old" ] && [ -n "$head" ] && [ "$old" != "$head" ]; then git update-ref "$before-head" "$head"; fi
printf '%s\n' "$commit" > "$mark"
if git checkout --progress --no-track -B "$branch" "$commit" -- >&2; then
    rm -f "$mark"
    say_there
fi
# Back to where it was: a file that only the new commit has, and that was not there, goes again.
look
if [ -s "$scratch/status" ] && [ -n "$head" ]; then
    git reset -q --hard "$head" >&2
    git diff-tree -r -z --name-only --no-renames --diff-filter=A "$head" "$commit" | xargs -0r rm -f --
    look
fi
if [ -s "$scratch/status" ]; then exit 3; fi
rm -f "$mark"
exit 1
"#;

/// Going back failed too.
const TORN: u8 = 3;
/// git's exit code when it cannot start; higher codes are signals.
const FATAL: u8 = 128;

/// The most paths that are read.
const MOST_CHANGED: usize = 1_000_000;

/// The command that switches the tree.
pub fn request(spec: &WorkspaceSpec, moving: &Move, protected: Protected) -> ExecRequest {
    question(spec, moving, protected, Time::Again).request()
}

pub(crate) fn question(
    spec: &WorkspaceSpec,
    moving: &Move,
    protected: Protected,
    time: Time,
) -> Question {
    let time = match time {
        Time::First => "first",
        Time::Again => "again",
    };
    let manner = match moving.manner {
        Manner::Refuse => "refuse",
        Manner::Stash => "stash",
        Manner::Forward => "forward",
    };
    let to = moving.ref_name.as_deref().unwrap_or(&moving.commit);
    let (branch, words) = (branch(spec), format!("holm: before the move to {to}"));
    let mut words: Vec<&str> = vec![
        "sh",
        "-c",
        SWITCH,
        "switch",
        &moving.commit,
        &branch,
        &moving.at,
        manner,
        &words,
        time,
    ];
    if protected == Protected::InForce {
        words.extend(spec.protected_paths.iter().map(String::as_str));
    }
    let argv = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut env = identity(spec);
    if !moving.shallow.is_empty() {
        let lines = moving.shallow.join("\n");
        env.push((b"HOLM_SHALLOW".to_vec(), lines.into_bytes()));
    }
    Question {
        what: "checkout",
        argv,
        env,
        input: Vec::new(),
        masking: Masking::Never,
    }
}

/// The branch of a workspace, which has the label at creation.
pub(crate) fn branch(spec: &WorkspaceSpec) -> String {
    format!("holm/{}", spec.label)
}

/// Whether a failed switch may have left the tree between two commits: it was killed, or says so.
pub(crate) fn is_torn(code: u8) -> bool {
    code == TORN || code == TIMED_OUT || code > FATAL
}

/// Parses the output of [`SWITCH`].
pub(crate) fn switched(answer: Answer) -> Result<Switched, Fault> {
    let said = answer.good("checkout")?;
    understood(&said).ok_or_else(|| failed("checkout", "unknown answer"))
}

fn understood(said: &[u8]) -> Option<Switched> {
    let end = said.iter().position(|byte| *byte == 0)?;
    let (word, rest) = (&said[..end], &said[end + 1..]);
    if word == b"dirty" {
        let unsaved = status_of(rest).ok()?;
        return (!unsaved.is_empty()).then_some(Switched::Refused(Refusal::Dirty(unsaved)));
    }
    let mut fields: Vec<&[u8]> = rest.split(|byte| *byte == 0).collect();
    // Every field ends with a zero byte.
    fields.pop().filter(|last| last.is_empty())?;
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let short: String = text.chars().take(200).collect();
        short.escape_debug().to_string()
    };
    let object = |bytes: &[u8]| match bytes {
        b"" => Some(None),
        word => object_id(word).map(Some),
    };
    match (word, fields.as_slice()) {
        (b"there", [stash, from, changed @ ..]) if changed.len() <= MOST_CHANGED => {
            let changed = changed.iter();
            Some(Switched::There {
                stash: object(stash)?,
                from: object(from)?,
                changed: changed
                    .map(|path| String::from_utf8_lossy(path).into_owned())
                    .collect(),
            })
        }
        (b"ahead", []) => Some(Switched::Ahead),
        (b"protected", [stash]) => Some(Switched::Protected {
            stash: object(stash)?,
        }),
        (b"underway", [what]) => Some(Switched::Refused(Refusal::Underway(text(what)))),
        (b"elsewhere", [name]) => Some(Switched::Refused(Refusal::Elsewhere(text(name)))),
        (b"diverged", [count]) => {
            let count = std::str::from_utf8(count).ok()?.parse().ok()?;
            Some(Switched::Refused(Refusal::Diverged(count)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_switch_says() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let check = |said: &str, expect: Option<Switched>| {
            assert_eq!(understood(said.as_bytes()), expect, "{said:?}");
        };
        let there = |stash: Option<&str>, from: Option<&str>, changed: &[&str]| {
            Some(Switched::There {
                stash: stash.map(str::to_owned),
                from: from.map(str::to_owned),
                changed: changed.iter().map(|path| (*path).to_owned()).collect(),
            })
        };
        check("there\0\0\0", there(None, None, &[]));
        check(
            &format!("there\0{one}\0{two}\0a\nb\0c d\0"),
            there(Some(&one), Some(&two), &["a\nb", "c d"]),
        );
        check("protected\0\0", Some(Switched::Protected { stash: None }));
        check("ahead\0", Some(Switched::Ahead));
        let diverged = Refusal::Diverged(3);
        check("diverged\x003\0", Some(Switched::Refused(diverged)));
        let underway = Refusal::Underway("rebase-merge".to_owned());
        check(
            "underway\0rebase-merge\0",
            Some(Switched::Refused(underway)),
        );
        for wrong in [
            "",
            "there",
            "there\0\0",
            "there\0--exec=x\0\0",
            "there\0\0\0cut",
            "dirty\0",
            "dirty\0x",
            "diverged\0many\0",
            "else\0",
        ] {
            check(wrong, None);
        }
        let dirty = understood(b"dirty\0?? new\0").unwrap();
        assert!(matches!(dirty, Switched::Refused(Refusal::Dirty(_))));
    }
}
