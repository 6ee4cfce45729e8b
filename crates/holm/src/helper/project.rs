//! Projects that a caller makes known: a repository of this machine, a clone, or a new, empty one.

use super::place::Places;
use super::{Earlier, Helper, make_parents, program, taken, wrong};
use crate::config::project;
use holm_api::project::{MadeProject, NewProject};
use holm_core::config::{Scope, Word};
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use std::io::Write;
use std::path::{Path, PathBuf};

const HOLM_TOML: &str = "holm.toml";

// === impl Helper ===

impl Helper<'_> {
    pub async fn project(&self, wish: &NewProject, earlier: Earlier) -> Result<MadeProject, Fault> {
        let text = settings(wish)?;
        let (directory, is_new) = match (&wish.path, &wish.url) {
            (Some(_), Some(_)) => return Err(wrong("`path` and `url` exclude each other")),
            (Some(path), None) => (self.permitted(path).await?, false),
            (None, Some(url)) => (self.cloned(url, wish.name.as_deref()).await?, false),
            (None, None) => (self.begin(wish, earlier).await?, true),
        };
        let mut notes = Vec::new();
        if let Some(text) = text {
            let place = directory.clone();
            try_blocking(move || write_settings(&place, &text)).await?;
            match is_new {
                true => {
                    let place = directory.clone();
                    try_blocking(move || {
                        let message = "holm: how workspaces of this project are isolated";
                        Ok(holm_git::commit_file(&place, HOLM_TOML, message)?)
                    })
                    .await?;
                }
                false => notes.push(format!(
                    "{HOLM_TOML} was written to {}; it is in force where it is committed, or with `dirty`",
                    directory.display()
                )),
            }
        }
        let mut made: MadeProject = program::holm(&directory, &["project", "add"], None).await?;
        made.notes.extend(notes);
        let mut known = self.projects.iter();
        made.created = !known.any(|known| known.id == made.project.id);
        Ok(made)
    }

    /// Where a new repository goes, if the wish is for one.
    pub fn new_place(&self, wish: &NewProject) -> Result<Option<PathBuf>, Fault> {
        match (&wish.path, &wish.url, &wish.name) {
            (None, None, Some(name)) => Places::new_place(&self.source_dirs, name).map(Some),
            _ => Ok(None),
        }
    }

    /// A new, empty repository.
    async fn begin(&self, wish: &NewProject, earlier: Earlier) -> Result<PathBuf, Fault> {
        let place = self
            .new_place(wish)?
            .ok_or_else(|| wrong("`path`, `url` or `name` says which project it is"))?;
        let target = place.clone();
        try_blocking(move || {
            if earlier == Earlier::None && target.symlink_metadata().is_ok() {
                return Err(taken(&target));
            }
            make_parents(&target)?;
            // Once more changes nothing.
            Ok(holm_git::init(&target)?)
        })
        .await?;
        Ok(place)
    }
}

/// Writes `holm.toml` where there is none. One that says the same stays; any other is the user's.
fn write_settings(directory: &Path, text: &str) -> Result<(), Fault> {
    let path = directory.join(HOLM_TOML);
    let failed = |error: std::io::Error| {
        let message = format!("cannot write {}: {error}", path.display());
        Fault::new(Code::ReadOnly, message, "is the repository writable?")
    };
    let open = std::fs::File::options()
        .write(true)
        .create_new(true)
        .open(&path);
    match open {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(failed),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            match std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
                true => Ok(()),
                false => Err(Fault::new(
                    Code::ConfigExists,
                    format!("the repository has a holm.toml: {}", path.display()),
                    "change `isolation` and `protected_paths` under [project] there",
                )),
            }
        }
        Err(error) => Err(failed(error)),
    }
}

/// The `holm.toml` that says how it is isolated, if anything is to be said.
fn settings(wish: &NewProject) -> Result<Option<String>, Fault> {
    let mut table = toml_edit::Table::new();
    if let Some(isolation) = &wish.isolation {
        if Scope::parse_word(isolation).is_none() {
            return Err(wrong("`isolation` is \"workspace\" or \"project\""));
        }
        table["isolation"] = toml_edit::value(isolation);
    }
    if !wish.protected_paths.is_empty() {
        let paths: toml_edit::Array = wish.protected_paths.iter().collect();
        table["protected_paths"] = toml_edit::value(paths);
    }
    if table.is_empty() {
        return Ok(None);
    }
    let mut document = toml_edit::DocumentMut::new();
    document["project"] = toml_edit::Item::Table(table);
    let text = document.to_string();
    project::parse(&text, HOLM_TOML)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_the_configuration_reads_them() {
        let settings = |isolation: &str, paths: &[&str]| {
            settings(&NewProject {
                isolation: (!isolation.is_empty()).then(|| isolation.to_owned()),
                protected_paths: paths.iter().map(|path| (*path).to_owned()).collect(),
                ..NewProject::default()
            })
        };
        assert_eq!(settings("", &[]).unwrap(), None);
        let text = settings("project", &["AGENTS.md", "a \"b\"\n"]);
        assert!(text.is_err() || text.unwrap().unwrap().contains("AGENTS.md"));
        let text = settings("project", &["AGENTS.md", "infra/prod"])
            .unwrap()
            .unwrap();
        let config = project::parse(&text, HOLM_TOML).unwrap();
        assert_eq!(config.project.isolation, Scope::Project);
        assert_eq!(config.project.protected_paths.len(), 2);
        assert!(settings("none", &[]).is_err());
        assert!(settings("", &["../x"]).is_err());
    }
}
