//! A trial workspace without content: started, inspected, ended, removed.

use super::Means;
use crate::keeper;
use crate::launch::LaunchPlan;
use crate::layout::make_directories;
use holm_core::WorkspaceId;
use holm_core::config::Limits;
use holm_core::isolation::Isolation;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::directories::{descriptor_path, open_directory};
use holm_keeper::files::remove::remove_tree;
use holm_keeper::plan::{LaunchAnswer, LaunchFailure, Part, Plan, Stepped};
use holm_keeper::wire::{Answer, Op, Request, VERSION, control_frame, read_control};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Limits that an empty workspace can live with.
const TRIED: Limits = Limits {
    memory: Some(512 << 20),
    cpus: Some(1.0),
    processes: Some(256),
    disk: None,
};

/// The isolation in force, or what failed.
pub fn run(data_dir: &Path, means: &Means) -> Result<Isolation, LaunchFailure> {
    let id = WorkspaceId::random();
    let missing: Vec<&Path> = data_dir
        .ancestors()
        .take_while(|path| !path.exists())
        .collect();
    fs::create_dir_all(data_dir).step(Part::Other, &format!("make {}", data_dir.display()))?;
    let dir = data_dir.join(format!("trial-{id}"));
    let dirs = WorkspaceDirs {
        socket: dir.join("control.sock"),
        dir: dir.clone(),
    };
    let result = make(&dirs)
        .step(Part::Other, &format!("write to {}", data_dir.display()))
        .and_then(|()| launch(&dirs, &id, means));
    // If this fails, only an empty directory is left.
    let _ = remove_tree(&dir);
    for made in missing {
        // Another process may use it meanwhile.
        let _ = fs::remove_dir(made);
    }
    result
}

fn make(dirs: &WorkspaceDirs) -> io::Result<()> {
    make_directories(dirs)?;
    fs::create_dir(dirs.dir.join("base"))
}

fn launch(
    dirs: &WorkspaceDirs,
    id: &WorkspaceId,
    means: &Means,
) -> Result<Isolation, LaunchFailure> {
    let base = dirs.dir.join("base");
    let plan = LaunchPlan {
        keeper: Plan {
            version: VERSION,
            id: id.to_string(),
            label: "trial".to_owned(),
            root: "/trial/project".into(),
            audit: dirs.dir.clone(),
            dir: dirs.dir.clone(),
            socket: dirs.socket.clone(),
            program: means.programs.holm.clone(),
            helper: means.programs.roles_inside(),
            ..Plan::default()
        },
        programs: means.programs.clone(),
        home: "/trial/home".into(),
        layers: vec![base.clone()],
        home_layers: Vec::new(),
        bundles: Vec::new(),
        objects: base,
        shown: Vec::new(),
        protected: vec!["protected".to_owned()],
        nested: false,
        limits: TRIED,
        groups: means.groups.clone().ok(),
        required: Vec::new(),
        siblings: None,
        sub_ids: None,
    };
    let step = "run a trial workspace";
    let mut child = keeper::command(means.programs.roles())
        .spawn()
        .step(Part::Other, step)?;
    let talk = || -> io::Result<LaunchAnswer> {
        let text = serde_json::to_vec(&plan)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&text)?;
        }
        let mut answer = Vec::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_end(&mut answer)?;
        }
        Ok(serde_json::from_slice(&answer)?)
    };
    let mut talk = talk;
    let answer = talk().step(Part::Other, step)?;
    let result = match answer {
        LaunchAnswer::Failed(failure) => Err(failure),
        LaunchAnswer::Ready(_) => look_and_stop(dirs).step(Part::Other, step),
    };
    // It ends by itself; waiting prevents a zombie.
    let _ = child.wait();
    result
}

fn look_and_stop(dirs: &WorkspaceDirs) -> io::Result<Isolation> {
    let ask = |op: Op| -> io::Result<Answer> {
        let directory = open_directory(&dirs.dir)?;
        let path = descriptor_path(&directory).join("control.sock");
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(&control_frame(&Request {
            version: VERSION,
            op,
        })?)?;
        read_control(&mut stream)
    };
    let status = ask(Op::Status)?;
    ask(Op::Stop { grace_ms: 0 })?;
    match status {
        Answer::Status(status) => Ok(status.isolation),
        _ => Err(io::Error::other("a wrong answer")),
    }
}
