//! The suites that every driver and every keeper pass, for workspaces in containers. A program of its own, because the
//! containers run the program that their driver runs in.

#![allow(clippy::unwrap_used)] // Its own `main` keeps clippy from seeing that this is a test.

mod engine;
#[path = "../../holm-keeper/tests/it/conformance.rs"]
mod running;
#[path = "../../holm/tests/it/support/skip.rs"]
mod skip;

use engine::{Engine, IMAGE, Kind};
use holm_container::{ContainerDriver, Parts, Settings};
use holm_core::config::DriverName;
use holm_core::spec::WorkspaceSpec;
use holm_core::{ProjectId, WorkspaceId};
use holm_engine::conformance;
use holm_engine::driver::Driver;
use holm_keeper::container::STORE_ROLE;
use holm_keeper::plan::SurroundingNetwork;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const TESTS: [(&str, Kind); 2] = [
    ("docker_does_what_every_driver_has_to", Kind::Docker),
    ("podman_does_what_every_driver_has_to", Kind::Podman),
];

fn main() {
    holm_linux::roles::dispatch();
    let arguments: Vec<_> = std::env::args().collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    if has(STORE_ROLE) {
        holm_linux::container::store::main(&[]);
    }
    if has("--list") {
        if !has("--ignored") {
            TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return;
    }
    let named = TESTS.iter().any(|(name, _)| has(name));
    for (name, kind) in TESTS {
        if has(name) || !named {
            run(kind);
        }
    }
}

fn repository(data_dir: &Path, project: &ProjectId) -> PathBuf {
    data_dir
        .join("projects")
        .join(project.as_str())
        .join("repo.git")
}

fn driver(data_dir: &Path, engine: &Engine) -> ContainerDriver {
    let host = engine.address();
    ContainerDriver::new(Parts {
        data_dir: data_dir.to_owned(),
        settings: Box::new(move || {
            Ok(Settings {
                host: Some(host.clone()),
                image: Some(IMAGE.to_owned()),
                network: "none".to_owned(),
            })
        }),
        secrets: Arc::new(|_| Ok(Vec::new())),
        network: Arc::new(|| Ok(SurroundingNetwork::default())),
        repository,
        guests: data_dir.join("guests.sock"),
        machine: Vec::new,
        without: Vec::new(),
    })
}

fn run(kind: Kind) {
    let place = tempfile::tempdir().unwrap();
    let engine = match Engine::start(kind, &place.path().join("engine")) {
        Ok(engine) => engine,
        Err(why) => return skip::skipped(&why),
    };
    let data_dir = place.path().join("data");
    let (id, project) = (WorkspaceId::random(), ProjectId::random());
    let commit = commit(&repository(&data_dir, &project));
    let spec = WorkspaceSpec {
        driver: DriverName::Docker,
        ..conformance::spec(&id, &project, &commit)
    };
    let driver = driver(&data_dir, &engine);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let driver = Arc::new(driver);
    runtime.block_on(conformance::check(driver.clone(), spec.clone()));
    let spec = Arc::new(WorkspaceSpec {
        services: vec![running::service()],
        ..spec
    });
    runtime.block_on(async {
        conformance::start(driver.as_ref(), &spec).await;
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
