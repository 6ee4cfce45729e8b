//! Connects to a Unix socket whose path may be longer than a socket address can hold.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use tokio::net::UnixStream;

/// The longest path that fits into `sun_path` with its terminating zero.
const LONGEST_PATH: usize = 100;

pub(super) async fn connect(socket: &Path) -> io::Result<UnixStream> {
    if socket.as_os_str().len() <= LONGEST_PATH {
        return UnixStream::connect(socket).await;
    }
    let (Some(directory), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    // The directory must stay open until the connection is made, because the short path goes
    // through `/proc/self/fd`.
    let directory = File::open(directory)?;
    let short = Path::new("/proc/self/fd")
        .join(directory.as_raw_fd().to_string())
        .join(name);
    UnixStream::connect(short).await
}
