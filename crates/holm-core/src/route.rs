//! Chooses host ports and preview site names for workspaces.

use crate::id::{ProjectId, WorkspaceId};
use crate::label::{Label, ProjectName};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// The range of host ports: above the ports that programs are usually configured with, below the
/// ephemeral range.
pub const HOST_PORTS: RangeInclusive<u16> = 20_000..=29_999;

/// The addresses of a workspace's port, as `holm here` shows them inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortAddress {
    pub name: String,
    pub port: u16,
    pub host_port: Option<u16>,
    pub url: Option<String>,
    /// Whether `localhost:<port>` of the host leads here.
    pub canonical: bool,
    /// declared discovered
    pub source: String,
}

/// The host ports to try for a port of a workspace, best first. The order is deterministic and
/// spread, so a lost claim most likely gets the same port again. Ports in `ephemeral` come last,
/// because any outgoing connection may hold one.
pub fn candidates(
    id: &WorkspaceId,
    port: u16,
    ephemeral: &RangeInclusive<u16>,
) -> impl Iterator<Item = u16> {
    let first = *HOST_PORTS.start();
    let count = HOST_PORTS.end() - first + 1;
    let start = (hash(id.as_str(), port) % u64::from(count)) as u16;
    let all = move || (0..count).map(move |step| first + (start + step) % count);
    let ephemeral = ephemeral.clone();
    let avoided = ephemeral.clone();
    let good = all().filter(move |port| !avoided.contains(port));
    good.chain(all().filter(move |port| ephemeral.contains(port)))
}

/// FNV-1a.
fn hash(id: &str, port: u16) -> u64 {
    let bytes = id.bytes().chain(port.to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The low bits of neighbouring ports are close to each other.
    hash ^ (hash >> 32)
}

/// The site name of each live workspace, in the given order: the workspace that has had its label
/// longest first. It is the label; if another project's workspace has it already, it is
/// `<label>--<project>`, which no label can be.
pub fn sites<'a>(
    workspaces: impl IntoIterator<Item = (&'a Label, &'a ProjectId, &'a ProjectName)>,
) -> Vec<String> {
    let mut holders: HashMap<&Label, &ProjectId> = HashMap::new();
    let named = workspaces.into_iter().map(|(label, id, project)| {
        if *holders.entry(label).or_insert(id) == id {
            label.to_string()
        } else {
            format!("{label}--{project}")
        }
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;

    fn id(text: &str) -> WorkspaceId {
        WorkspaceId::parse(text).unwrap()
    }

    #[test]
    fn every_host_port_is_tried_once_and_the_first_stays_the_same() {
        let one = id("waaaaaaaaaaaa");
        let tried: Vec<u16> = candidates(&one, 3000, &EPHEMERAL).collect();
        let again: Vec<u16> = candidates(&one, 3000, &EPHEMERAL).collect();
        assert_eq!(tried, again);
        let mut sorted = tried.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, HOST_PORTS.collect::<Vec<u16>>());
        let other = candidates(&id("waaaaaaaaaaab"), 3000, &EPHEMERAL).next();
        assert_ne!(tried.first().copied(), other);
        assert_ne!(
            tried.first().copied(),
            candidates(&one, 3001, &EPHEMERAL).next()
        );
    }

    #[test]
    fn what_outgoing_connections_may_hold_comes_last() {
        let one = id("waaaaaaaaaaaa");
        let tried: Vec<u16> = candidates(&one, 3000, &(1024..=25_000)).collect();
        assert_eq!(tried.len(), HOST_PORTS.count());
        assert!(tried[..4_999].iter().all(|port| *port > 25_000));
    }

    #[test]
    fn a_hundred_workspaces_rarely_want_the_same() {
        let mut first: Vec<u16> = (0..100)
            .filter_map(|_| candidates(&WorkspaceId::random(), 3000, &EPHEMERAL).next())
            .collect();
        first.sort_unstable();
        first.dedup();
        assert!(first.len() > 90, "{}", first.len());
    }

    #[test]
    fn a_label_leads_to_who_had_it_first() {
        let (x, y) = (Label::parse("x").unwrap(), Label::parse("y").unwrap());
        let (one, two) = (ProjectId::random(), ProjectId::random());
        let (shop, blog) = (
            ProjectName::parse("shop").unwrap(),
            ProjectName::parse("blog").unwrap(),
        );
        let named = sites([(&x, &one, &shop), (&x, &two, &blog), (&y, &two, &blog)]);
        assert_eq!(named, ["x", "x--blog", "y"]);
        assert_eq!(
            sites([(&x, &two, &blog), (&x, &one, &shop)]),
            ["x", "x--shop"]
        );
    }
}
