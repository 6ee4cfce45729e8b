//! What `up` does not copy from a checkout, with the command to do so.
//!
//! Only a few well-known names are checked, so that it costs the same in every repository.

use super::include::Included;
use crate::cli::left::{Left, Missing, NOT_COPIED};
use holm_core::config::ProjectConfig;
use std::path::{Path, PathBuf};

/// Files of a checkout that git does not track and that were not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// Ignored files and directories at the checkout's root that are not copied.
    pub ignored: Vec<PathBuf>,
    pub submodules: Vec<String>,
    pub has_lfs: bool,
    pub setup: Vec<String>,
    /// What a missing holm.toml means.
    pub without_config: Left,
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

/// Whether the checkout has any well-known file; only then git is asked what it ignores.
pub fn has_notable(checkout: &Path) -> bool {
    let mut names = SETTINGS.iter().chain(&PRODUCED);
    names.any(|name| checkout.join(name).symlink_metadata().is_ok())
}

// === impl LeftBehind ===

impl LeftBehind {
    /// What is known without asking git.
    pub fn look(config: &ProjectConfig) -> Self {
        Self {
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

    /// Ignored files with settings of programs.
    pub fn settings(&self) -> Vec<&str> {
        self.named(&SETTINGS)
    }

    fn named(&self, names: &[&str]) -> Vec<&str> {
        let ignored = self.ignored.iter().filter_map(|path| path.to_str());
        ignored.filter(|path| names.contains(path)).collect()
    }

    /// Each item with the command that would bring or start it.
    pub fn left(&self) -> Left {
        let mut left = Left::default();
        left.include(&self.settings(), "ignored by git");
        let produced = self.named(&PRODUCED);
        if self.setup.is_empty() && !produced.is_empty() {
            let command = "holm up LABEL --warm";
            left.rows.extend(produced.iter().map(|name| Missing {
                how: NOT_COPIED,
                what: (*name).to_owned(),
                why: "dependencies",
                command: command.to_owned(),
            }));
            let names = produced.join(", ");
            left.notes
                .push(format!("not copied (dependencies): {names}; `{command}`"));
        }
        if self.has_lfs {
            let command = "holm up LABEL --include PATH".to_owned();
            left.notes.push(format!(
                "files in Git LFS are pointers inside; `{command}` copies one"
            ));
            left.rows.push(Missing {
                how: NOT_COPIED,
                what: "Git LFS files".to_owned(),
                why: "only pointers",
                command,
            });
        }
        let submodules: Vec<&str> = self.submodules.iter().map(String::as_str).collect();
        left.include(&submodules, "submodules are empty");
        left.rows.extend(self.without_config.rows.iter().cloned());
        left.notes.extend(self.without_config.notes.iter().cloned());
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::left::rows;

    fn behind() -> LeftBehind {
        LeftBehind {
            ignored: [".env", "node_modules"].map(PathBuf::from).to_vec(),
            without_config: Left {
                rows: vec![Missing {
                    how: "not started",
                    what: "npm run dev".to_owned(),
                    why: "no holm.toml",
                    command: "holm init".to_owned(),
                }],
                notes: vec!["looks like Node".to_owned()],
            },
            ..LeftBehind::default()
        }
    }

    #[test]
    fn every_row_ends_with_a_command() {
        let left = behind().left();
        let rows = anstream::adapter::strip_str(&rows(&left.rows).join("\n")).to_string();
        assert_eq!(
            rows,
            "  not copied   .env           ignored by git   holm up LABEL --include .env\n\
             \u{20}              node_modules   dependencies     holm up LABEL --warm\n\
             \u{20} not started  npm run dev    no holm.toml     holm init"
        );
        assert_eq!(
            left.notes,
            [
                "not copied (ignored by git): .env; `holm up LABEL --include .env`",
                "not copied (dependencies): node_modules; `holm up LABEL --warm`",
                "looks like Node",
            ]
        );
        let more = LeftBehind {
            has_lfs: true,
            submodules: vec!["lib/a".to_owned()],
            setup: vec!["npm ci".to_owned()],
            ..behind()
        };
        // Dependencies come from the setup.
        let what: Vec<String> = more.left().rows.into_iter().map(|one| one.what).collect();
        assert_eq!(what, [".env", "Git LFS files", "lib/a", "npm run dev"]);
    }

    #[test]
    fn what_was_taken_along_is_not_named() {
        let mut included = Included::default();
        for path in [".env", "node_modules"] {
            included.add(PathBuf::from(path));
        }
        let behind = LeftBehind {
            without_config: Left::default(),
            ..behind()
        };
        assert_eq!(behind.without(&included).left(), Left::default());
    }
}
