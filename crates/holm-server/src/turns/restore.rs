//! `reset --at @3`: gives the tree of a live workspace the content of an earlier turn. Only the files that
//! differ are written, by git inside; HEAD, branches, the index and the volumes stay. The state before becomes
//! a turn first, so nothing is lost.

use super::Effort;
use crate::App;
use holm_core::turn::TurnNumber;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::{RestoreTree, Stopped, try_blocking};
use holm_git::OBJECTS_INSIDE;

// === impl App ===

impl App {
    /// Returns the number of the turn that has the state before, if there was any change.
    pub async fn restore_turn(
        &self,
        id: &WorkspaceId,
        number: TurnNumber,
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
            match change.new {
                Some(_) => restore.written.push(change.path),
                None => restore.deleted.push(change.path),
            }
            restore.deleted.extend(change.from);
        }
        self.engine.restore_tree(id, restore).await?;
        self.mark_turn(id, Effort::Read).await?;
        Ok(Some(now.number))
    }
}
