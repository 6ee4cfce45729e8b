//! Sessions: requests, and attaching.

use super::Client;
use super::query::query_string;
use super::transport::not_json;
use super::websocket::{self, Incoming, Outgoing};
use crate::ErrorBody;
use crate::session::{
    Attach, AttachToClient, AttachToServer, CONTROL, INPUT, LONGEST_WAIT_MS, OUTPUT, Wait,
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use holm_core::session::protocol::{AttachMessage, WaitEnd, Waited};
use holm_core::{Code, Fault, SessionId, WorkspaceId};
use hyper::Method;
use std::time::{Duration, Instant};

/// An attached session. Dropping both halves detaches.
#[derive(Debug)]
pub struct AttachSocket {
    pub sender: AttachSender,
    pub receiver: AttachReceiver,
}

#[derive(Debug)]
pub struct AttachSender(Outgoing);

#[derive(Debug)]
pub struct AttachReceiver(Incoming);

/// An event of an attached session.
#[derive(Clone, Debug, PartialEq)]
pub enum AttachEvent {
    Output(Bytes),
    Control(AttachMessage),
}

// === impl Client ===

impl Client {
    /// Waits until `wait` is fulfilled or times out, with as many requests as necessary.
    pub async fn wait_for_session(
        &self,
        id: &WorkspaceId,
        session: &SessionId,
        mut wait: Wait,
    ) -> Result<Waited, Fault> {
        let route = format!("/workspaces/{id}/sessions/{session}/wait");
        let limit = wait.timeout_ms.map(Duration::from_millis);
        let begun = Instant::now();
        loop {
            let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            let left = left.map_or(LONGEST_WAIT_MS, |left| left.as_millis() as u64);
            wait.timeout_ms = Some(left.min(LONGEST_WAIT_MS));
            let waited: Waited = self.transport.json(Method::POST, &route, &wait).await?;
            if waited.reason != WaitEnd::Timeout || left <= LONGEST_WAIT_MS && limit.is_some() {
                return Ok(waited);
            }
            wait.since = Some(waited.since);
        }
    }

    /// Attaches; the first event is [`AttachMessage::Attached`].
    pub async fn attach_session(
        &self,
        id: &WorkspaceId,
        session: &SessionId,
        attach: &Attach,
    ) -> Result<AttachSocket, Fault> {
        let query = query_string(attach);
        let route = format!("/workspaces/{id}/sessions/{session}/attach?{query}");
        let (sink, stream) = websocket::open(&self.transport, &route).await?.split();
        Ok(AttachSocket {
            sender: AttachSender(sink),
            receiver: AttachReceiver(stream),
        })
    }
}

// === impl AttachSender ===

impl AttachSender {
    pub async fn input(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        websocket::say(&mut self.0, INPUT, bytes).await
    }

    pub async fn say(&mut self, message: &AttachToServer) -> Result<(), Fault> {
        let json = serde_json::to_vec(message).map_err(not_json)?;
        websocket::say(&mut self.0, CONTROL, &json).await
    }

    /// Detaches.
    pub async fn detach(&mut self) {
        // Fails only when the connection is gone already.
        let _ = self.0.close().await;
    }
}

// === impl AttachReceiver ===

impl AttachReceiver {
    pub async fn next(&mut self) -> Result<AttachEvent, Fault> {
        loop {
            let Some((channel, message)) = websocket::receive(&mut self.0).await? else {
                return Err(cut_off());
            };
            match channel {
                OUTPUT => return Ok(AttachEvent::Output(message)),
                CONTROL => match serde_json::from_slice(&message).map_err(not_json)? {
                    AttachToClient::Error { error } => return Err(ErrorBody { error }.into()),
                    AttachToClient::Message(message) => return Ok(AttachEvent::Control(message)),
                },
                // A channel that only a newer daemon knows.
                _ => {}
            }
        }
    }
}

fn cut_off() -> Fault {
    Fault::new(
        Code::DaemonUnreachable,
        "the daemon ended the connection to the session",
        "see `holm daemon status`; the session goes on, `holm session ls` lists it",
    )
}
