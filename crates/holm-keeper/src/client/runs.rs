//! Runs under way.

use super::{
    KeeperClient, PATIENCE, Stream, read_answer, refused, send, unreachable, wrong_answer,
};
use crate::wire::{Answer, Op};
use holm_core::run::{RunOrder, RunSeen};
use holm_core::{Fault, RunId};
use std::io;
use tokio::sync::mpsc;

/// Changes that nobody took yet; the keeper skips to the newest.
const UNHEARD: usize = 4;

// === impl KeeperClient ===

impl KeeperClient {
    /// Begins a run, and tells how it is: at once, and whenever that changes. The channel closes with the run
    /// or the workspace. The run goes on without it, and is not begun again.
    pub async fn begin_run(&self, order: RunOrder) -> Result<mpsc::Receiver<RunSeen>, Fault> {
        let seen = self.follow(Op::Run(order)).await?;
        seen.ok_or_else(|| unreachable("it is gone"))
    }

    /// The same, on a connection without a request ([`KeeperClient::connect`]) that was opened some milliseconds ago.
    pub async fn begin_run_on(
        connection: Stream,
        order: RunOrder,
    ) -> Result<mpsc::Receiver<RunSeen>, Fault> {
        let stream = send(connection, Op::Run(order)).await;
        followed(stream.map_err(unreachable)?).await
    }

    /// The same, of one that was begun before. `None`: nothing of the workspace runs.
    pub async fn watch_run(&self, run: &RunId) -> Result<Option<mpsc::Receiver<RunSeen>>, Fault> {
        let run = run.to_string();
        self.follow(Op::WatchRun { run }).await
    }

    /// Ends every process of a run; does not wait for it.
    pub async fn cancel_run(&self, run: &RunId) -> Result<(), Fault> {
        let run = run.to_string();
        self.order_within(Op::CancelRun { run }, PATIENCE).await
    }

    /// A keeper that refuses is an error at once; `None`: there is none.
    async fn follow(&self, op: Op) -> Result<Option<mpsc::Receiver<RunSeen>>, Fault> {
        let stream = match self.begin(op).await {
            Ok(stream) => stream,
            // Nobody listens: a keeper that only stands still would.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(unreachable(error)),
        };
        followed(stream).await.map(Some)
    }
}

/// Reads the reports that follow a request. A keeper that refuses is an error at once.
async fn followed(mut stream: Stream) -> Result<mpsc::Receiver<RunSeen>, Fault> {
    let first = read_answer(&mut stream).await;
    let first = match first.map_err(unreachable)? {
        Answer::Run(seen) => *seen,
        Answer::Refused(why) => return Err(refused(why)),
        _ => return Err(wrong_answer()),
    };
    let (sender, receiver) = mpsc::channel(UNHEARD);
    tokio::spawn(async move {
        let mut seen = first;
        loop {
            let is_last = seen.end.is_some();
            if sender.send(seen).await.is_err() || is_last {
                return;
            }
            // Ends with the keeper, with nonsense, or when nobody receives any more.
            seen = tokio::select! {
                answer = read_answer(&mut stream) => match answer {
                    Ok(Answer::Run(seen)) => *seen,
                    _ => return,
                },
                () = sender.closed() => return,
            };
        }
    });
    Ok(receiver)
}
