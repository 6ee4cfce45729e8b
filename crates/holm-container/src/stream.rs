//! A program in a container as a byte stream: what it reads from stdin and writes to stdout.

use bollard::container::LogOutput;
use bollard::errors::Error;
use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub struct Piped {
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// Of stdout, read and not passed on yet.
    left: Bytes,
}

// === impl Piped ===

impl Piped {
    pub fn new(
        output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
        input: Pin<Box<dyn AsyncWrite + Send>>,
    ) -> Self {
        Self {
            output,
            input,
            left: Bytes::new(),
        }
    }
}

impl AsyncRead for Piped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left.is_empty() {
            match ready!(self.output.poll_next_unpin(context)) {
                Some(Ok(LogOutput::StdOut { message } | LogOutput::Console { message })) => {
                    self.left = message;
                }
                // Programs of ours say nothing there that is for the daemon.
                Some(Ok(LogOutput::StdErr { .. } | LogOutput::StdIn { .. })) => {}
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.left.len().min(buffer.remaining());
        buffer.put_slice(&self.left[..length]);
        self.left.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Piped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.input.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_shutdown(context)
    }
}
