//! Reads the response to `POST /projects/{id}/workspaces`, a stream of JSON Lines.

use super::Client;
use super::lines::Lines;
use super::transport::Connection;
use crate::workspace::CreateEvent;
use crate::{ErrorBody, Workspace};
use holm_core::Fault;
use hyper::body::Incoming;

/// A creation under way. The last event is the workspace; a failure is an `Err`.
#[derive(Debug)]
pub struct CreateStream {
    client: Client,
    // Dropping it closes the connection, and the daemon undoes an unfinished creation.
    _connection: Connection,
    lines: Lines,
    begun: Option<String>,
}

// === impl CreateStream ===

impl CreateStream {
    pub(super) fn new(client: Client, connection: Connection, body: Incoming) -> Self {
        Self {
            client,
            _connection: connection,
            lines: Lines::new(body),
            begun: None,
        }
    }

    /// The next `progress`, or the final `workspace`.
    pub async fn next(&mut self) -> Result<CreateEvent, Fault> {
        loop {
            match self.read().await? {
                CreateEvent::Begun { .. } => {}
                event => return Ok(event),
            }
        }
    }

    /// The next event of any kind.
    async fn read(&mut self) -> Result<CreateEvent, Fault> {
        match self.lines.next().await? {
            CreateEvent::Error(error) => Err(ErrorBody { error }.into()),
            event => {
                if let CreateEvent::Begun { id } = &event {
                    self.begun = Some(id.clone());
                }
                Ok(event)
            }
        }
    }

    /// Reads to the end and calls `progress` on the way.
    pub async fn finish(
        &mut self,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<Workspace, Fault> {
        loop {
            match self.next().await? {
                CreateEvent::Progress { step, done, total } => progress(&step, done, total),
                CreateEvent::Workspace(workspace) => return Ok(*workspace),
                // `next` handles these itself.
                CreateEvent::Begun { .. } | CreateEvent::Error(_) => {}
            }
        }
    }

    /// Cancels the creation and returns when the daemon has undone it.
    pub async fn cancel(mut self) -> Result<(), Fault> {
        let id = loop {
            if let Some(id) = &self.begun {
                break id;
            }
            match self.read().await {
                Ok(CreateEvent::Begun { .. } | CreateEvent::Progress { .. }) => {}
                // The workspace existed before or the creation failed, so nothing was made.
                Ok(_) | Err(_) => return Ok(()),
            }
        };
        self.client.cancel(id).await.map(|_| ())
    }
}
