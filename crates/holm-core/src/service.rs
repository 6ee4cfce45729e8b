//! The state machine of one service: wishes and events in, orders out. The keeper's supervisor
//! drives it through [`graph`]. Time is an argument.
//!
//! A service is started only when none of its processes runs, and never by itself after a crash
//! loop.

mod build;
mod ended;
pub mod graph;
pub mod status;
mod words;

use crate::config::Restart;
use build::Build;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;
pub use words::exit_in_words;
use words::in_words;
pub use words::names_missing_program;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Starting,
    Ready,
    Stopped,
    /// It ended, and its policy does not restart it.
    Exited,
    /// It ended and will be restarted.
    Backoff,
    Failed,
}

/// The settings of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub restart: Restart,
    pub readiness: Readiness,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
}

/// When a running service counts as ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// When it has not exited at once.
    Running,
    /// When a probe succeeds, which should happen within this time.
    Probed { within: Duration },
    /// When it has exited with 0: others wait for its end.
    Exited,
}

/// A user's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    Start,
    Stop,
    Restart,
    /// Build while the old version runs; restart if that succeeds. A service that was stopped on
    /// purpose stays stopped and is built before its next start.
    Rebuild,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Started {
        pid: u32,
    },
    NotStarted {
        code: u8,
        cause: String,
    },
    Probed,
    /// Nothing listens any more on the port that made it ready: a file watcher survives the crash
    /// of the program that it restarts.
    Silent {
        port: u16,
    },
    Exited {
        code: u8,
        cause: Option<String>,
    },
    /// After an order to end: none of its processes is left.
    Gone,
    /// Its build ended.
    Built {
        code: u8,
        cause: Option<String>,
    },
    /// Something that users should know of this run.
    Remark(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependencies {
    Ready,
    Missing,
}

/// What the supervisor has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Run the build command while the old version runs.
    Build,
    /// End leftovers of an earlier run, then start.
    Start,
    /// SIGTERM to all its processes.
    Terminate,
    /// SIGKILL to all its processes.
    Kill,
}

/// A service that exits sooner never really ran: a missing command, a wrong option.
const SETTLED_AFTER: Duration = Duration::from_millis(200);
/// After SIGKILL; a process that is still there hangs in the kernel.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct Life {
    rules: Rules,
    phase: Phase,
    pid: Option<u32>,
    starts: u32,
    /// The exit code of the last run.
    exit: Option<u8>,
    was_ready: bool,
    /// When the last runs ended.
    ends: VecDeque<Duration>,
    /// Consecutive exits, for the back-off.
    streak: u32,
    reason: Option<String>,
    /// About the current run, whatever its state.
    remark: Option<String>,
    build: Build,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Down,
    /// Waits to be started.
    Waiting,
    /// The start was ordered.
    Launching {
        then: Then,
    },
    Running {
        since: Duration,
        progress: Progress,
    },
    Ending(Ending),
    Backoff {
        until: Duration,
    },
    Exited,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Settling {
        until: Duration,
    },
    Probing {
        until: Duration,
    },
    /// The time limit has passed; it may still become ready.
    Late,
    /// It counts when it has ended.
    Working,
    Ready,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ending {
    asked: StopProgress,
    /// Which processes are left: the program that was started, and others.
    program_runs: bool,
    others_run: bool,
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopProgress {
    NotYet,
    Terminated { until: Duration },
    Killed { until: Duration },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Run,
    Stay,
}

// === impl Life ===

impl Life {
    /// A service that is to be started.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            phase: Phase::Waiting,
            pid: None,
            starts: 0,
            exit: None,
            was_ready: false,
            ends: VecDeque::new(),
            streak: 0,
            reason: None,
            remark: None,
            build: Build::NotNeeded,
        }
    }

    pub fn state(&self) -> State {
        match (&self.build, &self.phase) {
            (_, Phase::Down) | (Build::NotNeeded, _) => self.state_of_phase(),
            (Build::Due | Build::Underway { .. }, _) => State::Starting,
            (Build::Failed(_), _) => State::Failed,
        }
    }

    fn state_of_phase(&self) -> State {
        match &self.phase {
            Phase::Down => State::Stopped,
            Phase::Waiting | Phase::Launching { .. } => State::Starting,
            Phase::Running { progress, .. } => match progress {
                Progress::Settling { .. } | Progress::Probing { .. } | Progress::Working => {
                    State::Starting
                }
                Progress::Late => State::Failed,
                Progress::Ready => State::Ready,
            },
            Phase::Ending(ending) => match ending.then {
                Then::Run => State::Starting,
                Then::Stay => State::Stopped,
            },
            Phase::Backoff { .. } => State::Backoff,
            Phase::Exited => State::Exited,
            Phase::Failed => State::Failed,
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match (&self.build, &self.phase) {
            (_, Phase::Down) => self.reason.as_deref(),
            (Build::NotNeeded, Phase::Running { .. }) => {
                self.reason.as_deref().or(self.remark.as_deref())
            }
            (Build::NotNeeded, _) => self.reason.as_deref(),
            (Build::Due | Build::Underway { .. }, _) => Some("building"),
            (Build::Failed(why), _) => Some(why),
        }
    }

    /// The pid inside of the running program.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    pub fn restarts(&self) -> u32 {
        self.starts.saturating_sub(1)
    }

    /// The exit code of the last run.
    pub fn exit(&self) -> Option<u8> {
        self.exit
    }

    /// Whether dependent services may start: it is ready, or it has exited with 0.
    pub fn is_satisfied(&self) -> bool {
        if self.is_build_due() {
            return false;
        }
        match &self.phase {
            Phase::Running { progress, .. } => *progress == Progress::Ready,
            Phase::Exited => {
                let counts = self.was_ready || self.rules.readiness == Readiness::Exited;
                counts && self.exit == Some(0)
            }
            _ => false,
        }
    }

    /// Whether services may start that need it only to run.
    pub fn has_begun(&self) -> bool {
        matches!(self.phase, Phase::Running { .. }) || self.is_satisfied()
    }

    /// Replaces the settings; the current run keeps its deadlines.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Whether the start was ordered and has not been confirmed yet.
    pub fn is_launching(&self) -> bool {
        matches!(self.phase, Phase::Launching { .. })
    }

    pub fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting && !self.is_build_due()
    }

    pub fn is_ready(&self) -> bool {
        self.state() == State::Ready
    }

    /// Whether it was ready in this run, and is not any more.
    pub fn is_lost(&self) -> bool {
        let is_ready = |progress: Progress| progress == Progress::Ready;
        let is_running =
            matches!(self.phase, Phase::Running { progress, .. } if !is_ready(progress));
        is_running && self.was_ready
    }

    /// Stopped on purpose.
    pub fn is_down(&self) -> bool {
        self.phase == Phase::Down
    }

    /// Whether its state will change without a user's action.
    pub fn is_moving(&self) -> bool {
        let is_building = matches!(self.build, Build::Due | Build::Underway { .. });
        match &self.phase {
            Phase::Down => false,
            _ if is_building => true,
            Phase::Launching { .. } | Phase::Ending(_) | Phase::Backoff { .. } => true,
            Phase::Running { progress, .. } => {
                matches!(
                    progress,
                    Progress::Settling { .. } | Progress::Probing { .. } | Progress::Working
                )
            }
            Phase::Waiting | Phase::Exited | Phase::Failed => false,
        }
    }

    pub fn want(&mut self, wish: Wish) {
        if wish == Wish::Rebuild {
            return self.rebuild();
        }
        if wish != Wish::Stop {
            match &self.build {
                Build::Failed(_) => self.build = Build::Due,
                // A restart now would use an outdated build; the build restarts it afterwards.
                Build::Due | Build::Underway { .. } if self.phase != Phase::Down => return,
                Build::NotNeeded | Build::Due | Build::Underway { .. } => {}
            }
            if self.build == Build::Due && matches!(self.phase, Phase::Running { .. }) {
                return;
            }
        }
        match (wish, &mut self.phase) {
            (Wish::Rebuild, _) => {}
            (Wish::Start, Phase::Running { .. }) => {}
            (Wish::Start, Phase::Launching { then }) => *then = Then::Run,
            (Wish::Stop, Phase::Launching { then }) => *then = Then::Stay,
            // It is being started already.
            (Wish::Restart, Phase::Launching { .. }) => {}
            (Wish::Start | Wish::Restart, Phase::Ending(ending)) => ending.then = Then::Run,
            (Wish::Stop, Phase::Ending(ending)) => ending.then = Then::Stay,
            (Wish::Stop, Phase::Running { .. }) => self.end(Then::Stay),
            (Wish::Restart, Phase::Running { .. }) => self.end(Then::Run),
            (Wish::Stop, Phase::Down) => {}
            // An earlier run may have left processes.
            (Wish::Stop, _) if self.starts > 0 => self.end(Then::Stay),
            (Wish::Stop, _) => self.phase = Phase::Down,
            (Wish::Start | Wish::Restart, _) => {
                self.forgive();
                self.phase = Phase::Waiting;
            }
        }
    }

    /// Applies an event. Events that do not fit the state any more are ignored.
    pub fn handle(&mut self, event: Event, now: Duration) {
        match event {
            Event::Started { pid } => self.started(pid, now),
            Event::NotStarted { code, cause } => match self.phase {
                Phase::Launching { then: Then::Run } => {
                    self.ended(code, Some(cause), Duration::ZERO, now);
                }
                Phase::Launching { then: Then::Stay } => {
                    self.pid = None;
                    self.exit = Some(code);
                    self.phase = Phase::Down;
                }
                _ => {}
            },
            Event::Probed => {
                if let Phase::Running { progress, .. } = &mut self.phase {
                    *progress = Progress::Ready;
                    self.was_ready = true;
                    self.reason = None;
                }
            }
            Event::Silent { port } => self.fell_silent(port, now),
            Event::Exited { code, cause } => self.exited(code, cause, now),
            Event::Gone => {
                if let Phase::Ending(ending) = &mut self.phase {
                    ending.others_run = false;
                }
                self.finish_ending();
            }
            Event::Built { code, cause } => self.built(code, cause),
            Event::Remark(text) => self.remark = Some(text),
        }
    }

    /// The next order; call it until it returns `None`.
    pub fn due(&mut self, now: Duration, dependencies: Dependencies) -> Option<Order> {
        let may_build = !matches!(
            self.phase,
            Phase::Down | Phase::Launching { .. } | Phase::Ending(_)
        );
        if self.build == Build::Due && may_build {
            self.build = Build::Underway { is_stale: false };
            return Some(Order::Build);
        }
        let is_built = !self.is_build_due();
        match &mut self.phase {
            Phase::Backoff { until } if *until <= now => {
                self.phase = Phase::Waiting;
                self.due(now, dependencies)
            }
            Phase::Waiting if dependencies == Dependencies::Ready && is_built => {
                self.phase = Phase::Launching { then: Then::Run };
                self.starts = self.starts.saturating_add(1);
                Some(Order::Start)
            }
            Phase::Running { progress, .. } => {
                match *progress {
                    Progress::Settling { until } if until <= now => {
                        *progress = Progress::Ready;
                        self.was_ready = true;
                        self.reason = None;
                    }
                    Progress::Probing { until } if until <= now => {
                        *progress = Progress::Late;
                        let limit = in_words(self.rules.readiness.limit());
                        self.reason = Some(match &self.reason {
                            None => format!("not ready within {limit}"),
                            Some(reason) => format!("{reason} for {limit}"),
                        });
                    }
                    _ => {}
                }
                None
            }
            Phase::Ending(ending) => {
                let (asked, order) = match ending.asked {
                    StopProgress::NotYet => (
                        StopProgress::Terminated {
                            until: now + self.rules.grace,
                        },
                        Order::Terminate,
                    ),
                    StopProgress::Terminated { until } if until <= now => (
                        StopProgress::Killed {
                            until: now + GIVE_UP_AFTER,
                        },
                        Order::Kill,
                    ),
                    StopProgress::Killed { until } if until <= now => {
                        ending.program_runs = false;
                        ending.others_run = false;
                        self.finish_ending();
                        return self.due(now, dependencies);
                    }
                    _ => return None,
                };
                ending.asked = asked;
                Some(order)
            }
            _ => None,
        }
    }

    /// When to call [`Self::due`] even without an event.
    pub fn wake_at(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Backoff { until } => Some(*until),
            Phase::Running { progress, .. } => match progress {
                Progress::Settling { until } | Progress::Probing { until } => Some(*until),
                Progress::Late | Progress::Working | Progress::Ready => None,
            },
            Phase::Ending(ending) => match ending.asked {
                StopProgress::NotYet => Some(Duration::ZERO),
                StopProgress::Terminated { until } | StopProgress::Killed { until } => Some(until),
            },
            _ => None,
        }
    }

    fn started(&mut self, pid: u32, now: Duration) {
        let Phase::Launching { then } = self.phase else {
            return;
        };
        self.pid = Some(pid);
        self.was_ready = false;
        self.reason = None;
        self.remark = None;
        let progress = match self.rules.readiness {
            Readiness::Running => Progress::Settling {
                until: now + SETTLED_AFTER,
            },
            Readiness::Probed { within } => Progress::Probing {
                until: now + within,
            },
            Readiness::Exited => Progress::Working,
        };
        self.phase = Phase::Running {
            since: now,
            progress,
        };
        if then == Then::Stay {
            self.end(Then::Stay);
        }
    }

    /// It has as long to recover as it had to become ready.
    fn fell_silent(&mut self, port: u16, now: Duration) {
        let Readiness::Probed { within } = self.rules.readiness else {
            return;
        };
        if let Phase::Running { progress, .. } = &mut self.phase
            && *progress == Progress::Ready
        {
            *progress = Progress::Probing {
                until: now + within,
            };
            self.reason = Some(format!("nothing listens on port {port}"));
        }
    }

    fn exited(&mut self, code: u8, cause: Option<String>, now: Duration) {
        match &mut self.phase {
            Phase::Running { since, .. } => {
                let ran = now.saturating_sub(*since);
                self.ended(code, cause, ran, now);
            }
            Phase::Ending(ending) => {
                ending.program_runs = false;
                self.pid = None;
                self.exit = Some(code);
                self.finish_ending();
            }
            _ => {}
        }
    }

    fn end(&mut self, then: Then) {
        self.reason = None;
        self.phase = Phase::Ending(Ending {
            asked: StopProgress::NotYet,
            program_runs: self.pid.is_some(),
            others_run: true,
            then,
        });
    }

    fn finish_ending(&mut self) {
        let Phase::Ending(ending) = &self.phase else {
            return;
        };
        if ending.program_runs || ending.others_run {
            return;
        }
        self.pid = None;
        self.phase = match ending.then {
            Then::Stay => Phase::Down,
            Then::Run => {
                self.forgive();
                Phase::Waiting
            }
        };
    }

    fn forgive(&mut self) {
        self.ends.clear();
        self.streak = 0;
        self.reason = None;
    }
}

// === impl Readiness ===

impl Readiness {
    fn limit(self) -> Duration {
        match self {
            Readiness::Running | Readiness::Exited => SETTLED_AFTER,
            Readiness::Probed { within } => within,
        }
    }
}
