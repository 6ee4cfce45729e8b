//! Translates SQLite errors for the engine.

use holm_engine::store::StoreError;
use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use std::error::Error;
use std::path::Path;

/// A failure inside of a transaction: the database's, or one that the store found.
pub(crate) enum Trouble {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

pub(crate) fn translate(path: &Path, error: rusqlite::Error) -> StoreError {
    use rusqlite::Error as Sqlite;
    let path = path.to_owned();
    let codes = match &error {
        Sqlite::SqliteFailure(failure, _) => Some((failure.code, failure.extended_code)),
        _ => None,
    };
    match codes {
        // A full disk shows first as shared memory that cannot grow.
        Some((ErrorCode::DiskFull, _)) | Some((_, SQLITE_IOERR_SHMSIZE)) => StoreError::DiskFull {
            path,
            source: cause(error),
        },
        Some((ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied, _)) => {
            StoreError::ReadOnly {
                path,
                source: cause(error),
            }
        }
        Some((ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _)) => StoreError::Corrupt {
            path,
            what: "the file is damaged".to_owned(),
            source: Some(cause(error)),
        },
        Some(_) => StoreError::Failed {
            path,
            source: cause(error),
        },
        None => match error {
            Sqlite::FromSqlConversionFailure(_, _, cause) => StoreError::Corrupt {
                path,
                what: "a stored value has an unknown form".to_owned(),
                source: Some(cause),
            },
            Sqlite::IntegralValueOutOfRange(..)
            | Sqlite::InvalidColumnType(..)
            | Sqlite::Utf8Error(..) => StoreError::Corrupt {
                path,
                what: "a stored value has an unknown form".to_owned(),
                source: Some(cause(error)),
            },
            _ => StoreError::Failed {
                path,
                source: cause(error),
            },
        },
    }
}

/// SQLite's own message if there is one; the wrapper's text would repeat it.
fn cause(error: rusqlite::Error) -> Box<dyn Error + Send + Sync> {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(words)) => words.into(),
        other => Box::new(other),
    }
}

// === impl Trouble ===

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Trouble::Sqlite(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble::Store(error)
    }
}
