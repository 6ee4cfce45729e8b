//! Drops capabilities permanently.

use super::check;
use std::io;

const VERSION_3: u32 = 0x2008_0522;
/// The highest capability number of the kernel interface.
const CAPABILITIES: libc::c_ulong = 64;

const SECBIT_NOROOT: libc::c_ulong = 1 << 0;
const SECBIT_NOROOT_LOCKED: libc::c_ulong = 1 << 1;
const SECBIT_NO_SETUID_FIXUP_LOCKED: libc::c_ulong = 1 << 3;
const SECBIT_KEEP_CAPS_LOCKED: libc::c_ulong = 1 << 5;
const SECBIT_NO_CAP_AMBIENT_RAISE: libc::c_ulong = 1 << 6;
const SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED: libc::c_ulong = 1 << 7;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Set {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CHOWN: u32 = 0;
/// Reading other processes' memory and descriptors.
const SYS_PTRACE: u32 = 19;

/// What the root of a room may do with files, users and processes of its own user namespace: an entrypoint gives files to
/// a user and goes on as that user, and a server ends its workers.
const OF_ROOM_ROOT: [u32; 8] = [
    CHOWN, 1, // DAC_OVERRIDE
    3, // FOWNER
    4, // FSETID
    5, // KILL
    6, // SETGID
    7, // SETUID
    8, // SETPCAP
];

/// Empties every capability set of this process, including the bounding set, and locks the
/// securebits that could give capabilities back to uid 0.
pub fn drop_all() -> io::Result<()> {
    drop_but(0)
}

/// The same, except for the right to inspect processes of the namespace.
pub fn drop_all_but_looking() -> io::Result<()> {
    drop_but(1 << SYS_PTRACE)
}

/// Gives up the right to change the owners of files, and keeps all others.
pub fn give_up_owning() -> io::Result<()> {
    let header = header();
    let mut sets = [Set::default(); 2];
    // SAFETY: version 3 writes two sets; both live until the call returns.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) })?;
    sets[0].effective &= !(1 << CHOWN);
    sets[0].permitted &= !(1 << CHOWN);
    // SAFETY: version 3 reads one header and two sets; both live until the call returns.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) })?;
    Ok(())
}

/// Keeps the rights of a room's root, also for what it executes as root. A program that changed to another user has none
/// of them, and gets none back.
pub fn drop_all_but_of_room_root() -> io::Result<()> {
    let kept = OF_ROOM_ROOT
        .iter()
        .fold(0, |kept, number| kept | 1 << number);
    bound(kept)?;
    set(kept)
}

fn drop_but(kept: u32) -> io::Result<()> {
    let bits = SECBIT_NOROOT
        | SECBIT_NOROOT_LOCKED
        | SECBIT_NO_SETUID_FIXUP_LOCKED
        | SECBIT_KEEP_CAPS_LOCKED
        | SECBIT_NO_CAP_AMBIENT_RAISE
        | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    // SAFETY: PR_SET_SECUREBITS takes a number and no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, bits, 0, 0, 0) }.into())?;
    bound(0)?;
    set(kept)
}

/// No program that is executed from here on has other capabilities than these.
fn bound(kept: u32) -> io::Result<()> {
    let others = (0..CAPABILITIES).filter(|number| *number >= 32 || kept & 1 << number == 0);
    for capability in others {
        // SAFETY: PR_CAPBSET_DROP takes a number and no pointer.
        let answer = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        match check(answer.into()) {
            Ok(_) => {}
            // The kernel has no further capabilities.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn set(kept: u32) -> io::Result<()> {
    let header = header();
    let low = Set {
        effective: kept,
        permitted: kept,
        inheritable: 0,
    };
    let sets = [low, Set::default()];
    // SAFETY: version 3 reads one header and two sets; both live until the call returns.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) })?;
    Ok(())
}

/// Of this process.
fn header() -> Header {
    Header {
        version: VERSION_3,
        pid: 0,
    }
}
