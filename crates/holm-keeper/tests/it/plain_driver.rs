//! A driver without isolation: workspaces are plain processes in a directory, by the program in `tests/plain`. It has
//! what the engine asks of every driver and nothing that only namespaces give, and exists to prove that such a driver
//! can be written.

use async_trait::async_trait;
use holm_core::admission::Machine;
use holm_core::config::DriverName;
use holm_core::disk::{DiskUsage, WorkspaceUsage};
use holm_core::fitness::Check;
use holm_core::head::Tip;
use holm_core::isolation::Isolation;
use holm_core::layer::{Layer, LayerKey};
use holm_core::numbers::{Load, Usage};
use holm_core::plan::{Action, Base, Files, Keeper, Observed};
use holm_core::spec::WorkspaceSpec;
use holm_core::trash::BaseKey;
use holm_core::{Code, Fault, ProjectId, WorkspaceId};
use holm_engine::driver::{Driver, Journaled, Observation, Since, Traces};
use holm_engine::progress::Progress;
use holm_engine::storage::{
    BroughtTree, Discard, Discarded, Known, Measure, SiblingTree, Storage, Survey,
};
use holm_keeper::client::{Connect, Connecting, KeeperClient, Stream};
use holm_keeper::plan::{LaunchAnswer, Plan};
use holm_keeper::wire::VERSION;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tokio::net::TcpStream;

/// Longer than a keeper takes to end on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

pub struct PlainDriver {
    place: PathBuf,
    keepers: Mutex<HashMap<String, Child>>,
}

/// The file with the port of a keeper's bridge.
struct Tcp(PathBuf);

impl Connect for Tcp {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let port = fs::read_to_string(&self.0)?;
            let port: u16 = port.parse().map_err(io::Error::other)?;
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
            Ok(Stream::Tcp(stream))
        })
    }

    /// The keeper reads them: its files are not on the client's machine.
    fn connect_to_records(&self) -> Connecting<'_> {
        self.connect()
    }
}

/// The example `plain`, which is built with the tests.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap().parent().unwrap();
    let program = built.join("examples/plain");
    assert!(program.exists(), "{} is not built", program.display());
    program
}

/// The plan of a workspace whose code is in `root` of its directory.
pub fn plan(directory: &Path) -> Plan {
    Plan {
        version: VERSION,
        id: "plain".to_owned(),
        label: "plain".to_owned(),
        root: directory.join("root"),
        dir: directory.to_owned(),
        socket: directory.join("control.sock"),
        program: program(),
        helper: program(),
        audit: directory.to_owned(),
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        ..Plan::default()
    }
}

/// Starts a keeper, and returns when its workspace runs.
pub fn start(plan: &Plan) -> Child {
    fs::create_dir_all(plan.dir.join("guest")).unwrap();
    fs::create_dir_all(&plan.root).unwrap();
    let log = File::create(plan.dir.join("keeper.log")).unwrap();
    let mut keeper = Command::new(&plan.program)
        .arg("keeper")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut stdin = keeper.stdin.take().unwrap();
    stdin.write_all(&serde_json::to_vec(plan).unwrap()).unwrap();
    drop(stdin);
    let mut answer = Vec::new();
    let mut stdout = keeper.stdout.take().unwrap();
    stdout.read_to_end(&mut answer).unwrap();
    let answer: LaunchAnswer = serde_json::from_slice(&answer).unwrap();
    assert!(matches!(answer, LaunchAnswer::Ready(_)), "{answer:?}");
    keeper
}

fn fault(error: io::Error) -> Fault {
    Fault::new(Code::Internal, error.to_string(), "none")
}

/// Renames a directory; `false`: it is not there.
fn rename(from: &Path, to: &Path) -> Result<bool, Fault> {
    fs::create_dir_all(to.parent().unwrap()).map_err(fault)?;
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(fault(error)),
    }
}

/// Deletes a directory if it is there.
fn remove(directory: &Path) -> Result<(), Fault> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fault(error)),
        _ => Ok(()),
    }
}

fn unsupported<T>() -> Result<T, Fault> {
    let message = "plain processes do not have this";
    Err(Fault::new(Code::DriverUnavailable, message, "none"))
}

/// The names in a directory; none if it is not there.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

// === impl PlainDriver ===

impl PlainDriver {
    pub fn new(place: &Path) -> Self {
        Self {
            place: place.to_owned(),
            keepers: Mutex::default(),
        }
    }

    /// Where a workspace's code is; the same inside and outside.
    pub fn root(&self, id: &str) -> PathBuf {
        self.workspace(id).join("root")
    }

    fn workspace(&self, id: &str) -> PathBuf {
        self.place.join("workspaces").join(id)
    }

    fn trash(&self, id: &str) -> PathBuf {
        self.place.join("trash").join(id)
    }

    fn base(&self, base: &BaseKey) -> PathBuf {
        let commit = base.commit.as_deref().unwrap_or("empty");
        self.place.join("bases").join(&base.project).join(commit)
    }

    fn launch(&self, spec: &WorkspaceSpec) {
        let mut keepers = self.keepers.lock().unwrap();
        if keepers.contains_key(&spec.id) {
            return;
        }
        let keeper = start(&Plan {
            id: spec.id.clone(),
            label: spec.label.clone(),
            services: spec.services.clone(),
            ..plan(&self.workspace(&spec.id))
        });
        keepers.insert(spec.id.clone(), keeper);
    }

    async fn halt(&self, id: &str) -> Result<(), Fault> {
        let Some(mut keeper) = self.keepers.lock().unwrap().remove(id) else {
            return Ok(());
        };
        let client = self.keeper(&WorkspaceId::parse(id).unwrap());
        // A keeper that was asked before is gone or about to be.
        let _ = client.stop(Duration::from_secs(5), LIMIT).await;
        let ended = tokio::task::spawn_blocking(move || keeper.wait());
        let status = ended.await.unwrap().map_err(fault)?;
        assert!(status.success(), "it was asked to stop: {status}");
        Ok(())
    }

    fn is_running(&self, id: &str) -> bool {
        let mut keepers = self.keepers.lock().unwrap();
        let keeper = keepers.get_mut(id);
        keeper.is_some_and(|keeper| keeper.try_wait().unwrap().is_none())
    }
}

/// Keepers of a test that failed.
impl Drop for PlainDriver {
    fn drop(&mut self) {
        for keeper in self.keepers.get_mut().unwrap().values_mut() {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
    }
}

#[async_trait]
impl Driver for PlainDriver {
    /// No name is reserved for a driver of tests.
    fn name(&self) -> DriverName {
        DriverName::Linux
    }

    async fn probe(&self) -> Result<Vec<Check>, Fault> {
        Ok(Vec::new())
    }

    fn keeper(&self, id: &WorkspaceId) -> KeeperClient {
        KeeperClient::new(Tcp(self.workspace(id.as_str()).join("port")))
    }

    fn check(&self, _: &WorkspaceSpec) -> Result<(), Fault> {
        Ok(())
    }

    async fn observe(&self, spec: &WorkspaceSpec) -> Result<Observation, Fault> {
        let has_base = spec.base_keys().all(|base| self.base(&base).exists());
        let is_running = self.is_running(&spec.id);
        Ok(Observation {
            observed: Observed {
                base: if has_base {
                    Base::Present
                } else {
                    Base::Absent
                },
                files: match self.root(&spec.id).exists() {
                    true => Files::Complete,
                    false if self.trash(&spec.id).exists() => Files::SetAside,
                    false => Files::Absent,
                },
                keeper: if is_running {
                    Keeper::Running
                } else {
                    Keeper::Absent
                },
            },
            isolation: is_running.then(Isolation::default),
            reason: None,
            commands: 0,
            services: Vec::new(),
            carried: None,
            tip: Tip::default(),
        })
    }

    fn tip(&self, _: &WorkspaceId) -> Tip {
        Tip::default()
    }

    fn processor_time(&self, _: &WorkspaceId) -> Option<Duration> {
        None
    }

    async fn apply(&self, journaled: Journaled, _: Progress) -> Result<Option<Observation>, Fault> {
        let spec = journaled.spec();
        let (live, trashed) = (self.workspace(&spec.id), self.trash(&spec.id));
        match journaled.action() {
            // Code is not what this driver is about: its trees are empty.
            Action::BuildBase => {
                let mut bases = spec.base_keys().map(|base| self.base(&base));
                bases.try_for_each(fs::create_dir_all).map_err(fault)?;
            }
            Action::MakeFiles => fs::create_dir_all(self.root(&spec.id)).map_err(fault)?,
            Action::Launch => self.launch(spec),
            Action::Halt => self.halt(&spec.id).await?,
            Action::SetAside => {
                rename(&live, &trashed)?;
            }
            Action::TakeBack => {
                rename(&trashed, &live)?;
            }
            Action::BuildLayer
            | Action::TakeSnapshot
            | Action::RemakeFiles
            | Action::RenewVolumes
            | Action::Switch
            | Action::SetUp
            | Action::React => return unsupported(),
        }
        Ok(None)
    }

    async fn usage(&self, ids: &[WorkspaceId]) -> Result<Vec<Option<Usage>>, Fault> {
        // The keeper and init.
        let usage = Usage {
            total: Load {
                processes: 2,
                ..Load::default()
            },
            ..Usage::default()
        };
        let of = |id: &WorkspaceId| self.is_running(id.as_str()).then(|| usage.clone());
        Ok(ids.iter().map(of).collect())
    }

    async fn traces(&self, _: &WorkspaceSpec, _: Since) -> Result<Traces, Fault> {
        Ok(Traces::default())
    }

    /// It has no volumes.
    async fn volume_digests(
        &self,
        _: &WorkspaceSpec,
    ) -> Result<BTreeMap<String, Option<String>>, Fault> {
        Ok(BTreeMap::new())
    }

    async fn undo(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        self.halt(&spec.id).await?;
        remove(&self.workspace(&spec.id))
    }
}

#[async_trait]
impl Storage for PlainDriver {
    async fn layer(&self, _: &LayerKey) -> Result<Option<Layer>, Fault> {
        Ok(None)
    }

    async fn keep_tree(&self, _: BroughtTree) -> Result<(), Fault> {
        unsupported()
    }

    async fn show_tree(&self, _: SiblingTree) -> Result<(), Fault> {
        unsupported()
    }

    async fn show_only(&self, _: HashMap<ProjectId, HashSet<WorkspaceId>>) -> Result<(), Fault> {
        Ok(())
    }

    async fn room(&self) -> Result<Machine, Fault> {
        let disk = rustix::fs::statvfs(&self.place).map_err(|error| fault(error.into()))?;
        Ok(Machine {
            memory: 1 << 30,
            disk: disk.f_blocks * disk.f_frsize,
            free_disk: disk.f_bavail * disk.f_frsize,
        })
    }

    async fn measure(&self, _: Measure) -> Result<DiskUsage, Fault> {
        let ids = |directory: &str| {
            let names = names(&self.place.join(directory)).into_iter();
            names.map(|name| WorkspaceId::parse(&name).unwrap())
        };
        Ok(DiskUsage {
            workspaces: ids("workspaces")
                .map(|id| (id, WorkspaceUsage::default()))
                .collect(),
            trash: ids("trash").map(|id| (id, 0)).collect(),
            ..DiskUsage::default()
        })
    }

    async fn survey(&self, known: Known) -> Result<Survey, Fault> {
        let bases = known.projects.iter().flat_map(|project| {
            let commits = names(&self.place.join("bases").join(project.as_str()));
            commits.into_iter().map(|commit| BaseKey {
                project: project.to_string(),
                commit: Some(commit),
            })
        });
        Ok(Survey {
            bases: bases.map(|base| (base, Duration::ZERO)).collect(),
            ..Survey::default()
        })
    }

    async fn discard(&self, what: Discard) -> Result<Option<Discarded>, Fault> {
        let (from, name) = match &what {
            Discard::Workspace(id) => (self.trash(id.as_str()), id.to_string()),
            Discard::Base(base) => (self.base(base), format!("base-{}", base.project)),
            Discard::Layer(_) | Discard::Project(_) | Discard::Leftover(_) => return unsupported(),
        };
        let is_there = rename(&from, &self.place.join("discarded").join(&name))?;
        Ok(is_there.then(|| Discarded::new(name)))
    }

    async fn discarded(&self) -> Result<Vec<Discarded>, Fault> {
        let names = names(&self.place.join("discarded")).into_iter();
        Ok(names.map(Discarded::new).collect())
    }

    async fn delete(&self, discarded: Discarded, _: Progress) -> Result<u64, Fault> {
        remove(&self.place.join("discarded").join(discarded.name()))?;
        Ok(0)
    }
}
