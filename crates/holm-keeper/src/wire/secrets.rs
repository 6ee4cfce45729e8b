//! Secrets between daemon, keeper and init: never on disk, never in a log.

use holm_core::Fault;
use holm_core::config::Inject;
use holm_core::spec::WorkspaceSpec;
use holm_proxy::gateway::{Insertion, NewTokens, Paths, Placeholder};
use holm_secrets::Value;
use holm_secrets::authority::Leaf;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Returns the current secrets of a workspace. A driver calls it when it starts the workspace's processes.
pub type GrantSource = Arc<dyn Fn(&WorkspaceSpec) -> Result<Vec<Grant>, Fault> + Send + Sync>;

/// One declared secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub name: String,
    #[serde(with = "holm_core::spec::word")]
    pub form: Inject,
    /// Names of services, `runs`, `sessions`.
    pub to: Vec<String>,
    /// `None`: no value yet, or withdrawn.
    pub value: Option<Value>,
    /// Seconds since the epoch.
    pub expires_at: Option<u64>,
    /// For the form `placeholder`.
    #[serde(default)]
    pub placeholder: Option<Standin>,
}

/// The token that stands for a value inside, and where the value replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standin {
    /// `None`: there is no value.
    pub token: Option<String>,
    /// Names and ports.
    pub hosts: Vec<(String, u16)>,
    /// One certificate per name.
    pub leaves: Vec<Leaf>,
    /// The CA's certificate, as PEM.
    pub authority: String,
}

/// A value of an agent's sign-in, which the gateway puts into requests. The agent has the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    /// For the record: `claude/access`.
    pub name: String,
    pub token: String,
    pub value: Value,
    /// Names and ports.
    pub hosts: Vec<(String, u16)>,
    /// At these paths only.
    pub paths: Vec<String>,
    /// One certificate per name.
    pub leaves: Vec<Leaf>,
    /// A refresh token: put only into the body of a refresh request, at the path of its host.
    pub is_refresh: bool,
}

/// What a keeper asks of the daemon about a refresh, on its own connection to the socket for guests:
/// one JSON document per line, in this order, each answered with a [`RenewalAnswer`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenewalRequest {
    /// Is the user's copy newer than the refresh token that the keeper has? Holds the agent's lock from now on.
    Begin { agent: String, have: Value },
    /// The token host's answer.
    Store(NewTokens),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenewalAnswer {
    /// The user's copy is what the keeper has: the token host has to be asked.
    Ask,
    /// The keeper's tokens are valid; it passes these to the agent. The wire name is `told`, because running keepers of
    /// earlier releases use it.
    #[serde(rename = "told")]
    Renewed(NewTokens),
    Refused(String),
}

/// The Landlock domain of a program. A program cannot inspect another domain (its environment,
/// memory or descriptors), except from init's domain into those nested below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Init's own: where there are no secrets, and for holm's own helpers inside.
    #[default]
    Shared,
    /// A domain of its own.
    Own,
    /// A domain of its own, which can read these secret files.
    OwnReading(Vec<String>),
}

// === impl SignIn ===

impl SignIn {
    /// For the gateway.
    pub fn placeholder(&self, agent: &str) -> Placeholder {
        Placeholder {
            name: self.name.clone(),
            token: self.token.clone(),
            value: self.value.clone(),
            hosts: self.hosts.clone(),
            expires_at: None,
            insertion: match (self.is_refresh, self.paths.first()) {
                (true, path) => Insertion::Renewal {
                    agent: agent.to_owned(),
                    path: path.cloned().unwrap_or_default(),
                },
                (false, _) => Insertion::Heads(Paths::Listed(self.paths.clone())),
            },
        }
    }
}
