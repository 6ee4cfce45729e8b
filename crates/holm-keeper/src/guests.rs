//! How a guest's connection identifies itself on the daemon's socket for guests.
//!
//! The driver creates a secret for every start of a workspace. The keeper has it in memory, the
//! daemon has its digest in a file beside the workspace, so that the next daemon knows it too. The
//! keeper sends one line before the guest's bytes, which it does not read. Older keepers do not
//! name the session or run; both lines have the same beginning.

use crate::directories::WorkspaceDirs;
use holm_core::token::{is_same, random_secret};
use holm_core::{RunId, SessionId, WorkspaceId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The daemon's socket for guests, and the secret that identifies the workspace.
#[derive(Clone, Serialize, Deserialize)]
pub struct GuestDoor {
    pub socket: PathBuf,
    /// Never visible inside.
    pub secret: String,
}

/// The minimum length of the line, with its end.
pub const GREETING: usize = VERSION.len() + 13 + 1 + 52 + 1;

/// The additional length when it names a session or run.
pub const GREETING_REST: usize = 13 + 1;

const VERSION: &str = "holm 1 ";
const WITH_ASKER: &str = "holm 2 ";
/// The keeper itself speaks, and not a program inside.
const KEEPER: &str = "holm k ";

/// Stands for "no session or run".
const NOBODY: &str = "-------------";

/// The line before a connection. `speaker` is the id of the session or run of the calling program.
pub fn greeting(id: &str, speaker: Option<&str>, secret: &str) -> Vec<u8> {
    let speaker = speaker.unwrap_or(NOBODY);
    format!("{WITH_ASKER}{id} {speaker} {secret}\n").into_bytes()
}

/// The line of the keeper itself. A program inside cannot send it: its bytes come after a line
/// that the keeper wrote.
pub fn keeper_greeting(id: &str, secret: &str) -> Vec<u8> {
    format!("{KEEPER}{id} {secret}\n").into_bytes()
}

/// Whether more of the line follows its first [`GREETING`] bytes.
pub fn has_rest(greeting: &[u8]) -> bool {
    greeting.starts_with(WITH_ASKER.as_bytes())
}

/// The parsed line.
#[derive(Debug, PartialEq, Eq)]
pub struct Greeted {
    pub id: WorkspaceId,
    pub speaker: Option<Speaker>,
    /// The secret to check.
    pub secret: String,
}

/// The caller, as far as the keeper could determine it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    Session(SessionId),
    Run(RunId),
    /// No program inside.
    Keeper,
}

pub fn understand(greeting: &[u8]) -> Option<Greeted> {
    let text = std::str::from_utf8(greeting).ok()?.strip_suffix('\n')?;
    let (id, rest) = match text.strip_prefix(VERSION) {
        Some(text) => text.split_once(' ')?,
        None => {
            let rest = text.strip_prefix(WITH_ASKER).or(text.strip_prefix(KEEPER));
            rest?.split_once(' ')?
        }
    };
    let is_keeper = greeting.starts_with(KEEPER.as_bytes());
    let (speaker, secret) = if has_rest(greeting) {
        rest.split_once(' ')?
    } else {
        (NOBODY, rest)
    };
    let session = || SessionId::parse(speaker).ok().map(Speaker::Session);
    let run = || RunId::parse(speaker).ok().map(Speaker::Run);
    Some(Greeted {
        id: WorkspaceId::parse(id).ok()?,
        speaker: if is_keeper {
            Some(Speaker::Keeper)
        } else {
            session().or_else(run)
        },
        secret: secret.to_owned(),
    })
}

/// Creates a secret for the next start of a workspace; only its digest is stored.
pub fn new_secret(dirs: &WorkspaceDirs) -> io::Result<String> {
    let secret = random_secret();
    let fresh = dirs.guest_secret().with_extension("new");
    fs::write(&fresh, digest(&secret))?;
    fs::rename(fresh, dirs.guest_secret())?;
    Ok(secret)
}

/// Whether this is the secret of the workspace's last start. A workspace in the trash has none.
pub fn is_secret_of(dirs: &WorkspaceDirs, secret: &str) -> bool {
    let kept = fs::read(dirs.guest_secret());
    let kept = kept.ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    kept.is_some_and(|kept| is_same(&kept, &digest(secret)))
}

/// The name of the daemon's socket for guests.
pub const SOCKET: &str = "guests.sock";

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
        let (session, run) = (SessionId::random(), RunId::random());
        let of_session = Some(Speaker::Session(session.clone()));
        let of_run = Some(Speaker::Run(run.clone()));
        for (text, speaker) in [
            (None, None),
            (Some(session.as_str()), of_session),
            (Some(run.as_str()), of_run),
        ] {
            let line = greeting(id.as_str(), text, &secret);
            assert_eq!(line.len(), GREETING + GREETING_REST);
            assert!(has_rest(&line[..GREETING]));
            let greeted = Greeted {
                id: id.clone(),
                speaker,
                secret: secret.clone(),
            };
            assert_eq!(understand(&line), Some(greeted));
        }
        // The line of older keepers.
        let before = format!("holm 1 {id} {secret}\n").into_bytes();
        assert_eq!(before.len(), GREETING);
        assert!(!has_rest(&before));
        let greeted = understand(&before).unwrap();
        assert_eq!((greeted.id, greeted.speaker), (id.clone(), None));
        let own = keeper_greeting(id.as_str(), &secret);
        assert_eq!(own.len(), GREETING);
        assert!(!has_rest(&own));
        assert_eq!(understand(&own).unwrap().speaker, Some(Speaker::Keeper));
        for wrong in [
            format!("holm 2 {id} {secret}\n"),
            format!("holm 3 {id} {secret}\n"),
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
        let [dirs, other] = ["one", "other"].map(|name| WorkspaceDirs {
            dir: place.path().join(name),
            socket: place.path().join("socket"),
        });
        for dirs in [&dirs, &other] {
            fs::create_dir_all(&dirs.dir).unwrap();
        }
        assert!(!is_secret_of(&dirs, ""));
        let first = new_secret(&dirs).unwrap();
        assert!(is_secret_of(&dirs, &first));
        assert!(!is_secret_of(&other, &first));
        let second = new_secret(&dirs).unwrap();
        assert!(is_secret_of(&dirs, &second));
        assert!(!is_secret_of(&dirs, &first));
        let kept = fs::read(dirs.guest_secret()).unwrap();
        assert!(!String::from_utf8_lossy(&kept).contains(&second));
    }
}
