//! Tokens and the audit record.

use super::Client;
use crate::audit::{AuditList, AuditQuery};
use crate::token::{NewToken, Token, TokenList, TokenMade};
use holm_core::{Fault, TokenId};
use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

// === impl Client ===

impl Client {
    pub async fn tokens(&self) -> Result<TokenList, Fault> {
        self.transport.plain(Method::GET, "/tokens").await
    }

    pub async fn make_token(&self, new: &NewToken) -> Result<TokenMade, Fault> {
        self.transport.json(Method::POST, "/tokens", new).await
    }

    /// Revokes a token and cuts its connections.
    pub async fn remove_token(&self, id: &TokenId) -> Result<Token, Fault> {
        let route = format!("/tokens/{id}");
        self.transport.plain(Method::DELETE, &route).await
    }

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
