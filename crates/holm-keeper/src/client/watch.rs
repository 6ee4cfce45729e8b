//! A connection on which the keeper tells how its workspace is.

use super::{KeeperClient, Stream, read_answer, unreachable, wrong_answer};
use crate::process::Pulse;
use crate::wire::{Answer, Op, WatchReport, channel, frame};
use holm_core::Fault;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::Mutex;

/// What the keeper tells, from the second time on.
pub struct Watch {
    stream: BufReader<ReadHalf<Stream>>,
}

/// Asks the keeper to tell how the workspace is now. Clones ask the same keeper.
#[derive(Clone)]
pub struct StatusRequests(Arc<Mutex<WriteHalf<Stream>>>);

/// What a watch begins with.
pub struct Watched {
    pub first: WatchReport,
    pub watch: Watch,
    pub asker: StatusRequests,
    /// The keeper's process, where it is on this machine.
    pub pulse: Option<Pulse>,
}

// === impl KeeperClient ===

impl KeeperClient {
    /// Has the keeper tell how the workspace is: at once, at every change and for every question, until the
    /// workspace's processes end. `None`: it is a keeper of an earlier release, which answers only when it is asked.
    pub async fn watch_status(&self) -> Result<Option<Watched>, Fault> {
        let stream = self.begin(Op::Watch).await.map_err(unreachable)?;
        let pulse = match &stream {
            Stream::Unix(stream) => stream.peer_cred().ok().and_then(|peer| peer.pid()),
            Stream::Tcp(_) | Stream::Other(_) => None,
        };
        let pulse = pulse.and_then(Pulse::of);
        let (reader, writer) = tokio::io::split(stream);
        let mut stream = BufReader::new(reader);
        match read_answer(&mut stream).await.map_err(unreachable)? {
            Answer::Seen(first) => Ok(Some(Watched {
                first: *first,
                watch: Watch { stream },
                asker: StatusRequests(Arc::new(Mutex::new(writer))),
                pulse,
            })),
            Answer::Refused(_) => Ok(None),
            _ => Err(wrong_answer()),
        }
    }
}

// === impl Watch ===

impl Watch {
    /// The next message; `None` when the keeper has ended.
    pub async fn next(&mut self) -> Option<WatchReport> {
        match read_answer(&mut self.stream).await {
            Ok(Answer::Seen(seen)) => Some(*seen),
            Ok(_) | Err(_) => None,
        }
    }
}

// === impl StatusRequests ===

impl StatusRequests {
    /// Asks once. The answer comes on the watch.
    pub async fn ask(&self) -> io::Result<()> {
        let mut stream = self.0.lock().await;
        stream.write_all(&frame(channel::CONTROL, &[])).await
    }
}
