//! When a service counts as ready, in stored form.

use serde::{Deserialize, Serialize};

/// When a service counts as ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    pub probe: Probe,
    pub timeout_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Probe {
    Http {
        path: String,
        port: u16,
    },
    Tcp {
        port: u16,
    },
    Log {
        text: String,
    },
    Command {
        command: String,
    },
    /// The words of a program in the service's own root.
    Program {
        argv: Vec<String>,
    },
    /// The commands of a Dev Container that its programs wait for have ended.
    Lifecycle,
}
