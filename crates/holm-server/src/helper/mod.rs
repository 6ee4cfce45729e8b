//! Handles repositories of this machine that a caller of the API or MCP names: registers projects
//! and creates workspaces. The client's own program does the work ([`program`]), as if the user had
//! typed it, in allowed directories ([`Places`]); the daemon itself reads no checkout.
//!
//! Called by `/projects` and `/workspaces` of the server and by the tools of MCP, so both accept
//! and refuse the same.

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

/// Receives progress messages.
pub type Tell<'a> = &'a (dyn Fn(String) + Send + Sync);

/// The context of a request.
pub struct Helper<'a> {
    projects: Vec<Project>,
    source_dirs: Vec<PathBuf>,
    from: CloneFrom,
    tell: Tell<'a>,
}

/// Whether repositories of this machine may be named, and which hosts may be cloned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// The caller has the rights of the user who owns the files.
    Allowed(CloneFrom),
    Refused,
}

/// Whether an earlier attempt may have begun the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    None,
    /// An existing new repository was made by the earlier attempt.
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

    /// A directory that a caller named, if it is allowed.
    async fn permitted(&self, path: &str) -> Result<PathBuf, Fault> {
        let (projects, source_dirs) = (self.projects.clone(), self.source_dirs.clone());
        let path = path.to_owned();
        try_blocking(move || Places::new(&projects, &source_dirs).permit(&path)).await
    }

    /// The clone of a URL, below the first source folder; an existing one is used.
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

    /// The option that restricts the hosts to clone from.
    fn elsewhere(&self) -> Option<String> {
        (self.from == CloneFrom::Elsewhere).then(|| "--elsewhere".to_owned())
    }
}

fn make_parents(place: &Path) -> Result<&Path, Fault> {
    let parent = place.parent().unwrap_or(place);
    std::fs::create_dir_all(parent).map_err(|error| not_made(parent, error))?;
    Ok(parent)
}

/// An invalid request.
fn wrong(message: impl Into<String>) -> Fault {
    let hint = "the API's document, or the tool's input schema, says what it takes";
    Fault::new(Code::BadRequest, message, hint)
}
