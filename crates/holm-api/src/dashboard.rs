//! The sign-in of browsers to the dashboard.
//!
//! - `POST /dashboard` → [`Opened`], for the user at the Unix socket
//! - outside of the API, for the page: `POST /ui/login` ([`Code`]) → [`SignedIn`]; `POST /ui/tab` → [`SignedIn`];
//!   `POST /ui/ticket` → [`Ticket`]; `POST /ui/logout`; `GET /ui/state` → [`UiState`]

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An address that signs a browser in, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Opened {
    /// The code is in the fragment, which browsers do not send.
    pub url: String,
    pub expires_seconds: u64,
}

/// What the page exchanges.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    pub code: String,
}

/// The secret of one tab, which the page sends as `X-Holm-Tab`.
#[derive(Clone, Serialize, Deserialize)]
pub struct SignedIn {
    pub token: String,
}

/// A proof for one WebSocket, which the page offers as the subprotocol `ticket.…`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Ticket {
    pub ticket: String,
}

/// What the page says about this daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UiState {
    pub version: String,
    pub port: u16,
    pub home: String,
    /// The memory of the machine, in bytes.
    pub memory: Option<u64>,
}
