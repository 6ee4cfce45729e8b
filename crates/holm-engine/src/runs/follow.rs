//! Follows a run to its end, whichever daemon started it, and stores the result.

use crate::engine::Engine;
use crate::live_runs::Live;
use crate::notice::Notice;
use crate::run::RunRecord;
use holm_core::Fault;
use holm_core::run::{RunEnd, RunEnding, RunSeen, RunState};
use holm_core::turn::TurnCause;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How often to poll a run whose keeper sends no reports (an older version).
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How many ended runs of a workspace stay in the record.
const KEPT: usize = 100;

/// A shell's exit code for a missing program.
const NOT_FOUND: u8 = 127;

// === impl Engine ===

impl Engine {
    /// Continues the runs that earlier daemons started.
    pub async fn resume_runs(&self) -> Result<usize, Fault> {
        let open = self.inner.store.call(|store| store.open_runs()).await?;
        let count = open.len();
        for mut record in open {
            let Some(live) = self.inner.runs.enter(&record) else {
                continue;
            };
            let (id, run) = (&record.workspace, &record.id);
            let keeper = match self.inner.keeper(id).await {
                Ok(keeper) => keeper,
                Err(fault) => {
                    // A daemon that has the driver finds the run again.
                    tracing::warn!(%run, %fault, "a run is not followed");
                    self.inner.runs.leave(run);
                    continue;
                }
            };
            let recorded = keeper.recorded_run(run).await?;
            match recorded {
                Some(seen) => {
                    record.state = RunState::Running;
                    record.details.started_ms = Some(seen.started_ms);
                    if let Err(fault) = self.save(&record).await {
                        tracing::warn!(run = %record.id, %fault, "that a run goes on is not in the store");
                    }
                    live.started(&record);
                    live.begun(Ok(()));
                    live.said(seen.length);
                    let nothing = mpsc::channel(1).1;
                    tokio::spawn(self.clone().follow(record, nothing, live));
                }
                None => {
                    live.begun(Ok(()));
                    let end = died(
                        "the daemon ended before it began; sent again with the same key it begins",
                    );
                    tokio::spawn(self.clone().finish(record, end, live));
                }
            }
        }
        Ok(count)
    }

    pub(super) async fn follow(
        self,
        mut record: RunRecord,
        mut seen: mpsc::Receiver<RunSeen>,
        live: Arc<Live>,
    ) {
        let end = loop {
            match seen.recv().await {
                Some(news) => {
                    record.details.started_ms = Some(news.started_ms);
                    live.said(news.length);
                    if let Some(end) = news.end {
                        break end;
                    }
                }
                None => match self.look_for(&record, &live).await {
                    Looked::Ended(end) => break end,
                    Looked::Runs(again) => seen = again,
                },
            }
        };
        self.finish(record, end, live).await;
    }

    /// The stream of reports has ended; find out why.
    async fn look_for(&self, record: &RunRecord, live: &Live) -> Looked {
        let id = &record.workspace;
        let keeper = match self.inner.keeper(id).await {
            Ok(keeper) => keeper,
            Err(fault) => return Looked::Ended(died(&fault.message())),
        };
        loop {
            let watched = keeper.watch_run(&record.id).await;
            if let Ok(Some(again)) = watched {
                return Looked::Runs(again);
            }
            match keeper.recorded_run(&record.id).await {
                Ok(Some(RunSeen {
                    end: Some(end),
                    length,
                    ..
                })) => {
                    live.said(length);
                    return Looked::Ended(end);
                }
                _ if matches!(watched, Ok(None)) => {
                    return Looked::Ended(died("the workspace ended under it"));
                }
                // A keeper of another version, or one that does not answer.
                _ => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Stores the end and notifies all waiters.
    pub(super) async fn finish(self, mut record: RunRecord, end: RunEnd, live: Arc<Live>) {
        self.take_back_files(&record).await;
        let has_begun = record.details.started_ms.is_some();
        self.note_changes(&mut record).await;
        if has_begun {
            self.inner
                .record_turn(&record.workspace, TurnCause::Run)
                .await;
        }
        let details = &mut record.details;
        details.ended_ms = Some(end.at_ms);
        details.exit_code = has_begun.then_some(end.code);
        details.reason = match (&details.how_to_add, end.code) {
            (Some(how), NOT_FOUND) => Some(how.clone()),
            _ => end.reason(),
        };
        record.state = end.state();
        if let Err(fault) = self.save(&record).await {
            tracing::error!(run = %record.id, %fault, "the end of a run is not in the store");
        }
        self.inner.notices.send(
            &record.workspace,
            Notice::RunEnded {
                run: record.id.clone(),
                state: record.state,
                exit_code: record.details.exit_code,
            },
        );
        self.inner.runs.leave(&record.id);
        live.over();
        if let Err(fault) = self.forget_old(&record).await {
            tracing::warn!(%fault, "old runs stay");
        }
    }

    async fn note_changes(&self, record: &mut RunRecord) {
        let Some(before) = record.details.before.clone() else {
            return;
        };
        let id = record.workspace.clone();
        let changed = async {
            let spec = Arc::clone(&self.inner.live(&id).await?.spec);
            self.changed_since(&id, &spec, &before).await
        };
        match changed.await {
            Ok(changed) => {
                record.details.changes = Some(changed.changes);
                record.details.changes_left_out = changed.left_out;
            }
            Err(fault) => {
                let note = format!("its changes are not known: {}", fault.message());
                record.details.notes.push(note);
            }
        }
    }

    async fn forget_old(&self, record: &RunRecord) -> Result<(), Fault> {
        let id = record.workspace.clone();
        let surplus = self
            .inner
            .store
            .call(move |store| store.surplus_runs(&id, KEPT));
        let keeper = self.inner.keeper(&record.workspace).await?;
        for run in surplus.await? {
            keeper.forget_run(&run).await?;
            self.inner
                .store
                .call(move |store| store.forget_run(&run))
                .await?;
        }
        Ok(())
    }
}

enum Looked {
    Runs(mpsc::Receiver<RunSeen>),
    Ended(RunEnd),
}

fn died(why: &str) -> RunEnd {
    RunEnd {
        at_ms: Timestamp::now().as_millisecond(),
        code: 137,
        how: RunEnding::Died,
        cause: Some(why.to_owned()),
    }
}
