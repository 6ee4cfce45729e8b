//! All services of a workspace: dependencies, start order and stop order.
//!
//! A service starts when its dependencies are ready. When the workspace stops, it ends after the
//! services that depend on it.

use super::{Dependencies, Event, Life, Order, Rules, State, Wish};
use std::time::Duration;

pub struct Graph {
    members: Vec<Member>,
    is_closing: bool,
}

struct Member {
    name: String,
    depends_on: Vec<usize>,
    /// Those among them that only have to run.
    begins_after: Vec<usize>,
    needed_by: Vec<usize>,
    life: Life,
    /// A service that is no longer declared is ended; its index stays valid.
    is_declared: bool,
    /// Its declaration changed since it was started.
    is_stale: bool,
}

/// A declared service.
pub struct Declared {
    pub name: String,
    /// Services that must be ready before it starts.
    pub depends_on: Vec<String>,
    /// Services that must run before it starts.
    pub begins_after: Vec<String>,
    pub rules: Rules,
}

/// The state of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub name: String,
    pub state: State,
    pub pid: Option<u32>,
    pub restarts: u32,
    pub exit: Option<u8>,
    pub reason: Option<String>,
}

/// The state of all services together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A service is still starting.
    Pending,
    /// All services that should run are ready.
    Ready,
    /// A service is not ready and will not be by itself.
    Failing,
}

// === impl Graph ===

impl Graph {
    /// Unknown dependencies are ignored; the configuration cannot contain any.
    pub fn new(services: Vec<Declared>) -> Self {
        let mut graph = Self {
            members: Vec::new(),
            is_closing: false,
        };
        graph.declare(services, |_| false);
        graph
    }

    /// Replaces the declarations: new services are started, missing ones ended, changed ones
    /// restarted unless the user stopped them. Indexes stay valid.
    pub fn declare(&mut self, services: Vec<Declared>, has_changed: impl Fn(&str) -> bool) {
        let mut were_declared = Vec::new();
        for member in &mut self.members {
            were_declared.push(std::mem::take(&mut member.is_declared));
            member.depends_on.clear();
            member.begins_after.clear();
            member.needed_by.clear();
        }
        let mut needs = Vec::new();
        for service in services {
            let Declared { name, rules, .. } = service;
            let known = self.members.iter().position(|member| member.name == name);
            let index = known.unwrap_or(self.members.len());
            match known.map(|index| &mut self.members[index]) {
                None => self.members.push(Member {
                    name,
                    depends_on: Vec::new(),
                    begins_after: Vec::new(),
                    needed_by: Vec::new(),
                    life: Life::new(rules),
                    is_declared: true,
                    is_stale: false,
                }),
                Some(member) => {
                    member.is_stale |= has_changed(&name);
                    member.is_declared = true;
                    member.life.set_rules(rules);
                    if !were_declared[index] {
                        member.life.want(Wish::Start);
                    }
                }
            }
            needs.push((index, service.depends_on, service.begins_after));
        }
        for (index, ready, running) in needs {
            let find = |names: &[String]| -> Vec<usize> {
                names.iter().filter_map(|name| self.find(name)).collect()
            };
            let (mut needed, running) = (find(&ready), find(&running));
            needed.extend(&running);
            for other in &needed {
                self.members[*other].needed_by.push(index);
            }
            self.members[index].depends_on = needed;
            self.members[index].begins_after = running;
        }
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        let is_meant = |member: &Member| member.is_declared && member.name == name;
        self.members.iter().position(is_meant)
    }

    pub fn life(&self, index: usize) -> &Life {
        &self.members[index].life
    }

    /// Handles a user's request for one service. Starting it also starts its dependencies.
    pub fn want(&mut self, index: usize, wish: Wish) {
        if self.is_closing {
            return;
        }
        if matches!(wish, Wish::Start | Wish::Restart) {
            let mut needed = self.members[index].depends_on.clone();
            let mut seen = vec![index];
            while let Some(other) = needed.pop() {
                if seen.contains(&other) {
                    continue;
                }
                seen.push(other);
                needed.extend(&self.members[other].depends_on);
                let life = &mut self.members[other].life;
                if !life.is_satisfied() && !life.is_moving() {
                    life.want(Wish::Start);
                }
            }
        }
        self.members[index].life.want(wish);
    }

    /// Requires a build before its next start.
    pub fn needs_build(&mut self, index: usize) {
        self.members[index].life.needs_build();
    }

    /// Handles a move that changed its files: a service that was stopped on purpose stays stopped.
    pub fn react(&mut self, index: usize, wish: Wish) {
        let life = &mut self.members[index].life;
        if wish == Wish::Rebuild {
            // Also while all services are ending: the build is still due at the next start.
            life.want(wish);
        } else if !life.is_down() {
            self.want(index, wish);
        }
    }

    pub fn handle(&mut self, index: usize, event: Event, now: Duration) {
        self.members[index].life.handle(event, now);
    }

    /// Ends all services and starts none any more.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    pub fn is_down(&self) -> bool {
        self.members.iter().all(|member| member.life.is_down())
    }

    /// All orders that are due now. A service can become ready by elapsed time alone, and a service earlier in the
    /// list may depend on it, so the pass is repeated until no further service becomes ready.
    pub fn due(&mut self, now: Duration) -> Vec<(usize, Order)> {
        let mut orders = Vec::new();
        loop {
            let before = self.satisfied();
            self.pass(now, &mut orders);
            if self.satisfied() == before {
                return orders;
            }
        }
    }

    /// Which services let those that depend on them start.
    fn satisfied(&self) -> Vec<bool> {
        let lives = self.members.iter().map(|member| &member.life);
        lives.map(Life::is_satisfied).collect()
    }

    fn pass(&mut self, now: Duration, orders: &mut Vec<(usize, Order)>) {
        for index in 0..self.members.len() {
            self.follow_declaration(index);
            let member = &self.members[index];
            if self.is_closing {
                let is_needed = member
                    .needed_by
                    .iter()
                    .any(|other| !self.members[*other].life.is_down());
                let is_idle = member.life.pid().is_none() && !member.life.is_moving();
                if !is_needed || is_idle {
                    self.members[index].life.want(Wish::Stop);
                }
            }
            let dependencies = if !self.is_closing && self.missing(index).is_empty() {
                Dependencies::Ready
            } else {
                Dependencies::Missing
            };
            while let Some(order) = self.members[index].life.due(now, dependencies) {
                orders.push((index, order));
            }
        }
    }

    /// Ends or restarts a service whose declaration is gone or changed.
    fn follow_declaration(&mut self, index: usize) {
        let member = &mut self.members[index];
        if !member.is_declared {
            member.life.want(Wish::Stop);
        } else if member.is_stale && !member.life.is_launching() {
            member.is_stale = false;
            if !member.life.is_down() && !self.is_closing {
                member.life.want(Wish::Restart);
            }
        }
    }

    /// When to call [`Graph::due`] even without an event.
    pub fn wake_at(&self) -> Option<Duration> {
        let times = self.members.iter().map(|member| member.life.wake_at());
        times.flatten().min()
    }

    /// The declared services only.
    pub fn reports(&self) -> Vec<Report> {
        let members = self.members.iter().enumerate();
        let declared = members.filter(|(_, member)| member.is_declared);
        let reports = declared.map(|(index, member)| {
            let life = &member.life;
            let (state, reason) = if life.is_waiting() {
                self.waiting(index)
            } else {
                (life.state(), life.reason().map(str::to_owned))
            };
            Report {
                name: member.name.clone(),
                state,
                pid: life.pid(),
                restarts: life.restarts(),
                exit: life.exit(),
                reason,
            }
        });
        reports.collect()
    }

    pub fn verdict(&self) -> Verdict {
        let declared = || self.members.iter().filter(|member| member.is_declared);
        let lives = || declared().map(|member| &member.life);
        if lives().any(Life::is_moving) {
            Verdict::Pending
        } else if lives().all(|life| life.is_satisfied() || life.is_down()) {
            Verdict::Ready
        } else {
            Verdict::Failing
        }
    }

    /// The dependencies that are not ready.
    fn missing(&self, index: usize) -> Vec<usize> {
        let member = &self.members[index];
        let is_there = |other: &usize| {
            let life = &self.members[*other].life;
            life.is_satisfied() || (member.begins_after.contains(other) && life.has_begun())
        };
        let needed = member.depends_on.iter().copied();
        needed.filter(|other| !is_there(other)).collect()
    }

    /// A waiting service is pending only if its dependencies are.
    fn waiting(&self, index: usize) -> (State, Option<String>) {
        let missing = self.missing(index);
        let is_hopeful = |other: &usize| {
            let life = &self.members[*other].life;
            life.is_moving() || (life.is_waiting() && self.waiting(*other).0 == State::Starting)
        };
        let state = if missing.iter().all(is_hopeful) {
            State::Starting
        } else {
            State::Stopped
        };
        let names: Vec<_> = missing
            .iter()
            .map(|other| self.members[*other].name.as_str())
            .collect();
        let reason = (!names.is_empty()).then(|| format!("waits for {}", names.join(", ")));
        (state, reason)
    }
}

// === impl Verdict ===

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pending => "pending",
            Verdict::Ready => "ready",
            Verdict::Failing => "failing",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let all = [Verdict::Pending, Verdict::Ready, Verdict::Failing];
        all.into_iter().find(|verdict| verdict.as_str() == text)
    }
}
