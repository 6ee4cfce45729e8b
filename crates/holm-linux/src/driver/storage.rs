//! Layers, trees that siblings see, and the clean-up of files: the `Storage` of the driver.

use super::{LinuxDriver, bring, layer, measure, reap, siblings};
use async_trait::async_trait;
use holm_core::admission::Machine;
use holm_core::disk::DiskUsage;
use holm_core::layer::{Layer, LayerKey};
use holm_core::{Fault, ProjectId, WorkspaceId};
use holm_engine::Progress;
use holm_engine::storage::{
    BroughtTree, Discard, Discarded, Known, Measure, SiblingTree, Storage, Survey,
};
use holm_engine::try_blocking;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

#[async_trait]
impl Storage for LinuxDriver {
    fn commit_files(&self, project: &ProjectId, commit: &str) -> Option<Vec<Option<Vec<u8>>>> {
        holm_git::base_files(&self.layout.bases(project), commit)
    }

    async fn layer(&self, key: &LayerKey) -> Result<Option<Layer>, Fault> {
        Ok(layer::look(&self.layout, key))
    }

    async fn keep_tree(&self, tree: BroughtTree) -> Result<(), Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || bring::keep(&layout, &tree)).await
    }

    async fn show_tree(&self, tree: SiblingTree) -> Result<(), Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || siblings::show(&layout, tree)).await
    }

    async fn show_only(
        &self,
        shown: HashMap<ProjectId, HashSet<WorkspaceId>>,
    ) -> Result<(), Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || siblings::show_only(&layout, &shown)).await
    }

    async fn room(&self) -> Result<Machine, Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || measure::room(&layout)).await
    }

    async fn measure(&self, what: Measure) -> Result<DiskUsage, Fault> {
        let (layout, programs) = (Arc::clone(&self.layout), self.programs.clone());
        try_blocking(move || match what {
            Measure::Everything => measure::everything(&layout),
            Measure::Trash => measure::trash(&layout),
            Measure::Workspace(spec) => measure::workspace(&layout, programs.roles(), &spec),
            Measure::Volumes(specs) => measure::volumes(&layout, &specs),
        })
        .await
    }

    async fn survey(&self, known: Known) -> Result<Survey, Fault> {
        let programs = reap::programs_in_use(&self.layout, &self.programs.holm, &known).await?;
        let layout = Arc::clone(&self.layout);
        try_blocking(move || reap::survey(&layout, &known, programs.as_ref())).await
    }

    async fn discard(&self, what: Discard) -> Result<Option<Discarded>, Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || reap::discard(&layout, what)).await
    }

    async fn discarded(&self) -> Result<Vec<Discarded>, Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || reap::discarded(&layout)).await
    }

    async fn delete(&self, discarded: Discarded, progress: Progress) -> Result<u64, Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || reap::delete(&layout, &discarded, &progress)).await
    }
}
