//! Tokens and the audit record.

use super::{Client, query_string};
use crate::audit::{AuditList, AuditQuery};
use holm_core::Fault;
use hyper::Method;

// === impl Client ===

impl Client {
    /// Entries of the audit record, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AuditList, Fault> {
        let route = format!("/audit?{}", query_string(query));
        self.transport.plain(Method::GET, &route).await
    }
}
