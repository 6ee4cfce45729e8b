//! The fake driver's world, which outlives engines as a machine outlives daemons, and an island of
//! it for one test.

use crate::fake_keeper::FakeKeeper;
use async_trait::async_trait;
use holm_core::admission::Machine;
use holm_core::config::DriverName;
use holm_core::disk::{DiskUsage, WorkspaceUsage};
use holm_core::fitness::Check;
use holm_core::head::Tip;
use holm_core::isolation::Isolation;
use holm_core::layer::{Layer, LayerKey};
use holm_core::numbers::Usage;
use holm_core::plan::{Action, Base, Files, Keeper, Observed};
use holm_core::service::Wish;
use holm_core::spec::{Purpose, WorkspaceSpec};
use holm_core::state::Ended;
use holm_core::trash::BaseKey;
use holm_core::{Code, Fault, Label, ProjectId, WorkspaceId};
use holm_engine::clock::Clock;
use holm_engine::conformance;
use holm_engine::driver::{Driver, Drivers, Journaled, Observation, Since, Traces};
use holm_engine::progress::Progress;
use holm_engine::storage::{
    BroughtTree, Discard, Discarded, Known, Measure, SiblingTree, Storage, Survey,
};
use holm_engine::store::ProjectRecord;
use holm_engine::{
    Admission, Created, EarlierPlace, Engine, FailedSetup, NewWorkspace, Progress as Told,
    Repository, Reuse, View,
};
use holm_keeper::client::KeeperClient;
use holm_store::SqliteStore;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// When, around an action, something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Fail,
    /// Never return: the daemon dies here.
    Hang,
    /// Goes on after [`World::end_trouble`].
    Wait,
}

#[derive(Default)]
pub struct State {
    pub bases: HashSet<(String, Option<String>)>,
    pub layers: HashSet<LayerKey>,
    /// The commits that layers were made of, in order.
    pub made_of: Vec<Option<String>>,
    pub snapshots: HashSet<String>,
    /// Which beginning of a workspace its files are of; none: the first.
    pub generations: HashMap<String, u64>,
    pub files: HashMap<String, Files>,
    pub keepers: HashMap<String, Keeper>,
    pub trash: HashMap<String, Files>,
    /// Renamed away and not deleted yet.
    pub discarded: Vec<String>,
    pub deletions_fail: bool,
    /// Running commands.
    pub commands: HashMap<String, usize>,
    pub labels: HashMap<String, String>,
    /// Requests for services.
    pub wishes: Vec<(String, String, Wish)>,
    pub applied: Vec<Action>,
    pub undone: usize,
    /// How often the machine was rebooted.
    pub has_rebooted: bool,
    pub trouble: Option<(Action, When, Wrong)>,
    /// Actions may be repeated. The engine repeats only what was not done, so its tests say no.
    pub may_repeat: bool,
    pub undos_fail: bool,
    /// What git says inside, by subcommand: output and exit code.
    pub git: HashMap<String, (Vec<u8>, u8)>,
    pub git_hangs: bool,
    pub executed: Vec<Vec<Vec<u8>>>,
    /// How often the driver looked at a workspace.
    pub looks: usize,
    pub watches: Watches,
    /// How often keepers were asked on a watch.
    pub questions: usize,
    /// How often keepers or records were asked on a connection of their own.
    pub requests: usize,
    /// HEAD of every workspace, and how often it was read.
    pub head: Option<String>,
    pub tips_read: usize,
    /// Of every workspace.
    pub processor_time: Option<Duration>,
}

/// What keepers do with clients that watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watches {
    /// Like the keepers of an earlier release.
    #[default]
    Refuse,
    Answer,
    /// They tell once and answer no question.
    Mute,
}

#[derive(Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
    /// Counts arrivals at the trouble.
    pub reached: Arc<watch::Sender<usize>>,
}

pub struct FakeDriver(pub World);

/// A world, a store and a project for one test.
pub struct Island {
    pub world: World,
    pub directory: tempfile::TempDir,
}

// === impl World ===

impl World {
    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    pub fn set_trouble(&self, action: Action, when: When, wrong: Wrong) {
        self.with(|state| state.trouble = Some((action, when, wrong)));
    }

    /// Waits until the trouble was met.
    pub async fn trouble_met(&self) {
        let mut reached = self.reached.subscribe();
        let met = reached.wait_for(|count| *count > 0);
        tokio::time::timeout(LIMIT, met).await.unwrap().unwrap();
    }

    pub fn end_trouble(&self) {
        self.with(|state| state.trouble = None);
        self.reached.send_modify(|_| {});
    }

    /// Nothing of any workspace is left, but for bases and the trash.
    pub fn assert_empty(&self) {
        self.with(|state| {
            assert!(state.files.is_empty(), "{:?}", state.files);
            assert!(state.keepers.is_empty(), "{:?}", state.keepers);
        });
    }

    async fn meet(&self, action: Action, when: When) -> Result<(), Fault> {
        let trouble = self.with(|state| state.trouble);
        match trouble {
            Some((at, moment, wrong)) if (at, moment) == (action, when) => {
                self.reached.send_modify(|count| *count += 1);
                match wrong {
                    Wrong::Fail => Err(Fault::new(Code::StartFailed, "made to fail", "none")),
                    Wrong::Hang => std::future::pending().await,
                    Wrong::Wait => {
                        let mut reached = self.reached.subscribe();
                        let ended =
                            reached.wait_for(|_| self.with(|state| state.trouble.is_none()));
                        tokio::time::timeout(LIMIT, ended).await.unwrap().unwrap();
                        Ok(())
                    }
                }
            }
            _ => Ok(()),
        }
    }
}

pub const LIMIT: Duration = Duration::from_secs(60);

// === impl FakeDriver ===

#[async_trait]
impl Driver for FakeDriver {
    fn name(&self) -> DriverName {
        DriverName::Linux
    }

    fn keeper(&self, id: &WorkspaceId) -> KeeperClient {
        KeeperClient::new(FakeKeeper {
            world: self.0.clone(),
            id: id.clone(),
        })
    }

    async fn observe(&self, spec: &WorkspaceSpec) -> Result<Observation, Fault> {
        tokio::task::yield_now().await;
        Ok(self.0.with(|state| {
            state.looks += 1;
            let keeper = state.keepers.get(&spec.id).copied();
            let keeper = keeper.unwrap_or(Keeper::Absent);
            let base = (spec.project_id.clone(), spec.code.commit.clone());
            Observation {
                carried: None,
                tip: Tip::default(),
                observed: Observed {
                    base: if state.bases.contains(&base) {
                        Base::Present
                    } else {
                        Base::Absent
                    },
                    files: match state.files.get(&spec.id) {
                        Some(Files::Complete)
                            if state.generations.get(&spec.id).unwrap_or(&0)
                                != &spec.generation =>
                        {
                            Files::Outdated
                        }
                        Some(files) => *files,
                        None if state.trash.contains_key(&spec.id) => Files::SetAside,
                        None => Files::Absent,
                    },
                    keeper,
                },
                isolation: (keeper == Keeper::Running).then(|| Isolation {
                    user: true,
                    ..Isolation::default()
                }),
                reason: state.has_rebooted.then_some(Ended::Reboot),
                services: Vec::new(),
                commands: *state.commands.get(&spec.id).unwrap_or(&0),
            }
        }))
    }

    fn tip(&self, _: &WorkspaceId) -> Tip {
        self.0.with(|state| {
            state.tips_read += 1;
            Tip {
                head: state.head.clone(),
                branch: None,
            }
        })
    }

    fn processor_time(&self, _: &WorkspaceId) -> Option<Duration> {
        self.0.with(|state| state.processor_time)
    }

    async fn apply(
        &self,
        journaled: Journaled,
        progress: Progress,
    ) -> Result<Option<Observation>, Fault> {
        let action = journaled.action();
        let id = journaled.spec().id.clone();
        self.0.meet(action, When::Before).await?;
        progress.report(action.as_str(), 0, 1);
        self.0.with(|state| {
            state.applied.push(action);
            match action {
                Action::BuildBase => {
                    let spec = journaled.spec();
                    let base = (spec.project_id.clone(), spec.code.commit.clone());
                    assert!(
                        state.bases.insert(base) || state.may_repeat,
                        "a base was built twice"
                    );
                }
                Action::MakeFiles => {
                    let is_there = state.files.get(&id) == Some(&Files::Complete);
                    assert!(!is_there || state.may_repeat, "work is lost");
                    state.files.insert(id, Files::Complete);
                }
                Action::Launch => {
                    assert_eq!(state.files.get(&id), Some(&Files::Complete));
                    let before = state.keepers.insert(id, Keeper::Running);
                    assert!(before.is_none() || state.may_repeat);
                }
                Action::Halt => {
                    state.keepers.remove(&id);
                }
                Action::BuildLayer => {
                    let spec = journaled.spec();
                    let key = match &spec.purpose {
                        Purpose::Setup(setup) => &setup.key,
                        Purpose::Seed(seed) => &seed.key,
                        Purpose::Work | Purpose::Check(_) => {
                            panic!("a layer of a workspace that is not for one")
                        }
                    };
                    assert_eq!(state.keepers.remove(&id), Some(Keeper::Running));
                    let layer = LayerKey {
                        project: spec.project_id.clone(),
                        key: key.clone(),
                    };
                    assert!(state.layers.insert(layer), "a layer was made twice");
                    state.made_of.push(spec.code.commit.clone());
                }
                Action::TakeSnapshot => {
                    let snapshot = journaled.spec().snapshots.last();
                    let snapshot = snapshot.expect("a snapshot").key.clone();
                    assert!(state.snapshots.insert(snapshot));
                }
                Action::RemakeFiles => {
                    assert!(!state.keepers.contains_key(&id), "made while it runs");
                    state
                        .generations
                        .insert(id.clone(), journaled.spec().generation);
                    state.files.insert(id, Files::Complete);
                }
                Action::RenewVolumes => {
                    state.keepers.insert(id, Keeper::Running);
                }
                Action::SetAside => {
                    assert!(!state.keepers.contains_key(&id), "set aside while it runs");
                    if let Some(files) = state.files.remove(&id) {
                        assert_eq!(state.trash.insert(id, files), None);
                    }
                }
                Action::Switch | Action::SetUp | Action::React => {}
                Action::TakeBack => {
                    if let Some(files) = state.trash.remove(&id) {
                        assert_eq!(state.files.insert(id, files), None);
                    }
                }
            }
        });
        self.0.meet(action, When::After).await?;
        Ok(None)
    }

    async fn probe(&self) -> Result<Vec<Check>, Fault> {
        Ok(Vec::new())
    }

    fn check(&self, _: &WorkspaceSpec) -> Result<(), Fault> {
        Ok(())
    }

    async fn usage(&self, ids: &[WorkspaceId]) -> Result<Vec<Option<Usage>>, Fault> {
        let mut usage = Usage::default();
        usage.total.processes = 1;
        let runs = |id: &WorkspaceId| self.0.with(|state| state.keepers.contains_key(id.as_str()));
        Ok(ids
            .iter()
            .map(|id| runs(id).then(|| usage.clone()))
            .collect())
    }

    async fn traces(&self, _: &WorkspaceSpec, _: Since) -> Result<Traces, Fault> {
        Ok(Traces::default())
    }

    async fn volume_digests(
        &self,
        _: &WorkspaceSpec,
    ) -> Result<BTreeMap<String, Option<String>>, Fault> {
        Ok(BTreeMap::new())
    }

    async fn undo(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        self.0.with(|state| {
            if state.undos_fail {
                return Err(Fault::new(Code::Internal, "made to fail", "none"));
            }
            state.undone += 1;
            state.keepers.remove(&spec.id);
            state.files.remove(&spec.id);
            Ok(())
        })
    }
}

#[async_trait]
impl Storage for FakeDriver {
    async fn layer(&self, key: &LayerKey) -> Result<Option<Layer>, Fault> {
        let is_there = self.0.with(|state| state.layers.contains(key));
        Ok(is_there.then(Layer::default))
    }

    async fn keep_tree(&self, tree: BroughtTree) -> Result<(), Fault> {
        self.0.with(|state| state.layers.insert(tree.layer));
        Ok(())
    }

    async fn show_tree(&self, _: SiblingTree) -> Result<(), Fault> {
        Ok(())
    }

    async fn show_only(&self, _: HashMap<ProjectId, HashSet<WorkspaceId>>) -> Result<(), Fault> {
        Ok(())
    }

    async fn room(&self) -> Result<Machine, Fault> {
        Ok(Machine {
            memory: 1 << 30,
            disk: 1 << 30,
            free_disk: 1 << 29,
        })
    }

    async fn measure(&self, _: Measure) -> Result<DiskUsage, Fault> {
        let known = |id: &String| WorkspaceId::parse(id).unwrap();
        Ok(self.0.with(|state| {
            let workspaces = state.files.keys().map(known);
            DiskUsage {
                workspaces: workspaces
                    .map(|id| (id, WorkspaceUsage::default()))
                    .collect(),
                trash: state.trash.keys().map(|id| (known(id), 1)).collect(),
                ..DiskUsage::default()
            }
        }))
    }

    async fn survey(&self, _: Known) -> Result<Survey, Fault> {
        let bases = self.0.with(|state| {
            let bases = state.bases.iter().map(|(project, commit)| BaseKey {
                project: project.clone(),
                commit: commit.clone(),
            });
            bases.map(|base| (base, Duration::ZERO)).collect()
        });
        let layers = self.0.with(|state| {
            let layers = state.layers.iter().cloned();
            layers.map(|layer| (layer, Duration::ZERO)).collect()
        });
        Ok(Survey {
            bases,
            layers,
            ..Survey::default()
        })
    }

    async fn discard(&self, what: Discard) -> Result<Option<Discarded>, Fault> {
        Ok(self.0.with(|state| {
            let name = match what {
                Discard::Workspace(id) => {
                    state.trash.remove(id.as_str())?;
                    id.to_string()
                }
                Discard::Base(base) => {
                    let is_there = state.bases.remove(&(base.project.clone(), base.commit));
                    is_there.then_some(())?;
                    format!("base-{}", base.project)
                }
                Discard::Layer(layer) => {
                    assert!(state.layers.remove(&layer));
                    format!("layer-{}", layer.key)
                }
                Discard::Project(id) => format!("project-{id}"),
                Discard::Leftover(leftover) => leftover.name,
            };
            state.discarded.push(name.clone());
            Some(Discarded::new(name))
        }))
    }

    async fn discarded(&self) -> Result<Vec<Discarded>, Fault> {
        let names = self.0.with(|state| state.discarded.clone());
        Ok(names.into_iter().map(Discarded::new).collect())
    }

    async fn delete(&self, discarded: Discarded, _: Progress) -> Result<u64, Fault> {
        self.0.with(|state| {
            if state.deletions_fail {
                return Err(Fault::new(Code::ReadOnly, "made to fail", "none"));
            }
            state.discarded.retain(|name| name != discarded.name());
            Ok(10)
        })
    }
}

// === impl Island ===

impl Island {
    pub fn new() -> Self {
        Self {
            world: World {
                state: Arc::default(),
                reached: Arc::new(watch::channel(0).0),
            },
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// A daemon's engine. There may be another after it.
    pub fn engine(&self) -> Engine {
        let store = SqliteStore::open(&self.directory.path().join("holm.db")).unwrap();
        // The user's repository has everything that begins with 1.
        let missing = |_: &ProjectId, objects: &[String]| {
            let missing = objects.iter().filter(|object| !object.starts_with('1'));
            Ok(missing.cloned().collect())
        };
        let clock = Clock::open(&store, Duration::from_secs(7 * 86_400)).unwrap();
        let driver: Arc<dyn Driver> = Arc::new(FakeDriver(self.world.clone()));
        Engine::new(
            Drivers::of([driver]),
            Arc::new(store),
            Arc::new(missing),
            clock,
        )
    }
}

pub fn repository(name: &str, inode: u64) -> Repository {
    Repository {
        id: None,
        wish: Some(name.to_owned()),
        path: format!("/src/{name}"),
        git_dir: format!("/src/{name}/.git"),
        device: 1,
        inode,
        object_format: "sha1".to_owned(),
        earlier_place: EarlierPlace::NotLookedAt,
    }
}

pub async fn project(engine: &Engine) -> ProjectRecord {
    engine.sync_project(repository("shop", 1)).await.unwrap().0
}

pub fn new(project: &ProjectRecord, label: Option<&str>) -> NewWorkspace {
    NewWorkspace {
        project_id: project.id.clone(),
        label: label.map(|label| Label::parse(label).unwrap()),
        reuse: Reuse::Return,
        owner: "me".to_owned(),
        admission: Admission::Force,
        failed_setup: FailedSetup::Undo,
        turn: None,
        spec: WorkspaceSpec {
            version: holm_core::spec::Version,
            id: String::new(),
            label: String::new(),
            ..conformance::spec(&WorkspaceId::random(), &project.id, &"1".repeat(40))
        },
    }
}

pub async fn create(engine: &Engine, new: NewWorkspace) -> Result<Created, Fault> {
    engine.create(new, Told::default(), |_| {}).await
}

/// Makes a workspace that has to be new.
pub async fn made(engine: &Engine, project: &ProjectRecord, label: &str) -> View {
    match create(engine, new(project, Some(label))).await.unwrap() {
        Created::New(view) => view,
        Created::Existing(view) => panic!("{} was there", view.record.label),
    }
}

/// Waits for what happens behind the scenes.
pub async fn eventually<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.unwrap();
}
