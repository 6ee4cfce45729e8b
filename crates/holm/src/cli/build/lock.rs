//! Keeps two commands from building the same image at once: the second one waits, and finds it built.

use super::no_room;
use holm_config::daemon_user::DaemonUser;
use holm_core::Fault;
use holm_core::image_reference::ImageReference;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::time::Duration;

/// Released on drop, and by the kernel when the process dies.
pub struct Lock {
    _file: File,
}

/// How often a command that waits looks again.
const LOOK: Duration = Duration::from_millis(100);

// === impl Lock ===

impl Lock {
    /// A few locks serve all images, so that their files do not become many.
    pub async fn of(image: &ImageReference) -> Result<Self, Fault> {
        let digit = image
            .tag()
            .and_then(|key| key.chars().next())
            .unwrap_or('0');
        let directory = DaemonUser::current()?.paths()?.run_dir;
        let place = directory.join(format!("build-{digit}.lock"));
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(place);
        let file = file.map_err(no_room)?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) => tokio::time::sleep(LOOK).await,
                Err(error) => return Err(no_room(io::Error::from(error))),
            }
        }
    }
}
