//! One check under way: waits for a place, runs in its fresh workspace, and is recorded.

use super::fresh::Subject;
use super::log::CheckLog;
use crate::{App, view};
use holm_core::check::{Check, CheckState, judge};
use holm_core::run::Requester;
use holm_core::spec::{Dirty, WorkspaceSpec};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::review::CheckRecord;
use holm_engine::{Cancel, CheckEnd, CheckOrder, CheckOutput, clock, try_blocking};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// One check that is to be run.
pub struct Job {
    pub id: WorkspaceId,
    pub check: Check,
    pub subject: Subject,
    /// Of the fresh workspace, without the changed files.
    pub spec: WorkspaceSpec,
    pub record: CheckRecord,
    pub asker: Requester,
    pub cancel: Cancel,
}

/// Pieces of output on their way to the log.
const QUEUE: usize = 16;

// === impl App ===

impl App {
    pub async fn start_check(self: &Arc<Self>, job: Job) -> Result<(), Fault> {
        if let Err(fault) = self.engine.save_check(job.record.clone()).await {
            self.checks.leave(&job.record, &job.cancel);
            return Err(fault);
        }
        let app = Arc::clone(self);
        tokio::spawn(async move {
            let (mut record, cancel) = (job.record.clone(), job.cancel.clone());
            let ended = app.carry_out(job, &mut record).await;
            conclude(&mut record, ended);
            // Otherwise a newer check of the same tree has its place in the record.
            if app.checks.is_current(&record, &cancel) {
                app.end_check(&record).await;
            }
            app.checks.leave(&record, &cancel);
            app.checks.note();
        });
        Ok(())
    }

    /// Waits for a place, and runs the check in its fresh workspace.
    async fn carry_out(&self, job: Job, record: &mut CheckRecord) -> Result<CheckEnd, Fault> {
        let _place = tokio::select! {
            biased;
            () = job.cancel.requested() => return Err(cancelled()),
            // The semaphore is never closed.
            place = self.checks.places.acquire() => place,
        };
        record.state = CheckState::Running;
        record.details.at = view::time(clock::wall());
        self.engine.save_check(record.clone()).await?;
        self.checks.note();
        let detail = json!({ "check": record.name, "tree": record.tree, "turn": record.turn });
        self.events.emit(&job.id, "check.started", detail).await;
        let path = self.turns.check_log(&job.id, &record.name);
        let unwritable = |error| crate::startup::unusable("write", &path, error);
        let mut log = CheckLog::create(&path, &record.name)
            .await
            .map_err(unwritable)?;
        let (output, mut pieces) = mpsc::channel(QUEUE);
        let writing = async {
            while let Some(piece) = pieces.recv().await {
                log.add(piece).await?;
            }
            Ok(())
        };
        let (ended, written) = tokio::join!(self.run_in_fresh(job, output), writing);
        let last = match &ended {
            Ok(_) => None,
            Err(fault) => Some(format!("[{}]", fault.message())),
        };
        let finished = log.finish(last.as_deref()).await;
        if let Err(error) = written.and(finished) {
            tracing::warn!(path = %path.display(), %error, "the log of a check is not complete");
        }
        ended
    }

    async fn run_in_fresh(
        &self,
        job: Job,
        output: mpsc::Sender<CheckOutput>,
    ) -> Result<CheckEnd, Fault> {
        let mut spec = job.spec;
        let (_, received) = self.uploads.new_file();
        if !job.subject.changes.is_empty() {
            let pack = received.path().to_owned();
            spec.brought.dirty = Some(self.changed_tree(&job.id, &job.subject, &pack).await?);
        }
        let order = CheckOrder {
            workspace: job.id,
            spec,
            run: job.check.run,
            timeout: Duration::from_millis(job.check.timeout_ms),
            asker: job.asker,
        };
        self.engine.run_check(order, &job.cancel, output).await
    }

    /// The changed files of a turn, as the uncommitted state of a new workspace.
    async fn changed_tree(
        &self,
        id: &WorkspaceId,
        subject: &Subject,
        pack: &Path,
    ) -> Result<Dirty, Fault> {
        let objects = self.turn_objects(id).await?;
        let (tree, commit) = (subject.tree.clone(), subject.commit.clone());
        let path = pack.to_owned();
        let index_tree = try_blocking(move || {
            objects.pack(&tree, commit.as_deref(), &path)?;
            Ok(objects.tree_of(commit.as_deref())?)
        });
        Ok(Dirty {
            index_tree: index_tree.await?,
            pack: pack.to_owned(),
            worktree_tree: subject.tree.clone(),
            intended: Vec::new(),
        })
    }

    /// Stores and announces the end of a check.
    pub async fn end_check(&self, record: &CheckRecord) {
        if let Err(fault) = self.engine.save_check(record.clone()).await {
            tracing::warn!(id = %record.workspace, %fault, "the end of a check is not in the store");
        }
        let detail = json!({
            "check": record.name,
            "state": record.state,
            "exit_code": record.details.exit_code,
            "tree": record.tree,
            "turn": record.turn,
            "ms": record.details.ms,
            "reason": record.details.reason,
        });
        self.events
            .emit(&record.workspace, "check.ended", detail)
            .await;
    }
}

/// Notes how a check ended.
fn conclude(record: &mut CheckRecord, ended: Result<CheckEnd, Fault>) {
    let details = &mut record.details;
    details.at = view::time(clock::wall());
    match ended {
        Ok(CheckEnd { end, took }) => {
            (record.state, details.exit_code, details.reason) = judge(&end);
            details.ms = u64::try_from(took.as_millis()).ok();
        }
        Err(fault) => {
            record.state = match fault.code {
                Code::Cancelled => CheckState::Cancelled,
                _ => CheckState::Failed,
            };
            details.reason = Some(fault.message());
        }
    }
}

fn cancelled() -> Fault {
    Fault::new(
        Code::Cancelled,
        "the check was cancelled before it began",
        "`holm check WS` runs it again",
    )
}
