//! What a known agent gets of the user's home: listed keys of its settings, answers to its first
//! questions, the user's instructions, commands and skills. Nothing here is a secret.

use super::documents::{document, read};
use super::sign_in::Found;
use holm_config::known_agents;
use holm_core::agents::known::{KnownAgent, Settings};
use holm_core::spec::WorkspaceSpec;
use holm_engine::{Existing, HomeFile, Instructions, MOST_HOME_FILES};
use serde_json::Value as Json;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// More directories below each other are not brought.
const DEEPEST: usize = 8;
const MOST_FILES: usize = 1000;

/// Whose words the agent gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The user's settings, instructions, commands and skills.
    Users,
    /// Only answers to the agent's first questions.
    Answers,
}

/// Files for the home inside.
pub struct Brought {
    pub files: Vec<HomeFile>,
    pub instructions: Option<Instructions>,
    pub notes: Vec<String>,
    room: usize,
}

/// Everything of one agent, with the documents of its sign-in.
pub fn bring(known: &KnownAgent, spec: &WorkspaceSpec, found: &mut Found, share: Share) -> Brought {
    let mut brought = Brought {
        files: Vec::new(),
        instructions: None,
        notes: Vec::new(),
        room: MOST_HOME_FILES / 2,
    };
    for settings in &known.settings {
        brought.settings(settings, spec, found, share);
    }
    for (file, document) in std::mem::take(&mut found.documents) {
        brought.document(&file, &document, Existing::Replace);
    }
    if share == Share::Users {
        for copy in &known.copies {
            brought.copy(&spec.home, Path::new(copy), 0);
        }
    }
    if let Some(listed) = &known.instructions {
        let own = match share {
            Share::Users => read(&spec.home.join(&listed.file)).unwrap_or_default(),
            Share::Answers => Vec::new(),
        };
        brought.instructions = Some(Instructions {
            path: PathBuf::from(&listed.file),
            own,
            line: listed.line.clone(),
        });
    }
    brought
}

// === impl Brought ===

impl Brought {
    fn settings(
        &mut self,
        settings: &Settings,
        spec: &WorkspaceSpec,
        found: &mut Found,
        share: Share,
    ) {
        let file = &settings.file;
        let whole = match share {
            Share::Users => document(&spec.home, file),
            Share::Answers => Ok(None),
        };
        let whole = whole.unwrap_or_else(|why| {
            self.notes.push(format!("~/{file} is not brought: {why}"));
            None
        });
        let mut brought = whole.map_or_else(
            || Json::Object(serde_json::Map::new()),
            |whole| known_agents::kept(&whole, &settings.keep),
        );
        let root = spec.root.to_string_lossy();
        known_agents::set(&mut brought, &settings.set, &root, "");
        let source = settings.set_for.iter().find_map(|set_for| {
            let token = found.sources.get(&set_for.source)?;
            Some((set_for, token))
        });
        if let Some((set_for, token)) = source {
            // Claude Code remembers a key by its end.
            let end = &token[token.len().saturating_sub(20)..];
            known_agents::set(&mut brought, &set_for.set, &root, end);
        }
        if let Some(Json::Object(tokens)) = found.documents.remove(file)
            && let Json::Object(brought) = &mut brought
        {
            brought.extend(tokens);
        }
        let is_empty = brought.as_object().is_none_or(serde_json::Map::is_empty);
        if !is_empty {
            self.document(file, &brought, Existing::Keep);
        }
    }

    fn document(&mut self, file: &str, document: &Json, existing: Existing) {
        match known_agents::print(file, document) {
            Ok(text) => self.files.push(HomeFile {
                path: PathBuf::from(file),
                content: text.into_bytes(),
                mode: 0o600,
                existing,
            }),
            Err(why) => self.notes.push(format!("~/{file} is not brought: {why}")),
        }
    }

    /// A file, or everything in a directory. Symlinks are followed: they are the user's own.
    fn copy(&mut self, home: &Path, path: &Path, depth: usize) {
        let place = home.join(path);
        let Ok(metadata) = std::fs::metadata(&place) else {
            return;
        };
        if metadata.is_dir() {
            let Ok(entries) = std::fs::read_dir(&place) else {
                return;
            };
            let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            names.sort();
            if depth < DEEPEST {
                for name in names.iter().filter(|name| *name != ".git") {
                    self.copy(home, &path.join(name), depth + 1);
                }
            }
            return;
        }
        let is_executable = metadata.permissions().mode() & 0o100 != 0;
        match read(&place) {
            Ok(content) if content.len() <= self.room && self.files.len() < MOST_FILES => {
                self.room -= content.len();
                self.files.push(HomeFile {
                    path: path.to_owned(),
                    content,
                    mode: if is_executable { 0o700 } else { 0o600 },
                    existing: Existing::Keep,
                });
            }
            Ok(_) => self
                .notes
                .push(format!("~/{} is too large to be brought", path.display())),
            Err(why) => self
                .notes
                .push(format!("~/{} is not brought: {why}", path.display())),
        }
    }
}
