//! Creates the first process of a workspace: one clone with all namespaces.

use super::check;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Which side of the clone this is.
pub enum Side {
    /// The new process, PID 1 of its namespace.
    Child,
    Parent {
        pidfd: OwnedFd,
        pid: i32,
    },
}

/// All namespaces of a workspace, except for the cgroup namespace, which is created when the first
/// process has entered its group.
pub const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS) as u64;

/// The new process is a child of this process's parent.
pub const SIBLING: u64 = libc::CLONE_PARENT as u64;

/// A user namespace below this one with mounts of its own, for a process that makes descriptors for this one.
pub const BESIDE: u64 = (libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_FILES) as u64;

/// A process that only waits or makes a namespace.
pub const PLAIN: u64 = 0;

/// Forks into new namespaces (`flags`). The caller must have one thread only: the child continues
/// with a copy of the caller's memory, and a lock held by another thread would never be released.
pub fn clone_into(flags: u64) -> io::Result<Side> {
    let mut pidfd: RawFd = -1;
    // SAFETY: `clone_args` is plain data for which zero is a valid value of every field.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags | libc::CLONE_PIDFD as u64;
    arguments.pidfd = (&raw mut pidfd) as u64;
    // A sibling takes over the signal of this process.
    if flags & SIBLING == 0 {
        arguments.exit_signal = libc::SIGCHLD as u64;
    }
    // SAFETY: without CLONE_VM the child has its own copy of the address space, and without a
    // `stack` it goes on with a copy of this one, as after fork(2). `arguments` outlives the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw mut arguments,
            size_of::<libc::clone_args>(),
        )
    };
    match check(answer)? {
        0 => Ok(Side::Child),
        pid => {
            // SAFETY: the kernel wrote a new descriptor into `pidfd`, which has no other owner.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Side::Parent {
                pidfd,
                pid: pid as i32,
            })
        }
    }
}
