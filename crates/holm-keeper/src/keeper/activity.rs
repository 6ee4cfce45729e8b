//! Whether a program other than init may run, as a descriptor that threads can wait for. While there is none, nothing
//! inside changes by itself, so the keeper need not look.

use crate::process;
use rustix::event::{EventfdFlags, eventfd};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Activity besides init's. The registry's lock is held at each change.
pub struct Activity {
    /// Readable while a program may run.
    descriptor: OwnedFd,
    is_possible: AtomicBool,
}

// === impl Activity ===

impl Activity {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            descriptor: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_possible: AtomicBool::new(false),
        })
    }

    pub fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    pub fn is_possible(&self) -> bool {
        self.is_possible.load(Ordering::SeqCst)
    }

    /// A program is about to be started.
    pub fn begin(&self) {
        if !self.is_possible.swap(true, Ordering::SeqCst) {
            // The counter is far from its limit.
            let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
        }
    }

    /// No program that the keeper started is left. Those that detached themselves are children of init.
    pub fn end_if_alone(&self, init: i32) {
        let children = fs::read(process::place_of(init, &format!("task/{init}/children")));
        // A kernel without this file does not say, so the keeper goes on looking.
        if children.is_ok_and(|children| children.is_empty()) && self.is_possible() {
            self.is_possible.store(false, Ordering::SeqCst);
            let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    fn is_readable(activity: &Activity) -> bool {
        let mut sources = [PollFd::new(activity.descriptor(), PollFlags::IN)];
        let at_once = Timespec::default();
        poll(&mut sources, Some(&at_once)).unwrap() > 0
    }

    /// A process that has said that it runs this script.
    fn running(script: &str) -> Child {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 1];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        child
    }

    #[test]
    fn it_is_possible_until_init_has_no_children() {
        let activity = Activity::new().unwrap();
        assert!(!activity.is_possible() && !is_readable(&activity));
        activity.begin();
        activity.begin();
        assert!(activity.is_possible() && is_readable(&activity));

        let mut busy = running("sleep 1000 & echo; read end; kill $!");
        activity.end_if_alone(busy.id().cast_signed());
        assert!(activity.is_possible() && is_readable(&activity));

        let mut alone = running("echo; read end");
        activity.end_if_alone(alone.id().cast_signed());
        assert!(!activity.is_possible() && !is_readable(&activity));
        activity.begin();
        assert!(activity.is_possible() && is_readable(&activity));
        for child in [&mut busy, &mut alone] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
