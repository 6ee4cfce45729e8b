//! Settings of the current process: death signal, dumpability, privileges, keyring, limits.

use super::check;
use std::io;

/// Dies with the thread that created this process.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) }.into())?;
    Ok(())
}

/// Programs that this process executes never gain privileges.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: PR_SET_NO_NEW_PRIVS takes numbers and no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    Ok(())
}

/// Makes the current cgroup the root of the visible hierarchy.
pub fn own_cgroup_namespace() -> io::Result<()> {
    // SAFETY: no pointers; only the view of control groups changes.
    check(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into())?;
    Ok(())
}

/// Creates a mount namespace as a copy. The caller must have one thread only.
pub fn own_mount_namespace() -> io::Result<()> {
    // SAFETY: no pointers; only this process's view of mounts changes.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())?;
    Ok(())
}

/// Creates a network namespace for the calling thread.
pub fn own_network_namespace() -> io::Result<()> {
    // SAFETY: no pointers; only this thread's network changes.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }.into())?;
    Ok(())
}

/// Creates a namespace for the host's name, as a copy.
pub fn own_name_namespace() -> io::Result<()> {
    // SAFETY: no pointers; only this process's view of the name changes.
    check(unsafe { libc::unshare(libc::CLONE_NEWUTS) }.into())?;
    Ok(())
}

/// Creates a user namespace and becomes its owner. The caller must have one thread only.
pub fn own_user_namespace() -> io::Result<()> {
    // SAFETY: no pointers; the kernel refuses it to a process with several threads.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into())?;
    Ok(())
}

/// Leaves all supplementary groups.
pub fn leave_groups() -> io::Result<()> {
    // SAFETY: with a length of 0 nothing is read.
    check(unsafe { libc::setgroups(0, std::ptr::null()) }.into())?;
    Ok(())
}

/// Replaces the user's session keyring by an empty one.
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

pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: callers do this at the very start of a role, before anything in this process owns a
    // descriptor of that range.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) })?;
    Ok(())
}

/// Marks every descriptor from `first` on as close-on-exec.
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

/// Takes ownership of a descriptor inherited from the parent process.
pub fn inherited(number: i32) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: callers name each inherited descriptor once, at the very start of a role.
    unsafe { std::os::fd::OwnedFd::from_raw_fd(number) }
}

/// Duplicates a descriptor of another process. The kernel requires the right to trace that process,
/// which the owner of its user namespace has.
pub fn descriptor_of(
    process: std::os::fd::BorrowedFd<'_>,
    number: i32,
) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: numbers only.
    let copy =
        check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })?;
    // SAFETY: the kernel's answer is a new descriptor of this process that has no other owner.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(copy as i32) })
}

/// A raw system call with numeric arguments only, for tests and probes of the filter.
pub fn probe_call(number: libc::c_long, arguments: [libc::c_long; 6]) -> io::Result<libc::c_long> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: callers pass numbers for which the kernel touches no memory of this process: null
    // pointers, invalid descriptors or invalid flags.
    check(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}
