//! Reads a response of JSON Lines.

use super::transport::{not_json, went_away};
use bytes::BytesMut;
use holm_core::{Code, Fault};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

#[derive(Debug)]
pub(super) struct Lines {
    body: Incoming,
    unread: BytesMut,
}

// === impl Lines ===

impl Lines {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body,
            unread: BytesMut::new(),
        }
    }

    /// The next line. An end of the stream is an error, because the caller knows the last line.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Result<T, Fault> {
        self.next_if_any().await?.ok_or_else(cut_off)
    }

    /// The next line; `None` at the end of the stream.
    pub(super) async fn next_if_any<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Fault> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = self.unread.split_to(end + 1);
                return serde_json::from_slice(&line).map(Some).map_err(not_json);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.unread.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(went_away(error)),
                None if self.unread.is_empty() => return Ok(None),
                None => return Err(cut_off()),
            }
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
