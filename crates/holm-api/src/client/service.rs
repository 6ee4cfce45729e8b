//! Services, their logs and the egress record as streams.

use super::Client;
use super::lines::Lines;
use super::query::query_string;
use super::transport::{Connection, full, good};
use crate::egress::EgressEntry;
use crate::service::{LogLine, LogQuery, ServiceList};
use bytes::Bytes;
use holm_core::{Fault, WorkspaceId};
use hyper::Method;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// A response that goes on until the client drops it.
#[derive(Debug)]
pub struct Following<T> {
    // Dropping it closes the connection.
    _connection: Connection,
    lines: Lines,
    item: PhantomData<T>,
}

// === impl Client ===

impl Client {
    pub async fn watch_services(&self, id: &WorkspaceId) -> Result<Following<ServiceList>, Fault> {
        self.follow(&format!("/workspaces/{id}/services?watch=true"))
            .await
    }

    pub async fn logs(
        &self,
        id: &WorkspaceId,
        query: &LogQuery,
    ) -> Result<Following<LogLine>, Fault> {
        let query = query_string(query);
        self.follow(&format!("/workspaces/{id}/logs?{query}")).await
    }

    /// The last `limit` entries of the egress record, then every new one.
    pub async fn follow_egress(
        &self,
        id: &WorkspaceId,
        limit: u64,
    ) -> Result<Following<EgressEntry>, Fault> {
        let route = format!("/workspaces/{id}/egress?limit={limit}&follow=true");
        self.follow(&route).await
    }

    async fn follow<T>(&self, route: &str) -> Result<Following<T>, Fault> {
        let sent = self.transport.send(Method::GET, route, full(Bytes::new()));
        let (response, connection) = sent.await?;
        Ok(Following {
            _connection: connection,
            lines: Lines::new(good(response).await?.into_body()),
            item: PhantomData,
        })
    }
}

// === impl Following ===

impl<T: DeserializeOwned> Following<T> {
    /// The next item; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<T>, Fault> {
        self.lines.next_if_any().await
    }

    /// The next item of a response that never ends by itself.
    pub async fn next_of_endless(&mut self) -> Result<T, Fault> {
        self.lines.next().await
    }
}
