//! Repositories that holm makes for the user: empty ones, and clones. With the user's configuration, as
//! if typed, but nobody is asked for a password and no helper programs are URLs. Called for `project_create`
//! of MCP and the API.

use crate::GitError;
use crate::command::{Cancel, Git};
use crate::remote::without_credentials;
use std::path::Path;

/// What a URL may begin with; `ext::` and other helpers run programs.
const SCHEMES: [&str; 5] = ["https://", "http://", "ssh://", "git://", "file://"];

/// The same for git itself, also for where a server leads it.
const PROTOCOLS: [&str; 6] = [
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.http.allow=always",
    "protocol.ssh.allow=always",
    "protocol.git.allow=always",
    "protocol.file.allow=always",
];

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

/// Clones a repository to a place where nothing is. What was begun of one that fails is removed by git.
pub fn clone(url: &str, place: &Path, cancel: &Cancel) -> Result<(), GitError> {
    let (parent, name) = parts(place)?;
    if !is_url(url) {
        return Err(GitError::Failed {
            command: "clone".to_owned(),
            detail: format!("`{}` is no URL that is cloned", shown(url)),
        });
    }
    let mut git = Git::client(parent, "clone")?;
    for protocol in PROTOCOLS {
        git = git.config(protocol);
    }
    let words = [
        "--quiet",
        "--no-hardlinks",
        "--no-recurse-submodules",
        "--",
        url,
    ];
    let mut git = git.args(words).more([name]).cancel(cancel);
    git = git
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
    if let Some(agent) = std::env::var_os("SSH_AUTH_SOCK") {
        git = git.env("SSH_AUTH_SOCK", agent);
    }
    git.output().map(drop)
}

/// Whether a repository was cloned from a URL, whatever name and password either has in it.
pub fn is_clone_of(place: &Path, url: &str) -> Result<bool, GitError> {
    if !place.join(".git").exists() {
        return Ok(false);
    }
    let git = Git::client(place, "config")?.args(["--get", "remote.origin.url"]);
    let finished = git.run()?;
    let known = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
    let plain = |url: &str| {
        let url = without_credentials(url).unwrap_or_default();
        url.trim_end_matches('/')
            .trim_end_matches(".git")
            .to_owned()
    };
    Ok(finished.status.success() && plain(&known) == plain(url))
}

/// Whether it is a URL that [`clone`] takes.
pub fn is_url(url: &str) -> bool {
    let is_plain = !url.starts_with('-') && !url.chars().any(char::is_control);
    is_plain && (SCHEMES.iter().any(|scheme| url.starts_with(scheme)) || is_short_ssh(url))
}

/// `git@example.org:team/shop.git`
fn is_short_ssh(url: &str) -> bool {
    let Some((host, path)) = url.split_once(':') else {
        return false;
    };
    let is_host = host.contains('@') && !host.contains('/');
    is_host && !path.is_empty() && !path.starts_with(':')
}

fn shown(url: &str) -> String {
    let url = without_credentials(url).unwrap_or_default();
    url.escape_debug().to_string()
}

fn parts(place: &Path) -> Result<(&Path, &std::ffi::OsStr), GitError> {
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
    fn only_urls_that_run_nothing_are_cloned() {
        for good in [
            "https://example.org/shop.git",
            "file:///srv/shop.git",
            "ssh://git@example.org/shop",
            "git@example.org:team/shop.git",
        ] {
            assert!(is_url(good), "{good}");
        }
        for bad in [
            "",
            "ext::sh -c x",
            "--upload-pack=x",
            "/srv/shop",
            "../shop",
            "fd::17",
            "git@example.org::x",
            "https://a\nb",
            "example.org:shop",
            "a/b@c:d",
        ] {
            assert!(!is_url(bad), "{bad}");
        }
    }

    #[test]
    fn repositories_are_begun_cloned_and_known_again() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (place.path().join("first"), place.path().join("second"));
        init(&first).unwrap();
        assert!(first.join(".git").is_dir());
        std::fs::write(first.join("holm.toml"), "").unwrap();
        commit_file(&first, "holm.toml", "begin").unwrap();
        init(&first).unwrap();
        commit_file(&first, "holm.toml", "again").unwrap();
        let url = format!("file://{}", first.display());
        clone(&url, &second, &Cancel::default()).unwrap();
        assert!(second.join("holm.toml").exists());
        assert!(is_clone_of(&second, &url).unwrap());
        assert!(!is_clone_of(&second, "file:///other").unwrap());
        assert!(!is_clone_of(&first, &url).unwrap());
        // Nothing is left of what cannot be cloned.
        let third = place.path().join("third");
        assert!(clone("file:///nowhere", &third, &Cancel::default()).is_err());
        assert!(clone("ext::touch x", &third, &Cancel::default()).is_err());
        assert!(!third.exists());
    }
}
