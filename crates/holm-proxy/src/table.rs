//! What leads where: every live workspace with its ports, as one value that is replaced whole.
//!
//! The daemon's routes fill it; front door, host ports and canonical ports only read it. Readers
//! take a snapshot and never wait.

use crate::visit::Visit;
use holm_core::{Label, ProjectName, WorkspaceId};
use std::future::Future;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

/// How a connection into a workspace is made.
pub trait Inside: Clone + Send + Sync + 'static {
    /// Connects to a port of the workspace's own loopback. `ConnectionRefused` when nobody listens
    /// there or nothing runs.
    fn dial(
        &self,
        workspace: &WorkspaceId,
        port: u16,
    ) -> impl Future<Output = io::Result<Visit>> + Send;
}

/// A live workspace as it is reached from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Island {
    pub id: WorkspaceId,
    pub label: Label,
    pub project: ProjectName,
    /// The name below `localhost` that previews have besides the id: the label, or
    /// `<label>--<project>` when an earlier workspace of another project has the label.
    pub site: String,
    pub is_running: bool,
    /// In the order in which they are shown.
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Of a discovered one: its number.
    pub name: String,
    pub port: u16,
    pub host_port: Option<u16>,
    pub source: Source,
    pub is_listening: bool,
    /// Whether `localhost:<port>` of the host leads here.
    pub is_canonical: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Declared,
    Discovered,
}

/// A handle; clones share everything.
#[derive(Clone, Default)]
pub struct Table(Arc<RwLock<Arc<Vec<Island>>>>);

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
    /// Everything as it is now.
    pub fn snapshot(&self) -> Arc<Vec<Island>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn replace(&self, islands: Vec<Island>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(islands);
    }
}
