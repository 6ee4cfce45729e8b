//! What the keepers of running workspaces last reported, so that listing workspaces asks none of them.
//!
//! A connection to each keeper (`watching.rs`) feeds this memory. A report of a keeper counts as fresh until
//! the daemon does something with the workspace ([`Reports::mark`]): the next reader then asks the keeper on the same
//! connection, so its answer comes after everything that the keeper reported before. When the connection ends, the memory of
//! that workspace is dropped, and readers observe it directly, as they do where a keeper of an earlier
//! release cannot be watched.

use crate::clock::now;
use holm_core::WorkspaceId;
use holm_core::head::Tip;
use holm_keeper::client::StatusRequests;
use holm_keeper::process::Pulse;
use holm_keeper::wire::WatchReport;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a reader waits for an answer on a watch. A keeper that takes longer is observed directly, which finds out
/// whether it can answer at all.
const PATIENCE: Duration = Duration::from_millis(50);

/// After so long a list has the keeper asked again, for the next list.
const OLD: Duration = Duration::from_secs(30);

/// How many keepers a list has asked again. An answer takes a keeper some milliseconds.
const MOST_ASKED: usize = 16;

/// The reports of all keepers that are watched.
#[derive(Default)]
pub(crate) struct Reports {
    entries: Mutex<HashMap<WorkspaceId, Entry>>,
    /// Numbers the watches.
    watches: AtomicU64,
    /// How often anything was marked.
    marks: AtomicU64,
    /// Changes when a report says something that may concern a person.
    news: watch::Sender<u64>,
}

/// A keeper's last report.
#[derive(Clone)]
pub(crate) struct Report {
    pub(crate) seen: Arc<WatchReport>,
    pub(crate) at: Timestamp,
    pub(crate) received: Instant,
}

pub(crate) struct Entry {
    /// The watch that feeds it.
    watch: u64,
    report: Report,
    asker: StatusRequests,
    pulse: Option<Pulse>,
    /// How many questions were sent.
    asked: u64,
    /// How many were answered.
    answered: watch::Sender<u64>,
    /// A report counts only if so many questions came before it.
    needed: u64,
    still: Option<Still>,
}

/// A workspace whose keeper could go on, at a reading of [`Driver::processor_time`](crate::driver::Driver::processor_time).
/// All of this holds while that time stays the same.
struct Still {
    time: Duration,
    tip: Tip,
}

/// A report that counts.
pub(crate) struct Fresh {
    pub(crate) report: Report,
    /// HEAD, if nothing of the workspace ran since HEAD was read.
    pub(crate) tip: Option<Tip>,
}

/// Drops the entry of a watch when the watch ends.
pub(crate) struct Recording<'a> {
    reports: &'a Reports,
    id: &'a WorkspaceId,
    watch: u64,
}

// === impl Reports ===

impl Reports {
    fn entries(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes when a report says something that may concern a person.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// For [`begin`](Self::begin), before the keeper is asked for its first report.
    pub(crate) fn marks(&self) -> u64 {
        self.marks.load(Ordering::SeqCst)
    }

    /// Keeps the reports of a watch that begins now. If something was marked since `marks` was read, the first report
    /// may be older than that and does not count.
    pub(crate) fn begin<'a>(
        &'a self,
        id: &'a WorkspaceId,
        mut entry: Entry,
        marks: u64,
    ) -> Recording<'a> {
        let watch = self.watches.fetch_add(1, Ordering::Relaxed);
        entry.watch = watch;
        let mut entries = self.entries();
        if self.marks() != marks {
            entry.needed = 1;
        }
        entries.insert(id.clone(), entry);
        drop(entries);
        Recording {
            reports: self,
            id,
            watch,
        }
    }

    /// Reports from before this do not count.
    pub(crate) fn mark(&self, id: &WorkspaceId) {
        self.marks.fetch_add(1, Ordering::SeqCst);
        if let Some(entry) = self.entries().get_mut(id) {
            entry.needed = entry.asked + 1;
            entry.still = None;
        }
    }

    /// The workspace is about to end.
    pub(crate) fn forget(&self, id: &WorkspaceId) {
        self.entries().remove(id);
    }

    /// `time`: the processor time of the workspace, read just now.
    pub(crate) fn fresh(
        &self,
        id: &WorkspaceId,
        within: Duration,
        time: Option<Duration>,
    ) -> Option<Fresh> {
        let entries = self.entries();
        let entry = entries.get(id)?;
        let still = entry.still.as_ref();
        let still = still.filter(|still| Some(still.time) == time);
        let is_fresh = entry.report.received.elapsed() <= within
            && entry.is_answered()
            && (still.is_some() || entry.is_steady());
        is_fresh.then(|| Fresh {
            report: entry.report.clone(),
            tip: still.map(|still| still.tip.clone()),
        })
    }

    /// Notes what was found after `time` was read, while the keeper's report was fresh.
    pub(crate) fn note_still(&self, id: &WorkspaceId, time: Duration, tip: &Tip) {
        if let Some(entry) = self
            .entries()
            .get_mut(id)
            .filter(|entry| entry.is_answered())
        {
            let tip = tip.clone();
            entry.still = Some(Still { time, tip });
        }
    }

    /// Asks the keeper; `None`: it is not watched, or does not answer at once.
    pub(crate) async fn ask(&self, id: &WorkspaceId) -> Option<Report> {
        let (asker, number, mut answered) = {
            let mut entries = self.entries();
            let entry = entries.get_mut(id)?;
            entry.asked += 1;
            (entry.asker.clone(), entry.asked, entry.answered.subscribe())
        };
        let answer = async {
            asker.ask().await.ok()?;
            answered.wait_for(|count| *count >= number).await.ok()?;
            Some(())
        };
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        let mut entries = self.entries();
        let entry = entries.get_mut(id)?;
        if answer.ok().flatten().is_none() {
            // What it reported before does not count until it answers.
            entry.needed = entry.needed.max(number);
        }
        let is_fresh = entry.is_answered() && entry.is_steady();
        is_fresh.then(|| entry.report.clone())
    }

    /// Those that have reported nothing for longest.
    pub(crate) fn silent(&self) -> Vec<WorkspaceId> {
        let entries = self.entries();
        let all = entries.iter();
        let mut silent: Vec<_> = all
            .map(|(id, entry)| (entry.report.received, id))
            .filter(|(received, _)| received.elapsed() >= OLD)
            .collect();
        silent.sort();
        let silent = silent.into_iter().take(MOST_ASKED);
        silent.map(|(_, id)| id.clone()).collect()
    }
}

// === impl Entry ===

impl Entry {
    pub(crate) fn new(first: WatchReport, asker: StatusRequests, pulse: Option<Pulse>) -> Self {
        Self {
            watch: 0,
            report: Report::new(first),
            asker,
            pulse,
            asked: 0,
            answered: watch::channel(0).0,
            needed: 0,
            still: None,
        }
    }

    fn is_answered(&self) -> bool {
        *self.answered.borrow() >= self.needed
    }

    /// A process that is stopped tells nothing, so its state is read.
    fn is_steady(&self) -> bool {
        self.pulse.as_ref().is_none_or(Pulse::is_steady)
    }
}

// === impl Report ===

impl Report {
    fn new(seen: WatchReport) -> Self {
        Self {
            seen: Arc::new(seen),
            at: now(),
            received: Instant::now(),
        }
    }
}

// === impl Recording ===

impl Recording<'_> {
    /// Keeps a report. After `forget`, or when another watch has begun, the report is dropped.
    pub(crate) fn add(&self, seen: WatchReport) {
        let mut entries = self.reports.entries();
        let entry = entries.get_mut(self.id);
        if let Some(entry) = entry.filter(|entry| entry.watch == self.watch) {
            let answered = seen.answered;
            let is_news = !concerns_the_same(&entry.report.seen, &seen);
            entry.report = Report::new(seen);
            entry.answered.send_replace(answered);
            if is_news {
                self.reports.news.send_modify(|count| *count += 1);
            }
        }
    }
}

/// Whether two reports of a keeper agree in everything that decides whether a person is needed. Titles, output and bytes
/// change all the time and decide nothing.
fn concerns_the_same(one: &WatchReport, other: &WatchReport) -> bool {
    let of_status = |seen: &WatchReport| {
        let status = &seen.status;
        let refusals = status.carried.and_then(|carried| carried.refusals);
        let limits = status.isolation.limits_reached.clone();
        (refusals, status.isolation.oom_kills, limits)
    };
    let of_sessions = |seen: &WatchReport| -> Vec<_> {
        let sessions = seen.sessions.iter().flatten();
        let reported = sessions.map(|one| {
            let is_watched = one.viewers > 0;
            (
                one.id.clone(),
                one.attention.clone(),
                is_watched,
                one.exit_code,
            )
        });
        reported.collect()
    };
    one.status.services == other.status.services
        && of_status(one) == of_status(other)
        && of_sessions(one) == of_sessions(other)
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let mut entries = self.reports.entries();
        if entries
            .get(self.id)
            .is_some_and(|entry| entry.watch == self.watch)
        {
            entries.remove(self.id);
        }
    }
}
