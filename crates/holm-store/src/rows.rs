//! Converts rows to records and back. An unknown value is an error that names column and value.

use crate::specs;
use holm_core::plan::Desired;
use holm_core::state::Birth;
use holm_core::{Label, ProjectId, ProjectName, WorkspaceId};
use holm_engine::store::{ProjectRecord, WorkspaceRecord};
use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Error, Row};
use std::fmt::Display;

pub(crate) const PROJECT: &str = "projects.id, projects.name, projects.path, projects.git_dir, \
     projects.device, projects.inode, projects.object_format, projects.refs_digest, \
     projects.created_at, projects.rules";

pub(crate) const WORKSPACE: &str = "id, project_id, label, owner, desired, acknowledged, spec, \
     created_at, last_used_at, dirty, removed_at, labelled_at";

#[derive(Debug, thiserror::Error)]
#[error("`{value}` is not a value of `{column}`: {why}")]
struct NotUnderstood {
    column: String,
    value: String,
    why: String,
}

/// A project in the columns of [`PROJECT`].
pub(crate) fn project(row: &Row<'_>) -> Result<ProjectRecord, Error> {
    Ok(ProjectRecord {
        id: parsed(row, 0, ProjectId::parse)?,
        name: parsed(row, 1, ProjectName::parse)?,
        path: row.get(2)?,
        git_dir: row.get(3)?,
        // SQLite's integers are signed; the bits are preserved.
        device: row.get::<_, i64>(4)?.cast_unsigned(),
        inode: row.get::<_, i64>(5)?.cast_unsigned(),
        object_format: parsed(row, 6, object_format)?,
        refs_digest: row.get(7)?,
        created_at: parsed(row, 8, timestamp)?,
        rules: parsed(row, 9, |text| serde_json::from_str(text))?,
    })
}

/// A workspace in the columns of [`WORKSPACE`].
pub(crate) fn workspace(row: &Row<'_>) -> Result<WorkspaceRecord, Error> {
    let desired = |text: &str| Desired::parse(text).ok_or("unknown");
    let birth = match row.get::<_, i64>(5)? {
        0 => Birth::Pending,
        1 => Birth::Acknowledged,
        other => return Err(not_understood(row, 5, &other.to_string(), "unknown")),
    };
    let dirty = match row.get::<_, Option<i64>>(9)? {
        None => None,
        Some(0) => Some(false),
        Some(1) => Some(true),
        Some(other) => return Err(not_understood(row, 9, &other.to_string(), "unknown")),
    };
    let id = parsed(row, 0, WorkspaceId::parse)?;
    Ok(WorkspaceRecord {
        spec: parsed(row, 6, |text| specs::parsed(&id, text))?,
        id,
        project_id: parsed(row, 1, ProjectId::parse)?,
        label: parsed(row, 2, Label::parse)?,
        owner: row.get(3)?,
        desired: parsed(row, 4, desired)?,
        birth,
        created_at: parsed(row, 7, timestamp)?,
        last_used_at: parsed(row, 8, timestamp)?,
        dirty,
        removed_at: parsed_if_any(row, 10, timestamp)?,
        labelled_at: parsed(row, 11, timestamp)?,
    })
}

/// A fixed-width time, so that texts sort like times.
pub(crate) fn text(at: Timestamp) -> String {
    format!("{at:.3}")
}

pub(crate) fn parsed<T, E: Display>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Error> {
    let text: String = row.get(column)?;
    parse(&text).map_err(|error| not_understood(row, column, &text, &error.to_string()))
}

/// As [`parsed`], for a nullable column.
pub(crate) fn parsed_if_any<T, E: Display>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, Error> {
    match row.get::<_, Option<String>>(column)? {
        Some(_) => parsed(row, column, parse).map(Some),
        None => Ok(None),
    }
}

fn not_understood(row: &Row<'_>, column: usize, value: &str, why: &str) -> Error {
    let name = row.as_ref().column_name(column).unwrap_or("?");
    let error = NotUnderstood {
        column: name.to_owned(),
        value: value.chars().take(80).collect(),
        why: why.to_owned(),
    };
    Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

pub(crate) fn timestamp(text: &str) -> Result<Timestamp, jiff::Error> {
    text.parse()
}

fn object_format(text: &str) -> Result<String, &'static str> {
    match text {
        "sha1" | "sha256" => Ok(text.to_owned()),
        _ => Err("unknown"),
    }
}
