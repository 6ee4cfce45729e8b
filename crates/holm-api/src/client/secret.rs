//! Secrets: values are sent to the daemon, and never returned.

use super::Client;
use crate::secret::Audit;
use holm_core::Fault;
use hyper::Method;

// === impl Client ===

impl Client {
    /// The audit record of secrets; with `verify`, also whether it is intact.
    pub async fn secrets_audit(&self, verify: Verify) -> Result<Audit, Fault> {
        let route = match verify {
            Verify::Yes => "/secrets/audit?verify=true",
            Verify::No => "/secrets/audit",
        };
        self.transport.plain(Method::GET, route).await
    }
}

/// Whether to check the record's integrity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    No,
    Yes,
}
