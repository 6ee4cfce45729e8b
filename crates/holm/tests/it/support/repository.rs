//! A git repository of the user.

use super::{Island, Ran};
use std::path::{Path, PathBuf};

pub struct Repository<'a> {
    pub island: &'a Island,
    pub path: PathBuf,
}

// === impl Repository ===

impl<'a> Repository<'a> {
    /// With one commit that has `README.md`.
    pub fn new(island: &'a Island, path: PathBuf) -> Self {
        let repository = Self::empty(island, path);
        repository.write("README.md", "# hello\n");
        repository.commit("first");
        repository
    }

    /// Without a commit.
    pub fn empty(island: &'a Island, path: PathBuf) -> Self {
        let repository = Self {
            island,
            path: island.make_dir(path),
        };
        repository.git(&["init", "-q", "-b", "main"]);
        // As `git config` would write it, which takes two more programs in almost every test.
        let config = repository.path.join(".git/config");
        let user = "[user]\n\tname = Tess Ter\n\temail = tess@example.org\n";
        let text = std::fs::read_to_string(&config).unwrap() + user;
        std::fs::write(config, text).unwrap();
        repository
    }

    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        self.island.run(&self.path, "git", arguments).ok().out()
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let target = self.path.join(path);
        if let Some(parent) = Path::new(path).parent() {
            let mut directory = self.path.clone();
            for part in parent {
                directory.push(part);
                self.island.make_dir(&directory);
            }
        }
        self.island.write(target, text);
    }

    /// Commits everything; returns the commit.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        // In a repository of a few files, maintenance is only one more program.
        let quick = ["-c", "maintenance.auto=false", "commit", "-q"];
        self.git(&[&quick[..], &["--allow-empty", "-m", message]].concat());
        self.git(&["rev-parse", "HEAD"])
    }

    /// Runs holm in the repository.
    pub fn holm(&self, arguments: &[&str]) -> Ran {
        self.holm_in(".", arguments)
    }

    /// Runs holm in a directory of the repository.
    pub fn holm_in(&self, directory: &str, arguments: &[&str]) -> Ran {
        Ran::new(
            &mut self
                .island
                .holm_command(&self.path.join(directory), arguments),
        )
    }

    /// Makes a workspace; returns its id.
    #[track_caller]
    pub fn up(&self, label: &str) -> String {
        let workspace = self.holm(&["up", label, "--json"]).json();
        workspace["id"].as_str().expect("an id").to_owned()
    }
}
