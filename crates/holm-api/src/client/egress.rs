//! A workspace's egress record, once or as a stream.

use super::Client;
use super::lines::Lines;
use super::transport::{Connection, good};
use crate::egress::EgressEntry;
use bytes::Bytes;
use holm_core::{Fault, WorkspaceId};
use hyper::Method;

/// The record as it grows. Never ends by itself.
pub struct EgressStream {
    lines: Lines,
    _connection: Connection,
}

// === impl Client ===

impl Client {
    /// The last `limit` entries, then every new one.
    pub async fn follow_egress(&self, id: &WorkspaceId, limit: u64) -> Result<EgressStream, Fault> {
        let route = format!("/workspaces/{id}/egress?limit={limit}&follow=true");
        let body = super::transport::full(Bytes::new());
        let (response, connection) = self.transport.send(Method::GET, &route, body).await?;
        Ok(EgressStream {
            lines: Lines::new(good(response).await?.into_body()),
            _connection: connection,
        })
    }
}

// === impl EgressStream ===

impl EgressStream {
    pub async fn next(&mut self) -> Result<EgressEntry, Fault> {
        self.lines.next().await
    }
}
