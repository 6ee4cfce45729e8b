//! Resolves names, with one lookup for all concurrent requests for a name.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Long enough for a program that asks for both address families and then connects.
const FRESH: Duration = Duration::from_secs(3);

/// The cache's capacity; further names are looked up each time.
const MOST: usize = 1024;

/// Why a name has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupFailure {
    #[error("there is no such name")]
    NoSuchName,
    #[error("the name could not be looked up")]
    Failed,
}

type Found = Result<Vec<IpAddr>, LookupFailure>;
type Slot = Arc<tokio::sync::Mutex<Option<(Instant, Found)>>>;

#[derive(Default)]
pub struct Lookups(Mutex<HashMap<String, Slot>>);

// === impl Lookups ===

impl Lookups {
    pub async fn find(&self, name: &str, work: impl FnOnce() -> Found + Send + 'static) -> Found {
        let slot = self.slot(name);
        let mut slot = slot.lock().await;
        if let Some((at, found)) = &*slot
            && at.elapsed() < FRESH
        {
            return found.clone();
        }
        let found = match tokio::task::spawn_blocking(work).await {
            Ok(found) => found,
            Err(_) => Err(LookupFailure::Failed),
        };
        *slot = Some((Instant::now(), found.clone()));
        found
    }

    fn slot(&self, name: &str) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MOST {
            slots.retain(|_, slot| match slot.try_lock() {
                Ok(slot) => slot.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH),
                Err(_) => true,
            });
        }
        if slots.len() >= MOST {
            return Slot::default();
        }
        Arc::clone(slots.entry(name.to_owned()).or_default())
    }
}
