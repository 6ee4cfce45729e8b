//! The services of a workspace, asked of its keeper, or of what its last keeper wrote down.

use super::keeper::{self, keeper_fault, read_frame};
use crate::layout::WorkspaceDirs;
use crate::wire::{Answer, Op, Request, ServiceWish, channel, control_frame, spoken_version};
use holm_core::Fault;
use holm_core::service::Wish;
use holm_engine::service::{ServiceStatus, Services};
use std::io;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// A keeper that is busy starting others hears a wish within this.
const PATIENCE: Duration = Duration::from_secs(5);

/// Changes that nobody took yet; the keeper skips to the newest.
const UNHEARD: usize = 4;

pub async fn watch(dirs: &WorkspaceDirs) -> Result<mpsc::Receiver<Services>, Fault> {
    let fault = |error: io::Error| keeper_fault(&error.to_string());
    let mut stream = keeper::connect(dirs).await.map_err(fault)?;
    let request = Request {
        version: spoken_version(),
        op: Op::WatchServices,
    };
    let request = control_frame(&request).map_err(fault)?;
    stream.write_all(&request).await.map_err(fault)?;
    let (sender, receiver) = mpsc::channel(UNHEARD);
    tokio::spawn(async move {
        loop {
            // Ends with the keeper, with nonsense, or when nobody listens any more.
            tokio::select! {
                services = next(&mut stream) => match services {
                    Some(services) => if sender.send(services).await.is_err() { break },
                    None => break,
                },
                () = sender.closed() => break,
            }
        }
    });
    Ok(receiver)
}

async fn next(stream: &mut UnixStream) -> Option<Services> {
    let (kind, payload) = read_frame(stream).await.ok()?;
    match serde_json::from_slice(&payload).ok()? {
        Answer::Services(services) if kind == channel::CONTROL => Some(services),
        _ => None,
    }
}

pub async fn wish(dirs: &WorkspaceDirs, name: &str, wish: Wish) -> Result<(), Fault> {
    let op = Op::Service {
        name: name.to_owned(),
        wish: match wish {
            Wish::Start => ServiceWish::Start,
            Wish::Stop => ServiceWish::Stop,
            Wish::Restart => ServiceWish::Restart,
        },
    };
    keeper::ask_within(dirs, op, PATIENCE).await.map(drop)
}

/// How they were when the last keeper ended, or when it was killed.
pub fn last_known(dirs: &WorkspaceDirs) -> Vec<ServiceStatus> {
    let text = std::fs::read(dirs.services()).unwrap_or_default();
    let services: Option<Services> = serde_json::from_slice(&text).ok();
    services.unwrap_or_default().services
}
