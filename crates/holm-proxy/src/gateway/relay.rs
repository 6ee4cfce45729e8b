//! Copies bytes in both directions until both have ended, and counts them.
//!
//! An idle connection holds no buffer: one is taken when there are bytes to read.

use super::Carried;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

/// Large enough that system calls do not limit a fast connection.
const LENGTH: usize = 128 * 1024;

/// Free buffers that are kept for reuse.
const KEPT: usize = 4;

#[derive(Default)]
pub struct Buffers {
    kept: Mutex<Vec<Vec<u8>>>,
    /// Totals of all connections.
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// The byte count of one direction, for this connection and in total.
struct Count<'a> {
    own: &'a mut u64,
    all: &'a AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Relayed {
    bytes_in: u64,
    bytes_out: u64,
}

/// A stream with two independent directions.
pub trait Stream {
    fn halves(&mut self) -> (impl Source + Send, impl AsyncWrite + Send + Unpin);
}

/// The readable half of a stream.
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

/// Copies until both directions have ended.
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

/// Copies one direction until its end, then shuts down the sink.
async fn copy(
    source: impl Source,
    mut sink: impl AsyncWrite + Unpin,
    buffers: &Buffers,
    mut count: Count<'_>,
) {
    // An error ends this direction just like EOF does.
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
    /// Total bytes in and out.
    pub fn carried(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.bytes_in), load(&self.bytes_out))
    }

    /// Adds bytes that were not copied by [`both`].
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
