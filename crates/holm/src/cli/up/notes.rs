//! What `up` did not copy or start, with the command to do so. Printed once, for a new workspace.
//!
//! Only a few well-known names are checked, so that it costs the same in every repository.

use super::include::Included;
use holm_core::config::ProjectConfig;
use std::path::{Path, PathBuf};

/// Files of a checkout that git does not track and that were not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// Ignored files and directories at the checkout's root that are not copied.
    pub ignored: Vec<PathBuf>,
    /// How dependencies are installed here, according to the lock files.
    pub lock_files: Vec<&'static str>,
    pub submodules: Vec<String>,
    pub has_lfs: bool,
    pub setup: Vec<String>,
    /// The note about a missing holm.toml.
    pub without_config: Option<String>,
}

/// Settings files that programs read from the checkout.
const SETTINGS: [&str; 7] = [
    ".env",
    ".env.local",
    ".env.development",
    ".env.development.local",
    ".env.test",
    ".envrc",
    ".dev.vars",
];

/// Dependencies and build output.
const PRODUCED: [&str; 6] = ["node_modules", ".venv", "venv", "vendor", "target", "dist"];

/// Lock files and their installers.
const INSTALLERS: [(&str, &str); 8] = [
    ("package-lock.json", "npm ci"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
    ("yarn.lock", "yarn install --immutable"),
    ("bun.lock", "bun install --frozen-lockfile"),
    ("uv.lock", "uv sync"),
    ("poetry.lock", "poetry install"),
    ("composer.lock", "composer install"),
    ("Gemfile.lock", "bundle install"),
];

/// Whether the checkout has any well-known file; only then git is asked what it ignores.
pub fn has_notable(checkout: &Path) -> bool {
    let mut names = SETTINGS.iter().chain(&PRODUCED);
    names.any(|name| checkout.join(name).symlink_metadata().is_ok())
}

// === impl LeftBehind ===

impl LeftBehind {
    /// What is known without asking git.
    pub fn look(checkout: &Path, config: &ProjectConfig) -> Self {
        let lock_files = INSTALLERS
            .iter()
            .filter(|(file, _)| checkout.join(file).is_file())
            .map(|(file, _)| *file)
            .collect();
        Self {
            lock_files,
            setup: config.project.setup.clone(),
            ..Self::default()
        }
    }

    /// Removes files that were copied after all.
    pub fn without(mut self, included: &Included) -> Self {
        self.ignored.retain(|path| !included.contains(path));
        self.submodules
            .retain(|path| !included.contains(Path::new(path)));
        self
    }

    /// One sentence per item, with the command for the workspace `label`.
    pub fn notes(&self, label: &str) -> Vec<String> {
        let mut notes = Vec::new();
        let named = |names: &[&str]| -> Vec<String> {
            let ignored = self.ignored.iter().filter_map(|path| path.to_str());
            let known = ignored.filter(|path| names.contains(path));
            known.map(str::to_owned).collect()
        };
        let settings = named(&SETTINGS);
        if !settings.is_empty() {
            let options: Vec<_> = settings
                .iter()
                .map(|name| format!("--include {name}"))
                .collect();
            notes.push(format!(
                "not brought, because git ignores it: {}; `holm up NEW-LABEL {}` brings it",
                settings.join(", "),
                options.join(" ")
            ));
        }
        let produced = named(&PRODUCED);
        if !produced.is_empty() && self.setup.is_empty() {
            notes.push(format!(
                "not brought: {} (dependencies, build output); {}",
                produced.join(", "),
                self.installer(label)
            ));
        }
        notes.extend(self.without_config.clone());
        if self.has_lfs {
            notes.push(
                "files kept in Git LFS are pointers inside; \
                 `holm up NEW-LABEL --include PATH` brings the content of one"
                    .to_owned(),
            );
        }
        if !self.submodules.is_empty() {
            notes.push(format!(
                "submodules are empty inside: {}; `holm up NEW-LABEL --include PATH` brings one",
                self.submodules.join(", ")
            ));
        }
        notes
    }

    fn installer(&self, label: &str) -> String {
        let known = INSTALLERS
            .iter()
            .find(|(file, _)| self.lock_files.contains(file));
        match known {
            Some((_, command)) => format!("`holm exec {label} -- {command}` installs them"),
            None => "`holm up NEW-LABEL --warm` brings them, once for all workspaces".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left() -> LeftBehind {
        LeftBehind {
            ignored: [".env", ".env.local", "node_modules"]
                .map(PathBuf::from)
                .to_vec(),
            lock_files: vec!["package-lock.json"],
            ..LeftBehind::default()
        }
    }

    #[test]
    fn every_note_names_a_command() {
        assert_eq!(
            left().notes("fix"),
            [
                "not brought, because git ignores it: .env, .env.local; \
                 `holm up NEW-LABEL --include .env --include .env.local` brings it",
                "not brought: node_modules (dependencies, build output); \
                 `holm exec fix -- npm ci` installs them",
            ]
        );
        let more = LeftBehind {
            has_lfs: true,
            submodules: vec!["lib/a".to_owned()],
            setup: vec!["npm ci".to_owned(), "PORT=$P npm 'x'".to_owned()],
            without_config: Some("looks like Node; `holm init` would".to_owned()),
            ..left()
        };
        let notes = more.notes("fix");
        assert!(notes.iter().all(|note| note.contains("`holm ")));
        // Dependencies come from the setup.
        assert_eq!(notes.len(), 4);
    }

    #[test]
    fn what_was_taken_along_is_not_named() {
        let mut included = Included::default();
        for path in [".env", ".env.local", "node_modules"] {
            included.add(PathBuf::from(path));
        }
        assert!(left().without(&included).notes("fix").is_empty());
    }
}
