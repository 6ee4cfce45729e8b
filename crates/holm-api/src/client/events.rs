//! A stream of events.

use super::Client;
use super::lines::Lines;
use super::transport::{Connection, full, good};
use crate::ErrorBody;
use crate::event::{CURSOR, Event, Missed};
use bytes::Bytes;
use holm_core::Fault;
use hyper::Method;
use serde::Deserialize;

/// Dropping it ends the request.
pub struct EventStream {
    lines: Lines,
    cursor: Option<u64>,
    _connection: Connection,
}

/// When a stream of events ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After the newest event.
    Now,
    /// Never.
    Ever,
}

/// One line of the response.
#[derive(Clone, Debug, PartialEq)]
pub enum EventLine {
    Event(Event),
    /// The last line: the reader was too slow.
    Missed(Missed),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Error(ErrorBody),
    Event(Event),
    Missed(Missed),
}

// === impl Client ===

impl Client {
    /// Events after a cursor, then new ones.
    pub async fn events(&self, after: Option<u64>, until: Until) -> Result<EventStream, Fault> {
        let follow = until == Until::Ever;
        let after = after.map_or_else(String::new, |after| format!("&after={after}"));
        let route = format!("/events?follow={follow}{after}");
        let (response, connection) = self
            .transport
            .send(Method::GET, &route, full(Bytes::new()))
            .await?;
        let response = good(response).await?;
        let cursor = response.headers().get(CURSOR);
        let cursor = cursor.and_then(|cursor| cursor.to_str().ok()?.parse().ok());
        Ok(EventStream {
            lines: Lines::new(response.into_body()),
            cursor,
            _connection: connection,
        })
    }
}

// === impl EventStream ===

impl EventStream {
    /// The event after which the stream starts; `None` with an older daemon.
    pub fn cursor(&self) -> Option<u64> {
        self.cursor
    }

    /// `None` at the end.
    pub async fn next(&mut self) -> Result<Option<EventLine>, Fault> {
        Ok(match self.lines.next_if_any().await? {
            Some(Line::Event(event)) => Some(EventLine::Event(event)),
            Some(Line::Missed(missed)) => Some(EventLine::Missed(missed)),
            Some(Line::Error(body)) => return Err(body.into()),
            None => None,
        })
    }
}
