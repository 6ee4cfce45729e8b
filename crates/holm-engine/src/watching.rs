//! Follows running workspaces, and answers readers from what their keepers reported.

use crate::driver::Observation;
use crate::engine::{Engine, Inner};
use crate::reports::{Entry, Fresh, Report};
use crate::store::WorkspaceRecord;
use crate::view::{Observed, is_settled};
use holm_core::head::Tip;
use holm_core::plan::{self, Base, Files, Keeper};
use holm_core::spec::WorkspaceSpec;
use holm_core::{Fault, WorkspaceId};
use holm_keeper::client::Watched;
use holm_keeper::wire::Status;
use std::sync::Arc;
use std::time::Duration;

/// The greatest age of a report that answers a question about one workspace. The keeper gets no event when another
/// process stops init or freezes its group, so the daemon notices that only by asking.
const CURRENT: Duration = Duration::from_millis(10);

/// From this age on a list says how old a report is.
const NOTABLE: Duration = Duration::from_secs(5);

// === impl Engine ===

impl Engine {
    /// Follows a running workspace until its processes end: keeps what its keeper tells, and passes on which ports
    /// listen inside, at once and at every change.
    pub async fn watch(&self, id: &WorkspaceId, listening: impl Fn(Vec<u16>)) -> Result<(), Fault> {
        let keeper = self.inner.reader(id).await?;
        let marks = self.inner.reports.marks();
        let Some(watched) = keeper.watch_status().await? else {
            let mut ports = keeper.watch_ports().await?;
            while let Some(ports) = ports.recv().await {
                listening(ports);
            }
            return Ok(());
        };
        let Watched {
            first,
            mut watch,
            asker,
            pulse,
        } = watched;
        let mut ports = first.listening.clone();
        // Before the report counts, so that its reader finds the ports too.
        listening(ports.clone());
        let entry = Entry::new(first, asker, pulse);
        let recording = self.inner.reports.begin(id, entry, marks);
        while let Some(seen) = watch.next().await {
            if seen.listening != ports {
                ports.clone_from(&seen.listening);
                listening(ports.clone());
            }
            recording.add(seen);
        }
        Ok(())
    }

    /// Changes when a keeper reports something that may concern a person: a service, a session, a limit, a refusal.
    pub fn news(&self) -> tokio::sync::watch::Receiver<u64> {
        self.inner.reports.news()
    }

    /// The daemon did something with a workspace: the next reader asks its keeper.
    pub fn mark(&self, id: &WorkspaceId) {
        self.inner.reports.mark(id);
    }
}

// === impl Inner ===

impl Inner {
    /// A workspace as its keeper reported it a moment ago or reports it now; `None`: it has to be observed.
    pub(crate) async fn reported(&self, record: &WorkspaceRecord) -> Option<Observed> {
        if let Some(observed) = self.fresh(record, CURRENT) {
            return Some(observed);
        }
        let report = self.reports.ask(&record.id).await?;
        let tip = self.driver(&record.spec).ok()?.tip(&record.id);
        observed(record, &report, tip)
    }

    /// As [`reported`](Self::reported), however long ago the keeper reported it; `None`: it has to be asked or observed.
    pub(crate) fn remembered(&self, record: &WorkspaceRecord) -> Option<Observed> {
        self.fresh(record, Duration::MAX)
            .filter(|_| !is_settled(record))
    }

    /// From a report that counts and is not older than this. The state of the keeper's process and HEAD are read only if
    /// something of the workspace ran since they were last read.
    fn fresh(&self, record: &WorkspaceRecord, within: Duration) -> Option<Observed> {
        let (id, driver) = (&record.id, self.driver(&record.spec).ok()?);
        // Before everything that it vouches for.
        let time = driver.processor_time(id);
        let Fresh { report, tip } = self.reports.fresh(id, within, time)?;
        let tip = tip.unwrap_or_else(|| {
            let tip = driver.tip(id);
            if let Some(time) = time {
                self.reports.note_still(id, time, &tip);
            }
            tip
        });
        observed(record, &report, tip)
    }

    /// Has the keepers asked again that have reported nothing for long. Their answers are for the next reader.
    pub(crate) fn ask_silent(self: &Arc<Self>) {
        let silent = self.reports.silent();
        if silent.is_empty() {
            return;
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            for id in silent {
                inner.reports.ask(&id).await;
            }
        });
    }
}

fn observed(record: &WorkspaceRecord, report: &Report, tip: Tip) -> Option<Observed> {
    let observation = observation(&report.seen.status, &record.spec, tip)?;
    Some(Observed {
        observation: Ok(observation),
        sessions: report.seen.sessions.clone(),
        at: (report.received.elapsed() >= NOTABLE).then_some(report.at),
    })
}

/// `None`: the keeper has trouble, so that its report is not all that there is to say.
fn observation(status: &Status, spec: &WorkspaceSpec, tip: Tip) -> Option<Observation> {
    let is_well = status.id == spec.id
        && status.ending.is_none()
        && status.trouble.is_none()
        && !status.is_init_ending;
    is_well.then(|| Observation {
        observed: plan::Observed {
            // It could not run without them.
            base: Base::Present,
            files: Files::Complete,
            keeper: if status.is_outdated(spec) {
                Keeper::Outdated
            } else {
                Keeper::Running
            },
        },
        isolation: Some(status.isolation.clone()),
        reason: None,
        commands: status.commands,
        services: status.services.clone(),
        carried: status.carried,
        tip,
    })
}
