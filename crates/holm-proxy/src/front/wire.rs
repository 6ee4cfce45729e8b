//! A connection into a workspace as the HTTP client sees it: the stream, with two things noted on
//! the way: that the other side said something, and that the workspace is in use.

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
    heard: Heard,
    id: WorkspaceId,
    used: Used,
    told: Instant,
}

/// Whether the workspace said something since this was last asked.
#[derive(Clone, Default)]
pub struct Heard(Arc<AtomicBool>);

/// Use is told again after this.
const OFTEN: Duration = Duration::from_secs(5);

// === impl Heard ===

impl Heard {
    pub fn anything(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

// === impl Wire ===

impl Wire {
    pub fn new(stream: Visit, id: &WorkspaceId, used: &Used) -> (Self, Heard) {
        // Without it small answers wait for nothing; that is slow, not wrong.
        let _ = stream.get_ref().set_nodelay(true);
        let heard = Heard::default();
        let wire = Self {
            stream,
            heard: heard.clone(),
            id: id.clone(),
            used: Arc::clone(used),
            told: Instant::now(),
        };
        (wire, heard)
    }

    fn note_use(&mut self) {
        if self.told.elapsed() >= OFTEN {
            self.told = Instant::now();
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
        let (polled, heard) = traffic::read_and_tell(&mut self.stream, context, buffer);
        if heard == traffic::Heard::Something {
            self.heard.0.store(true, Ordering::Relaxed);
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
