//! The task that owns all forwarding into workspaces. It receives the engine's notices and the
//! keepers' reports one after the other, binds the ports, sends events and fills the table.

mod canonical;
mod hosting;

use canonical::Canonicals;
pub use canonical::CheckedOut;

use super::workspace::{Hosted, Watch, WorkspaceRoutes, live_workspaces};
use super::{Death, FrontDoor, Inward, Notes, Routes, Unhandled};
use crate::events::Events;
use holm_core::plan::{Desired, State};
use holm_core::route::PortAddress;
use holm_core::state::Birth;
use holm_core::{Fault, WorkspaceId};
use holm_engine::store::Claim;
use holm_engine::{Engine, Notice};
use holm_proxy::{Table, Traffic};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Messages to the task.
pub enum Command {
    Notice(WorkspaceId, Notice),
    /// A keeper reports listening ports.
    Listening {
        id: WorkspaceId,
        generation: u64,
        ports: Vec<u16>,
    },
    /// A watch ended, with the workspace's state then.
    Ended {
        id: WorkspaceId,
        generation: u64,
        state: State,
        reason: Option<String>,
    },
    Settle(oneshot::Sender<()>),
    CheckOut {
        id: WorkspaceId,
        names: Option<Vec<String>>,
        answer: oneshot::Sender<Result<Vec<CheckedOut>, Fault>>,
    },
    Release(oneshot::Sender<Result<Vec<CheckedOut>, Fault>>),
    CheckedOut(oneshot::Sender<Vec<CheckedOut>>),
}

pub struct RouteTask {
    pub(super) engine: Engine,
    pub(super) inward: Inward,
    pub(super) traffic: Traffic,
    pub(super) events: Events,
    pub(super) front_door: FrontDoor,
    notes: Notes,
    deaths: mpsc::UnboundedSender<Death>,
    table: Table,
    commands: mpsc::WeakUnboundedSender<Command>,
    unhandled: Unhandled,
    pub(super) followed: HashMap<WorkspaceId, WorkspaceRoutes>,
    /// Every claimed host port, also of workspaces in the trash.
    pub(super) claims: HashMap<u16, Claim>,
    pub(super) canonical: Canonicals,
    generation: u64,
    /// Keepers that are asked for a first report at the same time.
    turns: Arc<Semaphore>,
}

/// When a daemon starts, every keeper is asked; each answer takes a keeper some milliseconds of processor time.
const AT_ONCE: usize = 64;

/// The pause before a failed watch of a running workspace is restarted. Doubled each time without a
/// message: the keeper may be of an older version.
const PAUSE: Duration = Duration::from_secs(1);
const MOST_FAILURES: u32 = 7;

/// The reason of a workspace that did not survive a reboot.
const REBOOT: &str = "reboot";

/// How often a port that another program holds is tried again.
const RETRY: Duration = Duration::from_secs(5);

// === impl RouteTask ===

impl RouteTask {
    pub fn new(routes: &Routes, events: Events) -> Self {
        Self {
            engine: routes.engine.clone(),
            inward: routes.inward.clone(),
            traffic: routes.traffic.clone(),
            events,
            front_door: routes.front_door.clone(),
            notes: routes.notes.clone(),
            deaths: routes.deaths.clone(),
            table: routes.table.clone(),
            commands: routes.commands.downgrade(),
            unhandled: routes.unhandled.clone(),
            followed: HashMap::new(),
            claims: HashMap::new(),
            canonical: Canonicals::default(),
            generation: 0,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Loads all live workspaces.
    pub async fn load(&mut self) -> Result<(), Fault> {
        let claims = self.engine.claims().await?;
        self.claims = claims
            .into_iter()
            .map(|claim| (claim.host_port, claim))
            .collect();
        for (record, project) in self.engine.names().await? {
            if record.birth != Birth::Acknowledged {
                continue;
            }
            let id = record.id.clone();
            // Its watch tells whether that is so; the daemon does not wait for it.
            let is_wanted = record.desired == Desired::Running;
            let mut kept = WorkspaceRoutes::new(record, project);
            kept.is_running = is_wanted;
            self.followed.insert(id.clone(), kept);
            self.host_claimed(&id).await;
            self.watch(&id, Duration::ZERO);
        }
        self.load_canonical().await?;
        self.publish();
        for update in self.port_updates() {
            tokio::spawn(update);
        }
        Ok(())
    }

    /// Runs until the daemon ends.
    pub async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut retry = tokio::time::interval(RETRY);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    // Everything before it was published.
                    Some(Command::Settle(done)) => {
                        self.unhandled.note_handled();
                        let _ = done.send(());
                        continue;
                    }
                    Some(command) => {
                        self.handle(command).await;
                        self.publish();
                        self.unhandled.note_handled();
                    }
                    None => return,
                },
                _ = retry.tick() => {
                    if !self.retry_canonical().await {
                        continue;
                    }
                    self.publish();
                }
            }
            for update in self.port_updates() {
                tokio::spawn(update);
            }
        }
    }

    async fn handle(&mut self, command: Command) {
        match command {
            Command::Notice(id, notice) => self.handle_notice(&id, notice).await,
            Command::Listening {
                id,
                generation,
                ports,
            } => self.handle_listening(&id, generation, ports).await,
            Command::Ended {
                id,
                generation,
                state,
                reason,
            } => self.handle_watch_end(&id, generation, state, reason).await,
            Command::Settle(done) => drop(done.send(())),
            Command::CheckOut { id, names, answer } => {
                let result = self.check_out(&id, names).await;
                self.publish();
                let _ = answer.send(result);
            }
            Command::Release(answer) => {
                let result = self.release().await;
                self.publish();
                let _ = answer.send(result);
            }
            Command::CheckedOut(answer) => {
                let _ = answer.send(self.checked_out());
            }
        }
    }

    async fn handle_notice(&mut self, id: &WorkspaceId, notice: Notice) {
        match notice {
            Notice::Created => {
                self.take_up(id).await;
                self.emit(id, "workspace.created", json!({})).await;
                self.started(id).await;
            }
            Notice::Started => {
                self.emit(id, "workspace.started", json!({})).await;
                self.started(id).await;
            }
            Notice::Stopped => {
                self.stopped(id).await;
                self.emit(id, "workspace.stopped", json!({})).await;
            }
            Notice::Restored => {
                self.take_up(id).await;
                self.emit(id, "workspace.restored", json!({})).await;
            }
            Notice::Renamed { earlier } => {
                match self.engine.named(id).await {
                    Ok(Some((record, _))) => {
                        if let Some(kept) = self.followed.get_mut(id) {
                            kept.record = record;
                        }
                    }
                    Ok(None) => {}
                    Err(fault) => tracing::warn!(%id, %fault, "a new label is not known to routes"),
                }
                let detail = json!({ "earlier": earlier.as_str() });
                self.emit(id, "workspace.renamed", detail).await;
            }
            Notice::Moved { to } => {
                self.emit(id, "workspace.moved", json!({ "to": to })).await;
            }
            Notice::RunStarted { run } => {
                let detail = json!({ "run": run.as_str() });
                self.emit(id, "run.started", detail).await;
            }
            Notice::RunEnded {
                run,
                state,
                exit_code,
            } => {
                let (run, state) = (run.as_str(), state.as_str());
                let detail = json!({ "run": run, "state": state, "exit_code": exit_code });
                self.emit(id, "run.ended", detail).await;
            }
            Notice::Removed => {
                self.stopped(id).await;
                self.give_up_canonical(id).await;
                self.emit(id, "workspace.removed", json!({})).await;
                // Its host ports stay claimed, because it may be restored.
                if let Some(kept) = self.followed.remove(id) {
                    for hosted in kept.hosted.into_values() {
                        hosted.forward.close().await;
                    }
                }
            }
            Notice::Forgotten => self.claims.retain(|_, claim| claim.workspace != *id),
        }
    }

    async fn take_up(&mut self, id: &WorkspaceId) {
        match self.engine.named(id).await {
            Ok(Some((record, project))) => {
                self.followed
                    .insert(id.clone(), WorkspaceRoutes::new(record, project));
                self.host_claimed(id).await;
            }
            // Removed since; that notice follows.
            Ok(None) => {}
            Err(fault) => tracing::error!(%id, %fault, "no port is forwarded to a workspace"),
        }
    }

    async fn started(&mut self, id: &WorkspaceId) {
        let Some(kept) = self.followed.get_mut(id) else {
            return;
        };
        kept.is_running = true;
        kept.was_running = true;
        kept.sent_ports.clear();
        self.watch(id, Duration::ZERO);
        // Waits, so that the first command inside finds its URLs.
        self.publish();
        for update in self.port_updates() {
            update.await;
        }
    }

    /// Updates for running workspaces about their ports.
    fn port_updates(&mut self) -> Vec<impl Future<Output = ()> + Send + 'static> {
        let mut port_updates = Vec::new();
        for workspace in self
            .table
            .snapshot()
            .iter()
            .filter(|workspace| workspace.is_running)
        {
            let ports = self.front_door.port_addresses(workspace);
            let Some(kept) = self.followed.get_mut(&workspace.id) else {
                continue;
            };
            if kept.sent_ports != ports {
                kept.sent_ports = ports.clone();
                port_updates.push(send_ports(self.engine.clone(), workspace.id.clone(), ports));
            }
        }
        port_updates
    }

    /// A stopped workspace has no listening ports. Its host ports stay bound.
    async fn stopped(&mut self, id: &WorkspaceId) {
        let Some(kept) = self.followed.get_mut(id) else {
            return;
        };
        kept.is_running = false;
        kept.was_running = false;
        kept.watch = None;
        let closed = std::mem::take(&mut kept.listening);
        for port in closed {
            let detail = self.described(id, port);
            self.emit(id, "port.closed", detail).await;
        }
    }

    /// Binds the claimed and the declared ports of the workspace.
    async fn host_claimed(&mut self, id: &WorkspaceId) {
        let Some(kept) = self.followed.get(id) else {
            return;
        };
        let declared = kept.declared().iter().map(|declared| declared.port);
        let mut ports: BTreeSet<u16> = declared.collect();
        let claims = self.claims.values().filter(|claim| claim.workspace == *id);
        ports.extend(claims.map(|claim| claim.port));
        for port in ports {
            self.host(id, port).await;
        }
    }

    /// Makes sure that a host port is forwarded to this port, and reports a changed one.
    async fn host(&mut self, id: &WorkspaceId, port: u16) {
        let hosted = match hosting::host(self, id, port).await {
            Ok(Some(hosted)) => hosted,
            Ok(None) => return,
            Err(fault) => {
                tracing::warn!(%id, port, %fault, "a port has no host port");
                return;
            }
        };
        let hosting::Held {
            host_port,
            forward,
            earlier,
        } = hosted;
        if let Some(kept) = self.followed.get_mut(id) {
            kept.hosted.insert(port, Hosted { host_port, forward });
        }
        if let Some(earlier) = earlier {
            tracing::warn!(%id, port, earlier, host_port, "another program holds the host port");
            if let Some(kept) = self.followed.get_mut(id) {
                let note = format!(
                    "port {port} is at 127.0.0.1:{host_port} now, because another program holds {earlier}"
                );
                kept.notes.insert(port, note);
            }
            let mut detail = self.described(id, port);
            detail["earlier_host_port"] = json!(earlier);
            self.emit(id, "port.moved", detail).await;
        }
    }

    async fn handle_listening(&mut self, id: &WorkspaceId, generation: u64, ports: Vec<u16>) {
        let Some(kept) = self.followed.get_mut(id) else {
            return;
        };
        if kept.watch.as_ref().map(|watch| watch.generation) != Some(generation) {
            return;
        }
        kept.failures = 0;
        kept.is_running = true;
        kept.was_running = true;
        let found: BTreeSet<u16> = ports.into_iter().collect();
        let before = std::mem::replace(&mut kept.listening, found.clone());
        for port in before.difference(&found) {
            let detail = self.described(id, *port);
            self.emit(id, "port.closed", detail).await;
        }
        for port in found.difference(&before) {
            self.host(id, *port).await;
            let detail = self.described(id, *port);
            self.emit(id, "port.opened", detail).await;
        }
    }

    async fn handle_watch_end(
        &mut self,
        id: &WorkspaceId,
        generation: u64,
        state: State,
        reason: Option<String>,
    ) {
        let current = self.followed.get(id).and_then(|kept| kept.watch.as_ref());
        if current.map(|watch| watch.generation) != Some(generation) {
            return;
        }
        match state {
            State::Running => {
                let failures = self.followed.get_mut(id).map_or(0, |kept| {
                    kept.is_running = true;
                    kept.failures = (kept.failures + 1).min(MOST_FAILURES);
                    kept.failures
                });
                self.watch(id, PAUSE * 2u32.pow(failures.saturating_sub(1)));
            }
            State::Failed => {
                let kept = self.followed.get(id);
                let was_running = kept.is_some_and(|kept| kept.was_running);
                self.stopped(id).await;
                if was_running {
                    let detail = json!({ "reason": reason });
                    self.emit(id, "workspace.failed", detail).await;
                }
                self.report_death(id, false);
            }
            State::Stopped if reason.as_deref() == Some(REBOOT) => {
                self.stopped(id).await;
                self.report_death(id, true);
            }
            State::Creating | State::Stopped | State::Removed => self.stopped(id).await,
        }
    }

    fn report_death(&self, id: &WorkspaceId, by_reboot: bool) {
        let id = id.clone();
        // The receiver is gone only when the daemon ends.
        let _ = self.deaths.send(Death { id, by_reboot });
    }

    /// Watches listening ports inside; ignores an earlier watch from now on.
    fn watch(&mut self, id: &WorkspaceId, pause: Duration) {
        self.generation += 1;
        let generation = self.generation;
        let follower = Follower {
            engine: self.engine.clone(),
            commands: self.commands.clone(),
            unhandled: self.unhandled.clone(),
            turns: Arc::clone(&self.turns),
            id: id.clone(),
            generation,
        };
        let task = tokio::spawn(follower.follow(pause)).abort_handle();
        if let Some(kept) = self.followed.get_mut(id) {
            kept.watch = Some(Watch { generation, task });
        }
    }

    /// A port in events.
    pub(super) fn described(&self, id: &WorkspaceId, port: u16) -> Value {
        let name = self.followed.get(id).map(|kept| kept.name(port));
        let name = name.unwrap_or_else(|| port.to_string());
        let host_port = self
            .followed
            .get(id)
            .and_then(|kept| kept.hosted.get(&port));
        let workspaces = self.table.snapshot();
        let site = workspaces.iter().find(|workspace| workspace.id == *id);
        let shown = self.followed.get(id).map(|kept| kept.port(port));
        let url = site
            .zip(shown)
            .and_then(|(workspace, shown)| self.front_door.url(&workspace.site, &shown));
        json!({
            "port": port,
            "name": name,
            "host_port": host_port.map(|hosted| hosted.host_port),
            "url": url,
        })
    }

    /// Every event has the workspace's names.
    pub(super) async fn emit(&self, id: &WorkspaceId, kind: &str, mut detail: Value) {
        if let Some(kept) = self.followed.get(id) {
            detail["label"] = json!(kept.record.label.as_str());
            detail["project"] = json!(kept.project.as_str());
        }
        self.events.emit(id, kind, detail).await;
    }

    /// Notes of `show` about a workspace's ports.
    fn notes(&self) -> HashMap<WorkspaceId, Vec<String>> {
        let mut notes = self.canonical.notes();
        for (id, kept) in &self.followed {
            if !kept.notes.is_empty() {
                let noted = kept.notes.values().cloned();
                notes.entry(id.clone()).or_default().extend(noted);
            }
        }
        notes
    }

    pub(super) fn publish(&self) {
        *self.notes.lock().unwrap_or_else(PoisonError::into_inner) = self.notes();
        self.table
            .replace(live_workspaces(&self.followed, &self.canonical.holders()));
    }
}

async fn send_ports(engine: Engine, id: WorkspaceId, ports: Vec<PortAddress>) {
    let sent = async { engine.reader(&id).await?.set_ports(ports).await };
    if let Err(fault) = sent.await {
        // It may just have ended, or be of an older version.
        tracing::debug!(%id, %fault, "a workspace was not told its ports");
    }
}

/// Passes on what one keeper tells.
struct Follower {
    engine: Engine,
    commands: mpsc::WeakUnboundedSender<Command>,
    unhandled: Unhandled,
    turns: Arc<Semaphore>,
    id: WorkspaceId,
    generation: u64,
}

// === impl Follower ===

impl Follower {
    /// Runs until the keeper ends; then observes the workspace.
    async fn follow(self, pause: Duration) {
        tokio::time::sleep(pause).await;
        // The semaphore is never closed.
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        let turn = Mutex::new(turn);
        let report = |ports| {
            drop(turn.lock().unwrap_or_else(PoisonError::into_inner).take());
            self.send(Command::Listening {
                id: self.id.clone(),
                generation: self.generation,
                ports,
            });
        };
        if let Err(fault) = self.engine.watch(&self.id, report).await {
            tracing::debug!(id = %self.id, %fault, "a workspace is not watched");
        }
        // A workspace whose operation takes long must not hold up the others.
        drop(turn);
        let (state, reason) = match self.engine.show_in_turn(&self.id).await {
            Ok(view) => (view.state, view.reason),
            Err(_) => (State::Removed, None),
        };
        self.send(Command::Ended {
            id: self.id.clone(),
            generation: self.generation,
            state,
            reason,
        });
    }

    fn send(&self, command: Command) {
        // The task is gone only when the daemon ends.
        if let Some(commands) = self.commands.upgrade() {
            self.unhandled.send(&commands, command);
        }
    }
}
