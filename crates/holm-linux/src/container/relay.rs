//! Joins stdin and stdout to the store's socket: an engine carries the two streams of a program, and no socket.

use super::connect;
use holm_keeper::container::store_socket;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

/// How long the store may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the program stays after its last output. An engine may lose what a program wrote right before its end; a daemon that has
/// the last answer closes the connection sooner.
const LINGER: Duration = Duration::from_millis(100);

/// The role. It says with one byte that it is connected, and ends when the store closes the connection.
pub fn main() -> ! {
    let done = carry();
    std::process::exit(i32::from(done.is_err()))
}

fn carry() -> io::Result<()> {
    let mut store = find_store()?;
    let mut out = io::stdout().lock();
    io::Write::write_all(&mut out, b"!")?;
    io::Write::flush(&mut out)?;
    let mut inward = store.try_clone()?;
    let (open, closed) = mpsc::channel::<()>();
    std::thread::Builder::new()
        .stack_size(128 * 1024)
        .spawn(move || {
            let _ = copy(&mut io::stdin().lock(), &mut inward);
            // The store learns that the daemon sends no more, or is gone.
            let _ = inward.shutdown(Shutdown::Write);
            drop(open);
        })?;
    copy(&mut store, &mut out)?;
    // It ends with an error in any case: nothing is ever sent.
    let _ = closed.recv_timeout(LINGER);
    Ok(())
}

/// Waits for a store that is starting: an engine loses the end of a program that ends at once.
fn find_store() -> io::Result<UnixStream> {
    connect::within(&store_socket(), PATIENCE)
}

/// Passes on what there is at once: stdout would keep what does not end a line.
fn copy(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..length])?;
        to.flush()?;
    }
}
