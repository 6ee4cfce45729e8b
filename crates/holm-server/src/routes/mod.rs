//! Forwarding from the host into workspaces: ports, host ports, canonical ports.
//!
//! One task ([`task`]) owns all of it and follows the engine and the keepers; the rest of the
//! server reads the [`Table`] that it fills, and sends requests through [`Routes`].

pub mod holder;
mod serve;
mod task;
mod workspace;

pub use serve::routes;
pub use task::CheckedOut;

use super::events::Events;
use holm_api::workspace::Port as WirePort;
use holm_core::address::HTTP;
use holm_core::route::PortAddress;
use holm_core::spec::Probe;
use holm_core::{Code, Fault, WorkspaceId, service};
use holm_engine::{Engine, Notice, View};
use holm_proxy::socks::Outside;
use holm_proxy::{Inside, LiveWorkspace, Port, Stream, Table, Tallies, Traffic, Visit};
use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use task::{Command, RouteTask};
use tokio::sync::{mpsc, oneshot};

/// The time limit for querying listening ports.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// A handle; clones share everything.
#[derive(Clone)]
pub struct Routes {
    table: Table,
    inward: Inward,
    traffic: Traffic,
    engine: Engine,
    commands: mpsc::UnboundedSender<Command>,
    unhandled: Unhandled,
    front_door: FrontDoor,
    notes: Notes,
    deaths: mpsc::UnboundedSender<Death>,
}

/// A workspace whose processes ended although it should run.
pub struct Death {
    pub id: WorkspaceId,
    /// Nothing of it was wrong: the machine was rebooted.
    pub by_reboot: bool,
}

/// Notes about the ports of each workspace. Clones share them.
type Notes = Arc<Mutex<HashMap<WorkspaceId, Vec<String>>>>;

/// How many messages to the task are not in the table yet. Clones share the number.
#[derive(Clone, Default)]
struct Unhandled(Arc<AtomicUsize>);

/// Messages from before the task starts.
pub struct PendingCommands(mpsc::UnboundedReceiver<Command>);

/// Where deaths are reported.
pub type Deaths = mpsc::UnboundedReceiver<Death>;

/// Connects into workspaces. Using it counts as use of the workspace.
#[derive(Clone)]
pub struct Inward {
    engine: Engine,
    traffic: Traffic,
    tallies: Tallies,
}

/// The port of previews; 0 before it is known. Clones share it.
#[derive(Clone, Default)]
pub struct FrontDoor(Arc<AtomicU16>);

// === impl Routes ===

impl Routes {
    /// Subscribes to the engine.
    pub fn new(engine: &Engine) -> (Self, PendingCommands, Deaths) {
        let (commands, pending) = mpsc::unbounded_channel();
        let (deaths, died) = mpsc::unbounded_channel();
        let unhandled = Unhandled::default();
        let (notices, counted) = (commands.clone(), unhandled.clone());
        engine.subscribe(move |id, notice: Notice| {
            counted.send(&notices, Command::Notice(id.clone(), notice));
        });
        let files = getrlimit(Resource::Nofile).current;
        let traffic = Traffic::for_files(files.unwrap_or(u64::MAX));
        let routes = Self {
            table: Table::default(),
            inward: Inward {
                engine: engine.clone(),
                traffic: traffic.clone(),
                tallies: Tallies::default(),
            },
            traffic,
            engine: engine.clone(),
            deaths,
            commands,
            unhandled,
            front_door: FrontDoor::default(),
            notes: Notes::default(),
        };
        (routes, PendingCommands(pending), died)
    }

    /// Starts to follow all workspaces. Claimed ports are bound when this returns.
    pub async fn begin(&self, pending: PendingCommands, events: Events) -> Result<(), Fault> {
        let mut task = RouteTask::new(self, events);
        task.load().await?;
        tokio::spawn(task.run(pending.0));
        Ok(())
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    pub fn inward(&self) -> &Inward {
        &self.inward
    }

    /// Where the port of previews is set.
    pub fn front_door(&self) -> &FrontDoor {
        &self.front_door
    }

    /// Returns when everything that happened before is in the table.
    pub async fn settle(&self) {
        if self.unhandled.is_zero() {
            return;
        }
        let (done, settled) = oneshot::channel();
        self.unhandled.send(&self.commands, Command::Settle(done));
        // Without the task there is nothing to wait for.
        let _ = settled.await;
    }

    /// Forwards canonical ports to a workspace: those with these names, or all that it declares.
    pub async fn check_out(
        &self,
        id: &WorkspaceId,
        names: Option<Vec<String>>,
    ) -> Result<Vec<CheckedOut>, Fault> {
        let (answer, answered) = oneshot::channel();
        let id = id.clone();
        self.request(Command::CheckOut { id, names, answer }, answered)
            .await?
    }

    /// Releases all canonical ports; returns what they were.
    pub async fn release(&self) -> Result<Vec<CheckedOut>, Fault> {
        let (answer, answered) = oneshot::channel();
        self.request(Command::Release(answer), answered).await?
    }

    /// The holders of canonical ports.
    pub async fn checked_out(&self) -> Result<Vec<CheckedOut>, Fault> {
        let (answer, answered) = oneshot::channel();
        self.request(Command::CheckedOut(answer), answered).await
    }

    async fn request<T>(&self, command: Command, answer: oneshot::Receiver<T>) -> Result<T, Fault> {
        self.unhandled.send(&self.commands, command);
        answer.await.map_err(|_| {
            let message = "the daemon is about to end";
            Fault::new(Code::Internal, message, "try again in a moment")
        })
    }

    /// The ports of all workspaces in API types, once everything that happened before is known.
    pub async fn ports(&self) -> HashMap<WorkspaceId, Vec<WirePort>> {
        self.settle().await;
        let workspaces = self.table.snapshot();
        let ports = workspaces.iter();
        ports
            .map(|workspace| (workspace.id.clone(), self.api_ports(workspace)))
            .collect()
    }

    /// As [`ports`](Self::ports), of one workspace.
    pub async fn ports_of(&self, id: &WorkspaceId) -> Vec<WirePort> {
        self.settle().await;
        let workspaces = self.table.snapshot();
        let workspace = workspaces.iter().find(|workspace| workspace.id == *id);
        workspace.map_or_else(Vec::new, |workspace| self.api_ports(workspace))
    }

    /// The ports of a workspace, queried again if a service is ready whose port looks closed: the
    /// ports are polled, so the last poll can be older.
    pub async fn seen_anew(&self, view: &View, mut ports: Vec<WirePort>) -> Vec<WirePort> {
        let ready = ready_ports(view);
        let is_unseen = |port: &WirePort| !port.listening && ready.contains(&port.port);
        if !ports.iter().any(is_unseen) {
            return ports;
        }
        let id = &view.record.id;
        let look = async {
            let keeper = self.engine.reader(id).await.ok()?;
            keeper.watch_ports().await.ok()?.recv().await
        };
        let found = tokio::time::timeout(LONGEST_LOOK, look).await;
        // A workspace that just ended has none.
        let found = found.ok().flatten().unwrap_or_default();
        for port in &mut ports {
            port.listening |= found.contains(&port.port);
        }
        ports
    }

    /// Notes about the ports of a workspace.
    pub fn notes(&self, id: &WorkspaceId) -> Vec<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.get(id).cloned().unwrap_or_default()
    }

    fn api_ports(&self, workspace: &LiveWorkspace) -> Vec<WirePort> {
        let ports = workspace.ports.iter();
        ports
            .map(|port| self.front_door.api_port(workspace, port))
            .collect()
    }

    /// Counts traffic since the last call as use of the workspaces.
    pub async fn note_traffic(&self) {
        for id in self.traffic.take_moved() {
            if let Err(fault) = self.engine.note_traffic(&id).await
                && fault.code != Code::WorkspaceNotFound
            {
                tracing::warn!(%id, %fault, "the use of a workspace was not noted");
            }
        }
    }
}

/// The ports of ready services.
fn ready_ports(view: &View) -> Vec<u16> {
    let services = view.services.iter();
    let ready = services.filter(|status| status.state == service::State::Ready.as_str());
    let declared = |name: &str| {
        let mut services = view.record.spec.services.iter();
        services.find(|service| service.name == name)
    };
    let probes = ready.filter_map(|status| declared(&status.name)?.ready.as_ref());
    let ports = probes.filter_map(|ready| match ready.probe {
        Probe::Http { port, .. } | Probe::Tcp { port } => Some(port),
        Probe::Log { .. } | Probe::Command { .. } | Probe::Program { .. } | Probe::Lifecycle => {
            None
        }
    });
    ports.collect()
}

// === impl Unhandled ===

impl Unhandled {
    /// Counts the message before the task can handle it.
    fn send(&self, commands: &mpsc::UnboundedSender<Command>, command: Command) {
        self.0.fetch_add(1, Ordering::AcqRel);
        // The receiver is gone only when the daemon ends.
        let _ = commands.send(command);
    }

    /// The table has what the message changed.
    fn note_handled(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    fn is_zero(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

// === impl FrontDoor ===

impl FrontDoor {
    /// Must be set before workspaces are followed, because they get their URLs.
    pub fn set(&self, port: u16) {
        self.0.store(port, Ordering::Relaxed);
    }

    pub fn port(&self) -> Option<u16> {
        Some(self.0.load(Ordering::Relaxed)).filter(|port| *port != 0)
    }

    /// The address of a port: its preview, or its host port if it does not speak HTTP.
    fn url(&self, site: &str, port: &Port) -> Option<String> {
        let Port { name, scheme, .. } = port;
        if scheme != HTTP {
            return Some(format!("{scheme}://127.0.0.1:{}", port.host_port?));
        }
        let door = self.port()?;
        Some(format!("http://{name}.{site}.localhost:{door}"))
    }

    /// The addresses of a workspace's ports, for its keeper.
    fn port_addresses(&self, workspace: &LiveWorkspace) -> Vec<PortAddress> {
        let ports = workspace.ports.iter().map(|port| PortAddress {
            name: port.name.clone(),
            port: port.port,
            host_port: port.host_port,
            url: self.url(&workspace.site, port),
            canonical: port.is_canonical,
            source: port.source.as_str().to_owned(),
        });
        ports.collect()
    }

    fn api_port(&self, workspace: &LiveWorkspace, port: &Port) -> WirePort {
        WirePort {
            name: port.name.clone(),
            port: port.port,
            host_port: port.host_port,
            url: self.url(&workspace.site, port),
            canonical: port.is_canonical,
            source: port.source.as_str().to_owned(),
            listening: port.is_listening,
        }
    }
}

// === impl Inward ===

impl Inward {
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Byte counts of inward connections.
    pub fn tallies(&self) -> &Tallies {
        &self.tallies
    }
}

impl Outside for Inward {
    async fn dial_out(&self, workspace: &WorkspaceId, host: &str, port: u16) -> io::Result<Stream> {
        let keeper = self.engine.keeper(workspace).await;
        keeper.map_err(io::Error::other)?.dial_out(host, port).await
    }
}

impl Inside for Inward {
    async fn dial(&self, workspace: &WorkspaceId, port: u16) -> io::Result<Visit> {
        let keeper = self.engine.reader(workspace).await;
        let stream = keeper.map_err(io::Error::other)?.dial(port).await?;
        self.traffic.note(workspace);
        Ok(self.tallies.count(stream, workspace, port))
    }
}
