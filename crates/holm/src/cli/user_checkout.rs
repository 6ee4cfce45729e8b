//! The repository that a command was typed in. Called by `up`, `trust` and `project add`.
//!
//! git runs in separate threads, so that its processes overlap with each other and with requests to
//! the daemon. Symlinks in place of holm's own files are not followed: a repository must not choose
//! what is read.

use super::figures;
use holm_api::project::CommitFiles;
use holm_config::compose::Unread;
use holm_config::daemon_user::DaemonUser;
use holm_config::devcontainer::collect;
use holm_config::paths::process_variables;
use holm_config::project::dockerfiles;
use holm_config::trust::digest_of;
use holm_core::compose::ComposeFiles;
use holm_core::config::ProjectConfig;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_git::{COMMIT_FILES, GitError, Repository};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Checkout {
    pub repository: Arc<Repository>,
    /// The current directory; relative paths start here.
    pub current: PathBuf,
}

pub const AGENTS_MD: &str = "AGENTS.md";
pub const HOLM_TOML: &str = "holm.toml";
const WORKTREE_INCLUDE: &str = ".worktreeinclude";

// === impl Checkout ===

impl Checkout {
    /// The checkout around the current directory.
    pub async fn find() -> Result<Self, Fault> {
        let current = std::env::current_dir().map_err(|error| {
            let message = "cannot tell the current directory";
            Fault::new(Code::PathNotFound, message, "go to a directory that exists").because(error)
        })?;
        Self::at(current).await
    }

    /// The checkout around `directory`.
    pub async fn at(directory: PathBuf) -> Result<Self, Fault> {
        let current = std::path::absolute(&directory).unwrap_or(directory);
        let place = current.clone();
        let repository = try_blocking(move || Ok(Repository::discover(&place)?));
        let repository = repository.await.map_err(|fault: Fault| match fault.code {
            Code::NotARepository => {
                let shown = figures::place(&current.to_string_lossy());
                let message = format!("{shown} is not in a git repository");
                Fault::new(fault.code, message, fault.hint)
            }
            _ => fault,
        })?;
        Ok(Self {
            repository: Arc::new(repository),
            current,
        })
    }

    /// Runs git in a separate thread.
    pub async fn git<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Repository) -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, Fault> {
        let repository = Arc::clone(&self.repository);
        try_blocking(move || Ok(question(&repository)?)).await
    }

    /// The files of a commit; empty without one.
    pub async fn files_at(&self, commit: Option<&str>) -> Result<CommitFiles, Fault> {
        let Some(commit) = commit.map(str::to_owned) else {
            return Ok(CommitFiles::default());
        };
        let contents = self
            .git(move |repository| repository.files_at(&commit, &COMMIT_FILES))
            .await?;
        let mut contents = contents.into_iter();
        let mut next = || contents.next().flatten();
        Ok(CommitFiles {
            holm_toml: next().map(text_of_config).transpose()?,
            has_agents_md: next().is_some(),
            submodules: next().map_or_else(Vec::new, |file| holm_git::submodule_paths(&file)),
            has_lfs: next().is_some_and(|file| holm_git::uses_lfs(&file)),
        })
    }

    /// The text of holm.toml in the checkout.
    pub fn holm_toml(&self) -> Result<Option<String>, Fault> {
        self.own_file(HOLM_TOML)?.map(text_of_config).transpose()
    }

    /// The patterns of `.worktreeinclude` in the checkout, in the syntax of `include`.
    pub fn worktree_include(&self) -> Result<Vec<String>, Fault> {
        let content = self.own_file(WORKTREE_INCLUDE)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&content);
        let lines = text.lines().map(str::trim);
        let patterns = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(patterns.map(from_root).collect())
    }

    /// Whether a file or a symlink of this name is at the root of the checkout.
    pub fn has(&self, name: &str) -> bool {
        self.repository
            .toplevel
            .join(name)
            .symlink_metadata()
            .is_ok_and(|metadata| !metadata.is_dir())
    }

    /// The Compose files that a holm.toml names, and digests of the Dockerfiles: of a commit, or of the checkout as it is
    /// now.
    pub async fn compose_files(
        &self,
        holm_toml: Option<&str>,
        commit: Option<&str>,
    ) -> Result<ComposeFiles, Fault> {
        let config = config(holm_toml)?;
        let project = &config.project;
        let names_files = !project.compose.is_empty() || project.devcontainer.is_some();
        if !names_files && dockerfiles(&config).is_empty() {
            return Ok(ComposeFiles::default());
        }
        let everything = ComposeFiles {
            root: path_text(&self.repository.main_root)?,
            home: path_text(&DaemonUser::current()?.home()?)?,
            environment: process_variables(),
            ..ComposeFiles::default()
        };
        let (holm_toml, commit) = (holm_toml.map(str::to_owned), commit.map(str::to_owned));
        let question = move |repository: &Repository| {
            let mut read = |path: &str| read_at(repository, &config, commit.as_deref(), path);
            let mut files = collect(&config, &everything, &mut read);
            // What is wrong is told when the configuration is read for its own sake.
            let whole = config_with(holm_toml.as_deref(), &files).unwrap_or_default();
            for path in dockerfiles(&whole) {
                // The build says what is missing.
                if let Ok(text) = read(&path) {
                    files.dockerfiles.insert(path, digest_of(&text));
                }
            }
            Ok(files)
        };
        self.git(question).await
    }

    fn own_file(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        let path = self.repository.toplevel.join(name);
        let failed = |error: std::io::Error| {
            Fault::new(
                Code::InvalidConfig,
                format!("cannot read {}", path.display()),
                "make the file readable",
            )
            .because(error)
        };
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_file() => std::fs::read(&path).map(Some).map_err(failed),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }
}

/// A file of a commit. Without a commit, or where `include` brings it along, that of the checkout.
fn read_at(
    repository: &Repository,
    config: &ProjectConfig,
    commit: Option<&str>,
    path: &str,
) -> Result<String, Unread> {
    if let Some(commit) = commit {
        let found = repository.files_at(commit, &[path]);
        let found = found.map_err(|error| Unread::Because(error.to_string()))?;
        if let Some(content) = found.into_iter().next().flatten() {
            return text(content);
        }
        let mut included = config.project.include.iter();
        if !included.any(|pattern| pattern.matches(path)) {
            return Err(Unread::Missing);
        }
    }
    let top = &repository.toplevel;
    let place = match top.join(path).canonicalize() {
        Ok(place) => place,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Unread::Missing),
        Err(error) => return Err(Unread::Because(error.to_string())),
    };
    let root = top.canonicalize().unwrap_or_else(|_| top.clone());
    if !place.starts_with(root) {
        return Err(Unread::Because("it is outside of the project".to_owned()));
    }
    let content = std::fs::read(place).map_err(|error| Unread::Because(error.to_string()))?;
    text(content)
}

fn text(content: Vec<u8>) -> Result<String, Unread> {
    String::from_utf8(content).map_err(|_| Unread::Because("it is not UTF-8".to_owned()))
}

/// holm.toml as checked values, with the Compose files that it names.
pub fn config_with(
    holm_toml: Option<&str>,
    compose: &ComposeFiles,
) -> Result<ProjectConfig, Fault> {
    match holm_toml {
        Some(text) => holm_config::project::parse_with(text, HOLM_TOML, compose),
        None => Ok(ProjectConfig::default()),
    }
}

/// holm.toml as checked values; the defaults when there is none.
pub fn config(holm_toml: Option<&str>) -> Result<ProjectConfig, Fault> {
    match holm_toml {
        Some(text) => Ok(holm_config::project::parse(text, HOLM_TOML)?),
        None => Ok(ProjectConfig::default()),
    }
}

/// Converts a `.gitignore` pattern to one relative to the root: a name without `/` may be in any
/// directory. What cannot be expressed (`!`) stays, and is refused by name.
fn from_root(pattern: &str) -> String {
    let path = pattern.strip_suffix('/').unwrap_or(pattern);
    match path.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None if path.contains('/') || path.starts_with('!') => path.to_owned(),
        None => format!("**/{path}"),
    }
}

/// A path as text for the API.
pub fn path_text(path: &Path) -> Result<String, Fault> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Fault::new(
            Code::Usage,
            format!("the path `{}` is not UTF-8", path.display()),
            "move the repository to a path that is",
        )),
    }
}

fn text_of_config(bytes: Vec<u8>) -> Result<String, Fault> {
    String::from_utf8(bytes).map_err(|_| {
        Fault::new(
            Code::InvalidConfig,
            "holm.toml is not UTF-8 text",
            "save the file as UTF-8 and commit it",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_worktreeinclude_count_from_the_root() {
        let check = |pattern: &str, expect: &str| assert_eq!(from_root(pattern), expect);
        check(".env", "**/.env");
        check("/.env", ".env");
        check("conf/local.yml", "conf/local.yml");
        check("certs/", "**/certs");
        check("/certs/", "certs");
        check("!x", "!x");
    }
}
