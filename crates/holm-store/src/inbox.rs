//! SQL for the inbox: notices, open items, and what the inbox needs to know of all live workspaces.

use crate::error::Trouble;
use crate::review::{CHECK, TURN_FAILURE, check, failure};
use crate::rows;
use holm_core::run::RunState;
use holm_core::{RunId, WorkspaceId};
use holm_engine::inbox::{
    InboxRecords, LastRun, NOTICES_KEPT, NoticeRecord, OpenItem, UnreadTurns,
};
use holm_engine::review::{CommentRecord, Look, TurnDetails};
use holm_engine::store::StoreError;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::collections::HashMap;

type All = HashMap<WorkspaceId, InboxRecords>;

pub(crate) fn add_notice(
    transaction: &Transaction<'_>,
    notice: &NoticeRecord,
) -> Result<(), Trouble> {
    let id = notice.workspace.as_str();
    if crate::workspaces::one(transaction, &notice.workspace)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(notice.workspace.clone()).into());
    }
    transaction
        .prepare_cached(
            "INSERT INTO notices (workspace_id, at, source, text, left_out)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            id,
            rows::text(notice.at),
            notice.source,
            notice.text,
            notice.left_out.cast_signed(),
        ])?;
    transaction
        .prepare_cached(
            "DELETE FROM notices WHERE workspace_id = ?1 AND place NOT IN
             (SELECT place FROM notices WHERE workspace_id = ?1 ORDER BY place DESC LIMIT ?2)",
        )?
        .execute(params![id, NOTICES_KEPT.cast_signed()])?;
    Ok(())
}

/// All queries see the same state, and the file is locked once.
pub(crate) fn records(connection: &Connection) -> Result<All, Trouble> {
    let transaction = connection.unchecked_transaction()?;
    let connection: &Connection = &transaction;
    let mut all = All::new();
    add_looks(connection, &mut all)?;
    add_unread(connection, &mut all)?;
    add_runs(connection, &mut all)?;
    add_notices(connection, &mut all)?;
    add_comments(connection, &mut all)?;
    add_checks(connection, &mut all)?;
    add_conflicts(connection, &mut all)?;
    add_forbidden(connection, &mut all)?;
    add_opened(connection, &mut all)?;
    add_turn_failures(connection, &mut all)?;
    Ok(all)
}

pub(crate) fn change_open(
    transaction: &Transaction<'_>,
    open: &[OpenItem],
    closed: &[OpenItem],
) -> Result<(), Trouble> {
    for item in closed {
        transaction
            .prepare_cached("DELETE FROM open_items WHERE workspace_id = ?1 AND cause = ?2")?
            .execute(params![item.workspace.as_str(), item.cause])?;
    }
    for item in open {
        // A workspace that was deleted meanwhile has no items.
        transaction
            .prepare_cached(
                "INSERT INTO open_items (workspace_id, cause, reason, opened_at, since)
                 SELECT id, ?2, ?3, ?4, ?5 FROM workspaces WHERE id = ?1
                 ON CONFLICT DO UPDATE SET reason = excluded.reason,
                     opened_at = excluded.opened_at, since = excluded.since",
            )?
            .execute(params![
                item.workspace.as_str(),
                item.cause,
                item.reason,
                rows::text(item.opened_at),
                rows::text(item.since),
            ])?;
    }
    Ok(())
}

pub(crate) fn last_event_of(
    connection: &Connection,
    kind: &str,
) -> Result<Option<Timestamp>, Trouble> {
    let found = connection.query_row(
        "SELECT at FROM events WHERE kind = ?1 ORDER BY cursor DESC LIMIT 1",
        [kind],
        |row| rows::parsed(row, 0, rows::timestamp),
    );
    Ok(found.optional()?)
}

/// Passes each row of a query to `add`, with the records of the workspace in the first column.
fn each(
    connection: &Connection,
    query: &str,
    all: &mut All,
    mut add: impl FnMut(&mut InboxRecords, &WorkspaceId, &Row<'_>) -> Result<(), rusqlite::Error>,
) -> Result<(), Trouble> {
    let mut statement = connection.prepare_cached(query)?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let id = rows::parsed(row, 0, WorkspaceId::parse)?;
        add(all.entry(id.clone()).or_default(), &id, row)?;
    }
    Ok(())
}

fn add_looks(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = "SELECT looks.workspace_id, turn, tree, at FROM looks
         JOIN workspaces ON workspaces.id = looks.workspace_id WHERE removed_at IS NULL";
    each(connection, query, all, |records, _, row| {
        records.look = Some(Look {
            turn: row.get::<_, i64>(1)?.cast_unsigned(),
            tree: row.get(2)?,
            at: rows::parsed(row, 3, rows::timestamp)?,
        });
        Ok(())
    })
}

/// With `max`, SQLite takes the other columns from the row that has it.
fn add_unread(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = "SELECT turns.workspace_id, count(*), max(number), at, details FROM workspaces
         JOIN turns ON turns.workspace_id = workspaces.id
         WHERE removed_at IS NULL AND cause = 'run'
           AND number > coalesce((SELECT turn FROM looks WHERE looks.workspace_id = workspaces.id), 0)
           AND number > coalesce((SELECT max(turn) FROM tree_approvals
                                  WHERE tree_approvals.workspace_id = workspaces.id), 0)
         GROUP BY turns.workspace_id";
    each(connection, query, all, |records, _, row| {
        records.unread = Some(UnreadTurns {
            count: row.get::<_, i64>(1)?.cast_unsigned(),
            number: row.get::<_, i64>(2)?.cast_unsigned(),
            at: rows::parsed(row, 3, rows::timestamp)?,
            details: rows::parsed(row, 4, |text| serde_json::from_str(text))?,
        });
        Ok(())
    })
}

/// The details of a run that succeeded can be large, and the inbox needs none of them.
fn add_runs(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = "SELECT runs.workspace_id, runs.id, runs.state, runs.created_at,
                        CASE WHEN runs.state IN ('failed', 'timed_out', 'lost') THEN runs.details END
         FROM workspaces JOIN runs
           ON runs.place = (SELECT max(place) FROM runs WHERE runs.workspace_id = workspaces.id)
         WHERE removed_at IS NULL";
    each(connection, query, all, |records, _, row| {
        records.run = Some(LastRun {
            id: rows::parsed(row, 1, RunId::parse)?,
            state: rows::parsed(row, 2, |text| RunState::parse(text).ok_or("unknown"))?,
            created_at: rows::parsed(row, 3, rows::timestamp)?,
            details: rows::parsed_if_any(row, 4, |text| serde_json::from_str(text))?,
        });
        Ok(())
    })
}

fn add_notices(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = "SELECT notices.workspace_id, at, source, text, left_out FROM notices
         JOIN workspaces ON workspaces.id = notices.workspace_id
         WHERE removed_at IS NULL ORDER BY place";
    each(connection, query, all, |records, id, row| {
        records.notices.push(NoticeRecord {
            workspace: id.clone(),
            at: rows::parsed(row, 1, rows::timestamp)?,
            source: row.get(2)?,
            text: row.get(3)?,
            left_out: row.get::<_, i64>(4)?.cast_unsigned(),
        });
        Ok(())
    })
}

fn add_comments(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = "SELECT comments.workspace_id, number, details FROM comments
         JOIN workspaces ON workspaces.id = comments.workspace_id
         WHERE removed_at IS NULL ORDER BY number";
    each(connection, query, all, |records, id, row| {
        let comment = CommentRecord {
            workspace: id.clone(),
            number: row.get::<_, i64>(1)?.cast_unsigned(),
            details: rows::parsed(row, 2, |text| serde_json::from_str(text))?,
        };
        if comment.details.round.is_some() {
            records.comments.push(comment);
        }
        Ok(())
    })
}

/// Whether the last turn of a workspace has conflicts. With `max`, SQLite takes the other columns from the row that has it.
fn add_conflicts(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = "SELECT workspace_id, max(number), details FROM turns
         WHERE workspace_id IN (SELECT id FROM workspaces WHERE removed_at IS NULL)
         GROUP BY workspace_id";
    each(connection, query, all, |records, _, row| {
        let details: TurnDetails = rows::parsed(row, 2, |text| serde_json::from_str(text))?;
        records.has_conflicts = !details.conflicts.is_empty();
        Ok(())
    })
}

/// The results for the last turn of each workspace.
fn add_checks(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = format!(
        "SELECT {CHECK} FROM checks
         WHERE workspace_id IN (SELECT id FROM workspaces WHERE removed_at IS NULL)
           AND tree = (SELECT turns.tree FROM turns WHERE turns.workspace_id = checks.workspace_id
                       ORDER BY number DESC LIMIT 1)
         ORDER BY name"
    );
    each(connection, &query, all, |records, _, row| {
        records.checks.push(check(row)?);
        Ok(())
    })
}

/// The actor is `workspace w…` with an id of 13 characters, perhaps with a session or a run behind it.
fn add_forbidden(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = "SELECT workspaces.id, method || ' ' || route, sum(count), max(at) FROM audit
         JOIN workspaces ON workspaces.id = substr(actor, 11, 13)
         WHERE status = 403 AND actor LIKE 'workspace %' AND removed_at IS NULL
         GROUP BY workspaces.id, method, route";
    each(connection, query, all, |records, _, row| {
        let count = row.get::<_, i64>(2)?.cast_unsigned();
        let at = rows::parsed(row, 3, rows::timestamp)?;
        records.forbidden.push((row.get(1)?, count, at));
        Ok(())
    })
}

fn add_turn_failures(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = format!(
        "SELECT {TURN_FAILURE} FROM turn_failures
         WHERE workspace_id IN (SELECT id FROM workspaces WHERE removed_at IS NULL)"
    );
    each(connection, &query, all, |records, _, row| {
        records.turn_failure = Some(failure(row)?);
        Ok(())
    })
}

fn add_opened(connection: &Connection, all: &mut All) -> Result<(), Trouble> {
    let query = "SELECT workspace_id, cause, reason, opened_at, since FROM open_items";
    each(connection, query, all, |records, id, row| {
        records.opened.push(OpenItem {
            workspace: id.clone(),
            cause: row.get(1)?,
            reason: row.get(2)?,
            opened_at: rows::parsed(row, 3, rows::timestamp)?,
            since: rows::parsed(row, 4, rows::timestamp)?,
        });
        Ok(())
    })
}
