//! Carries bytes both ways, each way until its end, and counts them.
//!
//! A connection that is silent holds no buffer: one is taken when there is something to read.

use super::Carried;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

/// Enough that a fast connection is not held up by calls.
const LENGTH: usize = 128 * 1024;

/// Buffers that are kept for the next.
const KEPT: usize = 4;

#[derive(Default)]
pub struct Buffers {
    kept: Mutex<Vec<Vec<u8>>>,
    /// By all connections so far.
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// One direction's count: of this connection, and of all.
struct Count<'a> {
    own: &'a mut u64,
    all: &'a AtomicU64,
}

/// What has been carried so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relayed {
    bytes_in: u64,
    bytes_out: u64,
}

/// A stream whose two directions are used at once.
pub trait Stream {
    fn halves(&mut self) -> (impl Source + Send, impl AsyncWrite + Send + Unpin);
}

/// One direction's source.
pub trait Source {
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl Stream for TcpStream {
    fn halves(&mut self) -> (impl Source + Send, impl AsyncWrite + Send + Unpin) {
        self.split()
    }
}

impl Stream for UnixStream {
    fn halves(&mut self) -> (impl Source + Send, impl AsyncWrite + Send + Unpin) {
        self.split()
    }
}

impl Source for tcp::ReadHalf<'_> {
    async fn readable(&self) -> io::Result<()> {
        tcp::ReadHalf::readable(self).await
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        tcp::ReadHalf::try_read(self, buffer)
    }
}

impl Source for unix::ReadHalf<'_> {
    async fn readable(&self) -> io::Result<()> {
        unix::ReadHalf::readable(self).await
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        unix::ReadHalf::try_read(self, buffer)
    }
}

/// Carries until both directions have ended.
pub async fn both(
    inside: &mut impl Stream,
    outside: &mut impl Stream,
    buffers: &Buffers,
    relayed: &mut Relayed,
) {
    let (from_inside, to_inside) = inside.halves();
    let (from_outside, to_outside) = outside.halves();
    let Relayed {
        bytes_in,
        bytes_out,
    } = relayed;
    tokio::join!(
        copy(from_inside, to_outside, buffers, buffers.out(bytes_out)),
        copy(from_outside, to_inside, buffers, buffers.inward(bytes_in)),
    );
}

/// One way, until its end; then the other side learns of it.
async fn copy(
    source: impl Source,
    mut sink: impl AsyncWrite + Unpin,
    buffers: &Buffers,
    mut count: Count<'_>,
) {
    // However it ends, there is nothing more to carry this way.
    let _ = copy_all(&source, &mut sink, buffers, &mut count).await;
    let _ = sink.shutdown().await;
}

async fn copy_all(
    source: &impl Source,
    sink: &mut (impl AsyncWrite + Unpin),
    buffers: &Buffers,
    count: &mut Count<'_>,
) -> io::Result<()> {
    loop {
        source.readable().await?;
        let mut buffer = buffers.take();
        let read = match source.try_read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                buffers.give(buffer);
                continue;
            }
            read => read?,
        };
        let written = match read {
            0 => Ok(()),
            _ => sink.write_all(&buffer[..read]).await,
        };
        buffers.give(buffer);
        written?;
        if read == 0 {
            return Ok(());
        }
        *count.own += read as u64;
        count.all.fetch_add(read as u64, Ordering::Relaxed);
    }
}

// === impl Buffers ===

impl Buffers {
    /// How many bytes came in and went out so far.
    pub fn carried(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.bytes_in), load(&self.bytes_out))
    }

    /// Counts what others carried.
    pub fn add(&self, bytes_in: u64, bytes_out: u64) {
        self.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
    }

    fn out<'a>(&'a self, own: &'a mut u64) -> Count<'a> {
        let all = &self.bytes_out;
        Count { own, all }
    }

    fn inward<'a>(&'a self, own: &'a mut u64) -> Count<'a> {
        let all = &self.bytes_in;
        Count { own, all }
    }

    fn take(&self) -> Vec<u8> {
        let kept = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        kept.unwrap_or_else(|| vec![0; LENGTH])
    }

    fn give(&self, buffer: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(buffer);
        }
    }
}

// === impl Relayed ===

impl Relayed {
    pub fn carried(self, duration: Duration) -> Carried {
        Carried {
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            duration,
        }
    }
}
