//! The user namespace of a room whose service has several users. It is below the workspace's, and owns no other namespace:
//! root of the room may do nothing to mounts, networks and processes but its own.
//!
//! Its root is the workspace's user, and the ids from 1 on are of the user's ranges.

use super::Order;
use crate::launch::shares;
use crate::sys;
use crate::sys::clone::{PLAIN, Side, clone_into};
use holm_core::sub_ids::{IdRange, OwnIds, SubIds};
use holm_keeper::wire::Defence;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// Makes the namespace. This process is in the workspace's user namespace, and still sees the host's `/proc`.
///
/// A process of its own makes it: the kernel counts what is in it against the limits of its maker, too, and keeps a
/// namespace while a descriptor of it is open.
pub fn make(order: &Order, ids: &SubIds, own: OwnIds) -> io::Result<OwnedFd> {
    let (mut made, tell_made) = io::pipe()?;
    let (go, mut tell_go) = io::pipe()?;
    match clone_into(PLAIN)? {
        Side::Child => {
            drop((made, tell_go));
            let done = enter_and_wait(order, tell_made, go);
            let code = done.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
            std::process::exit(code)
        }
        Side::Parent { pidfd, pid } => {
            drop((tell_made, go));
            let prepared = made.read_exact(&mut [0]).and_then(|()| {
                map(pid, ids, own)?;
                let namespace = File::open(format!("/proc/{pid}/ns/user"))?;
                tell_go.write_all(&[1])?;
                Ok(OwnedFd::from(namespace))
            });
            drop(tell_go);
            match (sys::enter::code_of(&pidfd)?, prepared) {
                (0, namespace) => namespace,
                (errno, _) => Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }
}

fn enter_and_wait(
    order: &Order,
    mut made: io::PipeWriter,
    mut go: io::PipeReader,
) -> io::Result<()> {
    shares::limit(&order.seal)?;
    sys::process::own_user_namespace()?;
    // The files of a process that may not be looked into belong to root. No program of the workspace can see this one.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    made.write_all(&[1])?;
    go.read_exact(&mut [0])?;
    // The second line of defence behind the filter.
    if !order.seal.nested && order.seal.has(Defence::NamespaceLimit) {
        fs::write("/proc/sys/user/max_user_namespaces", "0")?;
    }
    Ok(())
}

fn map(pid: i32, ids: &SubIds, own: OwnIds) -> io::Result<()> {
    let lines =
        |own: u32, range: IdRange| format!("0 {own} 1\n1 {} {}\n", range.first, range.count);
    let write = |file: &str, text: String| {
        let mut file = File::options()
            .write(true)
            .open(format!("/proc/{pid}/{file}"))?;
        // The kernel takes a map in one call.
        file.write_all(text.as_bytes())
    };
    write("gid_map", lines(own.group, ids.groups))?;
    write("uid_map", lines(own.user, ids.users))
}
