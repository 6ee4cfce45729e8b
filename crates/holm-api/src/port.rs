//! Ports on the wire.
//!
//! - `GET  /ports`, `GET /workspaces/{id}/ports` → [`PortList`]
//! - `GET  /checkout` → [`CheckoutList`]; `POST` ([`Checkout`]) → [`CheckoutList`] of what changed;
//!   `DELETE` → [`CheckoutList`] of what was released

use crate::id::WorkspaceId;
use crate::workspace::Port;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PortList {
    pub ports: Vec<WorkspacePort>,
}

/// A port, and whose it is.
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

/// A workspace takes canonical ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkout {
    /// An id.
    #[schema(value_type = WorkspaceId)]
    pub workspace: String,
    /// Names of its ports; left out: all that it declares.
    #[serde(default)]
    pub ports: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckoutList {
    pub checkout: Vec<CanonicalPort>,
}

/// A port of the host's loopback, and where it leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CanonicalPort {
    pub port: u16,
    pub name: String,
    #[serde(flatten)]
    pub holder: Holder,
    /// Who had it until now, if it was another.
    #[schema(required)]
    pub before: Option<Holder>,
    /// Why it does not lead there at the moment.
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
