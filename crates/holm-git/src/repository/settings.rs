//! Finds settings in the configuration of a repository and its submodules that make git run
//! programs or touch files on the host. Used before git reads or writes files of the checkout.
//!
//! Submodules count because `git add` enters them and uses their configuration.

use super::{Config, Repository};
use crate::GitError;
use crate::command::Git;
use holm_core::git_settings::GitSetting;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Deeper nested submodules are refused rather than ignored.
const DEEPEST: usize = 8;

const LIST: [&str; 2] = ["-z", "--stage"];

// === impl Repository ===

impl Repository {
    /// All such settings, sorted. One process, and two more for each submodule that is checked out.
    pub fn settings(&self) -> Result<Vec<GitSetting>, GitError> {
        let mut settings = self.settings.clone();
        let listed = self.git("ls-files")?.args(LIST).output()?;
        for path in links(&listed) {
            submodule_settings(&self.toplevel, &path, 0, &mut settings)?;
        }
        settings.sort();
        settings.dedup();
        Ok(settings)
    }
}

/// Settings of the submodule at `path`, if it is checked out, and of its own submodules.
fn submodule_settings(
    toplevel: &Path,
    path: &Path,
    depth: usize,
    settings: &mut Vec<GitSetting>,
) -> Result<(), GitError> {
    let place = toplevel.join(path);
    if place.join(".git").symlink_metadata().is_err() {
        return Ok(());
    }
    if depth > DEEPEST {
        let answer = b"too many submodules in each other";
        return Err(GitError::unexpected("ls-files", answer));
    }
    let listed = Git::client(&place, "config")?
        .args(["--null", "--show-scope", "--list"])
        .output()?;
    let found = Config::read(&listed).settings.into_iter();
    // Every submodule sets it to the path of its files.
    let found = found.filter(|setting| setting.key != "core.worktree");
    settings.extend(found.map(|setting| GitSetting {
        submodule: Some(path.to_string_lossy().into_owned()),
        ..setting
    }));
    let listed = Git::client(&place, "ls-files")?.args(LIST).output()?;
    for below in links(&listed) {
        submodule_settings(toplevel, &path.join(below), depth + 1, settings)?;
    }
    Ok(())
}

/// The paths of submodules in the output of `git ls-files`.
fn links(listed: &[u8]) -> impl Iterator<Item = PathBuf> {
    let entries = listed.split(|byte| *byte == 0);
    // `mode object stage`, a tab, and the path.
    let links = entries.filter_map(|entry| entry.strip_prefix(b"160000 "));
    let names = links.filter_map(|link| link.splitn(2, |byte| *byte == b'\t').nth(1));
    names.map(|name| PathBuf::from(OsString::from_vec(name.to_vec())))
}
