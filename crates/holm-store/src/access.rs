//! SQL for tokens, the audit record and the head of the secrets record. A cursor is never reused.

use crate::error::Trouble;
use crate::rows;
use holm_core::token::Holder;
use holm_core::{RequestId, TokenId, WorkspaceId};
use holm_engine::store::{
    AUDIT_KEPT, AuditEntry, AuditFilter, AuditNote, AuditOutcome, AuditRecord, AuditResults,
    RecordHead, TokenRecord,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

pub(crate) fn tokens(connection: &Connection) -> Result<Vec<TokenRecord>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT id, name, workspace_id, digest, created_at, expires_at, expired_at, may
         FROM tokens
         ORDER BY created_at, id",
    )?;
    let found = statement.query_map([], |row| {
        Ok(TokenRecord {
            id: rows::parsed(row, 0, TokenId::parse)?,
            name: row.get(1)?,
            workspace: rows::parsed_if_any(row, 2, WorkspaceId::parse)?,
            digest: row.get(3)?,
            created_at: rows::parsed(row, 4, rows::timestamp)?,
            expires_at: rows::parsed_if_any(row, 5, rows::timestamp)?,
            expired_at: rows::parsed_if_any(row, 6, rows::timestamp)?,
            holder: rows::parsed(row, 7, |text| Holder::of_right(text).ok_or("unknown"))?,
        })
    })?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn add_token(transaction: &Transaction<'_>, token: &TokenRecord) -> Result<(), Trouble> {
    let insert = "INSERT INTO tokens
        (id, name, workspace_id, digest, created_at, expires_at, expired_at, may)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    transaction.prepare_cached(insert)?.execute(params![
        token.id.as_str(),
        token.name,
        token.workspace.as_ref().map(WorkspaceId::as_str),
        token.digest,
        rows::text(token.created_at),
        token.expires_at.map(rows::text),
        token.expired_at.map(rows::text),
        token.holder.right(),
    ])?;
    Ok(())
}

/// The first expiry time is kept.
pub(crate) fn expire_token(
    transaction: &Transaction<'_>,
    id: &TokenId,
    at: Timestamp,
) -> Result<(), Trouble> {
    transaction.execute(
        "UPDATE tokens SET expired_at = ?2 WHERE id = ?1 AND expired_at IS NULL",
        params![id.as_str(), rows::text(at)],
    )?;
    Ok(())
}

pub(crate) fn remove_token(transaction: &Transaction<'_>, id: &TokenId) -> Result<(), Trouble> {
    transaction.execute("DELETE FROM tokens WHERE id = ?1", [id.as_str()])?;
    Ok(())
}

pub(crate) fn add(transaction: &Transaction<'_>, entry: &AuditEntry) -> Result<(), Trouble> {
    let insert = "INSERT INTO audit
        (at, actor, request, method, route, workspace_id, status, code, count, subject, outcome,
         evidence)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let cursor = transaction.prepare_cached(insert)?.insert(params![
        rows::text(entry.at),
        entry.actor,
        entry.request.as_str(),
        entry.method,
        entry.route,
        entry.workspace.as_ref().map(WorkspaceId::as_str),
        entry.status,
        entry.code,
        entry.count.cast_signed(),
        entry.subject,
        entry.outcome,
        entry.evidence,
    ])?;
    let last = cursor.cast_unsigned().saturating_sub(AUDIT_KEPT);
    transaction
        .prepare_cached("DELETE FROM audit WHERE cursor <= ?1")?
        .execute([last.cast_signed()])?;
    Ok(())
}

fn end(transaction: &Transaction<'_>, ended: &AuditOutcome) -> Result<(), Trouble> {
    transaction.execute(
        "UPDATE audit SET outcome = ?2, workspace_id = coalesce(?3, workspace_id),
                          code = coalesce(?4, code)
         WHERE request = ?1",
        params![
            ended.request.as_str(),
            ended.outcome,
            ended.workspace.as_ref().map(WorkspaceId::as_str),
            ended.code,
        ],
    )?;
    Ok(())
}

pub(crate) fn note(transaction: &Transaction<'_>, notes: &[AuditNote]) -> Result<(), Trouble> {
    for note in notes {
        match note {
            AuditNote::Entry(entry) => add(transaction, entry)?,
            AuditNote::Outcome(outcome) => end(transaction, outcome)?,
        }
    }
    Ok(())
}

pub(crate) fn newest(
    connection: &Connection,
    filter: &AuditFilter,
    most: usize,
) -> Result<Vec<AuditRecord>, Trouble> {
    let before = filter.before.and_then(|before| i64::try_from(before).ok());
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(
        "SELECT cursor, at, actor, request, method, route, workspace_id, status, code, count,
                subject, outcome, evidence
         FROM audit
         WHERE cursor < ?1 AND (?3 IS NULL OR instr(actor, ?3) > 0)
           AND (?4 IS NULL OR workspace_id = ?4) AND (?5 IS NULL OR at >= ?5)
           AND (?6 = 0 OR status >= 400 OR code IS NOT NULL)
         ORDER BY cursor DESC LIMIT ?2",
    )?;
    let wanted = params![
        before.unwrap_or(i64::MAX),
        most,
        filter.actor,
        filter.workspace.as_ref().map(WorkspaceId::as_str),
        filter.since.map(rows::text),
        filter.results == AuditResults::Bad,
    ];
    let found = statement.query_map(wanted, |row| {
        Ok(AuditRecord {
            cursor: row.get::<_, i64>(0)?.cast_unsigned(),
            entry: AuditEntry {
                at: rows::parsed(row, 1, rows::timestamp)?,
                actor: row.get(2)?,
                request: rows::parsed(row, 3, RequestId::parse)?,
                method: row.get(4)?,
                route: row.get(5)?,
                workspace: rows::parsed_if_any(row, 6, WorkspaceId::parse)?,
                status: row.get(7)?,
                code: row.get(8)?,
                count: row.get::<_, i64>(9)?.cast_unsigned(),
                subject: row.get(10)?,
                outcome: row.get(11)?,
                evidence: row.get(12)?,
            },
        })
    })?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn secrets_head(connection: &Connection) -> Result<Option<RecordHead>, Trouble> {
    let mut statement = connection.prepare_cached("SELECT number, hash FROM secrets_head")?;
    let found = statement.query_row([], |row| {
        Ok(RecordHead {
            number: row.get::<_, i64>(0)?.cast_unsigned(),
            hash: row.get(1)?,
        })
    });
    Ok(found.optional()?)
}

pub(crate) fn set_secrets_head(
    transaction: &Transaction<'_>,
    head: &RecordHead,
) -> Result<(), Trouble> {
    let insert = "INSERT INTO secrets_head (id, number, hash) VALUES (1, ?1, ?2)
         ON CONFLICT (id) DO UPDATE SET number = excluded.number, hash = excluded.hash
         WHERE excluded.number > number";
    let values = params![head.number.cast_signed(), head.hash];
    transaction.prepare_cached(insert)?.execute(values)?;
    Ok(())
}
