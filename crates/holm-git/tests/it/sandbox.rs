//! A home, a directory and a git for each test.
//!
//! The crate reads its environment from the process, so each test runs again in a separate process,
//! with its own home and with `GIT_*` variables that would break everything if they leaked.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Sandbox {
    directory: tempfile::TempDir,
}

const SEALED: &str = "HOLM_GIT_TEST_SEALED";

macro_rules! sealed_test {
    (fn $name:ident($sandbox:ident: &Sandbox) $body:block) => {
        #[test]
        fn $name() {
            fn body($sandbox: &$crate::sandbox::Sandbox) $body
            let path = concat!(module_path!(), "::", stringify!($name));
            $crate::sandbox::run(path, body);
        }
    };
}

/// Runs `body` in a process with its own environment.
pub fn run(path: &str, body: fn(&Sandbox)) {
    if std::env::var_os(SEALED).is_some() {
        return body(&Sandbox::new());
    }
    let home = tempfile::tempdir().unwrap();
    let (_, name) = path.split_once("::").unwrap();
    let config = "[user]\n\tname = Ada \"of\" Tests\n\temail = ada@example.org\n\
                  [init]\n\tdefaultBranch = main\n[holm]\n\tprojectId = p000000000000\n";
    std::fs::write(home.path().join(".gitconfig"), config).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home.path())
        .env(SEALED, "1")
        .envs(std::env::vars_os().filter(|(name, _)| {
            ["CI", "HOLM_TEST_SKIPPED", "NEXTEST_TEST_NAME"]
                .iter()
                .any(|kept| name == kept)
        }))
        .env("GIT_DIR", "/nonexistent/leaked")
        .env("GIT_INDEX_FILE", "/nonexistent/leaked")
        .env("GIT_OBJECT_DIRECTORY", "/nonexistent/leaked")
        .env("GIT_CONFIG_COUNT", "not a number")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("1 passed"),
        "{said}\n{}",
        text(&output.stderr)
    );
}

impl Sandbox {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        // Git answers with real paths, so the tests ask with real paths.
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub fn directory(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A repository with one commit: `a.txt`, `bin/run` (executable), `link`, and odd names.
    pub fn repository(&self, name: &str) -> PathBuf {
        let path = self.directory(name);
        git(&path, ["init", "--quiet"]);
        write(&path.join("a.txt"), "one\n");
        write(&path.join("bin/run"), "#!/bin/sh\n");
        make_executable(&path.join("bin/run"));
        std::os::unix::fs::symlink("a.txt", path.join("link")).unwrap();
        write(&path.join("größe 日本.txt"), "x\n");
        write(&path.join("line\nfeed"), "x\n");
        write(&path.join(OsStr::from_bytes(b"latin-\xe9")), "x\n");
        commit_all(&path, "first");
        path
    }
}

/// Runs git as a test would by hand, and must succeed.
pub fn git<I, S>(directory: &Path, args: I) -> String
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let output = try_git(directory, args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim_end_matches('\n').to_owned()
}

pub fn try_git<I, S>(directory: &Path, args: I) -> Output
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    git_command(directory).args(args).output().unwrap()
}

pub fn git_command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    for name in [
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_CONFIG_COUNT",
    ] {
        command.env_remove(name);
    }
    command
        .current_dir(directory)
        .args(["-c", "gc.auto=0", "-c", "protocol.file.allow=always"]);
    command
}

pub fn commit_all(repository: &Path, message: &str) -> String {
    git(repository, ["add", "--all"]);
    git(
        repository,
        ["commit", "--quiet", "--allow-empty", "-m", message],
    );
    head(repository)
}

pub fn head(repository: &Path) -> String {
    git(repository, ["rev-parse", "HEAD"])
}

pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

pub fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every file below `directory` with its content, for "nothing changed".
pub fn contents(directory: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path()).unwrap();
                found.insert(entry.path(), target.as_os_str().as_bytes().to_vec());
            } else {
                found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}
