//! `POST /workspaces/{id}/browser` → [`Browser`]: where a browser finds a workspace's world.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Browser {
    /// Of a SOCKS 5 endpoint on 127.0.0.1, in which `localhost` is the workspace.
    pub port: u16,
}
