//! Registers projects: a repository of this machine, a clone, or a new, empty one.

use super::place::{Places, taken};
use super::{Earlier, Helper, make_parents, program, wrong};
use holm_api::project::{MadeProject, NewProject};
use holm_core::Fault;
use holm_core::config::{ProtectedPath, Scope, Word};
use holm_engine::try_blocking;
use std::path::PathBuf;

// === impl Helper ===

impl Helper<'_> {
    pub async fn project(&self, wish: &NewProject, earlier: Earlier) -> Result<MadeProject, Fault> {
        let rules = rules(wish)?;
        let directory = match (&wish.path, &wish.url) {
            (Some(_), Some(_)) => return Err(wrong("`path` and `url` exclude each other")),
            (Some(path), None) => self.permitted(path).await?,
            (None, Some(url)) => self.cloned(url, wish.name.as_deref()).await?,
            (None, None) => self.begin(wish, earlier).await?,
        };
        let words = ["project", "add"].into_iter();
        let words: Vec<_> = words.chain(rules.iter().map(String::as_str)).collect();
        let mut made: MadeProject = program::holm(&directory, &words, None).await?;
        if wish.isolation.as_deref() == Some(Scope::Project.as_str()) {
            made.notes.push(format!(
                "a person has to approve `isolation = \"project\"`: `holm trust` in {}",
                directory.display()
            ));
        }
        let mut known = self.projects.iter();
        made.created = !known.any(|known| known.id == made.project.id);
        Ok(made)
    }

    /// The path of a new repository, if one is requested.
    pub fn new_place(&self, wish: &NewProject) -> Result<Option<PathBuf>, Fault> {
        match (&wish.path, &wish.url, &wish.name) {
            (None, None, Some(name)) => Places::new_place(&self.source_dirs, name).map(Some),
            _ => Ok(None),
        }
    }

    /// Creates a new, empty repository.
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
            // Repeating it changes nothing.
            Ok(holm_git::init(&target)?)
        })
        .await?;
        Ok(place)
    }
}

/// The options of `holm project add` that store rules with the project. Errors are reported before
/// anything is created.
fn rules(wish: &NewProject) -> Result<Vec<String>, Fault> {
    let mut words = Vec::new();
    if let Some(isolation) = &wish.isolation {
        if Scope::parse_word(isolation).is_none() {
            return Err(wrong("`isolation` is \"workspace\" or \"project\""));
        }
        words.push(format!("--isolation={isolation}"));
    }
    for path in &wish.protected_paths {
        let parsed = ProtectedPath::parse(path).map_err(|error| {
            let path = path.escape_debug();
            wrong(format!("`{path}` cannot be a protected path")).because(error)
        })?;
        words.push(format!("--protect={parsed}"));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_a_project_is_checked_and_handed_on() {
        let rules = |isolation: &str, paths: &[&str]| {
            rules(&NewProject {
                isolation: (!isolation.is_empty()).then(|| isolation.to_owned()),
                protected_paths: paths.iter().map(|path| (*path).to_owned()).collect(),
                ..NewProject::default()
            })
        };
        assert_eq!(rules("", &[]).unwrap(), Vec::<String>::new());
        let expect = ["--isolation=project", "--protect=AGENTS.md", "--protect=-x"];
        assert_eq!(rules("project", &["AGENTS.md", "-x"]).unwrap(), expect);
        assert!(rules("none", &[]).is_err());
        assert!(rules("", &["../x"]).is_err());
    }
}
