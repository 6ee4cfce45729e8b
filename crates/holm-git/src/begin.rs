//! Empty repositories that holm makes for the user, with the user's configuration, as if typed. Called
//! for `project_create` of MCP and the API.

use crate::GitError;
use crate::command::Git;
use std::path::Path;

/// Makes an empty repository at a place where nothing is, or where it is already.
pub fn init(place: &Path) -> Result<(), GitError> {
    let (parent, name) = parts(place)?;
    let words = ["--quiet", "--initial-branch=main", "--"];
    let git = Git::client(parent, "init")?.args(words).more([name]);
    git.output().map(drop)
}

/// Makes a commit of one file, with the user's name where git knows it. One that is committed as it is
/// needs no other.
pub fn commit_file(place: &Path, file: &str, message: &str) -> Result<(), GitError> {
    Git::client(place, "add")?.args(["--", file]).output()?;
    let words = ["--cached", "--quiet", "--", file];
    let staged = Git::client(place, "diff")?.args(words).run()?;
    if staged.status.success() {
        return Ok(());
    }
    let mut git = Git::client(place, "commit")?.config("commit.gpgSign=false");
    for (key, fallback) in [("user.name", "holm"), ("user.email", "holm@localhost")] {
        let known = Git::client(place, "config")?.args(["--get", key]).run()?;
        if !known.status.success() {
            git = git.config(&format!("{key}={fallback}"));
        }
    }
    let words = ["--quiet", "--no-verify", "-m", message, "--", file];
    git.args(words).output().map(drop)
}

pub(crate) fn parts(place: &Path) -> Result<(&Path, &std::ffi::OsStr), GitError> {
    match (place.parent(), place.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(GitError::NotARepository {
            path: place.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_begun_once() {
        let place = tempfile::tempdir().unwrap();
        let first = place.path().join("first");
        init(&first).unwrap();
        assert!(first.join(".git").is_dir());
        std::fs::write(first.join("holm.toml"), "").unwrap();
        commit_file(&first, "holm.toml", "begin").unwrap();
        init(&first).unwrap();
        commit_file(&first, "holm.toml", "again").unwrap();
        let log = Git::client(&first, "log").unwrap();
        let log = log.args(["--format=%s"]).output().unwrap();
        assert_eq!(log, b"begin\n");
    }
}
