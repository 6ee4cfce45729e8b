//! The Unix socket: created in a directory of ours, and open to this user and root only.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use holm_core::{Code, Fault};
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
    /// It is this process, acting for a caller.
    pub is_daemon: bool,
}

/// Accepts connections of the user and root.
pub struct PeerListener {
    listener: UnixListener,
    own_uid: u32,
}

/// How long to wait when no descriptors are left.
const BREATH: Duration = Duration::from_millis(100);

// === impl PeerListener ===

impl PeerListener {
    /// Listens on `socket`. The caller holds the lock of the data directory, so an existing socket
    /// belongs to a dead daemon.
    pub fn bind(socket: &Path) -> Result<Self, Fault> {
        Ok(Self {
            listener: private_socket(socket)?,
            own_uid: rustix::process::geteuid().as_raw(),
        })
    }

    fn admit(&self, stream: &UnixStream) -> Option<Peer> {
        let peer = stream.peer_cred().ok()?;
        let uid = peer.uid();
        let own = i32::try_from(std::process::id()).ok();
        let is_daemon = own.is_some() && peer.pid() == own;
        (uid == self.own_uid || uid == 0).then_some(Peer { uid, is_daemon })
    }
}

impl Listener for PeerListener {
    type Io = UnixStream;
    type Addr = Peer;

    async fn accept(&mut self) -> (UnixStream, Peer) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => match self.admit(&stream) {
                    Some(peer) => return (stream, peer),
                    None => tracing::warn!("a connection of another user was refused"),
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer {
            uid: self.own_uid,
            is_daemon: false,
        })
    }
}

// === impl Peer ===

impl Connected<IncomingStream<'_, PeerListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, PeerListener>) -> Self {
        stream.remote_addr().clone()
    }
}

/// The name of a user, or its number. A name that was found is remembered: every request asks.
pub fn user_name(uid: u32) -> String {
    static KNOWN: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = known().get(&uid) {
        return name.clone();
    }
    match name_in_passwd(uid) {
        Some(name) => known().entry(uid).or_insert(name).clone(),
        None => uid.to_string(),
    }
}

fn name_in_passwd(uid: u32) -> Option<String> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// Creates a socket that only this user can connect to, replacing a stale one.
pub fn private_socket(socket: &Path) -> Result<UnixListener, Fault> {
    bind(socket).map_err(|error| {
        Fault::new(
            Code::ReadOnly,
            format!("cannot listen on {}", socket.display()),
            "is the directory writable? HOLM_HOME moves everything to another one",
        )
        .because(error)
    })
}

fn bind(socket: &Path) -> io::Result<UnixListener> {
    let (Some(directory), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    // Through the directory's descriptor, because a socket address is limited to 107 bytes.
    let directory = File::open(directory)?;
    let path = Path::new("/proc/self/fd")
        .join(directory.as_raw_fd().to_string())
        .join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_numbers() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(u32::MAX - 7), (u32::MAX - 7).to_string());
    }
}
