//! Texts about a move: why it was refused, what is unfinished, and what to type.

use crate::store::WorkspaceRecord;
use crate::switch::{Refusal, branch};
use holm_core::spec::Manner;
use holm_core::{Code, Fault};

pub(super) fn refused(record: &WorkspaceRecord, refusal: Refusal) -> Fault {
    let (id, label) = (&record.id, &record.label);
    let moving = record.spec.moving.as_ref();
    let to = moving.map_or("", |moving| {
        moving.ref_name.as_deref().unwrap_or(&moving.commit)
    });
    let is_sync = moving.is_some_and(|moving| moving.manner == Manner::Forward);
    match refusal {
        Refusal::Dirty(unsaved) => Fault::new(
            Code::UnsavedWork,
            format!("workspace `{label}` has changes that are not committed: {unsaved}"),
            if is_sync {
                format!("commit them: `holm fetch {id} --commit MESSAGE`; or take them back")
            } else {
                format!(
                    "`holm assign {id} {to} --stash` keeps them as a stash; \
                     `holm fetch {id} --commit MESSAGE` commits them"
                )
            },
        ),
        Refusal::Underway(what) => Fault::new(
            Code::Refused,
            format!("git is in the middle of something in workspace `{label}` ({what})"),
            format!("end it first: `holm exec {id} -- git status` says how"),
        ),
        Refusal::Diverged(count) => {
            let commits = match count {
                1 => "a commit".to_owned(),
                count => format!("{count} commits"),
            };
            Fault::new(
                Code::Refused,
                format!("workspace `{label}` has {commits} that `{to}` does not have"),
                format!(
                    "`holm exec {id} -- git rebase {}` brings them on top; `holm assign {id} {to}` \
                     leaves them behind, under refs/holm/before",
                    moving.map_or("", |moving| &moving.commit)
                ),
            )
        }
        Refusal::Elsewhere(name) => Fault::new(
            Code::Refused,
            format!("workspace `{label}` is at `{name}`, not on its own branch"),
            format!(
                "`holm exec {id} -- git switch {}` goes back to it; `holm assign {id} {to}` moves it",
                branch(&record.spec)
            ),
        ),
    }
}

pub(super) fn not_switched(record: &WorkspaceRecord) -> Fault {
    let label = &record.label;
    Fault::new(
        Code::GitFailed,
        format!(
            "the tree of workspace `{label}` could not be switched, although it was started anew"
        ),
        format!("look inside: `holm exec {} -- git status`", record.id),
    )
}

fn again(record: &WorkspaceRecord) -> String {
    let code = &record.spec.code;
    let to = code.ref_name.as_ref().or(code.commit.as_ref());
    let to = to.map_or("", String::as_str);
    format!("holm assign {} {to}", record.id)
}

pub(super) fn to_be_repeated(record: &WorkspaceRecord, fault: Fault) -> Fault {
    let again = again(record);
    let message = format!(
        "the tree of `{}` was switched, but not all that follows is done",
        record.label
    );
    let hint = format!(
        "services go on as before; `{again}` tries the rest again. {}",
        fault.hint
    );
    Fault::new(fault.code, message, hint).because(fault)
}

pub(super) fn set_up_cancelled(record: &WorkspaceRecord) -> Fault {
    let fault = Fault::new(Code::Cancelled, "its set-up was interrupted", "");
    to_be_repeated(record, fault)
}
