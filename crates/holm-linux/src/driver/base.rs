//! Bases: one immutable tree per project and commit, built by git from the daemon's own repository.

use super::{bring, project_id};
use crate::Layout;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Fault, ProjectId};
use holm_engine::progress::Progress;
use holm_engine::try_blocking;
use holm_git::{Bare, Build, Cancel, base_is_present, build_base_dated};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The name of the base without a commit.
const EMPTY: &str = "empty";

pub fn tree(layout: &Layout, project: &ProjectId, spec: &WorkspaceSpec) -> PathBuf {
    let name = spec.code.base_commit().unwrap_or(EMPTY);
    layout.bases(project).join(name).join("tree")
}

pub fn is_present(layout: &Layout, project: &ProjectId, spec: &WorkspaceSpec) -> bool {
    base_is_present(&layout.bases(project), spec.code.base_commit())
}

/// Builds under way, by the workspace that they are for. A build whose future was dropped still
/// needs a moment to end git and to remove its files.
#[derive(Default)]
pub struct Builds(Mutex<HashMap<String, watch::Receiver<()>>>);

// === impl Builds ===

impl Builds {
    /// Builds the base. Dropping the future cancels it, and the files are removed a moment later;
    /// [`ended`](Self::ended) waits for that.
    pub async fn build(
        &self,
        layout: &Layout,
        spec: Arc<WorkspaceSpec>,
        progress: Progress,
    ) -> Result<(), Fault> {
        let project = project_id(&spec)?;
        let (repository, bases) = (layout.repository(&project), layout.bases(&project));
        let dates = bring::dates(layout, &spec);
        let cancel = CancelOnDrop(Cancel::default());
        let cancelled = cancel.0.clone();
        let (alive, ended) = watch::channel(());
        let workspace = spec.id.clone();
        self.locked().insert(workspace.clone(), ended);
        let built = try_blocking(move || {
            // Dropped at the end on every path.
            let _alive = alive;
            let bare = Bare::open_or_init(&repository, &spec.code.object_format)?;
            let commit = spec.code.base_commit();
            let tell = |done: u64, total: u64| progress.report("checking out", done, total);
            let build = Build {
                bases_dir: &bases,
                dates: &dates,
                cancel: &cancelled,
                progress: &tell,
            };
            Ok(build_base_dated(&bare, commit, &build)?)
        })
        .await;
        self.locked().remove(&workspace);
        built
    }

    /// Runs work for a workspace to its end even when the future is dropped; [`ended`](Self::ended)
    /// waits for that.
    pub async fn uninterrupted<T: Send + 'static>(
        &self,
        workspace: &str,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (alive, ended) = watch::channel(());
        self.locked().insert(workspace.to_owned(), ended);
        let done = try_blocking(move || {
            let _alive = alive;
            work()
        })
        .await;
        self.locked().remove(workspace);
        done
    }

    /// Waits until no build and no other work for the workspace is left.
    pub async fn ended(&self, workspace: &str) {
        let build = self.locked().remove(workspace);
        if let Some(mut build) = build {
            // Nothing is ever sent: the only change is that the sender is dropped.
            let _ = build.changed().await;
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cancels the build when its future is dropped.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}
