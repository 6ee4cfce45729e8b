//! SQL for idempotency keys.

use crate::error::Trouble;
use crate::rows;
use holm_engine::store::{Keyed, RequestKey};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

pub(crate) fn one(connection: &Connection, key: &RequestKey) -> Result<Option<Keyed>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT digest, subject, answer, noted_at FROM request_keys WHERE scope = ?1 AND key = ?2",
    )?;
    let found = statement.query_row([&key.scope, &key.key], |row| {
        Ok(Keyed {
            digest: row.get(0)?,
            subject: row.get(1)?,
            answer: row.get(2)?,
            at: rows::parsed(row, 3, rows::timestamp)?,
        })
    });
    Ok(found.optional()?)
}

pub(crate) fn note(
    transaction: &Transaction<'_>,
    key: &RequestKey,
    digest: &str,
    at: Timestamp,
) -> Result<(), Trouble> {
    let values = params![key.scope, key.key, digest, rows::text(at)];
    transaction
        .prepare_cached(
            "INSERT INTO request_keys (scope, key, digest, noted_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET digest = excluded.digest, subject = NULL, answer = NULL,
                 noted_at = excluded.noted_at",
        )?
        .execute(values)?;
    Ok(())
}

pub(crate) fn begin(
    transaction: &Transaction<'_>,
    key: &RequestKey,
    subject: &str,
) -> Result<(), Trouble> {
    transaction
        .prepare_cached("UPDATE request_keys SET subject = ?3 WHERE scope = ?1 AND key = ?2")?
        .execute(params![key.scope, key.key, subject])?;
    Ok(())
}

pub(crate) fn answer(
    transaction: &Transaction<'_>,
    key: &RequestKey,
    answer: &str,
) -> Result<(), Trouble> {
    transaction
        .prepare_cached("UPDATE request_keys SET answer = ?3 WHERE scope = ?1 AND key = ?2")?
        .execute(params![key.scope, key.key, answer])?;
    Ok(())
}

pub(crate) fn forget(transaction: &Transaction<'_>, key: &RequestKey) -> Result<(), Trouble> {
    transaction
        .prepare_cached("DELETE FROM request_keys WHERE scope = ?1 AND key = ?2")?
        .execute([&key.scope, &key.key])?;
    Ok(())
}

pub(crate) fn forget_before(
    transaction: &Transaction<'_>,
    before: Timestamp,
) -> Result<(), Trouble> {
    transaction
        .prepare_cached("DELETE FROM request_keys WHERE noted_at <= ?1")?
        .execute([rows::text(before)])?;
    Ok(())
}
