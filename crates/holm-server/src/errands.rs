//! Errands: API requests that the client's own program carries out for the daemon. `POST
//! /workspaces` starts it, and its own request names the errand. So the idempotency key of the
//! first request covers what the second one creates, whichever process dies.
//!
//! An errand lasts as long as its request; a program that comes back later, to this daemon or the
//! next, is refused and creates nothing.

use holm_core::{Code, Fault, RequestId, WorkspaceId};
use holm_engine::Turn;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All errands under way, by id. Clones share them.
#[derive(Clone, Default)]
pub struct Errands(Arc<Mutex<HashMap<String, Arc<Errand>>>>);

pub struct Errand {
    /// The right of its request, if that has a key.
    pub turn: Option<Turn>,
    /// The owner of the workspace.
    pub owner: String,
    made: Mutex<Option<WorkspaceId>>,
}

/// An errand that is under way until this is dropped.
pub struct UnderWay {
    errands: Errands,
    pub id: RequestId,
    pub errand: Arc<Errand>,
}

// === impl Errands ===

impl Errands {
    pub fn begin(&self, turn: Option<Turn>, owner: String) -> UnderWay {
        let id = RequestId::random();
        let errand = Arc::new(Errand {
            turn,
            owner,
            made: Mutex::default(),
        });
        self.all().insert(id.to_string(), Arc::clone(&errand));
        UnderWay {
            errands: self.clone(),
            id,
            errand,
        }
    }

    pub fn find(&self, id: &str) -> Result<Arc<Errand>, Fault> {
        self.all().get(id).map(Arc::clone).ok_or_else(|| {
            Fault::new(
                Code::BadRequest,
                "the request that this is done for is over, or never was",
                "send the request again",
            )
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Errand>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Errand ===

impl Errand {
    /// Records the workspace that it creates.
    pub fn note(&self, id: &WorkspaceId) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.clone());
    }

    /// The id of the workspace this request creates, once it is known.
    pub fn made(&self) -> Option<WorkspaceId> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.clone()
    }
}

// === impl UnderWay ===

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.errands.all().remove(self.id.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errand_lasts_as_long_as_its_request() {
        let errands = Errands::default();
        let under_way = errands.begin(None, "me".to_owned());
        let id = under_way.id.to_string();
        let workspace = WorkspaceId::random();
        errands.find(&id).unwrap().note(&workspace);
        assert_eq!(under_way.errand.made(), Some(workspace));
        drop(under_way);
        let gone = errands.find(&id).err().map(|fault| fault.code);
        assert_eq!(gone, Some(Code::BadRequest));
    }
}
