//! Ports on the wire.
//!
//! - `GET  /ports`, `GET /workspaces/{id}/ports` → [`PortList`]
//! - `GET  /checkout` → [`CheckoutList`]; `POST` ([`Checkout`]) → [`CheckoutList`] of what changed;
//!   `DELETE` → [`CheckoutList`] of what was released

use crate::workspace::Port;
use holm_core::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PortList {
    pub ports: Vec<WorkspacePort>,
}

/// A port with its workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspacePort {
    /// An id.
    #[schema(value_type = WorkspaceId)]
    pub workspace: String,
    pub label: String,
    pub project: String,
    #[serde(flatten)]
    pub port: Port,
}

/// Gives canonical ports to a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkout {
    /// An id.
    #[schema(value_type = WorkspaceId)]
    pub workspace: String,
    /// Names of its ports; omitted: all that it declares.
    #[serde(default)]
    pub ports: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckoutList {
    pub checkout: Vec<CanonicalPort>,
}

/// A canonical port of the host and the workspace that holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CanonicalPort {
    pub port: u16,
    pub name: String,
    #[serde(flatten)]
    pub holder: Holder,
    /// The holder before, if it was another workspace.
    #[schema(required)]
    pub before: Option<Holder>,
    /// Why the port is not forwarded at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    /// An id.
    #[schema(value_type = WorkspaceId)]
    pub workspace: String,
    pub label: String,
    pub project: String,
}
