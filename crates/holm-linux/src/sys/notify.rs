//! Reports rename calls to another process before the kernel acts on them (seccomp user
//! notification).

use super::check;
use super::seccomp;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// Identifies the call for the answer.
    pub id: u64,
    /// The calling thread's id in this process's namespace.
    pub thread: i32,
    pub number: libc::c_long,
    pub arguments: [u64; 6],
}

/// The answer to a call.
pub enum Verdict {
    /// The kernel continues as if the filter were not there.
    Continue,
    /// It returns 0.
    Done,
    /// It fails with this error number.
    Fail(i32),
}

const FLAG_NEW_LISTENER: libc::c_ulong = 1 << 3;
/// Once the call was received, only a fatal signal interrupts it. Without this a signal would
/// restart a rename that has already happened.
const FLAG_WAIT_KILLABLE: libc::c_ulong = 1 << 5;
const RESPONSE_CONTINUE: u32 = 1;

/// The reported calls.
#[cfg(target_arch = "x86_64")]
const RENAMES: [libc::c_long; 3] = [libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2];
#[cfg(not(target_arch = "x86_64"))]
const RENAMES: [libc::c_long; 2] = [libc::SYS_renameat, libc::SYS_renameat2];

/// Reports renames of this process and its descendants to the holder of the returned descriptor.
/// `None`: the kernel is too old to do it safely. Needs no_new_privs.
pub fn listen() -> io::Result<Option<OwnedFd>> {
    let mut program = seccomp::notifying(&RENAMES);
    let filter = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` and the program it points to live until the call returns.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            FLAG_NEW_LISTENER | FLAG_WAIT_KILLABLE,
            &raw const filter,
        )
    };
    match check(answer) {
        // SAFETY: a new descriptor that has no other owner.
        Ok(descriptor) => Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the kernel switch directly between caller and listener. Older kernels do not support it;
/// then it only takes longer.
pub fn hurry(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    // SAFETY: the request takes a number and no pointer.
    unsafe { libc::ioctl(listener.as_raw_fd(), request_set_flags(), SYNC_WAKE_UP) };
}

/// The next call; blocks. `None`: the caller went away before it could be reported.
pub fn receive(listener: BorrowedFd<'_>) -> io::Result<Option<Notification>> {
    // SAFETY: `seccomp_notif` is plain data, and the kernel asks for it to be zero.
    let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes one `seccomp_notif`, which lives until the call returns.
    let answer = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            request_receive(),
            &raw mut notification,
        )
    };
    match check(answer.into()) {
        Ok(_) => Ok(Some(Notification {
            id: notification.id,
            thread: notification.pid as i32,
            number: libc::c_long::from(notification.data.nr),
            arguments: notification.data.args,
        })),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the call still waits, so that the thread id still means that thread.
pub fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the request reads one u64, which lives until the call returns.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), request_valid(), &raw const id) };
    answer == 0
}

pub fn answer(listener: BorrowedFd<'_>, id: u64, verdict: Verdict) -> io::Result<()> {
    let response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: match verdict {
            Verdict::Fail(errno) => -errno,
            Verdict::Continue | Verdict::Done => 0,
        },
        flags: match verdict {
            Verdict::Continue => RESPONSE_CONTINUE,
            Verdict::Done | Verdict::Fail(_) => 0,
        },
    };
    // SAFETY: the request reads one `seccomp_notif_resp`, which lives until the call returns.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), request_send(), &raw const response) };
    match check(answer.into()) {
        Ok(_) => Ok(()),
        // The caller died meanwhile.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A zero-terminated text in another process's memory.
pub fn read_text(thread: i32, address: u64, longest: usize) -> io::Result<Vec<u8>> {
    const PAGE: u64 = 4096;
    let mut text = Vec::new();
    let mut at = address;
    while text.len() <= longest {
        // A page at a time: the text may end just before unreadable memory.
        let mut piece = vec![0u8; (PAGE - at % PAGE) as usize];
        let local = libc::iovec {
            iov_base: piece.as_mut_ptr().cast(),
            iov_len: piece.len(),
        };
        let remote = libc::iovec {
            iov_base: at as *mut libc::c_void,
            iov_len: piece.len(),
        };
        // SAFETY: `local` describes `piece`, which lives until the call returns; the remote range
        // is only read by the kernel, in the other process.
        let read = check(unsafe {
            libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0)
                as libc::c_long
        })? as usize;
        if let Some(end) = piece[..read].iter().position(|byte| *byte == 0) {
            text.extend(&piece[..end]);
            return Ok(text);
        }
        if read < piece.len() {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        text.extend(piece);
        at += read as u64;
    }
    Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

/// `_IOC(direction, '!', number, size)` of the kernel's seccomp requests.
const fn request(direction: libc::c_ulong, number: libc::c_ulong, size: usize) -> libc::c_ulong {
    direction << 30 | (size as libc::c_ulong) << 16 | (b'!' as libc::c_ulong) << 8 | number
}

const fn request_receive() -> libc::c_ulong {
    request(3, 0, size_of::<libc::seccomp_notif>())
}

const fn request_send() -> libc::c_ulong {
    request(3, 1, size_of::<libc::seccomp_notif_resp>())
}

const fn request_valid() -> libc::c_ulong {
    request(1, 2, size_of::<u64>())
}

const fn request_set_flags() -> libc::c_ulong {
    request(1, 4, size_of::<u64>())
}
