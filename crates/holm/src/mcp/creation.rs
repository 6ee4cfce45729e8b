//! Tools that need the user's repository: projects, new workspaces, and moves to other commits. The
//! client's own program does the work ([`program`]), in directories that may be named ([`Places`]).

use super::arguments::wrong;
use super::catalogue::Create;
use super::place::Places;
use super::{Call, Local, program};
use crate::cli::user::DaemonUser;
use crate::config::project;
use holm_core::config::{Scope, Word};
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_git::Cancel;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

const HOLM_TOML: &str = "holm.toml";

/// What `project_create` writes down.
#[derive(Default)]
struct Settings {
    isolation: Option<String>,
    protected_paths: Vec<String>,
}

/// Raised when the call is given up.
struct Given(Cancel);

impl Drop for Given {
    fn drop(&mut self) {
        self.0.raise();
    }
}

// === impl Call ===

impl Call<'_> {
    pub async fn create(&self, create: Create) -> Result<Value, Fault> {
        if self.holm.local == Local::Refused {
            return Err(Fault::new(
                Code::Refused,
                "repositories of this machine cannot be named here",
                "use holm on the machine where the repository is, as its user",
            ));
        }
        match create {
            Create::Project => self.create_project().await,
            Create::Workspace => self.create_workspace().await,
            Create::Assign => {
                let id = self.workspace().await?.to_string();
                let reference = self.arguments.needed("ref")?;
                let mut words = vec!["assign"];
                if self.arguments.is_set("stash") {
                    words.push("--stash");
                }
                words.extend(["--", &id, reference]);
                self.progress.say("moving the workspace".to_owned());
                program::holm(Path::new("/"), &words).await
            }
            Create::Sync => {
                let id = self.workspace().await?.to_string();
                self.progress.say("moving the workspace".to_owned());
                program::holm(Path::new("/"), &["sync", "--", &id]).await
            }
        }
    }

    async fn create_project(&self) -> Result<Value, Fault> {
        let settings = Settings {
            isolation: self.arguments.owned("isolation"),
            protected_paths: self.arguments.words("protected_paths"),
        };
        let text = settings.text()?;
        let (directory, is_new) = match (self.arguments.text("path"), self.arguments.text("url")) {
            (Some(_), Some(_)) => {
                return Err(wrong("`path` and `url` exclude each other".to_owned()));
            }
            (Some(path), None) => (self.places().await?.permit(path)?, false),
            (None, Some(url)) => (self.cloned(url).await?, false),
            (None, None) => (self.begun().await?, true),
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
        let mut project = program::holm(&directory, &["project", "add"]).await?;
        if !notes.is_empty() {
            project["notes"] = json!(notes);
        }
        Ok(project)
    }

    async fn create_workspace(&self) -> Result<Value, Fault> {
        let named = ["project", "path", "url"];
        let given = named
            .iter()
            .filter(|name| self.arguments.text(name).is_some())
            .count();
        if given != 1 {
            return Err(wrong(
                "one of `project`, `path` and `url` names the project".to_owned(),
            ));
        }
        let directory = match (self.arguments.text("project"), self.arguments.text("path")) {
            (Some(project), _) => self.project_place(project).await?,
            (None, Some(path)) => self.places().await?.permit(path)?,
            (None, None) => self.cloned(self.arguments.needed("url")?).await?,
        };
        let mut words = vec!["up".to_owned()];
        if let Some(from) = self.arguments.text("from") {
            words.push(format!("--from={from}"));
        }
        if self.arguments.is_set("dirty") {
            words.push("--dirty".to_owned());
        }
        if self.arguments.is_unset("wait") {
            words.push("--no-wait".to_owned());
        }
        if let Some(label) = self.arguments.owned("label") {
            words.extend(["--".to_owned(), label]);
        }
        self.progress.say("making the workspace".to_owned());
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        program::holm(&directory, &words).await
    }

    async fn places(&self) -> Result<Places, Fault> {
        let projects = self.client.projects().await?.projects;
        let source_dirs = source_dirs().await?;
        try_blocking(move || Ok(Places::new(&projects, &source_dirs))).await
    }

    /// Where a known project is.
    async fn project_place(&self, typed: &str) -> Result<PathBuf, Fault> {
        let projects = self.client.projects().await?.projects;
        let mut found = projects.iter();
        let found = found.find(|project| project.name == typed || project.id == typed);
        let found = found.ok_or_else(|| {
            let message = format!("no project `{}`", typed.escape_debug());
            Fault::new(
                Code::ProjectNotFound,
                message,
                "project_list lists the projects",
            )
        })?;
        Ok(PathBuf::from(&found.path))
    }

    /// A clone of a repository below the first source folder; one that is there already is used.
    async fn cloned(&self, url: &str) -> Result<PathBuf, Fault> {
        let last = url
            .trim_end_matches('/')
            .rsplit(['/', ':'])
            .next()
            .unwrap_or_default();
        let name = self
            .arguments
            .text("name")
            .unwrap_or(last.trim_end_matches(".git"));
        let place = Places::new_place(&source_dirs().await?, name)?;
        let (url, target) = (url.to_owned(), place.clone());
        self.progress.say(format!("cloning to {}", place.display()));
        let given = Given(Cancel::default());
        let cancel = given.0.clone();
        try_blocking(move || {
            let is_there = target.exists();
            if is_there && holm_git::is_clone_of(&target, &url)? {
                return Ok(());
            }
            if is_there {
                return Err(taken(&target));
            }
            make_parents(&target)?;
            Ok(holm_git::clone(&url, &target, &cancel)?)
        })
        .await?;
        Ok(place)
    }

    /// A new, empty repository.
    async fn begun(&self) -> Result<PathBuf, Fault> {
        let name = self
            .arguments
            .text("name")
            .ok_or_else(|| wrong("`path`, `url` or `name` says which project it is".to_owned()))?;
        let place = Places::new_place(&source_dirs().await?, name)?;
        let target = place.clone();
        try_blocking(move || {
            if target.symlink_metadata().is_ok() {
                return Err(taken(&target));
            }
            make_parents(&target)?;
            Ok(holm_git::init(&target)?)
        })
        .await?;
        Ok(place)
    }
}

async fn source_dirs() -> Result<Vec<PathBuf>, Fault> {
    try_blocking(|| Ok(DaemonUser::current()?.settings()?.source_dirs)).await
}

fn make_parents(place: &Path) -> Result<(), Fault> {
    let parent = place.parent().unwrap_or(place);
    std::fs::create_dir_all(parent).map_err(|error| {
        let message = format!("cannot make {}: {error}", parent.display());
        Fault::new(Code::ReadOnly, message, "is the source folder writable?")
    })
}

fn taken(place: &Path) -> Fault {
    Fault::new(
        Code::AlreadyExists,
        format!("{} is there already, and something else", place.display()),
        "say another `name`, or its `path` if that is what you mean",
    )
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

// === impl Settings ===

impl Settings {
    /// The `holm.toml` that says so, if anything is to be said.
    fn text(&self) -> Result<Option<String>, Fault> {
        let mut table = toml_edit::Table::new();
        if let Some(isolation) = &self.isolation {
            if Scope::parse_word(isolation).is_none() {
                return Err(wrong(
                    "`isolation` is \"workspace\" or \"project\"".to_owned(),
                ));
            }
            table["isolation"] = toml_edit::value(isolation);
        }
        if !self.protected_paths.is_empty() {
            let paths: toml_edit::Array = self.protected_paths.iter().collect();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_the_configuration_reads_them() {
        let settings = |isolation: &str, paths: &[&str]| Settings {
            isolation: (!isolation.is_empty()).then(|| isolation.to_owned()),
            protected_paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        assert_eq!(Settings::default().text().unwrap(), None);
        let text = settings("project", &["AGENTS.md", "a \"b\"\n"]).text();
        assert!(text.is_err() || text.unwrap().unwrap().contains("AGENTS.md"));
        let text = settings("project", &["AGENTS.md", "infra/prod"])
            .text()
            .unwrap()
            .unwrap();
        let config = project::parse(&text, HOLM_TOML).unwrap();
        assert_eq!(config.project.isolation, Scope::Project);
        assert_eq!(config.project.protected_paths.len(), 2);
        assert!(settings("none", &[]).text().is_err());
        assert!(settings("", &["../x"]).text().is_err());
    }
}
