//! The process outside that keeps one workspace. It hears from init, serves the control socket and the
//! guest socket, and dies when init dies; init dies when it dies. The driver's launcher makes the workspace
//! and then hands it over ([`Launched`]).
//!
//! Not a tokio program: it has one thread when it makes the namespaces, one when it is idle, and
//! one more per command that somebody watches. It never trusts init.

mod activity;
mod asker;
mod connection;
mod data;
mod dial;
mod exec;
mod guest;
mod guest_api;
mod here;
mod inits;
mod kept;
mod limits;
mod link;
mod main_loop;
mod outside;
mod place;
mod ports;
mod program;
mod quiet;
mod record;
mod relay;
mod renewal;
mod rooms;
mod runs;
mod secrets;
mod services;
mod sessions;
mod sign_ins;
mod start;
mod uses;
mod waiting;
mod watch;

pub use limits::DISK;
pub use link::{Handed, receive_hello};
pub use main_loop::{Keeper, Launched, Sockets, main, read_plan, write_not_started, write_start};
pub use outside::policy;
pub use secrets::keep_from_dumps;

use crate::plan::Plan;
use crate::platform::{Pids, Platform};
use crate::process::{self, Standstill};
use crate::wire::{Answer, CodeSeen, SignIn, Status, ToInit};
use activity::Activity;
use holm_core::isolation::Isolation;
use holm_core::route::PortAddress;
use holm_core::spec::{Egress, Service};
use kept::Doors;
use limits::MemoryKills;
use outside::Outside;
use place::Homes;
use rooms::{Room, Rooms};
use runs::Runs;
use rustix::process::{Signal, pidfd_send_signal};
use secrets::Secrets;
use services::Services;
use sessions::Sessions;
use start::Started;
use std::collections::{BTreeMap, HashMap};
use std::io::{PipeWriter, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, mpsc};
use std::time::Duration;
use watch::Watchers;

/// The keeper's state: the plan, the link to init, and which thread waits for which program to start
/// or end.
pub(crate) struct Registry {
    pub plan: Plan,
    /// Where returning clients find their commands.
    pub doors: Doors,
    pub secrets: Secrets,
    pub runs: Runs,
    pub activity: Activity,
    pub watchers: Watchers,
    pub rooms: Rooms,
    pub homes: Homes,
    isolation: Isolation,
    memory_kills: MemoryKills,
    platform: Arc<dyn Platform>,
    init: Init,
    outside: Outside,
    ending_link: UnixStream,
    writer: Mutex<UnixStream>,
    state: Mutex<State>,
    changed: Condvar,
    sequence: AtomicU64,
    stop_asked: AtomicBool,
    /// Every process inside is gone.
    has_ended: AtomicBool,
    /// Why the keeper itself ends the workspace.
    ending: OnceLock<&'static str>,
    services: OnceLock<Arc<Services>>,
    sessions: Arc<Sessions>,
    /// Write-locked while no program may be started.
    starts: RwLock<()>,
}

/// What a registry is made of.
pub(crate) struct Parts {
    pub plan: Plan,
    pub isolation: Isolation,
    pub init: Init,
    pub platform: Arc<dyn Platform>,
    pub outside: Outside,
    /// To init.
    pub writer: UnixStream,
    /// The same link, to shut it down while a thread writes to it.
    pub ending_link: UnixStream,
    pub sessions: Sessions,
    pub secrets: Secrets,
    pub activity: Activity,
}

/// Init. It is not reaped before its end is reported, so pid and pidfd stay valid.
pub struct Init {
    pub pidfd: OwnedFd,
    pub pid: i32,
}

#[derive(Default)]
struct State {
    label: Option<String>,
    /// The commit that the tree was moved to since the start.
    code: Option<CodeSeen>,
    ports: Vec<PortAddress>,
    /// Egress and services, if they changed since the start.
    env: Option<Vec<(String, String)>>,
    egress: Option<Egress>,
    declared: Option<Vec<Service>>,
    starting: HashMap<u64, Starting>,
    /// By init and pid: no init can speak for a program that another one started.
    running: HashMap<(InitNumber, i32), Running>,
    /// No process is left but init.
    empty: bool,
    /// Threads that still have to send something to a client.
    talking: usize,
    /// The generations of the mounted volumes.
    generations: BTreeMap<String, u64>,
}

struct Starting {
    /// The only init whose answer counts.
    by: InitNumber,
    reply: mpsc::Sender<Started>,
    /// Gets one byte, the exit code.
    exit: PipeWriter,
    purpose: Purpose,
    has_terminal: bool,
}

struct Running {
    exit: PipeWriter,
    purpose: Purpose,
    has_terminal: bool,
}

/// Whether a client waits for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Command,
    /// A service or one of its helpers.
    Background,
}

/// Which init started a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InitNumber(pub u64);

/// The init that a message comes from or goes to.
#[derive(Clone, Copy)]
pub(crate) enum InitOf<'a> {
    Workspace,
    Room(&'a Room),
}

/// A thread that talks to a client; the keeper waits for it before it ends.
pub(crate) struct Talking<'a>(&'a Registry);

/// The code of a process killed by the end of the workspace: 128 + SIGKILL.
pub(crate) const KILLED: u8 = 137;

/// How long the kernel may take to end everything with init.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Between SIGTERM and SIGHUP of a program on a terminal.
const HANGS_UP_AFTER: Duration = Duration::from_millis(300);

// === impl Registry ===

impl Registry {
    pub fn new(parts: Parts) -> Self {
        let Parts {
            plan,
            isolation,
            init,
            platform,
            outside,
            writer,
            ending_link,
            sessions,
            secrets,
            activity,
        } = parts;
        let volumes = plan.volumes.iter();
        let generations = volumes.map(|volume| (volume.name.clone(), volume.generation));
        let generations = generations.collect();
        Self {
            plan,
            doors: Doors::default(),
            secrets,
            runs: Runs::default(),
            activity,
            watchers: Watchers::default(),
            rooms: Rooms::default(),
            homes: Homes::default(),
            isolation,
            memory_kills: MemoryKills::new(Arc::clone(&platform)),
            platform,
            init,
            outside,
            ending_link,
            writer: Mutex::new(writer),
            state: Mutex::new(State {
                generations,
                ..State::default()
            }),
            changed: Condvar::new(),
            sequence: AtomicU64::new(1),
            stop_asked: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            ending: OnceLock::new(),
            services: OnceLock::new(),
            sessions: Arc::new(sessions),
            starts: RwLock::new(()),
        }
    }

    /// Init's pid outside.
    pub fn init_pid(&self) -> i32 {
        self.init.pid
    }

    pub fn init(&self) -> BorrowedFd<'_> {
        self.init.pidfd.as_fd()
    }

    pub fn set_sign_ins(
        &self,
        agent: String,
        sign_ins: Vec<SignIn>,
        holder: Option<String>,
    ) -> Answer {
        self.secrets.set_sign_ins(agent, sign_ins, holder);
        self.outside.set_placeholders(self.secrets.placeholders());
        Answer::Done
    }

    /// Sign-ins of agents end with the last run or session that has them.
    pub fn end_sign_ins(&self, holder: &str) -> Answer {
        if self.secrets.end_holder(holder) {
            self.outside.set_placeholders(self.secrets.placeholders());
        }
        Answer::Done
    }

    /// The gateway.
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    pub fn platform(&self) -> &dyn Platform {
        &*self.platform
    }

    fn standstill(&self) -> Option<Standstill> {
        process::standstill(self.init.pid, self.platform.is_frozen())
    }

    /// How the workspace is now.
    pub fn status(&self) -> Status {
        let mut status = self.known_status();
        let stands = self.standstill();
        status.trouble = stands.map(|how| format!("init {how}"));
        status.is_init_ending = stands == Some(Standstill::Ending);
        status.isolation.limits_reached = self.limits_reached();
        status
    }

    /// As [`status`](Self::status), but what has to be looked for, which may take a process, is as in `earlier`.
    pub fn status_since(&self, earlier: &Status) -> Status {
        let mut status = self.known_status();
        status.trouble.clone_from(&earlier.trouble);
        status.is_init_ending = earlier.is_init_ending;
        let limits_reached = &earlier.isolation.limits_reached;
        status.isolation.limits_reached.clone_from(limits_reached);
        status
    }

    /// What is known without a look at init and its limits.
    pub fn known_status(&self) -> Status {
        let commands = {
            let state = self.state();
            let starting = state.starting.values().map(|starting| starting.purpose);
            let running = state.running.values().map(|running| running.purpose);
            starting
                .chain(running)
                .filter(|purpose| *purpose == Purpose::Command)
                .count()
        };
        Status {
            version: self.plan.version,
            id: self.plan.id.clone(),
            isolation: Isolation {
                oom_kills: self.memory_kills.update_count(),
                ..self.isolation.clone()
            },
            ending: self.why_ended().map(str::to_owned),
            trouble: None,
            is_init_ending: false,
            commands,
            services: self
                .services()
                .map(|services| services.snapshot().services)
                .unwrap_or_default(),
            program: Some(self.plan.program.clone()),
            volumes: self.state().generations.clone().into_iter().collect(),
            carried: Some(self.outside.carried()),
        }
    }

    fn limits_reached(&self) -> Vec<String> {
        // While only init runs, no program can be refused anything, and a look takes a process.
        if self.activity.is_possible() && !self.has_ended() {
            self.platform.exhausted()
        } else {
            Vec::new()
        }
    }

    /// Called once, when services are about to be started.
    pub fn set_services(&self, services: Arc<Services>) {
        // A second call would be another workspace.
        let _ = self.services.set(services);
    }

    pub fn services(&self) -> Option<&Arc<Services>> {
        self.services.get()
    }

    /// The session or run whose first process has this pid inside.
    pub fn begun_with(&self, pid: i32) -> Option<String> {
        let sessions = self.sessions.list().into_iter();
        let mut sessions = sessions.filter(|session| session.pid == Some(pid));
        let session = sessions.next().map(|session| session.id);
        session.or_else(|| self.runs.begun_with(pid))
    }

    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    pub fn memory_kills(&self) -> &MemoryKills {
        &self.memory_kills
    }

    pub fn label(&self) -> String {
        self.state()
            .label
            .clone()
            .unwrap_or_else(|| self.plan.label.clone())
    }

    pub fn relabel(&self, label: String) {
        self.state().label = Some(label);
    }

    /// The addresses of the ports, as the daemon sent them last.
    pub fn ports(&self) -> Vec<PortAddress> {
        self.state().ports.clone()
    }

    pub fn set_code(&self, code: CodeSeen) {
        self.state().code = Some(code);
    }

    pub fn code(&self) -> Option<CodeSeen> {
        self.state().code.clone()
    }

    pub fn set_ports(&self, ports: Vec<PortAddress>) {
        self.state().ports = ports;
    }

    pub fn set_env(&self, env: Vec<(String, String)>) {
        self.state().env = Some(env);
    }

    /// The variables of `[env]`, as bytes.
    pub fn env(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let state = self.state();
        let env = state.env.as_ref().unwrap_or(&self.plan.env);
        let bytes = |(name, value): &(String, String)| (name.clone().into(), value.clone().into());
        env.iter().map(bytes).collect()
    }

    pub fn set_egress(&self, egress: Egress) {
        self.state().egress = Some(egress);
    }

    pub fn egress(&self) -> Egress {
        let changed = self.state().egress.clone();
        changed.unwrap_or_else(|| self.plan.network.egress.clone())
    }

    pub fn set_declared(&self, services: Vec<Service>) {
        self.state().declared = Some(services);
    }

    /// The configured services.
    pub fn declared(&self) -> Vec<Service> {
        let changed = self.state().declared.clone();
        changed.unwrap_or_else(|| self.plan.services.clone())
    }

    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    pub fn generation(&self, volume: &str) -> Option<u64> {
        self.state().generations.get(volume).copied()
    }

    pub fn set_generation(&self, volume: &str, generation: u64) {
        self.state()
            .generations
            .insert(volume.to_owned(), generation);
        self.watchers.wake();
    }

    /// SIGTERM to everything inside, SIGKILL to what is left after `grace`.
    pub fn stop(&self, grace: Duration) {
        self.stop_asked.store(true, Ordering::SeqCst);
        self.state().empty = false;
        self.platform.thaw();
        // A stopped init would not handle the message, and programs inside would not get the grace
        // period.
        let hears = self.standstill().is_none();
        if let Some(services) = self.services().filter(|_| hears) {
            services.close(grace * 2);
        }
        if hears
            && self
                .send_to(InitOf::Workspace, &ToInit::Terminate, &[])
                .is_ok()
        {
            let first = grace.min(HANGS_UP_AFTER);
            self.wait_while(first, |state| !state.empty);
            self.hang_up_terminals();
            self.wait_while(grace - first, |state| !state.empty);
        }
        self.kill();
    }

    /// Interactive shells ignore SIGTERM. They end as when their terminal is closed.
    fn hang_up_terminals(&self) {
        let state = self.state();
        let programs = state.running.iter();
        let with_terminal = programs
            .filter(|((by, _), running)| *by == InitNumber::WORKSPACE && running.has_terminal);
        let pids: Vec<i32> = with_terminal.map(|((_, pid), _)| *pid).collect();
        drop(state);
        for pid in pids {
            for signal in [libc::SIGHUP, libc::SIGCONT] {
                self.signal_at(&place::Place::Workspace, pid, signal);
            }
        }
    }

    /// Ends the workspace for a reason of the keeper's own, which is reported later.
    pub fn end_because(&self, why: &'static str, grace: Duration) {
        if self.ending.set(why).is_ok() {
            self.watchers.wake();
            self.stop(grace);
        }
    }

    pub fn why_ended(&self) -> Option<&'static str> {
        self.ending.get().copied()
    }

    pub fn was_asked_to_stop(&self) -> bool {
        self.stop_asked.load(Ordering::SeqCst)
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Kills init and with it every process of the workspace.
    pub fn kill(&self) {
        self.platform.thaw();
        if self.platform.pids() == Pids::OfAnotherNamespace {
            // Init ends itself when the link closes, and the kernel ends the rest.
            let _ = self.ending_link.shutdown(Shutdown::Both);
            process::ends_within(&self.init.pidfd, ENDS_WITHIN);
            return;
        }
        // An error means that it is gone already.
        let _ = pidfd_send_signal(&self.init.pidfd, Signal::KILL);
    }

    pub fn how_init_ended(&self) -> String {
        format!("init {}", process::how_ended(&self.init.pidfd))
    }

    /// Wakes every waiting thread, and lets them inform their clients.
    pub fn end(&self, patience: Duration) {
        self.has_ended.store(true, Ordering::SeqCst);
        let mut state = self.state();
        for (_, mut running) in state.running.drain() {
            let _ = running.exit.write_all(&[KILLED]);
        }
        state.starting.clear();
        drop(state);
        // After the exit codes, so that a client that learns of the end has its code.
        self.doors.close();
        self.sessions.finish(patience);
        self.wait_while(patience, |state| state.talking > 0);
    }

    /// Waits while the condition holds, at most for `limit`.
    fn wait_while(&self, limit: Duration, is_so: impl Fn(&State) -> bool) {
        let state = self.state();
        // The caller continues in any case, so neither a poisoned lock nor a time-out matters.
        drop(
            self.changed
                .wait_timeout_while(state, limit, |state| is_so(state)),
        );
    }

    /// Counts a thread that talks to a client; `None` when there are too many.
    pub fn talk(&self, most: usize) -> Option<Talking<'_>> {
        let mut state = self.state();
        (state.talking < most).then(|| {
            state.talking += 1;
            Talking(self)
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Talking ===

impl Drop for Talking<'_> {
    fn drop(&mut self) {
        self.0.state().talking -= 1;
        self.0.changed.notify_all();
    }
}
