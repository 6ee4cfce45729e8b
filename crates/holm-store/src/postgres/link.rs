//! The thread that owns the connection to the database, and what happens while there is none.
//!
//! Transactions have numbers. The database counts those that it has, so that a process which connects again knows whether
//! the last one arrived before the connection was cut. While the database is lost, transactions that record what has
//! happened already wait in memory in their order; those that request a change are refused.

use super::server::Server;
use super::session::{Purpose, Session};
use crate::changes::{Change, Durability};
use crate::schema;
use crate::tables::Table;
use holm_engine::store::StoreError;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A handle to the thread. When it is dropped, the lock of the database is free.
pub(crate) struct Link {
    requests: Option<UnboundedSender<Request>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    place: String,
}

/// What became of a transaction.
pub(crate) enum Sent {
    /// The database has it.
    Stored,
    /// The database gets it when it answers again.
    Waiting,
    /// As `Waiting`, or the database has it already. The caller was not promised that.
    Unconfirmed(holm_core::Cause),
}

enum Request {
    Tables(Arc<Vec<Table>>),
    Write(
        Vec<Change>,
        Durability,
        SyncSender<Result<Sent, StoreError>>,
    ),
    Check(SyncSender<Result<(), StoreError>>),
    Flush(SyncSender<Result<(), StoreError>>),
}

#[derive(Default)]
struct Shared {
    /// The process that holds the lock instead of this one.
    other: Mutex<Option<String>>,
    /// The copy is not what the database has.
    is_stale: AtomicBool,
    /// How often the database was lost and came back.
    outages: AtomicU64,
}

/// The thread's own state.
struct Owner {
    server: Server,
    tables: Arc<Vec<Table>>,
    shared: Arc<Shared>,
    session: Option<Session>,
    /// Why there is no session.
    why: String,
    /// The word of this process in `holm.state`.
    user: String,
    /// The number of the newest transaction.
    last: i64,
    waiting: VecDeque<(i64, Vec<Change>)>,
    /// The server's process for the last connection.
    pid: i32,
    tried: Instant,
    pause: Duration,
}

/// How long the database may take for one transaction.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a change whose fate is unknown waits for the next connection.
const FATE: Duration = Duration::from_secs(3);

/// A request does not try to connect again this soon.
const TRIED: Duration = Duration::from_millis(200);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How many transactions may wait. A daemon writes some per second.
const MOST_WAITING: usize = 20_000;

// === impl Link ===

impl Link {
    /// Connects, takes the lock, brings the schema up to date, and fills `file`, which is empty.
    pub(crate) fn open(server: Server, file: PathBuf) -> Result<Self, StoreError> {
        let (requests, received) = unbounded_channel();
        let (opened, answer) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let place = server.to_string();
        let failed = |error: std::io::Error| StoreError::Failed {
            path: PathBuf::from(&place),
            source: error.into(),
        };
        let runtime = super::runtime().map_err(failed)?;
        let of_thread = Arc::clone(&shared);
        let work = move || {
            runtime.block_on(async move {
                match Owner::open(server, file, of_thread).await {
                    Ok(owner) => {
                        // Its receiver waits for nothing else.
                        let _ = opened.send(Ok(()));
                        owner.serve(received).await;
                    }
                    Err(error) => {
                        let _ = opened.send(Err(error));
                    }
                }
            });
        };
        let named = std::thread::Builder::new().name("database".to_owned());
        let thread = named.spawn(work).map_err(failed)?;
        let link = Self {
            requests: Some(requests),
            thread: Some(thread),
            shared,
            place,
        };
        link.answer(answer)?;
        Ok(link)
    }

    /// Sets the tables that changes refer to. Called before the first change.
    pub(crate) fn describe(&self, tables: Arc<Vec<Table>>) {
        self.request(Request::Tables(tables));
    }

    /// Writes the changes of one transaction, which the caller has not committed yet.
    pub(crate) fn write(
        &self,
        changes: Vec<Change>,
        durability: Durability,
    ) -> Result<Sent, StoreError> {
        let (sender, answer) = sync_channel(1);
        self.request(Request::Write(changes, durability, sender));
        self.answer(answer)
    }

    /// Whether the database answers.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let (sender, answer) = sync_channel(1);
        self.request(Request::Check(sender));
        self.answer(answer)
    }

    /// Whether the database has everything.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        let (sender, answer) = sync_channel(1);
        self.request(Request::Flush(sender));
        self.answer(answer)
    }

    /// The copy could not be written: nothing is answered from it any more.
    pub(crate) fn give_up(&self) {
        self.shared.is_stale.store(true, Ordering::Relaxed);
    }

    /// Fails while another process uses the database: what this one knows may be out of date.
    pub(crate) fn check_sole(&self) -> Result<(), StoreError> {
        if self.shared.is_stale.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable {
                place: self.place.clone(),
                source:
                    "its copy could not be written; make room on the disk and restart the daemon"
                        .into(),
            });
        }
        match &*locked(&self.shared.other) {
            None => Ok(()),
            Some(holder) => Err(StoreError::InUse {
                place: self.place.clone(),
                holder: holder.clone(),
            }),
        }
    }

    /// The error of a change that the database did not confirm.
    pub(crate) fn unconfirmed(&self, source: holm_core::Cause) -> StoreError {
        StoreError::Unconfirmed {
            place: self.place.clone(),
            source,
        }
    }

    pub(crate) fn outages(&self) -> u64 {
        self.shared.outages.load(Ordering::Relaxed)
    }

    fn request(&self, request: Request) {
        // Without the thread there is no answer either.
        let _ = self
            .requests
            .as_ref()
            .map(|requests| requests.send(request));
    }

    fn answer<T>(
        &self,
        answer: std::sync::mpsc::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        answer.recv().unwrap_or_else(|_| {
            Err(StoreError::Unavailable {
                place: self.place.clone(),
                source: "the thread that connects to it has ended; restart the daemon".into(),
            })
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

// === impl Owner ===

impl Owner {
    async fn open(server: Server, file: PathBuf, shared: Arc<Shared>) -> Result<Self, StoreError> {
        let mut session = Session::open(&server, Purpose::Daemon).await?;
        let mut connection = filling(&file)?;
        let written = match session.state().await? {
            Some(state) => {
                session.download(&mut connection, state.version).await?;
                if state.version < schema::VERSION {
                    session.upload(&connection, state.written).await?;
                }
                state.written
            }
            None => {
                create(&mut connection).map_err(|error| crate::error::translate(&file, error))?;
                session.upload(&connection, 0).await?;
                0
            }
        };
        let user = holm_core::RequestId::random().to_string();
        session.take(&user).await?;
        Ok(Self {
            server,
            tables: Arc::default(),
            shared,
            pid: session.pid,
            session: Some(session),
            why: String::new(),
            user,
            last: written,
            waiting: VecDeque::new(),
            tried: Instant::now(),
            pause: FIRST_PAUSE,
        })
    }

    async fn serve(mut self, mut requests: UnboundedReceiver<Request>) {
        loop {
            // Requests that come meanwhile do not put the next attempt off.
            let next = tokio::time::Instant::from_std(self.tried + self.pause);
            let request = match &mut self.session {
                Some(session) => tokio::select! {
                    request = requests.recv() => Some(request),
                    () = session.ended() => None,
                },
                None => tokio::select! {
                    request = requests.recv() => Some(request),
                    () = tokio::time::sleep_until(next) => None,
                },
            };
            match request {
                Some(Some(request)) => self.handle(request).await,
                Some(None) => break,
                None if self.session.is_some() => self.lose("the connection was cut"),
                None => {
                    self.connect().await;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
        if self.session.is_none() {
            self.connect().await;
        }
        if !self.waiting.is_empty() {
            let waiting = self.waiting.len();
            tracing::error!(
                waiting,
                "the database does not answer; these transactions are lost"
            );
        }
    }

    async fn handle(&mut self, request: Request) {
        // A caller that is gone needs no answer.
        match request {
            Request::Tables(tables) => self.tables = tables,
            Request::Write(changes, durability, answer) => {
                let _ = answer.send(self.write(changes, durability).await);
            }
            Request::Check(answer) => {
                let _ = answer.send(self.check().await);
            }
            Request::Flush(answer) => {
                let _ = answer.send(match self.session {
                    Some(_) => Ok(()),
                    None => Err(self.unavailable()),
                });
            }
        }
    }

    async fn write(
        &mut self,
        changes: Vec<Change>,
        durability: Durability,
    ) -> Result<Sent, StoreError> {
        let is_fact = durability == Durability::Fact;
        if self.session.is_none() && !is_fact && self.tried.elapsed() > TRIED {
            self.connect().await;
        }
        let number = self.last + 1;
        let Some(session) = &mut self.session else {
            if is_fact && self.waiting.len() < MOST_WAITING && locked(&self.shared.other).is_none()
            {
                self.last = number;
                self.waiting.push_back((number, changes));
                return Ok(Sent::Waiting);
            }
            return Err(self.unavailable());
        };
        let writing = session.write(&self.tables, number, &changes);
        let why = match tokio::time::timeout(PATIENCE, writing).await {
            Ok(Ok(())) => {
                self.last = number;
                return Ok(Sent::Stored);
            }
            Ok(Err(error)) if !session.is_lost(&error) => return Err(session.explain(error)),
            Ok(Err(error)) => holm_core::fault::with_causes(&error),
            Err(_) => "a transaction takes too long".to_owned(),
        };
        self.lose(&why);
        // Perhaps the database has it. The next connection finds out, and writes it otherwise.
        self.last = number;
        self.waiting.push_back((number, changes));
        if is_fact {
            return Ok(Sent::Waiting);
        }
        let begun = Instant::now();
        while self.session.is_none() && begun.elapsed() < FATE {
            self.connect().await;
            if self.session.is_none() {
                tokio::time::sleep(FIRST_PAUSE).await;
            }
        }
        match self.session {
            Some(_) => Ok(Sent::Stored),
            None => Ok(Sent::Unconfirmed(why.into())),
        }
    }

    async fn check(&mut self) -> Result<(), StoreError> {
        let Some(session) = &self.session else {
            return Err(self.unavailable());
        };
        match tokio::time::timeout(PATIENCE, session.ping()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let explained = session.explain(error);
                self.lose("it does not answer");
                Err(explained)
            }
            Err(_) => {
                self.lose("it does not answer in time");
                Err(self.unavailable())
            }
        }
    }

    fn lose(&mut self, why: &str) {
        self.session = None;
        self.pause = FIRST_PAUSE;
        tracing::warn!(database = %self.server, why, "the database is lost; changes are refused");
        why.clone_into(&mut self.why);
    }

    /// Tries to connect, and to write what waits.
    async fn connect(&mut self) {
        let connected = self.resume().await;
        self.tried = Instant::now();
        let other = match connected {
            Ok(session) => {
                self.pid = session.pid;
                self.session = Some(session);
                self.why.clear();
                self.pause = FIRST_PAUSE;
                self.shared.outages.fetch_add(1, Ordering::Relaxed);
                tracing::info!(database = %self.server, "the database is back");
                None
            }
            Err(error) => {
                self.why = holm_core::fault::with_causes(&error);
                match error {
                    StoreError::InUse { holder, .. } => Some(holder),
                    _ => locked(&self.shared.other).take(),
                }
            }
        };
        *locked(&self.shared.other) = other;
    }

    async fn resume(&mut self) -> Result<Session, StoreError> {
        let mut session = Session::reopen(&self.server, self.pid).await?;
        let state = session.state().await?;
        let first = self
            .waiting
            .front()
            .map_or(self.last + 1, |(number, _)| *number);
        let is_ours = state.as_ref().is_some_and(|state| {
            state.user == self.user && (first - 1..=self.last).contains(&state.written)
        });
        let Some(state) = state.filter(|_| is_ours) else {
            // What this process knows is out of date, and it cannot become right again.
            return Err(StoreError::InUse {
                place: self.server.to_string(),
                holder: "another holm changed it meanwhile; restart this daemon".to_owned(),
            });
        };
        self.waiting.retain(|(number, _)| *number > state.written);
        while let Some((number, changes)) = self.waiting.front() {
            let writing = session.write(&self.tables, *number, changes);
            match tokio::time::timeout(PATIENCE, writing).await {
                Ok(Ok(())) => self.waiting.pop_front(),
                Ok(Err(error)) => return Err(session.explain(error)),
                Err(_) => return Err(self.unavailable()),
            };
        }
        Ok(session)
    }

    fn unavailable(&self) -> StoreError {
        let place = self.server.to_string();
        match &*locked(&self.shared.other) {
            Some(holder) => StoreError::InUse {
                place,
                holder: holder.clone(),
            },
            None => StoreError::Unavailable {
                place,
                source: self.why.clone().into(),
            },
        }
    }
}

fn create(connection: &mut Connection) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction()?;
    schema::create(&transaction, schema::VERSION)?;
    transaction.commit()
}

/// A file that is about to be filled: if it is not finished, it is of no use anyway.
fn filling(path: &std::path::Path) -> Result<Connection, StoreError> {
    let prepared = Connection::open(path).and_then(|connection| {
        connection.execute_batch(
            "PRAGMA foreign_keys = off; PRAGMA journal_mode = memory; PRAGMA synchronous = off",
        )?;
        Ok(connection)
    });
    prepared.map_err(|error| crate::error::translate(path, error))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
