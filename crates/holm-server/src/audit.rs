//! `GET /audit`: the audit record. Every request that may change something is recorded when it is
//! answered; anonymous requests and repeated refusals are counted and recorded together.

use super::App;
use super::caller::Caller;
use super::failure::{Answer, Parameters, bad_request, workspace_id};
use super::view::time;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holm_api::audit::{AuditEntry as ApiEntry, AuditList, AuditQuery};
use holm_api::review::ApprovalBasis;
use holm_api::route::Route;
use holm_core::{Code, Fault, RequestId, WorkspaceId};
use holm_engine::Engine;
use holm_engine::store::{
    AuditEntry, AuditFilter, AuditNote, AuditOutcome, AuditRecord, AuditResults,
};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

/// A request, as far as the record needs it.
pub struct Asked {
    pub id: RequestId,
    pub method: String,
    /// `None`: there is no such route.
    pub route: Option<&'static Route>,
    /// The workspace in the path.
    pub workspace: Option<WorkspaceId>,
    /// The other object in the path.
    pub subject: Option<String>,
}

/// What is written asynchronously, in order.
enum Later {
    Note(AuditNote),
    /// Answered when everything before it is written.
    Settle(oneshot::Sender<()>),
}

/// A handle; clones share everything.
#[derive(Clone)]
pub struct Audit {
    engine: Engine,
    /// Refusals that were not recorded yet, by caller.
    refused: Arc<Mutex<HashMap<String, Refusals>>>,
    later: mpsc::UnboundedSender<Later>,
    waiting: Arc<AsyncMutex<mpsc::UnboundedReceiver<Later>>>,
}

struct Refusals {
    since: Instant,
    count: u64,
    last: AuditEntry,
}

const USUAL: usize = 100;
const MOST: usize = 10_000;

/// Refusals of the same caller within this time are one entry.
const TOGETHER: Duration = Duration::from_secs(10);

/// Callers whose refusals are counted at a time; beyond that only the first is recorded.
const MOST_CALLERS: usize = 256;

/// Routes on the way to a new workspace, whose entries are written while the work goes on. The first
/// one only makes the repository known, and how a creation ended is added later, in order.
const BESIDE: [&str; 2] = ["/projects/sync", "/projects/{id}/workspaces"];

/// Entries that are written in one transaction.
const MOST_AT_ONCE: usize = 64;

const OFTEN: Duration = Duration::from_secs(1);

/// Stands for an unknown route.
const NO_ROUTE: &str = "-";

operations! {
    /// Who changed what, the newest first.
    get "/audit" "audit" list of (AuditQuery) -> AuditList;
}

async fn list(
    State(app): State<Arc<App>>,
    Parameters(query): Parameters<AuditQuery>,
) -> Answer<AuditList> {
    let limit = query.limit.unwrap_or(USUAL).clamp(1, MOST);
    let since = query.since.as_deref().map(str::parse::<Timestamp>);
    let filter = AuditFilter {
        before: query.before,
        actor: query.actor,
        workspace: query.workspace.as_deref().map(workspace_id).transpose()?,
        since: since
            .transpose()
            .map_err(|_| bad_request("`since` is not a time of RFC 3339"))?,
        results: if query.bad {
            AuditResults::Bad
        } else {
            AuditResults::All
        },
    };
    app.audit.settle().await;
    let mut found = app.engine.audit(filter, limit + 1).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|last| last.cursor);
    let audit = found.into_iter().map(to_api).collect::<Result<_, _>>()?;
    Ok(Json(AuditList { audit, next }))
}

fn to_api(AuditRecord { cursor, entry }: AuditRecord) -> Result<ApiEntry, Fault> {
    let basis = entry.evidence.as_deref().map(approval_basis).transpose()?;
    Ok(ApiEntry {
        cursor,
        time: time(entry.at),
        actor: entry.actor,
        request_id: entry.request.to_string(),
        method: entry.method,
        route: entry.route,
        workspace: entry.workspace.map(|id| id.to_string()),
        subject: entry.subject,
        outcome: entry.outcome,
        basis,
        status: entry.status,
        code: entry.code,
        count: entry.count,
    })
}

/// Reads what was stored with an approval.
pub fn approval_basis(stored: &str) -> Result<ApprovalBasis, Fault> {
    serde_json::from_str(stored).map_err(|error| {
        let message = "the stored evidence of an approval is damaged";
        Fault::new(Code::CorruptState, message, "holm doctor").because(error)
    })
}

/// How a request was answered.
pub struct Answered {
    pub status: StatusCode,
    pub code: Option<Code>,
    pub outcome: Option<Outcome>,
}

/// What a request did, for its entry. A route puts it into its response, so that the entry is
/// written once, with it.
#[derive(Clone)]
pub struct Outcome {
    pub text: String,
    /// What holm had recorded about an approved tree, as JSON.
    pub evidence: Option<String>,
}

// === impl Audit ===

impl Audit {
    pub fn new(engine: &Engine) -> Self {
        let (later, waiting) = mpsc::unbounded_channel();
        Self {
            engine: engine.clone(),
            refused: Arc::default(),
            later,
            waiting: Arc::new(AsyncMutex::new(waiting)),
        }
    }

    /// Adds the later result of a request to its entry, which this queue must have got first.
    pub fn ended(
        &self,
        request: &RequestId,
        workspace: Option<&WorkspaceId>,
        end: Result<String, Code>,
    ) {
        let (outcome, code) = match end {
            Ok(outcome) => (outcome, None),
            Err(code) => ("failed".to_owned(), Some(code.as_str().to_owned())),
        };
        let outcome = AuditOutcome {
            request: request.clone(),
            workspace: workspace.cloned(),
            outcome,
            code,
        };
        // The writer is gone only when the daemon ends.
        let _ = self.later.send(Later::Note(AuditNote::Outcome(outcome)));
    }

    /// Records an action of holm itself.
    pub async fn note_own(
        &self,
        route: &'static str,
        workspace: Option<WorkspaceId>,
        outcome: String,
    ) {
        let entry = AuditEntry {
            at: Timestamp::now(),
            actor: "holm".to_owned(),
            request: RequestId::random(),
            method: "-".to_owned(),
            route: route.to_owned(),
            workspace,
            subject: None,
            status: StatusCode::OK.as_u16(),
            code: None,
            outcome: Some(outcome),
            evidence: None,
            count: 1,
        };
        self.write(entry).await;
    }

    /// Records a request and its response, if required.
    pub async fn note(&self, asked: &Asked, caller: &Caller, actor: String, answered: Answered) {
        let Answered {
            status,
            code,
            outcome,
        } = answered;
        let is_refused = matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND
        );
        let is_stranger = matches!(caller, Caller::Workspace(_) | Caller::Anyone);
        // A page asks for a ticket before each WebSocket, and a WebSocket that can change something has its own entry.
        let is_ticket = asked.route.is_some_and(|route| route.path == "/ui/ticket");
        let changes =
            asked.route.is_some_and(Route::changes) && !(is_ticket && status.is_success());
        let counts = is_refused && is_stranger;
        let is_worth_it = changes || (counts && status != StatusCode::NOT_FOUND);
        if !is_worth_it {
            return;
        }
        let (outcome, evidence) = match outcome {
            Some(outcome) => (Some(outcome.text), outcome.evidence),
            None => (None, None),
        };
        let entry = AuditEntry {
            at: Timestamp::now(),
            actor,
            request: asked.id.clone(),
            method: asked
                .method
                .chars()
                .take(16)
                .flat_map(char::escape_debug)
                .collect(),
            route: asked.route.map_or(NO_ROUTE, |route| route.path).to_owned(),
            workspace: asked.workspace.clone(),
            subject: asked.subject.clone(),
            status: status.as_u16(),
            code: code.map(|code| code.as_str().to_owned()),
            outcome,
            evidence,
            count: 1,
        };
        if counts && !self.is_first(&entry) {
            return;
        }
        // A client that waits for a command or a creation must not wait for this too.
        let is_waited_for = BESIDE.contains(&entry.route.as_str()) && status == StatusCode::OK;
        if status == StatusCode::SWITCHING_PROTOCOLS || is_waited_for {
            let note = AuditNote::Entry(Box::new(entry));
            let _ = self.later.send(Later::Note(note));
        } else {
            self.write(entry).await;
        }
    }

    /// Writes counted and asynchronous entries, for as long as it is polled.
    pub async fn watch(self) {
        let mut waiting = self.waiting.lock().await;
        let mut often = tokio::time::interval(OFTEN);
        let mut later = Vec::new();
        loop {
            tokio::select! {
                count = waiting.recv_many(&mut later, MOST_AT_ONCE) => match count {
                    0 => return,
                    _ => self.write_later(std::mem::take(&mut later)).await,
                },
                _ = often.tick() => for entry in self.due() {
                    self.write(entry).await;
                },
            }
        }
    }

    /// Waits until what was answered before is written, so that a reader sees it.
    async fn settle(&self) {
        let (written, settled) = oneshot::channel();
        let _ = self.later.send(Later::Settle(written));
        // No task writes any more when the daemon stops.
        let _ = tokio::time::timeout(OFTEN, settled).await;
    }

    async fn write_later(&self, later: Vec<Later>) {
        let (mut notes, mut readers) = (Vec::new(), Vec::new());
        for one in later {
            match one {
                Later::Note(note) => notes.push(note),
                Later::Settle(reader) => readers.push(reader),
            }
        }
        if !notes.is_empty()
            && let Err(fault) = self.engine.note_audit(notes.clone()).await
        {
            tracing::warn!(%fault, ?notes, "who did this or how it ended was not written down");
        }
        for reader in readers {
            let _ = reader.send(());
        }
    }

    /// Whether this is the first refusal of its caller for a while. Others are counted.
    fn is_first(&self, entry: &AuditEntry) -> bool {
        let mut refused = lock(&self.refused);
        if let Some(refusals) = refused.get_mut(&entry.actor) {
            refusals.count += 1;
            refusals.last = entry.clone();
            return false;
        }
        if refused.len() < MOST_CALLERS {
            let refusals = Refusals {
                since: Instant::now(),
                count: 0,
                last: entry.clone(),
            };
            refused.insert(entry.actor.clone(), refusals);
        }
        true
    }

    fn due(&self) -> Vec<AuditEntry> {
        let mut due = Vec::new();
        lock(&self.refused).retain(|_, refusals| {
            if refusals.since.elapsed() < TOGETHER {
                return true;
            }
            if refusals.count == 0 {
                return false;
            }
            due.push(AuditEntry {
                count: refusals.count,
                ..refusals.last.clone()
            });
            refusals.count = 0;
            refusals.since = Instant::now();
            true
        });
        due
    }

    async fn write(&self, entry: AuditEntry) {
        if let Err(fault) = self.engine.add_audit(entry.clone()).await {
            tracing::warn!(%fault, ?entry, "who did this was not written down");
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
