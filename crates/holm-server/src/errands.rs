//! Requests of the API that the client's own program carries out for the daemon: `POST /workspaces` starts
//! it, and what it asks for by itself names the errand that it is on. So a key of the first request
//! stands for what the second one makes, whichever of the processes dies.
//!
//! An errand lasts as long as its request; whoever comes back later, to this daemon or the next, is refused
//! and makes nothing that nobody waits for.

use holm_core::{Code, Fault, RequestId, WorkspaceId};
use holm_engine::Turn;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All that are under way, by their ids. Clones share them.
#[derive(Clone, Default)]
pub struct Errands(Arc<Mutex<HashMap<String, Arc<Errand>>>>);

/// What is known of one.
pub struct Errand {
    /// The right of the request that it is for, if that has a key.
    pub turn: Option<Turn>,
    /// Whose the workspace is.
    pub owner: String,
    made: Mutex<Option<WorkspaceId>>,
}

/// One that is under way until this is dropped.
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
                Code::Cancelled,
                "the request that this is done for is over",
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
    /// A workspace is being made on it.
    pub fn note(&self, id: &WorkspaceId) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.clone());
    }

    /// The workspace that was or is being made, if it came to that.
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
        assert_eq!(gone, Some(Code::Cancelled));
    }
}
