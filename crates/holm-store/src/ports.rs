//! SQL for host ports and canonical ports.

use crate::error::Trouble;
use crate::{rows, workspaces};
use holm_core::WorkspaceId;
use holm_engine::store::{Canonical, Claim, StoreError};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

pub(crate) fn claims(connection: &Connection) -> Result<Vec<Claim>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT workspace_id, port, host_port FROM ports
         WHERE workspace_id IS NOT NULL ORDER BY host_port",
    )?;
    let found = statement.query_map([], |row| {
        Ok(Claim {
            workspace: rows::parsed(row, 0, WorkspaceId::parse)?,
            port: row.get(1)?,
            host_port: row.get(2)?,
        })
    })?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn claim(
    transaction: &Transaction<'_>,
    claim: &Claim,
    at: Timestamp,
) -> Result<(), Trouble> {
    if workspaces::one(transaction, &claim.workspace)?.is_none() {
        return Err(StoreError::NoSuchWorkspace(claim.workspace.clone()).into());
    }
    let holder = transaction
        .query_row(
            "SELECT workspace_id, port FROM ports WHERE host_port = ?1",
            [claim.host_port],
            |row| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, u16>(1)?)),
        )
        .optional()?;
    let is_own = match holder {
        Some((Some(holder), _)) if holder == claim.workspace.as_str() => true,
        Some(_) => return Err(StoreError::PortTaken(claim.host_port).into()),
        None => false,
    };
    let (workspace, port, host_port) = (claim.workspace.as_str(), claim.port, claim.host_port);
    transaction
        .prepare_cached(
            "UPDATE ports SET workspace_id = NULL
             WHERE workspace_id = ?1 AND port = ?2 AND host_port <> ?3",
        )?
        .execute(params![workspace, port, host_port])?;
    let statement = if is_own {
        "UPDATE ports SET workspace_id = ?2, port = ?3, claimed_at = ?4 WHERE host_port = ?1"
    } else {
        "INSERT INTO ports (host_port, workspace_id, port, claimed_at) VALUES (?1, ?2, ?3, ?4)"
    };
    let values = params![host_port, workspace, port, rows::text(at)];
    transaction.prepare_cached(statement)?.execute(values)?;
    Ok(())
}

pub(crate) fn abandoned(connection: &Connection) -> Result<Vec<u16>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT host_port FROM ports WHERE workspace_id IS NULL ORDER BY claimed_at, host_port",
    )?;
    let found = statement.query_map([], |row| row.get(0))?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn forget_abandoned(
    transaction: &Transaction<'_>,
    host_port: u16,
) -> Result<(), Trouble> {
    transaction
        .prepare_cached("DELETE FROM ports WHERE host_port = ?1 AND workspace_id IS NULL")?
        .execute([host_port])?;
    Ok(())
}

pub(crate) fn canonical(connection: &Connection) -> Result<Vec<Canonical>, Trouble> {
    let mut statement =
        connection.prepare_cached("SELECT port, workspace_id FROM canonical ORDER BY port")?;
    let found = statement.query_map([], |row| {
        Ok(Canonical {
            port: row.get(0)?,
            workspace: rows::parsed(row, 1, WorkspaceId::parse)?,
        })
    })?;
    Ok(found.collect::<Result<_, rusqlite::Error>>()?)
}

pub(crate) fn set_canonical(
    transaction: &Transaction<'_>,
    wanted: &[Canonical],
) -> Result<(), Trouble> {
    transaction.execute("DELETE FROM canonical WHERE true", [])?;
    let mut statement =
        transaction.prepare_cached("INSERT INTO canonical (port, workspace_id) VALUES (?1, ?2)")?;
    for canonical in wanted {
        let holder = workspaces::one(transaction, &canonical.workspace)?;
        if holder.is_none_or(|holder| holder.removed_at.is_some()) {
            return Err(StoreError::NoSuchWorkspace(canonical.workspace.clone()).into());
        }
        statement.execute(params![canonical.port, canonical.workspace.as_str()])?;
    }
    Ok(())
}
