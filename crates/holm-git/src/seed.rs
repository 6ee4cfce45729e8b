//! Writes the workspace's own git directory as plain files into the overlay's upper directory,
//! before anything is mounted or runs. Starts no process. Called by the driver.
//!
//! The base below has an index and a detached HEAD. The files written here add the branch
//! `holm/<label>`, the user's refs, identity and remotes.
//!
//! Refs that cannot coexist with the workspace's branch (`refs/heads/holm` itself, a branch of the
//! same name, branches below it) are kept as `refs/holm/aside/heads/…`, so that their commits stay
//! reachable.

use crate::{GitError, quote};
use holm_core::spec::Code;
use std::io;
use std::path::{Path, PathBuf};

/// Where a workspace sees the objects of its project's bare repository.
pub const OBJECTS_INSIDE: &str = "/run/holm/objects";

/// The initial content of a workspace's git directory.
#[derive(Clone, Debug)]
pub struct Seed {
    pub label: String,
    pub code: Code,
    /// The file of [`Bare::packed_refs`](crate::Bare::packed_refs).
    pub packed_refs: PathBuf,
}

const ASIDE: &str = "refs/holm/aside/";

/// The settings that bases and workspaces share.
pub(crate) fn core_config(object_format: &str) -> String {
    let version = if object_format == "sha256" { 1 } else { 0 };
    // Hard-linking a file into the next base changes its ctime, so git must ignore ctime.
    let mut text = format!(
        "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n\
         \tlogallrefupdates = true\n\ttrustctime = false\n"
    );
    if object_format == "sha256" {
        text.push_str("[extensions]\n\tobjectFormat = sha256\n");
    }
    text
}

/// Writes `upper/.git`. May be repeated.
pub fn seed_git_dir(upper: &Path, seed: &Seed) -> Result<(), GitError> {
    let git_dir = upper.join(".git");
    let refs = seed.packed_refs_text()?;
    let write = || -> io::Result<()> {
        make_folders(&git_dir)?;
        let branch = format!("refs/heads/holm/{}", seed.label);
        std::fs::write(git_dir.join("HEAD"), format!("ref: {branch}\n"))?;
        if let Some(commit) = &seed.code.commit {
            std::fs::write(git_dir.join(&branch), format!("{commit}\n"))?;
        }
        std::fs::write(git_dir.join("packed-refs"), refs)?;
        std::fs::write(git_dir.join("config"), seed.config_text())?;
        let alternates = git_dir.join("objects/info/alternates");
        std::fs::write(alternates, format!("{OBJECTS_INSIDE}\n"))?;
        std::fs::write(
            git_dir.join("info/exclude"),
            exclude_text(&seed.code.excluded),
        )?;
        if !seed.code.shallow.is_empty() {
            let lines = seed.code.shallow.iter();
            let lines: String = lines.map(|line| format!("{line}\n")).collect();
            std::fs::write(git_dir.join("shallow"), lines)?;
        }
        Ok(())
    };
    write().map_err(GitError::file("write", &git_dir))
}

/// The directories of `.git`, and empty files that [`seed_git_dir`] writes in every workspace.
pub fn make_git_places(upper: &Path) -> io::Result<()> {
    let git_dir = upper.join(".git");
    make_folders(&git_dir)?;
    let always = [
        "HEAD",
        "packed-refs",
        "config",
        "objects/info/alternates",
        "info/exclude",
    ];
    for file in always {
        std::fs::write(git_dir.join(file), "")?;
    }
    Ok(())
}

fn make_folders(git_dir: &Path) -> io::Result<()> {
    for folder in ["refs/heads/holm", "objects/info", "info"] {
        std::fs::create_dir_all(git_dir.join(folder))?;
    }
    Ok(())
}

/// Rewrites the list of paths that `git status` must not show. Call it only before the workspace
/// has ever run.
pub fn seed_excluded(upper: &Path, excluded: &[String]) -> Result<(), GitError> {
    let file = upper.join(".git/info/exclude");
    std::fs::write(&file, exclude_text(excluded)).map_err(GitError::file("write", &file))
}

fn exclude_text(excluded: &[String]) -> String {
    excluded
        .iter()
        .filter_map(|path| quote::ignore_line(path))
        .map(|line| format!("{line}\n"))
        .collect()
}

// === impl Seed ===

impl Seed {
    /// The user's refs, renamed where they cannot exist inside.
    fn packed_refs_text(&self) -> Result<String, GitError> {
        let own = format!("refs/heads/holm/{}", self.label);
        let below = format!("{own}/");
        let text = match std::fs::read_to_string(&self.packed_refs) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(GitError::file("read", &self.packed_refs)(error)),
        };
        let mut refs: Vec<(String, String)> = Vec::new();
        let mut is_taken = false;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if line.starts_with('^') {
                if is_taken && let Some((_, entry)) = refs.last_mut() {
                    entry.push_str(&format!("{line}\n"));
                }
                continue;
            }
            let Some((object, name)) = line.split_once(' ') else {
                continue;
            };
            // Refs below `refs/holm` belong to the daemon.
            is_taken = !name.starts_with("refs/holm/");
            if !is_taken {
                continue;
            }
            let collides = name == "refs/heads/holm" || name == own || name.starts_with(&below);
            let name = match name.strip_prefix("refs/") {
                Some(rest) if collides => format!("{ASIDE}{rest}"),
                _ => name.to_owned(),
            };
            let entry = format!("{object} {name}\n");
            refs.push((name, entry));
        }
        refs.sort();
        let mut written = String::from("# pack-refs with: peeled fully-peeled sorted \n");
        for (_, entry) in refs {
            written.push_str(&entry);
        }
        Ok(written)
    }

    fn config_text(&self) -> String {
        let mut text = core_config(&self.code.object_format);
        let identity = [
            ("name", &self.code.user_name),
            ("email", &self.code.user_email),
        ];
        if identity.iter().any(|(_, value)| value.is_some()) {
            text.push_str("[user]\n");
        }
        for (key, value) in identity {
            if let Some(value) = value {
                text.push_str(&format!("\t{key} = {}\n", quote::config_value(value)));
            }
        }
        // The signing keys are not available inside.
        text.push_str("[commit]\n\tgpgsign = false\n");
        text.push_str("[tag]\n\tgpgsign = false\n\tforceSignAnnotated = false\n");
        text.push_str("[push]\n\tgpgSign = false\n");
        for remote in &self.code.remotes {
            let Some(name) = quote::config_subsection(&remote.name) else {
                continue;
            };
            text.push_str(&format!("[remote {name}]\n"));
            text.push_str(&format!("\turl = {}\n", quote::config_value(&remote.url)));
            for fetch in &remote.fetch {
                text.push_str(&format!("\tfetch = {}\n", quote::config_value(fetch)));
            }
        }
        text
    }
}
