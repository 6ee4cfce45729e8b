//! Secrets between daemon, keeper and init: never on disk, never in a log.

use holm_core::Fault;
use holm_core::spec::WorkspaceSpec;
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
    pub form: Form,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    Env,
    File,
    /// A variable with a token; the value stays outside.
    Placeholder,
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

// === impl Form ===

impl Form {
    pub fn as_str(self) -> &'static str {
        match self {
            Form::Env => "env",
            Form::File => "file",
            Form::Placeholder => "placeholder",
        }
    }
}
