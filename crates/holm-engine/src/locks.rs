//! One asynchronous lock per key: operations on one workspace queue, and a base is built once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::OwnedMutexGuard;

/// Locks exist while a task holds or awaits them.
pub(crate) struct Locks<K>(Mutex<HashMap<K, Weak<tokio::sync::Mutex<()>>>>);

// === impl Locks ===

impl<K: Clone + Eq + Hash> Locks<K> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// Waits for the lock, in order of arrival.
    pub(crate) async fn lock(&self, key: &K) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match locks.get(key).and_then(Weak::upgrade) {
                Some(lock) => lock,
                None => {
                    locks.retain(|_, lock| lock.strong_count() > 0);
                    let lock = Arc::default();
                    locks.insert(key.clone(), Arc::downgrade(&lock));
                    lock
                }
            }
        };
        lock.lock_owned().await
    }

    /// Whether a task holds or awaits the lock.
    pub(crate) fn is_wanted(&self, key: &K) -> bool {
        let locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.get(key).is_some_and(|lock| lock.strong_count() > 0)
    }
}
