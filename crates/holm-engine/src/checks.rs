//! Runs one check: a fresh workspace is made, its services start, the command runs as a run does, and the workspace
//! is undone. Called by the server.
//!
//! The workspace has a normal record that is never acknowledged, so after a crash the next daemon undoes it. It is
//! never shown, and nothing of the checked workspace's files reaches it except the recorded tree.

use crate::cancel::Cancel;
use crate::converge::Goal;
use crate::engine::{Engine, Inner, detached};
use crate::layers::temporary;
use crate::progress::Progress;
use crate::store::WorkspaceRecord;
use holm_core::plan::Desired;
use holm_core::run::{Requester, RunEnd, RunOrder};
use holm_core::service::status::ServiceStatus;
use holm_core::spec::{Purpose, WorkspaceSpec};
use holm_core::{Code, Fault, RunId, WorkspaceId};
use holm_keeper::client::{KeeperClient, OutputReader};
use holm_keeper::runs::read::Piece;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// What is checked, and how.
#[derive(Clone, Debug)]
pub struct CheckOrder {
    /// The workspace whose turn is checked.
    pub workspace: WorkspaceId,
    /// Of the fresh workspace, without id and label.
    pub spec: WorkspaceSpec,
    /// A shell command.
    pub run: String,
    pub timeout: Duration,
    pub asker: Requester,
}

/// The end of a check's command.
#[derive(Clone, Debug)]
pub struct CheckEnd {
    pub end: RunEnd,
    /// From the start of the command to its end.
    pub took: Duration,
}

/// Services get as long to become ready as their own time limits say; this is for a keeper that is silent.
const SERVICES_WITHIN: Duration = Duration::from_secs(900);

/// The verdict of services of which one is still starting.
const PENDING: &str = "pending";

// === impl Engine ===

impl Engine {
    /// Runs a check to its end. Its output goes to `output`.
    /// When this returns, the fresh workspace is gone, whether the check ended, failed or was cancelled. Dropping
    /// the future cancels it.
    pub async fn run_check(
        &self,
        order: CheckOrder,
        cancel: &Cancel,
        output: mpsc::Sender<CheckOutput>,
    ) -> Result<CheckEnd, Fault> {
        let _guard = crate::cancel::CancelOnDrop(cancel.clone());
        let (inner, cancel) = (Arc::clone(&self.inner), cancel.clone());
        detached(async move { inner.run_check(order, cancel, output).await }).await
    }
}

/// What a check prints.
#[derive(Clone, Debug)]
pub enum CheckOutput {
    Piece(Piece),
    /// A line of holm itself.
    Note(String),
}

// === impl Inner ===

impl Inner {
    async fn run_check(
        &self,
        order: CheckOrder,
        cancel: Cancel,
        output: mpsc::Sender<CheckOutput>,
    ) -> Result<CheckEnd, Fault> {
        let checked = self.live(&order.workspace).await?;
        let record = temporary(&checked, "check", order.spec.clone())?;
        let _turn = self.workspaces.lock(&record.id).await;
        let row = record.clone();
        let inserted = self.store.call(move |store| store.insert_workspace(&row));
        inserted.await?;
        let ended = tokio::select! {
            biased;
            () = cancel.requested() => Err(cancelled()),
            ended = self.check_in(&record, &order, &output) => ended,
        };
        self.undo_or_try_again(&record).await;
        self.forget_driver_of(&record.id);
        ended
    }

    async fn check_in(
        &self,
        record: &WorkspaceRecord,
        order: &CheckOrder,
        output: &mpsc::Sender<CheckOutput>,
    ) -> Result<CheckEnd, Fault> {
        let progress = Progress::default();
        // Before the lock below: a set-up takes long.
        self.ensure_layers(record, &progress).await?;
        {
            let copies =
                matches!(&record.spec.purpose, Purpose::Check(check) if !check.volumes.is_empty());
            // Nothing starts or stops the checked workspace while its volumes are copied.
            let _turn = match copies {
                true => Some(self.workspaces.lock(&order.workspace).await),
                false => None,
            };
            let goal = Goal::Reach(Desired::Running);
            Box::pin(self.converge(record, goal, &progress)).await?;
        }
        let keeper = self.driver(&record.spec)?.keeper(&record.id);
        for failed in services_settled(&keeper, record).await? {
            let why = failed.reason.unwrap_or(failed.state);
            let note = format!("[service {} is not ready: {why}]", failed.name);
            // Without a reader the output is not wanted.
            let _ = output.send(CheckOutput::Note(note)).await;
        }
        follow(&keeper, order, output).await
    }
}

/// Waits until no service is starting any more, and returns those that are not ready.
async fn services_settled(
    keeper: &KeeperClient,
    record: &WorkspaceRecord,
) -> Result<Vec<ServiceStatus>, Fault> {
    if record.spec.services.is_empty() {
        return Ok(Vec::new());
    }
    let mut changes = keeper.watch_services().await?;
    let settled = async {
        while let Some(seen) = changes.recv().await {
            if seen.verdict != PENDING {
                let services = seen.services.into_iter();
                return services
                    .filter(|service| service.state != "ready")
                    .collect();
            }
        }
        Vec::new()
    };
    tokio::time::timeout(SERVICES_WITHIN, settled)
        .await
        .map_err(|_| {
            Fault::new(
                Code::ServiceNotReady,
                "the services of the check's workspace are neither ready nor failed",
                "`holm logs WS` of a new workspace shows why",
            )
        })
}

/// Runs the command to its end, and passes its output on.
async fn follow(
    keeper: &KeeperClient,
    order: &CheckOrder,
    output: &mpsc::Sender<CheckOutput>,
) -> Result<CheckEnd, Fault> {
    let run = RunId::random();
    let words = ["/bin/sh", "-c", &order.run];
    let mut seen = keeper
        .begin_run(RunOrder {
            run: run.to_string(),
            argv: words.map(|word| word.as_bytes().to_vec()).to_vec(),
            env: Vec::new(),
            message: String::new(),
            timeout_ms: u64::try_from(order.timeout.as_millis()).unwrap_or(u64::MAX),
            asker: order.asker,
        })
        .await?;
    let mut reader = keeper.run_output(&run, 0).await?;
    loop {
        let received = seen.recv().await;
        let is_silent = received.is_none();
        let news = match received {
            Some(news) => Some(news),
            // The stream has ended; the record says why.
            None => keeper.recorded_run(&run).await?,
        };
        pass_on(&mut reader, output).await?;
        let Some(news) = news else {
            return Err(lost());
        };
        if let Some(end) = news.end {
            pass_on(&mut reader, output).await?;
            let took = end.at_ms.saturating_sub(news.started_ms).max(0);
            return Ok(CheckEnd {
                end,
                took: Duration::from_millis(took.cast_unsigned()),
            });
        }
        if is_silent {
            seen = match keeper.watch_run(&run).await? {
                Some(again) => again,
                None => return Err(lost()),
            };
        }
    }
}

async fn pass_on(
    reader: &mut OutputReader,
    output: &mpsc::Sender<CheckOutput>,
) -> Result<(), Fault> {
    loop {
        let read = reader.read().await?;
        for piece in read.items {
            // Without a reader the output is not wanted.
            let _ = output.send(CheckOutput::Piece(piece)).await;
        }
        if !read.has_more {
            return Ok(());
        }
    }
}

fn cancelled() -> Fault {
    Fault::new(
        Code::Cancelled,
        "the check was cancelled",
        "`holm check WS` runs it again",
    )
}

fn lost() -> Fault {
    Fault::new(
        Code::CheckFailed,
        "the check's workspace ended under it",
        "`holm check WS --again` repeats it; `holm doctor` checks this machine",
    )
}
