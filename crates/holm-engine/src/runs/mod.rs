//! Runs: started once per key, held by the workspace's keeper, followed to their end, stored.
//!
//! The row is in the store before any work starts, so a repeated request finds it, and on the disk
//! before the request is answered. A run continues
//! without this daemon; the next one follows it again ([`Engine::resume_runs`]).

mod changes;
mod credentials;
mod follow;

pub use credentials::{
    Credential, Existing, HomeFile, Instructions, MOST_CREDENTIAL, MOST_HOME_FILES, Provision,
};

use crate::clock::now;
use crate::command::Stopped;
use crate::engine::{Engine, detached};
use crate::failpoint::{self, Moment};
use crate::files::Content;
use crate::live_runs::{Live, RunProgress};
use crate::notice::Notice;
use crate::run::{RunDetails, RunFilter, RunRecord};
use crate::store::WorkspaceRecord;
use holm_core::files::{Operation, Parents, Write};
use holm_core::run::{Requester, RunOrder, RunSeen, RunState};
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault, RunId, TreePath, WorkspaceId};
use holm_keeper::client::{KeeperClient, Stream};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

#[derive(Clone, Debug)]
pub struct NewRun {
    /// `None`: a command.
    pub agent: Option<String>,
    pub argv: Vec<Vec<u8>>,
    /// Added to the workspace's own environment; not stored.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub message: Option<String>,
    /// The numbers of the review comments that the message has. They count as delivered as soon as the run is stored, and
    /// no other run gets them.
    pub comments: Vec<u64>,
    pub files: Vec<NewFile>,
    pub provision: Provision,
    pub asker: Requester,
    pub timeout: Duration,
    pub stopped: Stopped,
    /// The idempotency key, and a digest of the request.
    pub key: Option<String>,
    pub digest: String,
    /// The hint when the agent's program is not found.
    pub how_to_add: Option<String>,
    pub notes: Vec<String>,
}

/// A file that is written before a run starts.
#[derive(Clone, Debug)]
pub struct NewFile {
    pub path: TreePath,
    pub content: Vec<u8>,
    pub mode: Option<u32>,
}

/// A run that is about to start.
struct Beginning {
    new: NewRun,
    /// `None`: the workspace has to be looked at first.
    at_hand: Option<AtHand>,
}

/// What was done ahead for a run in a workspace that seems to run.
struct AtHand {
    /// Before the run.
    tree: String,
    /// Without a request yet.
    connection: JoinHandle<Option<Stream>>,
}

/// Whether a request started a run, or repeated an earlier request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    Now,
    Before,
}

/// How long to wait for a cancelled run: the grace period of its processes and the comparison of
/// the trees.
const CANCEL_LIMIT: Duration = Duration::from_secs(120);

// === impl Engine ===

impl Engine {
    /// Starts a run. Starts a stopped workspace where that is allowed; counts as use. A run that
    /// could not start leaves nothing behind.
    pub async fn create_run(
        &self,
        id: &WorkspaceId,
        new: NewRun,
    ) -> Result<(RunRecord, Begun), Fault> {
        let workspace = self.inner.live(id).await?;
        let mut record = new.record(id);
        let at_hand = self.at_hand(workspace, &new).await;
        record.details.before = at_hand.as_ref().map(|at_hand| at_hand.tree.clone());
        let live = self.inner.runs.enter(&record).ok_or_else(twice)?;
        let row = record.clone();
        let inserted = self.inner.store.call(move |store| store.insert_run(&row));
        match inserted.await {
            Ok(None) => {
                let beginning = Beginning { new, at_hand };
                Ok((self.begin(record, beginning, live).await?, Begun::Now))
            }
            Ok(Some(earlier)) => {
                self.inner.runs.leave(&record.id);
                self.sent_before(earlier, new).await
            }
            Err(fault) => {
                self.inner.runs.leave(&record.id);
                Err(fault)
            }
        }
    }

    /// Handles a key that was used before: the same request gets that run, a different one is
    /// refused.
    async fn sent_before(
        &self,
        earlier: RunRecord,
        new: NewRun,
    ) -> Result<(RunRecord, Begun), Fault> {
        if earlier.digest != new.digest {
            let key = earlier.key.unwrap_or_default();
            return Err(Fault::new(
                Code::KeyReused,
                format!(
                    "the key `{}` was used for another request",
                    key.escape_debug()
                ),
                format!(
                    "use another key; `holm runs show {}` shows that run",
                    earlier.id
                ),
            ));
        }
        loop {
            let record = self.as_begun(&earlier).await?;
            if !record.was_lost_before_start() {
                return Ok((record, Begun::Before));
            }
            // The first request starts it; the others wait for the result.
            if let Some(live) = self.inner.runs.enter(&record) {
                // A daemon died before it started the run; start it now.
                let renewed = RunRecord {
                    id: record.id,
                    ..new.record(&record.workspace)
                };
                let row = renewed.clone();
                let stored = self.inner.store.call(move |store| store.renew_run(&row));
                if let Err(fault) = stored.await {
                    self.inner.runs.leave(&renewed.id);
                    return Err(fault);
                }
                let beginning = Beginning { new, at_hand: None };
                return Ok((self.begin(renewed, beginning, live).await?, Begun::Now));
            }
        }
    }

    /// A known run, once it has started or its failure to start is stored.
    async fn as_begun(&self, record: &RunRecord) -> Result<RunRecord, Fault> {
        if let Some(live) = self.inner.runs.find(&record.id) {
            live.wait_begun().await?;
            let record = self.run(&record.workspace, &record.id).await?;
            if record.state != RunState::Queued {
                return Ok(record);
            }
            // Its daemon died before the run started; this daemon is about to store that.
            live.wait_over().await;
        }
        self.run(&record.workspace, &record.id).await
    }

    async fn begin(
        &self,
        mut record: RunRecord,
        beginning: Beginning,
        live: Arc<Live>,
    ) -> Result<RunRecord, Fault> {
        let engine = self.clone();
        let has_sign_in = beginning.new.provision.sign_ins.is_some();
        detached(async move {
            match engine.start_run(&mut record, beginning, &live).await {
                Ok(seen) => {
                    live.begun(Ok(()));
                    let run = record.id.clone();
                    let notice = Notice::RunStarted { run };
                    engine.inner.notices.send(&record.workspace, notice);
                    tokio::spawn(engine.follow(record.clone(), seen, live));
                    Ok(record)
                }
                Err(fault) => {
                    engine.take_back_files(&record).await;
                    if has_sign_in {
                        let holder = record.id.to_string();
                        engine.end_sign_ins(&record.workspace, &holder).await;
                    }
                    let run = record.clone();
                    let forgotten = engine.inner.store.call(move |store| match run.state {
                        RunState::Queued => store.take_back_run(&run),
                        _ => store.forget_run(&run.id),
                    });
                    if let Err(fault) = forgotten.await {
                        tracing::warn!(%fault, "a run that did not begin stays in the record");
                    }
                    live.begun(Err(fault.clone()));
                    live.over();
                    engine.inner.runs.leave(&record.id);
                    Err(fault)
                }
            }
        })
        .await
    }

    /// Everything up to the first process.
    async fn start_run(
        &self,
        record: &mut RunRecord,
        beginning: Beginning,
        live: &Live,
    ) -> Result<mpsc::Receiver<RunSeen>, Fault> {
        let Beginning { new, at_hand } = beginning;
        let (inner, id) = (&self.inner, record.workspace.clone());
        inner.uses.note(&id, now());
        let connection = match at_hand {
            Some(at_hand) => at_hand.connection.await.ok().flatten(),
            None => None,
        };
        let mut seen = None;
        if let Some(connection) = connection {
            refuse_cancelled(live)?;
            failpoint::pass("run", Moment::Before)?;
            let order = order(record, &new);
            // A keeper that cannot start it may have just lost its init: then the workspace is looked at.
            seen = KeeperClient::begin_run_on(connection, order).await.ok();
        }
        let mut seen = match seen {
            Some(seen) => seen,
            None => self.begin_after_a_look(record, new, live).await?,
        };
        failpoint::pass("run", Moment::After)?;
        record.state = RunState::Running;
        // The first report contains the start time.
        if let Some(first) = seen.recv().await {
            record.details.started_ms = Some(first.started_ms);
            live.started(record);
            seen = heard(first, seen, live);
        }
        let seen = self.record_start(record, seen, live).await?;
        inner.store_use(&id);
        Ok(seen)
    }

    /// Writes the row of a run to the disk while its program runs. The keeper has created its files, which would wait for
    /// a disk that writes. The run is acknowledged after that.
    async fn record_start(
        &self,
        record: &RunRecord,
        mut seen: mpsc::Receiver<RunSeen>,
        live: &Live,
    ) -> Result<mpsc::Receiver<RunSeen>, Fault> {
        let (inner, id, row) = (&self.inner, &record.workspace, record.clone());
        let mut stored = pin!(inner.store.call(move |store| {
            store.save_run(&row)?;
            store.flush()
        }));
        let stored = loop {
            tokio::select! {
                stored = &mut stored => break stored,
                Some(news) = seen.recv() => seen = heard(news, seen, live),
            }
        };
        let Err(fault) = stored else {
            return Ok(seen);
        };
        // The run is not in the store, so holm ends its program.
        if let Err(fault) = inner.keeper(id).await?.cancel_run(&record.id).await {
            tracing::warn!(%id, run = %record.id, %fault, "a run that is not recorded goes on");
        }
        Err(fault)
    }

    /// Starts the program in a workspace that was observed, and started if necessary. Sent again, an order starts no second
    /// run.
    async fn begin_after_a_look(
        &self,
        record: &mut RunRecord,
        mut new: NewRun,
        live: &Live,
    ) -> Result<mpsc::Receiver<RunSeen>, Fault> {
        let (inner, id) = (&self.inner, record.workspace.clone());
        inner.awaken(&id, new.stopped).await?;
        for file in std::mem::take(&mut new.files) {
            self.write_context(&id, file).await?;
        }
        let spec = Arc::clone(&inner.live(&id).await?.spec);
        record.details.before = self.tree_before(&id, &spec, record).await;
        let provision = std::mem::take(&mut new.provision);
        if !provision.is_empty() {
            let places = provision.credentials.iter();
            let places = places.map(|file| file.place.to_string_lossy().into_owned());
            record.details.brought = places.collect();
            let holder = record.id.to_string();
            let brought = self.bring_credentials(&id, &holder, provision);
            record.details.notes.extend(brought.await?.1);
        }
        self.save(record).await?;
        refuse_cancelled(live)?;
        failpoint::pass("run", Moment::Before)?;
        let keeper = inner.keeper(&id).await?;
        keeper.begin_run(order(record, &new)).await
    }

    /// Looks at the tree of a workspace that seems to run and needs nothing before the run, so that the row of the run is
    /// written once. Its keeper is asked for its status meanwhile, and the connection to it opens while the row is written.
    async fn at_hand(&self, workspace: WorkspaceRecord, new: &NewRun) -> Option<AtHand> {
        let (inner, id) = (Arc::clone(&self.inner), workspace.id.clone());
        if !new.files.is_empty() || !new.provision.is_empty() || !inner.settled.has(&id) {
            return None;
        }
        let spec = Arc::clone(&workspace.spec);
        let tree = self.tree_now(&id, &spec).await.ok()?;
        let inner = Arc::clone(&self.inner);
        let connection =
            tokio::spawn(async move { inner.reader(&id).await.ok()?.connect().await.ok() });
        Some(AtHand { tree, connection })
    }

    /// A run starts even if the tree before cannot be recorded.
    async fn tree_before(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
        record: &mut RunRecord,
    ) -> Option<String> {
        match self.tree_now(id, spec).await {
            Ok(tree) => Some(tree),
            Err(fault) => {
                let note = format!("its changes are not known: {}", fault.message());
                record.details.notes.push(note);
                None
            }
        }
    }

    async fn write_context(&self, id: &WorkspaceId, file: NewFile) -> Result<(), Fault> {
        let operation = Operation::Write(Write {
            length: file.content.len() as u64,
            mode: file.mode,
            parents: Parents::Make,
        });
        let content = Content::whole(file.content);
        self.file(id, file.path, operation, content).await.map(drop)
    }

    /// One run of a workspace, live or in the trash.
    pub async fn run(&self, id: &WorkspaceId, run: &RunId) -> Result<RunRecord, Fault> {
        let found = self.inner.store.read(|store| store.run(run))?;
        let found = found.filter(|record| record.workspace == *id);
        found.ok_or_else(|| {
            let message = format!("workspace {id} has no run `{run}`");
            Fault::new(Code::RunNotFound, message, "`holm runs ls` lists the runs")
        })
    }

    /// Runs with their positions, newest first.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<(i64, RunRecord)>, Fault> {
        self.inner
            .store
            .call(move |store| store.runs(&filter))
            .await
    }

    /// The run that a request with this key creates, once its program runs: waits for the request, too. Its output may be
    /// shown before the run is acknowledged.
    pub async fn started_run(&self, id: &WorkspaceId, key: &str) -> Result<Arc<RunRecord>, Fault> {
        let live = self.inner.runs.with_key(id, key).await;
        live.wait_started().await
    }

    /// Whether any run is under way.
    pub fn has_live_runs(&self) -> bool {
        !self.inner.runs.is_empty()
    }

    /// The progress of a run that has not ended; `None`: see the record.
    pub fn run_progress(&self, run: &RunId) -> Option<watch::Receiver<RunProgress>> {
        Some(self.inner.runs.find(run)?.subscribe())
    }

    /// Ends every process of a run and waits for that. A run that has ended stays as it is.
    pub async fn cancel_run(&self, id: &WorkspaceId, run: &RunId) -> Result<RunRecord, Fault> {
        let record = self.run(id, run).await?;
        let Some(live) = self.inner.runs.find(run) else {
            return Ok(record);
        };
        live.cancel();
        live.wait_begun().await?;
        if let Err(fault) = self.inner.keeper(id).await?.cancel_run(run).await {
            // It may be ending by itself; then that result counts.
            tracing::info!(%id, %run, %fault, "a run was not cancelled");
        }
        if tokio::time::timeout(CANCEL_LIMIT, live.wait_over())
            .await
            .is_err()
        {
            return Err(Fault::new(
                Code::Busy,
                format!("run {run} has not ended yet"),
                format!(
                    "`holm runs show {run}` says how it is; `holm stop {id}` ends the workspace"
                ),
            ));
        }
        self.run(id, run).await
    }

    async fn save(&self, record: &RunRecord) -> Result<(), Fault> {
        let record = record.clone();
        self.inner
            .store
            .call(move |store| store.save_run(&record))
            .await
    }

    async fn take_back_files(&self, record: &RunRecord) {
        let places: Vec<PathBuf> = record.details.brought.iter().map(PathBuf::from).collect();
        if !places.is_empty() {
            let holder = record.id.to_string();
            self.take_credentials_away(&record.workspace, &holder, &places)
                .await;
        }
    }
}

fn order(record: &RunRecord, new: &NewRun) -> RunOrder {
    RunOrder {
        run: record.id.to_string(),
        argv: new.argv.clone(),
        env: new.env.clone(),
        message: new.message.clone().unwrap_or_default(),
        timeout_ms: record.details.timeout_ms,
        asker: new.asker,
    }
}

fn refuse_cancelled(live: &Live) -> Result<(), Fault> {
    if live.is_cancelled() {
        let message = "the run was cancelled before it began";
        return Err(Fault::new(
            Code::Cancelled,
            message,
            "`holm run` begins another",
        ));
    }
    Ok(())
}

/// Tells the length of the output. Returns where the next reports come from: after the end, none do, and following the run
/// asks for the end again.
fn heard(news: RunSeen, seen: mpsc::Receiver<RunSeen>, live: &Live) -> mpsc::Receiver<RunSeen> {
    live.said(news.length);
    if news.end.is_some() {
        return mpsc::channel(1).1;
    }
    seen
}

fn twice() -> Fault {
    let message = "two runs got the same id";
    Fault::new(Code::Internal, message, "try again")
}

// === impl NewRun ===

impl NewRun {
    fn record(&self, workspace: &WorkspaceId) -> RunRecord {
        let words = self.argv.iter();
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        RunRecord {
            id: RunId::random(),
            workspace: workspace.clone(),
            key: self.key.clone(),
            digest: self.digest.clone(),
            created_at: now(),
            state: RunState::Queued,
            details: RunDetails {
                agent: self.agent.clone(),
                command: words.collect(),
                message: self.message.clone(),
                comments: self.comments.clone(),
                timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
                how_to_add: self.how_to_add.clone(),
                notes: self.notes.clone(),
                ..RunDetails::default()
            },
        }
    }
}
