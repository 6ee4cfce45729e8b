//! The client's end of `GET /projects/{id}/receive-pack`, for `git push`.

use super::transport::went_away;
use super::websocket::{Socket, open};
use super::{Client, Fault};
use crate::ErrorBody;
use crate::project::PACK_EOF;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use holm_core::{Code, ProjectId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// A connection to git's receive-pack on the daemon's bare repository of a project.
#[derive(Debug)]
pub struct PackSocket(Socket);

const CHUNK: usize = 64 * 1024;

// === impl Client ===

impl Client {
    pub async fn receive_pack(&self, id: &ProjectId) -> Result<PackSocket, Fault> {
        let route = format!("/projects/{id}/receive-pack");
        open(&self.transport, &route).await.map(PackSocket)
    }
}

// === impl PackSocket ===

impl PackSocket {
    /// Copies bytes both ways until receive-pack has succeeded; `input` may end earlier.
    pub async fn pump(
        self,
        mut input: impl AsyncRead + Unpin,
        mut output: impl AsyncWrite + Unpin,
    ) -> Result<(), Fault> {
        let (mut sink, mut stream) = self.0.split();
        let feed = async move {
            let mut chunk = vec![0; CHUNK];
            loop {
                let length = input.read(&mut chunk).await.unwrap_or(0);
                let message = match length {
                    0 => Message::text(PACK_EOF),
                    _ => Message::Binary(Bytes::copy_from_slice(&chunk[..length])),
                };
                // The daemon closed the connection; the other direction reports why.
                if sink.send(message).await.is_err() || length == 0 {
                    return sink;
                }
            }
        };
        let hear = async move {
            while let Some(message) = stream.next().await {
                match message.map_err(went_away)? {
                    Message::Binary(bytes) => {
                        output.write_all(&bytes).await.map_err(not_written)?;
                        output.flush().await.map_err(not_written)?;
                    }
                    Message::Text(text) => return Err(fault(&text)),
                    Message::Close(Some(frame)) if frame.code == CloseCode::Normal => {
                        return Ok(());
                    }
                    Message::Close(_) => break,
                    _ => {}
                }
            }
            Err(fault(""))
        };
        tokio::pin!(feed, hear);
        tokio::select! {
            received = &mut hear => received,
            // The stream keeps the connection open, so the sink may be dropped.
            _sink = &mut feed => hear.await,
        }
    }
}

fn not_written(error: std::io::Error) -> Fault {
    Fault::new(
        Code::GitFailed,
        "git no longer listens to the daemon",
        "try again",
    )
    .because(error)
}

fn fault(text: &str) -> Fault {
    match serde_json::from_str::<ErrorBody>(text) {
        Ok(body) => body.into(),
        Err(_) => Fault::new(
            Code::GitFailed,
            "the daemon ended the push before it was done",
            "see the daemon's log, then try again",
        ),
    }
}
