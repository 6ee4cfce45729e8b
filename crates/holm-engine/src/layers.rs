//! Layers: `setup`, and the `seed` of each volume, run once for each set of their inputs, in a workspace
//! that is made for it and thrown away. Called by [`converge`](crate::converge) before anything is made
//! or started on top of one.
//!
//! The workspace of a set-up or a seed is a record like any other, never acknowledged: a daemon that dies
//! leaves something that the next one undoes. Nobody is shown it. Whoever needs the same layer at
//! the same time waits, hears how far it is, and hears why it failed.

use crate::converge::Goal;
use crate::driver::{Progress, ProgressEvent};
use crate::engine::{Inner, now};
use crate::spec::{Brought, Network, Purpose, Seed, Setup, Volume, WorkspaceSpec};
use crate::store::WorkspaceRecord;
use holm_core::config::Policy;
use holm_core::layer::LayerKey;
use holm_core::plan::{Action, Desired};
use holm_core::state::Birth;
use holm_core::{Code, Fault, Label, WorkspaceId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{mpsc, watch};

/// Set-ups under way.
#[derive(Default)]
pub(crate) struct Setups {
    runs: Mutex<HashMap<(String, String), Weak<Run>>>,
    /// The workspaces of set-ups, by the workspace that each was begun for.
    builders: Mutex<HashMap<WorkspaceId, WorkspaceRecord>>,
}

/// A layer that can be made.
#[derive(Clone, Copy)]
enum Needed<'a> {
    Setup(&'a Setup),
    Seed(&'a Volume, &'a Seed),
}

/// One layer that is being made, shared by all who need it.
struct Run {
    /// Holds why the last try failed; those who waited for it need not try themselves.
    turn: tokio::sync::Mutex<Option<Fault>>,
    told: watch::Sender<Option<ProgressEvent>>,
}

// === impl Inner ===

impl Inner {
    /// Makes the layers of the workspace's set-up and volumes that are not there. The set-up comes
    /// first: what it installs may be needed to fill a volume.
    pub(crate) async fn ensure_layers(
        &self,
        record: &WorkspaceRecord,
        progress: &Progress,
    ) -> Result<(), Fault> {
        if let Some(setup) = &record.spec.layers.setup {
            self.ensure_layer(record, Needed::Setup(setup), progress)
                .await?;
        }
        for (volume, seed) in record.spec.seeds() {
            self.ensure_layer(record, Needed::Seed(volume, seed), progress)
                .await?;
        }
        Ok(())
    }

    async fn ensure_layer(
        &self,
        record: &WorkspaceRecord,
        needed: Needed<'_>,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let layer = record.spec.layer(needed.key());
        if self.has_layer(&record.spec, &layer).await? {
            return Ok(());
        }
        if needed.is_borrowed() {
            return Err(borrowed_and_gone(record, &layer));
        }
        let run = self.setups.run(&layer.project, &layer.key);
        let mut failed = run.wait(progress).await;
        if let Some(fault) = &*failed {
            return Err(fault.clone());
        }
        if self.has_layer(&record.spec, &layer).await? {
            return Ok(());
        }
        let (sender, mut heard) = mpsc::unbounded_channel();
        let own_progress = Progress::to(sender);
        let building = self.build_layer(record, needed, &own_progress);
        tokio::pin!(building);
        let built = loop {
            tokio::select! {
                biased;
                Some(event) = heard.recv() => {
                    progress.tell(&event.step, event.done, event.total);
                    run.told.send_replace(Some(event));
                }
                built = &mut building => break built,
            }
        };
        *failed = built.as_ref().err().cloned();
        built
    }

    /// Looks at a moment when no collection is under way: after it the record keeps the layer.
    async fn has_layer(&self, spec: &WorkspaceSpec, layer: &LayerKey) -> Result<bool, Fault> {
        let _making = self.making.read().await;
        Ok(self.driver(spec)?.layer(layer).await?.is_some())
    }

    async fn build_layer(
        &self,
        record: &WorkspaceRecord,
        needed: Needed<'_>,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let builder = builder(record, needed)?;
        let _turn = self.workspaces.lock(&builder.id).await;
        self.setups.begin(&record.id, &builder);
        let row = builder.clone();
        self.store
            .call(move |store| store.insert_workspace(&row))
            .await?;
        let goal = Goal::Reach(Desired::Running);
        let built = match Box::pin(self.converge(&builder, goal, progress)).await {
            Ok(_) => self.act(&builder, &[Action::BuildLayer], progress).await,
            Err(fault) => Err(fault),
        };
        self.undo_builder(&record.id).await;
        built
    }

    /// Throws away the workspace of a set-up that was begun for this one, finished or not.
    pub(crate) async fn undo_builder(&self, id: &WorkspaceId) {
        if let Some(builder) = self.setups.end(id) {
            Box::pin(self.undo_or_try_again(&builder)).await;
        }
    }
}

// === impl Setups ===

impl Setups {
    fn run(&self, project: &str, key: &str) -> Arc<Run> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (project.to_owned(), key.to_owned());
        if let Some(run) = runs.get(&key).and_then(Weak::upgrade) {
            return run;
        }
        runs.retain(|_, run| run.strong_count() > 0);
        let run = Arc::new(Run {
            turn: tokio::sync::Mutex::new(None),
            told: watch::Sender::new(None),
        });
        runs.insert(key, Arc::downgrade(&run));
        run
    }

    fn begin(&self, id: &WorkspaceId, builder: &WorkspaceRecord) {
        self.builders().insert(id.clone(), builder.clone());
    }

    fn end(&self, id: &WorkspaceId) -> Option<WorkspaceRecord> {
        self.builders().remove(id)
    }

    fn builders(&self) -> MutexGuard<'_, HashMap<WorkspaceId, WorkspaceRecord>> {
        self.builders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Run ===

impl Run {
    /// Waits for its turn, telling meanwhile what the one before it tells.
    async fn wait(&self, progress: &Progress) -> tokio::sync::MutexGuard<'_, Option<Fault>> {
        let mut told = self.told.subscribe();
        let turn = self.turn.lock();
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                turn = &mut turn => return turn,
                // The sender is `self`, so this ends only with something new.
                _ = told.changed() => {
                    let event = told.borrow_and_update().clone();
                    if let Some(event) = event {
                        progress.tell(&event.step, event.done, event.total);
                    }
                }
            }
        }
    }
}

// === impl Needed ===

impl Needed<'_> {
    fn key(&self) -> &str {
        match self {
            Needed::Setup(setup) => &setup.key,
            Needed::Seed(_, seed) => &seed.key,
        }
    }

    /// Whether it must not be made for this workspace.
    fn is_borrowed(&self) -> bool {
        match self {
            Needed::Setup(setup) => setup.borrowed,
            Needed::Seed(_, seed) => seed.borrowed,
        }
    }
}

fn borrowed_and_gone(record: &WorkspaceRecord, layer: &LayerKey) -> Fault {
    let (label, key) = (&record.label, &layer.key);
    Fault::new(
        Code::Refused,
        format!("the layer {key} that `{label}` begins with is gone, and another commit made it"),
        "type the `up` again; for a workspace that exists, `holm up` from the default branch makes \
         the layer again",
    )
}

/// The workspace that a set-up or a seed runs in: as the one that needs it, without what is the
/// user's own. That of a seed has what was set up, and its volume, empty. A workspace that was moved to
/// another commit since is made as it began: the key is that of the first commit.
fn builder(record: &WorkspaceRecord, needed: Needed<'_>) -> Result<WorkspaceRecord, Fault> {
    let id = WorkspaceId::random();
    let word = match needed {
        Needed::Setup(_) => "setup",
        Needed::Seed(..) => "seed",
    };
    let label = Label::parse(&format!("{word}-{id}")).map_err(|error| {
        let message = format!("cannot name the workspace of a {word}: {error}");
        Fault::new(Code::Internal, message, "report this")
    })?;
    let asked = &record.spec;
    let (purpose, setup, volumes) = match needed {
        Needed::Setup(setup) => (Purpose::Setup(setup.clone()), None, Vec::new()),
        Needed::Seed(volume, seed) => {
            let empty = Volume {
                policy: Policy::Isolated,
                seed: None,
                generation: 0,
                snapshot: None,
                ..volume.clone()
            };
            let setup = asked.layers.setup.clone();
            (Purpose::Seed(seed.clone()), setup, vec![empty])
        }
    };
    let spec = WorkspaceSpec {
        id: id.to_string(),
        label: label.to_string(),
        purpose,
        volumes,
        generation: 0,
        origin: None,
        moving: None,
        code: as_begun(&asked.code),
        snapshots: Vec::new(),
        layers: crate::spec::Layers {
            setup,
            warm: asked.layers.warm.clone(),
        },
        // What it installs may change files that agents must not; what it may not change is checked.
        protected_paths: Vec::new(),
        home_copies: Vec::new(),
        services: Vec::new(),
        network: Network {
            ports: Vec::new(),
            names: Vec::new(),
            ..asked.network.clone()
        },
        brought: Brought {
            include_tar: None,
            dirty: asked.brought.dirty.clone(),
        },
        ..WorkspaceSpec::clone(asked)
    };
    let at = now();
    Ok(WorkspaceRecord {
        id,
        label,
        desired: Desired::Running,
        birth: Birth::Pending,
        spec: Arc::new(spec),
        created_at: at,
        last_used_at: at,
        dirty: None,
        removed_at: None,
        ..record.clone()
    })
}

fn as_begun(code: &crate::spec::Code) -> crate::spec::Code {
    crate::spec::Code {
        commit: code.base_commit().map(str::to_owned),
        base: None,
        ..code.clone()
    }
}
