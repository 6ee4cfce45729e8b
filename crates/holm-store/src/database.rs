//! The database file: opened once, checked, with one connection for writing and one for reading.
//!
//! Readers never wait for a write that is on its way to the disk, or to PostgreSQL. With PostgreSQL the file is a copy that
//! each daemon makes when it opens the database, and a transaction ends in the file after it ended there.

use crate::changes::{Changes, Durability};
use crate::error::{Trouble, translate};
use crate::postgres::{Link, Sent, Server};
use crate::schema::{self, VERSION};
use holm_engine::store::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) struct Database {
    path: PathBuf,
    // Must be closed before the writer, which can truncate the write-ahead log only as the last
    // connection.
    reader: Mutex<Connection>,
    /// Only for checkpoints, which then delay no transaction.
    checkpointer: Mutex<Connection>,
    /// Transactions since the last checkpoint.
    written: AtomicU32,
    writer: Mutex<Connection>,
    /// The write-ahead log, to flush it. It stays the same file while a connection is open.
    log: File,
    copied: Option<Copied>,
}

/// A file that has a copy of what is in PostgreSQL.
struct Copied {
    changes: Changes,
    link: Link,
}

/// How many prepared statements a connection keeps, which is all of them.
const STATEMENTS: usize = 128;

pub(crate) const WAIT: Duration = Duration::from_secs(5);

/// Transactions after which [`Database::checkpoint`] does something. Most write two to six pages.
const WORTH_IT: u32 = 30;

/// Pages after which a transaction checkpoints the log itself, so that the log stays bounded when
/// nothing calls [`Database::checkpoint`].
const LOG_PAGES: u32 = 250;
/// Bytes reserved for when the disk is full: one and a half times the log.
const SET_ASIDE: u32 = LOG_PAGES * 4096 / 2 * 3;

// === impl Database ===

impl Database {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        refuse_newer(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let prepared = Connection::open_with_flags(path, flags)
            .and_then(prepare)
            .map_err(|error| translate(path, error));
        let mut connection = prepared?;
        settle_schema(&mut connection, path)?;
        if let Err(error) = set_aside(&connection)
            && !matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull))
        {
            return Err(translate(path, error));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = Connection::open_with_flags(path, flags)
            .and_then(|reader| {
                reader.set_prepared_statement_cache_capacity(STATEMENTS);
                reader.busy_timeout(WAIT).map(|()| reader)
            })
            .map_err(|error| translate(path, error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // The question opens the log too, so that the daemon holds the same files from its start on.
        let checkpointer = Connection::open_with_flags(path, flags)
            .and_then(|connection| {
                connection.query_row("PRAGMA schema_version", [], |_| Ok(()))?;
                Ok(connection)
            })
            .map_err(|error| translate(path, error))?;
        let log = log_of(path).and_then(|log| log.sync_data().map(|()| log));
        let log = log.map_err(|error| not_flushed(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            reader: Mutex::new(reader),
            checkpointer: Mutex::new(checkpointer),
            written: AtomicU32::new(0),
            writer: Mutex::new(connection),
            log,
            copied: None,
        })
    }

    /// Opens a PostgreSQL database; `path` gets a copy of it.
    pub(crate) fn copied(server: Server, path: &Path) -> Result<Self, StoreError> {
        remove(path)?;
        let link = Link::open(server, path.to_owned())?;
        let mut database = Self::open(path)?;
        let failed = |error| translate(path, error);
        let writer = database
            .writer
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        // PostgreSQL has everything, so the copy need not survive a loss of power.
        let quick = writer.pragma_update(None, "synchronous", "OFF");
        let changes = quick.and_then(|()| Changes::of(writer)).map_err(failed)?;
        link.describe(changes.tables());
        database.copied = Some(Copied { changes, link });
        Ok(database)
    }

    /// Runs one writing transaction, which is rolled back when `work` fails. Other transactions do not wait while
    /// a durable one is on its way to the disk.
    pub(crate) fn write<T>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        self.written.fetch_add(1, Ordering::Relaxed);
        let committed = self.commit(durability, work);
        let value = committed.map_err(|trouble| self.explain(trouble))?;
        if durability == Durability::Durable && self.copied.is_none() {
            self.flush()?;
        }
        Ok(value)
    }

    /// Waits until all transactions that were committed are on the disk.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        if let Some(copied) = &self.copied {
            return copied.link.flush();
        }
        let flushed = self.log.sync_data();
        flushed.map_err(|error| not_flushed(&self.path, error))
    }

    /// Reads and writes, and looks for what the daemon would not notice: a file that was deleted can still be written, but
    /// is lost with the daemon.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.read(crate::events::last)?;
        self.write(Durability::Light, schema::write_version)?;
        match &self.copied {
            Some(copied) => copied.link.check(),
            None => std::fs::metadata(&self.path)
                .map(drop)
                .map_err(|error| StoreError::Failed {
                    path: self.path.clone(),
                    source: error.into(),
                }),
        }
    }

    /// How often PostgreSQL was lost and came back.
    pub(crate) fn outages(&self) -> u64 {
        self.copied
            .as_ref()
            .map_or(0, |copied| copied.link.outages())
    }

    fn commit<T>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let mut connection = lock(&self.writer);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let Some(copied) = &self.copied else {
            let value = work(&transaction)?;
            transaction.commit()?;
            return Ok(value);
        };
        copied.link.check_sole()?;
        copied.changes.clear();
        let value = work(&transaction)?;
        let changes = copied.changes.take(&transaction)?;
        let sent = match changes.is_empty() {
            true => Sent::Stored,
            false => copied.link.write(changes.clone(), durability)?,
        };
        if let Err(error) = transaction.commit() {
            // PostgreSQL has the transaction and the copy has not.
            copied.link.give_up();
            return Err(error.into());
        }
        copied.changes.commit(&changes);
        match sent {
            Sent::Stored | Sent::Waiting => Ok(value),
            Sent::Unconfirmed(source) => Err(copied.link.unconfirmed(source).into()),
        }
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        if let Some(copied) = &self.copied {
            copied.link.check_sole()?;
        }
        let reader = lock(&self.reader);
        work(&reader).map_err(|trouble| self.explain(trouble))
    }

    /// Moves the log into the file as far as no reader needs it, if it is worth it. A passive
    /// checkpoint waits for nothing, and no transaction waits for it.
    pub(crate) fn checkpoint(&self) -> Result<(), StoreError> {
        if self.written.load(Ordering::Relaxed) < WORTH_IT {
            return Ok(());
        }
        self.written.store(0, Ordering::Relaxed);
        let connection = lock(&self.checkpointer);
        let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        done.map_err(|error| translate(&self.path, error))
    }

    fn explain(&self, trouble: Trouble) -> StoreError {
        match trouble {
            Trouble::Sqlite(error) => translate(&self.path, error),
            Trouble::Store(error) => error,
        }
    }
}

/// Removes a file of SQLite with what belongs to it.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::ReadOnly {
                    path: PathBuf::from(file),
                    source: error.into(),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

/// The write-ahead log of an open database.
fn log_of(path: &Path) -> io::Result<File> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    File::open(log)
}

fn not_flushed(path: &Path, error: io::Error) -> StoreError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull {
            path,
            source: Box::new(error),
        },
        _ => StoreError::Failed {
            path,
            source: Box::new(error),
        },
    }
}

/// Reads the version through a read-only connection, so that a newer file stays unchanged. A file
/// that is not writable is refused first: SQLite would open it, fail at the first change, and leave
/// read-only files beside it.
fn refuse_newer(path: &Path) -> Result<(), StoreError> {
    let opened = std::fs::OpenOptions::new().write(true).open(path);
    match opened.and_then(|file| file.metadata()) {
        Ok(metadata) if metadata.len() > 0 => {}
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(StoreError::ReadOnly {
                path: path.to_owned(),
                source: Box::new(error),
            });
        }
    }
    known_version(path).map(drop)
}

/// The schema version of a file, which is opened read-only.
fn known_version(path: &Path) -> Result<i64, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let found = Connection::open_with_flags(path, flags)
        .and_then(|connection| version(&connection))
        .map_err(|error| translate(path, error))?;
    if found > VERSION {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found,
            known: VERSION,
        });
    }
    Ok(found)
}

/// As [`known_version`], of a file that has to be a whole store.
pub(crate) fn checked_version(path: &Path) -> Result<i64, StoreError> {
    let corrupt = |what: String| StoreError::Corrupt {
        path: path.to_owned(),
        what,
        source: None,
    };
    let version = known_version(path)?;
    if version < 1 {
        return Err(corrupt("it is not a store of holm".to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let word = Connection::open_with_flags(path, flags)
        .and_then(|connection| connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)));
    let word: String = word.map_err(|error| translate(path, error))?;
    match word.as_str() {
        "ok" => Ok(version),
        _ => Err(corrupt(word)),
    }
}

fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn prepare(connection: Connection) -> Result<Connection, rusqlite::Error> {
    connection.busy_timeout(WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // SQLite flushes for checkpoints only; a durable transaction is flushed after it released the lock.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    Ok(connection)
}

/// Reserves disk space for a full disk, because stopping and removing workspaces needs writes. A
/// table is written and dropped; SQLite keeps the pages in the file and the log at its length.
fn set_aside(connection: &Connection) -> Result<(), rusqlite::Error> {
    let kept = connection
        .execute_batch("DROP TABLE IF EXISTS set_aside; CREATE TABLE set_aside (room BLOB)")
        .and_then(|()| {
            let insert = "INSERT INTO set_aside VALUES (zeroblob(?1))";
            connection.execute(insert, [SET_ASIDE])
        });
    // Also if there was not enough space for it.
    let dropped = connection.execute_batch("DROP TABLE IF EXISTS set_aside");
    kept.and(dropped)
}

/// Creates the tables in a new file, or checks and migrates an old one, completely or not at all.
fn settle_schema(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let corrupt = |what: String| StoreError::Corrupt {
        path: path.to_owned(),
        what,
        source: None,
    };
    let failed = |error| translate(path, error);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let tables: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    let found = match (version(&transaction).map_err(failed)?, tables) {
        (0, 0) => {
            schema::create(&transaction, VERSION).map_err(failed)?;
            VERSION
        }
        (found @ 1..=VERSION, _) => {
            let check = transaction.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
            let word: String = check.map_err(failed)?;
            if word != "ok" {
                return Err(corrupt(word));
            }
            found
        }
        (found, _) => return Err(corrupt(format!("its schema number is {found}"))),
    };
    schema::migrate(&transaction, found).map_err(failed)?;
    transaction.commit().map_err(failed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic inside a transaction rolled it back, so the connection is still usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
