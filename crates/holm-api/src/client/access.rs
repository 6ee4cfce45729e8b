//! Tokens and the audit record.

use super::Client;
use crate::audit::{AuditList, AuditQuery};
use holm_core::Fault;
use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

// === impl Client ===

impl Client {
    /// Entries of the audit record, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AuditList, Fault> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let given = [
            ("limit", number(query.limit)),
            ("before", number(query.before)),
            ("actor", query.actor.clone()),
            ("workspace", query.workspace.clone()),
            ("since", query.since.clone()),
            ("bad", query.bad.then(|| "true".to_owned())),
        ];
        let given = given.iter().filter_map(|(name, value)| {
            let value = utf8_percent_encode(value.as_deref()?, NON_ALPHANUMERIC);
            Some(format!("{name}={value}"))
        });
        let given: Vec<_> = given.collect();
        let route = format!("/audit?{}", given.join("&"));
        self.transport.plain(Method::GET, &route).await
    }
}
