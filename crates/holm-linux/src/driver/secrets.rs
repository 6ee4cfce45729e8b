//! Secrets on their way from the daemon to a workspace's keeper.

use super::{LinuxDriver, keeper};
use crate::wire::{Grant, Op};
use holm_core::{Fault, WorkspaceId};
use holm_engine::spec::{Purpose, WorkspaceSpec};
use std::sync::Arc;
use std::time::Duration;

/// Tells what a workspace is given now. Called when its processes are started.
pub type Giver = Arc<dyn Fn(&WorkspaceSpec) -> Result<Vec<Grant>, Fault> + Send + Sync>;

/// Values may be many and are written to files before the answer.
const PATIENCE: Duration = Duration::from_secs(5);

// === impl LinuxDriver ===

impl LinuxDriver {
    /// Gives a running workspace other secrets, or other values, from now on.
    pub async fn set_secrets(&self, id: &WorkspaceId, grants: Vec<Grant>) -> Result<(), Fault> {
        let dirs = self.layout.workspace(id);
        let told = keeper::ask_within(&dirs, Op::SetSecrets(grants), PATIENCE);
        told.await.map(drop)
    }

    /// What a workspace is started with. One that is thrown away afterwards is given nothing.
    pub(super) fn grants(&self, spec: &WorkspaceSpec) -> Result<Vec<Grant>, Fault> {
        match &spec.purpose {
            Purpose::Work if !spec.secrets.is_empty() => (self.giver)(spec),
            _ => Ok(Vec::new()),
        }
    }
}
