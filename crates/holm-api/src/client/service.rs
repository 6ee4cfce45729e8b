//! Services and their logs, once or as a stream.

use super::lines::Lines;
use super::transport::{Connection, full, good};
use super::{Client, query_string};
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
}
