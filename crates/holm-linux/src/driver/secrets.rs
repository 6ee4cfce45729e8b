//! The secrets that a workspace is started with.

use super::LinuxDriver;
use holm_core::Fault;
use holm_core::spec::{Purpose, WorkspaceSpec};
use holm_keeper::wire::Grant;

// === impl LinuxDriver ===

impl LinuxDriver {
    /// The secrets at a start. A temporary workspace gets none.
    pub(super) fn grants(&self, spec: &WorkspaceSpec) -> Result<Vec<Grant>, Fault> {
        match &spec.purpose {
            Purpose::Work if !spec.secrets.is_empty() => (self.secrets)(spec),
            _ => Ok(Vec::new()),
        }
    }
}
