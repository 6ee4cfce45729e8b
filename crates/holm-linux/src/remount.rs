//! Mounts a reset volume into a running workspace. It is a role of its own ([`run`]), because only
//! fresh processes enter namespaces. It is not in the workspace's pid namespace, so programs inside
//! can neither see nor affect it.
//!
//! The new volume is mounted on top of the old one, which stays for processes with open files:
//! unmounting by a path that programs inside can change would be exploitable.

use crate::launch::{self, NewRoot};
use crate::sys;
use holm_keeper::wire::Mounted;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::process::{Command, Stdio};

/// The hidden first argument of a process that mounts a volume into a running workspace.
pub const ROLE: &str = "__remount";

/// Mounts it in the namespaces of `init`.
pub fn run(program: &Path, init: BorrowedFd<'_>, mounted: &Mounted) -> io::Result<()> {
    let init = init.try_clone_to_owned()?;
    let mut command = Command::new(program);
    command
        .arg(ROLE)
        .arg(init.as_raw_fd().to_string())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    sys::command::pass(&mut command, vec![init]);
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(mounted)?)?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(said))
    }
}

/// The role: the mount comes on stdin; the argument is the number of init's descriptor.
pub fn main() -> ! {
    let number = std::env::args().nth(2).and_then(|text| text.parse().ok());
    let Some(number) = number else {
        std::process::exit(2)
    };
    match mount(number) {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1)
        }
    }
}

fn mount(number: i32) -> io::Result<()> {
    let init = sys::process::inherited(number);
    sys::process::die_with_parent()?;
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    let mounted: Mounted = serde_json::from_slice(&text)?;
    let join = |kind: ThreadNameSpaceType| move_into_thread_name_spaces(init.as_fd(), kind);
    join(ThreadNameSpaceType::USER)?;
    // The host's directories are visible from here; the mount belongs to the workspace's user
    // namespace.
    sys::process::own_mount_namespace()?;
    let mount = launch::detached(&mounted)?;
    join(ThreadNameSpaceType::MOUNT)?;
    NewRoot::entered()?.attach(&mount, &mounted.inside)
}
