//! SQL for runs. A key is used once per workspace.

use crate::error::Trouble;
use crate::{review, rows};
use holm_core::run::RunState;
use holm_core::{RunId, WorkspaceId};
use holm_engine::run::{RunFilter, RunRecord};
use holm_engine::store::StoreError;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

const RUN: &str = "place, id, workspace_id, key, digest, created_at, state, details";

pub(crate) fn insert(
    transaction: &Transaction<'_>,
    run: &RunRecord,
) -> Result<Option<RunRecord>, Trouble> {
    let same = format!("SELECT {RUN} FROM runs WHERE workspace_id = ?1 AND key = ?2");
    let values = params![run.workspace.as_str(), run.key];
    let found = transaction.query_row(&same, values, record).optional()?;
    if let Some((_, earlier)) = found {
        return Ok(Some(earlier));
    }
    if crate::workspaces::one(transaction, &run.workspace)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(run.workspace.clone()).into());
    }
    review::claim_comments(transaction, run)?;
    transaction
        .prepare_cached(
            "INSERT INTO runs (id, workspace_id, key, digest, created_at, state, details)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            run.id.as_str(),
            run.workspace.as_str(),
            run.key,
            run.digest,
            rows::text(run.created_at),
            run.state.as_str(),
            details(run)?,
        ])?;
    Ok(None)
}

pub(crate) fn one(connection: &Connection, id: &RunId) -> Result<Option<RunRecord>, Trouble> {
    let query = format!("SELECT {RUN} FROM runs WHERE id = ?1");
    let found = connection.query_row(&query, [id.as_str()], record);
    Ok(found.optional()?.map(|(_, run)| run))
}

pub(crate) fn save(transaction: &Transaction<'_>, run: &RunRecord) -> Result<(), Trouble> {
    transaction
        .prepare_cached("UPDATE runs SET state = ?2, details = ?3 WHERE id = ?1")?
        .execute(params![run.id.as_str(), run.state.as_str(), details(run)?])?;
    if run.was_lost_before_start() {
        review::release_comments(transaction, run)?;
    }
    Ok(())
}

pub(crate) fn renew(transaction: &Transaction<'_>, run: &RunRecord) -> Result<(), Trouble> {
    review::claim_comments(transaction, run)?;
    save(transaction, run)
}

pub(crate) fn take_back(transaction: &Transaction<'_>, run: &RunRecord) -> Result<(), Trouble> {
    review::release_comments(transaction, run)?;
    forget(transaction, &run.id)
}

pub(crate) fn forget(transaction: &Transaction<'_>, id: &RunId) -> Result<(), Trouble> {
    transaction.execute("DELETE FROM runs WHERE id = ?1", [id.as_str()])?;
    Ok(())
}

pub(crate) fn some(
    connection: &Connection,
    filter: &RunFilter,
) -> Result<Vec<(i64, RunRecord)>, Trouble> {
    let query = format!(
        "SELECT {RUN} FROM runs
         WHERE (?1 IS NULL OR workspace_id = ?1) AND (?2 IS NULL OR state = ?2)
           AND (?3 IS NULL OR substr(id, 1, length(?3)) = ?3) AND (?4 IS NULL OR place < ?4)
         ORDER BY place DESC LIMIT ?5"
    );
    let values = params![
        filter.workspace.as_ref().map(WorkspaceId::as_str),
        filter.state.map(RunState::as_str),
        filter.prefix,
        filter.before,
        i64::try_from(filter.limit).unwrap_or(i64::MAX),
    ];
    let mut statement = connection.prepare_cached(&query)?;
    let found = statement.query_map(values, record)?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn open(connection: &Connection) -> Result<Vec<RunRecord>, Trouble> {
    let query =
        format!("SELECT {RUN} FROM runs WHERE state IN ('queued', 'running') ORDER BY place");
    let mut statement = connection.prepare_cached(&query)?;
    let found = statement.query_map([], record)?;
    let found = found.map(|row| row.map(|(_, run)| run));
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn surplus(
    connection: &Connection,
    id: &WorkspaceId,
    kept: usize,
) -> Result<Vec<RunId>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM runs WHERE workspace_id = ?1 AND state NOT IN ('queued', 'running')
         ORDER BY place DESC LIMIT -1 OFFSET ?2",
    )?;
    let kept = i64::try_from(kept).unwrap_or(i64::MAX);
    let found = statement.query_map(params![id.as_str(), kept], |row| {
        rows::parsed(row, 0, RunId::parse)
    })?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

fn details(run: &RunRecord) -> Result<String, Trouble> {
    serde_json::to_string(&run.details)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)).into())
}

fn record(row: &Row<'_>) -> Result<(i64, RunRecord), rusqlite::Error> {
    let run = RunRecord {
        id: rows::parsed(row, 1, RunId::parse)?,
        workspace: rows::parsed(row, 2, WorkspaceId::parse)?,
        key: row.get(3)?,
        digest: row.get(4)?,
        created_at: rows::parsed(row, 5, rows::timestamp)?,
        state: rows::parsed(row, 6, |text| RunState::parse(text).ok_or("unknown"))?,
        details: rows::parsed(row, 7, |text| serde_json::from_str(text))?,
    };
    Ok((row.get(0)?, run))
}
