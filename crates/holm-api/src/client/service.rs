//! Services and their logs, once or as a stream.

use super::Client;
use super::lines::Lines;
use super::transport::{Connection, full, good};
use crate::service::{LogLine, ServiceList};
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

/// Filters for log lines.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    /// Empty: all services.
    pub services: Vec<String>,
    /// RFC 3339.
    pub since: Option<String>,
    pub last: Option<usize>,
    pub follow: Follow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    #[default]
    No,
    Yes,
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
        let mut route = format!(
            "/workspaces/{id}/logs?services={}",
            escaped(&query.services.join(","))
        );
        if let Some(since) = &query.since {
            route.push_str(&format!("&since={}", escaped(since)));
        }
        if let Some(last) = query.last {
            route.push_str(&format!("&last={last}"));
        }
        if query.follow == Follow::Yes {
            route.push_str("&follow=true");
        }
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
}

/// Percent-encodes a query value.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' | b',' => {
                safe.push(char::from(byte));
            }
            _ => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_parameter() {
        assert_eq!(escaped("web,db_2"), "web,db_2");
        assert_eq!(escaped("a&follow=true ü"), "a%26follow%3Dtrue%20%C3%BC");
    }
}
