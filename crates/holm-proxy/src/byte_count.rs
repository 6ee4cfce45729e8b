//! A stream that counts the bytes read from and written to it. Two users: connections into
//! workspaces ([`crate::visit`]), and connections on which the gateway replaces placeholders by
//! secrets. The reader of the counts decides which direction counts as inward.

use crate::stream::Stream;
use crate::watched::{Watch, Watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpStream;

/// Bytes read from and written to connections.
#[derive(Debug, Default)]
pub struct Counts {
    read: AtomicU64,
    written: AtomicU64,
}

pub type CountedStream = Watched<Arc<Counts>, Stream>;

// === impl Counts ===

impl Counts {
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

// === impl CountedStream ===

impl CountedStream {
    pub fn new(stream: impl Into<Stream>, counts: Arc<Counts>) -> Self {
        Self {
            stream: stream.into(),
            watch: counts,
        }
    }

    /// The TCP connection, where it is one.
    pub fn tcp(&self) -> Option<&TcpStream> {
        self.stream.tcp()
    }
}

impl Watch for Arc<Counts> {
    fn read(&mut self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn written(&mut self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
