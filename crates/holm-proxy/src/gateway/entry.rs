//! Entries of the egress record: connections, refusals, and names that were not resolved.

use holm_core::egress::{Reason, line_that_allows};
use std::net::IpAddr;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    /// The destination, if it was a name.
    pub name: Option<String>,
    /// The address that was dialled or refused.
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
    pub process: Option<Process>,
    /// Names of the secrets whose values the gateway put into requests.
    pub secrets: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The connection was made and has ended.
    Connect(Carried),
    /// The policy allowed the connection, but dialling failed.
    Fail {
        why: String,
    },
    Refuse(Reason),
    /// The program asked for a name that the policy forbids.
    Resolve(Reason),
    /// The connection was open when a new policy forbade it.
    Cut(Carried, Reason),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes to the workspace.
    pub bytes_in: u64,
    /// Bytes from the workspace.
    pub bytes_out: u64,
    pub duration: Duration,
}

/// The process that opened the connection, with its pid inside the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub pid: i32,
    pub name: String,
}

// === impl Entry ===

impl Entry {
    pub fn reason(&self) -> Option<&Reason> {
        match &self.kind {
            EntryKind::Refuse(reason) | EntryKind::Resolve(reason) | EntryKind::Cut(_, reason) => {
                Some(reason)
            }
            EntryKind::Connect(_) | EntryKind::Fail { .. } => None,
        }
    }

    /// The line for `holm.toml` that would allow this.
    pub fn line_that_allows(&self) -> Option<String> {
        let reason = self.reason()?;
        let address = self.address.map(|address| address.to_string());
        // Private and special ranges stay closed to names; only their address opens them.
        let target = match reason {
            Reason::Closed(_) => address.or_else(|| self.name.clone()),
            _ => self.name.clone().or(address),
        };
        line_that_allows(reason, &target?, self.port)
    }
}
