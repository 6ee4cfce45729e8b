//! Finds conflicts between the last turns of a project's live workspaces, and with the user's branch, by merging
//! trees in a repository that is made for one merge ([`holm_git::Merge`]). A task records them with each
//! new turn.
//!
//! A pair is merged only if both changed a path of the same name, and once: what was found is remembered by the
//! trees and their base.

use super::{App, stopped, until_stopped};
use crate::work::escaped;
use holm_core::conflict::{Conflict, Other, Touched};
use holm_core::{Fault, ProjectId, WorkspaceId};
use holm_engine::review::TurnRecord;
use holm_engine::store::{ProjectRecord, WorkspaceRecord};
use holm_engine::try_blocking;
use holm_git::{Bare, Cancel, Merge, TurnObjects, can_merge_trees};
use jiff::Timestamp;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::hash::RandomState;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// What is known about pairs of trees.
pub struct Conflicts {
    /// Merges happen below it; the next start deletes what a crash left there.
    directory: PathBuf,
    hashes: RandomState,
    touched: Memory<(Option<String>, String), Touched>,
    merged: Memory<Pair, Paths>,
    recorded: mpsc::UnboundedSender<WorkspaceId>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<WorkspaceId>>>,
}

/// The merge base and two trees.
type Pair = (Option<String>, [String; 2]);

type Paths = Vec<Vec<u8>>;

type Memory<Key, Value> = Mutex<HashMap<Key, Arc<Value>>>;

/// The conflicts of one workspace.
#[derive(Debug, Default)]
pub struct Found {
    pub conflicts: Vec<Conflict>,
    /// The branch that it was compared with.
    pub branch: Option<String>,
    /// What could not be computed, and why.
    pub notes: Vec<String>,
}

/// A conflict that needs a person.
#[derive(Clone, Debug)]
pub struct LiveConflict {
    pub workspace: WorkspaceRecord,
    /// When the turn was recorded that has it.
    pub since: Timestamp,
    pub conflict: Conflict,
}

/// Which others a workspace is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    Everything,
    /// For a workspace that asks about itself: it must not learn of its siblings.
    Branch,
}

/// One of two trees.
#[derive(Clone)]
struct Side {
    objects: TurnObjects,
    /// What its changes are counted from.
    start: Option<String>,
    tree: String,
}

/// A merge takes no longer; hostile contents could make it.
const LONGEST: Duration = Duration::from_secs(10);

/// What is remembered is forgotten together when it is more.
const MOST_REMEMBERED: usize = 4096;

// === impl Conflicts ===

impl Conflicts {
    pub fn new(data_dir: &Path) -> Self {
        let (recorded, receiver) = mpsc::unbounded_channel();
        Self {
            directory: data_dir.join("turns"),
            hashes: RandomState::new(),
            touched: Mutex::default(),
            merged: Mutex::default(),
            recorded,
            receiver: Mutex::new(Some(receiver)),
        }
    }

    /// Has the conflicts of a new turn recorded, soon.
    pub fn turn_recorded(&self, id: &WorkspaceId) {
        // The channel closes with the daemon.
        let _ = self.recorded.send(id.clone());
    }

    /// The paths of a side that differ from its start. Blocks.
    fn touched(&self, side: &Side) -> Result<Arc<Touched>, Fault> {
        let key = (side.start.clone(), side.tree.clone());
        remembered(&self.touched, key, || {
            let start = side.start.as_deref();
            let changed = side.objects.changed_paths(start, &side.tree)?;
            Ok(Touched::new(&changed, &self.hashes))
        })
    }

    /// The paths of two sides that cannot be merged. Blocks.
    fn of_pair(
        &self,
        bare: &Bare,
        sides: [&Side; 2],
        cancel: &Cancel,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let [one, other] = sides;
        if one.tree == other.tree {
            return Ok(Vec::new());
        }
        let touched = [self.touched(one)?, self.touched(other)?];
        if !touched[0].overlaps(&touched[1]) {
            return Ok(Vec::new());
        }
        let from_one = self.merged(bare, sides, one.start.as_deref(), cancel)?;
        let mut found = from_one.to_vec();
        if one.start != other.start && !found.is_empty() {
            // From the start of one side, the other side also has what differs between the two starts, which is no
            // work of these workspaces. Their own changes meet in both merges.
            let from_other = self.merged(bare, sides, other.start.as_deref(), cancel)?;
            found.retain(|path| from_other.contains(path));
        }
        Ok(found)
    }

    /// The paths that cannot be merged if both sides are changes of `base`. Blocks.
    fn merged(
        &self,
        bare: &Bare,
        sides: [&Side; 2],
        base: Option<&str>,
        cancel: &Cancel,
    ) -> Result<Arc<Vec<Vec<u8>>>, Fault> {
        let base = base.map(str::to_owned);
        let mut trees = sides.map(|side| side.tree.clone());
        trees.sort();
        remembered(&self.merged, (base.clone(), trees.clone()), || {
            let merge = Merge {
                objects: sides.map(|side| side.objects.objects_dir()).to_vec(),
                object_format: bare.object_format().to_owned(),
                base,
                sides: trees,
            };
            let place = format!(".merge-{}", WorkspaceId::random());
            Ok(merge.conflicts(&self.directory.join(place), cancel)?)
        })
    }
}

/// The known value, or what `find` returns. Two threads that find it at the same time find the same.
fn remembered<Key: std::hash::Hash + Eq, Value>(
    memory: &Memory<Key, Value>,
    key: Key,
    find: impl FnOnce() -> Result<Value, Fault>,
) -> Result<Arc<Value>, Fault> {
    let lock = || memory.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(value) = lock().get(&key) {
        return Ok(Arc::clone(value));
    }
    let value = Arc::new(find()?);
    let mut all = lock();
    if all.len() >= MOST_REMEMBERED {
        all.clear();
    }
    all.insert(key, Arc::clone(&value));
    Ok(value)
}

/// Records the conflicts of each new turn, one after the other.
pub fn begin(app: &Arc<App>) {
    let receiver = app.conflicts.receiver.lock();
    let receiver = receiver.unwrap_or_else(PoisonError::into_inner).take();
    if let Some(receiver) = receiver {
        let work = keep(Arc::clone(app), receiver);
        tokio::spawn(until_stopped(Arc::clone(app), work));
    }
}

async fn keep(app: Arc<App>, mut receiver: mpsc::UnboundedReceiver<WorkspaceId>) {
    while let Some(id) = receiver.recv().await {
        if let Err(fault) = app.record_conflicts(&id).await {
            tracing::warn!(%id, %fault, "conflicts were not looked for");
        }
    }
    stopped(app).await;
}

// === impl App ===

impl App {
    /// Every recorded conflict of live workspaces that still holds, each pair once. For lists of what needs a
    /// person: merges nothing.
    pub async fn live_conflicts(&self) -> Result<Vec<LiveConflict>, Fault> {
        let names = self.engine.names().await?;
        let mut last = HashMap::new();
        for (record, _) in &names {
            if let Some(turn) = self.engine.last_turn(&record.id).await? {
                last.insert(record.id.clone(), turn);
            }
        }
        let tree_of = |id: &WorkspaceId| last.get(id).map(|turn| turn.tree.clone());
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        for (record, _) in names {
            let Some(turn) = last.get(&record.id) else {
                continue;
            };
            for conflict in &turn.details.conflicts {
                let holds = match &conflict.with {
                    Other::Workspace { id, .. } => {
                        let mut pair = [record.id.clone(), id.clone()];
                        pair.sort();
                        conflict.holds(tree_of) && seen.insert(pair)
                    }
                    Other::Branch { name, commit } => {
                        let tip = self.branch(&record.project_id, name).await?;
                        tip.as_ref() == Some(commit)
                    }
                };
                if holds {
                    found.push(LiveConflict {
                        workspace: record.clone(),
                        since: turn.at,
                        conflict: conflict.clone(),
                    });
                }
            }
        }
        Ok(found)
    }

    /// The conflicts of a turn that is the last of its workspace. `among` says with whom.
    pub async fn conflicts_of(&self, turn: &TurnRecord, among: Among) -> Result<Found, Fault> {
        if !try_blocking(|| Ok(can_merge_trees()?)).await? {
            let note = "conflicts are not known: git 2.38 or newer on this machine finds them";
            return Ok(Found {
                notes: vec![note.to_owned()],
                ..Found::default()
            });
        }
        let id = &turn.workspace;
        let project = self.engine.project_of(id).await?;
        let own = self.side(turn).await?;
        let mut found = Found::default();
        if among == Among::Everything {
            for (record, _) in self.engine.names().await? {
                if record.project_id != project.id || record.id == *id {
                    continue;
                }
                let Some(last) = self.engine.last_turn(&record.id).await? else {
                    continue;
                };
                let with = Other::Workspace {
                    id: record.id.clone(),
                    tree: last.tree.clone(),
                };
                let side = self.side(&last).await?;
                let name = record.label.to_string();
                self.compare_pair(&project, [&own, &side], with, &name, &mut found)
                    .await;
            }
        }
        self.compare_with_branch(&project, turn, &own, &mut found)
            .await?;
        Ok(found)
    }

    /// Compares with the branch that the workspace started from, as the user's repository last sent it.
    async fn compare_with_branch(
        &self,
        project: &ProjectRecord,
        turn: &TurnRecord,
        own: &Side,
        found: &mut Found,
    ) -> Result<(), Fault> {
        let spec = self.engine.spec(&turn.workspace).await?;
        let (Some(name), Some(start)) = (spec.code.ref_name.clone(), own.start.clone()) else {
            return Ok(());
        };
        let Some(tip) = self.branch(&project.id, &name).await? else {
            return Ok(());
        };
        found.branch = Some(name.clone());
        if tip == start {
            return Ok(());
        }
        let (repositories, project_record) = (self.repositories.clone(), project.clone());
        let (one, other) = (start, tip.clone());
        let base = try_blocking(move || {
            let bare = repositories.open(&project_record)?;
            Ok(bare.merge_base(&one, &other)?)
        });
        let side = Side {
            objects: own.objects.clone(),
            start: base.await?,
            tree: tip.clone(),
        };
        let with = Other::Branch {
            name: name.clone(),
            commit: tip,
        };
        self.compare_pair(project, [own, &side], with, &name, found)
            .await;
        Ok(())
    }

    /// Adds what cannot be merged; a merge that fails or takes too long is a note.
    async fn compare_pair(
        &self,
        project: &ProjectRecord,
        sides: [&Side; 2],
        with: Other,
        name: &str,
        found: &mut Found,
    ) {
        let cancel = Cancel::default();
        let (conflicts, repositories) = (Arc::clone(&self.conflicts), self.repositories.clone());
        let (project, sides) = (project.clone(), sides.map(Side::clone));
        let cancelled = cancel.clone();
        let work = try_blocking(move || {
            let bare = repositories.open(&project)?;
            conflicts.of_pair(&bare, [&sides[0], &sides[1]], &cancelled)
        });
        let paths = tokio::time::timeout(LONGEST, work).await;
        match paths {
            Ok(Ok(paths)) => {
                let paths = paths.iter().map(|path| escaped(path)).collect();
                found.conflicts.extend(Conflict::new(with, paths));
            }
            Ok(Err(fault)) => {
                tracing::warn!(%fault, "two trees were not merged");
                let note = format!("not compared with {name}: {}", fault.message());
                found.notes.push(note);
            }
            Err(_) => {
                cancel.raise();
                let seconds = LONGEST.as_secs();
                let note = format!("not compared with {name}: that takes more than {seconds} s");
                found.notes.push(note);
            }
        }
    }

    async fn side(&self, turn: &TurnRecord) -> Result<Side, Fault> {
        Ok(Side {
            objects: self.turn_objects(&turn.workspace).await?,
            start: turn.details.start.clone(),
            tree: turn.tree.clone(),
        })
    }

    async fn branch(&self, project: &ProjectId, name: &str) -> Result<Option<String>, Fault> {
        let project = self.engine.project(project).await?;
        let (repositories, name) = (self.repositories.clone(), name.to_owned());
        try_blocking(move || Ok(repositories.open(&project)?.branch(&name)?)).await
    }

    async fn record_conflicts(&self, id: &WorkspaceId) -> Result<(), Fault> {
        let Some(turn) = self.engine.last_turn(id).await? else {
            return Ok(());
        };
        let found = self.conflicts_of(&turn, Among::Everything).await?;
        let _lock = self.turns.lock(id).await;
        let last = self.engine.last_turn(id).await?;
        // A newer turn has its own.
        let Some(mut last) = last.filter(|last| last.number == turn.number) else {
            return Ok(());
        };
        if last.details.conflicts == found.conflicts {
            return Ok(());
        }
        last.details.conflicts = found.conflicts;
        let count = last.details.conflicts.len();
        self.engine.save_turn(last).await?;
        let detail = json!({ "turn": turn.number, "conflicts": count });
        self.events.emit(id, "turn.conflicts", detail).await;
        Ok(())
    }

    /// The labels of live workspaces.
    pub async fn labels(&self) -> Result<HashMap<WorkspaceId, String>, Fault> {
        let names = self.engine.names().await?.into_iter();
        Ok(names
            .map(|(record, _)| (record.id, record.label.to_string()))
            .collect())
    }
}

/// What a person calls the other side of a conflict.
pub fn name_of(with: &Other, labels: &HashMap<WorkspaceId, String>) -> String {
    match with {
        Other::Branch { name, .. } => name.clone(),
        // One that was removed a moment ago has no label any more.
        Other::Workspace { id, .. } => labels.get(id).cloned().unwrap_or_else(|| id.to_string()),
    }
}
