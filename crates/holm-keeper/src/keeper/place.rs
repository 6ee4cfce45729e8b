//! Where programs of people and agents run: in the workspace's own root, or in the room of its Dev Container. Programs
//! that holm runs for itself, such as git, always run in the workspace's own root.

use super::program;
use super::rooms::Room;
use super::start::Started;
use super::{InitNumber, InitOf, Purpose, Registry};
use crate::wire::{Spawn, ToInit};
use holm_core::dev_container::with_variables;
use holm_core::image_users::User;
use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where a room shows holm's own programs.
const PROGRAMS: &str = "/run/holm/bin";

/// Variables of the workspace that programs of a room get, besides `HOLM_…`.
const TAKEN_OVER: &[u8] = b"TZ";

/// Where a program sees the workspace's tree.
pub const ROOT: &[u8] = b"HOLM_ROOT";

/// How often to look whether the container still starts.
const LOOK: Duration = Duration::from_millis(200);

pub type Variables = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Clone)]
pub enum Place {
    Workspace,
    Container(Arc<Home>),
}

/// The Dev Container while it runs.
pub struct Home {
    pub room: Arc<Room>,
    /// Where programs start.
    pub folder: PathBuf,
    /// Of its image, its service and `remoteEnv`.
    pub variables: Variables,
}

/// The container that programs may start in, if it is ready.
#[derive(Default)]
pub struct Homes {
    open: Mutex<Option<Arc<Home>>>,
    changed: Condvar,
}

// === impl Homes ===

impl Homes {
    pub fn open(&self, home: Arc<Home>) {
        *self.lock() = Some(home);
        self.changed.notify_all();
    }

    /// The room with this init has ended.
    pub fn close(&self, init: InitNumber) {
        self.lock().take_if(|home| home.room.number() == init);
    }

    fn find(&self) -> Option<Arc<Home>> {
        self.lock().clone().filter(|home| home.room.is_open())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Home>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Registry ===

impl Registry {
    /// Where programs start now. Waits until the container is ready; an error says why it will not be.
    pub fn place(&self) -> io::Result<Place> {
        let Some(container) = &self.plan.dev_container else {
            return Ok(Place::Workspace);
        };
        loop {
            if let Some(home) = self.homes.find() {
                return Ok(Place::Container(home));
            }
            if self.has_ended() || self.was_asked_to_stop() {
                return Err(io::Error::other("the workspace is being stopped"));
            }
            let name = &container.service;
            let services = self.services().map(|services| services.snapshot().services);
            let mut services = services.unwrap_or_default().into_iter();
            let status = services.find(|service| service.name == *name);
            let Some(status) = status else {
                let why = "the Dev Container was taken out of holm.toml: `holm restart WS` goes on without it";
                return Err(io::Error::other(why));
            };
            let (state, reason) = (status.state, status.reason);
            if !["starting", "ready", "backoff"].contains(&state.as_str()) {
                let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
                let why = format!(
                    "the Dev Container is {state}{reason}: `holm logs WS {name}` says more, `holm service WS start {name}` starts it"
                );
                return Err(io::Error::other(why));
            }
            // A missed wake-up costs one more look.
            drop(self.homes.changed.wait_timeout(self.homes.lock(), LOOK));
        }
    }

    /// Where programs run that have started; `None`: they ended with their container.
    pub fn present_place(&self) -> Option<Place> {
        match &self.plan.dev_container {
            None => Some(Place::Workspace),
            Some(_) => self.homes.find().map(Place::Container),
        }
    }

    /// Starts a program for a client.
    pub fn start_at(&self, place: &Place, spawn: Spawn, exit: PipeWriter) -> io::Result<Started> {
        self.start_for(Purpose::Command, place.init(), spawn, exit)
    }

    /// The same for a program without a client.
    pub fn start_behind(
        &self,
        place: &Place,
        spawn: Spawn,
        exit: PipeWriter,
    ) -> io::Result<Started> {
        self.start_for(Purpose::Background, place.init(), spawn, exit)
    }

    /// Signals the group of a program that was started there.
    pub fn signal_at(&self, place: &Place, pid: i32, signal: i32) {
        // A broken link ends everything of that init anyway.
        let _ = self.send_to(place.init(), &ToInit::Signal { pid, signal }, &[]);
    }
}

// === impl Place ===

impl Place {
    fn init(&self) -> InitOf<'_> {
        match self {
            Self::Workspace => InitOf::Workspace,
            Self::Container(home) => InitOf::Room(&home.room),
        }
    }

    /// The environment of a program, with what the request adds.
    pub fn environment(
        &self,
        registry: &Registry,
        term: Option<&str>,
        added: Variables,
    ) -> Variables {
        match self {
            Self::Workspace => program::environment(registry, term, added),
            Self::Container(home) => home.environment(registry, term, added),
        }
    }

    /// The user of its programs; `None`: the only one.
    pub fn user(&self) -> Option<User> {
        match self {
            Self::Workspace => None,
            Self::Container(home) => home.room.user().cloned(),
        }
    }

    /// A word of a command, with the variables of the container that it names.
    pub fn filled(&self, word: &str) -> String {
        with_variables(word, |name| match self {
            Self::Container(home) => last(&home.variables, name),
            Self::Workspace => None,
        })
    }

    /// The working directory: absolute, or relative to where the tree is.
    pub fn directory(&self, registry: &Registry, asked: Option<Vec<u8>>) -> Vec<u8> {
        let home = match self {
            Self::Workspace => return program::directory(registry, asked),
            Self::Container(home) => home,
        };
        let asked = asked.map(OsString::from_vec).unwrap_or_default();
        home.folder.join(asked).as_os_str().as_bytes().to_vec()
    }
}

// === impl Home ===

impl Home {
    fn environment(&self, registry: &Registry, term: Option<&str>, added: Variables) -> Variables {
        let own = program::environment(registry, term, Vec::new()).into_iter();
        let mut environment: Variables = own
            .filter(|(name, _)| {
                let is_holms = name.starts_with(b"HOLM_") && name != ROOT;
                is_holms || name == TAKEN_OVER || name == b"TERM"
            })
            .collect();
        let folder = self.folder.as_os_str().as_bytes().to_vec();
        environment.push((ROOT.to_vec(), folder));
        environment.extend(self.variables.iter().cloned());
        environment.extend(added);
        environment
    }
}

/// The last value of a name counts.
pub fn last(variables: &Variables, name: &str) -> Option<String> {
    let mut values = variables.iter().rev();
    let (_, value) = values.find(|(known, _)| known == name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// `PATH` with holm's own programs first.
pub fn with_programs(path: &[u8]) -> Vec<u8> {
    let programs = PROGRAMS.as_bytes();
    if path.starts_with(programs) {
        return path.to_vec();
    }
    [programs, b":", path].concat()
}
