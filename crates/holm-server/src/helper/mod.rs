//! What the API and MCP do with repositories of this machine that a caller names: projects are made known
//! and workspaces are made of them. The client's own program does the work ([`program`]), as if the user
//! had typed it, in directories that may be named ([`Places`]); the daemon itself reads no checkout.
//!
//! Called by `/projects` and `/workspaces` of the server and by the tools of MCP, so both take the same
//! words and refuse the same things.

pub mod place;
pub mod program;
mod project;
mod workspace;

use holm_api::project::{MadeProject, Project};
use holm_config::daemon_user::DaemonUser;
use holm_core::clone_url::{CloneFrom, CloneUrl};
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use place::{Places, not_made};
use std::path::{Path, PathBuf};

/// Where a caller is told how far it is.
pub type Tell<'a> = &'a (dyn Fn(String) + Send + Sync);

/// What is known before anything is made.
pub struct Helper<'a> {
    projects: Vec<Project>,
    source_dirs: Vec<PathBuf>,
    from: CloneFrom,
    tell: Tell<'a>,
}

/// Whether repositories of this machine may be named, and what may be cloned to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Whoever asks has the rights of the user whose files they are.
    Allowed(CloneFrom),
    Refused,
}

/// Whether an earlier try may have begun what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    None,
    /// What is there in the place of a new repository is its own.
    Begun,
}

// === impl Local ===

impl Local {
    pub fn allow(self) -> Result<CloneFrom, Fault> {
        match self {
            Local::Allowed(from) => Ok(from),
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
    pub async fn new(
        projects: Vec<Project>,
        from: CloneFrom,
        tell: Tell<'a>,
    ) -> Result<Self, Fault> {
        let settings = try_blocking(|| DaemonUser::current()?.settings()).await?;
        Ok(Self {
            projects,
            source_dirs: settings.source_dirs,
            from,
            tell,
        })
    }

    /// A directory that a caller named, if it may be.
    async fn permitted(&self, path: &str) -> Result<PathBuf, Fault> {
        let (projects, source_dirs) = (self.projects.clone(), self.source_dirs.clone());
        let path = path.to_owned();
        try_blocking(move || Places::new(&projects, &source_dirs).permit(&path)).await
    }

    /// Where the clone of a URL is, below the first source folder; one that is there already is used.
    async fn cloned(&self, url: &str, name: Option<&str>) -> Result<PathBuf, Fault> {
        let url = CloneUrl::parse(url)?;
        if let Some(name) = name {
            Places::new_place(&self.source_dirs, name)?;
        }
        (self.tell)(format!("cloning {url}"));
        let mut words = vec![
            "project".to_owned(),
            "add".to_owned(),
            format!("--url={url}"),
        ];
        words.extend(name.map(|name| format!("--name={name}")));
        words.extend(self.elsewhere());
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let made: MadeProject = program::holm(Path::new("/"), &words, None).await?;
        Ok(PathBuf::from(made.project.path))
    }

    /// The option that says what may be cloned from.
    fn elsewhere(&self) -> Option<String> {
        (self.from == CloneFrom::Elsewhere).then(|| "--elsewhere".to_owned())
    }
}

fn make_parents(place: &Path) -> Result<&Path, Fault> {
    let parent = place.parent().unwrap_or(place);
    std::fs::create_dir_all(parent).map_err(|error| not_made(parent, &error))?;
    Ok(parent)
}

/// A request that cannot be meant.
fn wrong(message: impl Into<String>) -> Fault {
    let hint = "the API's document, or the tool's input schema, says what it takes";
    Fault::new(Code::BadRequest, message, hint)
}
