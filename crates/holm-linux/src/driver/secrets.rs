//! Sends secrets from the daemon to a workspace's keeper.

use super::{LinuxDriver, keeper};
use crate::wire::{Grant, Op};
use holm_core::{Fault, WorkspaceId};
use holm_engine::spec::{Purpose, WorkspaceSpec};
use std::sync::Arc;
use std::time::Duration;

/// Returns the current secrets of a workspace. Called when its processes are started.
pub type Giver = Arc<dyn Fn(&WorkspaceSpec) -> Result<Vec<Grant>, Fault> + Send + Sync>;

/// There may be many values, which the keeper writes to files before it answers.
const PATIENCE: Duration = Duration::from_secs(5);

// === impl LinuxDriver ===

impl LinuxDriver {
    /// Replaces the secrets of a running workspace.
    pub async fn set_secrets(&self, id: &WorkspaceId, grants: Vec<Grant>) -> Result<(), Fault> {
        let dirs = self.layout.workspace(id);
        let told = keeper::ask_within(&dirs, Op::SetSecrets(grants), PATIENCE);
        told.await.map(drop)
    }

    /// The secrets at a start. A temporary workspace gets none.
    pub(super) fn grants(&self, spec: &WorkspaceSpec) -> Result<Vec<Grant>, Fault> {
        match &spec.purpose {
            Purpose::Work if !spec.secrets.is_empty() => (self.giver)(spec),
            _ => Ok(Vec::new()),
        }
    }
}
