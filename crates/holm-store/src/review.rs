//! SQL for turns, looks, checks and approvals of trees. They go with their workspace.

use crate::error::Trouble;
use crate::rows;
use holm_core::WorkspaceId;
use holm_core::check::CheckState;
use holm_core::turn::TurnCause;
use holm_engine::review::{
    CheckRecord, CommentRecord, Delivered, Look, TreeApproval, TurnFailure, TurnRecord,
};
use holm_engine::run::RunRecord;
use holm_engine::store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::Serialize;
use std::collections::BTreeMap;

pub(crate) const TURN_FAILURE: &str = "workspace_id, at, cause, text";

pub(crate) fn failure(row: &Row<'_>) -> Result<TurnFailure, rusqlite::Error> {
    Ok(TurnFailure {
        workspace: rows::parsed(row, 0, WorkspaceId::parse)?,
        at: rows::parsed(row, 1, rows::timestamp)?,
        cause: rows::parsed(row, 2, |text| TurnCause::parse(text).ok_or("unknown"))?,
        text: row.get(3)?,
    })
}

const TURN: &str = "workspace_id, number, at, cause, tree, details";

pub(crate) fn add_turn(transaction: &Transaction<'_>, turn: &TurnRecord) -> Result<(), Trouble> {
    if crate::workspaces::one(transaction, &turn.workspace)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(turn.workspace.clone()).into());
    }
    transaction.execute(
        "INSERT INTO turns (workspace_id, number, at, cause, tree, details)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            turn.workspace.as_str(),
            turn.number.cast_signed(),
            rows::text(turn.at),
            turn.cause.as_str(),
            turn.tree,
            json(&turn.details)?,
        ],
    )?;
    forget_turn_failure(transaction, &turn.workspace)
}

pub(crate) fn turns(connection: &Connection, id: &WorkspaceId) -> Result<Vec<TurnRecord>, Trouble> {
    let query = format!("SELECT {TURN} FROM turns WHERE workspace_id = ?1 ORDER BY number");
    let mut statement = connection.prepare_cached(&query)?;
    let found = statement.query_map([id.as_str()], record)?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn last_turn(
    connection: &Connection,
    id: &WorkspaceId,
) -> Result<Option<TurnRecord>, Trouble> {
    let query =
        format!("SELECT {TURN} FROM turns WHERE workspace_id = ?1 ORDER BY number DESC LIMIT 1");
    let found = connection.query_row(&query, [id.as_str()], record);
    Ok(found.optional()?)
}

pub(crate) fn save_turn(transaction: &Transaction<'_>, turn: &TurnRecord) -> Result<(), Trouble> {
    transaction.execute(
        "UPDATE turns SET details = ?3 WHERE workspace_id = ?1 AND number = ?2",
        params![
            turn.workspace.as_str(),
            turn.number.cast_signed(),
            json(&turn.details)?
        ],
    )?;
    Ok(())
}

pub(crate) fn forget_surplus(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    kept: u64,
) -> Result<Vec<u64>, Trouble> {
    let numbers = {
        let mut statement = transaction.prepare_cached(
            "SELECT number FROM turns WHERE workspace_id = ?1
               AND number NOT IN (SELECT turn FROM tree_approvals WHERE workspace_id = ?1)
               AND number NOT IN (SELECT turn FROM looks WHERE workspace_id = ?1)
               AND number NOT IN (SELECT turn FROM comments WHERE workspace_id = ?1)
               AND number NOT IN (SELECT turn FROM checks WHERE workspace_id = ?1 AND turn IS NOT NULL)
             ORDER BY number DESC LIMIT -1 OFFSET ?2",
        )?;
        // The last one is always kept.
        let kept = kept.max(1).cast_signed();
        let found = statement.query_map(params![id.as_str(), kept], |row| row.get::<_, i64>(0))?;
        found.collect::<Result<Vec<_>, _>>()?
    };
    for number in &numbers {
        transaction.execute(
            "DELETE FROM turns WHERE workspace_id = ?1 AND number = ?2",
            params![id.as_str(), number],
        )?;
    }
    Ok(numbers.into_iter().map(i64::cast_unsigned).collect())
}

pub(crate) fn note_turn_failure(
    transaction: &Transaction<'_>,
    failure: &TurnFailure,
) -> Result<(), Trouble> {
    // A workspace that was deleted meanwhile has nothing to record.
    transaction.execute(
        "INSERT INTO turn_failures (workspace_id, at, cause, text)
         SELECT id, ?2, ?3, ?4 FROM workspaces WHERE id = ?1
         ON CONFLICT DO UPDATE SET at = excluded.at, cause = excluded.cause, text = excluded.text",
        params![
            failure.workspace.as_str(),
            rows::text(failure.at),
            failure.cause.as_str(),
            failure.text,
        ],
    )?;
    Ok(())
}

pub(crate) fn turn_failure(
    connection: &Connection,
    id: &WorkspaceId,
) -> Result<Option<TurnFailure>, Trouble> {
    let query = format!("SELECT {TURN_FAILURE} FROM turn_failures WHERE workspace_id = ?1");
    let mut statement = connection.prepare_cached(&query)?;
    Ok(statement.query_row([id.as_str()], failure).optional()?)
}

pub(crate) fn forget_turn_failure(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
) -> Result<(), Trouble> {
    let delete = "DELETE FROM turn_failures WHERE workspace_id = ?1";
    transaction.prepare_cached(delete)?.execute([id.as_str()])?;
    Ok(())
}

pub(crate) fn change_comments(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    change: &mut dyn FnMut(&mut Vec<CommentRecord>),
) -> Result<(), Trouble> {
    if crate::workspaces::one(transaction, id)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(id.clone()).into());
    }
    let before = comments(transaction, id)?;
    let mut after = before.clone();
    change(&mut after);
    after.retain(|comment| !before.contains(comment));
    save_comments(transaction, &after)
}

fn save_comments(transaction: &Transaction<'_>, comments: &[CommentRecord]) -> Result<(), Trouble> {
    for comment in comments {
        let details = json(&comment.details)?;
        transaction.execute(
            "INSERT INTO comments (workspace_id, number, turn, details) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET turn = excluded.turn, details = excluded.details",
            params![
                comment.workspace.as_str(),
                comment.number.cast_signed(),
                comment.details.turn.cast_signed(),
                details,
            ],
        )?;
    }
    Ok(())
}

/// Records the comments of a run as delivered to it; `CommentsTaken` if another one got any of them.
pub(crate) fn claim_comments(
    transaction: &Transaction<'_>,
    run: &RunRecord,
) -> Result<(), Trouble> {
    if run.details.comments.is_empty() {
        return Ok(());
    }
    let mut claimed = comments(transaction, &run.workspace)?;
    claimed.retain(|comment| run.details.comments.contains(&comment.number));
    if claimed
        .iter()
        .any(|comment| comment.details.delivered.is_some())
    {
        return Err(StoreError::CommentsTaken(run.workspace.clone()).into());
    }
    for comment in &mut claimed {
        comment.details.delivered = Some(delivered_to(run));
    }
    save_comments(transaction, &claimed)
}

/// The comments of a run that never started wait for the next one.
pub(crate) fn release_comments(
    transaction: &Transaction<'_>,
    run: &RunRecord,
) -> Result<(), Trouble> {
    if run.details.comments.is_empty() {
        return Ok(());
    }
    let mut released = comments(transaction, &run.workspace)?;
    let delivered = Some(delivered_to(run));
    released.retain(|comment| comment.details.delivered == delivered);
    for comment in &mut released {
        comment.details.delivered = None;
    }
    save_comments(transaction, &released)
}

fn delivered_to(run: &RunRecord) -> Delivered {
    Delivered::Run(run.id.to_string())
}

pub(crate) fn comments(
    connection: &Connection,
    id: &WorkspaceId,
) -> Result<Vec<CommentRecord>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT number, details FROM comments WHERE workspace_id = ?1 ORDER BY number",
    )?;
    let found = statement.query_map([id.as_str()], |row| {
        Ok(CommentRecord {
            workspace: id.clone(),
            number: row.get::<_, i64>(0)?.cast_unsigned(),
            details: rows::parsed(row, 1, |text| serde_json::from_str(text))?,
        })
    })?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) const CHECK: &str = "workspace_id, tree, name, key, state, turn, details";

pub(crate) fn save_check(
    transaction: &Transaction<'_>,
    check: &CheckRecord,
) -> Result<(), Trouble> {
    if crate::workspaces::one(transaction, &check.workspace)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(check.workspace.clone()).into());
    }
    transaction.execute(
        "INSERT INTO checks (workspace_id, tree, name, key, state, turn, details)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT DO UPDATE SET key = excluded.key, state = excluded.state,
             turn = excluded.turn, details = excluded.details",
        params![
            check.workspace.as_str(),
            check.tree,
            check.name,
            check.key,
            check.state.as_str(),
            check.turn.map(u64::cast_signed),
            json(&check.details)?,
        ],
    )?;
    Ok(())
}

pub(crate) fn checks_of(
    connection: &Connection,
    id: &WorkspaceId,
    tree: &str,
) -> Result<Vec<CheckRecord>, Trouble> {
    let query =
        format!("SELECT {CHECK} FROM checks WHERE workspace_id = ?1 AND tree = ?2 ORDER BY name");
    let mut statement = connection.prepare_cached(&query)?;
    let found = statement.query_map([id.as_str(), tree], check)?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn open_checks(connection: &Connection) -> Result<Vec<CheckRecord>, Trouble> {
    let query = format!("SELECT {CHECK} FROM checks WHERE state IN ('queued', 'running')");
    let mut statement = connection.prepare_cached(&query)?;
    let found = statement.query_map([], check)?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn check(row: &Row<'_>) -> Result<CheckRecord, rusqlite::Error> {
    Ok(CheckRecord {
        workspace: rows::parsed(row, 0, WorkspaceId::parse)?,
        tree: row.get(1)?,
        name: row.get(2)?,
        key: row.get(3)?,
        state: rows::parsed(row, 4, |text| CheckState::parse(text).ok_or("unknown"))?,
        turn: row.get::<_, Option<i64>>(5)?.map(i64::cast_unsigned),
        details: rows::parsed(row, 6, |text| serde_json::from_str(text))?,
    })
}

pub(crate) fn look(connection: &Connection, id: &WorkspaceId) -> Result<Option<Look>, Trouble> {
    let found = connection.query_row(
        "SELECT turn, tree, at FROM looks WHERE workspace_id = ?1",
        [id.as_str()],
        |row| {
            Ok(Look {
                turn: row.get::<_, i64>(0)?.cast_unsigned(),
                tree: row.get(1)?,
                at: rows::parsed(row, 2, rows::timestamp)?,
            })
        },
    );
    Ok(found.optional()?)
}

pub(crate) fn set_look(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    look: &Look,
    viewed: &[(String, String)],
) -> Result<(), Trouble> {
    if crate::workspaces::one(transaction, id)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(id.clone()).into());
    }
    transaction.execute(
        "INSERT INTO looks (workspace_id, turn, tree, at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET turn = excluded.turn, tree = excluded.tree, at = excluded.at",
        params![
            id.as_str(),
            look.turn.cast_signed(),
            look.tree,
            rows::text(look.at)
        ],
    )?;
    mark_viewed(transaction, id, viewed)
}

pub(crate) fn mark_viewed(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    viewed: &[(String, String)],
) -> Result<(), Trouble> {
    if crate::workspaces::one(transaction, id)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(id.clone()).into());
    }
    for (path, blob) in viewed {
        transaction.execute(
            "INSERT INTO viewed (workspace_id, path, blob) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET blob = excluded.blob",
            params![id.as_str(), path, blob],
        )?;
    }
    Ok(())
}

pub(crate) fn viewed(
    connection: &Connection,
    id: &WorkspaceId,
) -> Result<BTreeMap<String, String>, Trouble> {
    let mut statement =
        connection.prepare_cached("SELECT path, blob FROM viewed WHERE workspace_id = ?1")?;
    let found = statement.query_map([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn approve(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    approval: &TreeApproval,
) -> Result<(), Trouble> {
    if crate::workspaces::one(transaction, id)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(id.clone()).into());
    }
    transaction.execute(
        "INSERT INTO tree_approvals (workspace_id, tree, turn, at, actor, evidence)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            id.as_str(),
            approval.tree,
            approval.turn.cast_signed(),
            rows::text(approval.at),
            approval.actor,
            approval.evidence,
        ],
    )?;
    Ok(())
}

pub(crate) fn approval(
    connection: &Connection,
    id: &WorkspaceId,
) -> Result<Option<TreeApproval>, Trouble> {
    let found = connection.query_row(
        "SELECT tree, turn, at, actor, evidence FROM tree_approvals
         WHERE workspace_id = ?1 ORDER BY place DESC LIMIT 1",
        [id.as_str()],
        |row| {
            Ok(TreeApproval {
                tree: row.get(0)?,
                turn: row.get::<_, i64>(1)?.cast_unsigned(),
                at: rows::parsed(row, 2, rows::timestamp)?,
                actor: row.get(3)?,
                evidence: row.get(4)?,
            })
        },
    );
    Ok(found.optional()?)
}

fn json(details: &impl Serialize) -> Result<String, Trouble> {
    serde_json::to_string(details)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)).into())
}

fn record(row: &Row<'_>) -> Result<TurnRecord, rusqlite::Error> {
    Ok(TurnRecord {
        workspace: rows::parsed(row, 0, WorkspaceId::parse)?,
        number: row.get::<_, i64>(1)?.cast_unsigned(),
        at: rows::parsed(row, 2, rows::timestamp)?,
        cause: rows::parsed(row, 3, |text| TurnCause::parse(text).ok_or("unknown"))?,
        tree: row.get(4)?,
        details: rows::parsed(row, 5, |text| serde_json::from_str(text))?,
    })
}
