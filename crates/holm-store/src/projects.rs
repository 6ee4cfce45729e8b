//! SQL for projects and approvals.

use crate::error::Trouble;
use crate::rows;
use holm_core::ProjectId;
use holm_engine::store::{Approval, ProjectRecord, ProjectRemoval, StoreError};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

pub(crate) fn all(connection: &Connection) -> Result<Vec<(ProjectRecord, u64)>, Trouble> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {}, (SELECT count(*) FROM workspaces
                     WHERE project_id = projects.id AND removed_at IS NULL)
         FROM projects WHERE removed_at IS NULL ORDER BY created_at, id",
        rows::PROJECT
    ))?;
    let found = statement.query_map([], |row| {
        let live = row.get::<_, i64>(10)?.cast_unsigned();
        Ok((rows::project(row)?, live))
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub(crate) fn one(
    connection: &Connection,
    id: &ProjectId,
) -> Result<Option<ProjectRecord>, Trouble> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM projects WHERE id = ?1",
        rows::PROJECT
    ))?;
    Ok(statement
        .query_row([id.as_str()], rows::project)
        .optional()?)
}

pub(crate) fn save(transaction: &Transaction<'_>, project: &ProjectRecord) -> Result<(), Trouble> {
    let holder: Option<String> = transaction
        .prepare_cached(
            "SELECT id FROM projects WHERE name = ?1 AND id <> ?2 AND removed_at IS NULL",
        )?
        .query_row(params![project.name.as_str(), project.id.as_str()], |row| {
            row.get(0)
        })
        .optional()?;
    if holder.is_some() {
        return Err(StoreError::NameTaken(project.name.clone()).into());
    }
    let rules = serde_json::to_string(&project.rules)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    transaction
        .prepare_cached(
            "INSERT INTO projects (id, name, path, git_dir, device, inode, object_format,
                                   refs_digest, created_at, rules, removed_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, NULL)
             ON CONFLICT (id) DO UPDATE SET
                 name = excluded.name, path = excluded.path, git_dir = excluded.git_dir,
                 device = excluded.device, inode = excluded.inode,
                 object_format = excluded.object_format, refs_digest = excluded.refs_digest,
                 created_at = excluded.created_at, rules = excluded.rules, removed_at = NULL",
        )?
        .execute(params![
            project.id.as_str(),
            project.name.as_str(),
            project.path,
            project.git_dir,
            project.device.cast_signed(),
            project.inode.cast_signed(),
            project.object_format,
            project.refs_digest,
            rows::text(project.created_at),
            rules,
        ])?;
    Ok(())
}

pub(crate) fn remove(
    transaction: &Transaction<'_>,
    id: &ProjectId,
) -> Result<ProjectRemoval, Trouble> {
    let count = |condition: &str| -> Result<i64, rusqlite::Error> {
        let query = format!("SELECT count(*) FROM workspaces WHERE project_id = ?1 {condition}");
        transaction.query_row(&query, [id.as_str()], |row| row.get(0))
    };
    let live = count("AND removed_at IS NULL")?;
    if live > 0 {
        let error = StoreError::ProjectInUse {
            project: id.clone(),
            live: live.cast_unsigned(),
        };
        return Err(error.into());
    }
    let (statement, removal) = match count("")? {
        0 => (
            "DELETE FROM projects WHERE id = ?1",
            ProjectRemoval::Deleted,
        ),
        _ => (
            "UPDATE projects SET removed_at = strftime('%Y-%m-%dT%H:%M:%fZ')
             WHERE id = ?1 AND removed_at IS NULL",
            ProjectRemoval::Hidden,
        ),
    };
    match transaction.execute(statement, [id.as_str()])? {
        0 => Err(StoreError::NoSuchProject(id.clone()).into()),
        _ => Ok(removal),
    }
}

pub(crate) fn abandoned(connection: &Connection) -> Result<Vec<ProjectId>, Trouble> {
    let columns = rows::PROJECT;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {columns} FROM projects WHERE removed_at IS NOT NULL
         AND id NOT IN (SELECT project_id FROM workspaces)"
    ))?;
    let found = statement.query_map([], rows::project)?;
    let projects = found.collect::<Result<Vec<_>, rusqlite::Error>>()?;
    Ok(projects.into_iter().map(|project| project.id).collect())
}

pub(crate) fn approve(
    transaction: &Transaction<'_>,
    id: &ProjectId,
    approval: &Approval,
) -> Result<(), Trouble> {
    if one(transaction, id)?.is_none() {
        return Err(StoreError::NoSuchProject(id.clone()).into());
    }
    let asks = serde_json::to_string(&approval.asks)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    // A repeated approval becomes the newest one.
    transaction.execute(
        "INSERT INTO approvals (project_id, digest, approved_at, asks) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET approved_at = excluded.approved_at, asks = excluded.asks",
        params![id.as_str(), approval.digest, rows::text(approval.at), asks],
    )?;
    Ok(())
}

pub(crate) fn last_approval(
    connection: &Connection,
    id: &ProjectId,
) -> Result<Option<Approval>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT digest, approved_at, asks FROM approvals
         WHERE project_id = ?1 AND asks IS NOT NULL AND instr(digest, ':') = 0
         ORDER BY approved_at DESC, rowid DESC LIMIT 1",
    )?;
    let mut found = statement.query_map([id.as_str()], |row| {
        Ok(Approval {
            digest: row.get(0)?,
            at: rows::parsed(row, 1, rows::timestamp)?,
            asks: rows::parsed(row, 2, |text| serde_json::from_str(text))?,
        })
    })?;
    Ok(found.next().transpose()?)
}

pub(crate) fn revoke(
    transaction: &Transaction<'_>,
    id: &ProjectId,
    digest: &str,
) -> Result<(), Trouble> {
    transaction.execute(
        "DELETE FROM approvals WHERE project_id = ?1 AND digest = ?2",
        params![id.as_str(), digest],
    )?;
    Ok(())
}

pub(crate) fn is_approved(
    connection: &Connection,
    id: &ProjectId,
    digest: &str,
) -> Result<bool, Trouble> {
    let mut statement = connection
        .prepare_cached("SELECT 1 FROM approvals WHERE project_id = ?1 AND digest = ?2")?;
    Ok(statement.exists(params![id.as_str(), digest])?)
}
