//! The services of a workspace. One thread decides (with [`holm_core::service`]), one thread per
//! running service copies output to the log; status requests read the last published state.
//!
//! Services live as long as the keeper and survive any daemon. Their state is also written beside
//! the workspace at every change, so it is known after the keeper is gone.

mod ending;
mod follow;
mod helper;
mod hooks;
mod image;
mod lifecycle;
mod lines;
mod listening;
mod log;
mod probe;
mod run;
mod unbuilt;

use super::Registry;
use crate::directories::WorkspaceDirs;
use crate::wire::{Answer, send_answer};
pub(super) use helper::{Marked, end_tree, helper};
use helper::{environment, has_hung_up};
use holm_core::service::graph::{Declared, Graph, Verdict};
use holm_core::service::status::{ServiceStatus, Services as Snapshot};
use holm_core::service::{Event, Order, Readiness, Rules, Wish};
use holm_core::spec::Service;
use listening::Guarded;
use log::Log;
pub(super) use run::end_all;
use run::{Part, Run};
use std::collections::BTreeSet;
use std::io::{self, PipeWriter};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use unbuilt::Unbuilt;

/// Between SIGTERM and SIGKILL of one service.
const GRACE: Duration = Duration::from_secs(10);
/// How long a request may take to be accepted.
const REPLY_LIMIT: Duration = Duration::from_secs(2);
/// How often to check whether a watcher is still there.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const STACK: usize = 256 * 1024;

pub struct Services {
    messages: mpsc::Sender<Message>,
    /// Waits for the first message, in a workspace without services.
    idle: Mutex<Option<Supervisor>>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    reported: Snapshot,
    /// Increases with every change.
    version: u64,
    all_down: bool,
    /// Runs that may still write to a log.
    runs: usize,
    is_over: bool,
    guarded: Guarded,
}

enum Message {
    Event {
        index: usize,
        run: u64,
        event: Event,
    },
    Wish {
        name: String,
        wish: Wish,
        reply: mpsc::Sender<Answer>,
    },
    /// Replaces the declarations.
    Declare {
        services: Vec<Service>,
        reply: mpsc::Sender<Answer>,
    },
    /// The ports that programs inside listen on.
    Listening(Vec<u16>),
    /// The tree has another commit.
    React {
        wishes: Vec<(String, Wish)>,
        reply: mpsc::Sender<Answer>,
    },
    Close,
}

/// Where one run reports its events.
#[derive(Clone)]
pub struct Mailbox {
    services: Arc<Services>,
    index: usize,
    run: u64,
}

/// The deciding thread.
struct Supervisor {
    registry: Arc<Registry>,
    services: Arc<Services>,
    messages: mpsc::Receiver<Message>,
    graph: Graph,
    /// In the order of the graph.
    runs: Vec<Current>,
    begun: Instant,
    logs: PathBuf,
    file: PathBuf,
    /// The services to be built, stored for the next keeper.
    unbuilt: Unbuilt,
}

/// The current run of one service.
struct Current {
    /// The declaration for the next run.
    service: Arc<Service>,
    number: u64,
    /// The number of the current build.
    build: u64,
    pid: Option<u32>,
    log: Arc<Mutex<Log>>,
    /// Dropped when the next run begins.
    stay: Option<PipeWriter>,
}

/// Starts the workspace's services, in order.
pub fn start(registry: &Arc<Registry>, directories: &WorkspaceDirs) -> io::Result<()> {
    let (messages, reply) = mpsc::channel();
    let services = Arc::new(Services {
        messages,
        idle: Mutex::new(None),
        state: Mutex::new(State {
            reported: Snapshot {
                services: Vec::new(),
                verdict: Verdict::Ready.as_str().to_owned(),
            },
            version: 0,
            all_down: true,
            runs: 0,
            is_over: false,
            guarded: Guarded::default(),
        }),
        changed: Condvar::new(),
    });
    registry.set_services(Arc::clone(&services));
    let mut supervisor = Supervisor {
        registry: Arc::clone(registry),
        graph: Graph::new(Vec::new()),
        runs: Vec::new(),
        services: Arc::clone(&services),
        messages: reply,
        begun: Instant::now(),
        logs: directories.logs(),
        file: directories.services(),
        unbuilt: Unbuilt::read(directories.unbuilt())?,
    };
    supervisor.declare(registry.plan.services.clone())?;
    supervisor.take_up_builds();
    // Status requests from now on see that they are starting.
    supervisor.act();
    if registry.plan.services.is_empty() {
        *services.idle() = Some(supervisor);
        return Ok(());
    }
    supervisor.begin()
}

fn rules(service: &Service) -> Rules {
    let is_job = service.container().is_some_and(|it| it.is_job);
    Rules {
        restart: service.restart,
        readiness: match &service.ready {
            _ if is_job => Readiness::Exited,
            Some(ready) => Readiness::Probed {
                within: Duration::from_millis(ready.timeout_ms),
            },
            None => Readiness::Running,
        },
        grace: grace(service),
    }
}

/// How long its processes have to end.
fn grace(service: &Service) -> Duration {
    let asked = service.container().and_then(|it| it.stop_grace_ms);
    asked.map_or(GRACE, Duration::from_millis)
}

// === impl Services ===

impl Services {
    pub fn snapshot(&self) -> Snapshot {
        self.state().reported.clone()
    }

    /// Carries out a request for one service; returns when it has begun.
    pub fn wish(&self, name: &str, wish: Wish) -> Answer {
        let name = name.to_owned();
        self.request(|reply| Message::Wish { name, wish, reply })
    }

    /// Lets the services react to a move; returns when that has begun.
    pub fn react(&self, wishes: Vec<(String, Wish)>) -> Answer {
        if wishes.is_empty() {
            Answer::Done
        } else {
            self.request(|reply| Message::React { wishes, reply })
        }
    }

    /// Replaces the declarations; returns when the changes have begun.
    pub fn declare(&self, services: Vec<Service>) -> Answer {
        self.request(|reply| Message::Declare { services, reply })
    }

    fn request(&self, message: impl FnOnce(mpsc::Sender<Answer>) -> Message) -> Answer {
        let (reply, replied) = mpsc::channel();
        let idle = self.idle().take();
        if let Some(Err(error)) = idle.map(Supervisor::begin) {
            complain!("no service can be started: {error}");
        }
        // Fails only without a supervisor.
        let _ = self.messages.send(message(reply));
        let over = || Answer::Refused("the services are being stopped".to_owned());
        replied.recv_timeout(REPLY_LIMIT).unwrap_or_else(|_| over())
    }

    fn idle(&self) -> MutexGuard<'_, Option<Supervisor>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the condition holds or the time is up; returns whether it holds.
    pub fn wait_until(&self, limit: Duration, is_so: impl Fn(&[ServiceStatus]) -> bool) -> bool {
        let state = self.state();
        let is_not = |state: &mut State| !is_so(&state.reported.services) && !state.is_over;
        let waited = self.changed.wait_timeout_while(state, limit, is_not);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is_so(&state.reported.services)
    }

    /// Reports the state, at once and at every change, until the client or the workspace is gone.
    pub fn watch(&self, stream: &UnixStream) -> io::Result<()> {
        let mut reported = None;
        loop {
            let (version, services, is_over) = {
                let state = self.state();
                let since = |state: &mut State| reported == Some(state.version) && !state.is_over;
                let waited = self.changed.wait_timeout_while(state, LOOK_AGAIN, since);
                let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                (state.version, state.reported.clone(), state.is_over)
            };
            if reported != Some(version) {
                send_answer(stream, &Answer::Services(services))?;
                reported = Some(version);
            }
            if is_over || has_hung_up(stream) {
                return Ok(());
            }
        }
    }

    /// Ends all services, dependents first. Returns when they have ended or the time is up.
    pub fn close(&self, limit: Duration) {
        // An idle supervisor has no services. It ends here, so that none is started from now on.
        if self.idle().take().is_some() {
            return;
        }
        // Without a supervisor there are no services.
        let _ = self.messages.send(Message::Close);
        let state = self.state();
        let is_up = |state: &mut State| !state.all_down;
        drop(self.changed.wait_timeout_while(state, limit, is_up));
    }

    /// Everything inside has ended: releases watchers and flushes the logs.
    pub fn finish(&self, limit: Duration) {
        let mut state = self.state();
        state.is_over = true;
        self.changed.notify_all();
        let is_writing = |state: &mut State| state.runs > 0;
        drop(self.changed.wait_timeout_while(state, limit, is_writing));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Mailbox ===

impl Mailbox {
    pub fn tell(&self, event: Event) {
        let (index, run) = (self.index, self.run);
        // Fails only without a supervisor.
        let _ = self
            .services
            .messages
            .send(Message::Event { index, run, event });
    }

    /// Restarts the service, unless a person stopped it.
    pub fn restart(&self, name: &str) {
        // Without a supervisor there are no services.
        let _ = self.services.react(vec![(name.to_owned(), Wish::Restart)]);
    }
}

// === impl Supervisor ===

impl Supervisor {
    fn begin(self) -> io::Result<()> {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(move || self.supervise()).map(drop)
    }

    fn supervise(mut self) {
        loop {
            let wake = self.graph.wake_at();
            let message = match wake {
                Some(time) => {
                    let left = time.saturating_sub(self.begun.elapsed());
                    self.messages.recv_timeout(left)
                }
                None => self
                    .messages
                    .recv()
                    .map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            };
            let reply = match message {
                Ok(message) => self.take(message),
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            };
            self.act();
            if let Some((reply, answer)) = reply {
                // The requester may be gone.
                let _ = reply.send(answer);
            }
        }
    }

    fn take(&mut self, message: Message) -> Option<(mpsc::Sender<Answer>, Answer)> {
        let now = self.begun.elapsed();
        match message {
            Message::Event { index, run, event } => {
                let current = &mut self.runs[index];
                let counts = match event {
                    Event::Built { .. } => current.build,
                    _ => current.number,
                };
                // Events of an earlier run are ignored.
                if counts == run {
                    if let Event::Started { pid } = event {
                        current.pid = Some(pid);
                    }
                    let has_ended = matches!(event, Event::Exited { .. });
                    self.graph.handle(index, event, now);
                    if has_ended && let Some(text) = self.graph.life(index).end_in_words() {
                        log::note(&self.runs[index].log, &format!("[{text}]"));
                    }
                }
                None
            }
            Message::Wish { name, wish, reply } => {
                let Some(index) = self.graph.find(&name) else {
                    return Some((reply, Answer::Refused(format!("no service {name}"))));
                };
                self.graph.want(index, wish);
                Some((reply, Answer::Done))
            }
            Message::Declare { services, reply } => {
                let answer = match self.declare(services) {
                    Ok(()) => Answer::Done,
                    Err(error) => Answer::Refused(format!("no place for logs: {error}")),
                };
                Some((reply, answer))
            }
            Message::React { wishes, reply } => {
                for (name, wish) in wishes {
                    // A service that is no longer declared needs nothing.
                    if let Some(index) = self.graph.find(&name) {
                        self.graph.react(index, wish);
                    }
                }
                Some((reply, Answer::Done))
            }
            Message::Listening(ports) => {
                self.compare(&ports, now);
                None
            }
            Message::Close => {
                self.graph.close();
                None
            }
        }
    }

    fn declare(&mut self, services: Vec<Service>) -> io::Result<()> {
        if !services.is_empty() {
            std::fs::create_dir_all(&self.logs)?;
        }
        let entries = services.iter().map(|service| {
            let container = service.container();
            Declared {
                name: service.name.clone(),
                depends_on: service.depends_on.clone(),
                begins_after: container.map_or_else(Vec::new, |it| it.begins_after.clone()),
                rules: rules(service),
            }
        });
        let runs = &self.runs;
        let has_changed = |name: &str| {
            let before = runs.iter().find(|current| current.service.name == name);
            let after = services.iter().find(|service| service.name == name);
            let is_other = |before: &Current, after: &Service| {
                let before = &before.service;
                (&before.run, &before.env, &before.ready, &before.image)
                    != (&after.run, &after.env, &after.ready, &after.image)
            };
            before
                .zip(after)
                .is_some_and(|(before, after)| is_other(before, after))
        };
        self.graph.declare(entries.collect(), has_changed);
        for service in services {
            let known = |current: &&mut Current| current.service.name == service.name;
            match self.runs.iter_mut().find(known) {
                Some(current) => current.service = Arc::new(service),
                None => self.runs.push(Current {
                    number: 0,
                    build: 0,
                    pid: None,
                    log: Arc::new(Mutex::new(Log::new(self.logs.clone(), &service.name))),
                    stay: None,
                    service: Arc::new(service),
                }),
            }
        }
        Ok(())
    }

    /// Carries out due orders and publishes the state.
    fn act(&mut self) {
        for (index, order) in self.graph.due(self.begun.elapsed()) {
            match order {
                Order::Build => self.run(index, Part::Build),
                Order::Start => self.run(index, Part::Serve),
                Order::Terminate => {
                    let grace = grace(&self.runs[index].service);
                    self.end(index, libc::SIGTERM, grace);
                }
                Order::Kill => self.end(index, libc::SIGKILL, Duration::ZERO),
            }
        }
        self.note_builds();
        let reported = Snapshot {
            services: self.statuses(),
            verdict: self.graph.verdict().as_str().to_owned(),
        };
        let all_down = self.graph.is_down();
        let guarded = self.guarded();
        let mut is_new = false;
        self.services.change(|state| {
            is_new = state.reported != reported;
            if is_new {
                state.version += 1;
                state.reported = reported.clone();
            }
            state.all_down = all_down;
            state.guarded.set(guarded);
        });
        if !is_new {
            return;
        }
        self.registry.watchers.wake();
        if let Err(error) = self.write_down(&reported) {
            complain!("cannot write down how the services are: {error}");
        }
        super::here::write(&self.registry);
    }

    fn run(&mut self, index: usize, part: Part) {
        let current = &mut self.runs[index];
        let (number, earlier) = match part {
            // A room ends with all processes of a run, and its init alone may signal the pids that it reports.
            Part::Serve if current.service.image.is_some() => (&mut current.number, None),
            Part::Serve => (&mut current.number, current.pid),
            Part::Build => (&mut current.build, None),
        };
        *number += 1;
        let mailbox = Mailbox {
            services: Arc::clone(&self.services),
            index,
            run: *number,
        };
        let (leave, stay) = match io::pipe() {
            Ok(pipe) => pipe,
            Err(error) => return failed(&mailbox, part, &error),
        };
        // Background processes of a build are not listened to.
        if part == Part::Serve {
            current.stay = Some(stay);
        }
        let run = Run {
            registry: Arc::clone(&self.registry),
            service: Arc::clone(&current.service),
            part,
            log: Arc::clone(&current.log),
            mailbox,
            earlier,
            leave,
        };
        let services = Arc::clone(&self.services);
        services.change(|state| state.runs += 1);
        let thread = std::thread::Builder::new().stack_size(STACK);
        let spawned = thread.spawn(move || {
            let services = Arc::clone(&run.mailbox.services);
            run.live();
            services.change(|state| state.runs -= 1);
        });
        if let Err(error) = spawned {
            services.change(|state| state.runs -= 1);
            let current = &self.runs[index];
            let mailbox = Mailbox {
                index,
                run: match part {
                    Part::Serve => current.number,
                    Part::Build => current.build,
                },
                services,
            };
            failed(&mailbox, part, &error);
        }
    }

    /// Builds that an earlier keeper, or a move without a keeper, left due.
    fn take_up_builds(&mut self) {
        let asked = self.registry.plan.unbuilt.iter().cloned();
        let names: BTreeSet<_> = asked.chain(self.unbuilt.names.iter().cloned()).collect();
        for (index, current) in self.runs.iter().enumerate() {
            if names.contains(&current.service.name) && current.service.build.is_some() {
                self.graph.needs_build(index);
            }
        }
    }

    fn note_builds(&mut self) {
        let runs = self.runs.iter().enumerate();
        let unbuilt = runs.filter(|(index, _)| self.graph.life(*index).is_build_due());
        let names = unbuilt.map(|(_, current)| current.service.name.clone());
        if let Err(error) = self.unbuilt.note(names.collect()) {
            complain!("cannot write down what has to be built: {error}");
        }
    }

    fn statuses(&self) -> Vec<ServiceStatus> {
        let reports = self.graph.reports().into_iter();
        let port = |name: &str| {
            let mut services = self.runs.iter().map(|current| &current.service);
            services.find(|service| service.name == name)?.port
        };
        let statuses = reports.map(|report| ServiceStatus {
            port: port(&report.name),
            name: report.name,
            state: report.state.as_str().to_owned(),
            pid: report.pid,
            restarts: report.restarts,
            reason: report.reason,
            exit_code: report.exit,
        });
        statuses.collect()
    }

    fn write_down(&self, reported: &Snapshot) -> io::Result<()> {
        let fresh = self.file.with_extension("json.new");
        std::fs::write(&fresh, serde_json::to_vec(reported)?)?;
        std::fs::rename(fresh, &self.file)
    }
}

/// It could not be started.
fn failed(mailbox: &Mailbox, part: Part, error: &io::Error) {
    let cause = error.to_string();
    mailbox.tell(match part {
        Part::Serve => Event::NotStarted { code: 126, cause },
        Part::Build => Event::Built {
            code: 126,
            cause: Some(cause),
        },
    });
}
