//! System calls that no library offers safely. All unsafe code of holm is in this directory.
//!
//! Every function takes and returns owned, checked types and returns the kernel's own error; none
//! makes decisions. Callers are the launcher, the keeper and init, which are single-threaded when
//! they call functions that are not safe with threads.

#![allow(unsafe_code)]

pub mod capability;
pub mod clone;
pub mod command;
pub mod enter;
pub mod lock;
pub mod lookup;
pub mod memory;
pub mod mount;
pub mod network;
pub mod notify;
pub mod process;
pub mod scarce;
pub mod seccomp;
pub mod signal;
pub mod units;

use std::io;

/// Converts the kernel's return value: negative means an error in `errno`.
pub(crate) fn check(answer: libc::c_long) -> io::Result<libc::c_long> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}
