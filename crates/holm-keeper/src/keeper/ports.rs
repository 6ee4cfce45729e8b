//! What listens inside, asked of the platform a few times a second while a client watches and a program runs.

use super::Registry;
use crate::wire::{Answer, send_answer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixStream;

/// How often it is looked: what appears is told well within a second.
pub const EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 400_000_000,
};

/// What is told at most. Somebody who opens more ports than this loses the highest of them.
const MOST: usize = 512;

/// Tells the ports, and again whenever they change, until the client or the workspace is gone.
pub fn watch(stream: &UnixStream, registry: &Registry) -> io::Result<()> {
    let init = registry.init();
    let mut reported: Option<Vec<u16>> = None;
    loop {
        // Before the look: a program that ends meanwhile is followed by another look.
        let is_active = registry.activity.is_possible();
        let found = look(registry)?;
        if reported.as_ref() != Some(&found) {
            send_answer(stream, &Answer::Listening(found.clone()))?;
            reported = Some(found);
        }
        let mut sources = vec![
            PollFd::new(stream, PollFlags::IN),
            PollFd::new(&init, PollFlags::IN),
        ];
        // Init itself listens on nothing, so without activity the next program is waited for.
        if !is_active {
            let activity = registry.activity.descriptor();
            sources.push(PollFd::new(activity, PollFlags::IN));
        }
        match poll(&mut sources, is_active.then_some(&EVERY)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // The client has nothing more to say: it is gone, or the workspace is.
        if sources[..2]
            .iter()
            .any(|source| !source.revents().is_empty())
        {
            return Ok(());
        }
    }
}

/// The listening ports, sorted.
pub fn look(registry: &Registry) -> io::Result<Vec<u16>> {
    // What the keeper itself listens on inside is no program of the workspace.
    let shared = registry.plan.network.shared.iter();
    let own: BTreeSet<u16> = shared.map(|shared| shared.port).collect();
    let all = registry.platform().listening()?;
    Ok(all.difference(&own).copied().take(MOST).collect())
}
