//! How a connection of a guest says whose it is, on the daemon's socket for guests.
//!
//! The driver makes a secret for every start of a workspace; the keeper has it in memory, the daemon
//! its digest in a file beside the workspace, so that the next daemon knows it too. The keeper puts
//! one line before what a program inside sends. It reads nothing of that itself.

use crate::layout::{Layout, WorkspaceDirs};
use holm_core::WorkspaceId;
use holm_core::token::{is_same, random_secret};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The daemon's socket for guests, and what proves whose guests they are.
#[derive(Clone, Serialize, Deserialize)]
pub struct GuestDoor {
    pub socket: PathBuf,
    /// Never seen inside.
    pub secret: String,
}

/// How long the line is, with its end: always the same.
pub const GREETING: usize = VERSION.len() + 13 + 1 + 52 + 1;

const VERSION: &str = "holm 1 ";

/// The daemon's socket for guests.
pub fn socket(layout: &Layout) -> PathBuf {
    layout.run_dir.join("guests.sock")
}

/// What a connection begins with.
pub fn greeting(id: &str, secret: &str) -> Vec<u8> {
    format!("{VERSION}{id} {secret}\n").into_bytes()
}

/// What a connection began with: a workspace, and what should prove it.
pub fn understand(greeting: &[u8]) -> Option<(WorkspaceId, String)> {
    let text = std::str::from_utf8(greeting).ok()?;
    let (id, secret) = text
        .strip_prefix(VERSION)?
        .strip_suffix('\n')?
        .split_once(' ')?;
    Some((WorkspaceId::parse(id).ok()?, secret.to_owned()))
}

/// A secret for the next start of a workspace; only its digest is kept.
pub fn new_secret(dirs: &WorkspaceDirs) -> io::Result<String> {
    let secret = random_secret();
    let fresh = dirs.guest_secret().with_extension("new");
    fs::write(&fresh, digest(&secret))?;
    fs::rename(fresh, dirs.guest_secret())?;
    Ok(secret)
}

/// Whether this is the secret of the workspace's last start. One in the trash has none.
pub fn is_secret_of(layout: &Layout, id: &WorkspaceId, secret: &str) -> bool {
    let kept = fs::read(layout.workspace(id).guest_secret());
    let kept = kept.ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    kept.is_some_and(|kept| is_same(&kept, &digest(secret)))
}

// === impl GuestDoor ===

impl fmt::Debug for GuestDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestDoor({})", self.socket.display())
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_has_one_form_and_one_length() {
        let (id, secret) = (WorkspaceId::random(), random_secret());
        let line = greeting(id.as_str(), &secret);
        assert_eq!(line.len(), GREETING);
        assert_eq!(understand(&line), Some((id.clone(), secret.clone())));
        for wrong in [
            format!("holm 2 {id} {secret}\n"),
            format!("holm 1 {id} {secret}"),
            format!("holm 1 ../../x {secret}\n"),
            "GET / HTTP/1.1\r\n".to_owned(),
        ] {
            assert_eq!(understand(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(understand(&[0xff; GREETING]), None);
    }

    #[test]
    fn the_last_secret_is_the_only_one() {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout {
            data_dir: place.path().to_owned(),
            run_dir: place.path().join("run"),
        };
        let [id, other] = [WorkspaceId::random(), WorkspaceId::random()];
        for id in [&id, &other] {
            fs::create_dir_all(&layout.workspace(id).dir).unwrap();
        }
        assert!(!is_secret_of(&layout, &id, ""));
        let first = new_secret(&layout.workspace(&id)).unwrap();
        assert!(is_secret_of(&layout, &id, &first));
        assert!(!is_secret_of(&layout, &other, &first));
        let second = new_secret(&layout.workspace(&id)).unwrap();
        assert!(is_secret_of(&layout, &id, &second));
        assert!(!is_secret_of(&layout, &id, &first));
        let kept = fs::read(layout.workspace(&id).guest_secret()).unwrap();
        assert!(!String::from_utf8_lossy(&kept).contains(&second));
    }
}
