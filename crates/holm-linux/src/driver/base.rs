//! Bases: one immutable tree per project and commit, made by git on the host's own repository.

use super::{blocking, project_id};
use crate::Layout;
use holm_core::{Fault, ProjectId};
use holm_engine::driver::Progress;
use holm_engine::spec::WorkspaceSpec;
use holm_git::{Bare, Cancel, base_is_present, build_base};
use std::path::PathBuf;
use std::sync::Arc;

/// What a base is called that has no commit.
const EMPTY: &str = "empty";

pub fn tree(layout: &Layout, project: &ProjectId, spec: &WorkspaceSpec) -> PathBuf {
    let name = spec.code.commit.as_deref().unwrap_or(EMPTY);
    layout.bases(project).join(name).join("tree")
}

pub fn is_present(layout: &Layout, project: &ProjectId, spec: &WorkspaceSpec) -> bool {
    base_is_present(&layout.bases(project), spec.code.commit.as_deref())
}

/// Builds the base. Dropping the future ends git and leaves nothing.
pub async fn build(
    layout: &Layout,
    spec: Arc<WorkspaceSpec>,
    progress: Progress,
) -> Result<(), Fault> {
    let project = project_id(&spec)?;
    let (repository, bases) = (layout.repository(&project), layout.bases(&project));
    let cancel = CancelOnDrop(Cancel::default());
    let cancelled = cancel.0.clone();
    blocking(move || {
        let bare = Bare::open_or_init(&repository, &spec.code.object_format)?;
        let commit = spec.code.commit.as_deref();
        let tell = |done: u64, total: u64| progress.tell("checking out", done, total);
        Ok(build_base(&bare, commit, &bases, &cancelled, &tell)?)
    })
    .await
}

/// Nobody waits for the work any more.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}
