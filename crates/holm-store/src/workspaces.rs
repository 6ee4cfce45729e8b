//! SQL for workspaces.

use crate::error::Trouble;
use crate::rows;
use holm_core::plan::{Action, Desired};
use holm_core::spec::WorkspaceSpec;
use holm_core::state::Birth;
use holm_core::{Label, ProjectId, WorkspaceId};
use holm_engine::store::{EntryId, StoreError, WorkspaceRecord};
use jiff::Timestamp;
use rusqlite::{Connection, Params, Transaction, params};

pub(crate) fn insert(
    transaction: &Transaction<'_>,
    workspace: &WorkspaceRecord,
) -> Result<(), Trouble> {
    if crate::projects::one(transaction, &workspace.project_id)?.is_none() {
        return Err(StoreError::NoSuchProject(workspace.project_id.clone()).into());
    }
    refuse_taken(transaction, &workspace.project_id, &workspace.label, None)?;
    let spec = spec_text(&workspace.spec)?;
    transaction
        .prepare_cached(
            "INSERT INTO workspaces (id, project_id, label, owner, desired, acknowledged, spec,
                                     created_at, last_used_at, dirty, removed_at, labelled_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            workspace.id.as_str(),
            workspace.project_id.as_str(),
            workspace.label.as_str(),
            workspace.owner,
            workspace.desired.as_str(),
            workspace.birth == Birth::Acknowledged,
            spec,
            rows::text(workspace.created_at),
            rows::text(workspace.last_used_at),
            workspace.dirty,
            workspace.removed_at.map(rows::text),
            rows::text(workspace.labelled_at),
        ])?;
    Ok(())
}

fn spec_text(spec: &WorkspaceSpec) -> Result<String, rusqlite::Error> {
    let unwritable = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    serde_json::to_string(spec).map_err(unwritable)
}

pub(crate) fn one(
    connection: &Connection,
    id: &WorkspaceId,
) -> Result<Option<WorkspaceRecord>, Trouble> {
    Ok(select(connection, "id = ?1", [id.as_str()])?.pop())
}

pub(crate) fn live(connection: &Connection) -> Result<Vec<WorkspaceRecord>, Trouble> {
    select(
        connection,
        "removed_at IS NULL ORDER BY created_at, rowid",
        [],
    )
}

pub(crate) fn trashed(connection: &Connection) -> Result<Vec<WorkspaceRecord>, Trouble> {
    select(
        connection,
        "removed_at IS NOT NULL ORDER BY removed_at DESC, rowid DESC",
        [],
    )
}

pub(crate) fn labelled(
    connection: &Connection,
    project: &ProjectId,
    label: &Label,
) -> Result<Option<WorkspaceRecord>, Trouble> {
    let condition = "project_id = ?1 AND label = ?2 AND removed_at IS NULL";
    let keys = [project.as_str(), label.as_str()];
    Ok(select(connection, condition, keys)?.pop())
}

pub(crate) fn labelled_anywhere(
    connection: &Connection,
    label: &str,
) -> Result<Vec<WorkspaceRecord>, Trouble> {
    select(connection, "label = ?1 AND removed_at IS NULL", [label])
}

pub(crate) fn latest(
    connection: &Connection,
    project: &ProjectId,
) -> Result<Option<WorkspaceRecord>, Trouble> {
    let condition = "project_id = ?1 AND acknowledged = 1
        ORDER BY created_at DESC, rowid DESC LIMIT 1";
    Ok(select(connection, condition, [project.as_str()])?.pop())
}

pub(crate) fn unfinished(connection: &Connection) -> Result<Vec<WorkspaceRecord>, Trouble> {
    let condition = "acknowledged = 0
        OR (desired = 'removed' AND removed_at IS NULL)
        OR id IN (SELECT workspace_id FROM journal WHERE outcome IS NULL)
        ORDER BY created_at, rowid";
    select(connection, condition, [])
}

pub(crate) fn set_label(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    label: &Label,
    at: Timestamp,
) -> Result<(), Trouble> {
    let workspace = one(transaction, id)?.filter(|workspace| workspace.removed_at.is_none());
    let workspace = workspace.ok_or_else(|| StoreError::NoSuchWorkspace(id.clone()))?;
    refuse_taken(transaction, &workspace.project_id, label, Some(id))?;
    if workspace.label == *label {
        return Ok(());
    }
    let change = "UPDATE workspaces SET label = ?2, labelled_at = ?3
        WHERE id = ?1 AND removed_at IS NULL";
    let values = params![id.as_str(), label.as_str(), rows::text(at)];
    update(transaction, id, change, values)
}

pub(crate) fn set_spec(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    spec: &WorkspaceSpec,
) -> Result<(), Trouble> {
    let spec = spec_text(spec)?;
    let change = "UPDATE workspaces SET spec = ?2 WHERE id = ?1 AND removed_at IS NULL";
    update(transaction, id, change, params![id.as_str(), spec])
}

pub(crate) fn set_desired(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    desired: Desired,
) -> Result<(), Trouble> {
    let change = "UPDATE workspaces SET desired = ?2 WHERE id = ?1 AND removed_at IS NULL";
    update(
        transaction,
        id,
        change,
        params![id.as_str(), desired.as_str()],
    )
}

pub(crate) fn set_removed(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    at: Timestamp,
) -> Result<(), Trouble> {
    let change = "UPDATE workspaces SET removed_at = ?2 WHERE id = ?1 AND removed_at IS NULL";
    let values = params![id.as_str(), rows::text(at)];
    update(transaction, id, change, values)
}

pub(crate) fn touch(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    at: Timestamp,
) -> Result<(), Trouble> {
    let change = "UPDATE workspaces SET last_used_at = max(last_used_at, ?2) WHERE id = ?1";
    let values = params![id.as_str(), rows::text(at)];
    update(transaction, id, change, values)
}

pub(crate) fn set_dirty(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    is_dirty: bool,
) -> Result<(), Trouble> {
    let change = "UPDATE workspaces SET dirty = ?2 WHERE id = ?1";
    update(transaction, id, change, params![id.as_str(), is_dirty])
}

pub(crate) fn acknowledge(transaction: &Transaction<'_>, id: &WorkspaceId) -> Result<(), Trouble> {
    let change = "UPDATE workspaces SET acknowledged = 1 WHERE id = ?1 AND removed_at IS NULL";
    update(transaction, id, change, [id.as_str()])?;
    crate::journal::end_open(transaction, id)
}

/// Writes planned actions to the journal of a workspace that is known.
pub(crate) fn plan(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    actions: &[Action],
) -> Result<Vec<EntryId>, Trouble> {
    if one(transaction, id)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(id.clone()).into());
    }
    crate::journal::plan(transaction, id, actions)
}

/// The open journal entry marks it as unfinished from the moment it is live.
pub(crate) fn take_back(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    label: &Label,
    at: Timestamp,
) -> Result<(), Trouble> {
    let workspace = one(transaction, id)?.filter(|workspace| workspace.removed_at.is_some());
    let workspace = workspace.ok_or_else(|| StoreError::NoSuchWorkspace(id.clone()))?;
    refuse_taken(transaction, &workspace.project_id, label, Some(id))?;
    crate::journal::plan(transaction, id, &[Action::TakeBack])?;
    let change = "UPDATE workspaces
        SET label = ?2, desired = ?3, last_used_at = max(last_used_at, ?4), labelled_at = ?4,
            removed_at = NULL
        WHERE id = ?1";
    let desired = Desired::Stopped.as_str();
    let values = params![id.as_str(), label.as_str(), desired, rows::text(at)];
    update(transaction, id, change, values)
}

pub(crate) fn return_to_trash(
    transaction: &Transaction<'_>,
    earlier: &WorkspaceRecord,
) -> Result<(), Trouble> {
    crate::journal::drop_open(transaction, &earlier.id)?;
    let change = "UPDATE workspaces
        SET label = ?2, desired = ?3, removed_at = ?4, labelled_at = ?5
        WHERE id = ?1 AND removed_at IS NULL";
    let values = params![
        earlier.id.as_str(),
        earlier.label.as_str(),
        earlier.desired.as_str(),
        earlier.removed_at.map(rows::text),
        rows::text(earlier.labelled_at),
    ];
    update(transaction, &earlier.id, change, values)
}

/// Deletes a workspace and its journal, unless it is live.
pub(crate) fn forget_trashed(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
) -> Result<(), Trouble> {
    let statement = "DELETE FROM workspaces WHERE id = ?1 AND removed_at IS NOT NULL";
    update(transaction, id, statement, [id.as_str()])
}

/// Deletes a workspace and its journal, unless it was acknowledged.
pub(crate) fn forget_unborn(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
) -> Result<(), Trouble> {
    let statement = "DELETE FROM workspaces WHERE id = ?1 AND acknowledged = 0";
    if transaction.execute(statement, [id.as_str()])? > 0 {
        return Ok(());
    }
    match one(transaction, id)? {
        Some(_) => Err(StoreError::Acknowledged(id.clone()).into()),
        None => Err(StoreError::NoSuchWorkspace(id.clone()).into()),
    }
}

/// Updates one row, which must exist.
fn update(
    transaction: &Transaction<'_>,
    id: &WorkspaceId,
    statement: &str,
    values: impl Params,
) -> Result<(), Trouble> {
    match transaction.prepare_cached(statement)?.execute(values)? {
        0 => Err(StoreError::NoSuchWorkspace(id.clone()).into()),
        _ => Ok(()),
    }
}

fn refuse_taken(
    transaction: &Transaction<'_>,
    project: &ProjectId,
    label: &Label,
    but: Option<&WorkspaceId>,
) -> Result<(), Trouble> {
    match labelled(transaction, project, label)? {
        Some(holder) if Some(&holder.id) != but => Err(StoreError::LabelTaken {
            label: label.clone(),
            holder: holder.id,
        }
        .into()),
        Some(_) | None => Ok(()),
    }
}

fn select(
    connection: &Connection,
    condition: &str,
    values: impl Params,
) -> Result<Vec<WorkspaceRecord>, Trouble> {
    let columns = rows::WORKSPACE;
    let query = format!("SELECT {columns} FROM workspaces WHERE {condition}");
    let mut statement = connection.prepare_cached(&query)?;
    let found = statement.query_map(values, rows::workspace)?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}
