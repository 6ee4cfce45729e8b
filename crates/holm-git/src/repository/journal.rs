//! The directory in which an `apply` is prepared, and the recovery of an apply that was
//! interrupted. Called by [`super::adopt`] and before every use of the checkout.
//!
//! It is `holm-apply` in the work tree's git directory, locked by the process that works in it.
//! Without a `plan` file in it the checkout is untouched and the directory is only rubbish. With
//! one, the plan lists which files are moved out and in ([`super::moves`]). When all moves are done
//! the plan is renamed to `done`, and the directory becomes the record from which `apply --undo`
//! goes back ([`super::applied`]). A plan without a lock holder belongs to a killed apply: it is
//! completed when every file is in place, and undone otherwise.

use super::Repository;
use super::applied;
use super::moves::{Undone, carry_out, is_in_place, is_untouched, undo};
use super::plan::{DONE, PLACES, PLAN, Plan, SLOTS, remove, remove_rubbish};
use crate::GitError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const DIRECTORY: &str = "holm-apply";
const KEPT: &str = "holm-kept";
/// The directory for staged files on another file system than the git directory's.
const ELSEWHERE: &str = ".holm-apply";

/// The result of recovering an interrupted apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Every file was already in place.
    Finished,
    /// The checkout is as before the apply.
    Undone,
    /// As before the apply, except for files that were changed since: they stay as they are, and
    /// their content from before the apply is kept.
    UndoneBut {
        /// The file, and where its earlier content is; `None`: it did not exist.
        changed: Vec<(PathBuf, Option<PathBuf>)>,
    },
}

/// A locked `holm-apply` directory. Dropping it removes the directory, unless a plan, done or not,
/// shows that the checkout was touched.
#[derive(Debug)]
pub(super) struct Journal {
    pub directory: PathBuf,
    lock: File,
}

/// A plan that is on disk and not carried out yet.
#[derive(Debug)]
pub struct Planned {
    repository: Repository,
    journal: Journal,
}

// === impl Repository ===

impl Repository {
    /// Completes or undoes an interrupted apply in this work tree.
    pub fn recover_apply(&self) -> Result<Option<Recovered>, GitError> {
        match Journal::open(&self.git_dir)? {
            Some(journal) => journal.recover(self),
            None => Ok(None),
        }
    }

    /// Carries out the stored plan: completely, or not at all with an error. Runs in a separate
    /// process that inherits the lock from the process that made the plan.
    pub fn carry_out_apply(&self) -> Result<(), GitError> {
        let directory = self.git_dir.join(DIRECTORY);
        let plan = Plan::read(&directory)?;
        if let Err(error) = carry_out(&self.toplevel, &plan.moves) {
            settle_undone(self, &directory, undo(&self.toplevel, &plan.moves)?)?;
            return Err(error);
        }
        self.finish_apply(&directory, &plan)
    }

    /// The last step, when every file is in place. May be repeated.
    fn finish_apply(&self, directory: &Path, plan: &Plan) -> Result<(), GitError> {
        if !plan.pointers.is_empty() {
            self.git("update-index")?
                .args(["-z", "--add", "--index-info"])
                .stdin(plan.pointers.clone())
                .output()?;
        }
        let (from, to) = (directory.join(PLAN), directory.join(DONE));
        std::fs::rename(&from, &to).map_err(GitError::file("rename", &from))?;
        applied::settle(self, directory)
    }
}

// === impl Planned ===

impl Planned {
    pub(super) fn new(repository: Repository, journal: Journal) -> Self {
        Self {
            repository,
            journal,
        }
    }

    /// The lock, for the process that carries the plan out.
    pub fn lock(&self) -> Result<File, GitError> {
        let shared = self.journal.lock.try_clone();
        shared.map_err(GitError::file("share", &self.journal.directory))
    }

    /// Recovers from a plan whose process ended without reporting a result.
    pub fn recover(&self) -> Result<Option<Recovered>, GitError> {
        self.journal.recover(&self.repository)
    }
}

// === impl Journal ===

impl Journal {
    /// Creates a new one. Callers recover an earlier one first, so an existing directory belongs to
    /// a concurrent apply.
    pub fn begin(repository: &Repository) -> Result<Journal, GitError> {
        let directory = repository.git_dir.join(DIRECTORY);
        match std::fs::create_dir(&directory) {
            // Another process was faster and has the lock or is about to take it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(GitError::ApplyUnderWay { directory });
            }
            made => made.map_err(GitError::file("make", &directory))?,
        }
        match Journal::open(&repository.git_dir)? {
            Some(journal) => Ok(journal),
            None => Err(GitError::ApplyUnderWay { directory }),
        }
    }

    /// Locks an existing directory.
    fn open(git_dir: &Path) -> Result<Option<Journal>, GitError> {
        loop {
            let directory = git_dir.join(DIRECTORY);
            let lock = match File::open(&directory) {
                Ok(lock) => lock,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(GitError::file("open", &directory)(error)),
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(GitError::ApplyUnderWay { directory });
                }
                Err(errno) => return Err(GitError::file("lock", &directory)(errno.into())),
            }
            let journal = Journal { directory, lock };
            if journal.is_in_force() {
                return Ok(Some(journal));
            }
        }
    }

    /// Whether the locked directory still has its name: another process may have removed it and
    /// created a new one.
    fn is_in_force(&self) -> bool {
        match (self.lock.metadata(), self.directory.symlink_metadata()) {
            (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }

    /// The directory of staged files on the git directory's own file system.
    pub fn slots(&self) -> PathBuf {
        self.directory.join(SLOTS)
    }

    /// Where the new file for `path` is staged: with the plan, or on the path's own file system.
    /// `device` is the one of the slots.
    pub fn place_for(&self, root: &Path, path: &Path, device: u64) -> Result<PathBuf, GitError> {
        let mut above = path.ancestors().skip(1).map(|parent| root.join(parent));
        let nearest = above.find_map(|parent| Some((parent.metadata().ok()?.dev(), parent)));
        let (found, nearest) = nearest.unwrap_or_else(|| (device, root.to_owned()));
        if found == device {
            return Ok(self.slots());
        }
        let mut top = nearest.as_path();
        while let Some(parent) = top.parent().filter(|parent| parent.starts_with(root)) {
            if parent.metadata().map(|parent| parent.dev()).ok() != Some(found) {
                break;
            }
            top = parent;
        }
        let place = top.join(ELSEWHERE);
        if !place.is_dir() {
            self.note_place(&place)?;
            std::fs::create_dir(&place).map_err(GitError::file("make", &place))?;
        }
        Ok(place)
    }

    /// Creates the directory of staged files, and returns its device.
    pub fn make_slots(&self) -> Result<u64, GitError> {
        let slots = self.slots();
        std::fs::create_dir(&slots).map_err(GitError::file("make", &slots))?;
        let found = slots
            .metadata()
            .map_err(GitError::file("look at", &slots))?;
        Ok(found.dev())
    }

    /// Records a directory on another file system before it is created, so that it is removed with
    /// this one.
    fn note_place(&self, place: &Path) -> Result<(), GitError> {
        let file = self.directory.join(PLACES);
        let mut line = place.as_os_str().as_bytes().to_vec();
        line.push(0);
        let append = || {
            let mut options = OpenOptions::new();
            let mut file = options.append(true).create(true).open(&file)?;
            file.write_all(&line)
        };
        append().map_err(GitError::file("write", &file))
    }

    fn has_plan(&self) -> bool {
        self.directory.join(PLAN).exists()
    }

    fn is_done(&self) -> bool {
        self.directory.join(DONE).exists()
    }

    pub fn recover(&self, repository: &Repository) -> Result<Option<Recovered>, GitError> {
        if self.is_done() {
            applied::settle(repository, &self.directory)?;
            return Ok(Some(Recovered::Finished));
        }
        if !self.has_plan() {
            remove(&self.directory)?;
            return Ok(None);
        }
        let plan = Plan::read(&self.directory)?;
        if is_untouched(&plan.moves) {
            settle_undone(repository, &self.directory, Undone::default())?;
            return Ok(None);
        }
        if is_in_place(&plan.moves) {
            repository.finish_apply(&self.directory, &plan)?;
            return Ok(Some(Recovered::Finished));
        }
        let undone = undo(&repository.toplevel, &plan.moves)?;
        settle_undone(repository, &self.directory, undone).map(Some)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // The process that continued the work may have removed it. The next apply removes what
        // stays.
        if self.is_in_force() && !self.has_plan() && !self.is_done() {
            let _ = remove(&self.directory);
        }
    }
}

/// Ends a plan that was undone. Earlier content that could not be put back is kept.
fn settle_undone(
    repository: &Repository,
    directory: &Path,
    undone: Undone,
) -> Result<Recovered, GitError> {
    if undone.changed.is_empty() {
        let file = directory.join(PLAN);
        std::fs::remove_file(&file).map_err(GitError::file("remove", &file))?;
        remove(directory)?;
        return Ok(Recovered::Undone);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map(|since| since.as_secs()).unwrap_or_default();
    let kept = (0..)
        .map(|number| {
            repository
                .git_dir
                .join(format!("{KEPT}-{seconds}-{number}"))
        })
        .find(|path| !path.exists())
        .unwrap_or_else(|| repository.git_dir.join(KEPT));
    std::fs::rename(directory, &kept).map_err(GitError::file("rename", directory))?;
    let mut changed = undone.changed;
    for (_, place) in &mut changed {
        // Files outside the directory stay where they are.
        if let Some(rest) = place
            .as_ref()
            .and_then(|place| place.strip_prefix(directory).ok())
        {
            *place = Some(kept.join(rest));
        }
    }
    remove_rubbish(&kept);
    Ok(Recovered::UndoneBut { changed })
}
