//! Turns: records the tree of a workspace outside, where nothing inside can change it. Called at the end of
//! runs, when sessions become quiet, when a workspace is stopped, and by commands of a person.
//!
//! git inside writes the tree and sends the objects that the host lacks; [`holm_git::TurnObjects`] checks and
//! keeps them in a repository of the workspace that is never mounted inside. [`check`] then compares the
//! result with the writable layer, which the driver reads from outside.

mod automatic;
mod check;
mod restore;
mod route;
mod seen;

pub use automatic::begin;
pub use restore::Ignored;
pub use route::{changed_files, routes};

use super::App;
use super::startup::{private_dir, unusable};
use check::Checked;
use holm_core::spec::WorkspaceSpec;
use holm_core::tree_change::sum_of_lines;
use holm_core::turn::{Discrepancy, DiscrepancyKind, TurnCause, TurnNumber};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::driver::LayerChanges;
use holm_engine::review::{TurnDetails, TurnRecord};
use holm_engine::{Stopped, TurnRequest, WrittenTree, clock, try_blocking};
use holm_git::{OBJECTS_INSIDE, TurnObjects};
use holm_keeper::files::remove::remove_tree;
use seen::{Kept, ReadLayer};
use serde_json::json;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// The repositories of turns, one per workspace, and what was seen of their layers.
pub struct Turns {
    directory: PathBuf,
    recordings: Mutex<HashMap<WorkspaceId, Recording>>,
}

#[derive(Default)]
struct Recording {
    /// Held while a turn of the workspace is recorded.
    lock: Arc<tokio::sync::Mutex<()>>,
    /// The layer whose tree was found to be the last turn's, or the start.
    same: Option<[u8; 32]>,
    /// What the last recording read.
    seen: Option<Arc<ReadLayer>>,
}

/// Whether an unchanged look at the layer is enough to say that the tree is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// The cheap way, for turns that holm records by itself.
    Look,
    /// Every file is read again: two changes within one tick of the clock look the same.
    Read,
}

/// The tree of this moment.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The last turn; `None`: nothing was ever changed.
    pub turn: Option<TurnRecord>,
    /// Whether this recording added it.
    pub is_new: bool,
}

/// How often a recording is repeated when files change meanwhile.
const TRIES: usize = 3;

/// How many turns of a workspace stay, besides those that something refers to; surplus ones are dropped
/// together.
const KEPT: u64 = 200;
const DROPPED_AT_ONCE: u64 = 20;

// === impl Turns ===

impl Turns {
    pub fn open(data_dir: &Path) -> Result<Self, Fault> {
        let directory = data_dir.join("turns");
        private_dir(&directory)?;
        Ok(Self {
            directory,
            recordings: Mutex::default(),
        })
    }

    fn repository(&self, id: &WorkspaceId) -> PathBuf {
        self.directory.join(id.as_str())
    }

    /// The logs of checks. They are with the turns, so that they go with them.
    pub fn check_logs(&self, id: &WorkspaceId) -> PathBuf {
        self.repository(id).join("checks")
    }

    /// The names of checks are names of files.
    pub fn check_log(&self, id: &WorkspaceId, name: &str) -> PathBuf {
        self.check_logs(id).join(format!("{name}.log"))
    }

    /// Waits until no other turn of the workspace is being recorded.
    pub async fn lock(&self, id: &WorkspaceId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut recordings = self
                .recordings
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Arc::clone(&recordings.entry(id.clone()).or_default().lock)
        };
        lock.lock_owned().await
    }

    fn is_same(&self, id: &WorkspaceId, layer: &[u8; 32]) -> bool {
        let recordings = self
            .recordings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        recordings
            .get(id)
            .is_some_and(|place| place.same.as_ref() == Some(layer))
    }

    fn note_same(&self, id: &WorkspaceId, layer: Option<[u8; 32]>) {
        let mut recordings = self
            .recordings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        recordings.entry(id.clone()).or_default().same = layer;
    }

    fn seen(&self, id: &WorkspaceId) -> Option<Arc<ReadLayer>> {
        let recordings = self
            .recordings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        recordings.get(id)?.seen.clone()
    }

    fn note_seen(&self, id: &WorkspaceId, seen: Option<ReadLayer>) {
        let mut recordings = self
            .recordings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        recordings.entry(id.clone()).or_default().seen = seen.map(Arc::new);
    }

    /// Deletes the turns of a workspace. Blocks.
    fn delete(&self, id: &WorkspaceId) -> io::Result<()> {
        self.recordings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
        let path = self.repository(id);
        if path.exists() {
            remove_tree(&path)
        } else {
            Ok(())
        }
    }

    /// Deletes the turns of workspaces that no longer exist. Blocks.
    pub fn sweep(&self, is_known: impl Fn(&WorkspaceId) -> bool) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_kept = WorkspaceId::parse(&name).is_ok_and(|id| is_known(&id));
            if !is_kept && let Err(error) = remove_tree(&entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "not deleted");
            }
        }
    }
}

// === impl App ===

impl App {
    /// Deletes turns that an earlier daemon left behind.
    pub async fn sweep_turns(self: &Arc<Self>) -> Result<(), Fault> {
        let mut known: Vec<WorkspaceId> = self
            .engine
            .trash()
            .await?
            .into_iter()
            .map(|view| view.record.id)
            .collect();
        known.extend(
            self.engine
                .names()
                .await?
                .into_iter()
                .map(|(record, _)| record.id),
        );
        let app = Arc::clone(self);
        try_blocking(move || {
            app.turns.sweep(|id| known.contains(id));
            Ok(())
        })
        .await
    }

    /// Records the tree of a workspace, if it is another one than before. The workspace has to run, unless
    /// its layer shows that nothing changed.
    pub async fn record_turn(
        &self,
        id: &WorkspaceId,
        cause: TurnCause,
        effort: Effort,
    ) -> Result<Recorded, Fault> {
        let _lock = self.turns.lock(id).await;
        let recorded = self.record_or_find(id, cause, effort).await?;
        // The store forgets it together with a new turn.
        if !recorded.is_new {
            self.engine.forget_turn_failure(id).await?;
        }
        Ok(recorded)
    }

    async fn record_or_find(
        &self,
        id: &WorkspaceId,
        cause: TurnCause,
        effort: Effort,
    ) -> Result<Recorded, Fault> {
        let spec = self.engine.spec(id).await?;
        let last = self.engine.last_turn(id).await?;
        let driver = self.engine.driver(&spec)?;
        let mut taken = None;
        for _ in 0..TRIES {
            let listed = driver.layer_changes(&spec).await?;
            if let Some(listed) = &listed
                && effort == Effort::Look
                && self.is_unchanged(id, listed, last.as_ref())
            {
                return Ok(Recorded::unchanged(last));
            }
            let (written, checked) = self
                .take_tree(id, &spec, listed, last.as_ref(), effort)
                .await?;
            let is_still = !checked.is_moving();
            taken = Some((written, checked));
            if is_still {
                break;
            }
        }
        match taken {
            Some((written, checked)) => self.add_turn(&spec, cause, last, written, checked).await,
            None => Ok(Recorded::unchanged(last)),
        }
    }

    /// The same for a command of a person: starts a stopped workspace that changed since the last turn.
    pub async fn mark_turn(&self, id: &WorkspaceId, effort: Effort) -> Result<Recorded, Fault> {
        match self.record_turn(id, TurnCause::Mark, effort).await {
            Err(fault) if !self.is_running(id).await => {
                tracing::info!(%id, %fault, "started to record its tree");
                self.engine.wake(id, Stopped::Start).await?;
                self.record_turn(id, TurnCause::Mark, effort).await
            }
            recorded => recorded,
        }
    }

    pub async fn is_running(&self, id: &WorkspaceId) -> bool {
        self.engine.wake(id, Stopped::Refuse).await.is_ok()
    }

    fn is_unchanged(
        &self,
        id: &WorkspaceId,
        listed: &LayerChanges,
        last: Option<&TurnRecord>,
    ) -> bool {
        let is_last = last.is_some_and(|last| last.details.layer == Some(hex(&listed.digest)));
        let is_nothing = LayerChanges {
            digest: listed.digest,
            ..LayerChanges::default()
        };
        is_last
            || (last.is_none() && *listed == is_nothing)
            || self.turns.is_same(id, &listed.digest)
    }

    /// Has git inside write the tree, takes its objects and compares them with the layer.
    async fn take_tree(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
        listed: Option<LayerChanges>,
        last: Option<&TurnRecord>,
        effort: Effort,
    ) -> Result<(WrittenTree, Checked), Fault> {
        let objects = self.turn_objects(id).await?;
        let base = spec.code.base_commit().map(str::to_owned);
        let kept = match (&listed, last) {
            (Some(listed), Some(last)) if effort == Effort::Look => {
                self.kept(id, &objects, listed, &last.tree, base.as_deref())
                    .await?
            }
            _ => Kept::default(),
        };
        let known = match last {
            None => Vec::new(),
            Some(last) => {
                let (objects, tree, base) = (objects.clone(), last.tree.clone(), base.clone());
                let is_partial = kept.tree.is_some();
                try_blocking(move || {
                    Ok(if is_partial {
                        objects.trees_of(&tree, base.as_deref())?
                    } else {
                        objects.objects_of(&tree, base.as_deref())?
                    })
                })
                .await?
            }
        };
        let mut pack = self.turns.scratch()?;
        let place = pack
            .try_clone()
            .map_err(|error| self.turns.unusable(error))?;
        let request = TurnRequest {
            listed: listed.as_ref(),
            kept: &kept.entries,
            last: last.map(|last| last.tree.as_str()),
            known: &known,
            objects: OBJECTS_INSIDE,
        };
        let written = self.engine.write_tree(id, spec, request, place).await?;
        let tree = written.tree.clone();
        pack.rewind().map_err(|error| self.turns.unusable(error))?;
        let taking = objects.clone();
        try_blocking(move || Ok(taking.take(pack, &tree)?)).await?;
        let checked = self
            .check_turn(spec, &objects, &written, listed, kept)
            .await?;
        Ok((written, checked))
    }

    /// The files that are as the last recording found them, and their entries in its tree.
    async fn kept(
        &self,
        id: &WorkspaceId,
        objects: &TurnObjects,
        listed: &LayerChanges,
        tree: &str,
        base: Option<&str>,
    ) -> Result<Kept, Fault> {
        let seen = self.turns.seen(id);
        let Some(seen) = seen.filter(|seen| seen.tree == tree && seen.base.as_deref() == base)
        else {
            return Ok(Kept::default());
        };
        let (objects, files) = (objects.clone(), listed.files.clone());
        let tree = tree.to_owned();
        let entries = try_blocking(move || Ok(objects.entries(&tree, &files)?)).await?;
        Ok(seen.kept(listed, entries))
    }

    async fn add_turn(
        &self,
        spec: &WorkspaceSpec,
        cause: TurnCause,
        last: Option<TurnRecord>,
        written: WrittenTree,
        checked: Checked,
    ) -> Result<Recorded, Fault> {
        let id = WorkspaceId::parse(&spec.id).map_err(|error| {
            Fault::new(
                Code::CorruptState,
                "a stored workspace is damaged",
                "holm doctor",
            )
            .because(error)
        })?;
        let layer = checked.layer;
        self.turns.note_seen(&id, checked.seen);
        if let Some(mut last) = last.clone().filter(|last| last.tree == written.tree) {
            let now = layer.as_ref().map(|layer| hex(layer));
            if last.details.layer != now || last.details.discrepancies != checked.found {
                last.details.layer = now;
                last.details.discrepancies = checked.found;
                self.engine.save_turn(last.clone()).await?;
            }
            return Ok(Recorded::unchanged(Some(last)));
        }
        let objects = self.turn_objects(&id).await?;
        let start = spec.code.commit.clone();
        let before = last
            .as_ref()
            .map(|last| last.tree.clone())
            .or_else(|| start.clone());
        let (tree, comparing) = (written.tree.clone(), objects.clone());
        let changes = match checked.since_last {
            Some(changes) => changes,
            None => try_blocking(move || Ok(comparing.changes(before.as_deref(), &tree)?)).await?,
        };
        if last.is_none() && changes.is_empty() && checked.found.is_empty() {
            self.turns.note_same(&id, layer);
            return Ok(Recorded::unchanged(None));
        }
        let number = last.map_or(0, |last| last.number) + 1;
        let (added, removed) = sum_of_lines(&changes);
        let turn = TurnRecord {
            workspace: id.clone(),
            number,
            at: clock::wall(),
            cause,
            tree: written.tree,
            details: TurnDetails {
                files: changes.len() as u64,
                added,
                removed,
                start,
                layer: layer.as_ref().map(|layer| hex(layer)),
                discrepancies: checked.found,
                conflicts: Vec::new(),
            },
        };
        let (tree, marking) = (turn.tree.clone(), objects.clone());
        try_blocking(move || Ok(marking.mark(number, &tree)?)).await?;
        self.engine.add_turn(turn.clone()).await?;
        self.turns.note_same(&id, None);
        let detail =
            json!({ "turn": number, "cause": cause.as_str(), "files": turn.details.files });
        self.events.emit(&id, "turn.recorded", detail).await;
        self.conflicts.turn_recorded(&id);
        if number.is_multiple_of(DROPPED_AT_ONCE) {
            self.drop_surplus_turns(&id, objects).await;
        }
        Ok(Recorded {
            turn: Some(turn),
            is_new: true,
        })
    }

    async fn drop_surplus_turns(&self, id: &WorkspaceId, objects: TurnObjects) {
        let dropped = async {
            let numbers = self.engine.forget_surplus_turns(id, KEPT).await?;
            if numbers.is_empty() {
                return Ok(());
            }
            try_blocking(move || Ok(objects.forget(&numbers)?)).await
        };
        if let Err(fault) = dropped.await {
            tracing::warn!(%id, %fault, "old turns stay");
        }
    }

    /// The repository of a workspace's turns, also of one in the trash.
    pub async fn turn_objects(&self, id: &WorkspaceId) -> Result<TurnObjects, Fault> {
        let project = self.engine.project_of(id).await?;
        let path = self.turns.repository(id);
        let repositories = self.repositories.clone();
        try_blocking(move || {
            let bare = repositories.open(&project)?;
            let format = project.object_format.as_str();
            Ok(TurnObjects::open_or_init(
                &path,
                &bare.objects_dir(),
                format,
            )?)
        })
        .await
    }

    /// The turn that a person named (`@3`).
    pub async fn turn(&self, id: &WorkspaceId, number: TurnNumber) -> Result<TurnRecord, Fault> {
        let turns = self.engine.turns(id).await?;
        let last = turns.last().map(|turn| turn.number);
        let mut turns = turns.into_iter();
        turns.find(|turn| turn.number == number.0).ok_or_else(|| {
            let hint = match last {
                Some(last) => format!("the last is @{last}; `holm turns {id}` lists them"),
                None => format!("it has none yet; `holm review {id} --mark` records one"),
            };
            Fault::new(
                Code::TurnNotFound,
                format!("workspace {id} has no turn {number}"),
                hint,
            )
        })
    }
}

// === impl Recorded ===

impl Recorded {
    fn unchanged(turn: Option<TurnRecord>) -> Self {
        Self {
            turn,
            is_new: false,
        }
    }
}

// === impl Turns ===

impl Turns {
    /// A file without a name.
    fn scratch(&self) -> Result<File, Fault> {
        let path = self.directory.join(format!(".{}", WorkspaceId::random()));
        let open = || {
            let mut options = File::options();
            let file = options
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        };
        open().map_err(|error| self.unusable(error))
    }

    fn unusable(&self, error: io::Error) -> Fault {
        unusable("write to", &self.directory, error)
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The kinds that say that a recording met a change.
fn is_moving(found: &Discrepancy) -> bool {
    found.kind == DiscrepancyKind::Moving
}
