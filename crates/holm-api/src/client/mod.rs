//! The typed client: one method per route of the daemon's API on its Unix socket.
//!
//! The CLI and MCP use it. Every failure is a [`Fault`]: the daemon's own, or `daemon_unreachable`.
//! A client is cheap to clone; clones share their open connections.

mod create;
mod events;
mod exec;
mod files;
mod lines;
mod progress;
mod query;
mod receive_pack;
mod requests;
mod routes;
mod run;
mod service;
mod session;
mod socket;
mod transport;
mod websocket;

pub use create::CreateStream;
pub use events::{EventLine, EventStream, Until};
pub use exec::{ExecEvent, ExecReceiver, ExecSender, ExecSocket};
pub use files::{FileDeletion, FileRange, FileSearch, FileWrite, Secrets};
pub use receive_pack::PackSocket;
pub use routes::Verify;
pub use run::RunOutput;
pub use service::Following;
pub use session::{AttachEvent, AttachReceiver, AttachSender, AttachSocket};

use holm_core::{Code, Fault};
use hyper::header::HeaderValue;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transport::Transport;
pub use transport::{Revive, Reviving};

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

    /// Connects without waiting for an answer, to save a round trip. If the daemon is gone when the
    /// first request is sent, `revive` replaces it and the request is sent to the next one.
    pub async fn begin(socket: impl Into<PathBuf>, revive: Revive) -> Result<Self, Fault> {
        let transport = Transport::begin(socket.into(), revive).await?;
        Ok(Self {
            transport: Arc::new(transport),
        })
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
