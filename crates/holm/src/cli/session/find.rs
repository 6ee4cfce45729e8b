//! Resolves what was typed to a session, once, at the edge.

use super::super::{connect, resolve};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use holm_api::client::Client;
use holm_core::session::protocol::Session;
use holm_core::session::{Candidate, not_found, resolve};
use holm_core::{Code, Fault, SessionId, WorkspaceId};
use std::ffi::OsStr;
use std::time::Duration;

pub struct Found {
    pub workspace: WorkspaceId,
    pub id: SessionId,
}

/// How long a person who pressed tab should wait at most.
const PATIENCE: Duration = Duration::from_millis(500);

pub async fn one(client: &Client, typed: &str) -> Result<Found, Fault> {
    let (sessions, word) = match typed.rsplit_once('/') {
        Some((workspace, word)) => {
            let id = resolve::one(client, workspace).await?;
            (client.sessions(&id).await?.sessions, word)
        }
        None => (client.all_sessions().await?.sessions, typed),
    };
    let labels = resolve::labels(client).await?;
    let candidates: Vec<Candidate<'_>> = sessions
        .iter()
        .map(|session| Candidate {
            id: &session.id,
            name: session.name.as_deref(),
            workspace: labels.get(&session.workspace).unwrap_or(&session.workspace),
            is_live: session.exit_code.is_none(),
        })
        .collect();
    let id = resolve(word, &candidates)?.id;
    let session = sessions.iter().find(|session| session.id == id);
    found(session.ok_or_else(|| not_found(typed))?)
}

/// As [`one`], or what was typed is a workspace with one live session.
pub async fn one_or_only(client: &Client, typed: &str) -> Result<Found, Fault> {
    let missing = match one(client, typed).await {
        Err(fault) if matches!(fault.code, Code::SessionNotFound | Code::WorkspaceNotFound) => {
            fault
        }
        other => return other,
    };
    let workspace = match resolve::one(client, typed).await {
        Err(fault) if fault.code == Code::WorkspaceNotFound => return Err(missing),
        other => other?,
    };
    let mut live = client.sessions(&workspace).await?.sessions;
    live.retain(|session| session.exit_code.is_none());
    let typed = typed.escape_debug();
    match live.as_slice() {
        [one] => found(one),
        [] => Err(Fault::new(
            Code::SessionNotFound,
            format!("{typed} has no live session"),
            format!("start one: `holm session new {typed}`"),
        )),
        several => {
            let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
            Err(Fault::new(
                Code::Ambiguous,
                format!("{typed} has several live sessions: {}", ids.join(", ")),
                format!("attach one of them: `holm session attach {}`", ids[0]),
            ))
        }
    }
}

pub fn found(session: &Session) -> Result<Found, Fault> {
    let lost = |_| not_found(&session.id);
    Ok(Found {
        workspace: WorkspaceId::parse(&session.workspace).map_err(lost)?,
        id: SessionId::parse(&session.id).map_err(|_| not_found(&session.id))?,
    })
}

/// Completes live sessions by their names and ids.
pub fn sessions() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let known = connect::block_on(async {
            let list = async { connect::running().await?.all_sessions().await };
            match tokio::time::timeout(PATIENCE, list).await {
                Ok(list) => list.map(|list| list.sessions),
                Err(_) => Ok(Vec::new()),
            }
        });
        let known = known.unwrap_or_default().into_iter();
        let live = known.filter(|session| session.exit_code.is_none());
        let words = live.map(|session| session.name.unwrap_or(session.id));
        let typed = typed.to_string_lossy();
        let mut words: Vec<_> = words.filter(|word| word.starts_with(&*typed)).collect();
        words.sort();
        words.dedup();
        words.into_iter().map(CompletionCandidate::new).collect()
    })
}
