//! Idempotency: a request with a key is carried out once, however often it is sent.
//!
//! Requests with the same key queue. The first one is carried out. The id of what it creates is
//! stored before it is acknowledged, so that the next daemon knows it too, and its response is kept
//! for repetitions. A different request with the same key is refused. Keys expire after a day.
//!
//! The code that carries out such a request calls [`Engine::once`], then [`Engine::begun`] as soon
//! as there is an id, and [`Engine::answered`] at the end, or [`Engine::unanswered`] when it
//! failed.

use crate::clock::now;
use crate::engine::Engine;
use crate::store::{Keyed, RequestKey};
use crate::view::View;
use holm_core::state::Birth;
use holm_core::{Code, Fault, WorkspaceId};
use jiff::Timestamp;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// How long a key is valid.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);

/// What remains to be done for a request with a key.
#[derive(Debug)]
pub enum Once {
    /// Nothing: this was its response.
    Answered(String),
    /// An earlier attempt created this, or began to, and did not get to a response.
    Begun { subject: String, turn: Turn },
    /// Everything.
    New(Turn),
}

/// The right to carry out the request of one key. Other requests with the key wait until it and its
/// clones are dropped.
#[derive(Clone)]
pub struct Turn {
    key: RequestKey,
    _guard: Arc<OwnedMutexGuard<()>>,
}

// === impl Engine ===

impl Engine {
    /// Waits for an earlier request with this key, and returns what remains to be done.
    pub async fn once(&self, key: RequestKey, digest: String) -> Result<Once, Fault> {
        // A different request is refused at once, even while the first is under way.
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

    /// Stores the id of what the request creates. Must be called before that is acknowledged.
    pub async fn begun(&self, turn: &Turn, subject: &str) -> Result<(), Fault> {
        self.inner.begun(turn, subject).await
    }

    /// Stores the response.
    pub async fn answered(&self, turn: Turn, answer: String) -> Result<(), Fault> {
        let key = turn.key.clone();
        let store = &self.inner.store;
        let kept = store.call(move |store| store.answer_key(&key, &answer));
        kept.await
    }

    /// The request failed, so the key is free again.
    pub async fn unanswered(&self, turn: Turn) -> Result<(), Fault> {
        let key = turn.key.clone();
        let store = &self.inner.store;
        store.call(move |store| store.forget_key(&key)).await
    }

    /// Deletes expired keys.
    pub async fn forget_old_keys(&self) -> Result<(), Fault> {
        let before = self.oldest();
        let store = &self.inner.store;
        store.call(move |store| store.forget_keys(before)).await
    }

    /// A workspace that an earlier request may have created, if it was acknowledged, live or in the
    /// trash. Waits for one that is being created.
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

    /// The age limit of keys. While the clock is not believed no key expires: a repeated request
    /// must not be carried out again.
    fn oldest(&self) -> Timestamp {
        let look = self.inner.clock.look();
        let oldest = look.wall.checked_sub(KEPT).ok();
        oldest
            .filter(|_| look.is_plausible())
            .unwrap_or(Timestamp::MIN)
    }

    /// The key's row, if it belongs to this request.
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
