//! The gateway in the keeper: only a few descriptors until the first connection, DNS question or
//! refusal, then a thread with its own runtime.

use super::record::Record;
use super::renewal;
use super::uses::Uses;
use crate::plan::Plan;
use crate::platform::Platform;
use crate::roots;
use crate::wire::{Defence, Doorway};
use holm_core::config::{Address, EgressMode};
use holm_core::egress::Carried;
use holm_core::egress::Policy;
use holm_core::service_network::{self, Meaning};
use holm_core::spec::Egress;
use holm_proxy::gateway::{
    Destination, Entry, Gateway, Grant, LookupFailure, NewTokens, Placeholder, Placeholders,
    Process, Proxy, Renewing, Service, Sockets, Surroundings, certificates,
};
use holm_proxy::outgoing::is_own;
use holm_secrets::Value;
use holm_secrets::authority::Leaf;
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

/// Concurrent name lookups; each takes a thread while it waits.
const MOST_THREADS: usize = 24;
/// Concurrent connections; each takes two descriptors.
const MOST_CONNECTIONS: usize = 4096;
const RESERVED: u64 = 512;

const STACK: usize = 512 * 1024;

pub struct Outside {
    gateway: Gateway<Ground>,
    plan: Arc<Plan>,
    state: Mutex<State>,
}

/// The secrets that the gateway puts into requests, and its certificates for their hosts.
pub struct Usable {
    pub secrets: Vec<Placeholder>,
    pub leaves: Vec<Leaf>,
}

enum State {
    Idle(Vec<(Doorway, OwnedFd)>),
    Running(Handle),
    /// It could not be started; nothing leaves.
    Broken,
}

/// The gateway's access to the machine.
pub struct Ground {
    platform: Arc<dyn Platform>,
    record: Arc<Record>,
    uses: Arc<Uses>,
    plan: Arc<Plan>,
    /// What is reached without the proxy.
    direct: Policy,
}

// === impl Outside ===

impl Outside {
    pub fn new(
        plan: &Plan,
        platform: &Arc<dyn Platform>,
        doorways: Vec<(Doorway, OwnedFd)>,
    ) -> Self {
        let plan = Arc::new(plan.clone());
        let elsewhere = service_network::names(&plan.services);
        let is_own = |name: &String| !elsewhere.iter().any(|(_, other)| other == name);
        let mut names = plan.network.names.clone();
        names.retain(is_own);
        names.extend(plan.network.shared.iter().map(|shared| shared.name.clone()));
        names.push(plan.label.clone());
        let ground = Ground {
            platform: Arc::clone(platform),
            record: Arc::new(Record::new(plan.directories().egress())),
            uses: Arc::new(Uses::new(&plan.audit, plan.id.clone())),
            plan: Arc::clone(&plan),
            direct: direct(&plan),
        };
        let policy = policy(&plan, &plan.network.egress, Defence::Gateway);
        Self {
            gateway: Gateway::new(ground, policy, names, most_connections()),
            plan,
            state: Mutex::new(State::Idle(doorways)),
        }
    }

    /// The descriptors that trigger [`Self::wake`]; duplicates, so that the loop holds no lock.
    pub fn sources(&self) -> Vec<OwnedFd> {
        match &*self.state() {
            State::Idle(sockets) => {
                let copies = sockets
                    .iter()
                    .filter_map(|(_, socket)| socket.try_clone().ok());
                copies.collect()
            }
            State::Running(_) | State::Broken => Vec::new(),
        }
    }

    /// A program wants to leave: start the gateway.
    pub fn wake(&self) {
        if let Err(error) = self.running() {
            complain!("nothing can leave: {error}");
        }
    }

    /// Puts another policy in force and cuts connections that it forbids.
    pub fn set_egress(&self, egress: &Egress) -> io::Result<()> {
        self.gateway
            .set_policy(policy(&self.plan, egress, Defence::Gateway))
    }

    /// Replaces the usable secrets.
    pub fn set_placeholders(&self, usable: Usable) {
        let Usable { secrets, leaves } = usable;
        let placeholders = Placeholders::new(secrets, &leaves).unwrap_or_else(|error| {
            complain!("no secret is put into requests: {error}");
            Placeholders::default()
        });
        self.gateway.set_placeholders(placeholders);
    }

    /// Connects outward for a client outside, which then talks on `stream`. An `Err` is reported to
    /// it.
    pub fn dial_out(
        &self,
        host: &str,
        port: u16,
        ready: impl FnOnce() -> io::Result<UnixStream>,
    ) -> io::Result<()> {
        let runtime = self.running()?;
        let outward = runtime.block_on(self.gateway.dial_out(host, port))?;
        let stream = ready()?;
        stream.set_nonblocking(true)?;
        let _entered = runtime.enter();
        let stream = tokio::net::UnixStream::from_std(stream)?;
        runtime.spawn(outward.carry(stream));
        Ok(())
    }

    /// Total bytes in and out, and refusals in the record.
    pub fn carried(&self) -> Carried {
        let (bytes_in, bytes_out) = self.gateway.carried();
        Carried {
            bytes_in,
            bytes_out,
            refusals: Some(self.gateway.surroundings().record.refusals()),
        }
    }

    /// Writes entries that are still being counted.
    pub fn finish(&self) {
        self.gateway.surroundings().record.settle(Duration::ZERO);
        self.gateway.surroundings().uses.settle(Duration::ZERO);
    }

    fn running(&self) -> io::Result<Handle> {
        let mut state = self.state();
        let sockets = match std::mem::replace(&mut *state, State::Broken) {
            State::Running(handle) => {
                *state = State::Running(handle.clone());
                return Ok(handle);
            }
            State::Broken => return Err(io::Error::other("the gateway could not be started")),
            State::Idle(sockets) => sockets,
        };
        let handle = self.start(sockets)?;
        *state = State::Running(handle.clone());
        Ok(handle)
    }

    fn start(&self, sockets: Vec<(Doorway, OwnedFd)>) -> io::Result<Handle> {
        let (sender, receiver) = mpsc::channel();
        let gateway = self.gateway.clone();
        let services = services(&self.plan)?;
        let thread = std::thread::Builder::new().name("gateway".to_owned());
        thread.stack_size(STACK).spawn(move || {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(MOST_THREADS)
                .thread_stack_size(STACK)
                .build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(sender.send(Err(error))),
            };
            let begun = {
                let _entered = runtime.enter();
                begin(&gateway, sockets, &services)
            };
            // The receiver waits in `start`.
            let _ = sender.send(begun.map(|()| runtime.handle().clone()));
            let Ground { record, uses, .. } = gateway.surroundings();
            runtime.block_on(async { tokio::join!(record.keep_counting(), uses.keep_counting()) });
        })?;
        receiver.recv().map_err(io::Error::other)?
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What may be reached, as it is in force. One that is not understood allows nothing.
pub fn policy(plan: &Plan, egress: &Egress, wall: Defence) -> Policy {
    if !plan.has(wall) {
        let everything = ["0.0.0.0/0", "::/0"].map(str::to_owned);
        return Policy::parse(EgressMode::Open, &everything).unwrap_or(Policy::nothing());
    }
    match Policy::parse(egress.mode, &egress.allow) {
        Ok(policy) => policy.with_machine(plan.machine.iter().copied()),
        Err(error) => {
            complain!("nothing is allowed to leave: {error}");
            Policy::nothing()
        }
    }
}

/// One that is not understood leads everything through the proxy.
fn direct(plan: &Plan) -> Policy {
    let listed = &plan.surrounding.no_proxy;
    Policy::parse(EgressMode::Allow, listed).unwrap_or_else(|error| {
        complain!("everything goes through the proxy: {error}");
        Policy::nothing()
    })
}

/// Two descriptors each, with some left for the keeper itself.
fn most_connections() -> usize {
    let spare = descriptors().saturating_sub(RESERVED) / 2;
    usize::try_from(spare)
        .unwrap_or(MOST_CONNECTIONS)
        .clamp(1, MOST_CONNECTIONS)
}

/// This process's limit of open files.
fn descriptors() -> u64 {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    most.min(RESERVED + 2 * MOST_CONNECTIONS as u64)
}

/// Serves the sockets on the current runtime.
fn begin(
    gateway: &Gateway<Ground>,
    doorways: Vec<(Doorway, OwnedFd)>,
    services: &[Service],
) -> io::Result<()> {
    let mut sockets = Sockets::default();
    for (doorway, socket) in doorways {
        if doorway != Doorway::Refusals {
            rustix::io::ioctl_fionbio(&socket, true)?;
        }
        match doorway {
            Doorway::Gateway => sockets.gateways.push(listener(socket)?),
            Doorway::LongQuestions => sockets.long_questions.push(listener(socket)?),
            Doorway::Questions => {
                let socket = tokio::net::UdpSocket::from_std(socket.into())?;
                sockets.questions.push(socket);
            }
            Doorway::Refusals => {
                let gateway = gateway.clone();
                let thread = std::thread::Builder::new().stack_size(STACK);
                thread.spawn(move || receive_refusals(&gateway, &socket))?;
            }
            Doorway::Shared(index) => {
                if let Some(service) = services.get(index as usize) {
                    sockets.services.push((service.clone(), listener(socket)?));
                }
            }
            // The platform has these.
            Doorway::Rules | Doorway::Diagnosis | Doorway::Namespace(_) | Doorway::Listeners(_) => {
            }
        }
    }
    gateway.serve(sockets);
    Ok(())
}

fn listener(socket: OwnedFd) -> io::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(socket.into())
}

/// In the order of the plan. The addresses were validated when they were stored.
fn services(plan: &Plan) -> io::Result<Vec<Service>> {
    let services = plan.network.shared.iter().map(|shared| {
        let address = Address::parse(&shared.address).map_err(io::Error::other)?;
        Ok(Service {
            name: shared.name.clone(),
            host: address.host,
            port: address.port.get(),
        })
    });
    services.collect()
}

/// Receives the kernel's refusals for as long as the keeper lives.
fn receive_refusals(gateway: &Gateway<Ground>, socket: &OwnedFd) {
    let platform = &gateway.surroundings().platform;
    loop {
        match platform.refusals(socket) {
            Ok(refused) => refused
                .iter()
                .for_each(|refused| gateway.refused(refused.address, refused.port, refused.tcp)),
            Err(error) => {
                complain!("refusals are not heard any more: {error}");
                return;
            }
        }
    }
}

// === impl Ground ===

impl Surroundings for Ground {
    fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, LookupFailure> {
        self.platform.look_up(name)
    }

    fn grant(&self, taken: &[Grant], given: &[Grant]) -> io::Result<()> {
        if !self.plan.has(Defence::EgressRules) || (taken.is_empty() && given.is_empty()) {
            return Ok(());
        }
        self.platform.change_grants(taken, given)
    }

    fn replace(&self, policy: &Policy, granted: &[Grant]) -> io::Result<()> {
        if !self.plan.has(Defence::EgressRules) {
            return Ok(());
        }
        self.platform.replace_rules(policy, granted)
    }

    fn meaning(&self, asking: IpAddr, name: &str) -> Meaning {
        service_network::meaning(&self.plan.services, asking, name)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.plan.has(Defence::Gateway) && is_own(address)
    }

    fn process_of(&self, client: SocketAddr, asked: SocketAddr) -> Option<Process> {
        self.platform.process_of(client, asked)
    }

    fn record(&self, entry: Entry) {
        self.record.write(&entry);
    }

    fn used(&self, secrets: &BTreeSet<String>, host: &str) -> io::Result<()> {
        self.uses.note(secrets, host)
    }

    fn begin_renewal(&self, agent: &str, have: &Value) -> io::Result<Renewing> {
        renewal::begin(&self.plan, agent, have)
    }

    fn end_renewal(&self, renewing: Renewing, tokens: &NewTokens) -> io::Result<NewTokens> {
        renewal::end(renewing, tokens)
    }

    fn trusted(&self) -> Vec<Vec<u8>> {
        let mut trusted = roots::certificates();
        trusted.extend(certificates(self.plan.surrounding.ca.as_bytes()));
        trusted
    }

    fn proxy(&self, destination: &Destination<'_>) -> Option<&Proxy> {
        let proxy = self.plan.surrounding.proxy.as_ref()?;
        let direct = match destination {
            Destination::Name(name, port) => self.direct.name(name, *port),
            Destination::Address(address) => self.direct.address(address.ip(), address.port()),
        };
        direct.is_err().then_some(proxy)
    }
}
