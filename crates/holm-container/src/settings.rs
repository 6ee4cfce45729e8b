//! What the driver gets of the program that it is part of.

use holm_core::{Fault, ProjectId};
use holm_keeper::plan::NetworkSource;
use holm_keeper::wire::{Defence, GrantSource};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `[docker]` of the user's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The engine's address, as in `DOCKER_HOST`; `None`: that variable, or a socket of this machine.
    pub host: Option<String>,
    /// The image whose root workspaces have; `None`: one that holm makes of this machine's system directories.
    pub image: Option<String>,
    /// The engine's network that keepers are in.
    pub network: String,
}

/// Everything that the driver does not know itself.
pub struct Parts {
    /// Where the daemon's files are: what is uploaded, and the name of this installation.
    pub data_dir: PathBuf,
    /// Read when the engine is first needed.
    pub settings: Box<dyn Fn() -> Result<Settings, Fault> + Send + Sync>,
    pub secrets: GrantSource,
    pub network: NetworkSource,
    /// The daemon's repository of a project.
    pub repository: fn(&Path, &ProjectId) -> PathBuf,
    /// The daemon's socket for programs inside.
    pub guests: PathBuf,
    /// Addresses of this machine, which workspaces may not reach.
    pub machine: fn() -> Vec<IpAddr>,
    /// Defences that a test switched off.
    pub without: Vec<Defence>,
}

/// Shared by all parts of the driver.
pub(crate) type SharedParts = Arc<Parts>;

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: None,
            image: None,
            network: "bridge".to_owned(),
        }
    }
}
