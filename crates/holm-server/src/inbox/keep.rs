//! Notices when items open and close, stores that, tells it as events, and has new items delivered. One task of the
//! daemon; it looks when an event or a report of a keeper says that something changed.

use super::super::{App, until_stopped};
use super::{Found, Stored};
use holm_api::inbox::InboxItem;
use holm_core::inbox::Reason;
use holm_core::notify::{Delivery, Outbox};
use holm_core::{Fault, WorkspaceId};
use holm_engine::clock;
use holm_engine::inbox::OpenItem;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The events.
const OPENED: &str = "inbox.opened";
pub const CLOSED: &str = "inbox.closed";

/// The inbox is computed again when no change has arrived for this long, because `up` and a run cause several changes.
const PAUSE: Duration = Duration::from_millis(250);

/// The inbox is computed again at the latest after this time, even if changes keep arriving.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often to look whether an agent has stalled, while one runs.
const WITH_AGENTS: Duration = Duration::from_secs(60);

/// Without an agent, items open and close only by what is told.
const WITHOUT: Duration = Duration::from_secs(3600);

/// After a failure.
const AGAIN: Duration = Duration::from_secs(10);

type Outboxes = HashMap<WorkspaceId, Outbox<InboxItem>>;

/// The difference between two looks.
#[derive(Default)]
struct Difference {
    opened: Vec<Found>,
    /// Of the same cause as before, but something happened again.
    repeated: Vec<Found>,
    closed: Vec<OpenItem>,
}

/// Keeps the inbox up to date until the daemon stops.
pub fn begin(app: &Arc<App>) {
    let work = keep(Arc::clone(app));
    tokio::spawn(until_stopped(Arc::clone(app), work));
}

async fn keep(app: Arc<App>) {
    let mut outboxes = Outboxes::new();
    let (mut events, mut reports) = (app.events.news(), app.engine.news());
    loop {
        events.mark_unchanged();
        reports.mark_unchanged();
        let wait = app.settle_inbox(&mut outboxes).await;
        let mut wait = wait.unwrap_or_else(|fault| {
            tracing::warn!(%fault, "the inbox was not brought up to date");
            AGAIN
        });
        let mut latest = None;
        loop {
            tokio::select! {
                changed = events.changed() => if changed.is_err() { return },
                changed = reports.changed() => if changed.is_err() { return },
                () = app.inbox.poke.notified() => {}
                () = tokio::time::sleep(wait) => break,
            }
            let latest = *latest.get_or_insert_with(|| Instant::now() + LONGEST_PAUSE);
            wait = PAUSE.min(latest.saturating_duration_since(Instant::now()));
        }
    }
}

// === impl App ===

impl App {
    /// Returns how long it may take until something changes without being told.
    async fn settle_inbox(self: &Arc<Self>, outboxes: &mut Outboxes) -> Result<Duration, Fault> {
        let views = self.engine.list().await?;
        let records = self.engine.inbox_records().await?;
        let is_live = |id: &WorkspaceId| views.iter().any(|view| view.record.id == *id);
        self.inbox.retain(is_live);
        outboxes.retain(|id, _| is_live(id));
        let found = self.found(&views, &records).await?;
        let difference = Difference::new(found, &records);
        let changed = difference.opened.iter().chain(&difference.repeated);
        let open: Vec<OpenItem> = changed.map(|one| one.as_open(&records)).collect();
        if !open.is_empty() || !difference.closed.is_empty() {
            let closed = difference.closed.clone();
            self.engine.change_open_items(open, closed).await?;
        }
        for closed in &difference.closed {
            self.tell_closed(closed).await;
        }
        for one in &difference.opened {
            let mut detail = serde_json::to_value(&one.item).unwrap_or_default();
            if let Value::Object(fields) = &mut detail {
                // The event has it.
                fields.remove("workspace");
            }
            self.events.emit(&one.workspace, OPENED, detail).await;
        }
        self.offer(difference, outboxes).await;
        let mut wait = WITHOUT;
        if self.agents_at_work(&views, &records).await? > 0 {
            wait = WITH_AGENTS;
        }
        let now = clock::wall().as_millisecond();
        for due in outboxes.values().filter_map(Outbox::due) {
            let left = u64::try_from(due - now).unwrap_or(0);
            wait = wait.min(Duration::from_millis(left));
        }
        Ok(wait)
    }

    async fn tell_closed(&self, closed: &OpenItem) {
        let named = self.engine.named(&closed.workspace).await.ok().flatten();
        let (label, project) = match named {
            Some((record, project)) => (json!(record.label.as_str()), json!(project.to_string())),
            None => (Value::Null, Value::Null),
        };
        let detail = json!({
            "id": format!("{}-{}", closed.workspace, closed.cause),
            "label": label, "project": project, "reason": closed.reason,
        });
        self.events.emit(&closed.workspace, CLOSED, detail).await;
    }

    /// Gives what is new, and what was held back and may go now, to the channels of the user's settings.
    async fn offer(self: &Arc<Self>, difference: Difference, outboxes: &mut Outboxes) {
        let now = clock::wall().as_millisecond();
        let is_due = outboxes
            .values()
            .any(|one| one.due().is_some_and(|due| due <= now));
        let new: Vec<Found> = [difference.opened, difference.repeated]
            .into_iter()
            .flatten()
            .collect();
        if new.is_empty() && !is_due {
            return;
        }
        let settings = match self.notify_settings().await {
            Ok(settings) if settings.is_silent() => return outboxes.clear(),
            Ok(settings) => Arc::new(settings),
            Err(fault) => {
                tracing::warn!(%fault, "settings are not understood, so nothing is notified");
                for one in new {
                    let detail = json!({ "channel": "settings", "error": fault.message() });
                    self.events
                        .emit(&one.workspace, super::deliver::FAILED, detail)
                        .await;
                }
                return;
            }
        };
        for one in new {
            if settings.mute.contains(&one.item.reason) {
                continue;
            }
            let outbox = outboxes.entry(one.workspace).or_default();
            if let Some(delivery) = outbox.offer(one.item, now) {
                self.deliver(&settings, delivery);
            }
        }
        let flushed: Vec<Delivery<InboxItem>> = outboxes
            .values_mut()
            .filter_map(|outbox| outbox.flush(now))
            .collect();
        for delivery in flushed {
            self.deliver(&settings, delivery);
        }
    }
}

// === impl Difference ===

impl Difference {
    fn new(found: Vec<Found>, records: &Stored) -> Self {
        let known = records.values().flat_map(|records| &records.opened);
        let is_open = |open: &OpenItem| found.iter().any(|one| one.is(open));
        let mut difference = Self {
            closed: known
                .clone()
                .filter(|open| !is_open(open))
                .cloned()
                .collect(),
            ..Self::default()
        };
        for one in found {
            match known.clone().find(|open| one.is(open)) {
                None => difference.opened.push(one),
                // Other reasons repeat as often as a program likes, and are still the same news.
                Some(open) if one.since > open.since && one.item.reason == Reason::Question => {
                    difference.repeated.push(one);
                }
                Some(_) => {}
            }
        }
        difference
    }
}

// === impl Found ===

impl Found {
    fn is(&self, open: &OpenItem) -> bool {
        self.workspace == open.workspace && self.cause == open.cause
    }

    fn as_open(&self, records: &Stored) -> OpenItem {
        let known = records.get(&self.workspace);
        let known = known.and_then(|records| records.opened.iter().find(|open| self.is(open)));
        OpenItem {
            workspace: self.workspace.clone(),
            cause: self.cause.clone(),
            reason: self.item.reason.as_str().to_owned(),
            opened_at: known.map_or_else(clock::wall, |open| open.opened_at),
            since: self.since,
        }
    }
}
