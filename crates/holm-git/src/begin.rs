//! Creates empty repositories for the user, with the user's configuration. Called for
//! `project_create` of MCP and the API.

use crate::GitError;
use crate::command::Git;
use std::path::Path;

/// Creates an empty repository at a path that does not exist yet, or accepts an existing one.
pub fn init(place: &Path) -> Result<(), GitError> {
    let (parent, name) = parts(place)?;
    let words = ["--quiet", "--initial-branch=main", "--"];
    let git = Git::client(parent, "init")?.args(words).more([name]);
    git.output().map(drop)
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
        let git = |verb: &str, words: &[&str]| {
            let git = Git::client(&first, verb).unwrap().config("user.name=x");
            git.config("user.email=x@example.org")
                .args(words)
                .output()
                .unwrap();
        };
        git("add", &["holm.toml"]);
        git("commit", &["--quiet", "-m", "begin"]);
        init(&first).unwrap();
    }
}
