//! Handles renames that overlayfs refuses. Without root it cannot rename a directory that comes
//! from the base, and no kernel moves a file across a mount point; both give `EXDEV`, which few
//! programs expect inside one tree.
//!
//! The kernel reports renames to this process before it acts on them. The mover performs each one
//! itself, in the workspace's mount and user namespaces and with the caller's directories; only if
//! the kernel then returns `EXDEV` it copies and removes instead. The keeper starts it at the first
//! rename. It is not in the workspace's pid namespace, so programs inside can neither see nor kill
//! it.

mod copy;
mod journal;
mod paths;
mod relocate;
mod taken_up;

use crate::open_files;
use crate::sys;
use crate::sys::notify::{self, Notification, Verdict};
pub use copy::{Source, copy_entry};
use holm_keeper::complain;
use holm_keeper::directories::open_directory;
use journal::Journal;
use paths::{Call, Caller};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
pub use taken_up::TakenUp;

/// The hidden first argument of a mover.
pub const ROLE: &str = "__mover";

/// The role: the path of the journal comes on stdin, stderr is the keeper's log. The arguments are the numbers of
/// the descriptors that the keeper left open: where renames are told, init, and the renames that the
/// mover before this one had taken up.
pub fn main() -> ! {
    let mut numbers = std::env::args()
        .skip(2)
        .filter_map(|text| text.parse().ok());
    let (Some(listener), Some(init), Some(taken_up)) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        std::process::exit(2)
    };
    let code = match set_up(listener, init, taken_up).and_then(|mover| mover.serve()) {
        Ok(()) => 0,
        Err(error) => {
            complain!("the mover ended: {error}");
            1
        }
    };
    std::process::exit(code)
}

/// How the keeper starts this role; the path of the journal goes to its stdin.
pub fn command(
    program: &Path,
    listener: &OwnedFd,
    init: BorrowedFd<'_>,
    taken_up: &TakenUp,
) -> io::Result<Command> {
    let mut command = Command::new(program);
    let passed = vec![
        listener.try_clone()?,
        init.try_clone_to_owned()?,
        taken_up.as_fd().try_clone_to_owned()?,
    ];
    command.arg(ROLE);
    for descriptor in &passed {
        command.arg(descriptor.as_raw_fd().to_string());
    }
    command
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    sys::command::pass(&mut command, passed);
    Ok(command)
}

/// Printed when the mover is ready.
pub const READY: &[u8] = b"ready\n";

struct Mover {
    listener: Arc<OwnedFd>,
    /// The host's `/proc`: this process is not in the one that is mounted inside.
    processes: Arc<OwnedFd>,
    journal: Arc<Journal>,
    taken_up: Arc<TakenUp>,
}

fn set_up(listener: i32, init: i32, taken_up: i32) -> io::Result<Mover> {
    let listener = sys::process::inherited(listener);
    let init = sys::process::inherited(init);
    let taken_up = sys::process::inherited(taken_up);
    for descriptor in [&listener, &init, &taken_up] {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
    }
    sys::process::die_with_parent()?;
    let mut text = Vec::new();
    io::stdin()
        .read_to_end(&mut text)
        .map_err(cannot("read the place of the journal"))?;
    let journal = Path::new(OsStr::from_bytes(&text));
    let journal = Arc::new(Journal::open(journal).map_err(cannot("open the journal"))?);
    let processes = Arc::new(open_directory(Path::new("/proc")).map_err(cannot("open /proc"))?);
    // One directory is held open per level of a copied tree.
    open_files::raise();
    rustix::process::umask(rustix::fs::Mode::empty());

    let inside = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
    move_into_thread_name_spaces(init.as_fd(), inside).map_err(cannot("join the workspace"))?;
    sys::process::no_new_privileges()?;
    // No Landlock here: a process in a domain may not look into processes of another domain. The
    // mounts, which Landlock only backs up, apply to this process as to all inside.
    sys::capability::drop_all_but_looking().map_err(cannot("give up capabilities"))?;
    sys::process::die_with_parent()?;
    relocate::finish_interrupted(&journal).map_err(cannot("finish interrupted moves"))?;
    let taken_up = TakenUp::from(taken_up);
    fail_all(listener.as_fd(), &taken_up).map_err(cannot("answer for the mover before"))?;
    // The keeper reads this only when a move had been interrupted.
    let _ = io::stdout().write_all(READY);
    let _ = io::stdout().flush();
    let null = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .map_err(cannot("open /dev/null"))?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(Mover {
        listener: Arc::new(listener),
        processes,
        journal,
        taken_up: Arc::new(taken_up),
    })
}

/// Fails the calls of a mover that is gone: the rename has happened or has not.
pub fn fail_all(listener: BorrowedFd<'_>, taken_up: &TakenUp) -> io::Result<()> {
    for id in taken_up.all()? {
        notify::answer(listener, id, fail(Errno::IO))?;
    }
    taken_up.clear()
}

/// Adds what was tried.
fn cannot<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> io::Error {
    move |error| {
        let error: io::Error = error.into();
        io::Error::new(error.kind(), format!("cannot {what}: {error}"))
    }
}

// === impl Mover ===

impl Mover {
    /// Serves until the last process inside is gone.
    fn serve(self) -> io::Result<()> {
        let listener = &self.listener;
        notify::hurry(listener.as_fd());
        loop {
            let mut source = [PollFd::new(listener, PollFlags::IN)];
            match poll(&mut source, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !source[0].revents().contains(PollFlags::IN) {
                return Ok(());
            }
            let Some(notification) = notify::receive(listener.as_fd())? else {
                continue;
            };
            self.taken_up.look_at(notification.id)?;
            let call = match self.understand(&notification) {
                Ok(Some(call)) => call,
                Ok(None) => {
                    notify::answer(listener.as_fd(), notification.id, Verdict::Continue)?;
                    continue;
                }
                Err(errno) => {
                    notify::answer(listener.as_fd(), notification.id, fail(errno))?;
                    continue;
                }
            };
            // The caller's memory and descriptors were read by its pid, which is valid only if it
            // still waits.
            if !notify::is_waiting(listener.as_fd(), notification.id) {
                continue;
            }
            match call.rename() {
                Ok(()) => notify::answer(listener.as_fd(), notification.id, Verdict::Done)?,
                Err(Errno::XDEV) => self.relocate(notification.id, call)?,
                Err(errno) => notify::answer(listener.as_fd(), notification.id, fail(errno))?,
            }
        }
    }

    /// `None`: the kernel should do it.
    fn understand(&self, notification: &Notification) -> Result<Option<Call>, Errno> {
        let caller = Caller {
            thread: notification.thread,
            processes: &self.processes,
        };
        caller.call(notification)
    }

    /// Copying takes time; other renames continue meanwhile.
    fn relocate(&self, id: u64, call: Call) -> io::Result<()> {
        let (listener, journal, processes) = (
            Arc::clone(&self.listener),
            Arc::clone(&self.journal),
            Arc::clone(&self.processes),
        );
        let noted = self.taken_up.note(id)?;
        std::thread::spawn(move || {
            let verdict = match relocate::relocate(&call, &journal, &processes) {
                Ok(()) => Verdict::Done,
                Err(errno) => fail(errno),
            };
            // If the caller died, no process waits for the answer.
            let _ = notify::answer(listener.as_fd(), id, verdict);
            drop(noted);
        });
        Ok(())
    }
}

// === impl Call ===

impl Call {
    fn rename(&self) -> Result<(), Errno> {
        let flags = RenameFlags::from_bits_retain(self.flags);
        rustix::fs::renameat_with(
            &self.from.directory,
            self.from.path.as_slice(),
            &self.to.directory,
            self.to.path.as_slice(),
            flags,
        )
    }
}

fn fail(errno: Errno) -> Verdict {
    Verdict::Fail(errno.raw_os_error())
}
