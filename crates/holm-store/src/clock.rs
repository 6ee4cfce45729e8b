//! SQL for the last clock reading: one row.

use crate::error::Trouble;
use holm_core::clock::{Ahead, ClockRecord};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::time::Duration;

pub(crate) fn seen(connection: &Connection) -> Result<Option<ClockRecord>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT boot, boottime_ms, wall_ms, latest_ms, ahead_by_ms, ahead_since_ms FROM clock",
    )?;
    let found = statement.query_row([], |row| {
        let by = row.get::<_, Option<i64>>(4)?;
        Ok(ClockRecord {
            boot: row.get(0)?,
            boottime: duration(row, 1)?,
            wall: duration(row, 2)?,
            latest: duration(row, 3)?,
            ahead: match by {
                Some(_) => Some(Ahead {
                    by: duration(row, 4)?,
                    since: duration(row, 5)?,
                }),
                None => None,
            },
        })
    });
    Ok(found.optional()?)
}

pub(crate) fn set(transaction: &Transaction<'_>, seen: &ClockRecord) -> Result<(), Trouble> {
    let insert = "INSERT INTO clock
        (id, boot, boottime_ms, wall_ms, latest_ms, ahead_by_ms, ahead_since_ms)
        VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (id) DO UPDATE SET
            boot = excluded.boot, boottime_ms = excluded.boottime_ms, wall_ms = excluded.wall_ms,
            latest_ms = excluded.latest_ms, ahead_by_ms = excluded.ahead_by_ms,
            ahead_since_ms = excluded.ahead_since_ms";
    transaction.prepare_cached(insert)?.execute(params![
        seen.boot,
        milliseconds(seen.boottime),
        milliseconds(seen.wall),
        milliseconds(seen.latest),
        seen.ahead.map(|ahead| milliseconds(ahead.by)),
        seen.ahead.map(|ahead| milliseconds(ahead.since)),
    ])?;
    Ok(())
}

fn duration(row: &Row<'_>, column: usize) -> Result<Duration, rusqlite::Error> {
    let milliseconds: i64 = row.get(column)?;
    let found = u64::try_from(milliseconds);
    found
        .map(Duration::from_millis)
        .map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, milliseconds))
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
