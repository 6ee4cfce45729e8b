//! Host ports, canonical ports and events in the store, for the server.

use crate::clock::now;
use crate::engine::Engine;
use crate::store::{Canonical, Claim, Event, EventRecord, StoreError, WorkspaceRecord};
use holm_core::{Code, Fault, ProjectName, WorkspaceId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claiming {
    Claimed,
    /// It is or was another workspace's.
    Taken,
}

// === impl Engine ===

impl Engine {
    /// The record of an acknowledged workspace that is not in the trash.
    pub async fn named(
        &self,
        id: &WorkspaceId,
    ) -> Result<Option<(WorkspaceRecord, ProjectName)>, Fault> {
        match self.inner.live(id).await {
            Ok(record) => {
                let name = self.inner.project_name(&record.project_id).await?;
                Ok(Some((record, name)))
            }
            Err(fault) if fault.code == Code::WorkspaceNotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    pub async fn claims(&self) -> Result<Vec<Claim>, Fault> {
        self.inner.store.call(|store| store.claims()).await
    }

    pub async fn claim_port(&self, claim: Claim) -> Result<Claiming, Fault> {
        let claimed = self
            .inner
            .store
            .ask(move |store| store.claim_port(&claim, now()));
        match claimed.await? {
            Ok(()) => Ok(Claiming::Claimed),
            Err(StoreError::PortTaken(_)) => Ok(Claiming::Taken),
            Err(error) => Err(error.into()),
        }
    }

    /// Frees the oldest half of the host ports without an owner. Called when no other port is left.
    pub async fn free_abandoned_ports(&self) -> Result<(), Fault> {
        let store = &self.inner.store;
        let abandoned = store.call(|store| store.abandoned_ports()).await?;
        let half = abandoned.len().div_ceil(2);
        for host_port in abandoned.into_iter().take(half) {
            let freed = store.call(move |store| store.forget_abandoned_port(host_port));
            freed.await?;
        }
        Ok(())
    }

    pub async fn canonical(&self) -> Result<Vec<Canonical>, Fault> {
        self.inner.store.call(|store| store.canonical()).await
    }

    pub async fn set_canonical(&self, wanted: Vec<Canonical>) -> Result<(), Fault> {
        self.inner
            .store
            .call(move |store| store.set_canonical(&wanted))
            .await
    }

    /// Stores an event; returns its cursor.
    pub async fn add_event(
        &self,
        workspace: &WorkspaceId,
        kind: &str,
        detail: String,
    ) -> Result<u64, Fault> {
        let event = Event {
            at: now(),
            kind: kind.to_owned(),
            workspace: workspace.clone(),
            detail,
        };
        self.inner
            .store
            .call(move |store| store.add_event(&event))
            .await
    }

    pub async fn events(&self, after: u64, most: usize) -> Result<Vec<EventRecord>, Fault> {
        self.inner
            .store
            .call(move |store| store.events(after, most))
            .await
    }

    pub async fn last_event(&self) -> Result<u64, Fault> {
        self.inner.store.call(|store| store.last_event()).await
    }

    /// Whether the store can be read and written.
    pub async fn check_store(&self) -> Result<(), Fault> {
        self.inner.store.call(|store| store.check()).await
    }

    /// Traffic through a port or preview counts as use of the workspace.
    pub async fn note_traffic(&self, id: &WorkspaceId) -> Result<(), Fault> {
        let (key, at) = (id.clone(), now());
        self.inner.uses.note(id, at);
        self.inner
            .store
            .call(move |store| store.touch(&key, at))
            .await
    }
}
