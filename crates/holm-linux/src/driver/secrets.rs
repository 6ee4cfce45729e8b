//! The secrets that a workspace is started with, and what a setup gets of the user's own.

use super::{LinuxDriver, workspace_id};
use holm_core::Fault;
use holm_core::environment::secrets_in;
use holm_core::spec::{Purpose, Setup, WorkspaceSpec};
use holm_keeper::wire::Grant;
use holm_secrets::Value;
use holm_secrets::mask::Known;
use std::path::Path;

/// Larger files are not searched for secrets.
const LARGEST_SETTINGS: u64 = 1 << 20;

// === impl LinuxDriver ===

impl LinuxDriver {
    /// The secrets at a start. A workspace that fills a volume gets none.
    pub(super) fn grants(&self, spec: &WorkspaceSpec) -> Result<Vec<Grant>, Fault> {
        match &spec.purpose {
            Purpose::Work | Purpose::Setup(_) | Purpose::Check(_) if !spec.secrets.is_empty() => {
                (self.secrets)(spec)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The values that must be neither in a layer nor in a log: the setup's secrets, and what looks like one
    /// in its files.
    pub(super) fn given_values(&self, spec: &WorkspaceSpec) -> Result<Known, Fault> {
        let grants = self.grants(spec)?;
        let mut values: Vec<Value> = grants.into_iter().filter_map(|grant| grant.value).collect();
        if let Purpose::Setup(setup) = &spec.purpose {
            let dirs = self.layout.workspace(&workspace_id(spec)?);
            for (top, files) in [
                (dirs.home(), home_files(setup)),
                (dirs.upper(), tree_files(setup)),
            ] {
                let files = files.into_iter().map(|file| top.join(file));
                values.extend(files.flat_map(|file| values_of(&file)));
            }
        }
        Ok(Known::new(values.iter()))
    }
}

/// The files of the tree that a setup gets, relative to the root.
pub fn tree_files(setup: &Setup) -> Vec<&str> {
    let files = setup.files.iter().map(String::as_str);
    files.filter(|file| !file.starts_with("~/")).collect()
}

/// The files of home that a setup gets, relative to home.
pub fn home_files(setup: &Setup) -> Vec<&str> {
    let files = setup.files.iter();
    files.filter_map(|file| file.strip_prefix("~/")).collect()
}

/// No program ran in the workspace yet, so the files are those that holm wrote.
fn values_of(file: &Path) -> Vec<Value> {
    let is_small =
        |metadata: &std::fs::Metadata| metadata.is_file() && metadata.len() <= LARGEST_SETTINGS;
    if !file.symlink_metadata().is_ok_and(|found| is_small(&found)) {
        return Vec::new();
    }
    // The setup would fail on a file that cannot be read.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let secrets = secrets_in(&text).into_iter();
    secrets
        .filter_map(|secret| Value::parse(secret.as_bytes().to_vec()).ok())
        .collect()
}
