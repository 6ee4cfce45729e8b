//! The first process of a workspace's container: finds its keeper, seals itself, and becomes init.

use super::connect;
use crate::launch::seal_in_container;
use crate::system::Kernel;
use holm_keeper::container::{InitOrder, InitReport, LINK};
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use holm_keeper::{descriptors, init};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// What a workspace sees of its keeper's directory.
const GUEST: &str = "/run/holm";

/// How long the keeper may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Directories that programs expect below `/run`: Debian's PostgreSQL has its socket in the first.
const BELOW_RUN: [&str; 2] = ["/run/postgresql", "/run/lock"];

/// The role.
pub fn main() -> ! {
    match begin() {
        // Init takes the descriptor over.
        Ok(link) => init::main(link.into_raw_fd().to_string().as_bytes(), &Kernel),
        Err(error) => {
            holm_keeper::complain!("the workspace cannot start: {error}");
            std::process::exit(1)
        }
    }
}

fn begin() -> io::Result<OwnedFd> {
    let link = find_keeper()?;
    let order: Option<(InitOrder, Vec<OwnedFd>)> = descriptors::receive(&link)?;
    let (order, _) = order.ok_or(io::ErrorKind::UnexpectedEof)?;
    let (report, handed) = match prepare(&order) {
        Ok((landlock, handed)) => (InitReport::Sealed { landlock }, handed),
        Err(failure) => (InitReport::Failed(failure), Vec::new()),
    };
    let handed: Vec<_> = handed.iter().map(AsFd::as_fd).collect();
    descriptors::send(&link, &report, &handed)?;
    match report {
        InitReport::Sealed { .. } => Ok(link.into()),
        InitReport::Failed(failure) => Err(io::Error::other(failure)),
    }
}

/// The keeper accepts one connection, before any other program can run here.
fn find_keeper() -> io::Result<UnixStream> {
    let socket = Path::new(GUEST).join(LINK);
    connect::within(&socket, PATIENCE)
}

/// Seals this process. Returns what the keeper needs to look at the workspace's processes: its `/proc`, and this process.
fn prepare(order: &InitOrder) -> Result<(bool, Vec<OwnedFd>), LaunchFailure> {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    std::env::set_current_dir("/").step(Part::Other, "go to /")?;
    for directory in BELOW_RUN {
        std::fs::create_dir_all(directory).step(Part::Mount, "make /run")?;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = openat(CWD, "/proc", flags, Mode::empty()).step(Part::Proc, "open /proc")?;
    let own = pidfd_open(getpid(), PidfdFlags::empty()).step(Part::Other, "name itself")?;
    let landlock = seal_in_container(order)?;
    Ok((landlock, vec![proc, own]))
}
