//! The typed client: one method per route of the daemon's API on its Unix socket.
//!
//! The CLI and MCP use it. Every failure is a [`Fault`]: the daemon's own, or `daemon_unreachable`.
//! A client is cheap to clone; clones share their open connections.

mod access;
mod create;
mod egress;
mod events;
mod exec;
mod files;
mod lines;
mod moves;
mod receive_pack;
mod requests;
mod routes;
mod run;
mod secret;
mod service;
mod session;
mod socket;
mod transport;
mod websocket;
mod work;

pub use create::CreateStream;
pub use egress::EgressStream;
pub use events::{EventLine, EventStream, Until};
pub use exec::{ExecEvent, ExecReceiver, ExecSender, ExecSocket};
pub use files::{FileDeletion, FileRange, FileSearch, FileWrite, Secrets};
pub use receive_pack::PackSocket;
pub use routes::Removal;
pub use run::RunOutput;
pub use secret::Verify;
pub use service::Following;
pub use session::{AttachEvent, AttachReceiver, AttachSender, AttachSocket};

use holm_core::{Code, Fault};
use hyper::header::HeaderValue;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transport::Transport;

/// A connection to the daemon.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Arc<Transport>,
}

// === impl Client ===

impl Client {
    /// Connects to the daemon that listens on `socket`. The path may be longer than the kernel's
    /// limit for socket addresses.
    pub async fn connect(socket: impl Into<PathBuf>) -> Result<Self, Fault> {
        Self::connect_as(socket, Vec::new()).await
    }

    /// As [`Client::connect`], sending `greeting` first, for a socket that requires one.
    pub async fn connect_as(socket: impl Into<PathBuf>, greeting: Vec<u8>) -> Result<Self, Fault> {
        let transport = Transport::connect(socket.into(), greeting, None).await?;
        Ok(Self {
            transport: Arc::new(transport),
        })
    }

    /// As [`Client::connect`], for the daemon itself when it acts for another caller: the audit
    /// record names `actor`. The daemon accepts this only from its own process.
    pub async fn connect_for(socket: impl Into<PathBuf>, actor: &str) -> Result<Self, Fault> {
        let actor = HeaderValue::from_bytes(actor.as_bytes()).map_err(|_| {
            let message = "a caller's name cannot be passed on";
            Fault::new(Code::Internal, message, "see the daemon's log")
        })?;
        let transport = Transport::connect(socket.into(), Vec::new(), Some(actor)).await?;
        Ok(Self {
            transport: Arc::new(transport),
        })
    }

    pub fn socket(&self) -> &Path {
        self.transport.socket()
    }
}

/// The fields of a query that are set, percent-encoded.
fn query_string(query: &impl Serialize) -> String {
    // A query has only plain fields, so it always has a form in JSON.
    let fields = serde_json::to_value(query).unwrap_or_default();
    let fields = fields.as_object().into_iter().flatten();
    let given = fields.filter_map(|(name, value)| {
        let text = match value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let text = utf8_percent_encode(&text, NON_ALPHANUMERIC);
        Some(format!("{name}={text}"))
    });
    given.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::LogQuery;

    #[test]
    fn nothing_leaves_its_parameter() {
        let query = LogQuery {
            services: "web,db_2&follow=true \u{fc}".to_owned(),
            last: Some(5),
            ..LogQuery::default()
        };
        assert_eq!(
            query_string(&query),
            "follow=false&last=5&services=web%2Cdb%5F2%26follow%3Dtrue%20%C3%BC"
        );
    }
}
