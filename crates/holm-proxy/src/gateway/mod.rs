//! The only way out of a workspace: checks, resolves, dials and carries every outgoing connection.
//!
//! Runs in the keeper. The kernel's nftables rules are the first check and the gateway is the
//! second; each decides independently. An address is checked immediately before it is dialled. What
//! the gateway needs from the machine comes through [`Surroundings`].

mod connection;
mod dial;
mod entry;
mod lookup;
mod names;
mod open;
mod placeholders;
mod relay;
mod resolver;
mod upstream;

pub(crate) use dial::connect as connect_first;
pub use entry::{Carried, Entry, EntryKind, Process};
pub use lookup::LookupFailure;
pub use placeholders::{
    Insertion, InvalidLeaf, NewTokens, Paths, Placeholder, Placeholders, Renewing, certificates,
};

pub use upstream::Proxy;

use holm_core::egress::{Policy, Ports, Reason, parse_query};
use holm_core::service_network::Meaning;
use lookup::Lookups;
use names::Names;
use open::Open;
use relay::Buffers;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;

/// What the gateway needs from the machine.
pub trait Surroundings: Send + Sync + 'static {
    /// Resolves a name with the host's resolver. Blocks for as long as that takes.
    fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, LookupFailure>;

    /// Removes addresses from the kernel's allowed set and adds others. Returns quickly.
    fn grant(&self, taken: &[Grant], given: &[Grant]) -> io::Result<()>;

    /// Replaces the kernel's policy and its allowed set. Returns quickly.
    fn replace(&self, policy: &Policy, granted: &[Grant]) -> io::Result<()>;

    /// What a name means among the services of the workspace. Returns quickly.
    fn meaning(&self, _asking: IpAddr, _name: &str) -> Meaning {
        Meaning::Elsewhere
    }

    /// Whether the address currently belongs to this machine. Returns quickly.
    fn is_own(&self, address: IpAddr) -> bool;

    /// The process inside that has the connection, if it can be found cheaply. Blocks for
    /// milliseconds.
    fn process_of(&self, client: SocketAddr, asked: SocketAddr) -> Option<Process>;

    fn record(&self, entry: Entry);

    /// Records that secrets are about to be used at a host. Blocks until the entry is on disk.
    fn used(&self, secrets: &BTreeSet<String>, host: &str) -> io::Result<()>;

    /// Asks the daemon for the lock of an agent's sign-in, and whether the user's copy is newer
    /// than this refresh token.    /// Blocks for seconds.
    fn begin_renewal(&self, agent: &str, have: &holm_secrets::Value) -> io::Result<Renewing>;

    /// Has the daemon store new values; returns the tokens for the program inside. Blocks for
    /// seconds.
    fn end_renewal(&self, renewing: Renewing, tokens: &NewTokens) -> io::Result<NewTokens>;

    /// The CA certificates that this machine trusts (DER). Blocks while files are read.
    fn trusted(&self) -> Vec<Vec<u8>>;

    /// The proxy that leads to this destination; `None`: it is dialled directly.
    fn proxy(&self, _destination: &Destination<'_>) -> Option<&Proxy> {
        None
    }
}

/// A destination that the policy allows.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    Name(&'a str, u16),
    Address(SocketAddr),
}

/// The port for which a name is resolved: names do not say theirs.
const HTTPS: u16 = 443;

/// Inspected connections at a time: each has an HTTP parser and two sets of TLS buffers.
const MOST_INSPECTED: usize = 256;

/// An address that the kernel lets pass because it stands for an allowed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub address: IpAddr,
    /// `None`: all ports.
    pub port: Option<u16>,
}

/// A service of the host that is reachable inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: String,
    pub host: String,
    pub port: u16,
}

/// The sockets of the workspace's network that the gateway serves.
#[derive(Debug, Default)]
pub struct Sockets {
    pub gateways: Vec<TcpListener>,
    pub questions: Vec<UdpSocket>,
    pub long_questions: Vec<TcpListener>,
    pub services: Vec<(Service, TcpListener)>,
}

/// The gateway. Clones share their state.
pub struct Gateway<S>(Arc<State<S>>);

struct State<S> {
    surroundings: S,
    /// Names that resolve to the workspace itself.
    own_names: Vec<String>,
    state: Mutex<PolicyAndNames>,
    lookups: Lookups,
    open: Mutex<HashMap<u64, Arc<Open>>>,
    sequence: AtomicU64,
    slots: Arc<Semaphore>,
    buffers: Buffers,
    placeholders: Mutex<Arc<Placeholders>>,
    inspections: Semaphore,
}

/// Policy and granted addresses change together under one lock, so an address is never granted
/// under an old policy.
struct PolicyAndNames {
    policy: Policy,
    names: Names,
}

// === impl Gateway ===

impl<S> Clone for Gateway<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Surroundings> Gateway<S> {
    /// `most` limits the connections at a time.
    pub fn new(surroundings: S, policy: Policy, own_names: Vec<String>, most: usize) -> Self {
        let names = Names::default();
        Self(Arc::new(State {
            surroundings,
            own_names: own_names
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect(),
            state: Mutex::new(PolicyAndNames { policy, names }),
            lookups: Lookups::default(),
            open: Mutex::default(),
            sequence: AtomicU64::new(0),
            slots: Arc::new(Semaphore::new(most)),
            buffers: Buffers::default(),
            placeholders: Mutex::default(),
            inspections: Semaphore::new(MOST_INSPECTED),
        }))
    }

    /// Total bytes in and out.
    pub fn carried(&self) -> (u64, u64) {
        self.0.buffers.carried()
    }

    /// Replaces the usable secrets, also for open connections.
    pub fn set_placeholders(&self, placeholders: Placeholders) {
        let state = self.0.placeholders.lock();
        *state.unwrap_or_else(PoisonError::into_inner) = Arc::new(placeholders);
    }

    fn placeholders(&self) -> Arc<Placeholders> {
        let placeholders = self.0.placeholders.lock();
        Arc::clone(&placeholders.unwrap_or_else(PoisonError::into_inner))
    }

    pub fn surroundings(&self) -> &S {
        &self.0.surroundings
    }

    /// Serves the sockets on the current runtime.
    pub fn serve(&self, sockets: Sockets) {
        for listener in sockets.gateways {
            tokio::spawn(self.clone().take_connections(listener));
        }
        for socket in sockets.questions {
            tokio::spawn(resolver::serve_datagrams(self.clone(), socket));
        }
        for listener in sockets.long_questions {
            tokio::spawn(resolver::serve_streams(self.clone(), listener));
        }
        for (service, listener) in sockets.services {
            tokio::spawn(self.clone().take_for_service(Arc::new(service), listener));
        }
    }

    /// Puts a policy in force and cuts open connections that it forbids.
    pub fn set_policy(&self, policy: Policy) -> io::Result<()> {
        let mut state = self.state();
        state.policy = policy;
        let all = state.names.all();
        let granted: Vec<Grant> = all
            .flat_map(|(name, addresses)| grants(&state.policy, name, addresses))
            .collect();
        // The gateway already enforces the new policy. If the kernel's update fails, the kernel
        // still has the old rules and the gateway refuses what they would let pass.
        let replaced = self.0.surroundings.replace(&state.policy, &granted);
        drop(state);
        let open: Vec<Arc<Open>> = self.open().values().cloned().collect();
        for open in open {
            if let Err(reason) = self.judge_open(&open) {
                open.cut(reason);
            }
        }
        replaced
    }

    /// Records a connection that the kernel refused.
    pub fn refused(&self, address: IpAddr, port: Option<u16>, is_tcp: Tcp) {
        let state = self.state();
        let name = state.names.name_of(address).map(str::to_owned);
        let judged = match (is_tcp, &name, port) {
            (Tcp::No, _, _) | (_, _, None) => Err(Reason::NotTcp),
            (Tcp::Yes, Some(name), Some(port)) => state.policy.name(name, port),
            (Tcp::Yes, None, Some(port)) => state.policy.address(address, port),
        };
        drop(state);
        let reason = match judged {
            _ if name.is_none() && names::is_ours(address) => Reason::Forgotten,
            judged => judged.err().unwrap_or(Reason::NotListed),
        };
        self.record(Entry {
            kind: EntryKind::Refuse(reason),
            address: name.is_none().then_some(address),
            name,
            port,
            process: None,
            secrets: Vec::new(),
        });
    }

    /// Whether the policy allows resolving the name.
    pub(crate) fn may_ask(&self, asked: &str) -> Result<(), LookupFailure> {
        let judged = parse_query(asked).and_then(|name| {
            if self.is_own_name(&name) {
                return Ok(());
            }
            self.state().policy.ports_of(&name).map(drop)
        });
        judged.map_err(|reason| self.not_resolved(asked, None, reason))
    }

    /// The substitute addresses for a name, if the policy allows it and it exists.
    pub(crate) async fn resolve(&self, asked: &str) -> Result<Vec<IpAddr>, LookupFailure> {
        self.may_ask(asked)?;
        let Ok(name) = parse_query(asked) else {
            return Err(LookupFailure::NoSuchName);
        };
        if self.is_own_name(&name) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let proxy = self.surroundings().proxy(&Destination::Name(&name, HTTPS));
        let found = match self.look_up(&name).await {
            // Behind a proxy, this machine's resolver often knows only the names of its own network.
            Err(_) if proxy.is_some() => {
                return self.granted(&name, &[Ipv4Addr::UNSPECIFIED.into()]);
            }
            found => found?,
        };
        let state = self.state();
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in found {
            match self.judge_somewhere(&state.policy, address) {
                Ok(()) => allowed.push(address),
                Err(reason) => refused = Some((address, reason)),
            }
        }
        if allowed.is_empty() {
            drop(state);
            return Err(match refused {
                Some((address, reason)) => self.not_resolved(asked, Some(address), reason),
                None => LookupFailure::NoSuchName,
            });
        }
        drop(state);
        self.granted(&name, &allowed)
    }

    /// The substitute addresses for a name that may be resolved, of the families of its real ones.
    fn granted(&self, name: &str, real: &[IpAddr]) -> Result<Vec<IpAddr>, LookupFailure> {
        let granted = self.grant(&mut self.state(), name);
        let mut addresses = granted.map_err(|_| LookupFailure::Failed)?;
        addresses.retain(|address| real.iter().any(|it| it.is_ipv4() == address.is_ipv4()));
        Ok(addresses)
    }

    pub(crate) fn too_many_questions(&self, asked: &str) {
        self.not_resolved(asked, None, Reason::TooMuch);
    }

    /// Adds a name's substitute addresses to the kernel's allowed set before the program learns
    /// them.
    fn grant(&self, state: &mut PolicyAndNames, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = state.names.assign(name);
        if found.is_new {
            let taken = found
                .evicted
                .iter()
                .flat_map(|(name, addresses)| grants(&state.policy, name, *addresses));
            let taken: Vec<Grant> = taken.collect();
            let given = grants(&state.policy, name, found.addresses);
            self.0.surroundings.grant(&taken, &given)?;
        }
        Ok(found.addresses.to_vec())
    }

    /// Whether the policy allows the address on at least one port.
    fn judge_somewhere(&self, policy: &Policy, address: IpAddr) -> Result<(), Reason> {
        if policy.opens(address) {
            return Ok(());
        }
        if self.0.surroundings.is_own(address) {
            return Err(Reason::Closed("this machine"));
        }
        policy.led_to(address, 0)
    }

    fn not_resolved(&self, asked: &str, address: Option<IpAddr>, reason: Reason) -> LookupFailure {
        self.record(Entry {
            kind: EntryKind::Resolve(reason),
            name: Some(asked.to_owned()),
            address,
            port: None,
            process: None,
            secrets: Vec::new(),
        });
        LookupFailure::NoSuchName
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, LookupFailure> {
        let state = Arc::clone(&self.0);
        let asked = name.to_owned();
        let work = move || state.surroundings.look_up(&asked);
        self.0.lookups.find(name, work).await
    }

    /// `localhost`, names below it, and the names of the workspace's own services.
    fn is_own_name(&self, name: &str) -> bool {
        let is_local = name == "localhost" || name.ends_with(".localhost");
        is_local || self.0.own_names.iter().any(|own| own == name)
    }

    fn record(&self, entry: Entry) {
        self.0.surroundings.record(entry);
    }

    fn state(&self) -> MutexGuard<'_, PolicyAndNames> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Open>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_number(&self) -> u64 {
        self.0.sequence.fetch_add(1, Ordering::Relaxed)
    }
}

/// The protocol of a refused packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tcp {
    Yes,
    No,
}

/// The kernel grants for a name's substitute addresses.
fn grants(policy: &Policy, name: &str, addresses: [IpAddr; 2]) -> Vec<Grant> {
    let grant = |port| addresses.map(|address| Grant { address, port });
    match policy.ports_of(name) {
        Ok(Ports::All) => grant(None).to_vec(),
        Ok(Ports::These(ports)) => ports
            .into_iter()
            .flat_map(|port| grant(Some(port)))
            .collect(),
        Err(_) => Vec::new(),
    }
}
