//! A stream into a workspace that records two facts for the HTTP client: the server has sent bytes,
//! and the workspace is in use.

use super::Used;
use crate::traffic;
use crate::visit::Visit;
use holm_core::WorkspaceId;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub struct Wire {
    stream: Visit,
    received: Received,
    id: WorkspaceId,
    used: Used,
    reported_at: Instant,
}

/// Whether the server sent bytes since the last call.
#[derive(Clone, Default)]
pub struct Received(Arc<AtomicBool>);

/// The interval at which use is reported again.
const OFTEN: Duration = Duration::from_secs(5);

// === impl Received ===

impl Received {
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

// === impl Wire ===

impl Wire {
    pub fn new(stream: Visit, id: &WorkspaceId, used: &Used) -> (Self, Received) {
        // Latency only: without it the connection still works.
        if let Some(stream) = stream.tcp() {
            let _ = stream.set_nodelay(true);
        }
        let received = Received::default();
        let wire = Self {
            stream,
            received: received.clone(),
            id: id.clone(),
            used: Arc::clone(used),
            reported_at: Instant::now(),
        };
        (wire, received)
    }

    fn note_use(&mut self) {
        if self.reported_at.elapsed() >= OFTEN {
            self.reported_at = Instant::now();
            (self.used)(&self.id);
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (polled, received) = traffic::poll_read_reporting(&mut self.stream, context, buffer);
        if received {
            self.received.0.store(true, Ordering::Relaxed);
            self.note_use();
        }
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.note_use();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.note_use();
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
