//! Secrets between daemon, keeper and init: never on a disk, never in a log.

use holm_secrets::Value;
use holm_secrets::authority::Leaf;
use serde::{Deserialize, Serialize};

/// One declared secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub name: String,
    pub form: Form,
    /// Names of services, `runs`, `sessions`.
    pub to: Vec<String>,
    /// `None`: there is none yet, or none any more.
    pub value: Option<Value>,
    /// Seconds since the epoch.
    pub expires_at: Option<u64>,
    /// What is needed to use it without having it; with the form of that name.
    #[serde(default)]
    pub placeholder: Option<Standin>,
}

/// What stands inside for a value, and where the value is put in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standin {
    /// `None`: there is no value that it could stand for.
    pub token: Option<String>,
    /// Names and ports.
    pub hosts: Vec<(String, u16)>,
    /// One certificate for each name.
    pub leaves: Vec<Leaf>,
    /// Who signed them, as PEM.
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

/// Which Landlock domain a program is started in. One cannot look into another (its environment, its
/// memory, what it has open), except from init's own into those that begin below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Init's own: where there are no secrets, and for what holm itself does inside.
    #[default]
    Shared,
    /// One of its own.
    Own,
    /// One of its own. Of the secrets that are files it can read these.
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
