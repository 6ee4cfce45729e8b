//! `POST /workspaces/{id}/browser` → [`Browser`]: the SOCKS endpoint for a workspace's browser.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Browser {
    /// The port on 127.0.0.1 of a SOCKS 5 endpoint in which `localhost` is the workspace.
    pub port: u16,
}
