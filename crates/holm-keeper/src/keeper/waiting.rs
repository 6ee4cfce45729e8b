//! Polls several descriptors. Used by commands and services; an interruption by a signal counts as
//! nothing ready.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

/// The descriptors, each with its field in `Ready`.
pub struct Waiting<'a, Ready> {
    sources: Vec<PollFd<'a>>,
    roles: Vec<fn(&mut Ready)>,
}

// === impl Waiting ===

impl<'a, Ready: Default> Waiting<'a, Ready> {
    pub fn new() -> Self {
        Self {
            sources: Vec::new(),
            roles: Vec::new(),
        }
    }

    pub fn add(&mut self, source: &'a impl AsFd, flags: PollFlags, role: fn(&mut Ready)) {
        self.sources.push(PollFd::new(source, flags));
        self.roles.push(role);
    }

    /// Waits at most until `until`.
    pub fn wait(mut self, until: Option<Instant>) -> io::Result<Ready> {
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        match poll(&mut self.sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = Ready::default();
        for (source, role) in self.sources.iter().zip(self.roles) {
            if !source.revents().is_empty() {
                role(&mut ready);
            }
        }
        Ok(ready)
    }
}
