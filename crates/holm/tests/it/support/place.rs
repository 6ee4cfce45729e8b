//! holm typed by root, in a place that no other test shares.

use super::Ran;
use super::user::{is_root, program};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Root's own place: a home that no other user can enter, and a `HOLM_HOME` beside it.
pub struct Place {
    place: TempDir,
}

// === impl Place ===

impl Place {
    /// `None` for a user who is not root.
    pub fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let place = tempfile::Builder::new()
            .prefix("holm-root-")
            .tempdir()
            .unwrap();
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o711)).unwrap();
        let place = Self { place };
        let home = place.home();
        std::fs::create_dir(&home).unwrap();
        std::fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).unwrap();
        Some(place)
    }

    pub fn home(&self) -> PathBuf {
        self.place.path().join("root")
    }

    pub fn holm_home(&self) -> PathBuf {
        self.place.path().join("holm")
    }

    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>, directory: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(directory)
            .env_clear()
            .env("HOME", self.home())
            .env("HOLM_HOME", self.holm_home())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("SECRET_OF_ROOT", "canary")
            .stdin(Stdio::null());
        command
    }

    pub fn holm(&self, directory: &Path, arguments: &[&str]) -> Ran {
        Ran::new(self.command(program(), directory).args(arguments))
    }

    /// A repository that only root can read.
    pub fn repository(&self) -> PathBuf {
        let path = self.home().join("shop");
        let script = "git init -q -b main shop && cd shop && git config user.name Root &&
            git config user.email root@example.org && echo hello > README.md &&
            printf '.env\\n' > .gitignore && echo A=1 > .env && git add . && git commit -qm first";
        Ran::new(self.command("sh", &self.home()).args(["-c", script])).ok();
        path
    }

    /// The repository with this `holm.toml`, trusted.
    pub fn configured(&self, toml: &str) -> PathBuf {
        let repository = self.repository();
        self.configure(&repository, toml);
        repository
    }

    pub fn configure(&self, repository: &Path, toml: &str) {
        std::fs::write(repository.join("holm.toml"), toml).unwrap();
        let script = "git add . && git commit -qm configured";
        Ran::new(self.command("sh", repository).args(["-c", script])).ok();
        self.holm(repository, &["trust", "--yes"]).ok();
    }

    pub fn sh(&self, workspace: &str, script: &str) -> Ran {
        let inside = ["exec", workspace, "--", "sh", "-c", script];
        self.holm(&self.home(), &inside)
    }

    pub fn python(&self, workspace: &str, script: &str) -> Ran {
        let inside = ["exec", workspace, "--", "/usr/bin/python3", "-c", script];
        self.holm(&self.home(), &inside)
    }

    pub fn show(&self, workspace: &str) -> serde_json::Value {
        self.holm(&self.home(), &["show", workspace, "--json"])
            .json()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self
            .command(program(), Path::new("/"))
            .args(["daemon", "stop", "--all"])
            .output();
    }
}
