//! What is written down of a connection, a refusal or a name that was not given.

use holm_core::egress::{Reason, line_that_allows};
use std::net::IpAddr;
use std::time::Duration;

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    /// What was asked for, where it was a name.
    pub name: Option<String>,
    /// What was dialled or refused.
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
    pub process: Option<Process>,
    /// Names of secrets whose values were put into requests.
    pub secrets: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// It was made and has ended.
    Connect(Carried),
    /// It may be made, and could not be.
    Fail {
        why: String,
    },
    Refuse(Reason),
    /// A name was asked for that may not be.
    Resolve(Reason),
    /// It was open when the policy changed.
    Cut(Carried, Reason),
}

/// What a connection carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// To the workspace.
    pub bytes_in: u64,
    /// From the workspace.
    pub bytes_out: u64,
    pub duration: Duration,
}

/// Who asked, as the workspace knows it.
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

    /// What `holm.toml` would have to say.
    pub fn line_that_allows(&self) -> Option<String> {
        let reason = self.reason()?;
        let address = self.address.map(|address| address.to_string());
        // A name does not open what is closed; the address does.
        let target = match reason {
            Reason::Closed(_) => address.or_else(|| self.name.clone()),
            _ => self.name.clone().or(address),
        };
        line_that_allows(reason, &target?, self.port)
    }
}
