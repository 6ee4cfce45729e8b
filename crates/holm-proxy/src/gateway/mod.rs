//! The one way out of a workspace: judges, resolves, dials and carries every connection.
//!
//! Runs in the keeper. The kernel's rules are the first wall and this is the second; each judges by
//! itself. Whatever is dialled was checked as an address, in the moment before it is dialled. What
//! it needs of the machine it asks of [`Surroundings`].

mod connection;
mod dial;
mod entry;
mod lookup;
mod names;
mod placeholders;
mod relay;
mod resolver;

pub use entry::{Carried, Entry, EntryKind, Process};
pub use lookup::LookupFailure;
pub use placeholders::{InvalidLeaf, Placeholder, Placeholders, certificates};

use connection::Open;
use holm_core::egress::{Policy, Ports, Reason, parse_query};
use lookup::Lookups;
use names::Names;
use relay::Buffers;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;

/// What the gateway asks of the machine. Calls may block for as long as they say.
pub trait Surroundings: Send + Sync + 'static {
    /// The addresses of a name, as the host's own resolver knows them. Blocks as long as that does.
    fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, LookupFailure>;

    /// Lets the kernel pass some addresses and no longer pass others. Short.
    fn grant(&self, taken: &[Grant], given: &[Grant]) -> io::Result<()>;

    /// Puts another policy into the kernel, with everything that is granted under it. Short.
    fn replace(&self, policy: &Policy, granted: &[Grant]) -> io::Result<()>;

    /// Whether an address is the machine's own, now. Short.
    fn is_own(&self, address: IpAddr) -> bool;

    /// Who inside has a connection, if it is easily found. Blocks for milliseconds.
    fn process_of(&self, client: SocketAddr, asked: SocketAddr) -> Option<Process>;

    fn record(&self, entry: Entry);

    /// Writes down that secrets are about to be used at a host. Blocks until it is written.
    fn used(&self, secrets: &BTreeSet<String>, host: &str) -> io::Result<()>;

    /// Whose certificates this machine believes (DER). Blocks while files are read.
    fn trusted(&self) -> Vec<Vec<u8>>;
}

/// Connections that are looked into at a time: each has a parser and the buffers of TLS on both sides.
const MOST_INSPECTED: usize = 256;

/// An address that stands for an allowed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub address: IpAddr,
    /// `None`: all.
    pub port: Option<u16>,
}

/// A service of the host that appears inside.
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

/// A handle; clones share everything.
pub struct Gateway<S>(Arc<State<S>>);

struct State<S> {
    surroundings: S,
    /// Names that mean the workspace itself.
    own_names: Vec<String>,
    standing: Mutex<Standing>,
    lookups: Lookups,
    open: Mutex<HashMap<u64, Arc<Open>>>,
    sequence: AtomicU64,
    slots: Arc<Semaphore>,
    buffers: Buffers,
    placeholders: Mutex<Arc<Placeholders>>,
    inspections: Semaphore,
}

/// What is changed together: never is something granted under an earlier policy.
struct Standing {
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
    /// `most` connections are carried at a time.
    pub fn new(surroundings: S, policy: Policy, own_names: Vec<String>, most: usize) -> Self {
        let names = Names::default();
        Self(Arc::new(State {
            surroundings,
            own_names: own_names
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect(),
            standing: Mutex::new(Standing { policy, names }),
            lookups: Lookups::default(),
            open: Mutex::default(),
            sequence: AtomicU64::new(0),
            slots: Arc::new(Semaphore::new(most)),
            buffers: Buffers::default(),
            placeholders: Mutex::default(),
            inspections: Semaphore::new(MOST_INSPECTED),
        }))
    }

    /// How many bytes came in and went out so far.
    pub fn carried(&self) -> (u64, u64) {
        self.0.buffers.carried()
    }

    /// From now on these secrets may be used; connections that are open go by them too.
    pub fn set_placeholders(&self, placeholders: Placeholders) {
        let standing = self.0.placeholders.lock();
        *standing.unwrap_or_else(PoisonError::into_inner) = Arc::new(placeholders);
    }

    fn placeholders(&self) -> Arc<Placeholders> {
        let placeholders = self.0.placeholders.lock();
        Arc::clone(&placeholders.unwrap_or_else(PoisonError::into_inner))
    }

    pub fn surroundings(&self) -> &S {
        &self.0.surroundings
    }

    /// Serves the sockets, on the runtime that this is called in.
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

    /// From now on this is in force. What is open and no longer allowed is cut.
    pub fn set_policy(&self, policy: Policy) -> io::Result<()> {
        let mut standing = self.standing();
        standing.policy = policy;
        let all = standing.names.all();
        let granted: Vec<Grant> = all
            .flat_map(|(name, addresses)| grants(&standing.policy, name, addresses))
            .collect();
        // The gateway is narrow already; a kernel that does not follow opens nothing.
        let replaced = self.0.surroundings.replace(&standing.policy, &granted);
        drop(standing);
        let open: Vec<Arc<Open>> = self.open().values().cloned().collect();
        for open in open {
            if let Err(reason) = self.judge_open(&open) {
                open.cut(reason);
            }
        }
        replaced
    }

    /// Something that the kernel refused.
    pub fn refused(&self, address: IpAddr, port: Option<u16>, is_tcp: Tcp) {
        let standing = self.standing();
        let name = standing.names.name_of(address).map(str::to_owned);
        let judged = match (is_tcp, &name, port) {
            (Tcp::No, _, _) | (_, _, None) => Err(Reason::NotTcp),
            (Tcp::Yes, Some(name), Some(port)) => standing.policy.name(name, port),
            (Tcp::Yes, None, Some(port)) => standing.policy.address(address, port),
        };
        drop(standing);
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

    /// Whether anything about a name may be told.
    pub(crate) fn may_ask(&self, asked: &str) -> Result<(), LookupFailure> {
        let judged = parse_query(asked).and_then(|name| {
            if self.is_own_name(&name) {
                return Ok(());
            }
            self.standing().policy.ports_of(&name).map(drop)
        });
        judged.map_err(|reason| self.not_resolved(asked, None, reason))
    }

    /// The addresses that stand for a name, if it may be asked for and leads somewhere.
    pub(crate) async fn resolve(&self, asked: &str) -> Result<Vec<IpAddr>, LookupFailure> {
        self.may_ask(asked)?;
        let Ok(name) = parse_query(asked) else {
            return Err(LookupFailure::NoSuchName);
        };
        if self.is_own_name(&name) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let found = self.look_up(&name).await?;
        let mut standing = self.standing();
        let mut refused = None;
        let mut kinds = (false, false);
        for address in found {
            match self.judge_somewhere(&standing.policy, address) {
                Ok(()) if address.is_ipv4() => kinds.0 = true,
                Ok(()) => kinds.1 = true,
                Err(reason) => refused = Some((address, reason)),
            }
        }
        if kinds == (false, false) {
            drop(standing);
            return Err(match refused {
                Some((address, reason)) => self.not_resolved(asked, Some(address), reason),
                None => LookupFailure::NoSuchName,
            });
        }
        let granted = self.grant(&mut standing, &name);
        drop(standing);
        let mut addresses = granted.map_err(|_| LookupFailure::Failed)?;
        addresses.retain(|address| match address {
            IpAddr::V4(_) => kinds.0,
            IpAddr::V6(_) => kinds.1,
        });
        Ok(addresses)
    }

    pub(crate) fn too_many_questions(&self, asked: &str) {
        self.not_resolved(asked, None, Reason::TooMuch);
    }

    /// Lets the kernel pass what stands for a name, before anybody learns of it.
    fn grant(&self, standing: &mut Standing, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = standing.names.stand_for(name);
        if found.is_new {
            let taken = found
                .forgotten
                .iter()
                .flat_map(|(name, addresses)| grants(&standing.policy, name, *addresses));
            let taken: Vec<Grant> = taken.collect();
            let given = grants(&standing.policy, name, found.addresses);
            self.0.surroundings.grant(&taken, &given)?;
        }
        Ok(found.addresses.to_vec())
    }

    /// Whether an address may be dialled at any port.
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

    /// `localhost`, everything below it, and the workspace's own services.
    fn is_own_name(&self, name: &str) -> bool {
        let is_local = name == "localhost" || name.ends_with(".localhost");
        is_local || self.0.own_names.iter().any(|own| own == name)
    }

    fn record(&self, entry: Entry) {
        self.0.surroundings.record(entry);
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        let standing = self.0.standing.lock();
        standing.unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Open>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_number(&self) -> u64 {
        self.0.sequence.fetch_add(1, Ordering::Relaxed)
    }
}

/// Whether what was refused was TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tcp {
    Yes,
    No,
}

/// What the kernel lets pass of the addresses that stand for a name.
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
