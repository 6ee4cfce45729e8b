//! Who is connected to which workspace, and whether anything moves: the limit of connections, and
//! what counts as use of a workspace.

use holm_core::WorkspaceId;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Connections from outside that one workspace may have at a time. Each takes two descriptors of
/// the daemon.
const MOST_CONNECTIONS: usize = 512;

/// A handle; clones share everything.
#[derive(Clone)]
pub struct Traffic {
    lines: Arc<Mutex<HashMap<WorkspaceId, Arc<Line>>>>,
    most: usize,
}

#[derive(Default)]
struct Line {
    connections: AtomicUsize,
    has_moved: AtomicBool,
}

/// One connection, counted until it is dropped.
pub struct Connection(Arc<Line>);

/// A stream whose bytes count as traffic.
pub struct Counted<S> {
    stream: S,
    connection: Connection,
}

/// Whether a read brought bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Something,
    Nothing,
}

/// Reads, and says whether anything came.
pub(crate) fn read_and_tell(
    stream: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> (Poll<io::Result<()>>, Heard) {
    let before = buffer.filled().len();
    let polled = Pin::new(stream).poll_read(context, buffer);
    match buffer.filled().len() > before {
        true => (polled, Heard::Something),
        false => (polled, Heard::Nothing),
    }
}

// === impl Traffic ===

impl Traffic {
    /// For a daemon that may have so many files open: one workspace takes at most a quarter.
    pub fn for_files(files: u64) -> Self {
        let fitting = usize::try_from(files / 8).unwrap_or(MOST_CONNECTIONS);
        Self {
            lines: Arc::default(),
            most: fitting.clamp(1, MOST_CONNECTIONS),
        }
    }

    /// Counts a new connection; `None` when the workspace has as many as it may.
    pub fn connect(&self, id: &WorkspaceId) -> Option<Connection> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(id.clone()).or_default();
        if line.connections.load(Ordering::Relaxed) >= self.most {
            return None;
        }
        line.connections.fetch_add(1, Ordering::Relaxed);
        line.has_moved.store(true, Ordering::Relaxed);
        Some(Connection(Arc::clone(line)))
    }

    /// Something moved that is not counted here.
    pub fn note(&self, id: &WorkspaceId) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(id.clone()).or_default();
        line.has_moved.store(true, Ordering::Relaxed);
    }

    /// The workspaces that had traffic since this was last called.
    pub fn take_moved(&self) -> Vec<WorkspaceId> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moved = Vec::new();
        lines.retain(|id, line| {
            if line.has_moved.swap(false, Ordering::Relaxed) {
                moved.push(id.clone());
            }
            line.connections.load(Ordering::Relaxed) > 0
        });
        moved
    }
}

// === impl Connection ===

impl Connection {
    pub fn counting<S>(self, stream: S) -> Counted<S> {
        Counted {
            stream,
            connection: self,
        }
    }

    fn note(&self) {
        if !self.0.has_moved.load(Ordering::Relaxed) {
            self.0.has_moved.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Counted ===

impl<S> Counted<S> {
    pub fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (polled, heard) = read_and_tell(&mut self.stream, context, buffer);
        if heard == Heard::Something {
            self.connection.note();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if polled.is_ready() {
            self.connection.note();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_and_have_a_limit() {
        let traffic = Traffic::for_files(4096);
        let (one, other) = (WorkspaceId::random(), WorkspaceId::random());
        let mut connections: Vec<_> = (0..MOST_CONNECTIONS)
            .map(|_| traffic.connect(&one).unwrap())
            .collect();
        assert!(traffic.connect(&one).is_none());
        assert!(traffic.connect(&other).is_some());
        connections.pop();
        assert!(traffic.connect(&one).is_some());
    }

    #[test]
    fn where_few_files_may_be_open_the_limit_is_lower() {
        for (files, most) in [(0, 1), (1024, 128), (4096, 512), (u64::MAX, 512)] {
            assert_eq!(Traffic::for_files(files).most, most, "{files}");
        }
    }

    #[test]
    fn what_moved_is_told_once() {
        let traffic = Traffic::for_files(4096);
        let one = WorkspaceId::random();
        let connection = traffic.connect(&one).unwrap();
        assert_eq!(traffic.take_moved(), std::slice::from_ref(&one));
        assert!(traffic.take_moved().is_empty());
        connection.note();
        assert_eq!(traffic.take_moved(), [one]);
    }
}
