//! Runs: asked of the keeper, or read from its records.

use super::disk_fault;
use super::keeper::{self, keeper_fault, read_frame, refused};
use super::remove_tree;
use crate::layout::WorkspaceDirs;
use crate::runs;
use crate::wire::{Answer, Op, Request, control_frame, spoken_version};
use holm_core::Fault;
use holm_engine::run::RunSeen;
use holm_engine::try_blocking;
use std::io;
use std::path::PathBuf;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// The capacity for changes; the keeper skips to the newest.
const UNHEARD: usize = 4;

/// Sends the request and streams every change. A keeper that refuses is an error; `None`: there is
/// no keeper.
pub async fn followed(
    dirs: &WorkspaceDirs,
    op: Op,
) -> Result<Option<mpsc::Receiver<RunSeen>>, Fault> {
    let fault = |error: io::Error| keeper_fault(&error.to_string());
    let mut stream = match keeper::connect(dirs).await {
        Ok(stream) => stream,
        // No process listens: a keeper that is only stopped would still listen.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(fault(error)),
    };
    let request = Request {
        version: spoken_version(),
        op,
    };
    let request = control_frame(&request).map_err(fault)?;
    stream.write_all(&request).await.map_err(fault)?;
    let first = match next(&mut stream).await.map_err(fault)? {
        Answer::Run(seen) => *seen,
        Answer::Refused(why) => return Err(refused(&why)),
        _ => return Err(keeper_fault("a wrong answer")),
    };
    let (sender, receiver) = mpsc::channel(UNHEARD);
    tokio::spawn(async move {
        let mut seen = first;
        loop {
            let is_last = seen.end.is_some();
            if sender.send(seen).await.is_err() || is_last {
                return;
            }
            // Ends with the keeper, with an invalid message, or when the receiver is dropped.
            seen = tokio::select! {
                answer = next(&mut stream) => match answer {
                    Ok(Answer::Run(seen)) => *seen,
                    _ => return,
                },
                () = sender.closed() => return,
            };
        }
    });
    Ok(Some(receiver))
}

async fn next(stream: &mut UnixStream) -> io::Result<Answer> {
    let (_, payload) = read_frame(stream).await?;
    Ok(serde_json::from_slice(&payload)?)
}

pub async fn recorded(directory: PathBuf) -> Result<Option<RunSeen>, Fault> {
    try_blocking(move || {
        runs::seen(&directory)
            .map_err(|error| disk_fault(&error, "cannot read how a run ended".to_owned()))
    })
    .await
}

pub async fn forget(directory: PathBuf) -> Result<(), Fault> {
    try_blocking(move || match remove_tree(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let what = format!("cannot remove {}", directory.display());
            Err(disk_fault(&error, what))
        }
        _ => Ok(()),
    })
    .await
}
