//! SQL for events. A cursor is never reused.

use crate::error::Trouble;
use crate::rows;
use holm_core::WorkspaceId;
use holm_engine::store::{EVENTS_KEPT, Event, EventRecord};
use rusqlite::{Connection, Transaction, params};

pub(crate) fn add(transaction: &Transaction<'_>, event: &Event) -> Result<u64, Trouble> {
    let cursor = transaction
        .prepare_cached(
            "INSERT INTO events (at, kind, workspace_id, detail) VALUES (?1, ?2, ?3, ?4)",
        )?
        .insert(params![
            rows::text(event.at),
            event.kind,
            event.workspace.as_str(),
            event.detail
        ])?;
    let cursor = cursor.cast_unsigned();
    transaction
        .prepare_cached("DELETE FROM events WHERE cursor <= ?1")?
        .execute([cursor.saturating_sub(EVENTS_KEPT).cast_signed()])?;
    Ok(cursor)
}

pub(crate) fn after(
    connection: &Connection,
    after: u64,
    most: usize,
) -> Result<Vec<EventRecord>, Trouble> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(
        "SELECT cursor, at, kind, workspace_id, detail FROM events
         WHERE cursor > ?1 ORDER BY cursor LIMIT ?2",
    )?;
    let found = statement.query_map([after, most], |row| {
        Ok(EventRecord {
            cursor: row.get::<_, i64>(0)?.cast_unsigned(),
            event: Event {
                at: rows::parsed(row, 1, rows::timestamp)?,
                kind: row.get(2)?,
                workspace: rows::parsed(row, 3, WorkspaceId::parse)?,
                detail: rows::parsed(row, 4, object)?,
            },
        })
    })?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

/// Counts deleted events too.
pub(crate) fn last(connection: &Connection) -> Result<u64, Trouble> {
    let query = "SELECT coalesce(max(cursor), 0) FROM events";
    let last: i64 = connection.query_row(query, [], |row| row.get(0))?;
    Ok(last.cast_unsigned())
}

/// Checks that the text is a JSON object.
fn object(text: &str) -> Result<String, serde_json::Error> {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text)?;
    Ok(text.to_owned())
}
