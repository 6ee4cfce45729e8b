//! The answer to `POST /workspaces`: JSON Lines, read one event at a time.

use super::Client;
use super::transport::{Connection, not_json, went_away};
use crate::workspace::CreateEvent;
use crate::{ErrorBody, Workspace};
use bytes::BytesMut;
use holm_core::{Code, Fault};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// A creation under way. The last event is the workspace; a failure is an `Err`.
#[derive(Debug)]
pub struct CreateStream {
    client: Client,
    // Dropped with the stream: the daemon notices and undoes an unfinished creation.
    _connection: Connection,
    body: Incoming,
    unread: BytesMut,
    begun: Option<String>,
}

// === impl CreateStream ===

impl CreateStream {
    pub(super) fn new(client: Client, connection: Connection, body: Incoming) -> Self {
        Self {
            client,
            _connection: connection,
            body,
            unread: BytesMut::new(),
            begun: None,
        }
    }

    /// The next `progress`, or the `workspace` that ends the stream.
    pub async fn next(&mut self) -> Result<CreateEvent, Fault> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = self.unread.split_to(end + 1);
                match serde_json::from_slice(&line).map_err(not_json)? {
                    CreateEvent::Begun { id } => self.begun = Some(id),
                    CreateEvent::Error(error) => return Err(ErrorBody { error }.into()),
                    event => return Ok(event),
                }
                continue;
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.unread.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(went_away(&error)),
                None => return Err(cut_off()),
            }
        }
    }

    /// Reads to the end, telling `progress` on the way.
    pub async fn finish(
        &mut self,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<Workspace, Fault> {
        loop {
            match self.next().await? {
                CreateEvent::Progress { step, done, total } => progress(&step, done, total),
                CreateEvent::Workspace(workspace) => return Ok(*workspace),
                // `next` keeps these for itself.
                CreateEvent::Begun { .. } | CreateEvent::Error(_) => {}
            }
        }
    }

    /// Ends the creation and returns when the daemon has undone all of it.
    pub async fn cancel(self) -> Result<(), Fault> {
        match &self.begun {
            Some(id) => self.client.cancel(id).await.map(|_| ()),
            // Nothing was begun that would have to be undone; closing the connection is enough.
            None => Ok(()),
        }
    }
}

fn cut_off() -> Fault {
    Fault::new(
        Code::DaemonUnreachable,
        "the daemon's answer ended in the middle",
        "see `holm daemon status`, then try again",
    )
}
