//! The table of live workspaces and their ports, replaced as a whole.
//!
//! The daemon fills it; front door, host ports and canonical ports read it. Readers take a snapshot
//! and never block.

use crate::visit::Visit;
use holm_core::{Label, ProjectName, WorkspaceId};
use std::future::Future;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

pub trait Inside: Clone + Send + Sync + 'static {
    /// Connects to a port on the workspace's loopback. Fails with `ConnectionRefused` when no
    /// program listens there or the workspace does not run.
    fn dial(
        &self,
        workspace: &WorkspaceId,
        port: u16,
    ) -> impl Future<Output = io::Result<Visit>> + Send;
}

/// A live workspace and its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveWorkspace {
    pub id: WorkspaceId,
    pub label: Label,
    pub project: ProjectName,
    /// The preview name below `localhost`, besides the id: the label, or `<label>--<project>` when
    /// an earlier workspace of another project has the label.
    pub site: String,
    pub is_running: bool,
    /// In display order.
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The number, for a discovered port.
    pub name: String,
    pub port: u16,
    pub host_port: Option<u16>,
    pub source: Source,
    /// Of its address: `http`, `postgres`.
    pub scheme: String,
    /// The `Host` that previews show to the server, if not their own.
    pub host: Option<String>,
    pub is_listening: bool,
    /// Whether `localhost:<port>` of the host is forwarded to this port.
    pub is_canonical: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Declared,
    Discovered,
}

/// The table. Clones share their state.
#[derive(Clone, Default)]
pub struct Table(Arc<RwLock<Arc<Vec<LiveWorkspace>>>>);

// === impl Source ===

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Declared => "declared",
            Source::Discovered => "discovered",
        }
    }
}

// === impl Table ===

impl Table {
    pub fn snapshot(&self) -> Arc<Vec<LiveWorkspace>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn replace(&self, workspaces: Vec<LiveWorkspace>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(workspaces);
    }
}
