//! The files of many workspaces, which are the store's. An installation that never used an engine has none, and no engine
//! is asked for it.

use crate::ask::Nothing;
use crate::driver::{ContainerDriver, name};
use crate::upload;
use async_trait::async_trait;
use holm_core::admission::Machine;
use holm_core::disk::DiskUsage;
use holm_core::layer::{Layer, LayerKey};
use holm_core::{Code, Fault, ProjectId, WorkspaceId};
use holm_engine::progress::Progress;
use holm_engine::remote::Call;
use holm_engine::storage::{
    BroughtTree, Discard, Discarded, Known, Measure, SiblingTree, Storage, Survey,
};
use holm_keeper::container::{Given, INCOMING};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

// === impl ContainerDriver ===

impl ContainerDriver {
    /// What an engine that does not answer has cannot be deleted or measured now. Other drivers' files can.
    async fn call_if_there<T>(&self, call: Call, otherwise: T) -> Result<T, Fault>
    where
        T: serde::de::DeserializeOwned,
    {
        if self.store.installation()?.is_none() {
            return Ok(otherwise);
        }
        match self.store.call(call).await {
            Err(fault) if fault.code == Code::DriverUnavailable => {
                tracing::warn!(%fault, "what the engine has is left alone");
                Ok(otherwise)
            }
            answered => answered,
        }
    }
}

#[async_trait]
impl Storage for ContainerDriver {
    async fn layer(&self, key: &LayerKey) -> Result<Option<Layer>, Fault> {
        self.store.call(Call::Layer(key.clone())).await
    }

    async fn keep_tree(&self, mut tree: BroughtTree) -> Result<(), Fault> {
        let (directory, name) = (tree.directory.clone(), PathBuf::from(name()?));
        let top = name.clone();
        let archive = tree.archive.take();
        let has_archive = archive.is_some();
        let sent = upload::make(move |sent| {
            sent.tree(&directory, &top)?;
            if let Some(archive) = archive {
                sent.file(&archive, &top.join("archive"))?;
            }
            Ok(())
        });
        let brought = tree.directory.clone();
        self.put(sent.await?).await?;
        tree.directory = Path::new(INCOMING).join(&name);
        tree.archive = has_archive.then(|| tree.directory.join("archive"));
        let kept = self.store.call(Call::KeepTree(tree)).await;
        // The store has its own copy.
        if let Err(error) = holm_keeper::files::remove::remove_tree(&brought) {
            tracing::warn!(%error, "a tree that a client brought stays");
        }
        kept
    }

    async fn show_tree(&self, _: SiblingTree) -> Result<(), Fault> {
        let message = "the driver `docker` does not show trees of siblings";
        Err(Fault::new(
            Code::DriverUnavailable,
            message,
            "leave `isolation` out of holm.toml",
        ))
    }

    /// It shows none.
    async fn show_only(&self, _: HashMap<ProjectId, HashSet<WorkspaceId>>) -> Result<(), Fault> {
        Ok(())
    }

    async fn room(&self) -> Result<Machine, Fault> {
        let live = self.store.live().await?;
        let mut room: Machine = self.store.call(Call::Room).await?;
        if let Some(memory) = live.info.mem_total {
            room.memory = u64::try_from(memory).unwrap_or(room.memory);
        }
        Ok(room)
    }

    async fn measure(&self, what: Measure) -> Result<DiskUsage, Fault> {
        self.call_if_there(Call::Measure(what.into()), DiskUsage::default())
            .await
    }

    async fn survey(&self, known: Known) -> Result<Survey, Fault> {
        self.call_if_there(Call::Survey(known), Survey::default())
            .await
    }

    async fn discard(&self, what: Discard) -> Result<Option<Discarded>, Fault> {
        self.call_if_there(Call::Discard(what), None).await
    }

    async fn discarded(&self) -> Result<Vec<Discarded>, Fault> {
        self.call_if_there(Call::Discarded, Vec::new()).await
    }

    async fn delete(&self, discarded: Discarded, progress: Progress) -> Result<u64, Fault> {
        let call = Call::Delete(discarded);
        self.store
            .call_with(call, Given::default(), &Nothing, &progress)
            .await
    }
}
