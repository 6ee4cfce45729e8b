//! Updates the trees that workspaces with `isolation = "project"` show each other: copies them
//! while they run, and removes those of deleted workspaces.
//!
//! One task does it all, one workspace after the other, so a large project costs no more at a time
//! than one workspace. It sleeps while no workspace is of this kind.

use super::{App, stopped, until_stopped};
use holm_core::exec::ExecOutput;
use holm_core::plan::State;
use holm_core::spec::Siblings;
use holm_core::{Code, Fault, ProjectId, WorkspaceId};
use holm_engine::storage::{Piece, SiblingTree};
use holm_engine::store::WorkspaceRecord;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// The shortest interval between two checks of a tree.
const EVERY: Duration = Duration::from_secs(5);
/// Checks take at most this fraction of the time.
const SHARE: u32 = 20;
/// Collects several events that happen at once.
const BREATH: Duration = Duration::from_millis(100);

/// What was last shown of a workspace.
struct Shown {
    tree: String,
    looked: Instant,
    took: Duration,
}

pub fn begin(app: &Arc<App>) {
    let work = keep(Arc::clone(app));
    tokio::spawn(until_stopped(Arc::clone(app), work));
}

async fn keep(app: Arc<App>) {
    let mut news = app.events.news();
    let mut shown = HashMap::new();
    loop {
        let is_there = match app.show_trees(&mut shown).await {
            Ok(is_there) => is_there,
            Err(fault) => {
                tracing::warn!(%fault, "the trees of siblings were not looked at");
                true
            }
        };
        tokio::select! {
            // The channel closes with the daemon.
            changed = news.changed() => if changed.is_err() {
                return stopped(app).await;
            },
            () = tokio::time::sleep(EVERY), if is_there => {}
        }
        tokio::time::sleep(BREATH).await;
        news.mark_unchanged();
    }
}

// === impl App ===

impl App {
    /// Returns whether there is any workspace of this kind.
    async fn show_trees(&self, shown: &mut HashMap<WorkspaceId, Shown>) -> Result<bool, Fault> {
        let names = self.engine.names().await?;
        let records = names.into_iter().map(|(record, _)| record);
        let showing: Vec<_> = records
            .filter(|record| record.spec.siblings == Siblings::Shown)
            .collect();
        shown.retain(|id, _| showing.iter().any(|record| record.id == *id));
        for driver in self.engine.drivers().all() {
            let mut projects: HashMap<ProjectId, HashSet<WorkspaceId>> = HashMap::new();
            let of_driver = |record: &&WorkspaceRecord| record.spec.driver == driver.name();
            for record in showing.iter().filter(of_driver) {
                let ids = projects.entry(record.project_id.clone()).or_default();
                ids.insert(record.id.clone());
            }
            driver.show_only(projects).await?;
        }
        for record in &showing {
            if shown.get(&record.id).is_some_and(|shown| !shown.is_due()) {
                continue;
            }
            if self.engine.show(&record.id).await?.state != State::Running {
                continue;
            }
            let begun = Instant::now();
            let known = shown.get(&record.id).map(|shown| shown.tree.clone());
            let tree = match self.show_tree(record, known.as_deref()).await {
                Ok(tree) => tree,
                Err(fault) => {
                    // It may have been stopped or removed meanwhile; the shown tree stays.
                    tracing::info!(id = %record.id, %fault, "a tree was not shown to siblings");
                    known.unwrap_or_default()
                }
            };
            let now = Shown {
                tree,
                looked: Instant::now(),
                took: begun.elapsed(),
            };
            shown.insert(record.id.clone(), now);
        }
        Ok(!showing.is_empty())
    }

    /// Shows the current tree, if it changed; returns its id.
    async fn show_tree(
        &self,
        record: &WorkspaceRecord,
        known: Option<&str>,
    ) -> Result<String, Fault> {
        let id = &record.id;
        let tree = self.engine.tree_of_running(id).await?.unwrap_or_default();
        if known == Some(tree.as_str()) {
            return Ok(tree);
        }
        let mut archive = self.engine.export(id, &tree).await?;
        let (pieces, arriving) = mpsc::channel(16);
        // The receiver may give up, and reports why.
        let sending = async move {
            while let Some(output) = archive.output.recv().await {
                match output {
                    ExecOutput::Stdout(bytes) => {
                        let sent = pieces.send(Piece::Bytes(bytes.to_vec())).await;
                        if sent.is_err() {
                            return Ok(());
                        }
                    }
                    ExecOutput::Exit(0) => {
                        let _ = pieces.send(Piece::End).await;
                        return Ok(());
                    }
                    ExecOutput::Exit(code) => return Err(not_shown(&format!("exit code {code}"))),
                    ExecOutput::Failed(fault) => return Err(fault),
                    _ => {}
                }
            }
            Err(not_shown("it ended without saying how"))
        };
        let shown = SiblingTree {
            project: record.project_id.clone(),
            workspace: id.clone(),
            archive: arriving,
        };
        let showing = self.engine.driver(&record.spec)?.show_tree(shown);
        let (sent, put) = tokio::join!(sending, showing);
        sent?;
        put?;
        Ok(tree)
    }
}

fn not_shown(why: &str) -> Fault {
    Fault::new(
        Code::GitFailed,
        format!("the tree could not be had from inside: {why}"),
        "look inside: `holm exec WS -- git status`",
    )
}

// === impl Shown ===

impl Shown {
    fn is_due(&self) -> bool {
        self.looked.elapsed() >= EVERY.max(self.took * SHARE)
    }
}
