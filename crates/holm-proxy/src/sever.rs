//! Connections that another task can cut, whatever they carry at that moment: a request, a streamed
//! response, a WebSocket.
//!
//! The front door and the daemon's other listeners wrap their streams; the holder of the handle
//! cuts them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that ends when its handle is cut.
pub struct Severable<S> {
    stream: S,
    sever: Sever,
}

/// Cuts one connection. Clones cut the same one.
#[derive(Clone, Debug, Default)]
pub struct Sever(Arc<Shared>);

/// A handle that does not keep the connection alive, for lists of connections.
#[derive(Clone, Debug)]
pub struct WeakSever(Weak<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_cut: AtomicBool,
    /// The wakers of the reader and of the writer.
    waiting: Mutex<[Option<Waker>; 2]>,
}

const READER: usize = 0;
const WRITER: usize = 1;

// === impl Sever ===

impl Sever {
    pub fn cut(&self) {
        self.0.is_cut.store(true, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.waiting());
        for waker in waiting.into_iter().flatten() {
            waker.wake();
        }
    }

    pub fn is_cut(&self) -> bool {
        self.0.is_cut.load(Ordering::SeqCst)
    }

    pub fn downgrade(&self) -> WeakSever {
        WeakSever(Arc::downgrade(&self.0))
    }

    /// Registers the waker. Checking `is_cut` after this cannot miss a cut.
    fn wait(&self, side: usize, context: &Context<'_>) {
        let mut waiting = self.waiting();
        match &mut waiting[side] {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, [Option<Waker>; 2]> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl WeakSever ===

impl WeakSever {
    /// The handle, if the connection still exists.
    pub fn upgrade(&self) -> Option<Sever> {
        self.0.upgrade().map(Sever)
    }

    pub fn is_of(&self, sever: &Sever) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&sever.0))
    }
}

// === impl Severable ===

impl<S> Severable<S> {
    pub fn new(stream: S) -> (Self, Sever) {
        let sever = Sever::default();
        let severable = Self {
            stream,
            sever: sever.clone(),
        };
        (severable, sever)
    }

    /// The result of a poll, or an error if the connection is cut now or later.
    fn unless_cut<T>(
        &mut self,
        side: usize,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>>
    where
        S: Unpin,
    {
        let cut = || Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        if self.sever.is_cut() {
            return cut();
        }
        let polled = poll(Pin::new(&mut self.stream), context);
        if polled.is_pending() {
            self.sever.wait(side, context);
            if self.sever.is_cut() {
                return cut();
            }
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Severable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.unless_cut(READER, context, |stream, context| {
            stream.poll_read(context, buffer)
        })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Severable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.unless_cut(WRITER, context, |stream, context| {
            stream.poll_write(context, bytes)
        })
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unless_cut(WRITER, context, |stream, context| {
            stream.poll_write_vectored(context, pieces)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.unless_cut(WRITER, context, |stream, context| {
            stream.poll_flush(context)
        })
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(flavor = "current_thread")]
    async fn who_waits_is_woken_and_who_comes_later_is_refused() {
        let (near, mut far) = tokio::io::duplex(16);
        let (near, sever) = Severable::new(near);
        let (mut reader, mut writer) = tokio::io::split(near);
        far.write_all(b"a").await.unwrap();
        assert_eq!(reader.read_u8().await.unwrap(), b'a');
        let reading = tokio::spawn(async move { (reader.read_u8().await, reader) });
        let writing = tokio::spawn(async move { writer.write_all(&[0; 64]).await });
        tokio::task::yield_now().await;
        sever.cut();
        let (read, mut reader) = reading.await.unwrap();
        assert!(read.is_err());
        assert!(writing.await.unwrap().is_err());
        assert!(reader.read_u8().await.is_err());
        let weak = sever.downgrade();
        assert!(weak.is_of(&sever));
        drop((sever, reader));
        assert!(weak.upgrade().is_none());
    }
}
