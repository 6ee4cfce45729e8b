//! The driver: its calls go to the store, and containers are started and removed here.

use crate::ask::Nothing;
use crate::engine;
use crate::live::Live;
use crate::settings::{Parts, SharedParts};
use crate::start::Containers;
use crate::store::{Remote, Store};
use crate::upload::{self, files_below};
use async_trait::async_trait;
use holm_core::config::DriverName;
use holm_core::fitness::{Check, Status};
use holm_core::head::Tip;
use holm_core::numbers::Usage;
use holm_core::plan::Action;
use holm_core::spec::{Dirty, Purpose, Siblings, WorkspaceSpec};
use holm_core::{Code, Fault, ProjectId, WorkspaceId};
use holm_engine::driver::{Blob, Driver, Journaled, LayerChanges, Observation, Since, Traces};
use holm_engine::progress::Progress;
use holm_engine::remote::{Call, Question};
use holm_keeper::client::KeeperClient;
use holm_keeper::container::{Given, INCOMING};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Runs workspaces in containers of an engine.
pub struct ContainerDriver {
    pub(crate) store: Arc<Store>,
    parts: SharedParts,
}

// === impl ContainerDriver ===

impl ContainerDriver {
    /// Nothing is asked of an engine before a workspace needs it.
    pub fn new(parts: Parts) -> Self {
        let parts = Arc::new(parts);
        Self {
            store: Arc::new(Store::new(Arc::clone(&parts))),
            parts,
        }
    }

    /// The spec as this driver carries it out: programs are those of the image, and nothing of this machine is there.
    async fn in_image(&self, spec: &WorkspaceSpec) -> Result<(Arc<Live>, WorkspaceSpec), Fault> {
        let live = self.store.live().await?;
        let mut spec = spec.clone();
        if let Some(path) = &live.image.path {
            spec.environment.path.clone_from(path);
        }
        spec.toolchains = Vec::new();
        spec.home_copies = Vec::new();
        Ok((live, spec))
    }

    async fn apply_in_store(
        &self,
        action: Action,
        spec: &WorkspaceSpec,
        progress: &Progress,
    ) -> Result<Option<Observation>, Fault> {
        let (live, mut spec) = self.in_image(spec).await?;
        if action == Action::MakeFiles {
            self.send_brought(&live, &mut spec).await?;
        }
        let given = self.given(action, &live, &spec)?;
        let containers = Containers(Arc::clone(&live));
        let call = Call::Apply {
            action,
            spec: Box::new(spec.clone()),
        };
        let applied = self
            .store
            .call_with(call, given, &containers, progress)
            .await;
        if action == Action::MakeFiles {
            self.forget_brought(&spec).await;
        }
        applied
    }

    fn given(&self, action: Action, live: &Live, spec: &WorkspaceSpec) -> Result<Given, Fault> {
        let starts = matches!(
            action,
            Action::Launch | Action::RenewVolumes | Action::BuildLayer | Action::SetUp
        );
        if !starts {
            return Ok(Given::default());
        }
        let has_secrets = !spec.secrets.is_empty() && !matches!(spec.purpose, Purpose::Seed(_));
        let grants = if has_secrets {
            (self.parts.secrets)(spec)?
        } else {
            Vec::new()
        };
        let is_here = matches!(live.address, engine::Address::Unix(_));
        Ok(Given {
            grants,
            surrounding: (self.parts.network)()?,
            machine: if is_here {
                (self.parts.machine)()
            } else {
                Vec::new()
            },
            without: self.parts.without.clone(),
        })
    }

    /// Sends the store what it does not have of a project's repository. Objects never change, so their names are enough.
    async fn send_repository(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        let project = ProjectId::parse(&spec.project_id).map_err(corrupt)?;
        let place = (self.parts.repository)(&self.parts.data_dir, &project);
        let question = Question::Repository(project.clone());
        let there: HashSet<PathBuf> = self
            .store
            .ask(question, &Nothing, &Progress::default())
            .await?;
        let from = PathBuf::from(name()?);
        let top = from.clone();
        let archive = upload::make(move |archive| {
            archive.directory(&top)?;
            for file in files_below(&place)? {
                let is_object = file.starts_with("objects");
                let is_lock = file.extension().is_some_and(|end| end == "lock");
                let is_new = !is_object || !there.contains(&file);
                let is_temporary = file
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("tmp_"));
                if is_new && !is_lock && !is_temporary {
                    archive.file(&place.join(&file), &top.join(&file))?;
                }
            }
            Ok(())
        });
        self.put(archive.await?).await?;
        let question = Question::TakeRepository { project, from };
        self.store
            .ask(question, &Nothing, &Progress::default())
            .await
    }

    /// Sends what the client brought, and names it as the store finds it.
    async fn send_brought(&self, _: &Live, spec: &mut WorkspaceSpec) -> Result<(), Fault> {
        let mut sent = Vec::new();
        let mut send = |path: &mut PathBuf| -> Result<(), Fault> {
            let name = name()?;
            sent.push((path.clone(), name.clone()));
            *path = Path::new(INCOMING).join(name);
            Ok(())
        };
        if let Some(path) = &mut spec.brought.include_tar {
            send(path)?;
        }
        if let Some(Dirty { pack, .. }) = &mut spec.brought.dirty {
            send(pack)?;
        }
        sent.retain(|(path, _)| path.exists());
        if sent.is_empty() {
            return Ok(());
        }
        let archive = upload::make(move |archive| {
            for (path, name) in &sent {
                archive.file(path, Path::new(name))?;
            }
            Ok(())
        });
        self.put(archive.await?).await
    }

    async fn forget_brought(&self, spec: &WorkspaceSpec) {
        let dirty = spec.brought.dirty.as_ref().map(|dirty| &dirty.pack);
        let sent = spec.brought.include_tar.iter().chain(dirty);
        for name in sent.filter_map(|path| path.file_name()) {
            let question = Question::Forget(name.into());
            let forgotten: Result<(), Fault> = self
                .store
                .ask(question, &Nothing, &Progress::default())
                .await;
            if let Err(fault) = forgotten {
                tracing::warn!(%fault, "an upload stays in the engine's volume");
            }
        }
    }

    /// Unpacks an archive where the store takes uploads from.
    pub(crate) async fn put(&self, archive: std::fs::File) -> Result<(), Fault> {
        let live = self.store.live().await?;
        let store = live.installation.store();
        upload::put(&live.docker, &store, Path::new(INCOMING), archive).await
    }

    /// Asks the keeper to end the workspace; the engine ends what does not.
    async fn halt(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        let call = || Call::Apply {
            action: Action::Halt,
            spec: Box::new(spec.clone()),
        };
        let asked: Result<Option<Observation>, Fault> = self.store.call(call()).await;
        let live = self.store.live().await?;
        live.remove_workspace(&spec.id).await?;
        match asked {
            Ok(_) => Ok(()),
            // Without its processes there is nothing left to wait for.
            Err(_) => self
                .store
                .call(call())
                .await
                .map(|_: Option<Observation>| ()),
        }
    }
}

/// A name for an upload.
pub(crate) fn name() -> Result<String, Fault> {
    crate::labels::random().map_err(|error| {
        Fault::new(Code::Internal, "no random numbers", "report this").because(error)
    })
}

fn corrupt(error: holm_core::id::NotAnId) -> Fault {
    let message = "a stored workspace is damaged";
    Fault::new(Code::CorruptState, message, "holm doctor").because(error)
}

/// What the container does without. Nothing of it keeps a workspace from starting.
fn left_out(spec: &WorkspaceSpec) -> Vec<String> {
    let has_snapshot = spec.caches.iter().any(|cache| cache.snapshot.is_some());
    let found = [
        (has_snapshot, "caches begin empty in a container"),
        (
            spec.layers.warm.is_some(),
            "build output of the checkout is not brought into a container",
        ),
        (
            !spec.home_copies.is_empty(),
            "`[home] copy` does not reach a container",
        ),
        (
            !spec.toolchains.is_empty(),
            "programs are those of the container's image, not the toolchains of this machine",
        ),
    ];
    let found = found.into_iter().filter(|(is_so, _)| *is_so);
    found.map(|(_, sentence)| sentence.to_owned()).collect()
}

/// What a container cannot do yet is refused, and never left out in silence.
fn refuse_unsupported(spec: &WorkspaceSpec) -> Result<(), Fault> {
    let image = spec.services.iter().find(|service| service.image.is_some());
    let of_service = image.map(|service| format!("services.{} with an image", service.name));
    let found = [
        (spec.nested, "nested = true".to_owned()),
        (
            spec.siblings == Siblings::Shown,
            "isolation = \"project\"".to_owned(),
        ),
        (image.is_some(), of_service.unwrap_or_default()),
        (!spec.network.shared.is_empty(), "[shared]".to_owned()),
    ];
    let Some((_, what)) = found.into_iter().find(|(is_there, _)| *is_there) else {
        return Ok(());
    };
    Err(Fault::new(
        Code::DriverUnavailable,
        format!("the driver `docker` does not have {what}"),
        "leave it out of holm.toml, or use `driver = \"linux\"`",
    ))
}

#[async_trait]
impl Driver for ContainerDriver {
    fn name(&self) -> DriverName {
        DriverName::Docker
    }

    async fn probe(&self) -> Result<Vec<Check>, Fault> {
        let settings = (self.parts.settings)()?;
        let Some(address) = engine::find(&settings)? else {
            return Ok(Vec::new());
        };
        let connected = engine::connect(&address).await;
        let version = match &connected {
            Ok(docker) => docker.version().await.ok(),
            Err(_) => None,
        };
        let check = |status, detail, fix| Check {
            name: "container engine".to_owned(),
            status,
            detail,
            fix,
            required: false,
        };
        Ok(vec![match connected {
            Ok(docker) => {
                let version = version
                    .and_then(|version| version.version)
                    .unwrap_or_default();
                let api = docker.client_version();
                check(
                    Status::Ok,
                    format!("{address}: version {version}, API {api}"),
                    None,
                )
            }
            Err(fault) => check(Status::Warning, fault.to_string(), Some(fault.hint)),
        }])
    }

    fn keeper(&self, id: &WorkspaceId) -> KeeperClient {
        KeeperClient::new(Remote {
            store: Arc::clone(&self.store),
            id: id.clone(),
        })
    }

    fn check(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        refuse_unsupported(spec)
    }

    async fn shortcomings(&self, spec: &WorkspaceSpec) -> Vec<String> {
        left_out(spec)
    }

    async fn observe(&self, spec: &WorkspaceSpec) -> Result<Observation, Fault> {
        let call = Call::Observe(Box::new(spec.clone()));
        self.store.call(call).await
    }

    /// The files are on the engine's machine; an observation says it.
    fn tip(&self, _: &WorkspaceId) -> Tip {
        Tip::default()
    }

    fn processor_time(&self, _: &WorkspaceId) -> Option<Duration> {
        None
    }

    async fn apply(
        &self,
        journaled: Journaled,
        progress: Progress,
    ) -> Result<Option<Observation>, Fault> {
        let (action, spec) = (journaled.action(), journaled.spec());
        match action {
            Action::Halt => return self.halt(spec).await.map(|()| None),
            Action::BuildBase | Action::Launch | Action::Switch => {
                refuse_unsupported(spec)?;
                self.send_repository(spec).await?;
            }
            _ => {}
        }
        let applied = self.apply_in_store(action, spec, &progress).await?;
        if matches!(action, Action::BuildLayer | Action::SetAside) {
            // The workspace ended inside the store; its containers have nothing to do any more.
            self.store.live().await?.remove_workspace(&spec.id).await?;
        }
        Ok(applied)
    }

    async fn usage(&self, ids: &[WorkspaceId]) -> Result<Vec<Option<Usage>>, Fault> {
        if ids.is_empty() || self.store.installation()?.is_none() {
            return Ok(ids.iter().map(|_| None).collect());
        }
        let live = self.store.live().await?;
        let asked = ids.iter().map(|id| live.usage(id));
        Ok(futures_util::future::join_all(asked).await)
    }

    async fn layer_changes(&self, spec: &WorkspaceSpec) -> Result<Option<LayerChanges>, Fault> {
        let call = Call::LayerChanges(Box::new(spec.clone()));
        self.store.call(call).await
    }

    async fn blobs(&self, spec: &WorkspaceSpec, paths: Vec<Vec<u8>>) -> Result<Vec<Blob>, Fault> {
        let spec = Box::new(spec.clone());
        self.store.call(Call::Blobs { spec, paths }).await
    }

    async fn traces(&self, spec: &WorkspaceSpec, since: Since) -> Result<Traces, Fault> {
        let spec = Box::new(spec.clone());
        self.store.call(Call::Traces { spec, since }).await
    }

    async fn volume_digests(
        &self,
        spec: &WorkspaceSpec,
    ) -> Result<BTreeMap<String, Option<String>>, Fault> {
        let call = Call::VolumeDigests(Box::new(spec.clone()));
        self.store.call(call).await
    }

    async fn undo(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        if self.store.installation()?.is_none() {
            return Ok(());
        }
        self.store.live().await?.remove_workspace(&spec.id).await?;
        self.store.call(Call::Undo(Box::new(spec.clone()))).await
    }
}
