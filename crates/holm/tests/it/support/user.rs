//! The user that tests run holm as.

use super::skip::skipped;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const TESTER: &str = "holm-tester";

/// The ids to switch to, when root runs the tests.
pub fn ids() -> Option<(u32, u32)> {
    static IDS: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *IDS.get_or_init(|| {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let known = std::fs::read_to_string("/etc/passwd").unwrap();
        let line = known
            .lines()
            .find(|line| line.starts_with(&format!("{TESTER}:")))
            .expect("the user holm-tester: `scripts/set-up test` makes it");
        let fields: Vec<_> = line.split(':').collect();
        Some((fields[2].parse().unwrap(), fields[3].parse().unwrap()))
    })
}

/// Whether root runs the tests. A test that needs root and gets `false` returns: it was skipped.
#[track_caller]
pub fn is_root() -> bool {
    let is_root = ids().is_some();
    if !is_root {
        skipped("it needs root, and `make unit` runs it so");
    }
    is_root
}

/// Makes a command run as the ordinary user.
pub fn as_tester(command: &mut Command) -> &mut Command {
    match ids() {
        Some((uid, gid)) => command.uid(uid).gid(gid),
        None => command,
    }
}

/// Gives a path to the ordinary user.
pub fn give(path: &Path) {
    if let Some((uid, gid)) = ids() {
        std::os::unix::fs::lchown(path, Some(uid), Some(gid)).unwrap();
    }
}

/// The program under test, where the ordinary user can reach it.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_holm"));
        if ids().is_none() {
            return built.to_owned();
        }
        let metadata = built.metadata().unwrap();
        let name = format!("holm-it-{:x}-{:x}", metadata.ino(), metadata.mtime_nsec());
        let directory = std::env::temp_dir().join(name);
        let program = directory.join("holm");
        if !program.exists() {
            // Several test processes may do this at once: each makes whole copies, and the first ones stay.
            let _ = fs::create_dir(&directory);
            let mode = || PermissionsExt::from_mode(0o755);
            fs::set_permissions(&directory, mode()).unwrap();
            let fresh = directory.join(format!("new-{}", std::process::id()));
            let put = |from: &Path, name: &str| {
                fs::copy(from, &fresh).unwrap();
                fs::set_permissions(&fresh, mode()).unwrap();
                give(&fresh);
                let _ = fs::hard_link(&fresh, directory.join(name));
                fs::remove_file(&fresh).unwrap();
            };
            if let Some(roles) = ROLES {
                put(Path::new(roles), "holm-roles");
            }
            // It is put last, because others look for it.
            put(built, "holm");
        }
        program
    })
}

/// The small program that the program under test embeds.
const ROLES: Option<&str> = option_env!("HOLM_ROLES_PROGRAM");

/// Makes `$HOLM_HOME` with the copies of its programs that a new daemon would write (`holm_linux::programs`). They are
/// links: to write many megabytes takes a tenth of the time of a short test.
pub fn lend_programs(holm_home: &Path) {
    if ids().is_none() || ROLES.is_none() {
        return;
    }
    let lent = program().parent().expect("a directory");
    let metadata = program().metadata().unwrap();
    let (inode, size, changed) = (metadata.ino(), metadata.size(), metadata.mtime_nsec());
    // Other clients of the test, which start at the same time, find all of it or nothing.
    let fresh = tempfile::tempdir_in(holm_home.parent().expect("a directory")).unwrap();
    let name = format!("data/program/{inode:x}-{size:x}-{changed:x}");
    let kept = fresh.path().join(name);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&kept)
        .unwrap();
    for directory in kept.ancestors().take(4) {
        give(directory);
    }
    for name in ["holm-roles", "holm"] {
        if fs::hard_link(lent.join(name), kept.join(name)).is_err() {
            // Another file system: the daemon writes its copies.
            break;
        }
    }
    // It fails if another client was first.
    let _ = fs::rename(fresh.path(), holm_home);
}
