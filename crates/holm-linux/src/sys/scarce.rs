//! Finds per-user kernel resources that are exhausted for a program of a workspace, by acquiring
//! one of each: most counters cannot be read.

use super::check;
use super::enter::{begin_in, code_of};
use rustix::event::epoll;
use rustix::fs::inotify;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// The resources, as bits of the result of [`look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    DescriptorsInFlight = 1,
    InotifyInstances = 2,
    InotifyWatches = 4,
    MessageQueues = 8,
    /// New pipes are smaller.
    PipePages = 16,
    EpollWatches = 32,
}

/// Limits of programs inside.
#[derive(Clone, Copy, Debug)]
pub struct ProgramLimits {
    pub open_files: u64,
    pub queue_bytes: u64,
}

/// Checks from the user and ipc namespaces of the process `of`, in a process that leaves nothing
/// behind. Its end is not waited for: the kernel takes some milliseconds to close an inotify
/// instance.
pub fn look(of: BorrowedFd<'_>, limits: ProgramLimits) -> io::Result<i32> {
    let (mut answer, tell) = io::pipe()?;
    let namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWIPC;
    let work = || {
        let found = try_all(limits)?;
        (&tell).write_all(&found.to_ne_bytes())?;
        Ok(0)
    };
    let child = begin_in(of, namespaces, 0, work)?;
    drop(tell);
    let mut found = [0; 4];
    let received = answer.read_exact(&mut found);
    // Only to prevent a zombie.
    std::thread::spawn(move || code_of(&child));
    received.map(|()| i32::from_ne_bytes(found))
}

fn try_all(limits: ProgramLimits) -> io::Result<i32> {
    let lowered = |resource, most| {
        let limit = getrlimit(resource);
        let current = Some(limit.maximum.map_or(most, |hard| hard.min(most)));
        setrlimit(resource, Rlimit { current, ..limit })
    };
    lowered(Resource::Nofile, limits.open_files)?;
    lowered(Resource::Msgqueue, limits.queue_bytes)?;
    let (pipe, _end) = rustix::pipe::pipe()?;
    let mut found = 0;
    let mut note =
        |is_used_up: bool, what: Scarce| found |= if is_used_up { what as i32 } else { 0 };
    note(
        rustix::pipe::fcntl_getpipe_size(&pipe)? < DEFAULT_PIPE,
        Scarce::PipePages,
    );
    note(
        sent(&pipe) == Err(Errno::TOOMANYREFS),
        Scarce::DescriptorsInFlight,
    );
    match inotify::init(inotify::CreateFlags::CLOEXEC) {
        Ok(watcher) => {
            let watched = inotify::add_watch(&watcher, c"/", inotify::WatchFlags::DELETE_SELF);
            note(watched == Err(Errno::NOSPC), Scarce::InotifyWatches);
            // Closed with this process, after the answer.
            std::mem::forget(watcher);
        }
        Err(error) => note(error == Errno::MFILE, Scarce::InotifyInstances),
    }
    note(
        queue().is_err_and(|error| is_no_room(&error)),
        Scarce::MessageQueues,
    );
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let added = epoll::add(
        &poller,
        &pipe,
        epoll::EventData::new_u64(0),
        epoll::EventFlags::IN,
    );
    note(added == Err(Errno::NOSPC), Scarce::EpollWatches);
    Ok(found)
}

/// The kernel makes smaller ones only when the user has no pages left.
const DEFAULT_PIPE: usize = 65_536;

/// Not a socket: one that holds itself would be left to the kernel's garbage collection.
fn sent(descriptor: &OwnedFd) -> Result<(), Errno> {
    let (socket, _end) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let pieces = [IoSlice::new(b"x")];
    rustix::net::sendmsg(&socket, &pieces, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A queue with default attributes. It is unlinked at once and ends with this process.
fn queue() -> io::Result<OwnedFd> {
    let mut name = *b"holm-................\0";
    let mut random = [0u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    for (place, byte) in name[5..21].iter_mut().zip(random) {
        *place = b'a' + byte % 16;
    }
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: `name` ends with a NUL and outlives both calls; no attributes are passed.
    let queue = check(unsafe {
        libc::syscall(
            libc::SYS_mq_open,
            name.as_ptr(),
            flags,
            0o600,
            std::ptr::null::<u8>(),
        )
    })?;
    // SAFETY: as above. A queue that stays would be one that the workspace can see and remove.
    unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) };
    // SAFETY: the kernel's answer is a descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(queue as i32) })
}

/// EMFILE: the user's bytes. ENOSPC: the queues of the namespace.
fn is_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENOSPC))
}
