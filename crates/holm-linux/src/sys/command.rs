//! Starts a program inside, from init. The only place that runs code between fork and exec.

use super::check;
use holm_core::image_users::User;
use holm_keeper::platform::Terminal;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the program the leader of its own session with default signals.
pub fn in_own_session(command: &mut Command, terminal: Terminal) {
    let prepare = move || {
        default_signals()?;
        // SAFETY: no pointers.
        check(unsafe { libc::setsid() }.into())?;
        if terminal == Terminal::Controlling {
            // SAFETY: TIOCSCTTY takes a number and no pointer; descriptor 0 is the terminal.
            check(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }.into())?;
        }
        io::Result::Ok(())
    };
    // SAFETY: `prepare` makes system calls only: it takes no lock and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Puts the program into a Landlock domain. It already has no_new_privs, which the kernel requires.
pub fn restricted(command: &mut Command, rules: OwnedFd) {
    let restrict = move || {
        // SAFETY: numbers only; the descriptor is open in the new process too.
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
        check(done)?;
        io::Result::Ok(())
    };
    // SAFETY: `restrict` makes one system call: it takes no lock and allocates nothing.
    unsafe { command.pre_exec(restrict) };
}

/// Starts the program with default signals, whatever this process blocks.
pub fn with_default_signals(command: &mut Command) {
    // SAFETY: system calls only: it takes no lock and allocates nothing.
    unsafe { command.pre_exec(default_signals) };
}

/// Starts the program as this user of the user namespace, who owns its standard streams: programs open them by name,
/// such as `/dev/stdout`.
pub fn as_user(command: &mut Command, user: User) {
    let become_it = move || {
        for stream in 0..3 {
            // SAFETY: numbers only. What belongs to the machine, such as /dev/null, is open to everyone anyway.
            unsafe { libc::fchown(stream, user.user, u32::MAX) };
        }
        // SAFETY: the kernel reads `len` numbers of the list, which lives in the closure.
        check(unsafe { libc::setgroups(user.groups.len(), user.groups.as_ptr()) }.into())?;
        // SAFETY: numbers only, for all three ids of each kind; the group first, while this is still root.
        unsafe {
            check(libc::setresgid(user.group, user.group, user.group).into())?;
            check(libc::setresuid(user.user, user.user, user.user).into())?;
        }
        io::Result::Ok(())
    };
    // SAFETY: `become_it` makes system calls only: it takes no lock and allocates nothing.
    unsafe { command.pre_exec(become_it) };
}

/// Starts the program with this limit of open files.
pub fn with_open_files(command: &mut Command, soft: u64, hard: u64) {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    let set = move || {
        // SAFETY: the kernel reads `limit`, which lives in the closure.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }.into())?;
        io::Result::Ok(())
    };
    // SAFETY: `set` makes one system call: it takes no lock and allocates nothing.
    unsafe { command.pre_exec(set) };
}

/// The new process calls this instead of executing the program, and ends with its code. It has its three streams and
/// no other descriptor.
pub fn instead_of_executing(command: &mut Command, work: impl Fn() -> u8 + Send + Sync + 'static) {
    let run = move || -> io::Result<()> {
        super::process::close_from(3)?;
        let code = work();
        // SAFETY: ends this process at once, without running anything of init's copy.
        unsafe { libc::_exit(code.into()) }
    };
    // SAFETY: init has one thread, so no lock of this copy is held by another.
    unsafe { command.pre_exec(run) };
}

/// Called between fork and exec.
fn default_signals() -> io::Result<()> {
    // SAFETY: an all-zero signal set is initialised by sigemptyset before it is used.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both calls touch only `none`, which lives on this stack.
    unsafe {
        libc::sigemptyset(&raw mut none);
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()).into())?;
    }
    for signal in 1..=64 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: sets a default disposition; the numbers that libc keeps to itself are
            // refused with an error that does not matter.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    Ok(())
}

/// Leaves descriptors open for the program, under the same numbers.
pub fn pass(command: &mut Command, descriptors: Vec<OwnedFd>) {
    let keep = move || {
        for descriptor in &descriptors {
            // SAFETY: numbers only; in the new process the flag is that of its own copy.
            check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) }.into())?;
        }
        io::Result::Ok(())
    };
    // SAFETY: `keep` makes system calls only: it takes no lock and allocates nothing.
    unsafe { command.pre_exec(keep) };
}
