//! One connection to the database, which holds the lock of its only user.
//!
//! The tables are in the schema `holm` and have the names, columns and rows of the SQLite file. `holm.state` has one row:
//! the version of the schema, how many transactions were written, and a word that each opening process makes up.

use super::server::{CONNECT, Server};
use super::value::{self, Parameter, type_of};
use crate::changes::Change;
use crate::schema;
use crate::tables::{self, NUMBERS, Table};
use futures_util::TryStreamExt;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use holm_engine::store::StoreError;
use rusqlite::Connection;
use rusqlite::types::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, NoTls, Statement};

pub(crate) struct Session {
    client: Client,
    /// Ends with the connection.
    driver: JoinHandle<()>,
    /// Of the server's process for this connection.
    pub(crate) pid: i32,
    place: String,
    statements: HashMap<usize, OfTable>,
    count: Option<Statement>,
}

/// The prepared statements of a table.
struct OfTable {
    save: Statement,
    delete: Statement,
}

/// The row of `holm.state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) version: i64,
    pub(crate) written: i64,
    pub(crate) user: String,
}

/// Who connects, for `pg_stat_activity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Daemon,
    Tool,
    /// Reads while another process may hold the lock.
    Reader,
}

/// The advisory lock of a database that holm uses. Its number is the word `holm`.
const LOCK: i64 = 0x686f_6c6d;

/// How long a server process of a killed daemon may hold the lock. It ends as soon as its connection is seen to be cut.
const LOCK_WAIT: Duration = Duration::from_secs(3);

const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Statements that are sent at once.
const AT_ONCE: usize = 25;

/// `search_path`: no object of another schema can take the place of one that is meant.
const PREPARE: &str = "SET search_path = pg_catalog; SET client_min_messages = warning; SET lock_timeout = '5s';
    SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

const HOLDER: &str = "SELECT a.pid, a.application_name, coalesce(a.client_addr::text, 'this machine')
    FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 0 AND l.objid = $1 AND l.objsubid = 1
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())";

// === impl Session ===

impl Session {
    /// Connects. `Reader` takes no lock.
    pub(crate) async fn open(server: &Server, purpose: Purpose) -> Result<Self, StoreError> {
        let session = Self::connect(server, purpose).await?;
        if purpose != Purpose::Reader {
            session.lock(None, LOCK_WAIT).await?;
        }
        Ok(session)
    }

    /// Connects again and takes the lock, also from the earlier connection of this process.
    pub(crate) async fn reopen(server: &Server, earlier: i32) -> Result<Self, StoreError> {
        let session = Self::connect(server, Purpose::Daemon).await?;
        session.lock(Some(earlier), CONNECT).await?;
        Ok(session)
    }

    async fn connect(server: &Server, purpose: Purpose) -> Result<Self, StoreError> {
        let config = server.config(&application(purpose))?;
        let place = server.to_string();
        let unavailable = |source: holm_core::Cause| StoreError::Unavailable {
            place: server.to_string(),
            source,
        };
        let connecting = async {
            let (client, driver) = match server.encryption()? {
                None => {
                    let (client, connection) = config
                        .connect(NoTls)
                        .await
                        .map_err(|error| unavailable(error.into()))?;
                    (client, tokio::spawn(driven(connection)))
                }
                Some(tls) => {
                    let (client, connection) = config
                        .connect(tls)
                        .await
                        .map_err(|error| unavailable(error.into()))?;
                    (client, tokio::spawn(driven(connection)))
                }
            };
            let mut session = Self {
                client,
                driver,
                pid: 0,
                place,
                statements: HashMap::new(),
                count: None,
            };
            session
                .prepare()
                .await
                .map_err(|error| session.explain(error))?;
            session.check_encoding().await?;
            Ok(session)
        };
        match tokio::time::timeout(CONNECT * 2, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(unavailable("it does not answer in time".into())),
        }
    }

    async fn prepare(&mut self) -> Result<(), Error> {
        self.client.batch_execute(PREPARE).await?;
        self.pid = self
            .client
            .query_one("SELECT pg_backend_pid()", &[])
            .await?
            .get(0);
        Ok(())
    }

    async fn check_encoding(&self) -> Result<(), StoreError> {
        let found = self.client.query_one("SHOW server_encoding", &[]).await;
        let encoding: String = found.map_err(|error| self.explain(error))?.get(0);
        match encoding.as_str() {
            "UTF8" => Ok(()),
            _ => Err(StoreError::Misconfigured {
                what: format!(
                    "the database {} has the encoding {encoding}; holm needs UTF8: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
                    self.place
                ),
                source: None,
            }),
        }
    }

    async fn lock(&self, earlier: Option<i32>, patience: Duration) -> Result<(), StoreError> {
        let begun = Instant::now();
        loop {
            let query = "SELECT pg_try_advisory_lock($1)";
            let taken = self.client.query_one(query, &[&LOCK]).await;
            if taken.map_err(|error| self.explain(error))?.get(0) {
                return Ok(());
            }
            let holder = self.holder().await.map_err(|error| self.explain(error))?;
            if let Some((pid, _)) = holder
                && Some(pid) == earlier
            {
                // The server has not seen yet that this process lost that connection.
                let end = "SELECT pg_terminate_backend($1)";
                let ended = self.client.query(end, &[&pid]).await;
                ended.map_err(|error| self.explain(error))?;
            }
            if begun.elapsed() >= patience
                && let Some((_, holder)) = holder
            {
                let place = self.place.clone();
                return Err(StoreError::InUse { place, holder });
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// The server process that holds the lock, and its client for people.
    async fn holder(&self) -> Result<Option<(i32, String)>, Error> {
        let number = u32::try_from(LOCK).unwrap_or_default();
        let found = self.client.query_opt(HOLDER, &[&number]).await?;
        Ok(found.map(|row| {
            let (name, address): (String, String) = (row.get(1), row.get(2));
            (row.get(0), format!("{name}, connected from {address}"))
        }))
    }

    /// Returns when the connection has ended.
    pub(crate) async fn ended(&mut self) {
        // Whatever ended it: the next use of the connection says so.
        let _ = (&mut self.driver).await;
    }

    /// `None`: the database has nothing of holm.
    pub(crate) async fn state(&self) -> Result<Option<State>, StoreError> {
        let found = async {
            let query = "SELECT to_regclass('holm.state') IS NOT NULL";
            if !self.client.query_one(query, &[]).await?.get::<_, bool>(0) {
                return Ok(None);
            }
            let query = "SELECT version, written, opened_by FROM holm.state";
            let row = self.client.query_one(query, &[]).await?;
            Ok(Some(State {
                version: row.get(0),
                written: row.get(1),
                user: row.get(2),
            }))
        };
        let state = found.await.map_err(|error: Error| self.explain(error))?;
        match state {
            Some(state) if state.version > schema::VERSION => Err(StoreError::Newer {
                path: PathBuf::from(&self.place),
                found: state.version,
                known: schema::VERSION,
            }),
            Some(state) if state.version < 1 => {
                Err(self.corrupt(format!("its schema number is {}", state.version)))
            }
            state => Ok(state),
        }
    }

    /// Records that this process opened the database.
    pub(crate) async fn take(&self, user: &str) -> Result<(), StoreError> {
        let update = "UPDATE holm.state SET opened_by = $1";
        let updated = self.client.execute(update, &[&user]).await;
        updated.map(drop).map_err(|error| self.explain(error))
    }

    /// Writes all rows into an empty file of the same schema version, which is then migrated. One snapshot.
    pub(crate) async fn download(
        &self,
        file: &mut Connection,
        version: i64,
    ) -> Result<(), StoreError> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let begun = self.client.batch_execute(begin).await;
        begun.map_err(|error| self.explain(error))?;
        let filled = self.fill(file, version).await;
        let ended = self.client.batch_execute("COMMIT").await;
        filled?;
        ended.map_err(|error| self.explain(error))
    }

    async fn fill(&self, file: &mut Connection, version: i64) -> Result<(), StoreError> {
        let failed = |error| self.misfit(error);
        let transaction = file.transaction().map_err(failed)?;
        schema::create(&transaction, version).map_err(failed)?;
        for table in tables::all(&transaction).map_err(failed)? {
            if table.name == NUMBERS {
                // Inserting into the other tables filled it.
                let emptied = transaction.execute("DELETE FROM sqlite_sequence WHERE true", []);
                emptied.map_err(failed)?;
            }
            self.each(&table, |row| {
                table.insert(&transaction, row).map_err(failed)
            })
            .await?;
        }
        schema::migrate(&transaction, version).map_err(failed)?;
        transaction.commit().map_err(failed)
    }

    async fn each(
        &self,
        table: &Table,
        mut visit: impl FnMut(tables::Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (names, name) = (names(table), name(table));
        let query = format!("SELECT {names} FROM {name} ORDER BY \"{}\"", table.key());
        let none: [&(dyn ToSql + Sync); 0] = [];
        let found = self.client.query_raw(&query, none).await;
        let mut found = pin!(found.map_err(|error| self.explain(error))?);
        while let Some(row) = found
            .try_next()
            .await
            .map_err(|error| self.explain(error))?
        {
            let row = value::row(table, &row);
            visit(row.map_err(|error| self.corrupt(error.to_string()))?)?;
        }
        Ok(())
    }

    /// Replaces everything by the content of a file of the current version, completely or not at all.
    pub(crate) async fn upload(
        &mut self,
        file: &Connection,
        written: i64,
    ) -> Result<(), StoreError> {
        self.statements.clear();
        let tables = tables::all(file).map_err(|error| self.misfit(error))?;
        let done = async {
            self.client.batch_execute("BEGIN").await?;
            self.create(&tables, written).await
        };
        done.await.map_err(|error: Error| self.explain(error))?;
        for (place, table) in tables.iter().enumerate() {
            let mut changes = Vec::new();
            table
                .each(file, |row| {
                    changes.push(Change::of(place, row));
                    Ok(())
                })
                .map_err(|error| self.misfit(error))?;
            let sent = self.send(&tables, &changes, Vec::new()).await;
            if let Err(error) = sent {
                let failed = self.explain(error);
                // The connection may be gone, and the transaction with it.
                let _ = self.client.batch_execute("ROLLBACK").await;
                return Err(failed);
            }
        }
        let done = self.client.batch_execute("COMMIT").await;
        done.map_err(|error| self.explain(error))
    }

    async fn create(&self, tables: &[Table], written: i64) -> Result<(), Error> {
        let query = "SELECT to_regnamespace('holm') IS NOT NULL";
        let mut statements = match self.client.query_one(query, &[]).await?.get(0) {
            true => String::new(),
            false => "CREATE SCHEMA holm;".to_owned(),
        };
        let query = "SELECT format('DROP TABLE holm.%I;', tablename) FROM pg_tables WHERE schemaname = 'holm'";
        for row in self.client.query(query, &[]).await? {
            statements.push_str(row.get(0));
        }
        for table in tables {
            let columns = table.columns.iter();
            let columns =
                columns.map(|column| format!("\"{}\" {}", column.name, type_of(column.kind)));
            let columns: Vec<_> = columns.collect();
            let (name, key) = (name(table), table.key());
            let columns = columns.join(", ");
            statements.push_str(&format!(
                "CREATE TABLE {name} ({columns}, PRIMARY KEY (\"{key}\"));"
            ));
        }
        let version = schema::VERSION;
        statements.push_str(&format!(
            "CREATE TABLE holm.state (id integer PRIMARY KEY CHECK (id = 1), version bigint NOT NULL,
                written bigint NOT NULL, opened_by text NOT NULL);
             INSERT INTO holm.state VALUES (1, {version}, {written}, '')"
        ));
        self.client.batch_execute(&statements).await
    }

    /// Writes one transaction with its number. Everything is sent at once if it is not much.
    pub(crate) async fn write(
        &mut self,
        tables: &[Table],
        number: i64,
        changes: &[Change],
    ) -> Result<(), Error> {
        let count = match &self.count {
            Some(count) => count.clone(),
            None => {
                let update = "UPDATE holm.state SET written = $1";
                self.count
                    .insert(self.client.prepare(update).await?)
                    .clone()
            }
        };
        self.prepare_for(tables, changes).await?;
        let begin = async { self.client.batch_execute("BEGIN").await }.boxed();
        let counting = async { self.client.execute(&count, &[&number]).await.map(drop) }.boxed();
        let sent = self.pipelined(vec![begin, counting], changes, true).await;
        if sent.is_err() {
            // The server ended the transaction already if it got to the end of it.
            let _ = self.client.batch_execute("ROLLBACK").await;
        }
        sent
    }

    async fn send(
        &mut self,
        tables: &[Table],
        changes: &[Change],
        first: Vec<BoxFuture<'_, Result<(), Error>>>,
    ) -> Result<(), Error> {
        self.prepare_for(tables, changes).await?;
        self.pipelined(first, changes, false).await
    }

    /// The driver sends requests in the order in which they are first polled.
    async fn pipelined(
        &self,
        mut requests: Vec<BoxFuture<'_, Result<(), Error>>>,
        changes: &[Change],
        commits: bool,
    ) -> Result<(), Error> {
        let mut rest = changes.iter().peekable();
        loop {
            while requests.len() < AT_ONCE
                && let Some(change) = rest.next()
            {
                requests.push(self.request(change).boxed());
            }
            let is_last = rest.peek().is_none();
            if is_last && commits {
                requests.push(async { self.client.batch_execute("COMMIT").await }.boxed());
            }
            let results = join_all(std::mem::take(&mut requests)).await;
            results.into_iter().collect::<Result<(), Error>>()?;
            if is_last {
                return Ok(());
            }
        }
    }

    async fn request(&self, change: &Change) -> Result<(), Error> {
        let statements = &self.statements[&change.table];
        match &change.row {
            Some(row) => {
                let values: Vec<Parameter<'_>> = row.iter().map(Parameter).collect();
                let count = self.client.execute_raw(&statements.save, values).await;
                count.map(drop)
            }
            None => self
                .client
                .execute(&statements.delete, &[&change.key])
                .await
                .map(drop),
        }
    }

    async fn prepare_for(&mut self, tables: &[Table], changes: &[Change]) -> Result<(), Error> {
        for change in changes {
            if self.statements.contains_key(&change.table) {
                continue;
            }
            let table = &tables[change.table];
            let (names, name, key) = (names(table), name(table), table.key());
            let marks: Vec<_> = (1..=table.columns.len())
                .map(|mark| format!("${mark}"))
                .collect();
            let others = table.columns.iter().skip(1);
            let others = others.map(|column| format!("\"{0}\" = EXCLUDED.\"{0}\"", column.name));
            let (marks, others) = (marks.join(", "), others.collect::<Vec<_>>().join(", "));
            let save = format!(
                "INSERT INTO {name} ({names}) VALUES ({marks}) ON CONFLICT (\"{key}\") DO UPDATE SET {others}"
            );
            let delete = format!("DELETE FROM {name} WHERE \"{key}\" = $1");
            let statements = OfTable {
                save: self.client.prepare(&save).await?,
                delete: self.client.prepare(&delete).await?,
            };
            self.statements.insert(change.table, statements);
        }
        Ok(())
    }

    /// Whether the database answers.
    pub(crate) async fn ping(&self) -> Result<(), Error> {
        self.client.batch_execute("SELECT 1").await
    }

    /// Whether the connection is of no use after this error. Otherwise the server refused something, and changed nothing.
    pub(crate) fn is_lost(&self, error: &Error) -> bool {
        self.client.is_closed() || error.code().is_none_or(|code| is_outage(code.code()))
    }

    pub(crate) fn explain(&self, error: Error) -> StoreError {
        let place = self.place.clone();
        let path = PathBuf::from(&self.place);
        let code = error.code().map(|code| code.code().to_owned());
        match code.as_deref() {
            Some("53100") => StoreError::DiskFull {
                path,
                source: error.into(),
            },
            // A rule of the server about this user, or a server that only reads.
            Some("42501" | "25006") => StoreError::ReadOnly {
                path,
                source: error.into(),
            },
            Some(code) if !is_outage(code) => StoreError::Failed {
                path,
                source: error.into(),
            },
            _ => StoreError::Unavailable {
                place,
                source: error.into(),
            },
        }
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt {
            path: PathBuf::from(&self.place),
            what,
            source: None,
        }
    }

    /// Rows of the database that SQLite does not take, or a local file that fails.
    fn misfit(&self, error: rusqlite::Error) -> StoreError {
        StoreError::Corrupt {
            path: PathBuf::from(&self.place),
            what: "its rows do not fit into the tables".to_owned(),
            source: Some(error.into()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

// === impl Change ===

impl Change {
    fn of(table: usize, row: tables::Row) -> Self {
        let key = match row.first() {
            Some(Value::Integer(key)) => *key,
            _ => 0,
        };
        Self {
            table,
            key,
            row: Some(row),
        }
    }
}

/// The server ends or begins, or has no place for a connection.
fn is_outage(code: &str) -> bool {
    code.starts_with("08")
        || code.starts_with("57P")
        || [SqlState::TOO_MANY_CONNECTIONS, SqlState::QUERY_CANCELED]
            .iter()
            .any(|outage| outage.code() == code)
}

async fn driven<S, T>(connection: tokio_postgres::Connection<S, T>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to the database ended");
    }
}

fn application(purpose: Purpose) -> String {
    let pid = std::process::id();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let who = match purpose {
        Purpose::Daemon => "holm daemon",
        Purpose::Tool | Purpose::Reader => "holm store",
    };
    // PostgreSQL cuts a longer name.
    let name = format!("{who}, pid {pid} on {}", host.trim());
    let is_plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
    name.chars().filter(is_plain).take(63).collect()
}

fn names(table: &Table) -> String {
    let names = table.columns.iter();
    let names = names.map(|column| format!("\"{}\"", column.name));
    names.collect::<Vec<_>>().join(", ")
}

fn name(table: &Table) -> String {
    format!("holm.\"{}\"", table.name)
}
