//! Copies, backups and restored backups of a whole store, which is read into memory and written from there.
//!
//! A backup is an SQLite file. What was written is read again and compared by the digest of each table.

use crate::database;
use crate::error::translate;
use crate::postgres::{Purpose, Server, Session, runtime};
use crate::schema;
use crate::tables::{self, Content, are_unused};
use holm_engine::store::StoreError;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A store as a whole.
#[derive(Clone)]
pub enum Place {
    /// An SQLite file. The caller keeps other processes from changing it, except for a backup.
    File(PathBuf),
    /// Its lock is taken for as long as needed, except for a backup.
    Server(Box<Server>),
}

/// What of a store is in memory.
struct Loaded {
    connection: Connection,
    contents: Vec<Content>,
}

/// Copies everything to a store that is not used yet.
pub fn copy(from: &Place, to: &Place) -> Result<Vec<Content>, StoreError> {
    let mut source = from.open(Purpose::Tool)?;
    let mut target = to.open(Purpose::Tool)?;
    let loaded = source.load()?;
    if let Some(found) = target.load_if_any()?
        && !are_unused(&found.contents)
    {
        return Err(to.not_empty());
    }
    target.replace(&loaded)?;
    Ok(loaded.contents)
}

/// Writes everything into one file. Daemons may go on using the store.
pub fn backup(from: &Place, file: &Path) -> Result<Vec<Content>, StoreError> {
    let loaded = from.open(Purpose::Reader)?.load()?;
    write_file(&loaded.connection, file)?;
    Ok(loaded.contents)
}

/// Replaces a store by a backup. If the store is used, its content is kept in the file `aside`, or the backup is refused.
pub fn restore(file: &Path, to: &Place, aside: Option<&Path>) -> Result<Restored, StoreError> {
    let mut target = to.open(Purpose::Tool)?;
    let loaded = read_file(file)?;
    let mut kept = None;
    if let Some(found) = target.load_if_any()?
        && !are_unused(&found.contents)
    {
        let aside = aside.ok_or_else(|| to.not_empty())?;
        write_file(&found.connection, aside)?;
        kept = Some(aside.to_owned());
    }
    target.replace(&loaded)?;
    Ok(Restored {
        contents: loaded.contents,
        kept,
    })
}

/// A restored backup.
#[derive(Clone, Debug)]
pub struct Restored {
    pub contents: Vec<Content>,
    /// The file with what the store had before.
    pub kept: Option<PathBuf>,
}

// === impl Place ===

impl Place {
    fn open(&self, purpose: Purpose) -> Result<Opened<'_>, StoreError> {
        match self {
            Place::File(path) => Ok(Opened::File(path)),
            Place::Server(server) => {
                let runtime = runtime().map_err(|error| StoreError::Failed {
                    path: PathBuf::from(server.to_string()),
                    source: error.into(),
                })?;
                let session = runtime.block_on(Session::open(server, purpose))?;
                Ok(Opened::Server(Box::new(Connected {
                    session,
                    runtime,
                    place: server.to_string(),
                })))
            }
        }
    }

    fn not_empty(&self) -> StoreError {
        let place = match self {
            Place::File(path) => path.display().to_string(),
            Place::Server(server) => server.to_string(),
        };
        StoreError::NotEmpty { place }
    }
}

enum Opened<'a> {
    File(&'a Path),
    Server(Box<Connected>),
}

struct Connected {
    // Dropped before its runtime.
    session: Session,
    runtime: tokio::runtime::Runtime,
    place: String,
}

// === impl Opened ===

impl Opened<'_> {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let place = self.place();
        self.load_if_any()?.ok_or(StoreError::Empty { place })
    }

    fn place(&self) -> String {
        match self {
            Opened::File(path) => path.display().to_string(),
            Opened::Server(server) => server.place.clone(),
        }
    }

    /// `None`: there is nothing of holm.
    fn load_if_any(&mut self) -> Result<Option<Loaded>, StoreError> {
        match self {
            Opened::File(path) if !path.exists() => Ok(None),
            Opened::File(path) => read_file(path).map(Some),
            Opened::Server(server) => {
                let Connected {
                    session,
                    runtime,
                    place,
                } = &mut **server;
                let Some(state) = runtime.block_on(session.state())? else {
                    return Ok(None);
                };
                let failed = |error| translate(Path::new(&*place), error);
                let mut connection = in_memory().map_err(failed)?;
                runtime.block_on(session.download(&mut connection, state.version))?;
                Loaded::of(connection).map(Some).map_err(failed)
            }
        }
    }

    /// Replaces everything, and reads it again.
    fn replace(&mut self, loaded: &Loaded) -> Result<(), StoreError> {
        match self {
            Opened::File(path) => {
                settle(path)?;
                write_file(&loaded.connection, path)?;
            }
            Opened::Server(server) => {
                let Connected {
                    session, runtime, ..
                } = &mut **server;
                runtime.block_on(async {
                    let earlier = session.state().await?.map_or(0, |state| state.written);
                    session.upload(&loaded.connection, earlier + 1).await
                })?;
            }
        }
        let found = self.load()?;
        let expected = loaded.contents.iter().zip(&found.contents);
        let unequal = expected.filter(|(one, other)| one != other);
        let tables: Vec<&str> = unequal.map(|(one, _)| one.table.as_str()).collect();
        if tables.is_empty() && loaded.contents.len() == found.contents.len() {
            return Ok(());
        }
        Err(StoreError::Unequal {
            place: self.place(),
            tables: tables.join(", "),
        })
    }
}

// === impl Loaded ===

impl Loaded {
    fn of(connection: Connection) -> Result<Self, rusqlite::Error> {
        let contents = tables::contents(&connection)?;
        Ok(Self {
            connection,
            contents,
        })
    }
}

/// An empty database in memory. Its rows come in any order.
fn in_memory() -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    connection.pragma_update(None, "foreign_keys", false)?;
    Ok(connection)
}

/// A file of this or an earlier version, as it is at one moment.
fn read_file(path: &Path) -> Result<Loaded, StoreError> {
    let version = database::checked_version(path)?;
    let read = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let source = Connection::open_with_flags(path, flags)?;
        source.busy_timeout(database::WAIT)?;
        let mut connection = in_memory()?;
        all_pages(&source, &mut connection)?;
        let transaction = connection.transaction()?;
        schema::migrate(&transaction, version)?;
        transaction.commit()?;
        Loaded::of(connection)
    };
    read().map_err(|error| translate(path, error))
}

/// Writes the database in memory into a new file that only this user can read, and renames it to `path`.
fn write_file(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::ReadOnly {
        path: path.to_owned(),
        source: error.into(),
    };
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let file = tempfile::Builder::new()
        .prefix(".holm-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory)
        .map_err(failed)?;
    let written = Connection::open(file.path()).and_then(|mut target| {
        all_pages(connection, &mut target)?;
        target.close().map_err(|(_, error)| error)
    });
    written.map_err(|error| translate(path, error))?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    let directory = File::open(directory).and_then(|directory| directory.sync_all());
    directory.map_err(failed)
}

fn all_pages(from: &Connection, to: &mut Connection) -> Result<(), rusqlite::Error> {
    let backup = Backup::new(from, to)?;
    loop {
        // All pages in one step: they are of one moment.
        match backup.step(-1)? {
            StepResult::Done => return Ok(()),
            _ => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
}

/// Moves the log of an earlier file into it: the log must not be taken for that of the file that comes.
fn settle(path: &Path) -> Result<(), StoreError> {
    if !path.exists() {
        return database::remove(path);
    }
    let settled = Connection::open(path).and_then(|connection| {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        connection.pragma_update(None, "journal_mode", "DELETE")?;
        connection.close().map_err(|(_, error)| error)
    });
    settled.map_err(|error| translate(path, error))
}
