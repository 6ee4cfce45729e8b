//! The link to an init: what the launcher hands over, the first words, and the messages after them.

use super::Registry;
use crate::descriptors;
use crate::wire::{Defence, Doorway, FromInit, ToInit, VERSION};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long init may take for one message before it is taken for broken.
const INIT_PATIENCE: Duration = Duration::from_secs(10);

/// What the launcher handed over.
#[derive(Default)]
pub struct Handed {
    /// Where renames are told.
    pub renames: Option<OwnedFd>,
    pub doorways: Vec<(Doorway, OwnedFd)>,
    /// Where secrets are put as files.
    pub secret_files: Option<OwnedFd>,
}

/// The first words on the link: what is handed over, then that init is there. `take` takes descriptors from
/// init that the kernel did not send.
pub fn receive_hello(
    link: &UnixStream,
    take: impl Fn(&[i32]) -> io::Result<Vec<OwnedFd>>,
) -> io::Result<Handed> {
    link.set_read_timeout(Some(INIT_PATIENCE))?;
    link.set_write_timeout(Some(INIT_PATIENCE))?;
    let mut handed = Handed::default();
    loop {
        let message = match descriptors::receive(link)? {
            Some((FromInit::Left { numbers, message }, _)) => {
                let taken = take(&numbers)?;
                // Before init starts anything, so that nothing inside ever has them.
                descriptors::send(link, &ToInit::Close { numbers }, &[])?;
                Some((*message, taken))
            }
            message => message,
        };
        match message {
            Some((FromInit::Renames, descriptors)) => {
                handed.renames = descriptors.into_iter().next();
            }
            Some((FromInit::SecretFiles, descriptors)) => {
                handed.secret_files = descriptors.into_iter().next();
            }
            Some((FromInit::Doorway(doorway), descriptors)) => {
                let sockets = descriptors.into_iter().map(|socket| (doorway, socket));
                handed.doorways.extend(sockets);
            }
            Some((FromInit::Hello { version: VERSION }, _)) => return Ok(handed),
            _ => return Err(io::Error::other("it did not say hello")),
        }
    }
}

/// One message of an init. The end of the stream is an error.
pub fn receive_message(
    registry: &Registry,
    link: &UnixStream,
) -> io::Result<(FromInit, Vec<OwnedFd>)> {
    let longest = if registry.plan.has(Defence::ShortMessages) {
        descriptors::MAX_MESSAGE
    } else {
        usize::MAX
    };
    let received = descriptors::receive_within(link, longest)?;
    received.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}
