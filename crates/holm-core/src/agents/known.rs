//! What holm knows about coding agents: their commands, what they need of the user's home, and
//! where their sign-in may be used. The table itself is a file of the configuration crate.
//!
//! Everything that is brought into a workspace is on an allow list. A key that is not listed stays
//! outside: variables, MCP servers, hooks, helper programs, history, other projects.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownAgents {
    pub services: BTreeMap<String, Service>,
    pub agents: BTreeMap<String, KnownAgent>,
}

/// An API at which a sign-in may be used.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Names, or `name:port`.
    pub hosts: Vec<String>,
    /// Paths at which the gateway puts the value into a request; `*` at the end stands for any
    /// rest. Paths that create other credentials are not listed.
    pub paths: Vec<String>,
    /// Where the refresh token is exchanged for a new access token.
    pub token: Option<TokenHost>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TokenHost {
    pub host: String,
    pub path: String,
}

/// A coding agent.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct KnownAgent {
    /// Its name for people.
    pub title: String,
    /// The command of a run: the message comes on stdin.
    pub run: Vec<String>,
    /// The command of a session.
    pub session: Vec<String>,
    /// The command that installs it; empty if it is always there.
    #[serde(default)]
    pub install: String,
    /// Variables that it gets in every workspace.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Variables of the user that hold a key, with the service at which the key may be used.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    #[serde(default)]
    pub sign_ins: Vec<SignIn>,
    #[serde(default)]
    pub settings: Vec<Settings>,
    /// Files and directories that are brought whole, relative to the home.
    #[serde(default)]
    pub copies: Vec<String>,
    pub instructions: Option<Instructions>,
    /// The gateway cannot inspect its connections (it pins certificates, or speaks HTTP/2 only): it gets the
    /// sign-in as it is, without what refreshes it.
    #[serde(default)]
    pub direct: bool,
    /// For a direct one: the command that refreshes the sign-in on the user's machine.
    #[serde(default)]
    pub refresh: Vec<String>,
}

/// A file with a sign-in. Pointers are those of RFC 6901.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    pub service: String,
    /// A JSON file, relative to the home.
    pub file: String,
    /// The value that requests carry.
    pub access: String,
    pub refresh: Option<String>,
    /// A token that only describes the account.
    pub identity: Option<String>,
    /// When the access token expires, in milliseconds since the epoch.
    pub expires_ms: Option<String>,
    /// When it was refreshed last, as RFC 3339.
    pub refreshed_at: Option<String>,
    /// What else of the file is brought.
    #[serde(default)]
    pub keep: Vec<String>,
}

/// A settings file of which some keys are brought. `{root}` in a pointer or a value stands for the
/// path of the code inside.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A JSON or TOML file, relative to the home.
    pub file: String,
    #[serde(default)]
    pub keep: Vec<String>,
    /// Answers to the agent's questions at its first start.
    #[serde(default)]
    pub set: BTreeMap<String, Answer>,
    /// Answers that only fit one kind of sign-in: those of the first entry whose file or variable
    /// the user has.
    #[serde(default)]
    pub set_for: Vec<SetFor>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct SetFor {
    /// The file of a sign-in, or the variable of a key.
    pub source: String,
    pub set: BTreeMap<String, Answer>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Answer {
    Flag(bool),
    Number(i64),
    Text(String),
    Texts(Vec<String>),
}

/// How the agent learns what `/run/holm/AGENTS.md` says.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// The file with the user's own instructions, relative to the home.
    pub file: String,
    /// Added to the user's own. Without it, the text itself is added.
    pub line: Option<String>,
}

// === impl KnownAgent ===

impl KnownAgent {
    /// Whether this is the agent's own program.
    pub fn is_program(&self, command: &[String]) -> bool {
        let name = |words: &[String]| {
            let first = words.first()?;
            Some(first.rsplit('/').next().unwrap_or(first).to_owned())
        };
        name(command).is_some_and(|it| Some(it) == name(&self.run))
    }

    /// Whether there is a sign-in that could be brought.
    pub fn has_sign_in(&self) -> bool {
        !self.keys.is_empty() || !self.sign_ins.is_empty()
    }
}

/// Whether a path of a request is on a list of [`Service::paths`]. A path that servers could read
/// as another one is on none.
pub fn is_listed(path: &str, listed: &[String]) -> bool {
    let is_plain = path.starts_with('/')
        && !path.contains("//")
        && !path.contains(['%', '\\', ';'])
        && !path.split('/').any(|part| part == "." || part == "..");
    is_plain
        && listed.iter().any(|entry| match entry.strip_suffix('*') {
            Some(begin) => path.starts_with(begin),
            None => path == entry,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_196_paths_that_lead_elsewhere_are_not_listed() {
        let listed = ["/v1/messages*".to_owned(), "/api/profile".to_owned()];
        for path in ["/v1/messages", "/v1/messages/count_tokens", "/api/profile"] {
            assert!(is_listed(path, &listed), "{path}");
        }
        for path in [
            "/api/create_api_key",
            "/api/profile/x",
            "/v1/messages/../../api/create_api_key",
            "/v1/messages/%2e%2e/api",
            "/v1/messages//../api",
            "/v1/messages\\..\\api",
            "/v1/messages/..;/api",
            "v1/messages",
        ] {
            assert!(!is_listed(path, &listed), "{path}");
        }
        // A check of the beginning alone would let it pass.
        assert!("/v1/messages/../../api/create_api_key".starts_with("/v1/messages"));
    }
}
