//! The user of keepers and of the store. An engine starts their containers as root with few capabilities; they become the
//! user of the workspaces' files and keep some of these, so that every file has one owner.

use holm_keeper::container::{KEEPER_GROUP, USER};
use rustix::fs::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, set_capabilities,
    set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use std::io;

/// Directories that a program inside closed are read, copied and deleted all the same, and so is what an engine made as
/// root in an overlay's work directory. Processes that this one starts have these rights, too.
const FILES: [CapabilitySet; 2] = [CapabilitySet::DAC_OVERRIDE, CapabilitySet::FOWNER];

/// Becomes the user, and keeps these capabilities. The caller must have one thread only.
pub fn become_user(own: CapabilitySet) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(USER), Gid::from_raw(KEEPER_GROUP));
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    let files = FILES[0] | FILES[1];
    let all = own | files;
    let sets = CapabilitySets {
        effective: all,
        permitted: all,
        inheritable: files,
    };
    set_capabilities(None, sets)?;
    for right in FILES {
        configure_capability_in_ambient_set(right, true)?;
    }
    Ok(())
}
