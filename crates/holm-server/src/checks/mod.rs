//! `/workspaces/{id}/checks`: runs the project's checks on a turn, each in a fresh workspace, and keeps the results.
//!
//! A result belongs to a tree, a check and the layers below it; the same is not run twice. Checks of an older tree of
//! a workspace are cancelled when a newer one is checked. They belong to this daemon: the next one records those that
//! it finds under way as cancelled, and recovery has undone their workspaces.

mod fresh;
pub mod log;
mod work;

use crate::App;
use crate::caller::Caller;
use crate::failure::{Answer, Body, Parameters, WorkspaceKey};
use crate::layers::patterns;
use crate::turns::Effort;
use crate::view;
use axum::extract::State;
use axum::{Extension, Json};
use fresh::Subject;
use holm_api::check::{CheckList, CheckResult, RunChecks};
use holm_core::check::{Check, CheckState, Earlier, Repeat, Step, at_once, step};
use holm_core::run::Requester;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault, RequestId, WorkspaceId};
use holm_engine::review::{CheckDetails, CheckRecord, TurnRecord};
use holm_engine::{Cancel, Notice, clock};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use utoipa::IntoParams;
use work::Job;

/// The checks under way in this daemon.
pub struct Checks {
    under_way: Mutex<HashMap<(WorkspaceId, String), UnderWay>>,
    /// As many as may run at once.
    places: Arc<Semaphore>,
    /// Changes with every news of a check.
    news: watch::Sender<u64>,
}

#[derive(Clone)]
struct UnderWay {
    tree: String,
    key: String,
    cancel: Cancel,
}

/// What a request asks for.
struct Wish {
    names: Vec<String>,
    repeat: Repeat,
    asker: Requester,
}

/// The parameters of `GET /workspaces/{id}/checks`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// The id of a tree. Default: that of the last turn.
    tree: Option<String>,
    /// Answer when the revision is another one, or after 20 seconds.
    after: Option<u64>,
}

/// How long a client waits for news.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a cancelled check may take to be undone.
const CANCELLED_WITHIN: Duration = Duration::from_secs(60);

operations! {
    /// Begins the checks of the tree of this moment, which becomes a turn. Those with a result for it are not run again.
    post "/workspaces/{id}/checks" "check" run of (WorkspaceKey) sends RunChecks -> CheckList;
    /// The checks of a tree, and how they are.
    get "/workspaces/{id}/checks" "check_list" list of (WorkspaceKey, Which) -> CheckList;
    /// Cancels the checks of a workspace that are under way; answers when their workspaces are gone.
    post "/workspaces/{id}/checks/cancel" "check_cancel" cancel of (WorkspaceKey) -> CheckList;
}

async fn run(
    State(app): State<Arc<App>>,
    caller: Caller,
    Extension(request): Extension<RequestId>,
    WorkspaceKey(id): WorkspaceKey,
    Body(asked): Body<RunChecks>,
) -> Answer<CheckList> {
    let wish = Wish {
        names: asked.names,
        repeat: if asked.again {
            Repeat::Always
        } else {
            Repeat::IfNeeded
        },
        asker: caller.asker(),
    };
    // Before a stopped workspace is started to record its tree.
    wish.of(&*app.engine.spec(&id).await?)?;
    let effort = match app.is_running(&id).await {
        true => Effort::Read,
        // Nothing inside can have changed a file since.
        false => Effort::Look,
    };
    let turn = app.mark_turn(&id, effort).await?.turn;
    let begun = app.begin_checks(&id, turn, wish).await?;
    let text = format!(
        "checks of tree {}: {}",
        begun.tree.as_deref().unwrap_or_default(),
        names_of(&begun.checks)
    );
    app.audit.ended(&request, Some(&id), Ok(text));
    Ok(Json(begun))
}

async fn list(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(which): Parameters<Which>,
) -> Answer<CheckList> {
    app.engine.project_of(&id).await?;
    if let Some(after) = which.after {
        let mut news = app.checks.news.subscribe();
        // The sender is part of `app`; without news the answer is that of now.
        let _ = tokio::time::timeout(PATIENCE, news.wait_for(|now| *now != after)).await;
    }
    Ok(Json(app.check_list(&id, which.tree).await?))
}

async fn cancel(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<CheckList> {
    let tree = app.checks.tree_under_way(&id);
    app.cancel_checks(|workspace| *workspace == id).await?;
    Ok(Json(app.check_list(&id, tree).await?))
}

/// Checks the turns of runs where the project wants it, and cancels checks of removed workspaces.
pub fn begin(app: &Arc<App>) {
    let listening: Weak<App> = Arc::downgrade(app);
    app.engine.subscribe(move |id, notice| {
        if matches!(notice, Notice::Removed | Notice::Forgotten)
            && let Some(app) = listening.upgrade()
        {
            app.checks.cancel(|workspace, _| workspace == id);
        }
    });
}

// === impl Wish ===

impl Wish {
    /// The checks that are meant.
    fn of<'a>(&self, spec: &'a WorkspaceSpec) -> Result<Vec<&'a Check>, Fault> {
        if spec.checks.is_empty() {
            return Err(none_declared(&spec.id));
        }
        let is_known = |name: &&String| spec.checks.iter().any(|check| check.name == **name);
        if let Some(name) = self.names.iter().find(|name| !is_known(name)) {
            return Err(not_found(name, spec));
        }
        let is_meant = |check: &&Check| self.names.is_empty() || self.names.contains(&check.name);
        Ok(spec.checks.iter().filter(is_meant).collect())
    }
}

// === impl Checks ===

impl Checks {
    pub fn new(asked: Option<u64>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            under_way: Mutex::default(),
            places: Arc::new(Semaphore::new(at_once(asked, cores))),
            news: watch::channel(0).0,
        }
    }

    pub fn is_under_way(&self, id: &WorkspaceId, name: &str) -> bool {
        let key = (id.clone(), name.to_owned());
        self.locked().contains_key(&key)
    }

    fn tree_under_way(&self, id: &WorkspaceId) -> Option<String> {
        let locked = self.locked();
        let mut own = locked.iter().filter(|((workspace, _), _)| workspace == id);
        own.next().map(|(_, one)| one.tree.clone())
    }

    /// Requests the end of checks; they end by themselves then.
    fn cancel(&self, is_meant: impl Fn(&WorkspaceId, &UnderWay) -> bool) {
        for ((workspace, _), one) in self.locked().iter() {
            if is_meant(workspace, one) {
                one.cancel.request();
            }
        }
    }

    /// Registers a check. `None`: exactly this one is under way already. One of the same name with another key was
    /// cancelled before.
    fn enter(&self, record: &CheckRecord) -> Option<Cancel> {
        let key = (record.workspace.clone(), record.name.clone());
        let mut locked = self.locked();
        if let Some(one) = locked.get(&key)
            && one.key == record.key
            && !one.cancel.is_requested()
        {
            return None;
        }
        let one = UnderWay {
            tree: record.tree.clone(),
            key: record.key.clone(),
            cancel: Cancel::default(),
        };
        let cancel = one.cancel.clone();
        if let Some(before) = locked.insert(key, one) {
            before.cancel.request();
        }
        Some(cancel)
    }

    /// Whether no check of the same name and tree has taken the place of this one.
    fn is_current(&self, record: &CheckRecord, cancel: &Cancel) -> bool {
        let key = (record.workspace.clone(), record.name.clone());
        let locked = self.locked();
        let newer = locked.get(&key).filter(|one| !one.cancel.is(cancel));
        newer.is_none_or(|newer| newer.tree != record.tree)
    }

    /// A check of the same name may have taken its place.
    fn leave(&self, record: &CheckRecord, cancel: &Cancel) {
        let key = (record.workspace.clone(), record.name.clone());
        let mut locked = self.locked();
        if locked.get(&key).is_some_and(|one| one.cancel.is(cancel)) {
            locked.remove(&key);
        }
    }

    fn note(&self) {
        self.news.send_modify(|revision| *revision += 1);
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<(WorkspaceId, String), UnderWay>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl App ===

impl App {
    /// Runs the checks of a turn that a run recorded, if the project wants it.
    pub async fn check_by_itself(self: &Arc<Self>, id: &WorkspaceId, turn: TurnRecord) {
        let begun = async {
            let spec = self.engine.spec(id).await?;
            if !spec.check_runs || spec.checks.is_empty() {
                return Ok(());
            }
            let wish = Wish {
                names: Vec::new(),
                repeat: Repeat::IfNeeded,
                // A program inside can start a run, so what follows a run gets no secrets.
                asker: Requester::Guest,
            };
            self.begin_checks(id, Some(turn), wish).await.map(drop)
        };
        if let Err(fault) = begun.await {
            tracing::warn!(%id, %fault, "the checks of a turn did not begin");
        }
    }

    /// Records the checks of an earlier daemon as cancelled.
    pub async fn end_interrupted_checks(&self) -> Result<(), Fault> {
        for mut record in self.engine.open_checks().await? {
            record.state = CheckState::Cancelled;
            record.details.reason = Some("the daemon ended before the check did".to_owned());
            self.end_check(&record).await;
        }
        Ok(())
    }

    /// Cancels checks, and returns when their workspaces are gone.
    pub async fn cancel_checks(
        &self,
        is_meant: impl Fn(&WorkspaceId) -> bool,
    ) -> Result<(), Fault> {
        self.checks.cancel(|workspace, _| is_meant(workspace));
        let mut news = self.checks.news.subscribe();
        let is_over = |_: &u64| {
            let under_way = self.checks.locked();
            !under_way.keys().any(|(workspace, _)| is_meant(workspace))
        };
        let over = tokio::time::timeout(CANCELLED_WITHIN, news.wait_for(is_over)).await;
        match over {
            Ok(_) => Ok(()),
            Err(_) => Err(Fault::new(
                Code::Busy,
                "a cancelled check has not ended yet",
                "`holm check WS` says how it is",
            )),
        }
    }

    async fn check_list(&self, id: &WorkspaceId, tree: Option<String>) -> Result<CheckList, Fault> {
        // Read before the results: a change in between then counts as news.
        let revision = *self.checks.news.borrow();
        let tree = match tree.or_else(|| self.checks.tree_under_way(id)) {
            Some(tree) => Some(tree),
            None => self.engine.last_turn(id).await?.map(|turn| turn.tree),
        };
        let records = match &tree {
            Some(tree) => self.engine.checks_of(id, tree).await?,
            None => Vec::new(),
        };
        Ok(CheckList {
            turn: records.iter().filter_map(|record| record.turn).max(),
            checks: records.iter().map(|record| result(record, false)).collect(),
            tree,
            revision,
        })
    }

    /// Decides about each check of a tree, and starts those that have to run.
    async fn begin_checks(
        self: &Arc<Self>,
        id: &WorkspaceId,
        turn: Option<TurnRecord>,
        wish: Wish,
    ) -> Result<CheckList, Fault> {
        let spec = self.engine.spec(id).await?;
        let wanted = wish.of(&spec)?;
        let subject = self.subject(id, &spec, turn).await?;
        let tree = &subject.tree;
        self.checks
            .cancel(|workspace, one| workspace == id && one.tree != *tree);
        let known = self.engine.checks_of(id, tree).await?;
        let mut checks = Vec::new();
        for check in wanted {
            let before = known.iter().find(|record| record.name == check.name);
            let begun = self.begin_check(&spec, check, &subject, before, &wish);
            checks.push(begun.await?);
        }
        self.checks.note();
        let revision = *self.checks.news.borrow();
        Ok(CheckList {
            checks,
            turn: subject.number(),
            tree: Some(subject.tree),
            revision,
        })
    }

    async fn begin_check(
        self: &Arc<Self>,
        spec: &WorkspaceSpec,
        check: &Check,
        subject: &Subject,
        before: Option<&CheckRecord>,
        wish: &Wish,
    ) -> Result<CheckResult, Fault> {
        let id = subject.workspace.clone();
        let fresh = self.fresh_spec(spec, check, subject).await?;
        let key = self.check_key(check, subject, &fresh, wish.asker).await?;
        let mut record = CheckRecord {
            workspace: id.clone(),
            tree: subject.tree.clone(),
            name: check.name.clone(),
            key,
            state: CheckState::Queued,
            turn: subject.number(),
            details: CheckDetails {
                at: view::time(clock::wall()),
                ..CheckDetails::default()
            },
        };
        let (when, changed) = (patterns(&check.when)?, subject.changed_paths());
        let earlier = before.map(|before| Earlier {
            key: &before.key,
            state: before.state,
        });
        let step = step(&when, &changed, &record.key, earlier, wish.repeat);
        match (step, before) {
            (Step::Reuse, Some(before)) => return self.reuse(before, subject).await,
            (Step::Skip, _) => {
                record.state = CheckState::Skipped;
                record.details.reason = Some(format!("nothing of {:?} changed", check.when));
                self.engine.save_check(record.clone()).await?;
            }
            (Step::Run | Step::Reuse, _) => {
                if let Some(cancel) = self.checks.enter(&record) {
                    let job = Job {
                        check: check.clone(),
                        subject: subject.clone(),
                        spec: fresh,
                        record: record.clone(),
                        asker: wish.asker,
                        cancel,
                        id,
                    };
                    self.start_check(job).await?;
                }
            }
        }
        Ok(result(&record, false))
    }

    /// The recorded result, now also of this turn.
    async fn reuse(&self, before: &CheckRecord, subject: &Subject) -> Result<CheckResult, Fault> {
        if before.turn != subject.number() {
            let record = CheckRecord {
                turn: subject.number(),
                ..before.clone()
            };
            self.engine.save_check(record).await?;
        }
        Ok(result(before, true))
    }
}

/// In API types.
pub fn result(record: &CheckRecord, reused: bool) -> CheckResult {
    let details = &record.details;
    CheckResult {
        name: record.name.clone(),
        state: record.state,
        exit_code: details.exit_code,
        tree: record.tree.clone(),
        ms: details.ms,
        reason: details.reason.clone(),
        at: details.at.clone(),
        reused,
    }
}

fn names_of(checks: &[CheckResult]) -> String {
    let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
    names.join(", ")
}

fn not_found(name: &str, spec: &WorkspaceSpec) -> Fault {
    let names: Vec<&str> = spec
        .checks
        .iter()
        .map(|check| check.name.as_str())
        .collect();
    Fault::new(
        Code::CheckNotFound,
        format!("there is no check `{}`", name.escape_debug()),
        format!("there are: {}", names.join(", ")),
    )
}

fn none_declared(id: &str) -> Fault {
    Fault::new(
        Code::CheckNotFound,
        "the project declares no checks",
        format!(
            "add `[checks.test]` with `run = \"npm test\"` to holm.toml, then `holm reload {id}`"
        ),
    )
}
