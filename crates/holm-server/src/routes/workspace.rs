//! A live workspace in the port task, and all of them as the table shows them.

use holm_core::address::{default_host, scheme};
use holm_core::route::PortAddress;
use holm_core::route::sites;
use holm_core::spec::DeclaredPort;
use holm_core::{ProjectName, WorkspaceId};
use holm_engine::store::WorkspaceRecord;
use holm_proxy::{Forward, LiveWorkspace, Port, Source};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio::task::AbortHandle;

pub struct WorkspaceRoutes {
    pub record: WorkspaceRecord,
    pub project: ProjectName,
    /// As last known: it may have ended a moment ago.
    pub is_running: bool,
    /// Whether this daemon has known it to run since its last start.
    pub was_running: bool,
    pub listening: BTreeSet<u16>,
    /// By the port inside.
    pub hosted: HashMap<u16, Hosted>,
    pub watch: Option<Watch>,
    /// Consecutive watches that ended without a message.
    pub failures: u32,
    /// Notes for the user, by the port inside.
    pub notes: BTreeMap<u16, String>,
    /// The ports last sent to its keeper.
    pub sent_ports: Vec<PortAddress>,
}

/// A bound host port.
pub struct Hosted {
    pub host_port: u16,
    pub forward: Forward,
}

/// The current watch of listening ports. Messages of an earlier one are ignored.
pub struct Watch {
    pub generation: u64,
    pub task: AbortHandle,
}

// === impl WorkspaceRoutes ===

impl WorkspaceRoutes {
    pub fn new(record: WorkspaceRecord, project: ProjectName) -> Self {
        Self {
            record,
            project,
            is_running: false,
            was_running: false,
            listening: BTreeSet::new(),
            hosted: HashMap::new(),
            watch: None,
            failures: 0,
            notes: BTreeMap::new(),
            sent_ports: Vec::new(),
        }
    }

    pub fn declared(&self) -> &[DeclaredPort] {
        &self.record.spec.network.ports
    }

    pub fn is_declared(&self, port: u16) -> bool {
        self.declared().iter().any(|declared| declared.port == port)
    }

    /// The name of a port: as declared, or its number.
    pub fn name(&self, port: u16) -> String {
        let declared = self.declared().iter();
        let name = declared.filter(|declared| declared.port == port);
        let mut names: Vec<&str> = name.map(|declared| declared.name.as_str()).collect();
        names.sort_unstable();
        names
            .first()
            .map_or_else(|| port.to_string(), |name| (*name).to_owned())
    }

    /// A port that is only listened on: its service or its number decides the scheme.
    fn discovered(&self, port: u16) -> DeclaredPort {
        let mut services = self.record.spec.services.iter();
        let service = services.find(|service| service.port == Some(port));
        let run = service.map(|service| service.run.as_str());
        let name = service.map_or("", |service| service.name.as_str());
        DeclaredPort {
            name: port.to_string(),
            port,
            scheme: scheme(run, name, port).to_owned(),
            host: run.and_then(|run| default_host(run, port)),
        }
    }

    /// A port by its number, as if no canonical port led to it.
    pub fn port(&self, port: u16) -> Port {
        let name = self.name(port);
        let mut declared = self.declared().iter();
        match declared.find(|declared| declared.port == port && declared.name == name) {
            Some(declared) => self.shown(declared.clone(), Source::Declared),
            None => self.shown(self.discovered(port), Source::Discovered),
        }
    }

    fn shown(&self, declared: DeclaredPort, source: Source) -> Port {
        let hosted = self.hosted.get(&declared.port);
        Port {
            host_port: hosted.map(|hosted| hosted.host_port),
            source,
            is_listening: self.listening.contains(&declared.port),
            is_canonical: false,
            name: declared.name,
            port: declared.port,
            scheme: declared.scheme,
            host: declared.host,
        }
    }

    /// Declared ones by name, then discovered ones by number.
    fn ports(&self, canonical: &HashMap<u16, WorkspaceId>) -> Vec<Port> {
        let is_held = |port: u16| canonical.get(&port) == Some(&self.record.id);
        let shown = |declared: DeclaredPort, source: Source| {
            let is_canonical = is_held(declared.port);
            Port {
                is_canonical,
                ..self.shown(declared, source)
            }
        };
        let mut declared: Vec<&DeclaredPort> = self.declared().iter().collect();
        declared.sort_by(|one, other| one.name.cmp(&other.name));
        let declared = declared
            .into_iter()
            .map(|declared| shown(declared.clone(), Source::Declared));
        let discovered = self
            .listening
            .iter()
            .filter(|port| !self.is_declared(**port));
        let discovered = discovered.map(|port| shown(self.discovered(*port), Source::Discovered));
        declared.chain(discovered).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All workspaces, oldest first. `canonical` maps ports to holders.
pub fn live_workspaces(
    followed: &HashMap<WorkspaceId, WorkspaceRoutes>,
    canonical: &HashMap<u16, WorkspaceId>,
) -> Vec<LiveWorkspace> {
    let mut order: Vec<&WorkspaceRoutes> = followed.values().collect();
    order.sort_by_key(|kept| (kept.record.labelled_at, kept.record.id.as_str()));
    let sites = sites(order.iter().map(|kept| {
        let record = &kept.record;
        (&record.label, &record.project_id, &kept.project)
    }));
    let mut named: Vec<(&WorkspaceRoutes, String)> = order.into_iter().zip(sites).collect();
    named.sort_by_key(|(kept, _)| (kept.record.created_at, kept.record.id.as_str()));
    let workspaces = named.into_iter().map(|(kept, site)| LiveWorkspace {
        id: kept.record.id.clone(),
        label: kept.record.label.clone(),
        project: kept.project.clone(),
        site,
        is_running: kept.is_running,
        ports: kept.ports(canonical),
    });
    workspaces.collect()
}
