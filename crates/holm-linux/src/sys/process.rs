//! What a process sets on itself: death signal, dumpability, privileges, keyring, limits.

use super::check;
use std::io;

/// Dies with the thread that made this process.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) }.into())?;
    Ok(())
}

/// Processes below this one that lose their parent become its children.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes numbers and no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }.into())?;
    Ok(())
}

/// Others of the same user cannot trace this process or read its memory and environment.
pub fn hide_from_same_user() -> io::Result<()> {
    // SAFETY: PR_SET_DUMPABLE takes a number and no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }.into())?;
    Ok(())
}

/// No program that this process executes gains privileges, ever.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: PR_SET_NO_NEW_PRIVS takes numbers and no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    Ok(())
}

/// Makes the group that this process is in the root of what it can see of control groups.
pub fn own_cgroup_namespace() -> io::Result<()> {
    // SAFETY: no pointers; only the view of control groups changes.
    check(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into())?;
    Ok(())
}

/// A mount namespace of its own, which begins as a copy. The caller must have one thread only.
pub fn own_mount_namespace() -> io::Result<()> {
    // SAFETY: no pointers; only this process's view of mounts changes.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())?;
    Ok(())
}

/// Becomes the owner of a new user namespace. The caller must have one thread only.
pub fn own_user_namespace() -> io::Result<()> {
    // SAFETY: no pointers; the kernel refuses it to a process with several threads.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into())?;
    Ok(())
}

/// Leaves the user's session keyring behind and starts an empty one.
pub fn fresh_session_keyring() -> io::Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for a new anonymous keyring; nothing else is read.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            KEYCTL_JOIN_SESSION_KEYRING,
            std::ptr::null::<u8>(),
        )
    };
    match check(answer) {
        Ok(_) => Ok(()),
        // A kernel without keyrings has none to leave.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Closes every descriptor from `first` on.
pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: callers do this at the very start of a role, before anything in this process owns a
    // descriptor of that range.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) })?;
    Ok(())
}

/// Keeps every descriptor from `first` on for this process: what it executes does not get them.
pub fn keep_from_children(first: u32) -> io::Result<()> {
    // SAFETY: no descriptor is closed; the flag only counts when a program is executed.
    check(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    })?;
    Ok(())
}

/// Takes over a descriptor that the process that executed this one left open for it.
pub fn inherited(number: i32) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: callers name each inherited descriptor once, at the very start of a role.
    unsafe { std::os::fd::OwnedFd::from_raw_fd(number) }
}

/// A copy of a descriptor of another process. The kernel asks for the right to trace that process, which
/// the owner of its user namespace has.
pub fn descriptor_of(
    process: std::os::fd::BorrowedFd<'_>,
    number: i32,
) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: numbers only.
    let copy =
        check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })?;
    // SAFETY: the kernel's answer is a new descriptor of this process that nobody else owns.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(copy as i32) })
}

/// A raw system call with number arguments only, for tests and probes of the filter.
pub fn probe_call(number: libc::c_long, arguments: [libc::c_long; 6]) -> io::Result<libc::c_long> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: callers pass numbers for which the kernel touches no memory of this process: null
    // pointers, invalid descriptors or invalid flags.
    check(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}
