//! Requests that carry a key are carried out once, however often they are sent.
//!
//! Requests with one key queue. The first does what it asks; what it made is written down before it is
//! the user's, so that also the next daemon knows it, and its answer is kept for those that follow. A
//! key stands for one request: another one with the same key is refused. After a day it is forgotten.
//!
//! Whoever carries out such a request calls [`Engine::once`], [`Engine::begun`] as soon as what it
//! makes has an id, and [`Engine::answered`] at the end, or [`Engine::unanswered`] when nothing came
//! of it.

use crate::engine::{Engine, View, now};
use crate::store::{Keyed, RequestKey};
use holm_core::state::Birth;
use holm_core::{Code, Fault, WorkspaceId};
use jiff::Timestamp;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// How long a key stands for its request.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);

/// What there is to do for a request with a key.
#[derive(Debug)]
pub enum Once {
    /// Nothing: this was its answer.
    Answered(String),
    /// An earlier try made this, or began to, and did not come to an answer.
    Begun { subject: String, turn: Turn },
    /// Everything.
    New(Turn),
}

/// The right to carry out the request of one key. Others with the key wait until it and all its
/// clones are dropped.
#[derive(Clone)]
pub struct Turn {
    key: RequestKey,
    _guard: Arc<OwnedMutexGuard<()>>,
}

// === impl Engine ===

impl Engine {
    /// Waits for the end of an earlier request with this key, and says what is left to do.
    pub async fn once(&self, key: RequestKey, digest: String) -> Result<Once, Fault> {
        // Another request is refused at once, also while the first is under way.
        self.keyed(&key, &digest).await?;
        let guard = self.inner.keys.lock(&key).await;
        let found = self.keyed(&key, &digest).await?;
        let turn = Turn {
            key: key.clone(),
            _guard: Arc::new(guard),
        };
        match found {
            Some(Keyed {
                answer: Some(answer),
                ..
            }) => Ok(Once::Answered(answer)),
            Some(Keyed {
                subject: Some(subject),
                ..
            }) => Ok(Once::Begun { subject, turn }),
            _ => {
                let store = &self.inner.store;
                let noted = store.call(move |store| store.note_key(&key, &digest, now()));
                noted.await?;
                Ok(Once::New(turn))
            }
        }
    }

    /// What the request makes has this id. To be called before it is the user's.
    pub async fn begun(&self, turn: &Turn, subject: &str) -> Result<(), Fault> {
        self.inner.begun(turn, subject).await
    }

    /// The request is carried out, and this is its answer.
    pub async fn answered(&self, turn: Turn, answer: String) -> Result<(), Fault> {
        let key = turn.key.clone();
        let store = &self.inner.store;
        let kept = store.call(move |store| store.answer_key(&key, &answer));
        kept.await
    }

    /// Nothing came of the request, so the key stands for nothing.
    pub async fn unanswered(&self, turn: Turn) -> Result<(), Fault> {
        let key = turn.key.clone();
        let store = &self.inner.store;
        store.call(move |store| store.forget_key(&key)).await
    }

    /// Forgets keys whose time is over.
    pub async fn forget_old_keys(&self) -> Result<(), Fault> {
        let before = self.oldest();
        let store = &self.inner.store;
        store.call(move |store| store.forget_keys(before)).await
    }

    /// A workspace that an earlier request may have made, if it is the user's, live or in the trash.
    /// One that is just being made is awaited.
    pub async fn born(&self, id: &WorkspaceId) -> Result<Option<View>, Fault> {
        let _turn = self.inner.workspaces.lock(id).await;
        let key = id.clone();
        let found = self.inner.store.call(move |store| store.workspace(&key));
        match found.await? {
            Some(record) if record.birth == Birth::Acknowledged => {
                Ok(Some(self.inner.view(record).await?))
            }
            _ => Ok(None),
        }
    }

    /// Keys that were noted until then stand for nothing any more. While the clock is not believed all of
    /// them stand: a request that is sent again must not be carried out again.
    fn oldest(&self) -> Timestamp {
        let look = self.inner.clock.look();
        let oldest = look.wall.checked_sub(KEPT).ok();
        oldest
            .filter(|_| look.is_plausible())
            .unwrap_or(Timestamp::MIN)
    }

    /// What is known of the key, if it stands for this request.
    async fn keyed(&self, key: &RequestKey, digest: &str) -> Result<Option<Keyed>, Fault> {
        let sought = key.clone();
        let found = self.inner.store.call(move |store| store.key(&sought));
        let found = found.await?.filter(|keyed| keyed.at > self.oldest());
        match found {
            Some(keyed) if keyed.digest != digest => Err(key_reused(key)),
            found => Ok(found),
        }
    }
}

// === impl Inner ===

impl crate::engine::Inner {
    pub(crate) async fn begun(&self, turn: &Turn, subject: &str) -> Result<(), Fault> {
        let (key, subject) = (turn.key.clone(), subject.to_owned());
        let noted = self
            .store
            .call(move |store| store.begin_key(&key, &subject));
        noted.await
    }
}

// === impl Turn ===

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.key).finish()
    }
}

fn key_reused(key: &RequestKey) -> Fault {
    let shown = key.key.escape_debug();
    Fault::new(
        Code::KeyReused,
        format!("the key `{shown}` stands for another request that was made with it"),
        "use a new key for each request, and the same one only to send the same request again",
    )
}
