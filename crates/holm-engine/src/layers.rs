//! Builds layers: `setup`, and the `seed` of each volume, run once per set of inputs, in a
//! temporary workspace. Called by [`converge`](crate::converge) before a workspace is created or
//! started.
//!
//! The temporary workspace has a normal record that is never acknowledged, so after a crash the
//! next daemon undoes it. It is never shown. Concurrent requests for the same layer wait for one
//! build and get its progress and its failure.

use crate::clock::now;
use crate::converge::Goal;
use crate::driver::Observation;
use crate::engine::Inner;
use crate::progress::Progress;
use crate::store::WorkspaceRecord;
use holm_core::dev_container::DevContainer;
use holm_core::first_start;
use holm_core::layer::LayerKey;
use holm_core::plan::{Action, Desired};
use holm_core::spec::{
    Brought, Network, Origin, Purpose, Seed, Service, Setup, Volume, WorkspaceSpec,
};
use holm_core::state::Birth;
use holm_core::{Code, Fault, Label, WorkspaceId};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A layer that can be built.
#[derive(Clone, Copy)]
enum Needed<'a> {
    Setup(&'a Setup),
    Seed(&'a Volume, &'a Seed),
}

// === impl Inner ===

impl Inner {
    /// Builds the missing layers of the workspace's setup and volumes. The setup comes first: a
    /// seed may need what it installs.
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
        let (sender, mut events) = mpsc::unbounded_channel();
        let own_progress = Progress::to(sender);
        let building = self.build_layer(record, needed, &own_progress);
        tokio::pin!(building);
        let built = loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => {
                    progress.report(&event.step, event.done, event.total);
                    run.progress.send_replace(Some(event));
                }
                built = &mut building => break built,
            }
        };
        *failed = built.as_ref().err().cloned();
        built
    }

    /// Checks while no collection runs: afterwards the record keeps the layer.
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
        // A creation whose setup failed ends with its builder, unless the user keeps that.
        if built.is_ok() || record.birth == Birth::Acknowledged {
            self.undo_builder(&record.id).await;
        }
        built.map(drop)
    }

    /// Makes the pending workspace of a failed setup as the setup left it, stopped. `None`: another request
    /// ran the setup, so its files are not this one's.
    pub(crate) async fn keep_failed(
        &self,
        record: &WorkspaceRecord,
        why: &Fault,
    ) -> Option<Result<(WorkspaceRecord, Observation), Fault>> {
        let builder = self.setups.of(&record.id)?;
        let _turn = self.workspaces.lock(&builder.id).await;
        let kept = WorkspaceRecord {
            desired: Desired::Stopped,
            spec: Arc::new(as_left(record, &builder, why)),
            ..record.clone()
        };
        let (id, spec) = (kept.id.clone(), Arc::clone(&kept.spec));
        let stored = self.store.call(move |store| {
            store.set_spec(&id, &spec)?;
            store.set_desired(&id, Desired::Stopped)
        });
        let made = async {
            stored.await?;
            let goal = Goal::Reach(Desired::Stopped);
            self.converge(&kept, goal, &Progress::default()).await
        };
        Some(made.await.map(|observation| (kept, observation)))
    }

    /// Undoes the temporary workspace that was created for this one, finished or not.
    pub(crate) async fn undo_builder(&self, id: &WorkspaceId) {
        if let Some(builder) = self.setups.end(id) {
            Box::pin(self.undo_or_try_again(&builder)).await;
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

    /// Whether this workspace must not build it.
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

/// The spec of the temporary workspace: like the one that needs the layer, without those files of the user
/// that `setup_files` does not name. A seed's workspace has the setup layer and its volume, empty. For a workspace that was
/// moved, it has the first commit, because the key belongs to that one.
fn builder(record: &WorkspaceRecord, needed: Needed<'_>) -> Result<WorkspaceRecord, Fault> {
    let asked = &record.spec;
    let (purpose, setup, volumes) = match needed {
        Needed::Setup(setup) => {
            let needs_it = match &record.spec.purpose {
                Purpose::Check(check) => check.workspace.clone(),
                Purpose::Work | Purpose::Setup(_) | Purpose::Seed(_) => record.id.to_string(),
            };
            let setup = Setup {
                workspace: Some(needs_it),
                ..setup.clone()
            };
            (Purpose::Setup(setup), None, Vec::new())
        }
        Needed::Seed(volume, seed) => {
            let setup = asked.layers.setup.clone();
            (
                Purpose::Seed(seed.clone()),
                setup,
                vec![first_start::emptied(volume)],
            )
        }
    };
    let mut volumes = volumes;
    let mut services = Vec::new();
    let mut secrets = asked.secrets.clone();
    if let Needed::Seed(
        volume,
        Seed {
            service: Some(name),
            ..
        },
    ) = needed
    {
        let (service, others) = first_start::alone(asked, name, volume);
        services = service;
        volumes.extend(others);
        // A seed is shared, so it gets none.
        secrets.clear();
    }
    let container = container_of(asked, needed);
    services.extend(container.iter().map(|(service, _)| service.clone()));
    let word = match needed {
        Needed::Setup(_) => "setup",
        Needed::Seed(..) => "seed",
    };
    let spec = WorkspaceSpec {
        volumes,
        generation: 0,
        origin: None,
        moving: None,
        code: as_begun(&asked.code),
        snapshots: Vec::new(),
        layers: holm_core::spec::Layers {
            setup,
            warm: asked.layers.warm.clone(),
            failed: None,
        },
        // `setup` may have to change files that agents must not; the result is checked afterwards.
        protected_paths: Vec::new(),
        home_copies: given_home_files(asked, &purpose),
        services,
        dev_container: container.map(|(_, container)| container),
        secrets,
        network: Network {
            ports: Vec::new(),
            names: Vec::new(),
            ..asked.network.clone()
        },
        brought: Brought {
            include_tar: given_upload(asked, &purpose),
            dirty: asked.brought.dirty.clone(),
        },
        purpose,
        ..WorkspaceSpec::clone(asked)
    };
    temporary(record, word, spec)
}

/// The Dev Container for the commands of a set-up: its image, without neighbours, commands and volumes.
fn container_of(asked: &WorkspaceSpec, needed: Needed<'_>) -> Option<(Service, DevContainer)> {
    if let Needed::Seed(..) = needed {
        // Servers that its commands leave running are asked to end, which those of a room cannot be.
        return None;
    }
    let container = asked.dev_container.clone()?;
    let mut services = asked.services.iter();
    let service = services.find(|service| service.name == container.service)?;
    let alone = DevContainer {
        commands: Vec::new(),
        ..container
    };
    Some((first_start::bare(service), alone))
}

/// The record of a temporary workspace that is made for another one. It is never acknowledged, so the next daemon
/// undoes it after a crash.
pub(crate) fn temporary(
    record: &WorkspaceRecord,
    word: &str,
    spec: WorkspaceSpec,
) -> Result<WorkspaceRecord, Fault> {
    let id = WorkspaceId::random();
    let label = Label::parse(&format!("{word}-{id}")).map_err(|error| {
        let message = format!("cannot name the workspace of a {word}");
        Fault::new(Code::Internal, message, "report this").because(error)
    })?;
    let spec = WorkspaceSpec {
        id: id.to_string(),
        label: label.to_string(),
        ..spec
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

/// The spec of a workspace that begins with the files of the builder of its failed setup. Its volumes begin
/// empty: a seed may need what the setup did not make.
fn as_left(record: &WorkspaceRecord, builder: &WorkspaceRecord, why: &Fault) -> WorkspaceSpec {
    let asked = WorkspaceSpec::clone(&record.spec);
    let volumes = asked.volumes.into_iter();
    let message = why.message();
    WorkspaceSpec {
        layers: holm_core::spec::Layers {
            setup: None,
            warm: asked.layers.warm,
            failed: message.lines().next().map(str::to_owned),
        },
        volumes: volumes
            .map(|volume| Volume {
                seed: None,
                ..volume
            })
            .collect(),
        origin: Some(Origin {
            workspace: builder.id.to_string(),
            label: builder.label.to_string(),
            snapshot: None,
            volumes: Vec::new(),
        }),
        brought: Brought::default(),
        ..asked
    }
}

/// The files of `[home] copy` that the setup gets.
fn given_home_files(asked: &WorkspaceSpec, purpose: &Purpose) -> Vec<PathBuf> {
    let Purpose::Setup(setup) = purpose else {
        return Vec::new();
    };
    let of_home = setup
        .files
        .iter()
        .filter_map(|file| file.strip_prefix("~/"));
    let of_home: Vec<_> = of_home.map(|file| asked.home.join(file)).collect();
    let copies = asked.home_copies.iter();
    copies
        .filter(|copy| of_home.contains(copy))
        .cloned()
        .collect()
}

/// The included files, if the setup gets some of them.
fn given_upload(asked: &WorkspaceSpec, purpose: &Purpose) -> Option<PathBuf> {
    let Purpose::Setup(setup) = purpose else {
        return None;
    };
    let mut files = setup.files.iter();
    let is_of_tree = files.any(|file| !file.starts_with("~/"));
    asked.brought.include_tar.clone().filter(|_| is_of_tree)
}

fn as_begun(code: &holm_core::spec::Code) -> holm_core::spec::Code {
    holm_core::spec::Code {
        commit: code.base_commit().map(str::to_owned),
        base: None,
        ..code.clone()
    }
}
