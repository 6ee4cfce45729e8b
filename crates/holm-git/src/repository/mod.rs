//! The user's repository, as the client sees it. Only [`Repository::set_project_id`], [`fetch`] and
//! [`adopt`] write to it.
//!
//! Discovering an ordinary repository costs no git process, because [`files`] and [`config_file`] read
//! it, and any other one two at once. The documentation of every other function says how many it starts.

pub(crate) mod adopt;
pub(crate) mod applied;
mod config_file;
pub(crate) mod dirty;
pub(crate) mod extent;
pub(crate) mod fetch;
mod files;
mod ignored;
pub(crate) mod journal;
mod link;
mod moves;
mod plan;
mod push;
pub(crate) mod refs;
mod settings;
pub(crate) mod tree;
mod undo;

use crate::command::{Finished, Git};
use crate::remote::without_credentials;
use crate::{GitError, version};
use holm_core::ProjectId;
use holm_core::clone_url::CloneUrl;
use holm_core::git_settings::GitSetting;
use holm_core::spec::Remote;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait while another process holds the lock of the configuration.
const CONFIG_LOCK: Duration = Duration::from_secs(5);

/// A git repository with a work tree.
#[derive(Clone, Debug)]
pub struct Repository {
    /// The root of the work tree around the current directory.
    pub toplevel: PathBuf,
    /// The git directory of that work tree.
    pub git_dir: PathBuf,
    /// The git directory that all work trees share.
    pub common_dir: PathBuf,
    /// The main work tree, even when the current directory is in a linked one.
    pub main_root: PathBuf,
    /// `sha1` or `sha256`.
    pub object_format: String,
    /// `None`: no commit yet.
    pub head: Option<String>,
    /// `None`: detached.
    pub branch: Option<String>,
    /// Lines of a shallow clone's `shallow` file.
    pub shallow: Vec<String>,
    pub project_id: Option<ProjectId>,
    /// The identity of the URL with which the user named this repository, if any.
    pub url: Option<String>,
    pub user_name: Option<String>,
    pub user_email: Option<String>,
    pub remotes: Vec<Remote>,
    /// A partial clone: missing objects are no error.
    pub partial: bool,
    /// Settings in its own configuration that make git run programs or touch files on the host,
    /// without those of submodules.
    pub(crate) settings: Vec<GitSetting>,
    /// Identifies the common directory on disk.
    pub device: u64,
    pub inode: u64,
}

/// The parsed configuration.
#[derive(Debug, Default, PartialEq)]
struct Config {
    project_id: Option<ProjectId>,
    url: Option<String>,
    user_name: Option<String>,
    user_email: Option<String>,
    remotes: Vec<Remote>,
    worktree: Option<PathBuf>,
    partial: bool,
    settings: Vec<GitSetting>,
}

/// The parsed output of `git rev-parse`.
struct Discovered {
    toplevel: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
    object_format: String,
    head: Option<String>,
    /// The full ref name of HEAD, or `HEAD` when detached.
    head_name: Option<String>,
}

/// The `holm.projectId` of another git directory, to tell a copy from a move. One process, which
/// reads only that file.
pub fn project_id_of(common_dir: &Path) -> Result<Option<ProjectId>, GitError> {
    let value = own_value(common_dir, "holm.projectId")?;
    Ok(value.and_then(|value| ProjectId::parse(&value).ok()))
}

/// A value from a git directory's own configuration file.
pub(crate) fn own_value(common_dir: &Path, key: &str) -> Result<Option<String>, GitError> {
    let file = common_dir.join("config");
    if !file.is_file() {
        return Ok(None);
    }
    let finished = Git::sealed("config")?
        .args([OsString::from("--file"), file.into()])
        .more(["--get", key])
        .run()?;
    // Exit code 1: the key does not exist.
    if finished.status.code() == Some(1) {
        return Ok(None);
    }
    let answer = finished.success()?;
    let text = String::from_utf8_lossy(&answer);
    Ok(Some(text.trim_end_matches('\n').to_owned()))
}

// === impl Repository ===

impl Repository {
    /// The repository around `directory`. At most two processes at once.
    pub fn discover(directory: &Path) -> Result<Repository, GitError> {
        let known = files::place(directory);
        let own = known.as_ref();
        let own = own.and_then(|place| config_file::read(&place.git_dir));
        let asked = match own {
            Some(_) => None,
            None => {
                let list = Git::client(directory, "config")?;
                Some(list.args(["--null", "--show-scope", "--list"]).spawn())
            }
        };
        let place = known.map_or_else(|| Discovered::ask(directory), Ok);
        // Waits for each before checking any result, so that no process is left running.
        let asked = asked.map(|asked| asked.and_then(|running| running.finish()));
        let place = place?;
        let mut config = match asked {
            Some(listed) => Config::read(&listed?.success().map_err(or_too_old)?),
            None => own.unwrap_or_default(),
        };
        config.settings.retain(|setting| {
            setting.key != "core.worktree" || leads_away(&place.toplevel, &place.git_dir)
        });
        let common = std::fs::metadata(&place.common_dir)
            .map_err(GitError::file("look at", &place.common_dir))?;
        let main_root = main_root(&place, config.worktree);
        Ok(Repository {
            main_root,
            object_format: place.object_format,
            head: place.head,
            branch: place
                .head_name
                .and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned)),
            shallow: shallow_lines(&place.common_dir)?,
            project_id: config.project_id,
            url: config.url,
            user_name: config.user_name.or_else(|| variable("GIT_AUTHOR_NAME")),
            user_email: config.user_email.or_else(|| variable("GIT_AUTHOR_EMAIL")),
            remotes: config.remotes,
            partial: config.partial,
            settings: config.settings,
            device: common.dev(),
            inode: common.ino(),
            toplevel: place.toplevel,
            git_dir: place.git_dir,
            common_dir: place.common_dir,
        })
    }

    /// Writes `holm.projectId` to the configuration that all work trees share. One process.
    pub fn set_project_id(&self, id: &ProjectId) -> Result<(), GitError> {
        self.note("holm.projectId", id.as_str())
    }

    /// Records the URL with which the user named this repository. One process.
    pub fn set_url(&self, url: &CloneUrl) -> Result<(), GitError> {
        self.note("holm.url", &url.identity())
    }

    /// Git does not wait for its lock. Several clients may write the id of a new project at the
    /// same time, so this retries, and accepts when another has written the same value.
    fn note(&self, key: &str, value: &str) -> Result<(), GitError> {
        let file = self.common_dir.join("config");
        let deadline = Instant::now() + CONFIG_LOCK;
        loop {
            let finished = Git::sealed("config")?
                .args([OsString::from("--file"), file.clone().into()])
                .more([key, value])
                .run()?;
            let is_locked = String::from_utf8_lossy(&finished.stderr).contains("could not lock");
            if !is_locked || Instant::now() > deadline {
                return finished.success().map(|_| ());
            }
            if own_value(&self.common_dir, key)?.as_deref() == Some(value) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The object directory that new objects of this repository go to.
    pub fn objects_dir(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    /// A command in the work tree, on exactly this repository.
    pub(crate) fn git(&self, name: &str) -> Result<Git, GitError> {
        Ok(Git::client(&self.toplevel, name)?
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", &self.toplevel))
    }
}

// === impl Discovered ===

impl Discovered {
    /// Asks git.
    fn ask(directory: &Path) -> Result<Discovered, GitError> {
        let place = Git::client(directory, "rev-parse")?
            .args(["--path-format=absolute", "--show-toplevel", "--git-dir"])
            .more(["--git-common-dir", "--show-object-format", "HEAD"])
            .more(["--symbolic-full-name", "HEAD"])
            .run()?;
        Discovered::read(directory, place).map_err(or_too_old)
    }

    fn read(directory: &Path, finished: Finished) -> Result<Discovered, GitError> {
        let complaint = String::from_utf8_lossy(&finished.stderr).into_owned();
        let is_unborn = complaint.contains("ambiguous argument 'HEAD'");
        if !finished.status.success() && !is_unborn {
            return Err(why_not(directory, &complaint, finished));
        }
        let text = finished.stdout;
        if text.starts_with(b"--path-format") {
            return Err(GitError::unexpected("rev-parse", &text));
        }
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        // Three paths, the format, two lines for HEAD, and the empty text after the last line feed.
        // Without a commit git stops after the first line for HEAD.
        let expected = if is_unborn { 6 } else { 7 };
        let paths = match lines.len() {
            count if count == expected => [path(lines[0]), path(lines[1]), path(lines[2])],
            // A path contains a line feed: ask for every path separately.
            count if count > expected => [
                ask_path(directory, "--show-toplevel")?,
                ask_path(directory, "--git-dir")?,
                ask_path(directory, "--git-common-dir")?,
            ],
            _ => return Err(GitError::unexpected("rev-parse", &text)),
        };
        let from_end =
            |back: usize| String::from_utf8_lossy(lines[lines.len() - back]).into_owned();
        let [toplevel, git_dir, common_dir] = paths;
        let (head, head_name) = if is_unborn {
            (None, unborn_branch(directory)?)
        } else {
            (Some(from_end(3)), Some(from_end(2)))
        };
        Ok(Discovered {
            toplevel,
            git_dir,
            common_dir,
            object_format: from_end(if is_unborn { 3 } else { 4 }),
            head,
            head_name,
        })
    }
}

// === impl Config ===

impl Config {
    /// Parses `scope NUL key LF value NUL …`.
    fn read(listed: &[u8]) -> Config {
        let mut config = Config::default();
        config.add(listed);
        config.remotes.retain(|remote| !remote.url.is_empty());
        config
    }

    fn add(&mut self, listed: &[u8]) {
        let mut fields = listed.split(|byte| *byte == 0);
        while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
            let entry = String::from_utf8_lossy(entry);
            let (key, value) = entry.split_once('\n').unwrap_or((&entry, "true"));
            self.take(scope, key, value);
        }
    }

    fn take(&mut self, scope: &[u8], key: &str, value: &str) {
        let is_local = scope == b"local";
        if is_local || scope == b"worktree" {
            let setting = GitSetting {
                key: key.to_owned(),
                value: value.to_owned(),
                submodule: None,
            };
            self.settings.extend(setting.words().map(|_| setting));
        }
        match key {
            // An id in the user's global configuration would make all repositories one project.
            "holm.projectid" if is_local => self.project_id = ProjectId::parse(value).ok(),
            "holm.url" if is_local => self.url = Some(value.to_owned()),
            "user.name" => self.user_name = Some(value.to_owned()),
            "user.email" => self.user_email = Some(value.to_owned()),
            "core.worktree" => self.worktree = Some(value.into()),
            "extensions.partialclone" => self.partial = true,
            _ => {
                if let Some(rest) = key.strip_prefix("remote.")
                    && let Some((name, variable)) = rest.rsplit_once('.')
                {
                    self.take_remote(name, variable, value);
                }
            }
        }
    }

    fn take_remote(&mut self, name: &str, variable: &str, value: &str) {
        if variable == "promisor" {
            self.partial |= value == "true";
        }
        if !matches!(variable, "url" | "fetch") {
            return;
        }
        let position = self.remotes.iter().position(|remote| remote.name == name);
        let index = position.unwrap_or_else(|| {
            self.remotes.push(Remote {
                name: name.to_owned(),
                url: String::new(),
                fetch: Vec::new(),
            });
            self.remotes.len() - 1
        });
        let remote = &mut self.remotes[index];
        match variable {
            "fetch" => remote.fetch.push(value.to_owned()),
            // The first URL is the one that git fetches from.
            _ if remote.url.is_empty() => {
                remote.url = without_credentials(value).unwrap_or_default();
            }
            _ => {}
        }
    }
}

/// Whether the work tree belongs to another git directory than this one.
fn leads_away(toplevel: &Path, git_dir: &Path) -> bool {
    let own = toplevel.join(".git");
    let Ok(text) = std::fs::read_to_string(&own) else {
        return own.canonicalize().ok() != git_dir.canonicalize().ok();
    };
    let named = text.strip_prefix("gitdir: ").unwrap_or_default().trim_end();
    toplevel.join(named).canonicalize().ok() != git_dir.canonicalize().ok()
}

/// The main work tree: the parent of the common directory, or `core.worktree`, or, when the common
/// directory is a bare repository, the current work tree.
fn main_root(place: &Discovered, worktree: Option<PathBuf>) -> PathBuf {
    if place.common_dir.file_name() == Some(".git".as_ref())
        && let Some(parent) = place.common_dir.parent()
    {
        return parent.to_owned();
    }
    worktree
        .and_then(|path| place.common_dir.join(path).canonicalize().ok())
        .unwrap_or_else(|| place.toplevel.clone())
}

fn why_not(directory: &Path, complaint: &str, finished: Finished) -> GitError {
    if let Some((_, rest)) = complaint.split_once("dubious ownership in repository at '") {
        let path = rest.split_once("'\n").map_or(rest, |(path, _)| path);
        return GitError::DubiousOwnership { path: path.into() };
    }
    let none = [
        "not a git repository",
        "run in a work tree",
        "cannot use bare repository",
    ];
    if none.iter().any(|words| complaint.contains(words)) {
        return GitError::NotARepository {
            path: directory.to_owned(),
        };
    }
    finished.error()
}

/// An old git fails at unknown options in various ways; a message about its version is clearer.
fn or_too_old(error: GitError) -> GitError {
    match error {
        GitError::Failed { .. } | GitError::Unexpected { .. } => version().err().unwrap_or(error),
        error => error,
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_owned()).into()
}

fn ask_path(directory: &Path, flag: &str) -> Result<PathBuf, GitError> {
    let answer = Git::client(directory, "rev-parse")?
        .args(["--path-format=absolute", flag])
        .output()?;
    Ok(path(answer.strip_suffix(b"\n").unwrap_or(&answer)))
}

fn unborn_branch(directory: &Path) -> Result<Option<String>, GitError> {
    let finished = Git::client(directory, "symbolic-ref")?
        .args(["--quiet", "HEAD"])
        .run()?;
    let name = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
    Ok((finished.status.success() && !name.is_empty()).then_some(name))
}

fn shallow_lines(common_dir: &Path) -> Result<Vec<String>, GitError> {
    let file = common_dir.join("shallow");
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(GitError::file("read", &file)(error)),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The bytes of a path relative to the work tree, as git prints and reads them.
fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
