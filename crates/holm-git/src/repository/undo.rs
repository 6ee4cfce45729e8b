//! `apply --undo`: plans the way back from the record of an apply ([`super::applied`]).
//!
//! Undoing is an apply in the other direction, with a plan of its own ([`super::journal`]), so it too
//! is carried out completely or not at all. It starts only if every file is as the apply wrote it.

use super::Repository;
use super::applied::{
    EARLIER, UNDOES, WRITTEN, digest_of, entries, kept_slot, read, record_of, write,
};
use super::fetch::shown;
use super::journal::{Journal, Planned};
use super::moves::{Identity, Move, copy};
use super::plan::{DONE, Plan};
use crate::GitError;
use holm_core::WorkspaceId;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

// === impl Repository ===

impl Repository {
    /// Plans to undo the last apply of a workspace here. Returns the number of paths, too. The
    /// checkout stays unchanged. One process, and only if the apply changed submodule pointers.
    pub fn plan_undo(&self, id: &WorkspaceId) -> Result<(Planned, usize), GitError> {
        let record = record_of(self, id);
        if !record.join(DONE).exists() {
            return Err(GitError::NothingToUndo);
        }
        let journal = Journal::begin(self)?;
        let plan = Plan::read_done(&record)?;
        let found = self.as_written(&record, &plan)?;
        let device = journal.make_slots()?;
        let mut moves = Vec::with_capacity(plan.moves.len());
        for (number, (one, old)) in plan.moves.iter().zip(found).enumerate() {
            let mut back = Move {
                path: one.path.clone(),
                place: journal.place_for(&self.toplevel, &one.path, device)?,
                number,
                old,
                new: None,
            };
            if one.old.is_some() {
                let (kept, slot) = (kept_slot(&record, one), back.new_slot());
                // The record stays complete until the undo is done.
                let linked = std::fs::hard_link(&kept, &slot).or_else(|_| copy(&kept, &slot));
                linked.map_err(GitError::file("copy", &kept))?;
                back.new = Identity::of(&slot);
            }
            moves.push(back);
        }
        let count = moves.len();
        write(&journal.directory.join(UNDOES), id.as_str().as_bytes())?;
        let pointers = read(&record.join(EARLIER))?;
        Plan { moves, pointers }.write(&journal.directory)?;
        Ok((Planned::new(self.clone(), journal), count))
    }

    /// The current files of a plan that is done; an error if one differs from what was written.
    fn as_written(&self, record: &Path, plan: &Plan) -> Result<Vec<Option<Identity>>, GitError> {
        let written = read(&record.join(WRITTEN))?;
        let digests = written.split(|byte| *byte == 0);
        let (mut found, mut changed) = (Vec::new(), Vec::new());
        for (one, digest) in plan.moves.iter().zip(digests) {
            let target = self.toplevel.join(&one.path);
            let now = Identity::of(&target);
            let is_same = match (one.new, now) {
                (Some(new), Some(now)) if new == now => true,
                (Some(new), Some(now)) => new.has_mode_of(now) && digest_of(&target)? == digest,
                (new, now) => new.is_none() && now.is_none(),
            };
            if !is_same {
                changed.push(shown(one.path.as_os_str().as_bytes()));
            }
            found.push(now);
        }
        if !plan.pointers.is_empty() {
            let index = self.index()?;
            let now = entries(&index);
            let pointers = entries(&plan.pointers).into_iter();
            let differing = pointers.filter(|(path, entry)| now.get(path) != Some(entry));
            changed.extend(differing.map(|(path, _)| shown(path)));
        }
        if changed.is_empty() {
            Ok(found)
        } else {
            Err(GitError::ChangedSinceApply { paths: changed })
        }
    }
}
