//! A connection that is being made or carried: its destination, and a handle to cut it.

use super::{Carried, Entry, EntryKind, Process};
use holm_core::egress::Reason;
use std::net::IpAddr;
use std::sync::OnceLock;
use tokio::sync::Notify;

/// The destination that the program asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Name(String),
    Address(IpAddr),
}

/// A connection that is being made or carried, with a handle to cut it.
pub struct Open {
    pub target: Target,
    pub port: u16,
    /// The address that the program dialled; its address family is tried first.
    pub asked: Option<IpAddr>,
    address: OnceLock<IpAddr>,
    reason: OnceLock<Reason>,
    cut: Notify,
}

// === impl Open ===

impl Open {
    pub fn new(target: Target, port: u16, asked: Option<IpAddr>) -> Self {
        Self {
            target,
            port,
            asked,
            address: OnceLock::new(),
            reason: OnceLock::new(),
            cut: Notify::new(),
        }
    }

    pub fn address(&self) -> Option<IpAddr> {
        self.address.get().copied()
    }

    pub fn leads_to(&self, address: IpAddr) {
        // Set only here, so it cannot be set already.
        let _ = self.address.set(address);
    }

    pub fn cut(&self, reason: Reason) {
        let _ = self.reason.set(reason);
        self.cut.notify_one();
    }

    /// The entry for a connection that ended.
    pub fn ended(&self, carried: Carried) -> EntryKind {
        match self.reason.get() {
            Some(reason) => EntryKind::Cut(carried, reason.clone()),
            None => EntryKind::Connect(carried),
        }
    }

    pub async fn is_cut(&self) {
        self.cut.notified().await;
    }

    pub fn entry(&self, kind: EntryKind, process: Option<Process>) -> Entry {
        let (name, address) = match &self.target {
            Target::Name(name) => (Some(name.clone()), self.address()),
            Target::Address(address) => (None, Some(*address)),
        };
        Entry {
            kind,
            name,
            address,
            port: Some(self.port),
            process,
            secrets: Vec::new(),
        }
    }
}
