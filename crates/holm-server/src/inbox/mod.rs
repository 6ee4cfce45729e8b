//! `/inbox`: what needs a person, over all projects. `holm_core::inbox` decides; this module gathers the facts, and
//! [`begin`] starts the task that tells of items that open and close.
//!
//! Gathering asks no keeper: sessions, services and limits are what keepers reported, runs and turns come from the
//! store in one read, and a record of refusals is read again only after its keeper has written to it.

mod deliver;
mod keep;
pub mod notify;

pub use keep::begin;

use super::App;
use super::caller::Caller;
use super::failure::Answer;
use super::view;
use axum::Json;
use axum::extract::State;
use holm_api::inbox::{InboxItem, InboxList};
use holm_core::check::CheckState;
use holm_core::comment::CommentState;
use holm_core::conflict::Other;
use holm_core::inbox::{
    self, CheckFact, CommentFact, ConflictFact, Facts, LimitFacts, NoticeFact, Reason, Refusal,
    RunFact, SessionFact, TurnFailureFact, UnreadFact,
};
use holm_core::notify::Millis;
use holm_core::session::protocol::Session;
use holm_core::{Fault, WorkspaceId};
use holm_engine::inbox::InboxRecords;
use holm_engine::review::CheckRecord;
use holm_engine::{View, clock};
use jiff::Timestamp;
use notify::Paces;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, Semaphore};

/// What the daemon remembers for the inbox. All of it can be found out again.
pub struct Inbox {
    refusals: Mutex<HashMap<WorkspaceId, Refused>>,
    paces: Mutex<Paces>,
    poke: Notify,
    /// For deliveries.
    turns: Semaphore,
}

/// The refusals of a workspace since a look.
struct Refused {
    /// The keeper's count when the record was read; `None`: the workspace did not run.
    version: Option<u64>,
    since: Option<Timestamp>,
    found: Vec<Refusal>,
}

/// What the store knows of each workspace.
type Stored = HashMap<WorkspaceId, InboxRecords>;

/// An item with its workspace and the name of its cause.
pub struct Found {
    workspace: WorkspaceId,
    cause: String,
    since: Timestamp,
    item: InboxItem,
}

/// Entries of the egress record that are read.
const MOST_EGRESS: usize = 20_000;

/// Different refusals that are counted.
const MOST_REFUSALS: usize = 200;

/// How many notifications are delivered at once.
const DELIVERIES: usize = 16;

operations! {
    /// What needs a person, the most urgent first.
    get "/inbox" "inbox_list" list -> InboxList;
}

async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer<InboxList> {
    let mut views = app.engine.list().await?;
    views.retain(|view| caller.sees(&view.record.id));
    let records = app.engine.inbox_records().await?;
    let items = app.inbox_items(&views, &records, &caller).await?;
    let working = app.agents_at_work(&views, &records).await?;
    let closed_at = match (&caller, items.is_empty()) {
        // The time would tell a workspace about others.
        (Caller::Workspace(_), _) | (_, false) => None,
        _ => app.engine.last_event_of(keep::CLOSED).await?,
    };
    Ok(Json(InboxList {
        items,
        working,
        closed_at: closed_at.map(view::time),
    }))
}

// === impl Inbox ===

impl Default for Inbox {
    fn default() -> Self {
        Self {
            refusals: Mutex::default(),
            paces: Mutex::default(),
            poke: Notify::new(),
            turns: Semaphore::new(DELIVERIES),
        }
    }
}

impl Inbox {
    /// Something changed that no event tells.
    pub fn poke(&self) {
        self.poke.notify_one();
    }

    fn known_refusals(
        &self,
        id: &WorkspaceId,
        version: Option<u64>,
        since: Option<Timestamp>,
    ) -> Option<Vec<Refusal>> {
        let known = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(id)?;
        (known.version == version && known.since == since).then(|| known.found.clone())
    }

    fn keep_refusals(&self, id: &WorkspaceId, refused: Refused) {
        let mut known = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(id.clone(), refused);
    }

    /// Forgets workspaces that are gone.
    fn retain(&self, is_live: impl Fn(&WorkspaceId) -> bool) {
        let mut known = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|id, _| is_live(id));
        drop(known);
        self.paces().retain(|id, _| is_live(id));
    }
}

// === impl App ===

impl App {
    /// The items of these workspaces, the most urgent first.
    pub async fn inbox_items(
        &self,
        views: &[View],
        records: &Stored,
        caller: &Caller,
    ) -> Result<Vec<InboxItem>, Fault> {
        let mut found = self.found(views, records).await?;
        if caller.is_guest() {
            // A conflict names another workspace.
            found.retain(|one| one.item.reason != Reason::Conflict);
        }
        Ok(found.into_iter().map(|one| one.item).collect())
    }

    async fn found(&self, views: &[View], records: &Stored) -> Result<Vec<Found>, Fault> {
        let now = clock::wall();
        let nothing = InboxRecords::default();
        let has_conflicts = records.values().any(|one| one.has_conflicts);
        let mut conflicts = if has_conflicts {
            self.conflict_facts(views).await?
        } else {
            HashMap::new()
        };
        let mut found = Vec::new();
        for view in views {
            let id = &view.record.id;
            let stored = records.get(id).unwrap_or(&nothing);
            let mut facts = self.facts(view, stored, now).await?;
            facts.conflicts = conflicts.remove(id).unwrap_or_default();
            let items = inbox::items(&facts, now.as_millisecond());
            found.extend(items.into_iter().map(|item| Found::new(view, item)));
        }
        found.sort_by_key(|one| (one.item.reason, one.since));
        Ok(found)
    }

    /// The conflicts of live workspaces, with whom each was found first.
    async fn conflict_facts(
        &self,
        views: &[View],
    ) -> Result<HashMap<WorkspaceId, Vec<ConflictFact>>, Fault> {
        let mut facts: HashMap<_, Vec<_>> = HashMap::new();
        for live in self.live_conflicts().await? {
            let (other, label) = match &live.conflict.with {
                Other::Workspace { id, .. } => {
                    let label = views.iter().find(|view| view.record.id == *id);
                    // A workspace that was removed meanwhile has no view.
                    let Some(view) = label else { continue };
                    (id.to_string(), view.record.label.to_string())
                }
                Other::Branch { name, .. } => (name.clone(), name.clone()),
            };
            facts
                .entry(live.workspace.id)
                .or_default()
                .push(ConflictFact {
                    other,
                    label,
                    path: live.conflict.paths.first().cloned().unwrap_or_default(),
                    lines: None,
                    since: Some(live.since.as_millisecond()),
                });
        }
        Ok(facts)
    }

    async fn facts(
        &self,
        view: &View,
        stored: &InboxRecords,
        now: Timestamp,
    ) -> Result<Facts, Fault> {
        let id = &view.record.id;
        let sessions = self.engine.running_sessions(view).await?;
        let sessions = sessions.iter().map(|one| self.session_fact(id, one, now));
        let isolation = view.isolation.as_ref();
        let limits = &view.record.spec.limits;
        let mut refusals = self.refusals(view, stored).await;
        let forbidden = stored.forbidden.iter();
        refusals.extend(forbidden.map(|(what, count, last)| Refusal {
            what: format!("policy: {what}"),
            count: *count,
            last_at: last.as_millisecond(),
        }));
        let opened = stored.opened.iter();
        let seen = opened.map(|one| (one.cause.clone(), one.opened_at.as_millisecond()));
        Ok(Facts {
            state: Some(view.state),
            reason: view.reason.clone(),
            services: view.services.clone(),
            sessions: sessions.collect(),
            notices: stored.notices.iter().map(notice_fact).collect(),
            run: stored.run.as_ref().map(run_fact),
            unread: stored.unread.as_ref().map(unread_fact),
            looked_at: stored.look.as_ref().map(|look| look.at.as_millisecond()),
            refusals,
            limits: LimitFacts {
                memory_kills: isolation.map_or(0, |isolation| isolation.oom_kills),
                memory: limits.memory_bytes,
                disk: limits.disk_bytes,
                used_up: isolation
                    .map_or_else(Vec::new, |isolation| isolation.limits_reached.clone()),
            },
            comments: stored.comments.iter().map(comment_fact).collect(),
            checks: stored.checks.iter().filter_map(check_fact).collect(),
            turn_failure: stored.turn_failure.as_ref().map(|failure| TurnFailureFact {
                at: failure.at.as_millisecond(),
                text: failure.text.clone(),
            }),
            seen: seen.collect(),
            ..Facts::default()
        })
    }

    fn session_fact(&self, id: &WorkspaceId, session: &Session, now: Timestamp) -> SessionFact {
        let pid = session.pid.and_then(|pid| u32::try_from(pid).ok());
        let busy_at = pid.and_then(|pid| self.gauge.busy_at(id, pid));
        let answered_at = session.last_input_at.as_deref().and_then(millis);
        let active = [
            millis(&session.created_at),
            session.last_output_at.as_deref().and_then(millis),
            answered_at,
            // A program that was not measured yet may be at work.
            Some(busy_at.unwrap_or(now).as_millisecond()),
        ];
        let attention = session.attention.as_ref().map(|attention| {
            let at = millis(&attention.time).unwrap_or(now.as_millisecond());
            (at, attention.text.clone())
        });
        SessionFact {
            id: session.id.clone(),
            agent: session.agent.clone(),
            title: session.title.clone(),
            attention,
            active_at: active.into_iter().flatten().max().unwrap_or_default(),
            answered_at,
            is_watched: session.viewers > 0,
        }
    }

    /// Refusals of the gateway since the last look, counted per host.
    async fn refusals(&self, view: &View, stored: &InboxRecords) -> Vec<Refusal> {
        let id = &view.record.id;
        let since = stored.look.as_ref().map(|look| look.at);
        let version = view.carried.and_then(|carried| carried.refusals);
        // A keeper of an earlier release does not say whether the record has changed.
        let is_told = view.carried.is_none() || version.is_some();
        if is_told && let Some(found) = self.inbox.known_refusals(id, version, since) {
            return found;
        }
        let found = match self.egress_since(id, since, MOST_EGRESS).await {
            Ok(entries) => per_host(&entries),
            Err(fault) => {
                // It is read again at the next look.
                tracing::warn!(%id, %fault, "the record of refusals cannot be read");
                return Vec::new();
            }
        };
        let refused = Refused {
            version,
            since,
            found: found.clone(),
        };
        self.inbox.keep_refusals(id, refused);
        found
    }

    /// How many runs and sessions of agents are under way.
    async fn agents_at_work(&self, views: &[View], records: &Stored) -> Result<u64, Fault> {
        let mut working = 0;
        for view in views {
            let run = records
                .get(&view.record.id)
                .and_then(|stored| stored.run.as_ref());
            let is_under_way = run.is_some_and(|run| !run.state.has_ended());
            let sessions = self.engine.running_sessions(view).await?;
            let agents = sessions.iter().filter(|one| one.agent.is_some()).count();
            working += agents as u64 + u64::from(is_under_way);
        }
        Ok(working)
    }
}

/// The refusals among entries of the egress record.
fn per_host(entries: &[holm_api::egress::EgressEntry]) -> Vec<Refusal> {
    let mut hosts: BTreeMap<String, Refusal> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.is_refusal()) {
        let Some(host) = entry.name.as_ref().or(entry.address.as_ref()) else {
            continue;
        };
        let what = match entry.port {
            Some(port) => format!("{host}:{port}"),
            None => host.clone(),
        };
        if hosts.len() >= MOST_REFUSALS && !hosts.contains_key(&what) {
            continue;
        }
        let refusal = hosts.entry(what.clone()).or_insert(Refusal {
            what,
            ..Refusal::default()
        });
        refusal.count += entry.count;
        refusal.last_at = millis(&entry.time).unwrap_or_default().max(refusal.last_at);
    }
    hosts.into_values().collect()
}

fn notice_fact(notice: &holm_engine::inbox::NoticeRecord) -> NoticeFact {
    NoticeFact {
        at: notice.at.as_millisecond(),
        source: notice.source.clone(),
        text: notice.text.clone(),
        left_out: notice.left_out,
    }
}

fn run_fact(run: &holm_engine::inbox::LastRun) -> RunFact {
    let details = run.details.as_ref();
    let program = details.and_then(|details| {
        let command = details.command.first().cloned();
        details.agent.clone().or(command)
    });
    RunFact {
        id: run.id.to_string(),
        state: run.state,
        created_at: run.created_at.as_millisecond(),
        ended_at: details.and_then(|details| details.ended_ms),
        program: program.unwrap_or_else(|| run.id.to_string()),
        exit_code: details.and_then(|details| details.exit_code),
        reason: details.and_then(|details| details.reason.clone()),
        timeout_ms: details.map_or(0, |details| details.timeout_ms),
    }
}

fn unread_fact(unread: &holm_engine::inbox::UnreadTurns) -> UnreadFact {
    UnreadFact {
        turn: unread.number,
        at: unread.at.as_millisecond(),
        turns: unread.count,
        files: unread.details.files,
        added: unread.details.added,
        removed: unread.details.removed,
    }
}

fn comment_fact(comment: &holm_engine::review::CommentRecord) -> CommentFact {
    let details = &comment.details;
    CommentFact {
        round: details.round.unwrap_or_default(),
        is_open: details.state == CommentState::Open,
        answered_at: details.answered_at.as_deref().and_then(millis),
    }
}

/// `None`: the check has not ended with a result.
fn check_fact(check: &CheckRecord) -> Option<CheckFact> {
    let has_passed = match check.state {
        CheckState::Passed => true,
        CheckState::Failed => false,
        _ => return None,
    };
    let details = &check.details;
    let code = details.exit_code.map(|code| format!("exit {code}"));
    Some(CheckFact {
        name: check.name.clone(),
        turn: check.turn,
        has_passed,
        text: details.reason.clone().or(code).unwrap_or_default(),
        at: millis(&details.at).unwrap_or_default(),
    })
}

fn millis(time: &str) -> Option<Millis> {
    let time: Timestamp = time.parse().ok()?;
    Some(time.as_millisecond())
}

// === impl Found ===

impl Found {
    fn new(view: &View, item: inbox::Item) -> Self {
        let record = &view.record;
        let place = format!("{}/{}", view.project, record.label);
        let since = Timestamp::from_millisecond(item.since).unwrap_or_default();
        Self {
            workspace: record.id.clone(),
            since,
            item: InboxItem {
                id: format!("{}-{}", record.id, item.cause),
                workspace: record.id.to_string(),
                label: record.label.to_string(),
                project: view.project.to_string(),
                reason: item.reason,
                text: item.text,
                origin: item.origin,
                since: view::time(since),
                next: item.next.command(&place),
            },
            cause: item.cause,
        }
    }
}
