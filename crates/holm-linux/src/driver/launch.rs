//! Starts a workspace's processes: the plan for its keeper, the keeper, and once the uncommitted
//! state.

use super::connect::client;
use super::environment::{self, toolchains, variables};
use super::order::start_order;
use super::{
    LinuxDriver, Starter, base, ca_certificates, cache, disk_fault, files, halt, here, layer,
    observe, project_id, protection, rooms, services, siblings, sweep, users, volume, workspace_id,
};
use crate::cgroup;
use crate::launch::LaunchPlan;
use crate::measure;
use holm_core::config::{Limits, display_size};
use holm_core::dev_container;
use holm_core::exec::{ExecInput, ExecOutput, ExecRequest};
use holm_core::plan::Keeper;
use holm_core::spec::{Dirty, Move, Service, WorkspaceSpec};
use holm_core::state::Ended;
use holm_core::{Cause, Code, Fault, ProjectId};
use holm_engine::driver::Observation;
use holm_engine::inside;
use holm_engine::switch::{self, Protected};
use holm_engine::try_blocking;
use holm_keeper::container::Started;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::guests::{self, GuestDoor};
use holm_keeper::plan::{LaunchAnswer, LaunchFailure, Part, Plan};
use holm_keeper::wire::{Status, spoken_version};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zeroize::Zeroizing;

/// A launch takes milliseconds; this limit is for overloaded machines.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to the client and its first command take less. Starting a program at the same time would delay them.
const FIRST_COMMAND: Duration = Duration::from_millis(20);

/// Without a limit of the user: enough for any build, and low enough to stop a fork bomb.
const DEFAULT_PROCESSES: u64 = 16_384;

/// The name of the network in `--allow-degraded`.
const EGRESS: &str = "egress";

/// The name of Landlock in `--allow-degraded`.
const LANDLOCK: &str = "landlock";

/// Whether the protected paths are in force.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protection {
    On,
    /// Only while holm itself checks out the uncommitted state.
    Off,
}

/// What git inside does once, before any other program runs.
enum Preparation<'a> {
    Dirty(&'a Dirty),
    /// The copied tree is on the branch of the workspace with this label.
    Branch(&'a str),
}

// === impl Preparation ===

impl<'a> Preparation<'a> {
    fn of(spec: &'a WorkspaceSpec) -> Option<Self> {
        match (&spec.origin, &spec.brought.dirty) {
            (Some(origin), _) if origin.workspace != spec.id => {
                Some(Preparation::Branch(&origin.label))
            }
            // A snapshot of its own is complete.
            (Some(_), _) => None,
            (None, dirty) => dirty.as_ref().map(Preparation::Dirty),
        }
    }
}

/// Whether the workspace runs. A daemon may have launched it and died before it noted that. Without a
/// keeper this is one look at a lock.
async fn is_launched(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
) -> Result<bool, Fault> {
    let holder = observe::keeper_pid(dirs)
        .map_err(|error| disk_fault(error, format!("cannot look at the lock of {}", spec.id)))?;
    if holder.is_none() {
        return Ok(false);
    }
    let observation = observe::observe(&driver.layout, spec).await?;
    Ok(observation.observed.keeper == Keeper::Running)
}

/// Starts the processes. Returns what the keeper reported of itself, unless it has to be observed.
pub async fn launch(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
) -> Result<Option<Observation>, Fault> {
    protection::check(spec)?;
    let id = workspace_id(spec)?;
    let dirs = driver.layout.workspace(&id);
    if is_launched(driver, spec, &dirs).await? {
        return Ok(None);
    }
    refuse_full(driver, spec, &dirs).await?;
    environment::follow_spec(&dirs, spec)
        .map_err(|error| disk_fault(error, format!("cannot write for {id}")))?;
    sweep::sweep(&dirs, spec);
    if let Some(preparation) = Preparation::of(spec)
        && !dirs.prepared().exists()
    {
        start_keeper(driver, spec, &dirs, Protection::Off).await?;
        match preparation {
            Preparation::Dirty(dirty) => lay_out_dirty(&dirs, spec, dirty).await?,
            Preparation::Branch(earlier) => rename_branch(&dirs, earlier, &spec.label).await,
        }
        tokio::fs::write(dirs.prepared(), "")
            .await
            .map_err(|error| disk_fault(error, format!("cannot write for {id}")))?;
        if spec.protected_paths.is_empty() && spec.services.is_empty() {
            return Ok(None);
        }
        halt::halt(&driver.layout, &id).await?;
        files::exclude_again(&driver.layout, spec).await?;
    }
    if let Some(moving) = &spec.moving
        && !moving.is_there
    {
        start_keeper(driver, spec, &dirs, Protection::Off).await?;
        finish_switch(&dirs, spec, moving).await;
        halt::halt(&driver.layout, &id).await?;
    }
    let status = start_keeper(driver, spec, &dirs, Protection::On).await?;
    observe::launched(&driver.layout, spec, status)
}

/// Switches a tree that may be between two commits to the target of its move, before any other
/// program runs. The engine asks again afterwards and gets the error.
async fn finish_switch(dirs: &WorkspaceDirs, spec: &WorkspaceSpec, moving: &Move) {
    let request = switch::request(spec, moving, Protected::NotYet);
    let done = async {
        let mut stream = client(dirs).exec(request).await?;
        // It may have ended already.
        let _ = stream.input.send(ExecInput::StdinEof).await;
        while let Some(message) = stream.output.recv().await {
            match message {
                ExecOutput::Exit(code) => return Ok(code),
                ExecOutput::Failed(fault) => return Err(fault),
                _ => {}
            }
        }
        Err(start_fault(&spec.id, "the keeper went away"))
    };
    match done.await {
        Ok(0) => {}
        Ok(code) => tracing::warn!(id = %spec.id, code, "a tree could not be switched"),
        Err(fault) => tracing::warn!(id = %spec.id, %fault, "a tree could not be switched"),
    }
}

/// Explicit limits of `holm.toml` are enforced or refused, except for those that the user allows to
/// be missing.
fn required_and_forgone(spec: &WorkspaceSpec) -> (Vec<String>, Vec<String>) {
    let names = spec.limits.required.iter().cloned();
    let is_other = |part: &&String| *part == EGRESS || *part == LANDLOCK;
    let others = spec.allow_degraded.iter().filter(is_other);
    let (required, mut forgone): (Vec<_>, Vec<_>) =
        names.partition(|name| !spec.allow_degraded.contains(name));
    forgone.extend(others.cloned());
    (required, forgone)
}

/// A workspace that was stopped because of its disk use would only be stopped again.
async fn refuse_full(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
) -> Result<(), Fault> {
    let Some(limit) = spec.limits.disk_bytes else {
        return Ok(());
    };
    if observe::how_it_ended(dirs) != Some(Ended::DiskLimit) {
        return Ok(());
    }
    let what = |error| disk_fault(error, format!("cannot measure workspace {}", spec.id));
    let ids = users::of(dirs).map_err(what)?;
    let mut command = measure::command(driver.programs.roles(), &dirs.dir, ids.as_ref());
    let (id, dir) = (spec.id.clone(), dirs.dir.clone());
    try_blocking(move || {
        let measured = command
            .output()
            .and_then(|output| measure::understand(&output.stdout));
        let taken = measured
            .map_err(|error| disk_fault(error, format!("cannot measure workspace {id}")))?;
        if taken <= limit {
            return Ok(());
        }
        let (taken, limit) = (display_size(taken), display_size(limit));
        let dir = dir.display();
        Err(Fault::new(
            Code::DiskLimit,
            format!("workspace {id} takes {taken} of disk, and its limit is {limit}"),
            format!("remove something below {dir}/tmp, {dir}/home or {dir}/upper (its code)"),
        ))
    })
    .await
}

async fn start_keeper(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
    protection: Protection,
) -> Result<Status, Fault> {
    let sub_ids = users::decide(dirs, spec)?;
    let volumes = volume::mounts(driver, spec, dirs).await?;
    if !spec.secrets.is_empty() {
        // A workspace older than its first secret does not have the directory yet.
        std::fs::create_dir_all(dirs.guest().join("secrets"))
            .map_err(|error| disk_fault(error, format!("cannot write for {}", spec.id)))?;
    }
    let secret = guests::new_secret(dirs)
        .map_err(|error| disk_fault(error, format!("cannot write for {}", spec.id)))?;
    let guests = GuestDoor {
        socket: driver.layout.guests_socket(),
        secret,
    };
    let mut plan = plan(driver, spec, dirs, protection)?;
    plan.keeper.volumes = volumes;
    plan.sub_ids = sub_ids;
    // Services, and the rooms they run in, start only when the tree has the right content.
    if protection == Protection::On {
        plan.keeper.rooms = rooms::plan(driver, spec, dirs, plan.sub_ids).await?;
    }
    plan.keeper.guests = Some(guests);
    ca_certificates::prepare(&mut plan, dirs)
        .map_err(|error| disk_fault(error, format!("cannot write for {}", spec.id)))?;
    let answered = match &driver.starter {
        Some(starter) => start_elsewhere(starter.as_ref(), spec, &plan).await?,
        None => start_here(driver, &plan).await,
    };
    let cause = match answered {
        Ok(LaunchAnswer::Ready(status)) => {
            if driver.starter.is_none() {
                refill(driver);
            }
            return Ok(*status);
        }
        // The keeper has recorded the reason itself.
        Ok(LaunchAnswer::Failed(failure)) => return Err(explain(&spec.id, &failure)),
        Err(cause) => cause,
    };
    if matches!(observe::keeper_pid(dirs), Ok(None)) {
        // The failure to start matters more than recording it.
        let _ = holm_keeper::keeper::write_not_started(dirs, &cause.to_string());
    }
    Err(start_fault(&spec.id, cause))
}

/// Starts the keeper as a child of this process.
async fn start_here(driver: &LinuxDriver, plan: &LaunchPlan) -> Result<LaunchAnswer, Cause> {
    let started = async {
        let mut child = driver.spare.take(&driver.programs)?;
        // The plan contains values of secrets, which only the pipe and the keeper may have.
        let text = Zeroizing::new(serde_json::to_vec(plan)?);
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&text).await?;
        }
        let mut answer = Vec::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_end(&mut answer).await?;
        }
        // Reaps the keeper, which would otherwise stay a zombie while the daemon lives.
        tokio::spawn(async move { child.wait().await });
        io::Result::Ok(answer)
    };
    match tokio::time::timeout(PATIENCE, started).await {
        Ok(Ok(answer)) => {
            serde_json::from_slice(&answer).map_err(|_| "its keeper ended without a word".into())
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err("its keeper does not answer".into()),
    }
}

/// Has the starter start the keeper and the workspace. The outer error is the user's.
async fn start_elsewhere(
    starter: &dyn Starter,
    spec: &WorkspaceSpec,
    plan: &LaunchPlan,
) -> Result<Result<LaunchAnswer, Cause>, Fault> {
    let order = start_order(plan).map_err(|failure| explain(&spec.id, &failure))?;
    Ok(match starter.start(order).await {
        Ok(Started::Answered(answer)) => Ok(answer),
        Ok(Started::Failed(why)) => Err(why.into()),
        Err(error) => Err(error.into()),
    })
}

/// Starts the next spare keeper and makes the next places, a moment after the client was answered.
fn refill(driver: &LinuxDriver) {
    let (spare, programs) = (Arc::clone(&driver.spare), driver.programs.clone());
    let (places, layout) = (Arc::clone(&driver.places), Arc::clone(&driver.layout));
    tokio::spawn(async move {
        tokio::time::sleep(FIRST_COMMAND).await;
        tokio::task::spawn_blocking(move || {
            spare.refill(&programs);
            places.refill(&layout);
        });
    });
}

/// The id of the workspace stands in variables of its Dev Container.
fn services_with_id(spec: &WorkspaceSpec) -> Vec<Service> {
    let mut services = spec.services.clone();
    let Some(home) = &spec.dev_container else {
        return services;
    };
    let service = services.iter_mut().find(|it| it.name == home.service);
    let image = service.and_then(|service| service.image.as_mut());
    if let Some(container) = image.and_then(|image| image.container.as_mut()) {
        for (_, value) in &mut container.environment {
            *value = value.replace(dev_container::ID, &spec.id);
        }
    }
    services
}

fn plan(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
    protection: Protection,
) -> Result<LaunchPlan, Fault> {
    let project = project_id(spec)?;
    let visible = toolchains(spec);
    let (required, forgone) = required_and_forgone(spec);
    Ok(LaunchPlan {
        keeper: Plan {
            version: spoken_version(),
            id: spec.id.clone(),
            label: spec.label.clone(),
            root: spec.root.clone(),
            caches: cache::mounts(&driver.layout, spec, dirs).map_err(|error| {
                disk_fault(error, format!("cannot make the caches of {}", spec.id))
            })?,
            dir: dirs.dir.clone(),
            socket: dirs.socket.clone(),
            program: driver.programs.holm.clone(),
            helper: driver.programs.roles_inside(),
            environment: variables(spec, visible.path),
            env: spec.env.clone(),
            disk: spec.limits.disk_bytes,
            forgone,
            network: spec.network.clone(),
            surrounding: (driver.network)()?,
            // Not before the tree is what it should be.
            services: match protection {
                Protection::On => services_with_id(spec),
                Protection::Off => Vec::new(),
            },
            // Until there are services, only holm's own programs run.
            dev_container: match protection {
                Protection::On => spec.dev_container.clone().map(|it| it.with_id(&spec.id)),
                Protection::Off => None,
            },
            unbuilt: services::unbuilt(spec),
            secrets: match protection {
                Protection::On => driver.grants(spec)?,
                Protection::Off => Vec::new(),
            },
            audit: driver.layout.secrets(),
            machine: driver.machine.clone(),
            here: here::here(spec),
            without: driver.without.clone(),
            ..Plan::default()
        },
        programs: driver.programs.clone(),
        home: spec.home.clone(),
        layers: tree_layers(driver, &project, spec),
        home_layers: home_layers(driver, spec),
        objects: driver.layout.repository(&project).join("objects"),
        shown: visible.shown,
        protected: match protection {
            Protection::On => spec.protected_paths.clone(),
            Protection::Off => Vec::new(),
        },
        nested: spec.nested,
        limits: Limits {
            memory: spec.limits.memory_bytes,
            cpus: spec.limits.cpus,
            processes: Some(spec.limits.processes.unwrap_or(DEFAULT_PROCESSES)),
            // The daemon measures and enforces it.
            disk: None,
        },
        groups: driver.groups.clone().ok(),
        required,
        bundles: Vec::new(),
        siblings: siblings::shown(&driver.layout, &project, spec)
            .map_err(|error| disk_fault(error, format!("cannot show siblings to {}", spec.id)))?,
        // What the workspace was decided to have.
        sub_ids: None,
    })
}

/// The base covers the setup layer: tracked files always come from the commit.
fn tree_layers(driver: &LinuxDriver, project: &ProjectId, spec: &WorkspaceSpec) -> Vec<PathBuf> {
    let base = base::tree(&driver.layout, project, spec);
    let layers = spec.tree_layers();
    let layers = layers.map(|key| layer::directory(&driver.layout, &key).join("tree"));
    std::iter::once(base).chain(layers).collect()
}

fn home_layers(driver: &LinuxDriver, spec: &WorkspaceSpec) -> Vec<PathBuf> {
    let layers = spec.tree_layers();
    let homes = layers.map(|key| layer::directory(&driver.layout, &key).join("home"));
    homes.filter(|home| home.is_dir()).collect()
}

/// Renames the branch of a copy to its own label.
async fn rename_branch(dirs: &WorkspaceDirs, earlier: &str, label: &str) {
    let (earlier, branch) = (format!("holm/{earlier}"), format!("holm/{label}"));
    // The copy may be on another branch, which it keeps.
    let _ = git(dirs, &["branch", "-m", &earlier, &branch], Vec::new()).await;
}

/// Brings the tree and the index to the uncommitted state of the user's checkout, with git inside.
async fn lay_out_dirty(
    dirs: &WorkspaceDirs,
    spec: &WorkspaceSpec,
    dirty: &Dirty,
) -> Result<(), Fault> {
    let kept = dirs.dirty_pack();
    let pack = if kept.exists() {
        kept
    } else {
        dirty.pack.clone()
    };
    let pack = tokio::fs::read(pack)
        .await
        .map_err(|error| disk_fault(error, "cannot read the uncommitted state".to_owned()))?;
    if !pack.is_empty() {
        git(dirs, &["index-pack", "--stdin", "--fix-thin"], pack).await?;
    }
    // Included files exist already. The uncommitted state has the same or newer versions.
    let mut check_out = vec!["read-tree", "--reset", "-u"];
    check_out.extend(spec.code.commit.as_deref());
    check_out.push(&dirty.worktree_tree);
    git(dirs, &check_out, Vec::new()).await?;
    // Unchanged entries keep their cached stat information.
    git(dirs, &["read-tree", "-m", &dirty.index_tree], Vec::new()).await?;
    if dirty.intended.is_empty() {
        return Ok(());
    }
    let paths = dirty
        .intended
        .iter()
        .map(|path| format!(":(literal){path}\0"));
    let add = [
        "add",
        "--intent-to-add",
        "--force",
        "--pathspec-from-file=-",
        "--pathspec-file-nul",
    ];
    git(dirs, &add, paths.collect::<String>().into_bytes()).await
}

async fn git(dirs: &WorkspaceDirs, arguments: &[&str], input: Vec<u8>) -> Result<(), Fault> {
    let argv = ["git"]
        .iter()
        .chain(arguments)
        .map(|text| text.as_bytes().to_vec())
        .collect();
    let mut stream = client(dirs)
        .exec(ExecRequest {
            argv,
            quiet_ms: Some(inside::quiet_transfer().as_millis() as u64),
            ..ExecRequest::default()
        })
        .await?;
    let sender = stream.input.clone();
    tokio::spawn(async move {
        for chunk in input.chunks(64 * 1024) {
            // It may have ended early; its exit code says why.
            let _ = sender.send(ExecInput::Stdin(chunk.to_vec())).await;
        }
        let _ = sender.send(ExecInput::StdinEof).await;
    });
    let mut said = Vec::new();
    while let Some(message) = stream.output.recv().await {
        match message {
            ExecOutput::Exit(0) => return Ok(()),
            ExecOutput::Exit(inside::TIMED_OUT) => return Err(inside::timed_out(arguments[0])),
            ExecOutput::Exit(code) => {
                let said = String::from_utf8_lossy(&said).trim().to_owned();
                let message = format!("git {} ended with {code}: {said}", arguments[0]);
                return Err(Fault::new(
                    Code::GitFailed,
                    message,
                    "try without `--dirty`",
                ));
            }
            ExecOutput::Failed(fault) => return Err(fault),
            ExecOutput::Stderr(bytes) if said.len() < 4096 => said.extend(bytes),
            _ => {}
        }
    }
    Err(start_fault("", "the keeper went away"))
}

fn start_fault(id: &str, cause: impl Into<Cause>) -> Fault {
    let message = format!("workspace {id} could not be started");
    let hint = "`holm doctor` looks at what it needs";
    Fault::new(Code::StartFailed, message, hint).because(cause)
}

/// Explains a failed launch step to the user.
fn explain(id: &str, failure: &LaunchFailure) -> Fault {
    let LaunchFailure {
        part, step, cause, ..
    } = failure;
    let missing = |what: &str| {
        let message = format!("{what} is not available on this machine: cannot {step}");
        Fault::new(
            Code::IsolationMissing,
            message,
            "`holm doctor` says how to get it",
        )
        .because(cause.as_str())
    };
    match part {
        Part::Limit => Fault::new(
            Code::LimitUnavailable,
            format!("limits.{step} of holm.toml cannot be enforced here"),
            format!(
                "`holm up --allow-degraded={step}` goes on without it; to get it, {}",
                cgroup::advice()
            ),
        )
        .because(cause.as_str()),
        Part::User => missing("a user namespace"),
        Part::Network => missing("a network namespace"),
        Part::Egress => Fault::new(
            Code::IsolationMissing,
            format!("the gateway is not available on this machine: cannot {step}"),
            "`holm doctor` says how to get it; `--allow-degraded=egress` goes on with no way out",
        )
        .because(cause.as_str()),
        Part::Overlay => missing("overlayfs in a user namespace"),
        Part::Proc => missing("a fresh /proc"),
        Part::Seccomp => missing("seccomp"),
        Part::NoNewPrivileges => missing("no_new_privs"),
        Part::ProtectedPath => Fault::new(
            Code::ProtectedPath,
            format!("cannot {step}"),
            "name the real path in `protected_paths` of holm.toml",
        )
        .because(cause.as_str()),
        Part::VolumeTaken => Fault::new(
            Code::VolumeTaken,
            format!("workspace {cause} runs with the volume {step}, which one may have at a time"),
            format!("`holm stop {cause}` gives it back"),
        ),
        Part::Volume => start_fault(id, format!("cannot mount the volume {step}: {cause}")),
        Part::Secrets => Fault::new(
            Code::IsolationMissing,
            format!("cannot {step}"),
            "`holm doctor` says how to get it (`nested = true` goes without it); \
             `--allow-degraded=landlock` goes on, and every program inside can read them",
        )
        .because(cause.as_str()),
        Part::Mount | Part::Other => start_fault(id, format!("cannot {step}: {cause}")),
    }
}
