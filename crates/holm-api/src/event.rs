//! Events on the wire.
//!
//! - `GET /events?after=CURSOR&follow=true` → JSON Lines of [`Event`]; without `follow` it ends
//!   with
//!   the newest. The last line may be a [`Missed`]: the reader was so slow that events were dropped.
//! - The same as a WebSocket: a text message per event, which follows unless `follow=false`.
//!
//! `workspace`, `type` and `limit` filter. The response header [`CURSOR`] says where the stream
//! begins, so that a client that loses the daemon before the first event can continue from there.

use holm_core::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The response header with the cursor after which the stream begins.
pub const CURSOR: &str = "holm-cursor";

/// An event.
///
/// Types: `workspace.created|started|stopped|failed|removed|restored|renamed`,
/// `port.opened|closed|moved`, `checkout.changed|lost`, `session.started|exited|attention`,
/// `inbox.opened|closed`, `notify.failed`, …
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Increases with every event; use it as `after=`.
    pub cursor: u64,
    pub time: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// An id.
    #[schema(value_type = WorkspaceId)]
    pub workspace: String,
    /// Depends on the type: `label`, `project`, `port`, `name`, `host_port`, `url`, `reason`, …
    #[serde(flatten)]
    pub detail: serde_json::Map<String, serde_json::Value>,
}

/// The reader missed events, and where to continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Missed {
    /// `events.missed`
    #[serde(rename = "type")]
    pub kind: String,
    pub missed: u64,
    /// Use it as `after=` to continue with the events that still exist.
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
