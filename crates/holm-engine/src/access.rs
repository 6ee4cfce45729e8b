//! Tokens and the audit record in the store, for the server's gate.

use crate::engine::Engine;
use crate::store::{AuditEntry, AuditFilter, AuditNote, AuditRecord, TokenRecord};
use holm_core::{Fault, TokenId};
use jiff::Timestamp;

// === impl Engine ===

impl Engine {
    pub async fn tokens(&self) -> Result<Vec<TokenRecord>, Fault> {
        self.inner.store.call(|store| store.tokens()).await
    }

    pub async fn add_token(&self, token: TokenRecord) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.add_token(&token)).await
    }

    /// Marks the token as expired for good.
    pub async fn expire_token(&self, id: TokenId, at: Timestamp) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.expire_token(&id, at)).await
    }

    pub async fn remove_token(&self, id: TokenId) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.remove_token(&id)).await
    }

    pub async fn add_audit(&self, entry: AuditEntry) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.add_audit(&entry)).await
    }

    /// Adds entries and outcomes in order, in one transaction.
    pub async fn note_audit(&self, notes: Vec<AuditNote>) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.note_audit(&notes)).await
    }

    pub async fn audit(&self, filter: AuditFilter, most: usize) -> Result<Vec<AuditRecord>, Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.audit(&filter, most)).await
    }
}
