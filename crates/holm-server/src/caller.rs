//! Who makes a request. Every route can have a [`Caller`]; only the gate creates it.

use super::failure::{Failure, error_body};
use super::listen::{Peer, user_name};
use crate::helper::Local;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::Extensions;
use axum::http::request::Parts;
use holm_api::ErrorBody;
use holm_config::paths::Paths;
use holm_core::clone_url::CloneFrom;
use holm_core::run::Requester;
use holm_core::{Code, Fault, TokenId, WorkspaceId};
use holm_keeper::guests::Speaker;
use holm_proxy::sever::Sever;

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The user or root, at the Unix socket.
    Person { uid: u32 },
    /// A program with a token of the user, at the front door.
    Token { id: TokenId, name: String },
    /// The user in a browser that is signed in to the dashboard.
    Browser { id: TokenId },
    /// A program inside a workspace, or one with a token of that workspace.
    Workspace(WorkspaceId),
    /// Unknown. Only for routes that are open to everyone.
    Anyone,
}

/// The listener that a request came through.
#[derive(Clone)]
pub enum Way {
    Socket(Peer),
    /// The front door.
    Door(Sever),
    /// The socket for guests, with the workspace and its session or run.
    Guests(WorkspaceId, Option<Speaker>),
}

// === impl Way ===

impl Way {
    pub fn of(extensions: &Extensions) -> Option<Self> {
        let peer = extensions.get::<ConnectInfo<Peer>>();
        let peer = peer.map(|ConnectInfo(peer)| Way::Socket(peer.clone()));
        peer.or_else(|| extensions.get::<Way>().cloned())
    }
}

// === impl Caller ===

impl Caller {
    /// Whether it may see this workspace.
    pub fn sees(&self, id: &WorkspaceId) -> bool {
        match self {
            Caller::Person { .. } | Caller::Browser { .. } | Caller::Token { .. } => true,
            Caller::Workspace(own) => own == id,
            Caller::Anyone => false,
        }
    }

    /// Whether it is a person, and not a program that a person gave a token.
    pub fn is_person(&self) -> bool {
        matches!(self, Caller::Person { .. } | Caller::Browser { .. })
    }

    pub fn is_guest(&self) -> bool {
        matches!(self, Caller::Workspace(_))
    }

    /// For runs and sessions that it starts.
    pub fn asker(&self) -> Requester {
        match self {
            Caller::Person { .. } | Caller::Browser { .. } | Caller::Token { .. } => {
                Requester::User
            }
            Caller::Workspace(_) | Caller::Anyone => Requester::Guest,
        }
    }

    /// The name of the user who owns the workspaces it creates.
    pub fn owner(&self) -> String {
        match self {
            Caller::Person { uid } => user_name(*uid),
            _ => user_name(rustix::process::geteuid().as_raw()),
        }
    }

    /// Whether its files can be the daemon's own. The user behind a token is unknown.
    pub fn is_daemon_user(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        matches!(self, Caller::Person { uid } if *uid == own)
    }

    /// Whether it may name repositories of this machine, which the daemon's own user reads.
    pub fn local(&self) -> Local {
        match self {
            Caller::Person { .. } => Local::Allowed(CloneFrom::Anywhere),
            Caller::Browser { .. } | Caller::Token { .. } => Local::Allowed(CloneFrom::Elsewhere),
            Caller::Workspace(_) | Caller::Anyone => Local::Refused,
        }
    }

    /// The longest message on a WebSocket. Guests have many connections, which all use the daemon's
    /// memory.
    pub fn largest_message(&self) -> usize {
        if self.is_guest() { 1 << 20 } else { 16 << 20 }
    }

    /// The actor in the audit record.
    pub fn actor(&self) -> String {
        match self {
            Caller::Person { uid } => format!("user {}", user_name(*uid)),
            Caller::Browser { id } => format!("user {} (browser {id})", self.owner()),
            Caller::Token { id, name } => format!("token {id} ({})", name.escape_debug()),
            Caller::Workspace(id) => format!("workspace {id}"),
            Caller::Anyone => "nobody".to_owned(),
        }
    }

    /// A fault, reduced to what this caller may know.
    pub fn error_body(&self, paths: &Paths, fault: &Fault) -> ErrorBody {
        match self {
            Caller::Workspace(own) => {
                // The log has all of it.
                error_body(fault);
                ErrorBody::from(&discreet(paths, own, fault))
            }
            _ => error_body(fault),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| {
            let message = "nobody looked at who asks";
            Failure(Fault::new(Code::Internal, message, "see the daemon's log"))
        })
    }
}

/// A fault without information that a workspace must not get: host paths, other workspaces, and
/// problems of the daemon itself.
pub fn discreet(paths: &Paths, own: &WorkspaceId, fault: &Fault) -> Fault {
    let inner = matches!(
        fault.code,
        Code::Internal
            | Code::CorruptState
            | Code::NewerState
            | Code::ReadOnly
            | Code::DiskFull
            | Code::StoreUnavailable
            | Code::StoreInUse
            | Code::Overcommitted
    );
    let config = paths.config_file.parent();
    let places = [Some(paths.data_dir.as_path()), Some(&paths.run_dir), config];
    let mut places = places.into_iter().flatten();
    let names_a_place = places.any(|place| {
        let place = place.display().to_string();
        fault.message().contains(&place) || fault.hint.contains(&place)
    });
    if inner || names_a_place {
        let message = "it did not work, for a reason that is outside of this workspace";
        return Fault::new(fault.code, message, "outside, the daemon's log says why");
    }
    Fault::new(
        fault.code,
        without_others(&fault.message(), own),
        without_others(&fault.hint, own),
    )
}

/// A text without the ids of other workspaces.
fn without_others(text: &str, own: &WorkspaceId) -> String {
    let mut shortened = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let is_letter = |character: char| character.is_ascii_alphanumeric();
        let word = rest.find(|character| !is_letter(character));
        let (word, after) = rest.split_at(word.unwrap_or(rest.len()));
        match WorkspaceId::parse(word) {
            Ok(id) if id != *own => shortened.push_str("w…"),
            _ => shortened.push_str(word),
        }
        let between = after.find(is_letter).unwrap_or(after.len());
        shortened.push_str(&after[..between]);
        rest = &after[between..];
    }
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Paths {
        Paths {
            config_file: "/c/holm/config.toml".into(),
            data_dir: "/d/holm".into(),
            run_dir: "/r/holm".into(),
            port: None,
        }
    }

    #[test]
    fn a_workspace_hears_of_no_place_and_no_other() {
        let [own, other] = [WorkspaceId::random(), WorkspaceId::random()];
        let check = |code: Code, message: &str, expect: &str| {
            let fault = Fault::new(code, message, format!("see {other}"));
            let shortened = discreet(&paths(), &own, &fault);
            assert_eq!(shortened.code, code);
            assert!(shortened.message().contains(expect), "{shortened:?}");
            let all = format!("{}{}", shortened.message(), shortened.hint);
            for secret in [other.as_str(), "/d/holm", "/r/holm", "/c/holm"] {
                assert!(!all.contains(secret), "{shortened:?}");
            }
        };
        check(Code::NotRunning, &format!("{own} is stopped"), own.as_str());
        check(
            Code::VolumeTaken,
            &format!("({other}) has it, é"),
            "(w…) has it, é",
        );
        check(Code::StartFailed, "cannot read /d/holm/x", "outside");
        check(Code::StartFailed, "cannot read /r/holm", "outside");
        check(Code::InvalidConfig, "/c/holm/config.toml:1", "outside");
        check(Code::Internal, "whatever it is", "outside");
        check(
            Code::ExecFailed,
            "/usr/bin/nothing: not found",
            "/usr/bin/nothing",
        );
    }

    #[test]
    fn actors_cannot_forge_a_line() {
        let caller = Caller::Token {
            id: TokenId::random(),
            name: "a\n\u{1b}b".to_owned(),
        };
        assert!(!caller.actor().contains(char::is_control));
    }
}
