//! What listens inside, asked of the platform a few times a second while a client watches.

use super::connection::send_answer;
use super::registry::Registry;
use crate::wire::Answer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixStream;

/// How often it is looked: what appears is told well within a second.
const EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 400_000_000,
};

/// What is told at most. Somebody who opens more ports than this loses the highest of them.
const MOST: usize = 512;

/// Tells the ports, and again whenever they change, until the client or the workspace is gone.
pub fn watch(stream: &UnixStream, registry: &Registry) -> io::Result<()> {
    // What the keeper itself listens on inside is no program of the workspace.
    let shared = registry.plan.network.shared.iter();
    let own: BTreeSet<u16> = shared.map(|shared| shared.port).collect();
    let init = registry.init();
    let mut told: Option<Vec<u16>> = None;
    loop {
        let all = registry.platform().listening()?;
        let found: Vec<u16> = all.difference(&own).copied().take(MOST).collect();
        if told.as_ref() != Some(&found) {
            send_answer(stream, &Answer::Listening(found.clone()))?;
            told = Some(found);
        }
        let mut sources = [
            PollFd::new(stream, PollFlags::IN),
            PollFd::new(&init, PollFlags::IN),
        ];
        match poll(&mut sources, Some(&EVERY)) {
            Ok(0) | Err(Errno::INTR) => {}
            // The client has nothing more to say: it is gone.
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
