//! Errors of git operations and how users see them. Everything public in this crate fails with
//! [`GitError`]; its callers turn it into a [`Fault`].

use crate::version::{MINIMUM_VERSION, Version};
use holm_core::turn::UNAPPROVED;
use holm_core::{Code, Fault};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is missing")]
    Missing,
    #[error("git {found} is too old, holm needs {MINIMUM_VERSION}")]
    TooOld { found: Version },
    #[error("{} is not in a git repository", path.display())]
    NotARepository { path: PathBuf },
    #[error("git does not trust the owner of the repository at `{}`", path.display())]
    DubiousOwnership { path: PathBuf },
    #[error("the repository has no commit `{}`", name.escape_debug())]
    RefNotFound {
        name: String,
        nearest: Option<String>,
    },
    #[error("`{}` points to {object}, which was not sent", reference.escape_debug())]
    MissingObject { reference: String, object: String },
    #[error("`{}` cannot be a ref of a project", name.escape_debug())]
    InvalidRef { name: String },
    #[error("`{text}` is not an object id")]
    InvalidObjectId { text: String },
    #[error("the repository uses {found} and the project was started with {expected}")]
    ObjectFormat { expected: String, found: String },
    #[error("pack files of `{}` cannot be linked", path.display())]
    LinkUnavailable { path: PathBuf, source: io::Error },
    #[error("`git {command}` failed: {detail}")]
    Failed { command: String, detail: String },
    #[error("`git {command}` answered in an unexpected way: {answer}")]
    Unexpected { command: String, answer: String },
    #[error("cannot run `git {command}`")]
    Spawn { command: String, source: io::Error },
    #[error("cannot {action} `{}`", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the branch `{branch}` is checked out at `{}`", path.display())]
    BranchCheckedOut {
        branch: String,
        path: PathBuf,
        id: String,
    },
    #[error("the branch `{branch}` was not written last by this workspace")]
    BranchTaken { branch: String, id: String },
    #[error("uncommitted changes are in the way: {}", paths.join(", "))]
    InTheWay { paths: Vec<String> },
    #[error("the change does not fit your checkout: {}", paths.join(", "))]
    DoesNotApply { paths: Vec<String> },
    #[error("no apply of this workspace can be undone here")]
    NothingToUndo,
    #[error("files differ from what apply wrote:\n  {}", paths.join("\n  "))]
    ChangedSinceApply { paths: Vec<String> },
    #[error("another `holm apply` is at work in this checkout (`{}`)", directory.display())]
    ApplyUnderWay { directory: PathBuf },
    #[error("`{branch}` is merged but for conflicts: {}", conflicts.join("; "))]
    MergeConflict {
        branch: String,
        conflicts: Vec<String>,
    },
    #[error("the tree is {}, and {} was approved", short(tree), short(approved))]
    NotApproved { tree: String, approved: String },
    #[error("git cannot read {url}: {detail}")]
    Remote { url: String, detail: String },
    #[error("the operation was cancelled")]
    Cancelled,
}

// === impl GitError ===

impl GitError {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GitError {
        let path = path.to_owned();
        move |source| GitError::File {
            action,
            path,
            source,
        }
    }

    pub(crate) fn unexpected(command: &str, answer: &[u8]) -> GitError {
        let answer = String::from_utf8_lossy(answer);
        GitError::Unexpected {
            command: command.to_owned(),
            answer: answer.chars().take(200).collect::<String>(),
        }
    }

    fn code(&self) -> Code {
        match self {
            GitError::Missing | GitError::TooOld { .. } => Code::GitTooOld,
            GitError::NotARepository { .. } => Code::NotARepository,
            GitError::RefNotFound { .. } => Code::RefNotFound,
            GitError::InvalidRef { .. } | GitError::InvalidObjectId { .. } => Code::BadRequest,
            GitError::BranchCheckedOut { .. }
            | GitError::BranchTaken { .. }
            | GitError::NothingToUndo
            | GitError::ApplyUnderWay { .. } => Code::Refused,
            GitError::InTheWay { .. } | GitError::ChangedSinceApply { .. } => Code::DirtyCheckout,
            GitError::DoesNotApply { .. } => Code::DoesNotApply,
            GitError::NotApproved { .. } => Code::NotApproved,
            GitError::Failed { detail, .. } if detail.contains(UNAPPROVED) => Code::NotApproved,
            GitError::Cancelled => Code::Cancelled,
            GitError::Remote { detail, .. } if is_for_want_of_room(detail) => Code::DiskFull,
            GitError::Remote { .. } => Code::RemoteFailed,
            GitError::Failed { detail, .. } if is_for_want_of_room(detail) => Code::DiskFull,
            GitError::Failed { detail, .. } if detail.contains("Read-only file system") => {
                Code::ReadOnly
            }
            GitError::File { source, .. } | GitError::Spawn { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::DiskFull,
                io::ErrorKind::ReadOnlyFilesystem => Code::ReadOnly,
                _ => Code::GitFailed,
            },
            GitError::DubiousOwnership { .. }
            | GitError::MissingObject { .. }
            | GitError::ObjectFormat { .. }
            | GitError::LinkUnavailable { .. }
            | GitError::MergeConflict { .. }
            | GitError::Failed { .. }
            | GitError::Unexpected { .. } => Code::GitFailed,
        }
    }

    fn hint(&self) -> String {
        match self {
            GitError::Missing => format!("install git {MINIMUM_VERSION} or newer"),
            GitError::TooOld { .. } => {
                format!("update git to {MINIMUM_VERSION} or newer; `git --version` shows it")
            }
            GitError::NotARepository { .. } => {
                "go to a project: `cd ~/src/PROJECT`\nmake one here: `git init`".to_owned()
            }
            GitError::DubiousOwnership { path } => format!(
                "if it is yours: `git config --global --add safe.directory '{}'`",
                path.display()
            ),
            GitError::RefNotFound {
                nearest: Some(nearest),
                ..
            } => format!("did you mean `{nearest}`? all branches: `git branch -a`"),
            GitError::RefNotFound { nearest: None, .. } => {
                "`git branch -a` lists the branches; `git fetch` brings new ones".to_owned()
            }
            GitError::MissingObject { .. } => {
                "`git fsck` in your repository shows what is missing there".to_owned()
            }
            GitError::ObjectFormat { .. } => {
                "`git config --unset holm.projectId` makes it a project of its own".to_owned()
            }
            GitError::BranchCheckedOut { id, .. } => {
                format!("switch to another branch, or take it over: `git merge refs/holm/{id}`")
            }
            GitError::BranchTaken { id, .. } => format!(
                "the commits are at `refs/holm/{id}`; `git branch NAME refs/holm/{id}` names them"
            ),
            GitError::InTheWay { .. } => {
                "commit or stash them (`git stash -u`), then try again".to_owned()
            }
            GitError::DoesNotApply { .. } => {
                "nothing was changed; `holm fetch` brings the branch, and `git merge` shows the \
                 conflicts"
                    .to_owned()
            }
            GitError::NothingToUndo => {
                "holm keeps the last apply of each workspace for 7 days; `git diff` shows what is \
                 uncommitted"
                    .to_owned()
            }
            GitError::ChangedSinceApply { .. } => {
                "nothing was changed; `git diff` shows what you have in them".to_owned()
            }
            GitError::ApplyUnderWay { .. } => "wait for it, then try again".to_owned(),
            GitError::MergeConflict { .. } => {
                "resolve them and `git commit`, or go back with `git merge --abort`".to_owned()
            }
            _ if self.code() == Code::NotApproved => "read it: `holm review WS --mark`\n\
                 approve it: `holm approve WS`\n\
                 fetch and merge take commits only: `holm fetch WS --commit \"…\"`"
                .to_owned(),
            GitError::Cancelled => "type the command again to start over".to_owned(),
            GitError::Remote { url, detail } if detail.contains("error: 30") => format!(
                "the server leads elsewhere; `git ls-remote {url}` shows where, often the same with `.git`"
            ),
            GitError::Remote { url, .. } if self.code() == Code::RemoteFailed => format!(
                "does `git ls-remote {url}` work? holm asks for no password: a credential helper or an \
                 ssh agent has to have it"
            ),
            GitError::InvalidRef { .. } | GitError::InvalidObjectId { .. } => {
                "send names as `git for-each-ref` prints them".to_owned()
            }
            _ if self.code() == Code::DiskFull => {
                "make room on the disk, then type the command again".to_owned()
            }
            _ => "`git fsck` checks the repository; `holm doctor` checks this machine".to_owned(),
        }
    }
}

/// The first digits of an object's id.
fn short(object: &str) -> &str {
    &object[..object.len().min(7)]
}

/// Whether the message, by the kernel or by git, means that the disk is full.
fn is_for_want_of_room(detail: &str) -> bool {
    let words = ["No space left on device", "Out of diskspace"];
    words.iter().any(|word| detail.contains(word))
}

impl From<GitError> for Fault {
    fn from(error: GitError) -> Fault {
        let (code, hint) = (error.code(), error.hint());
        Fault::of(code, error, hint)
    }
}
