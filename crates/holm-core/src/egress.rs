//! The egress policy: the one decision that resolver, gateway, kernel rules and record share.
//!
//! Names and addresses are checked separately. An allowed name may be resolved; each of its
//! addresses is checked again, because the owner of the name decides where it leads. Only an
//! address entry of `allow` opens a closed range.

pub use crate::range::{CLOSED, Range, canonical, closed};

use crate::config::network::parse_host_name;
use crate::config::{Destination, EgressMode, HostPattern, InvalidDestination};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    mode: EgressMode,
    allow: Vec<Destination>,
    /// The machine's own addresses. They are closed, whatever range they are in.
    machine: BTreeSet<IpAddr>,
}

/// What went through a workspace's gateway since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// How many refusals the record got; a keeper of an earlier release does not say.
    #[serde(default)]
    pub refusals: Option<u64>,
}

/// Why a destination is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `egress.mode` is `none`.
    Nothing,
    /// It is not on the list.
    NotListed,
    /// It is on the list, with other ports.
    OtherPort,
    /// The address is in a closed range.
    Closed(&'static str),
    /// Not a valid host name.
    NotAName,
    /// Only TCP leaves.
    NotTcp,
    /// A substitute address whose name was evicted.
    Forgotten,
    /// The connection limit is reached.
    TooMuch,
}

/// The ports at which a name or an address may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    All,
    These(BTreeSet<u16>),
}

/// Why a stored policy is not valid. Nothing is allowed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    #[error("`{}` in egress.allow", .entry.escape_debug())]
    Entry {
        entry: String,
        #[source]
        cause: InvalidDestination,
    },
}

// === impl Policy ===

impl Policy {
    pub fn new(mode: EgressMode, allow: Vec<Destination>) -> Self {
        let machine = BTreeSet::new();
        Self {
            mode,
            allow,
            machine,
        }
    }

    /// Parses the stored form. An invalid entry is an error, never skipped.
    pub fn parse(mode: EgressMode, allow: &[String]) -> Result<Self, InvalidPolicy> {
        let entries = allow.iter().map(|entry| {
            Destination::parse(entry).map_err(|cause| InvalidPolicy::Entry {
                entry: entry.clone(),
                cause,
            })
        });
        Ok(Self::new(mode, entries.collect::<Result<_, _>>()?))
    }

    /// A policy that allows nothing.
    pub fn nothing() -> Self {
        Self::new(EgressMode::None, Vec::new())
    }

    /// Adds the machine's own addresses, which are closed.
    pub fn with_machine(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.machine = addresses.into_iter().map(canonical).collect();
        self
    }

    pub fn mode(&self) -> EgressMode {
        self.mode
    }

    pub fn machine(&self) -> &BTreeSet<IpAddr> {
        &self.machine
    }

    /// The address entries of `allow`, as ranges.
    pub fn opened(&self) -> impl Iterator<Item = (Range, Option<u16>)> {
        let entries = match self.mode {
            EgressMode::None => [].iter(),
            _ => self.allow.iter(),
        };
        entries.filter_map(|entry| {
            let port = entry.port.map(std::num::NonZeroU16::get);
            Some((range_of(entry)?, port))
        })
    }

    /// The ports at which a name may be reached; a name without any is not resolved. The name must
    /// be in lower case without a trailing dot ([`parse_query`]).
    pub fn ports_of(&self, name: &str) -> Result<Ports, Reason> {
        match self.mode {
            EgressMode::None => return Err(Reason::Nothing),
            EgressMode::Open => return Ok(Ports::All),
            EgressMode::Allow => {}
        }
        let mut ports = BTreeSet::new();
        for entry in &self.allow {
            if !matches_name(&entry.host, name) {
                continue;
            }
            match entry.port {
                Some(port) => ports.insert(port.get()),
                None => return Ok(Ports::All),
            };
        }
        if ports.is_empty() {
            Err(Reason::NotListed)
        } else {
            Ok(Ports::These(ports))
        }
    }

    /// Whether a connection to this name and port is allowed, before its addresses are checked.
    pub fn name(&self, name: &str, port: u16) -> Result<(), Reason> {
        match self.ports_of(name)? {
            Ports::These(ports) if !ports.contains(&port) => Err(Reason::OtherPort),
            _ => Ok(()),
        }
    }

    /// Whether an address that an allowed name resolved to may be dialled.
    pub fn led_to(&self, address: IpAddr, port: u16) -> Result<(), Reason> {
        if self.mode == EgressMode::None {
            return Err(Reason::Nothing);
        }
        match self.closed(address) {
            Some(what) if !self.opens_at(address, port) => Err(Reason::Closed(what)),
            _ => Ok(()),
        }
    }

    /// Whether an address that the program named itself may be dialled.
    pub fn address(&self, address: IpAddr, port: u16) -> Result<(), Reason> {
        match self.mode {
            EgressMode::None => Err(Reason::Nothing),
            _ if self.opens_at(address, port) => Ok(()),
            EgressMode::Open => self.led_to(address, port),
            EgressMode::Allow => Err(match self.closed(address) {
                Some(what) => Reason::Closed(what),
                None => Reason::NotListed,
            }),
        }
    }

    /// The name of the closed range that contains the address.
    fn closed(&self, address: IpAddr) -> Option<&'static str> {
        let address = canonical(address);
        if self.machine.contains(&address) {
            return Some("this machine");
        }
        closed(address)
    }

    /// Whether an entry opens this address, at some port.
    pub fn opens(&self, address: IpAddr) -> bool {
        let address = canonical(address);
        self.opened().any(|(range, _)| range.contains(address))
    }

    /// Whether an entry opens this address at this port.
    pub fn opens_at(&self, address: IpAddr, port: u16) -> bool {
        let address = canonical(address);
        self.opened()
            .any(|(range, only)| range.contains(address) && only.is_none_or(|only| only == port))
    }
}

/// Normalises the name of a query or a request: lower case, without a trailing dot. Spellings of
/// addresses (`127.1`, `0x7f.1`) are not names.
pub fn parse_query(text: &str) -> Result<String, Reason> {
    let text = text.strip_suffix('.').unwrap_or(text);
    parse_host_name(text).map_err(|_| Reason::NotAName)
}

fn matches_name(pattern: &HostPattern, name: &str) -> bool {
    match pattern {
        HostPattern::Name(exact) => exact == name,
        HostPattern::Below(parent) => name
            .strip_suffix(parent.as_str())
            .and_then(|rest| rest.strip_suffix('.'))
            .is_some_and(|rest| !rest.is_empty()),
        HostPattern::Address(_) | HostPattern::Network { .. } => false,
    }
}

fn range_of(entry: &Destination) -> Option<Range> {
    match entry.host {
        HostPattern::Address(address) => Some(Range::exactly(address)),
        HostPattern::Network { address, bits } => Some(Range::new(address, bits)),
        HostPattern::Name(_) | HostPattern::Below(_) => None,
    }
}

/// The line of `holm.toml` that would allow it.
pub fn line_that_allows(reason: &Reason, target: &str, port: Option<u16>) -> Option<String> {
    let entry = match (port, target.contains(':')) {
        (Some(port), true) => format!("[{target}]:{port}"),
        (Some(port), false) => format!("{target}:{port}"),
        (None, true) => format!("[{target}]"),
        (None, false) => target.to_owned(),
    };
    match reason {
        Reason::Nothing => Some(format!("[egress] mode = \"allow\", allow = [\"{entry}\"]")),
        Reason::NotListed | Reason::OtherPort | Reason::Closed(_) => {
            Some(format!("[egress] allow = [\"{entry}\"]"))
        }
        Reason::NotAName | Reason::NotTcp | Reason::Forgotten | Reason::TooMuch => None,
    }
}

// === impl Reason ===

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Nothing => f.write_str("egress.mode is none"),
            Reason::NotListed => f.write_str("not in egress.allow"),
            Reason::OtherPort => f.write_str("egress.allow has it with other ports"),
            Reason::Closed(what) => write!(f, "closed: {what}"),
            Reason::NotAName => f.write_str("not a host name"),
            Reason::NotTcp => f.write_str("only TCP leaves"),
            Reason::Forgotten => {
                f.write_str("it stands for no name any more; look the name up again")
            }
            Reason::TooMuch => f.write_str("too much at once"),
        }
    }
}
