//! Turns, looks, checks, approvals and the inbox in the store, for the server.

use crate::engine::Engine;
use crate::inbox::{InboxRecords, NoticeRecord, OpenItem};
use crate::review::{CheckRecord, CommentRecord, Look, TreeApproval, TurnRecord};
use holm_core::{Fault, WorkspaceId};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap};

// === impl Engine ===

impl Engine {
    pub async fn add_turn(&self, turn: TurnRecord) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.add_turn(&turn)).await
    }

    pub async fn turns(&self, id: &WorkspaceId) -> Result<Vec<TurnRecord>, Fault> {
        let id = id.clone();
        self.inner.store.call(move |store| store.turns(&id)).await
    }

    pub async fn last_turn(&self, id: &WorkspaceId) -> Result<Option<TurnRecord>, Fault> {
        let id = id.clone();
        let store = &self.inner.store;
        store.call(move |store| store.last_turn(&id)).await
    }

    pub async fn save_turn(&self, turn: TurnRecord) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.save_turn(&turn)).await
    }

    pub async fn forget_surplus_turns(
        &self,
        id: &WorkspaceId,
        kept: u64,
    ) -> Result<Vec<u64>, Fault> {
        let (store, id) = (&self.inner.store, id.clone());
        store
            .call(move |store| store.forget_surplus_turns(&id, kept))
            .await
    }

    pub async fn save_comment(&self, comment: CommentRecord) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.save_comment(&comment)).await
    }

    pub async fn comments(&self, id: &WorkspaceId) -> Result<Vec<CommentRecord>, Fault> {
        let id = id.clone();
        self.inner
            .store
            .call(move |store| store.comments(&id))
            .await
    }

    pub async fn save_check(&self, check: CheckRecord) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.save_check(&check)).await
    }

    /// The recorded results for one tree of a workspace, by name.
    pub async fn checks_of(&self, id: &WorkspaceId, tree: &str) -> Result<Vec<CheckRecord>, Fault> {
        let (store, id, tree) = (&self.inner.store, id.clone(), tree.to_owned());
        store.call(move |store| store.checks_of(&id, &tree)).await
    }

    /// Checks that have not ended, of all workspaces.
    pub async fn open_checks(&self) -> Result<Vec<CheckRecord>, Fault> {
        self.inner.store.call(|store| store.open_checks()).await
    }

    pub async fn look(&self, id: &WorkspaceId) -> Result<Option<Look>, Fault> {
        let id = id.clone();
        self.inner.store.call(move |store| store.look(&id)).await
    }

    pub async fn set_look(
        &self,
        id: &WorkspaceId,
        look: Look,
        viewed: Vec<(String, String)>,
    ) -> Result<(), Fault> {
        let (store, id) = (&self.inner.store, id.clone());
        store
            .call(move |store| store.set_look(&id, &look, &viewed))
            .await
    }

    pub async fn mark_viewed(
        &self,
        id: &WorkspaceId,
        viewed: Vec<(String, String)>,
    ) -> Result<(), Fault> {
        let (store, id) = (&self.inner.store, id.clone());
        store
            .call(move |store| store.mark_viewed(&id, &viewed))
            .await
    }

    pub async fn viewed(&self, id: &WorkspaceId) -> Result<BTreeMap<String, String>, Fault> {
        let id = id.clone();
        self.inner.store.call(move |store| store.viewed(&id)).await
    }

    pub async fn approve_tree(&self, id: &WorkspaceId, yes: TreeApproval) -> Result<(), Fault> {
        let (store, id) = (&self.inner.store, id.clone());
        store.call(move |store| store.approve_tree(&id, &yes)).await
    }

    pub async fn tree_approval(&self, id: &WorkspaceId) -> Result<Option<TreeApproval>, Fault> {
        let (store, id) = (&self.inner.store, id.clone());
        store.call(move |store| store.tree_approval(&id)).await
    }

    pub async fn add_notice(&self, notice: NoticeRecord) -> Result<(), Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.add_notice(&notice)).await
    }

    pub async fn inbox_records(&self) -> Result<HashMap<WorkspaceId, InboxRecords>, Fault> {
        self.inner.store.call(|store| store.inbox_records()).await
    }

    pub async fn change_open_items(
        &self,
        open: Vec<OpenItem>,
        closed: Vec<OpenItem>,
    ) -> Result<(), Fault> {
        let store = &self.inner.store;
        store
            .call(move |store| store.change_open_items(&open, &closed))
            .await
    }

    pub async fn last_event_of(&self, kind: &'static str) -> Result<Option<Timestamp>, Fault> {
        let store = &self.inner.store;
        store.call(move |store| store.last_event_of(kind)).await
    }
}
