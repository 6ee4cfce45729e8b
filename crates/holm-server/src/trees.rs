//! `/projects/{id}/trees`: layers that a client provides: build output of its checkout, and
//! snapshots of caches. The daemon reads neither by itself.

use super::App;
use super::caller::Caller;
use super::failure::{Answer, Body, Failure, ProjectKey, bad_request};
use super::layers::cache_key;
use axum::Json;
use axum::extract::State;
use holm_api::project::{TreeBrought, TreeName, TreePlace};
use holm_core::config::{DriverName, Name};
use holm_core::layer::LayerKey;
use holm_core::{Fault, ProjectId};
use holm_engine::Driver;
use holm_engine::storage::BroughtTree;
use std::path::Path;
use std::sync::Arc;

operations! {
    /// Begins to provide a tree: build output, or a snapshot of a cache.
    post "/projects/{id}/trees" "tree_begin" begin of (ProjectKey) sends TreeName -> TreePlace;
    /// Completes a tree.
    put "/projects/{id}/trees" "tree_finish" finish of (ProjectKey) sends TreeBrought -> TreePlace;
}

async fn begin(
    State(app): State<Arc<App>>,
    caller: Caller,
    ProjectKey(id): ProjectKey,
    Body(tree): Body<TreeName>,
) -> Answer<TreePlace> {
    app.engine.project(&id).await?;
    let key = key(&id, &tree)?;
    if app.tree_driver()?.layer(&key).await?.is_some() {
        return Ok(Json(present()));
    }
    let begun = app.uploads.new_tree()?;
    // Another user's files would not belong to the daemon.
    let may_fill = caller.is_daemon_user();
    Ok(Json(TreePlace {
        is_present: false,
        directory: may_fill.then(|| begun.directory.join("tree").display().to_string()),
        name: Some(begun.name),
    }))
}

async fn finish(
    State(app): State<Arc<App>>,
    ProjectKey(id): ProjectKey,
    Body(brought): Body<TreeBrought>,
) -> Answer<TreePlace> {
    app.engine.project(&id).await?;
    let key = key(&id, &brought.tree)?;
    let directory = app.uploads.take_tree(&brought.name)?;
    let received = match &brought.upload {
        Some(upload) => Some(app.uploads.take(upload)?),
        None => None,
    };
    let tree = BroughtTree {
        layer: key,
        directory,
        archive: received.as_ref().map(|received| received.path().to_owned()),
        dates: brought.dates,
        installed: brought.installed,
    };
    app.tree_driver()?.keep_tree(tree).await?;
    Ok(Json(present()))
}

// === impl App ===

impl App {
    /// Clients put trees into a directory of this machine, so only the driver of this machine has a
    /// use for them.
    fn tree_driver(&self) -> Result<&Arc<dyn Driver>, Fault> {
        self.engine.drivers().require(DriverName::Linux)
    }
}

fn present() -> TreePlace {
    TreePlace {
        is_present: true,
        name: None,
        directory: None,
    }
}

fn key(project: &ProjectId, tree: &TreeName) -> Result<LayerKey, Failure> {
    match tree {
        TreeName::Warm => Ok(LayerKey::warm(project.as_str())),
        TreeName::Cache { name, path } => {
            let name =
                Name::parse(name).map_err(|_| bad_request("`name` is not the name of a cache"))?;
            Ok(cache_key(project.as_str(), &name, Path::new(path)))
        }
    }
}
