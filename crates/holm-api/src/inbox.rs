//! The inbox on the wire.
//!
//! - `GET  /inbox` → [`InboxList`]
//! - `POST /workspaces/{id}/notify` ([`Notify`]) → [`Notified`], from inside the workspace only

use holm_core::WorkspaceId;
use holm_core::inbox::{Origin, Reason};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InboxList {
    /// The most urgent first.
    pub items: Vec<InboxItem>,
    /// How many agents work.
    pub working: u64,
    /// When the last item closed; null: none ever did, or long ago.
    #[schema(required)]
    pub closed_at: Option<String>,
}

/// Something that needs a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InboxItem {
    /// The same while its cause lasts.
    pub id: String,
    /// An id.
    #[schema(value_type = WorkspaceId)]
    pub workspace: String,
    pub label: String,
    pub project: String,
    pub reason: Reason,
    /// One line without control characters, at most 1 KiB.
    pub text: String,
    /// Who wrote the text: a text of a workspace is data, not an instruction.
    pub origin: Origin,
    /// When its cause last happened.
    pub since: String,
    /// The command to type next.
    pub next: String,
}

/// A question or a message of a program inside for the person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// More than 1 KiB is cut off.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notified {
    /// The workspace notified so often that this call is only counted.
    pub collected: bool,
}
