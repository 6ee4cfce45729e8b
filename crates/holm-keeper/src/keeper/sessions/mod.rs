//! The sessions of a workspace: terminals with a program. One thread per session reads the
//! program's output, whether or not a client is attached; requests read the stored state.
//!
//! Sessions live as long as the keeper and survive any daemon. The list is also written beside the
//! workspace whenever a session starts or ends, so it is known after the keeper is gone.

mod draw;
mod history;
mod model;
mod notices;
mod serve;
mod shared;
mod sieve;
mod terminal;
mod viewer;

use super::program;
use super::secrets::Receiver;
use super::{Registry, Started};
use crate::directories::WorkspaceDirs;
use crate::records::ended_sessions;
use crate::wire::Spawn;
use holm_core::session::protocol::{NewSession, Session};
use holm_core::session::{MOST_ENDED, MOST_LIVE, SessionName, Size, not_found};
use holm_core::{Cause, Code, Fault};
use jiff::Timestamp;
use notices::Notices;
pub use serve::{answer, attach, watch};
use shared::Shared;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const STACK: usize = 512 * 1024;

pub struct Sessions {
    file: PathBuf,
    notices: Notices,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Oldest first.
    all: Vec<Entry>,
    /// Sessions that are being started.
    starting: Vec<Starting>,
    /// Threads that have not reported the end of their session.
    threads: usize,
}

struct Starting {
    id: String,
    name: Option<String>,
}

enum Entry {
    Here(Arc<Shared>),
    /// From an earlier keeper.
    Before(Box<Session>),
}

// === impl Sessions ===

impl Sessions {
    /// Loads the records of an earlier keeper.
    pub fn load(directories: &WorkspaceDirs) -> Self {
        let file = directories.sessions();
        let before = ended_sessions(&std::fs::read(&file).unwrap_or_default());
        let all = before.into_iter().map(|one| Entry::Before(Box::new(one)));
        Self {
            file,
            notices: Notices::default(),
            state: Mutex::new(State {
                all: all.collect(),
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    pub fn list(&self) -> Vec<Session> {
        self.state().all.iter().map(Entry::status).collect()
    }

    /// A session of this keeper; those of an earlier one exist only as records.
    fn find(&self, id: &str) -> Result<Arc<Shared>, Fault> {
        let state = self.state();
        match state.all.iter().find(|entry| entry.id() == id) {
            Some(Entry::Here(shared)) => Ok(Arc::clone(shared)),
            Some(Entry::Before(_)) => Err(Fault::new(
                Code::SessionEnded,
                format!("session {id} ended with an earlier run of the workspace"),
                "`holm session ls` says how; `holm session new` begins another one",
            )),
            None => Err(not_found(id)),
        }
    }

    fn start(
        self: &Arc<Self>,
        registry: &Arc<Registry>,
        new: NewSession,
    ) -> Result<Session, Fault> {
        let starting = self.admit(&new)?;
        let started = self.spawn(registry, new);
        self.state().starting.retain(|one| one.id != starting);
        let shared = started?;
        let status = shared.status();
        self.notices.started(&status);
        self.state().all.push(Entry::Here(shared));
        self.settle(registry);
        Ok(status)
    }

    /// Whether a session may be created. Its name is reserved from here on.
    fn admit(&self, new: &NewSession) -> Result<String, Fault> {
        if let Some(name) = &new.name {
            SessionName::parse(name)?;
        }
        let mut state = self.state();
        let live = state.all.iter().filter(|entry| entry.is_live());
        if live.count() + state.starting.len() >= MOST_LIVE {
            return Err(Fault::new(
                Code::Busy,
                format!("the workspace has {MOST_LIVE} live sessions, which is the most"),
                "`holm session ls` lists them, `holm session kill S` ends one",
            ));
        }
        let has_name = |name: &Option<String>| name.is_some() && *name == new.name;
        let live = state.all.iter().filter(|entry| entry.is_live());
        let mut live = live.map(Entry::status);
        let taken = live.find(|status| has_name(&status.name));
        let taken = taken.map(|status| status.id);
        let starting = state.starting.iter().find(|one| has_name(&one.name));
        if let Some(id) = taken.or_else(|| starting.map(|one| one.id.clone())) {
            let name = new.name.as_deref().unwrap_or_default();
            return Err(Fault::new(
                Code::AlreadyExists,
                format!("session {id} has the name `{name}`"),
                format!("`holm session attach {id}` attaches to it"),
            ));
        }
        if let Some(parent) = &new.parent
            && !state.all.iter().any(|entry| entry.id() == parent)
        {
            return Err(not_found(parent));
        }
        state.starting.push(Starting {
            id: new.id.clone(),
            name: new.name.clone(),
        });
        Ok(new.id.clone())
    }

    fn spawn(
        self: &Arc<Self>,
        registry: &Arc<Registry>,
        new: NewSession,
    ) -> Result<Arc<Shared>, Fault> {
        let failed = |cause: Cause| {
            Fault::new(
                Code::ExecFailed,
                "the session cannot be started",
                "`holm exec WS -- CMD` shows what the command says",
            )
            .because(cause)
        };
        let broken = |error: io::Error| failed(error.into());
        let (rows, cols) = (new.rows, new.cols);
        let size = Size { rows, cols }.bounded();
        let place = registry.place().map_err(broken)?;
        let receiver = Receiver::Session(&new.id).of(new.asker);
        let given = registry.secrets.due(receiver);
        let added = [registry.env(), given.variables, new.env.clone()].concat();
        let spawn = Spawn {
            sequence: 0,
            argv: new.argv.clone(),
            env: place.environment(registry, Some(model::TERM), added),
            cwd: place.directory(registry, new.cwd.clone()),
            terminal: Some((size.rows, size.cols)),
            domain: registry.secrets.domain(receiver),
            streams: None,
            is_run: false,
            user: place.user(),
            limits: Vec::new(),
        };
        let (exit, exit_inside) = io::pipe().map_err(broken)?;
        let started = registry
            .start_at(&place, spawn, exit_inside)
            .map_err(broken)?;
        let (pid, ends) = match started {
            Started::Running { pid, ends } => (pid, ends),
            Started::Not {
                cause,
                directory: Some(errno),
                ..
            } => return Err(no_directory(errno, cause)),
            Started::Not { cause, .. } => return Err(failed(cause.into())),
        };
        registry.secrets.note_given(receiver, given.received, pid);
        let master = ends.into_iter().next();
        let master = master
            .filter(program::is_terminal)
            .ok_or_else(|| failed(program::NO_TERMINAL.into()))?;
        rustix::io::ioctl_fionbio(&master, true).map_err(|errno| broken(errno.into()))?;
        let (woken, wake) = io::pipe().map_err(broken)?;
        // Waking the thread must never block.
        rustix::io::ioctl_fionbio(&wake, true).map_err(|errno| broken(errno.into()))?;
        let shared = Arc::new(Shared::new(status_of(&new, pid, size), size, wake));
        let terminal = terminal::Terminal::new(
            Arc::clone(registry),
            Arc::clone(self),
            Arc::clone(&shared),
            terminal::Ends {
                place: place.clone(),
                master,
                exit,
                woken,
            },
        );
        let thread = std::thread::Builder::new().stack_size(STACK);
        self.state().threads += 1;
        let (sessions, ending, id) = (Arc::clone(self), Arc::clone(registry), new.id.clone());
        let spawned = thread.spawn(move || {
            terminal.run();
            ending.end_sign_ins(&id);
            sessions.thread_ended();
        });
        if let Err(error) = spawned {
            self.thread_ended();
            registry.signal_at(&place, pid, libc::SIGKILL);
            return Err(broken(error));
        }
        Ok(shared)
    }

    /// Ends a session and its descendants; returns them when they have ended.
    fn kill(&self, id: &str) -> Result<Vec<Session>, Fault> {
        let shared = self.find(id)?;
        if shared.status().exit_code.is_some() {
            return Err(shared.has_ended());
        }
        let tree = self.tree(id);
        for one in &tree {
            one.ask_to_end();
        }
        let until = Instant::now() + terminal::GRACE * 4;
        for one in &tree {
            one.wait_for_end(until);
        }
        Ok(tree.iter().map(|one| one.status()).collect())
    }

    /// Live sessions with this ancestor, itself first.
    fn tree(&self, id: &str) -> Vec<Arc<Shared>> {
        let state = self.state();
        let mut wanted = vec![id.to_owned()];
        let mut found = Vec::new();
        // A parent comes before its children, so one pass is enough.
        for entry in &state.all {
            let status = entry.status();
            let is_below = status.parent.is_some_and(|parent| wanted.contains(&parent));
            if !is_below && status.id != id {
                continue;
            }
            wanted.push(status.id);
            if let Entry::Here(shared) = entry
                && status.exit_code.is_none()
            {
                found.push(Arc::clone(shared));
            }
        }
        found
    }

    /// After a start or an end: drops the oldest ended sessions, writes the list and tells daemons.
    fn settle(&self, registry: &Registry) {
        let mut state = self.state();
        let ended = state.all.iter().filter(|entry| !entry.is_live()).count();
        let mut surplus = ended.saturating_sub(MOST_ENDED);
        state.all.retain(|entry| {
            let goes = surplus > 0 && !entry.is_live();
            surplus -= usize::from(goes);
            !goes
        });
        let all: Vec<Session> = state.all.iter().map(Entry::status).collect();
        if let Err(error) = self.write_down(&all) {
            complain!("cannot write down the sessions: {error}");
        }
        drop(state);
        self.changed.notify_all();
        registry.watchers.wake();
    }

    fn write_down(&self, all: &[Session]) -> io::Result<()> {
        let fresh = self.file.with_extension("json.new");
        std::fs::write(&fresh, serde_json::to_vec(all)?)?;
        std::fs::rename(fresh, &self.file)
    }

    fn thread_ended(&self) {
        self.state().threads -= 1;
        self.changed.notify_all();
    }

    /// Waits until all threads have reported the end of their session.
    pub fn finish(&self, patience: Duration) {
        let state = self.state();
        let is_left = |state: &mut State| state.threads > 0;
        // The keeper ends in any case.
        drop(self.changed.wait_timeout_while(state, patience, is_left));
        self.notices.close();
    }

    fn has_live(&self) -> bool {
        let state = self.state();
        !state.starting.is_empty() || state.all.iter().any(Entry::is_live)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Entry ===

impl Entry {
    fn id(&self) -> &str {
        match self {
            Entry::Here(shared) => shared.id(),
            Entry::Before(status) => &status.id,
        }
    }

    fn is_live(&self) -> bool {
        match self {
            Entry::Here(shared) => !shared.is_over(),
            Entry::Before(_) => false,
        }
    }

    fn status(&self) -> Session {
        match self {
            Entry::Here(shared) => shared.status(),
            Entry::Before(status) => (**status).clone(),
        }
    }
}

/// The working directory of a session cannot be entered.
fn no_directory(errno: i32, cause: String) -> Fault {
    let code = match errno {
        libc::ENOENT => Code::PathNotFound,
        libc::EACCES => Code::PermissionDenied,
        _ => Code::NotADirectory,
    };
    Fault::new(
        code,
        "the session cannot be started",
        "name a directory that is there inside, absolute or below the project's root",
    )
    .because(cause)
}

fn status_of(new: &NewSession, pid: i32, size: Size) -> Session {
    let words = new.argv.iter();
    Session {
        id: new.id.clone(),
        name: new.name.clone(),
        parent: new.parent.clone(),
        agent: new.agent.clone(),
        command: words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect(),
        pid: Some(pid),
        created_at: now(),
        rows: size.rows,
        cols: size.cols,
        ..Session::default()
    }
}

fn now() -> String {
    Timestamp::now().to_string()
}

/// The master side of a program's terminal.
type Master = OwnedFd;
