//! A git repository of the user.

use super::user::{as_tester, give, lend_programs};
use super::{Island, Ran};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const README: &str = "# hello\n";

pub struct Repository<'a> {
    pub island: &'a Island,
    pub path: PathBuf,
}

// === impl Repository ===

impl<'a> Repository<'a> {
    /// With one commit that has `README.md`.
    pub fn new(island: &'a Island, path: PathBuf) -> Self {
        let repository = Self::copied(island, path, "committed");
        repository.write("README.md", README);
        repository
    }

    /// Without a commit.
    pub fn empty(island: &'a Island, path: PathBuf) -> Self {
        Self::copied(island, path, "empty")
    }

    /// Copies a git directory: almost every test needs one, and making it takes three programs.
    fn copied(island: &'a Island, path: PathBuf, kind: &str) -> Self {
        let path = island.make_dir(path);
        copy(&git_directories().join(kind), &path.join(".git"));
        Self { island, path }
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

    /// Commits everything.
    pub fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        // In a repository of a few files, maintenance is only one more program.
        let quick = ["-c", "maintenance.auto=false", "commit", "-q"];
        self.git(&[&quick[..], &["--allow-empty", "-m", message]].concat());
    }

    /// The commit that is checked out.
    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// Runs holm in the repository.
    pub fn holm(&self, arguments: &[&str]) -> Ran {
        self.holm_in(".", arguments)
    }

    /// Runs holm in a directory of the repository.
    pub fn holm_in(&self, directory: &str, arguments: &[&str]) -> Ran {
        // Other commands must find, and leave, a user without `$HOLM_HOME`.
        if arguments.first() == Some(&"up") && !self.island.holm_home().exists() {
            lend_programs(&self.island.holm_home());
        }
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

/// The directory with `empty` and `committed`, the git directories of new repositories. The first test that needs them
/// makes them for all.
fn git_directories() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let user = rustix::process::getuid().as_raw();
        let made = std::env::temp_dir().join(format!("holm-it-repositories-{user}"));
        if !made.exists() {
            // Several test processes may do this at once: each renames a whole directory, and the first one stays.
            let fresh = made.with_extension(std::process::id().to_string());
            make_git_directories(&fresh);
            if fs::rename(&fresh, &made).is_err() {
                fs::remove_dir_all(fresh).unwrap();
            }
        }
        made
    })
}

fn make_git_directories(place: &Path) {
    fs::create_dir(place).unwrap();
    fs::set_permissions(place, PermissionsExt::from_mode(0o755)).unwrap();
    give(place);
    fs::write(place.join("README.md"), README).unwrap();
    let script = "set -e; export GIT_CONFIG_NOSYSTEM=1 HOME=$PWD; umask 022\n\
        git init -q -b main; rm .git/hooks/*\n\
        git config user.name 'Tess Ter'; git config user.email tess@example.org\n\
        cp -r .git empty; git add README.md; git commit -q -m first; mv .git committed";
    let mut shell = Command::new("sh");
    let ran = Ran::new(
        as_tester(&mut shell)
            .args(["-c", script])
            .current_dir(place),
    );
    ran.ok();
}

/// Copies a directory of the user.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    give(to);
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            give(&target);
        }
    }
}
