//! Idle connections into workspaces, and how many requests each workspace has under way.
//!
//! Connections are keyed by workspace id and port, so a reused label never gets a connection of an
//! earlier workspace.

use super::link::{Condition, Link, Upload};
use holm_core::WorkspaceId;
use hyper::client::conn::http2;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The idle connections of all workspaces.
#[derive(Default)]
pub struct IdleConnections {
    all: Mutex<HashMap<WorkspaceId, Workspace>>,
    filled: Notify,
}

#[derive(Default)]
struct Workspace {
    active: Arc<AtomicUsize>,
    ports: HashMap<u16, Shelf>,
}

#[derive(Default)]
struct Shelf {
    idle: Vec<Link>,
    /// A single HTTP/2 connection carries all requests.
    http2: Option<http2::SendRequest<Upload>>,
}

/// Permission for one more request to a workspace.
pub struct Permit(Arc<AtomicUsize>);

/// Where a connection is returned when its request is done.
pub struct PoolSlot {
    idle: Arc<IdleConnections>,
    id: WorkspaceId,
    port: u16,
}

/// Idle connections kept per port.
const MOST_IDLE: usize = 32;

/// Node closes connections after five idle seconds, others later. The pool closes earlier, so it
/// rarely sends on a connection that the server is closing.
const LONGEST_IDLE: Duration = Duration::from_secs(4);

// === impl IdleConnections ===

impl IdleConnections {
    /// Closes connections that were idle too long. Poll it for as long as they are used.
    pub async fn sweeping(self: Arc<Self>) {
        loop {
            self.filled.notified().await;
            while self.sweep() {
                tokio::time::sleep(LONGEST_IDLE / 2).await;
            }
        }
    }

    /// `None`: the workspace has `most` requests under way.
    pub fn permit(&self, id: &WorkspaceId, most: usize) -> Option<Permit> {
        let active = {
            let mut all = self.locked();
            match all.get(id) {
                Some(workspace) => Arc::clone(&workspace.active),
                None => Arc::clone(&all.entry(id.clone()).or_default().active),
            }
        };
        let permit = Permit(active);
        (permit.0.fetch_add(1, Ordering::Relaxed) < most).then_some(permit)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Workspace>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, id: &WorkspaceId, port: u16) -> Option<Link> {
        loop {
            let mut link = self
                .locked()
                .get_mut(id)?
                .ports
                .get_mut(&port)?
                .idle
                .pop()?;
            let is_young = link.idle_since.elapsed() < LONGEST_IDLE;
            if is_young && link.condition() == Condition::Usable {
                return Some(link);
            }
        }
    }

    fn put(&self, id: &WorkspaceId, port: u16, mut link: Link) {
        link.idle_since = Instant::now();
        let mut all = self.locked();
        let Some(workspace) = all.get_mut(id) else {
            return;
        };
        let shelf = workspace.ports.entry(port).or_default();
        if shelf.idle.len() < MOST_IDLE {
            shelf.idle.push(link);
        }
        drop(all);
        self.filled.notify_one();
    }

    pub fn http2(&self, id: &WorkspaceId, port: u16) -> Option<http2::SendRequest<Upload>> {
        self.locked().get(id)?.ports.get(&port)?.http2.clone()
    }

    pub fn set_http2(&self, id: &WorkspaceId, port: u16, sender: &http2::SendRequest<Upload>) {
        if let Some(workspace) = self.locked().get_mut(id) {
            workspace.ports.entry(port).or_default().http2 = Some(sender.clone());
        }
        self.filled.notify_one();
    }

    /// Returns whether connections are left that a later sweep must close.
    fn sweep(&self) -> bool {
        let mut all = self.locked();
        all.retain(|_, workspace| {
            workspace.ports.retain(|_, shelf| {
                shelf
                    .idle
                    .retain(|link| link.idle_since.elapsed() < LONGEST_IDLE);
                let is_open = |sender: &http2::SendRequest<_>| !sender.is_closed();
                shelf.http2 = shelf.http2.take().filter(is_open);
                !shelf.idle.is_empty() || shelf.http2.is_some()
            });
            !workspace.ports.is_empty() || Arc::strong_count(&workspace.active) > 1
        });
        !all.is_empty()
    }
}

// === impl PoolSlot ===

impl PoolSlot {
    pub fn new(idle: &Arc<IdleConnections>, id: &WorkspaceId, port: u16) -> Self {
        Self {
            idle: Arc::clone(idle),
            id: id.clone(),
            port,
        }
    }

    pub fn put(&self, link: Link) {
        self.idle.put(&self.id, self.port, link);
    }
}

// === impl Permit ===

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
