//! Host ports, canonical ports and events: what the server's routes keep in the store.

use crate::engine::{Engine, now};
use crate::store::{Canonical, Claim, Event, EventRecord, StoreError, WorkspaceRecord};
use holm_core::{Code, Fault, ProjectName, WorkspaceId};

/// How a claim of a host port ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claiming {
    Claimed,
    /// It is or was another workspace's.
    Taken,
}

// === impl Engine ===

impl Engine {
    /// A workspace that somebody was told of and that is not in the trash, as it is stored.
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

    /// Makes the half of the host ports that have been nobody's for longest free again. Called when
    /// no other is left.
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

    /// Writes down that something happened; returns its cursor.
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

    /// Something went through a route of the workspace, which counts as use.
    pub async fn note_traffic(&self, id: &WorkspaceId) -> Result<(), Fault> {
        let (key, at) = (id.clone(), now());
        self.inner.note_use(id, at);
        self.inner
            .store
            .call(move |store| store.touch(&key, at))
            .await
    }
}
