//! Events on the wire.
//!
//! - `GET /events?after=CURSOR&follow=true` → JSON Lines of [`Event`]; without `follow` it ends with
//!   the newest. The last line may be a [`Missed`]: the reader was so slow that events are gone.
//! - The same as a WebSocket: a text message for each, and without `follow=false` on and on.
//!
//! `workspace`, `type` and `limit` tell less. The header [`CURSOR`] of the answer says where it begins,
//! so that whoever lost the daemon before the first event goes on behind it.

use crate::id::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The header that says behind which event an answer begins.
pub const CURSOR: &str = "holm-cursor";

/// Something that happened.
///
/// Types: `workspace.created|started|stopped|failed|removed|restored|renamed`,
/// `port.opened|closed|moved`, `checkout.changed|lost`, `session.started|exited|attention`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Grows; `after=` takes it.
    pub cursor: u64,
    pub time: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// An id.
    #[schema(value_type = WorkspaceId)]
    pub workspace: String,
    /// What belongs to the type: `label`, `project`, `port`, `name`, `host_port`, `url`, `reason`, …
    #[serde(flatten)]
    pub detail: serde_json::Map<String, serde_json::Value>,
}

/// Says that events were missed, and how to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Missed {
    /// `events.missed`
    #[serde(rename = "type")]
    pub kind: String,
    pub missed: u64,
    /// `after=` this goes on with what is still there.
    pub cursor: u64,
}

// === impl Missed ===

impl Missed {
    pub fn new(missed: u64, cursor: u64) -> Self {
        Self {
            kind: "events.missed".to_owned(),
            missed,
            cursor,
        }
    }
}
