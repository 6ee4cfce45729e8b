//! Turns, looks, comments, checks, approvals and the inbox in the store, for the server.

use crate::engine::Engine;
use crate::failpoint::{self, Moment};
use crate::inbox::{InboxRecords, NoticeRecord, OpenItem};
use crate::review::{
    CheckRecord, CommentRecord, Delivered, Look, TreeApproval, TurnFailure, TurnRecord,
};
use holm_core::session::protocol::SessionRequest;
use holm_core::{Code, Fault, WorkspaceId};
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

    /// Writes only if a failure is stored.
    pub async fn forget_turn_failure(&self, id: &WorkspaceId) -> Result<(), Fault> {
        if self.turn_failure(id)?.is_none() {
            return Ok(());
        }
        let (store, id) = (&self.inner.store, id.clone());
        store
            .call(move |store| store.forget_turn_failure(&id))
            .await
    }

    /// Changes comments of a workspace in one transaction, so that nothing written meanwhile is lost. A refusal of
    /// `change` changes nothing.
    pub async fn change_comments<T: Send + 'static>(
        &self,
        id: &WorkspaceId,
        change: impl FnOnce(&mut Vec<CommentRecord>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let id = id.clone();
        let changing = self.inner.store.call(move |store| {
            let (mut change, mut changed) = (Some(change), None);
            store.change_comments(&id, &mut |comments| {
                let mut new = comments.clone();
                changed = change.take().map(|change| change(&mut new));
                if let Some(Ok(_)) = changed {
                    *comments = new;
                }
            })?;
            Ok(changed)
        });
        let unasked = || Fault::new(Code::Internal, "the comments were not changed", "try again");
        changing.await?.unwrap_or_else(|| Err(unasked()))
    }

    /// Types a round into a session. Its comments are stored as [`Delivered::Unconfirmed`] already: if the daemon dies or the keeper
    /// does not answer, they say so, and no later round has them again.
    pub async fn deliver_round(
        &self,
        id: &WorkspaceId,
        session: &str,
        round: u64,
        text: String,
    ) -> Result<(), Fault> {
        failpoint::pass("round", Moment::Before)?;
        let request = SessionRequest::Send {
            session: session.to_owned(),
            text: text.into_bytes(),
            keys: vec!["Enter".to_owned()],
        };
        if let Err(fault) = self.session_request(id, request).await {
            // Without an answer the text may have been typed.
            let is_refused = fault.code != Code::ExecFailed;
            if is_refused && let Err(error) = self.note_delivery(id, round, None).await {
                tracing::warn!(%id, %error, "a refused round stays unconfirmed");
            }
            return Err(fault);
        }
        failpoint::pass("round", Moment::After)?;
        let delivered = Delivered::Session(session.to_owned());
        self.note_delivery(id, round, Some(delivered)).await
    }

    /// `None`: the comments of the round are drafts again.
    async fn note_delivery(
        &self,
        id: &WorkspaceId,
        round: u64,
        delivered: Option<Delivered>,
    ) -> Result<(), Fault> {
        let noted = self.change_comments(id, move |comments| {
            let sent = comments.iter_mut().map(|comment| &mut comment.details);
            for details in sent.filter(|details| details.round == Some(round)) {
                details.delivered.clone_from(&delivered);
                details.round = details.round.filter(|_| delivered.is_some());
            }
            Ok(())
        });
        noted.await
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
