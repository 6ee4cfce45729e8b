//! The daemon's session requests on the control socket.

use super::super::Registry;
use super::Sessions;
use super::shared::Until;
use super::viewer::Arriving;
use crate::wire::{Answer, send_answer};
use holm_core::session::protocol::{Attach, SessionRequest, SessionResponse};
use holm_core::{Code, Fault};
use regex::RegexBuilder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Patterns come from clients, so their memory is bounded.
const LARGEST_PATTERN: usize = 1 << 20;

pub fn answer(
    stream: &UnixStream,
    registry: &Arc<Registry>,
    request: SessionRequest,
) -> io::Result<()> {
    let sessions = registry.sessions();
    let response = respond(stream, registry, sessions, request).unwrap_or_else(failed);
    send_answer(stream, &Answer::Session(response))
}

fn failed(fault: Fault) -> SessionResponse {
    SessionResponse::Fault {
        code: fault.code.as_str().to_owned(),
        message: fault.message(),
        hint: fault.hint,
    }
}

fn respond(
    stream: &UnixStream,
    registry: &Arc<Registry>,
    sessions: &Arc<Sessions>,
    request: SessionRequest,
) -> Result<SessionResponse, Fault> {
    Ok(match request {
        SessionRequest::Start(new) => {
            SessionResponse::Started(Box::new(sessions.start(registry, *new)?))
        }
        SessionRequest::List => SessionResponse::Sessions(sessions.list()),
        SessionRequest::Send {
            session,
            text,
            keys,
        } => SessionResponse::Sent {
            cursor: sessions.find(&session)?.type_in(&text, &keys)?,
        },
        SessionRequest::Read {
            session,
            since,
            colours,
        } => SessionResponse::Text(Box::new(sessions.find(&session)?.read(since, colours))),
        SessionRequest::Wait {
            session,
            idle_ms,
            pattern,
            since,
            timeout_ms,
        } => {
            let pattern = pattern.as_deref().map(compiled).transpose()?;
            let until = Until {
                idle: idle_ms.map(Duration::from_millis),
                pattern,
                since,
                limit: Instant::now() + Duration::from_millis(timeout_ms),
            };
            let is_wanted = || !is_gone(stream);
            SessionResponse::Waited(Box::new(sessions.find(&session)?.wait(&until, is_wanted)))
        }
        SessionRequest::Kill { session } => SessionResponse::Sessions(sessions.kill(&session)?),
    })
}

fn compiled(pattern: &str) -> Result<regex::Regex, Fault> {
    let built = RegexBuilder::new(pattern)
        .multi_line(true)
        .size_limit(LARGEST_PATTERN)
        .dfa_size_limit(LARGEST_PATTERN)
        .build();
    built.map_err(|error| {
        Fault::new(
            Code::BadRequest,
            "the pattern is no regular expression",
            "plain words are patterns, too; put `\\` before . * + ? ( ) [ ] { } | ^ $",
        )
        .because(error)
    })
}

/// Whether the requester is gone.
fn is_gone(stream: &UnixStream) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // The request was complete, so anything readable is the end.
    poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Passes the connection to the session's own thread.
pub fn attach(stream: UnixStream, registry: &Registry, attach: Attach) -> io::Result<()> {
    let refuse =
        |stream: &UnixStream, fault: Fault| send_answer(stream, &Answer::Session(failed(fault)));
    let shared = match registry.sessions().find(&attach.session) {
        Ok(shared) => shared,
        Err(fault) => return refuse(&stream, fault),
    };
    match shared.arrive(Arriving { stream, attach }) {
        Ok(()) => Ok(()),
        Err(Arriving { stream, .. }) => refuse(&stream, shared.has_ended()),
    }
}

pub fn watch(stream: &UnixStream, registry: &Registry) -> io::Result<()> {
    let sessions = registry.sessions();
    sessions.notices.watch(stream, || sessions.has_live())
}
