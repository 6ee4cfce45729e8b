//! Programs inside that call the daemon. The daemon is on another side of the engine, so it waits here for the next one, by
//! a connection of its own to the store. The bytes are those that a keeper sends to the daemon's socket for guests.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

/// How long a caller waits for a daemon that is about to take the next one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Callers that wait.
const QUEUE: usize = 1;

pub struct Guests(Mutex<mpsc::Receiver<UnixStream>>);

// === impl Guests ===

impl Guests {
    /// Listens where keepers connect to.
    pub fn open(socket: &Path) -> io::Result<Arc<Self>> {
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(socket)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            while let Ok((guest, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    // Without a daemon the connection closes, which the keeper tells the program.
                    let _ = timeout(PATIENCE, sender.send(guest)).await;
                });
            }
        });
        Ok(Arc::new(Self(Mutex::new(receiver))))
    }

    /// The next one; `None`: the daemon that waits is gone.
    pub async fn next(
        &self,
        daemon: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Option<UnixStream>> {
        let next = async { self.0.lock().await.recv().await };
        tokio::select! {
            guest = next => Ok(guest),
            // It says nothing before it has one.
            _ = daemon.read_u8() => Ok(None),
        }
    }
}
