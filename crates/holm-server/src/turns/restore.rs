//! `reset --at @3`: gives the tree of a live workspace the content of an earlier turn. Only the files that
//! differ are written, by git inside; HEAD, branches, the index and the volumes stay. The state before becomes
//! a turn first. An ignored file, which no turn has, is replaced only with `--force`.

use super::Effort;
use crate::App;
use crate::work::escaped;
use holm_core::turn::TurnNumber;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::{RestoreTree, Stopped, try_blocking};
use holm_git::OBJECTS_INSIDE;

/// What happens to ignored files in the place of files of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The reset is refused.
    Keep,
    Replace,
}

/// The ignored files that a message names.
const MOST_NAMED: usize = 5;

// === impl App ===

impl App {
    /// Returns the number of the turn that has the state before, if there was any change.
    pub async fn restore_turn(
        &self,
        id: &WorkspaceId,
        number: TurnNumber,
        ignored: Ignored,
    ) -> Result<Option<u64>, Fault> {
        let wanted = self.turn(id, number).await?;
        self.engine.wake(id, Stopped::Start).await?;
        let now = self.mark_turn(id, Effort::Read).await?;
        let now = now.turn.ok_or_else(|| {
            Fault::new(
                Code::Internal,
                "the state of now is not recorded",
                "try again",
            )
        })?;
        if now.tree == wanted.tree {
            return Ok(None);
        }
        let objects = self.turn_objects(id).await?;
        let (from, to) = (now.tree.clone(), wanted.tree.clone());
        let base = self
            .engine
            .spec(id)
            .await?
            .code
            .base_commit()
            .map(str::to_owned);
        let (name, received) = self.uploads.new_file();
        let path = received.path().to_owned();
        let (changes, pack) = try_blocking(move || {
            let changes = objects.changes(Some(&from), &to)?;
            objects.pack(&to, base.as_deref(), &path)?;
            let pack = std::fs::read(&path).map_err(|error| {
                Fault::new(
                    Code::Internal,
                    format!("cannot read the upload {name}"),
                    "try again",
                )
                .because(error)
            })?;
            Ok((changes, pack))
        })
        .await?;
        drop(received);
        let mut restore = RestoreTree {
            tree: wanted.tree,
            objects: OBJECTS_INSIDE.to_owned(),
            pack,
            ..RestoreTree::default()
        };
        for change in changes {
            let is_new = change.old.is_none() || change.from.is_some();
            if change.new.is_none() {
                restore.deleted.push(change.path);
            } else {
                if is_new && ignored == Ignored::Keep {
                    restore.must_be_free.push(change.path.clone());
                }
                restore.written.push(change.path);
            }
            restore.deleted.extend(change.from);
        }
        let in_the_way = self.engine.restore_tree(id, restore).await?;
        if !in_the_way.is_empty() {
            return Err(would_replace(id, number, &in_the_way));
        }
        self.mark_turn(id, Effort::Read).await?;
        Ok(Some(now.number))
    }
}

fn would_replace(id: &WorkspaceId, number: TurnNumber, paths: &[Vec<u8>]) -> Fault {
    let named = paths.iter().take(MOST_NAMED).map(|path| escaped(path));
    let mut named: Vec<String> = named.collect();
    if paths.len() > MOST_NAMED {
        named.push(format!("{} more", paths.len() - MOST_NAMED));
    }
    Fault::new(
        Code::UnsavedWork,
        format!(
            "{number} has files in the place of ignored ones, which no turn has: {}",
            named.join(", ")
        ),
        format!("move them away, or replace them: `holm reset {id} --at {number} --force`"),
    )
}
