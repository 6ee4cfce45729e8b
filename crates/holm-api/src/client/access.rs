//! Tokens, and the record of who did what.

use super::Client;
use crate::audit::AuditList;
use crate::token::{NewToken, Token, TokenList, TokenMade};
use holm_core::{Fault, TokenId};
use hyper::Method;

// === impl Client ===

impl Client {
    pub async fn tokens(&self) -> Result<TokenList, Fault> {
        self.transport.plain(Method::GET, "/tokens").await
    }

    pub async fn make_token(&self, new: &NewToken) -> Result<TokenMade, Fault> {
        self.transport.json(Method::POST, "/tokens", new).await
    }

    /// Ends a token, and what is under way with it.
    pub async fn remove_token(&self, id: &TokenId) -> Result<Token, Fault> {
        let route = format!("/tokens/{id}");
        self.transport.plain(Method::DELETE, &route).await
    }

    /// The newest entries.
    pub async fn audit(&self, limit: u64) -> Result<AuditList, Fault> {
        let route = format!("/audit?limit={limit}");
        self.transport.plain(Method::GET, &route).await
    }
}
