//! Parses stored specs, each text of a workspace once.
//!
//! A spec has some kilobytes of JSON, and every list reads all of them. The memory holds for each workspace the last text
//! with the spec that it means, and answers only for exactly that text, so it can never be out of date.

use holm_core::WorkspaceId;
use holm_core::spec::WorkspaceSpec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The last text of each workspace and its spec, in no particular store: a text means the same in all of them.
static PARSED: Mutex<Option<HashMap<WorkspaceId, Parsed>>> = Mutex::new(None);

/// How many are kept. Workspaces that no longer exist are dropped with all others.
const MOST: usize = 4096;

struct Parsed {
    text: Box<str>,
    spec: Arc<WorkspaceSpec>,
}

pub(crate) fn parsed(
    id: &WorkspaceId,
    text: &str,
) -> Result<Arc<WorkspaceSpec>, serde_json::Error> {
    let mut all = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(known) = all.get(id).filter(|known| *known.text == *text) {
        return Ok(Arc::clone(&known.spec));
    }
    let spec: Arc<WorkspaceSpec> = Arc::new(serde_json::from_str(text)?);
    if all.len() >= MOST {
        all.clear();
    }
    let parsed = Parsed {
        text: text.into(),
        spec: Arc::clone(&spec),
    };
    all.insert(id.clone(), parsed);
    Ok(spec)
}
