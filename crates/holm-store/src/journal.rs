//! SQL for the journal of actions. An entry without an outcome is open.

use crate::error::Trouble;
use holm_core::WorkspaceId;
use holm_core::plan::Action;
use holm_engine::store::{EntryId, Outcome};
use jiff::Timestamp;
use rusqlite::{Transaction, params};

/// How many entries of a workspace are kept; older finished ones are deleted when new ones come.
const KEPT: i64 = 64;

pub(crate) fn plan(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    actions: &[Action],
) -> Result<Vec<EntryId>, Trouble> {
    let at = now();
    let mut statement = transaction.prepare_cached(
        "INSERT INTO journal (workspace_id, action, planned_at) VALUES (?1, ?2, ?3)",
    )?;
    let mut entries = Vec::with_capacity(actions.len());
    for action in actions {
        let entry = statement.insert(params![id.as_str(), action.as_str(), at])?;
        entries.push(EntryId(entry));
    }
    transaction
        .prepare_cached(
            "DELETE FROM journal WHERE workspace_id = ?1 AND outcome IS NOT NULL AND entry NOT IN
             (SELECT entry FROM journal WHERE workspace_id = ?1 ORDER BY entry DESC LIMIT ?2)",
        )?
        .execute(params![id.as_str(), KEPT])?;
    Ok(entries)
}

pub(crate) fn end(
    transaction: &Transaction<'_>,
    entry: EntryId,
    outcome: &Outcome,
) -> Result<(), Trouble> {
    let (word, detail) = match outcome {
        Outcome::Done => ("done", None),
        Outcome::Failed(why) => ("failed", Some(why.as_str())),
        Outcome::Dropped => ("dropped", None),
    };
    transaction
        .prepare_cached(
            "UPDATE journal SET outcome = ?2, detail = ?3, ended_at = ?4
             WHERE entry = ?1 AND outcome IS NULL",
        )?
        .execute(params![entry.0, word, detail, now()])?;
    Ok(())
}

pub(crate) fn end_done(transaction: &Transaction<'_>, entries: &[EntryId]) -> Result<(), Trouble> {
    for entry in entries {
        end(transaction, *entry, &Outcome::Done)?;
    }
    Ok(())
}

/// Ends the open entries of a workspace that has reached its goal.
pub(crate) fn end_open(transaction: &Transaction<'_>, id: &WorkspaceId) -> Result<(), Trouble> {
    transaction
        .prepare_cached(
            "UPDATE journal SET outcome = 'done', ended_at = ?2
             WHERE workspace_id = ?1 AND outcome IS NULL",
        )?
        .execute(params![id.as_str(), now()])?;
    Ok(())
}

pub(crate) fn drop_open(transaction: &Transaction<'_>, id: &WorkspaceId) -> Result<(), Trouble> {
    transaction
        .prepare_cached(
            "UPDATE journal SET outcome = 'dropped', ended_at = ?2
             WHERE workspace_id = ?1 AND outcome IS NULL",
        )?
        .execute(params![id.as_str(), now()])?;
    Ok(())
}

fn now() -> String {
    crate::rows::text(Timestamp::now())
}
