//! Services: asked of the keeper, or read from its last record.

use super::keeper::{self, keeper_fault, read_frame};
use crate::layout::WorkspaceDirs;
use crate::wire::{
    Answer, CodeSeen, Op, Request, ServiceWish, channel, control_frame, spoken_version,
};
use holm_core::Fault;
use holm_core::moves::Reaction;
use holm_core::service::Wish;
use holm_engine::service::{ServiceStatus, Services};
use holm_engine::spec::WorkspaceSpec;
use std::io;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// A keeper that is starting other services answers within this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// The capacity for changes; the keeper skips to the newest.
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
            // Ends with the keeper, with an invalid message, or when the receiver is dropped.
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
            Wish::Rebuild => ServiceWish::Rebuild,
        },
    };
    keeper::ask_within(dirs, op, PATIENCE).await.map(drop)
}

/// Lets the services react to the workspace's move.
pub async fn react(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let op = Op::React {
        wishes: wishes(spec),
        code: CodeSeen {
            reference: spec.code.ref_name.clone(),
            commit: spec.code.commit.clone(),
        },
    };
    keeper::ask_within(dirs, op, PATIENCE).await.map(drop)
}

fn wishes(spec: &WorkspaceSpec) -> Vec<(String, ServiceWish)> {
    let reactions = spec.moving.iter().flat_map(|moving| &moving.owed.reactions);
    let wishes = reactions.filter_map(|(name, reaction)| {
        let wish = match reaction {
            Reaction::None | Reaction::Hot => return None,
            Reaction::Restart => ServiceWish::Restart,
            Reaction::Rebuild => ServiceWish::Rebuild,
        };
        Some((name.clone(), wish))
    });
    wishes.collect()
}

/// Services whose build is outdated after a move.
pub fn unbuilt(spec: &WorkspaceSpec) -> Vec<String> {
    let wishes = wishes(spec).into_iter();
    let unbuilt = wishes.filter(|(_, wish)| *wish == ServiceWish::Rebuild);
    unbuilt.map(|(name, _)| name).collect()
}

/// Their state when the last keeper ended or was killed.
pub fn last_known(dirs: &WorkspaceDirs) -> Vec<ServiceStatus> {
    let text = std::fs::read(dirs.services()).unwrap_or_default();
    let services: Option<Services> = serde_json::from_slice(&text).ok();
    services.unwrap_or_default().services
}
