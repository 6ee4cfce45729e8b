//! Finds and binds the host port of a port inside: bound first, then claimed, then announced.

use super::RouteTask;
use holm_core::route::candidates;
use holm_core::{Fault, WorkspaceId};
use holm_engine::Claiming;
use holm_engine::store::Claim;
use holm_proxy::forward::{Bound, bind};
use holm_proxy::{Forward, Target};
use std::ops::RangeInclusive;

/// A host port that was just bound.
pub struct Held {
    pub host_port: u16,
    pub forward: Forward,
    /// The earlier one, which another program holds now.
    pub earlier: Option<u16>,
}

/// The most host ports for discovered ports of one workspace. Beyond that, host ports whose port is
/// closed are reused.
const MOST_DISCOVERED: usize = 64;

/// `None`: it has one already, or none is available.
pub async fn host(
    task: &mut RouteTask,
    id: &WorkspaceId,
    port: u16,
) -> Result<Option<Held>, Fault> {
    let Some(kept) = task.followed.get(id) else {
        return Ok(None);
    };
    if kept.hosted.contains_key(&port) {
        return Ok(None);
    }
    let mut own = task.claims.values().filter(|claim| claim.workspace == *id);
    let claimed = own.find(|claim| claim.port == port);
    let earlier = claimed.map(|claim| claim.host_port);
    if let Some(host_port) = earlier
        && let Ok(bound) = bind(host_port)
    {
        return Ok(Some(held(task, id, port, (host_port, bound), None)));
    }
    if earlier.is_none() && !kept.is_declared(port) && is_full(task, id) {
        return reuse_own(task, id, port).await;
    }
    let found = match find(task, id, port).await? {
        Some(found) => Some(found),
        None => {
            task.engine.free_abandoned_ports().await?;
            find(task, id, port).await?
        }
    };
    Ok(found.map(|found| held(task, id, port, found, earlier)))
}

/// The first candidate that is neither bound nor claimed.
async fn find(
    task: &mut RouteTask,
    id: &WorkspaceId,
    port: u16,
) -> Result<Option<(u16, Bound)>, Fault> {
    let tried: Vec<u16> = candidates(id, port, &ephemeral())
        .filter(|candidate| !task.claims.contains_key(candidate))
        .collect();
    for host_port in tried {
        // Another program may take it at any moment, so binding is the check.
        let Ok(bound) = bind(host_port) else {
            continue;
        };
        let claim = Claim {
            workspace: id.clone(),
            port,
            host_port,
        };
        match task.engine.claim_port(claim.clone()).await? {
            Claiming::Claimed => {
                remember(task, claim);
                return Ok(Some((host_port, bound)));
            }
            Claiming::Taken => {}
        }
    }
    Ok(None)
}

fn is_full(task: &RouteTask, id: &WorkspaceId) -> bool {
    let Some(kept) = task.followed.get(id) else {
        return true;
    };
    let own = task.claims.values().filter(|claim| claim.workspace == *id);
    own.filter(|claim| !kept.is_declared(claim.port)).count() >= MOST_DISCOVERED
}

/// Reuses a host port of the workspace whose port is closed for another port.
async fn reuse_own(
    task: &mut RouteTask,
    id: &WorkspaceId,
    port: u16,
) -> Result<Option<Held>, Fault> {
    let Some(kept) = task.followed.get_mut(id) else {
        return Ok(None);
    };
    let unused = kept.hosted.keys().copied().find(|hosted| {
        let is_declared = kept.is_declared(*hosted);
        !is_declared && !kept.listening.contains(hosted)
    });
    let Some(hosted) = unused.and_then(|unused| kept.hosted.remove(&unused)) else {
        return Ok(None);
    };
    let claim = Claim {
        workspace: id.clone(),
        port,
        host_port: hosted.host_port,
    };
    if task.engine.claim_port(claim.clone()).await? == Claiming::Taken {
        return Ok(None);
    }
    remember(task, claim);
    let target = Target {
        workspace: id.clone(),
        port,
    };
    hosted.forward.set_target(target);
    Ok(Some(Held {
        host_port: hosted.host_port,
        forward: hosted.forward,
        earlier: None,
    }))
}

fn remember(task: &mut RouteTask, claim: Claim) {
    task.claims
        .retain(|_, known| known.workspace != claim.workspace || known.port != claim.port);
    task.claims.insert(claim.host_port, claim);
}

fn held(
    task: &RouteTask,
    id: &WorkspaceId,
    port: u16,
    (host_port, bound): (u16, Bound),
    earlier: Option<u16>,
) -> Held {
    let target = Target {
        workspace: id.clone(),
        port,
    };
    Held {
        host_port,
        forward: Forward::begin(bound, target, &task.inward, &task.traffic),
        earlier: earlier.filter(|earlier| *earlier != host_port),
    }
}

/// The kernel's ephemeral ports.
fn ephemeral() -> RangeInclusive<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let text = text.unwrap_or_default();
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last))) => first..=last,
        // The kernel's default.
        _ => 32_768..=60_999,
    }
}
