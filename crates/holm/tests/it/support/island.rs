//! A home, a data directory and a daemon that no other test shares.

use super::Repository;
use super::ran::Ran;
use super::user::{as_tester, give, ids, program};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Everything of one test. Dropping it stops the daemon and every workspace and removes the files.
pub struct Island {
    place: TempDir,
    without: String,
    /// The command prefix that enters its namespaces; empty for the test's own.
    entrance: Vec<String>,
}

// === impl Island ===

impl Island {
    pub fn new() -> Self {
        Self::without("")
    }

    /// With defences switched off (`seccomp,pins`), to show what works without them. The names are
    /// those of `holm_keeper::wire::Defence`.
    pub fn without(defences: &str) -> Self {
        Self::below(&std::env::temp_dir(), defences)
    }

    /// Below `/tmp`, which is on a disk also when `scripts/unit` has the files of tests in memory.
    pub fn in_tmp() -> Self {
        Self::below(Path::new("/tmp"), "")
    }

    fn below(directory: &Path, defences: &str) -> Self {
        let place = tempfile::Builder::new()
            .prefix("holm-it-")
            .tempdir_in(directory)
            .unwrap();
        give(place.path());
        let island = Self {
            place,
            without: defences.to_owned(),
            entrance: Vec::new(),
        };
        island.make_dir("home");
        island.make_dir("home/src");
        island
    }

    /// From now on commands are run through this, which also makes them the user's.
    pub fn enter_by(&mut self, entrance: Vec<String>) {
        self.entrance = entrance;
    }

    /// `$HOME` of the user.
    pub fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    /// `$HOLM_HOME`.
    pub fn holm_home(&self) -> PathBuf {
        self.place.path().join("holm")
    }

    /// `/etc/holm/policy.toml` for its commands; absent at first.
    pub fn policy(&self) -> PathBuf {
        self.place.path().join("policy/policy.toml")
    }

    /// What the clocks of its daemon are changed by, see `holm_engine::clock`; begins absent.
    pub fn clock(&self) -> PathBuf {
        self.place.path().join("clock")
    }

    /// While it exists, a stop records no turn. The end of a test makes it.
    fn over(&self) -> PathBuf {
        self.place.path().join("over")
    }

    pub fn data(&self) -> PathBuf {
        self.holm_home().join("data")
    }

    /// A directory of the user, below the island.
    pub fn make_dir(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.place.path().join(path);
        std::fs::create_dir_all(&path).unwrap();
        give(&path);
        path
    }

    /// A file of the user, below the island.
    pub fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.place.path().join(path);
        std::fs::write(&path, text).unwrap();
        give(&path);
        path
    }

    /// A new repository below `~/src`, with one commit.
    pub fn repository(&self, name: &str) -> Repository<'_> {
        Repository::new(self, self.home().join("src").join(name))
    }

    /// The same with these files in a second commit: path and content of each.
    pub fn repository_of(&self, name: &str, files: &[(&str, &str)]) -> Repository<'_> {
        let repository = self.repository(name);
        for (path, content) in files {
            repository.write(path, content);
        }
        repository.commit("files");
        repository
    }

    /// The repository `shop`, with this configuration and this text as its server.py.
    pub fn shop(&self, holm_toml: &str, server: &str) -> Repository<'_> {
        self.repository_of("shop", &[("holm.toml", holm_toml), ("server.py", server)])
    }

    /// A command of the user, in a sealed environment.
    pub fn command(&self, program: impl AsRef<OsStr>, directory: &Path) -> Command {
        let mut command = match self.entrance.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                // Another mount namespace begins at its root.
                command.args(rest).args(["env", "-C"]);
                command.arg(directory).arg(program);
                command
            }
            None => {
                let mut command = Command::new(program);
                as_tester(&mut command);
                command
            }
        };
        command
            .current_dir(directory)
            .env_clear()
            .env("HOME", self.home())
            .env("HOLM_HOME", self.holm_home())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("HOLM_TEST_WITHOUT", &self.without)
            .env("HOLM_TEST_POLICY", self.policy())
            .env("HOLM_TEST_CLOCK", self.clock())
            .env("HOLM_TEST_OVER", self.over())
            // Absent in most tests: then it is the table of the program.
            .env("HOLM_TEST_AGENTS", self.place.path().join("agents.toml"))
            .stdin(Stdio::null());
        command
    }

    /// holm with arguments, in a directory.
    pub fn holm_command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = self.command(program(), directory);
        command.args(arguments);
        command
    }

    /// Runs holm in the user's home.
    pub fn holm(&self, arguments: &[&str]) -> Ran {
        Ran::new(&mut self.holm_command(&self.home(), arguments))
    }

    /// Runs a program of the host as the user.
    pub fn run(&self, directory: &Path, program: &str, arguments: &[&str]) -> Ran {
        Ran::new(self.command(program, directory).args(arguments))
    }

    /// Runs a command inside a workspace.
    pub fn inside(&self, workspace: &str, argv: &[&str]) -> Ran {
        self.holm(&[&["exec", workspace, "--"], argv].concat())
    }

    /// Runs a shell script inside a workspace.
    pub fn sh(&self, workspace: &str, script: &str) -> Ran {
        self.inside(workspace, &["sh", "-c", script])
    }

    /// Runs a Python program inside a workspace.
    pub fn python(&self, workspace: &str, script: &str) -> Ran {
        self.inside(workspace, &["/usr/bin/python3", "-c", script])
    }

    /// The daemon's process.
    pub fn daemon_pid(&self) -> i32 {
        let status = self.holm(&["daemon", "status", "--json"]).json();
        status["pid"].as_i64().expect("the daemon's pid") as i32
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        self.end();
    }
}

impl Island {
    /// Stops everything; the files stay until it is dropped.
    pub fn end(&self) {
        // Only when a daemon was started: the command would not start one, but costs time.
        if self.data().exists() {
            self.write("over", "");
            let _ = self
                .holm_command(&self.home(), &["daemon", "stop", "--all"])
                .output();
        }
        // Directories that a workspace closed are opened again, so that the files can go. Root needs no such help.
        if ids().is_none() {
            let _ = Command::new("chmod")
                .args(["-R", "u+rwx"])
                .arg(self.place.path())
                .output();
        }
    }
}
