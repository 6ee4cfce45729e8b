//! What the API and MCP do with repositories of this machine that a caller names: projects are made known
//! and workspaces are made of them. The client's own program does the work ([`program`]), as if the user
//! had typed it, in directories that may be named ([`Places`]); the daemon itself reads no checkout.
//!
//! Called by `/projects` and `/workspaces` of the server and by the tools of MCP, so both take the same
//! words and refuse the same things.

mod place;
pub mod program;
mod project;
mod workspace;

use crate::cli::user::DaemonUser;
use holm_api::project::Project;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_git::Cancel;
use place::Places;
use std::path::{Path, PathBuf};

/// Where a caller is told how far it is.
pub type Tell<'a> = &'a (dyn Fn(String) + Send + Sync);

/// What is known before anything is made.
pub struct Helper<'a> {
    projects: Vec<Project>,
    source_dirs: Vec<PathBuf>,
    tell: Tell<'a>,
}

/// Whether paths of this machine may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Whoever asks is the user whose files they are.
    Allowed,
    Refused,
}

/// Whether an earlier try may have begun what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    None,
    /// What is there in the place of a new repository is its own.
    Begun,
}

/// Raised when the call is given up.
struct Given(Cancel);

impl Drop for Given {
    fn drop(&mut self) {
        self.0.raise();
    }
}

// === impl Local ===

impl Local {
    pub fn allow(self) -> Result<(), Fault> {
        match self {
            Local::Allowed => Ok(()),
            Local::Refused => Err(Fault::new(
                Code::Refused,
                "repositories of this machine cannot be named here",
                "use holm on the machine where the repository is, as its user",
            )),
        }
    }
}

// === impl Helper ===

impl<'a> Helper<'a> {
    /// `projects` are those that the daemon knows.
    pub async fn new(projects: Vec<Project>, tell: Tell<'a>) -> Result<Self, Fault> {
        let settings = try_blocking(|| DaemonUser::current()?.settings()).await?;
        Ok(Self {
            projects,
            source_dirs: settings.source_dirs,
            tell,
        })
    }

    /// A directory that a caller named, if it may be.
    async fn permitted(&self, path: &str) -> Result<PathBuf, Fault> {
        let (projects, source_dirs) = (self.projects.clone(), self.source_dirs.clone());
        let path = path.to_owned();
        try_blocking(move || Places::new(&projects, &source_dirs).permit(&path)).await
    }

    /// A clone of a repository below the first source folder; one that is there already is used.
    async fn cloned(&self, url: &str, name: Option<&str>) -> Result<PathBuf, Fault> {
        if !holm_git::is_url(url) {
            return Err(wrong("`url` is no URL that is cloned (https, ssh, file)"));
        }
        let last = url
            .trim_end_matches('/')
            .rsplit(['/', ':'])
            .next()
            .unwrap_or_default();
        let name = name.unwrap_or(last.trim_end_matches(".git"));
        let place = Places::new_place(&self.source_dirs, name)?;
        let (url, target) = (url.to_owned(), place.clone());
        (self.tell)(format!("cloning to {}", place.display()));
        let given = Given(Cancel::default());
        let cancel = given.0.clone();
        try_blocking(move || clone(&url, &target, &cancel)).await?;
        Ok(place)
    }
}

/// Clones beside the place and moves it there, so that half a clone is never taken for a whole one.
fn clone(url: &str, place: &Path, cancel: &Cancel) -> Result<(), Fault> {
    if place.symlink_metadata().is_ok() {
        return match holm_git::is_clone_of(place, url)? {
            true => Ok(()),
            false => Err(taken(place)),
        };
    }
    let parent = make_parents(place)?;
    let beside = tempfile::Builder::new()
        .prefix(".holm-clone-")
        .tempdir_in(parent);
    let beside = beside.map_err(|error| not_made(parent, &error))?;
    let begun = beside.path().join(place.file_name().unwrap_or_default());
    holm_git::clone(url, &begun, cancel)?;
    // Somebody who was quicker keeps what is there.
    std::fs::rename(&begun, place).map_err(|_| taken(place))
}

fn make_parents(place: &Path) -> Result<&Path, Fault> {
    let parent = place.parent().unwrap_or(place);
    std::fs::create_dir_all(parent).map_err(|error| not_made(parent, &error))?;
    Ok(parent)
}

fn not_made(parent: &Path, error: &std::io::Error) -> Fault {
    let message = format!("cannot make a directory in {}: {error}", parent.display());
    Fault::new(Code::ReadOnly, message, "is the source folder writable?")
}

fn taken(place: &Path) -> Fault {
    Fault::new(
        Code::AlreadyExists,
        format!("{} is there already, and something else", place.display()),
        "say another `name`, or its `path` if that is what you mean",
    )
}

/// A request that cannot be meant.
fn wrong(message: impl Into<String>) -> Fault {
    let hint = "the API's document, or the tool's input schema, says what it takes";
    Fault::new(Code::BadRequest, message, hint)
}
