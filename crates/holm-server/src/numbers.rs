//! `/numbers`: resource use of workspaces, now and in the last minutes.
//!
//! The kernel's files are read on request, and every few seconds for the history while a workspace
//! runs. Disk use is measured only on request, and rarely.

use super::App;
use super::caller::Caller;
use super::failure::{Answer, WorkspaceKey};
use axum::Json;
use axum::extract::State;
use holm_api::numbers::{NumbersList, Past, ServiceNumbers, VolumeNumbers, WorkspaceNumbers};
use holm_core::disk::WorkspaceUsage;
use holm_core::numbers::{History, Load, Usage, processors};
use holm_core::{Fault, WorkspaceId};
use holm_engine::View;
use holm_engine::clock;
use holm_engine::storage::Measure;
use holm_engine::store::WorkspaceRecord;
use holm_proxy::visit::PortTraffic;
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The interval of a history.
const EVERY: Duration = Duration::from_secs(5);

/// The shortest interval for a rate.
const SHORTEST: Duration = Duration::from_millis(250);

/// How long a disk measurement is used.
const DISK_FRESH: Duration = Duration::from_secs(30);

/// How many disks are measured at once.
const DISKS_AT_ONCE: usize = 4;

/// How long a request for one workspace waits for its disk measurement.
const DISK_PATIENCE: Duration = Duration::from_secs(2);

/// The measurements so far.
pub struct Gauge {
    seen: Mutex<Readings>,
    /// For measuring disks, which takes a process each.
    turns: Semaphore,
}

#[derive(Default)]
struct Readings {
    workspaces: HashMap<WorkspaceId, Course>,
    disks: HashMap<WorkspaceId, Disk>,
    /// Being measured.
    measuring: HashSet<WorkspaceId>,
}

struct Disk {
    taken: WorkspaceUsage,
    at: Instant,
}

/// One workspace over time.
#[derive(Default)]
struct Course {
    total: Track,
    services: HashMap<String, Track>,
    /// The programs that init started, by their pids inside.
    programs: HashMap<u32, Program>,
}

/// When a program last used a processor.
struct Program {
    cpu: Duration,
    at: Instant,
    busy_at: Timestamp,
}

/// A program that uses less of a processor waits: terminals blink, and runtimes look at their timers.
const BUSY: f64 = 0.01;

/// Processor time and memory of a workspace or service.
#[derive(Default)]
struct Track {
    last: Option<(Instant, Load)>,
    /// At the last value of the history.
    mark: Option<(Instant, Duration)>,
    cpu: f64,
    past_cpu: History,
    past_memory: History,
}

operations! {
    /// What workspaces take of the machine.
    get "/numbers" "number_list" all -> NumbersList;
    /// What one workspace takes of the machine.
    get "/workspaces/{id}/numbers" "workspace_numbers" one of (WorkspaceKey) -> WorkspaceNumbers;
}

async fn all(State(app): State<Arc<App>>, caller: Caller) -> Answer<NumbersList> {
    let mut views = app.engine.list().await?;
    views.retain(|view| caller.sees(&view.record.id));
    let ids: Vec<_> = views.iter().map(|view| view.record.id.clone()).collect();
    app.sample(&ids).await?;
    for view in &views {
        tokio::spawn(measure(Arc::clone(&app), view.record.clone()));
    }
    let workspaces = views
        .iter()
        .map(|view| app.workspace_numbers(view))
        .collect();
    Ok(Json(NumbersList {
        history_seconds: EVERY.as_secs(),
        workspaces,
    }))
}

async fn one(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<WorkspaceNumbers> {
    let view = app.engine.show(&id).await?;
    app.sample(std::slice::from_ref(&id)).await?;
    let measuring = tokio::spawn(measure(Arc::clone(&app), view.record.clone()));
    if app.gauge.is_unmeasured(&id) {
        // It goes on, for the next request.
        let _ = tokio::time::timeout(DISK_PATIENCE, measuring).await;
    }
    Ok(Json(app.workspace_numbers(&view)))
}

/// Records the history, until the daemon stops.
pub async fn keep(app: Arc<App>) {
    let mut interval = tokio::time::interval(EVERY);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(fault) = app.sample_all().await {
            tracing::warn!(%fault, "the history has a gap");
        }
    }
}

/// Measures a workspace's disk, unless that was done recently or is under way.
async fn measure(app: Arc<App>, record: WorkspaceRecord) {
    if !app.gauge.begin_measuring(&record.id) {
        return;
    }
    // The semaphore is never closed.
    let _turn = app.gauge.turns.acquire().await;
    let what = Measure::Workspace(Arc::clone(&record.spec));
    let measured = match app.engine.driver(&record.spec) {
        Ok(driver) => driver.measure(what).await.ok(),
        Err(_) => None,
    };
    let taken = measured.and_then(|mut measured| measured.workspaces.remove(&record.id));
    app.gauge.end_measuring(&record.id, taken);
}

// === impl App ===

impl App {
    /// Samples these workspaces.
    async fn sample(&self, ids: &[WorkspaceId]) -> Result<(), Fault> {
        for driver in self.engine.drivers().all() {
            let ids = self.engine.of_driver(ids, driver).await?;
            let usages = driver.usage(&ids).await?;
            let at = Instant::now();
            let mut seen = self.gauge.seen();
            for (id, usage) in ids.into_iter().zip(usages) {
                match usage {
                    Some(usage) => seen.workspaces.entry(id).or_default().add(&usage, at),
                    None => drop(seen.workspaces.remove(&id)),
                }
            }
        }
        Ok(())
    }

    /// Samples all that run, as far as known without a look; forgets what is gone.
    async fn sample_all(&self) -> Result<(), Fault> {
        let live = self.routes.table().snapshot();
        let running = live.iter().filter(|workspace| workspace.is_running);
        let running: Vec<_> = running.map(|workspace| workspace.id.clone()).collect();
        if !running.is_empty() {
            self.sample(&running).await?;
        }
        let running: HashSet<_> = running.iter().collect();
        let known: HashSet<_> = live.iter().map(|workspace| &workspace.id).collect();
        let mut seen = self.gauge.seen();
        seen.workspaces.retain(|id, _| running.contains(id));
        seen.disks.retain(|id, _| known.contains(id));
        let tallies = self.routes.inward().tallies();
        tallies.retain(|id| seen.workspaces.contains_key(id));
        Ok(())
    }

    fn workspace_numbers(&self, view: &View) -> WorkspaceNumbers {
        let served = self.routes.inward().tallies().of(&view.record.id);
        self.gauge.workspace_numbers(view, &served)
    }
}

// === impl Gauge ===

impl Default for Gauge {
    fn default() -> Self {
        Self {
            seen: Mutex::default(),
            turns: Semaphore::new(DISKS_AT_ONCE),
        }
    }
}

impl Gauge {
    fn seen(&self) -> MutexGuard<'_, Readings> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a program that init started, or anything below it, last used a processor; `None`: it was not looked at.
    pub fn busy_at(&self, id: &WorkspaceId, pid: u32) -> Option<Timestamp> {
        let seen = self.seen();
        let program = seen.workspaces.get(id)?.programs.get(&pid)?;
        Some(program.busy_at)
    }

    /// Whether its disk was never measured.
    fn is_unmeasured(&self, id: &WorkspaceId) -> bool {
        !self.seen().disks.contains_key(id)
    }

    /// Of all workspaces, as far as measured.
    pub fn disks(&self) -> u64 {
        let seen = self.seen();
        seen.disks.values().map(|disk| disk.taken.total()).sum()
    }

    fn begin_measuring(&self, id: &WorkspaceId) -> bool {
        let mut seen = self.seen();
        let disk = seen.disks.get(id);
        let is_fresh = disk.is_some_and(|disk| disk.at.elapsed() < DISK_FRESH);
        !is_fresh && seen.measuring.insert(id.clone())
    }

    fn end_measuring(&self, id: &WorkspaceId, taken: Option<WorkspaceUsage>) {
        let mut seen = self.seen();
        seen.measuring.remove(id);
        if let Some(taken) = taken {
            let at = Instant::now();
            seen.disks.insert(id.clone(), Disk { taken, at });
        }
    }

    fn workspace_numbers(&self, view: &View, served: &[PortTraffic]) -> WorkspaceNumbers {
        let record = &view.record;
        let seen = self.seen();
        let course = seen.workspaces.get(&record.id);
        let nothing = Track::default();
        let total = course.map_or(&nothing, |course| &course.total);
        let load = total.load();
        let carried = view.carried.unwrap_or_default();
        let through = |port: Option<u16>| served.iter().filter(move |one| Some(one.port) == port);
        let services = view.services.iter().map(|status| {
            let track = course.and_then(|course| course.services.get(&status.name));
            let track = track.unwrap_or(&nothing);
            let load = track.load();
            ServiceNumbers {
                name: status.name.clone(),
                state: status.state.clone(),
                cpu: track.cpu,
                memory: load.memory,
                processes: load.processes,
                network_in: through(status.port).map(|port| port.bytes_in).sum(),
                network_out: through(status.port).map(|port| port.bytes_out).sum(),
                history: track.past(),
            }
        });
        let disk = seen.disks.get(&record.id).map(|disk| &disk.taken);
        let volumes = record.spec.volumes.iter().enumerate();
        let volumes = volumes.map(|(index, volume)| VolumeNumbers {
            name: volume.name.clone(),
            policy: volume.policy.as_str().to_owned(),
            bytes: disk.and_then(|disk| disk.each_volume.get(index).copied()),
        });
        WorkspaceNumbers {
            id: record.id.to_string(),
            label: record.label.to_string(),
            project: view.project.to_string(),
            state: view.state.as_str().to_owned(),
            reason: view.reason.clone(),
            cpu: total.cpu,
            memory: load.memory,
            processes: load.processes,
            disk: disk.map(WorkspaceUsage::total),
            disk_tree: disk.map(|disk| disk.tree),
            volumes: volumes.collect(),
            network_in: carried.bytes_in + served.iter().map(|port| port.bytes_in).sum::<u64>(),
            network_out: carried.bytes_out + served.iter().map(|port| port.bytes_out).sum::<u64>(),
            history: total.past(),
            services: services.collect(),
        }
    }
}

// === impl Course ===

impl Course {
    fn add(&mut self, usage: &Usage, at: Instant) {
        self.total.add(usage.total, at, usage.age);
        self.services
            .retain(|name, _| usage.services.contains_key(name));
        for (name, load) in &usage.services {
            self.services
                .entry(name.clone())
                .or_default()
                .add(*load, at, usage.age);
        }
        self.programs
            .retain(|pid, _| usage.programs.contains_key(pid));
        for (pid, cpu) in &usage.programs {
            let program = self.programs.entry(*pid).or_insert_with(|| Program {
                cpu: *cpu,
                at,
                busy_at: clock::wall(),
            });
            let elapsed = at.duration_since(program.at);
            if elapsed < SHORTEST {
                continue;
            }
            // A total that shrank belongs to processes that ended.
            let used = processors(program.cpu, *cpu, elapsed);
            if used >= BUSY || *cpu < program.cpu {
                program.busy_at = clock::wall();
            }
            (program.cpu, program.at) = (*cpu, at);
        }
    }
}

// === impl Track ===

impl Track {
    /// A rate needs two samples; the first is compared with the start of the workspace.
    fn add(&mut self, load: Load, at: Instant, age: Duration) {
        let Some((before, earlier)) = self.last else {
            self.last = Some((at, load));
            self.mark = Some((at, load.cpu));
            if age > Duration::ZERO {
                self.cpu = processors(Duration::ZERO, load.cpu, age.max(SHORTEST));
                self.past_cpu.add(self.cpu);
                self.past_memory.add(load.memory as f64);
            }
            return;
        };
        let elapsed = at.duration_since(before);
        if elapsed < SHORTEST {
            return;
        }
        self.cpu = processors(earlier.cpu, load.cpu, elapsed);
        self.last = Some((at, load));
        let (since, cpu) = self.mark.unwrap_or((before, earlier.cpu));
        let elapsed = at.duration_since(since);
        // The first value comes at once; a tick is never quite on time.
        if elapsed >= EVERY - SHORTEST || self.past_cpu == History::default() {
            self.past_cpu.add(processors(cpu, load.cpu, elapsed));
            self.past_memory.add(load.memory as f64);
            self.mark = Some((at, load.cpu));
        }
    }

    fn load(&self) -> Load {
        self.last.map(|(_, load)| load).unwrap_or_default()
    }

    fn past(&self) -> Past {
        Past {
            cpu: self.past_cpu.values(),
            memory: self.past_memory.values(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_is_compared_with_the_start_and_later_ones_with_each_other() {
        let load = |seconds| Load {
            cpu: Duration::from_secs(seconds),
            memory: 7,
            processes: 1,
        };
        let (begun, mut track) = (Instant::now(), Track::default());
        track.add(load(5), begun, Duration::from_secs(10));
        assert_eq!((track.cpu, track.past().cpu), (0.5, vec![0.5]));
        let later = begun + EVERY;
        track.add(load(15), later, Duration::from_secs(15));
        assert_eq!((track.cpu, track.past().cpu), (2.0, vec![0.5, 2.0]));
        assert_eq!(track.past().memory, [7.0, 7.0]);
        // Where the start is not known, the first rate comes with the second sample.
        let mut track = Track::default();
        track.add(load(5), begun, Duration::ZERO);
        assert_eq!((track.cpu, track.past().cpu), (0.0, vec![]));
    }
}
