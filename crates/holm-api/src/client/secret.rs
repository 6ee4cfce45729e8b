//! Secrets: values are sent to the daemon, and never returned.

use super::Client;
use crate::secret::{
    Audit, DeclaredList, Export, Exported, Give, HandedOver, Import, Imported, KeyState,
    RemoveSecret, RotateKey, Secret, SecretList, SetSecret, Unlock,
};
use holm_core::{Fault, WorkspaceId};
use hyper::Method;

// === impl Client ===

impl Client {
    pub async fn secrets(&self) -> Result<SecretList, Fault> {
        self.transport.plain(Method::GET, "/secrets").await
    }

    pub async fn set_secret(&self, set: &SetSecret) -> Result<Secret, Fault> {
        self.transport.json(Method::PUT, "/secrets", set).await
    }

    pub async fn remove_secret(&self, remove: &RemoveSecret) -> Result<Secret, Fault> {
        let transport = &self.transport;
        transport.json(Method::DELETE, "/secrets", remove).await
    }

    /// The secrets that a workspace's `holm.toml` declares, with their states.
    pub async fn declared_secrets(&self, id: &WorkspaceId) -> Result<DeclaredList, Fault> {
        let route = format!("/workspaces/{id}/secrets");
        self.transport.plain(Method::GET, &route).await
    }

    pub async fn give_secrets(&self, id: &WorkspaceId, give: &Give) -> Result<DeclaredList, Fault> {
        let route = format!("/workspaces/{id}/secrets");
        self.transport.json(Method::POST, &route, give).await
    }

    pub async fn hand_over_secrets(&self, give: &Give) -> Result<HandedOver, Fault> {
        let transport = &self.transport;
        transport
            .json(Method::POST, "/secrets/handover", give)
            .await
    }

    pub async fn rotate_secrets_key(&self, rotate: &RotateKey) -> Result<KeyState, Fault> {
        let transport = &self.transport;
        transport
            .json(Method::POST, "/secrets/rotate-key", rotate)
            .await
    }

    pub async fn unlock_secrets(&self, unlock: &Unlock) -> Result<KeyState, Fault> {
        let transport = &self.transport;
        transport
            .json(Method::POST, "/secrets/unlock", unlock)
            .await
    }

    /// The audit record of secrets; with `verify`, also whether it is intact.
    pub async fn secrets_audit(&self, verify: Verify) -> Result<Audit, Fault> {
        let route = match verify {
            Verify::Yes => "/secrets/audit?verify=true",
            Verify::No => "/secrets/audit",
        };
        self.transport.plain(Method::GET, route).await
    }

    pub async fn export_secrets(&self, export: &Export) -> Result<Exported, Fault> {
        let transport = &self.transport;
        transport
            .json(Method::POST, "/secrets/export", export)
            .await
    }

    pub async fn import_secrets(&self, import: &Import) -> Result<Imported, Fault> {
        let transport = &self.transport;
        transport
            .json(Method::POST, "/secrets/import", import)
            .await
    }
}

/// Whether to check the record's integrity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    No,
    Yes,
}
