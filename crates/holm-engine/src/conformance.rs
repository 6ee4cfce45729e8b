//! What every driver has to do, as one suite of checks. The tests of each driver call [`check`], so
//! this is compiled only with the feature `testing`.
//!
//! Each action is done twice, because a daemon that died repeats what it does not know to be done.

use crate::driver::{Driver, Journaled, Observation};
use crate::progress::Progress;
use crate::storage::{Discard, Known, Measure};
use holm_core::config::DriverName;
use holm_core::layer::LayerKey;
use holm_core::plan::{Action, Base, Files, Keeper};
use holm_core::spec::{
    Brought, Code, Environment, Layers, Network, Purpose, Siblings, SpecLimits, WorkspaceSpec,
};
use holm_core::{Fault, ProjectId, WorkspaceId};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

/// The actions that make a workspace, in order.
const MAKING: [Action; 3] = [Action::BuildBase, Action::MakeFiles, Action::Launch];

/// A workspace that asks for nothing beyond its code.
pub fn spec(id: &WorkspaceId, project: &ProjectId, commit: &str) -> WorkspaceSpec {
    WorkspaceSpec {
        version: holm_core::spec::Version,
        id: id.to_string(),
        project_id: project.to_string(),
        driver: DriverName::Linux,
        label: "conformance".to_owned(),
        root: "/src/shop".into(),
        home: "/home/me".into(),
        code: Code {
            commit: Some(commit.to_owned()),
            ref_name: None,
            object_format: "sha1".to_owned(),
            user_name: None,
            user_email: None,
            remotes: Vec::new(),
            shallow: Vec::new(),
            excluded: Vec::new(),
            base: None,
        },
        protected_paths: Vec::new(),
        nested: false,
        environment: Environment {
            path: "/usr/bin".to_owned(),
            lang: None,
            tz: None,
        },
        env: Vec::new(),
        toolchains: Vec::new(),
        home_copies: Vec::new(),
        limits: SpecLimits::default(),
        network: Network::default(),
        services: Vec::new(),
        allow_degraded: Vec::new(),
        brought: Brought::default(),
        layers: Layers::default(),
        purpose: Purpose::Work,
        caches: Vec::new(),
        volumes: Vec::new(),
        retired_volumes: Vec::new(),
        generation: 0,
        origin: None,
        snapshots: Vec::new(),
        siblings: Siblings::default(),
        agents: Vec::new(),
        moving: None,
        secrets: Vec::new(),
        checks: Vec::new(),
        review_required: false,
        check_runs: false,
        compose_files: Vec::new(),
        dev_container: None,
        declared: None,
    }
}

struct Suite {
    driver: Arc<dyn Driver>,
    spec: Arc<WorkspaceSpec>,
    id: WorkspaceId,
    project: ProjectId,
}

/// Takes a workspace through its life and panics where the driver does not what it should. The
/// workspace and its base must not exist yet; neither exists afterwards.
pub async fn check(driver: Arc<dyn Driver>, spec: WorkspaceSpec) {
    let suite = Suite {
        id: WorkspaceId::parse(&spec.id).expect("the id of a workspace"),
        project: ProjectId::parse(&spec.project_id).expect("the id of a project"),
        spec: Arc::new(spec),
        driver,
    };
    suite.answers().await;
    suite.undoes_a_creation_at_any_step().await;
    suite.makes_and_halts().await;
    suite.sets_aside_and_takes_back().await;
    suite.deletes().await;
}

/// Makes the workspace and starts it, for tests of what runs in it.
pub async fn start(driver: &dyn Driver, spec: &Arc<WorkspaceSpec>) {
    for action in MAKING {
        let journaled = Journaled {
            action,
            spec: Arc::clone(spec),
        };
        let applied = driver.apply(journaled, Progress::default()).await;
        done(action.as_str(), applied);
    }
}

// === impl Suite ===

impl Suite {
    async fn answers(&self) {
        let checks = done("probe", self.driver.probe().await);
        let names: HashSet<_> = checks.iter().map(|check| &check.name).collect();
        assert_eq!(names.len(), checks.len(), "a check has a name of its own");
        done("check", self.driver.check(&self.spec));
        let room = done("room", self.driver.room().await);
        assert!(room.memory > 0 && room.free_disk <= room.disk, "{room:?}");
        let absent = LayerKey {
            project: self.spec.project_id.clone(),
            key: "absent".to_owned(),
        };
        assert_eq!(done("layer", self.driver.layer(&absent).await), None);
        for _ in 0..2 {
            done("show_only", self.driver.show_only(HashMap::new()).await);
        }
        self.expect(Files::Absent, Keeper::Absent).await;
    }

    /// A creation may fail before its first action and after each of them.
    async fn undoes_a_creation_at_any_step(&self) {
        for failed_after in 0..=MAKING.len() {
            for action in &MAKING[..failed_after] {
                self.twice(*action).await;
            }
            for _ in 0..2 {
                done("undo", self.driver.undo(&self.spec).await);
                self.expect(Files::Absent, Keeper::Absent).await;
            }
        }
    }

    async fn makes_and_halts(&self) {
        for action in MAKING {
            self.twice(action).await;
        }
        let observation = self.expect(Files::Complete, Keeper::Running).await;
        assert_eq!(observation.observed.base, Base::Present);
        assert!(observation.isolation.is_some(), "it runs");
        for what in [
            Measure::Everything,
            Measure::Workspace(Arc::clone(&self.spec)),
        ] {
            let usage = done("measure", self.driver.measure(what.clone()).await);
            assert!(usage.workspaces.contains_key(&self.id), "{what:?}");
        }
        assert!(self.uses_processes().await);
        self.twice(Action::Halt).await;
        self.expect(Files::Complete, Keeper::Absent).await;
        assert!(!self.uses_processes().await);
    }

    async fn sets_aside_and_takes_back(&self) {
        self.twice(Action::SetAside).await;
        self.expect(Files::SetAside, Keeper::Absent).await;
        assert!(self.is_in_the_trash().await);
        self.twice(Action::TakeBack).await;
        self.expect(Files::Complete, Keeper::Absent).await;
        assert!(!self.is_in_the_trash().await);
        self.twice(Action::Launch).await;
        self.expect(Files::Complete, Keeper::Running).await;
        self.twice(Action::Halt).await;
        self.twice(Action::SetAside).await;
    }

    async fn deletes(&self) {
        self.delete(Discard::Workspace(self.id.clone())).await;
        let observation = self.expect(Files::Absent, Keeper::Absent).await;
        assert_eq!(observation.observed.base, Base::Present, "it is shared");
        let known = Known {
            projects: HashSet::from([self.project.clone()]),
            ..Known::default()
        };
        let survey = done("survey", self.driver.survey(known).await);
        let base = self.spec.base_keys().next().expect("a base");
        let is_found = survey.bases.iter().any(|(found, _)| *found == base);
        assert!(is_found, "{:?}", survey.bases);
        self.delete(Discard::Base(base)).await;
        let observation = self.expect(Files::Absent, Keeper::Absent).await;
        assert_eq!(observation.observed.base, Base::Absent);
    }

    /// Discards something and deletes it, each twice.
    async fn delete(&self, what: Discard) {
        let discarded = done("discard", self.driver.discard(what.clone()).await);
        let Some(discarded) = discarded else {
            panic!("{what:?} is not there");
        };
        if let Discard::Workspace(id) = &what {
            assert_eq!(discarded.name(), id.as_str());
        }
        let again = done("discard", self.driver.discard(what.clone()).await);
        assert_eq!(again, None, "{what:?}");
        let listed = done("discarded", self.driver.discarded().await);
        assert!(listed.contains(&discarded), "{listed:?}");
        for _ in 0..2 {
            let deleted = self.driver.delete(discarded.clone(), Progress::default());
            done("delete", deleted.await);
        }
        let listed = done("discarded", self.driver.discarded().await);
        assert!(!listed.contains(&discarded), "{listed:?}");
    }

    async fn twice(&self, action: Action) {
        for _ in 0..2 {
            let journaled = Journaled {
                action,
                spec: Arc::clone(&self.spec),
            };
            let applied = self.driver.apply(journaled, Progress::default()).await;
            done(action.as_str(), applied);
        }
    }

    /// Looks twice: looking changes nothing.
    async fn expect(&self, files: Files, keeper: Keeper) -> Observation {
        let first = done("observe", self.driver.observe(&self.spec).await);
        let second = done("observe", self.driver.observe(&self.spec).await);
        assert_eq!(first.observed, second.observed);
        assert_eq!(
            (first.observed.files, first.observed.keeper),
            (files, keeper)
        );
        second
    }

    async fn uses_processes(&self) -> bool {
        let ids = std::slice::from_ref(&self.id);
        let usages = done("usage", self.driver.usage(ids).await);
        assert_eq!(usages.len(), 1);
        let processes = usages[0].as_ref().map(|usage| usage.total.processes);
        processes.is_some_and(|count| count > 0)
    }

    async fn is_in_the_trash(&self) -> bool {
        let usage = done("measure", self.driver.measure(Measure::Trash).await);
        usage.trash.contains_key(&self.id)
    }
}

fn done<T: Debug>(what: &str, result: Result<T, Fault>) -> T {
    result.unwrap_or_else(|fault| panic!("{what}: {fault} ({})", fault.hint))
}
