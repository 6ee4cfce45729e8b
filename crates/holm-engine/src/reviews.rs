//! Turns, looks, checks, approvals and the inbox in the store, for the server.

use crate::engine::Engine;
use crate::failpoint::{self, Moment};
use crate::inbox::{InboxRecords, NoticeRecord, OpenItem};
use crate::review::{CheckRecord, CommentRecord, Look, TreeApproval, TurnFailure, TurnRecord};
use holm_core::session::protocol::SessionRequest;
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

    pub async fn note_turn_failure(&self, failure: TurnFailure) -> Result<(), Fault> {
        let store = &self.inner.store;
        store
            .call(move |store| store.note_turn_failure(&failure))
            .await
    }

    pub fn turn_failure(&self, id: &WorkspaceId) -> Result<Option<TurnFailure>, Fault> {
        self.inner.store.read(|store| store.turn_failure(id))
    }

    /// Costs a look into the store if there is no failure.
    pub async fn forget_turn_failure(&self, id: &WorkspaceId) -> Result<(), Fault> {
        if self.turn_failure(id)?.is_none() {
            return Ok(());
        }
        let (store, id) = (&self.inner.store, id.clone());
        store
            .call(move |store| store.forget_turn_failure(&id))
            .await
    }

    pub async fn save_comments(&self, comments: Vec<CommentRecord>) -> Result<(), Fault> {
        let store = &self.inner.store;
        store
            .call(move |store| store.save_comments(&comments))
            .await
    }

    /// Types a round into a session. What is about to happen is stored first: if the daemon dies meanwhile, the comments say
    /// that the delivery is not confirmed, and no later round has them again.
    pub async fn deliver_round(
        &self,
        id: &WorkspaceId,
        session: &str,
        text: String,
        mut comments: Vec<CommentRecord>,
    ) -> Result<Vec<CommentRecord>, Fault> {
        let before = comments.clone();
        let note = |comments: &mut Vec<CommentRecord>, delivered: String| {
            for comment in comments {
                comment.details.delivered = Some(delivered.clone());
            }
        };
        note(&mut comments, format!("session {session}, not confirmed"));
        self.save_comments(comments.clone()).await?;
        failpoint::pass("round", Moment::Before)?;
        let request = SessionRequest::Send {
            session: session.to_owned(),
            text: text.into_bytes(),
            keys: vec!["Enter".to_owned()],
        };
        if let Err(fault) = self.session_request(id, request).await {
            let drafts = before.into_iter().map(|mut comment| {
                comment.details.round = None;
                comment
            });
            self.save_comments(drafts.collect()).await?;
            return Err(fault);
        }
        failpoint::pass("round", Moment::After)?;
        note(&mut comments, format!("session {session}"));
        self.save_comments(comments.clone()).await?;
        Ok(comments)
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
