//! The suites that every driver and every keeper pass, for workspaces of the kernel. A program of its own, because
//! keepers run the program that their driver runs in.

#![allow(clippy::unwrap_used)] // Its own `main` keeps clippy from seeing that this is a test.

#[path = "../../holm-keeper/tests/it/conformance.rs"]
mod running;

use holm_core::spec::WorkspaceSpec;
use holm_core::{ProjectId, WorkspaceId};
use holm_engine::conformance;
use holm_engine::driver::Driver;
use holm_linux::{Layout, LinuxDriver};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const DRIVER: &str = "linux_does_what_every_driver_has_to";
const KEEPER: &str = "workspaces_of_linux_do_what_every_running_workspace_has_to";
const TESTER: &str = "holm-tester";
/// Where the suite works; set for the process of the ordinary user.
const PLACE: &str = "HOLM_TEST_CONFORMANCE";

fn main() {
    holm_linux::roles::dispatch();
    let arguments: Vec<_> = std::env::args().collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    if has("--list") {
        if !has("--ignored") {
            println!("{DRIVER}: test\n{KEEPER}: test");
        }
        return;
    }
    // Without a name, all run.
    let [driver, keeper] = [DRIVER, KEEPER].map(has);
    if !driver && !keeper {
        return [DRIVER, KEEPER].into_iter().for_each(run_alone);
    }
    let test = if driver { DRIVER } else { KEEPER };
    match std::env::var_os(PLACE) {
        Some(place) => run(Path::new(&place), test),
        None => run_alone(test),
    }
}

/// holm never runs as root. A copy of this program is where the ordinary user can read it.
fn run_alone(test: &str) {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("conformance");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    command.arg(test);
    command.env(PLACE, place.path()).env("HOME", place.path());
    if rustix::process::geteuid().is_root() {
        let known = std::fs::read_to_string("/etc/passwd").unwrap();
        let line = known.lines().find(|line| line.starts_with(TESTER));
        let line = line.expect("the user holm-tester: `scripts/set-up test` makes it");
        let fields: Vec<_> = line.split(':').collect();
        let (uid, gid) = (fields[2].parse().unwrap(), fields[3].parse().unwrap());
        for path in [place.path(), &program] {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
        }
        command.uid(uid).gid(gid);
    }
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let status = command.current_dir(place.path()).status().unwrap();
    assert!(status.success(), "{status}");
}

fn run(place: &Path, test: &str) {
    let layout = Layout {
        data_dir: place.join("data"),
        run_dir: place.join("run"),
    };
    let (id, project) = (WorkspaceId::random(), ProjectId::random());
    let commit = commit(&layout.repository(&project));
    let spec = WorkspaceSpec {
        root: place.join("shop"),
        home: place.to_owned(),
        ..conformance::spec(&id, &project, &commit)
    };
    let driver = LinuxDriver::new(layout, Arc::new(|_| Ok(Vec::new())), &[]).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if test == DRIVER {
        return runtime.block_on(conformance::check(Arc::new(driver), spec));
    }
    let spec = Arc::new(WorkspaceSpec {
        services: vec![running::service()],
        ..spec
    });
    runtime.block_on(async {
        conformance::start(&driver, &spec).await;
        running::all(&running::Workspace {
            client: driver.keeper(&id),
            root: spec.root.clone(),
            helper: holm_keeper::guest::PROGRAM.to_owned(),
        })
        .await;
        driver.undo(&spec).await.unwrap();
    });
}

/// A bare repository with one commit, and the id of that.
fn commit(repository: &Path) -> String {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(repository).args(arguments);
        for name in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{name}_NAME"), "me");
            command.env(format!("GIT_{name}_EMAIL"), "me@example.org");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    std::fs::create_dir_all(repository).unwrap();
    git(&["init", "--bare", "-q"]);
    let tree = git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let commit = git(&["commit-tree", "-m", "first", &tree]);
    git(&["update-ref", "refs/heads/main", &commit]);
    commit
}
