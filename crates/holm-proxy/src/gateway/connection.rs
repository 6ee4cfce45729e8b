//! One outgoing connection, from accept to its entry in the egress record.

use super::dial::NotDialled;
use super::open::{Open, Target};
use super::relay::{self, Relayed};
use super::{Carried, Entry, EntryKind, Gateway, Process, Service, Surroundings};
use holm_core::egress::{Reason, parse_query};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::OwnedSemaphorePermit;

/// Registers a connection with the gateway until it is dropped.
struct Registered<S: Surroundings> {
    gateway: Gateway<S>,
    number: u64,
    open: Arc<Open>,
    _slot: OwnedSemaphorePermit,
}

/// A connection to the outside whose bytes come from another process than one in the workspace (a
/// browser).
pub struct Outward<S: Surroundings> {
    stream: TcpStream,
    registered: Registered<S>,
}

// === impl Registered ===

impl<S: Surroundings> Drop for Registered<S> {
    fn drop(&mut self) {
        self.gateway.open().remove(&self.number);
    }
}

// === impl Gateway ===

impl<S: Surroundings> Gateway<S> {
    pub(super) async fn take_connections(self, listener: TcpListener) {
        loop {
            let stream = accept(&listener).await;
            let gateway = self.clone();
            tokio::spawn(async move { gateway.serve_connection(stream).await });
        }
    }

    async fn serve_connection(&self, stream: TcpStream) {
        let Some((client, asked)) = ends(&stream) else {
            return reset(&stream);
        };
        let target = match self.state().names.name_of(asked.ip()) {
            Some(name) => Target::Name(name.to_owned()),
            None => Target::Address(asked.ip()),
        };
        // The kernel's nat rules put the original destination here. A program that dials the
        // listener directly shows the listener's own address and is refused.
        let is_here = stream.local_addr().is_ok_and(|local| local == asked);
        if is_here || asked.ip().is_loopback() {
            return reset(&stream);
        }
        let Some(registered) = self.register(target, asked.port(), Some(asked.ip())) else {
            let kind = EntryKind::Refuse(Reason::TooMuch);
            self.record(Entry {
                kind,
                name: None,
                address: Some(asked.ip()),
                port: Some(asked.port()),
                process: None,
                secrets: Vec::new(),
            });
            return reset(&stream);
        };
        let open = Arc::clone(&registered.open);
        // Nothing is carried before: a process that got its answer may end.
        let (dialled, process) = tokio::join!(self.dial(&open), self.process_of(client, asked));
        match dialled {
            Ok(outward) => self.carry_either(stream, outward, &open, process).await,
            Err(not) => {
                reset(&stream);
                drop(stream);
                self.record_not_dialled(&open, not, process);
            }
        }
    }

    /// Inspects the connection if secrets may be used at its destination, and carries it unchanged
    /// otherwise.
    async fn carry_either(
        &self,
        inside: TcpStream,
        outside: TcpStream,
        open: &Open,
        process: Option<Process>,
    ) {
        let inspected = match &open.target {
            Target::Name(name) => self.placeholders().inspected(name, open.port),
            Target::Address(_) => None,
        };
        let Some(at) = inspected else {
            return self.carry(inside, outside, open, process).await;
        };
        match self.0.inspections.try_acquire() {
            Ok(_inspection) => {
                let streams = (inside, outside);
                self.carry_inspected(at, streams, open, process).await;
            }
            Err(_) => {
                reset(&inside);
                drop((inside, outside));
                let kind = EntryKind::Refuse(Reason::TooMuch);
                self.record(open.entry(kind, process));
            }
        }
    }

    pub(super) fn add_carried(&self, bytes_in: u64, bytes_out: u64) {
        self.0.buffers.add(bytes_in, bytes_out);
    }

    pub(super) fn record_failed(&self, open: &Open, why: String, process: Option<Process>) {
        self.record(open.entry(EntryKind::Fail { why }, process));
    }

    /// Records an inspected connection with the secrets that were used on it.
    pub(super) fn record_inspected(
        &self,
        open: &Open,
        carried: Carried,
        secrets: Vec<String>,
        process: Option<Process>,
    ) {
        let kind = open.ended(carried);
        let entry = open.entry(kind, process);
        self.record(Entry { secrets, ..entry });
    }

    /// Copies bytes both ways and records the connection.
    pub(super) async fn carry(
        &self,
        mut inside: TcpStream,
        mut outside: TcpStream,
        open: &Open,
        process: Option<Process>,
    ) {
        let begun = Instant::now();
        // Small writes are passed on without delay.
        let _ = (inside.set_nodelay(true), outside.set_nodelay(true));
        let mut carried = Relayed::default();
        let is_cut = tokio::select! {
            () = relay::both(&mut inside, &mut outside, &self.0.buffers, &mut carried) => false,
            () = open.is_cut() => true,
        };
        if is_cut {
            reset(&inside);
            reset(&outside);
        }
        drop((inside, outside));
        let carried = carried.carried(begun.elapsed());
        self.record_carried(open, carried, process);
    }

    fn record_carried(&self, open: &Open, carried: Carried, process: Option<Process>) {
        self.record(open.entry(open.ended(carried), process));
    }

    fn record_not_dialled(&self, open: &Open, not: NotDialled, process: Option<Process>) {
        self.record(match not {
            NotDialled::Refused { reason, address } => {
                let entry = open.entry(EntryKind::Refuse(reason), process);
                Entry {
                    address: entry.address.or(address),
                    ..entry
                }
            }
            NotDialled::Failed(error) => {
                let why = error.to_string();
                open.entry(EntryKind::Fail { why }, process)
            }
        });
    }

    /// Connects outward on behalf of a process outside the workspace (a browser), under the
    /// workspace's policy. Fails with `PermissionDenied` when the policy refuses.
    pub async fn dial_out(&self, host: &str, port: u16) -> io::Result<Outward<S>> {
        let target = match host.parse::<IpAddr>() {
            Ok(address) => Target::Address(address),
            Err(_) => match parse_query(host) {
                Ok(name) => Target::Name(name),
                Err(reason) => {
                    self.not_resolved(host, None, reason);
                    return Err(Errno::ACCESS.into());
                }
            },
        };
        let Some(registered) = self.register(target.clone(), port, None) else {
            let (name, address) = match target {
                Target::Name(name) => (Some(name), None),
                Target::Address(address) => (None, Some(address)),
            };
            self.record(Entry {
                kind: EntryKind::Refuse(Reason::TooMuch),
                name,
                address,
                port: Some(port),
                process: None,
                secrets: Vec::new(),
            });
            return Err(Errno::CONNREFUSED.into());
        };
        match self.dial(&registered.open).await {
            Ok(stream) => Ok(Outward { stream, registered }),
            Err(not) => {
                let error = match &not {
                    NotDialled::Refused { .. } => Errno::ACCESS.into(),
                    NotDialled::Failed(error) => match error.raw_os_error() {
                        Some(code) => io::Error::from_raw_os_error(code),
                        None => Errno::HOSTUNREACH.into(),
                    },
                };
                self.record_not_dialled(&registered.open, not, None);
                Err(error)
            }
        }
    }

    fn register(&self, target: Target, port: u16, asked: Option<IpAddr>) -> Option<Registered<S>> {
        let slot = Arc::clone(&self.0.slots).try_acquire_owned().ok()?;
        let open = Arc::new(Open::new(target, port, asked));
        let number = self.next_number();
        self.open().insert(number, Arc::clone(&open));
        Some(Registered {
            gateway: self.clone(),
            number,
            open,
            _slot: slot,
        })
    }

    async fn process_of(&self, client: SocketAddr, asked: SocketAddr) -> Option<Process> {
        let gateway = self.clone();
        let search = move || gateway.surroundings().process_of(client, asked);
        tokio::task::spawn_blocking(search).await.ok().flatten()
    }

    /// Carries connections to a host service that `holm.toml` declares and the user approved.
    pub(super) async fn take_for_service(self, service: Arc<Service>, listener: TcpListener) {
        loop {
            let stream = accept(&listener).await;
            let (gateway, service) = (self.clone(), Arc::clone(&service));
            tokio::spawn(async move { gateway.serve_service(&service, stream).await });
        }
    }

    async fn serve_service(&self, service: &Service, stream: TcpStream) {
        let open = Open::new(Target::Name(service.name.clone()), service.port, None);
        let Ok(_slot) = Arc::clone(&self.0.slots).try_acquire_owned() else {
            self.record(open.entry(EntryKind::Refuse(Reason::TooMuch), None));
            return reset(&stream);
        };
        let (Ok(client), Ok(asked)) = (stream.peer_addr(), stream.local_addr()) else {
            return;
        };
        let connecting = TcpStream::connect((service.host.as_str(), service.port));
        let (connected, process) = tokio::join!(connecting, self.process_of(client, asked));
        match connected.and_then(|outside| Ok((outside.peer_addr()?, outside))) {
            Ok((address, outside)) => {
                open.leads_to(address.ip());
                self.carry(stream, outside, &open, process).await;
            }
            Err(error) => {
                let why = error.to_string();
                self.record(open.entry(EntryKind::Fail { why }, None));
                reset(&stream);
            }
        }
    }
}

// === impl Outward ===

impl<S: Surroundings> Outward<S> {
    /// Copies bytes both ways and records the connection.
    pub async fn carry(self, mut inside: UnixStream) {
        let Self {
            mut stream,
            registered,
        } = self;
        let begun = Instant::now();
        let (gateway, open) = (&registered.gateway, &registered.open);
        let mut carried = Relayed::default();
        let is_cut = tokio::select! {
            () = relay::both(&mut inside, &mut stream, &gateway.0.buffers, &mut carried) => false,
            () = open.is_cut() => true,
        };
        if is_cut {
            reset(&stream);
        }
        gateway.record_carried(open, carried.carried(begun.elapsed()), None);
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Out of descriptors: wait until other connections close theirs.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// The client's address, and the destination before the kernel's nat rules changed it.
fn ends(stream: &TcpStream) -> Option<(SocketAddr, SocketAddr)> {
    let client = stream.peer_addr().ok()?;
    let asked = match client {
        SocketAddr::V4(_) => SocketAddr::V4(sockopt::ip_original_dst(stream).ok()?),
        SocketAddr::V6(_) => SocketAddr::V6(sockopt::ipv6_original_dst(stream).ok()?),
    };
    Some((client, asked))
}

/// Makes the client see a reset instead of an orderly end.
fn reset(stream: impl AsFd) {
    // Fails only when the connection is gone already.
    let _ = sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO));
}
