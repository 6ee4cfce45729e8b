//! `/workspaces/{id}/approve`: a person's yes to one exact tree.
//!
//! A workspace cannot approve, and neither can a token that was not made for it. The tree is recorded and read
//! again at this moment. Clients compare the approved tree with the objects that they fetched, so an edit after
//! the approval voids it, whenever it happens. What holm had recorded about the tree is stored with the approval, and in
//! the audit record, which outlives the workspace. Where an approval is demanded, the daemon lets no other commit leave
//! through `upload-pack`.

use crate::App;
use crate::audit::{Outcome, approval_basis};
use crate::caller::Caller;
use crate::failure::{Answer, Body, Failure, WorkspaceKey, bad_request};
use crate::turns::Effort;
use crate::view;
use crate::work::escaped;
use axum::extract::State;
use axum::{Extension, Json};
use holm_api::review::{Approval, ApprovalBasis, Approve, Approved};
use holm_core::ignore::Rules;
use holm_core::turn::{DiscrepancyKind, UNAPPROVED};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::review::{TreeApproval, TurnRecord};
use holm_engine::{clock, try_blocking};
use serde_json::json;
use std::sync::Arc;

/// The shortest beginning of a tree's id that a person may type.
const SHORTEST: usize = 7;

/// The most risks that are stored with an approval.
const MOST_RISKS: usize = 1000;

/// Rules of git in the tree.
const ATTRIBUTES: &[u8] = b".gitattributes";
const LARGEST_RULES: u64 = 1 << 20;

operations! {
    /// The newest approval, and whether one is demanded.
    get "/workspaces/{id}/approve" "approval" show of (WorkspaceKey) -> Approval;
    /// Records the tree of this moment as a turn and approves it.
    post "/workspaces/{id}/approve" "approve" approve of (WorkspaceKey) sends Approve -> Approved;
}

async fn show(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Approval> {
    let approval = app.engine.tree_approval(&id).await?;
    let required_by = app.who_demands_approval(&id).await?;
    let (tree, turn) = approval
        .as_ref()
        .map(|yes| (yes.tree.clone(), yes.turn))
        .unzip();
    let basis = approval.as_ref().map(|yes| approval_basis(&yes.evidence));
    Ok(Json(Approval {
        tree,
        turn,
        basis: basis.transpose()?,
        at: approval.as_ref().map(|yes| view::time(yes.at)),
        by: approval.map(|yes| yes.actor),
        required: required_by.is_some(),
        required_by: required_by.map(str::to_owned),
    }))
}

async fn approve(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Body(approve): Body<Approve>,
) -> Result<(Extension<Outcome>, Json<Approved>), Failure> {
    may_approve(&app, &caller)?;
    if matches!(caller, Caller::Browser { .. }) && approve.tree.is_none() {
        return Err(bad_request("the page names the tree that it shows: `tree`"));
    }
    let turn = app.mark_turn(&id, Effort::Read).await?.turn;
    let turn = turn.ok_or_else(|| nothing(&id))?;
    check(&id, &turn, approve.tree.as_deref())?;
    app.refuse_large_file_storage(&id, &turn).await?;
    let (approved, evidence) = app.approve_turn(&id, &turn, &caller).await?;
    let text = format!(
        "approved tree {} (@{}): {} files since the last look, {} risks, {} of {} checks passed",
        approved.tree,
        approved.turn,
        approved.files.len(),
        approved.risks,
        approved.passed(),
        approved.checks.len()
    );
    let outcome = Outcome {
        text,
        evidence: Some(evidence),
    };
    Ok((Extension(outcome), Json(approved)))
}

/// The gate refuses workspaces; a token needs this right besides.
fn may_approve(app: &App, caller: &Caller) -> Result<(), Failure> {
    let is_allowed = match caller {
        Caller::Person { .. } | Caller::Browser { .. } => true,
        Caller::Token { id, .. } => app.tokens.may_approve(id),
        Caller::Workspace(_) | Caller::Anyone => false,
    };
    if is_allowed {
        return Ok(());
    }
    Err(Failure(Fault::new(
        Code::Forbidden,
        "this token may not approve",
        "a person approves with `holm approve WS`, or makes a token with `holm token new --may approve`",
    )))
}

fn check(id: &WorkspaceId, turn: &TurnRecord, tree: Option<&str>) -> Result<(), Fault> {
    let is_moving = turn
        .details
        .discrepancies
        .iter()
        .any(|found| found.kind == DiscrepancyKind::Moving);
    if is_moving {
        return Err(Fault::new(
            Code::TreeChanged,
            format!("files of workspace {id} change while its tree is recorded"),
            format!("wait until its programs are quiet, or `holm stop {id}`, then approve again"),
        ));
    }
    let Some(tree) = tree else { return Ok(()) };
    if tree.len() >= SHORTEST && turn.tree.starts_with(tree) {
        return Ok(());
    }
    if turn.tree.starts_with(tree) {
        return Err(Fault::new(
            Code::BadRequest,
            format!("`{tree}` is too short for a tree: at least {SHORTEST} digits"),
            format!("`holm approve {id} --tree {}`", short(&turn.tree)),
        ));
    }
    Err(Fault::new(
        Code::TreeChanged,
        format!(
            "the tree is {} (@{}), not {}",
            short(&turn.tree),
            turn.number,
            tree.escape_debug()
        ),
        format!("read what changed: `holm review {id}`, then approve that"),
    ))
}

// === impl App ===

impl App {
    async fn approve_turn(
        &self,
        id: &WorkspaceId,
        turn: &TurnRecord,
        caller: &Caller,
    ) -> Result<(Approved, String), Fault> {
        let look = self.engine.look(id).await?;
        let seen = look
            .filter(|look| look.turn > 0)
            .map(|look| look.tree)
            .or_else(|| turn.details.start.clone());
        let since = self.examine(id, seen, Some(turn)).await?;
        let whole = self
            .examine(id, turn.details.start.clone(), Some(turn))
            .await?;
        let evidence = self.evidence(id, None, Some(turn)).await?;
        let checks = evidence.checks.clone();
        let risks = whole.risks.iter().take(MOST_RISKS);
        let basis = ApprovalBasis {
            risks: risks.map(super::risk_to_api).collect(),
            evidence,
        };
        let record = serde_json::to_string(&basis).map_err(|error| {
            let message = "the basis of the approval cannot be stored";
            Fault::new(Code::Internal, message, "try again").because(error)
        })?;
        let yes = TreeApproval {
            tree: turn.tree.clone(),
            turn: turn.number,
            at: clock::wall(),
            actor: caller.actor(),
            evidence: record.clone(),
        };
        self.engine.approve_tree(id, yes).await?;
        let detail = json!({ "turn": turn.number, "tree": turn.tree });
        self.events.emit(id, "turn.approved", detail).await;
        let approved = Approved {
            turn: turn.number,
            tree: turn.tree.clone(),
            files: since
                .changes
                .iter()
                .map(|change| escaped(&change.path))
                .collect(),
            risks: whole.risks.len() as u64,
            checks,
        };
        Ok((approved, record))
    }

    /// A turn has the content of a file, and a commit has git-lfs's pointer in its place: an approval of the one would
    /// never fit the other.
    async fn refuse_large_file_storage(
        &self,
        id: &WorkspaceId,
        turn: &TurnRecord,
    ) -> Result<(), Fault> {
        let objects = self.turn_objects(id).await?;
        let (start, tree) = (turn.details.start.clone(), turn.tree.clone());
        let found = try_blocking(move || {
            let name = ATTRIBUTES.to_vec();
            let entries = objects.entries(&tree, std::slice::from_ref(&name))?;
            let Some(entry) = entries.get(&name) else {
                return Ok(None);
            };
            let contents = objects.contents(std::slice::from_ref(&entry.object), LARGEST_RULES)?;
            let mut rules = Rules::default();
            for text in contents.values() {
                for pattern in holm_git::lfs_patterns(text) {
                    rules.add(b"", pattern.as_bytes());
                }
            }
            let changes = objects.changes(start.as_deref(), &tree)?;
            let mut changed = changes.into_iter().filter(|change| change.new.is_some());
            Ok(changed.find(|change| rules.cover(&change.path, false)))
        });
        let Some(change) = found.await? else {
            return Ok(());
        };
        Err(Fault::new(
            Code::Refused,
            format!(
                "{} of workspace {id} is stored by git-lfs: its commit has a pointer in place of the content, so no approval would fit it",
                escaped(&change.path)
            ),
            format!(
                "read it with `holm diff {id}`, then take it without an approval: `holm fetch {id}`"
            ),
        ))
    }

    /// Refuses a commit that is about to leave, if an approval is demanded that its tree does not have. git inside
    /// says what the tree is; the client compares what it received.
    pub async fn require_approved(&self, id: &WorkspaceId, commit: &str) -> Result<(), Fault> {
        let Some(by) = self.who_demands_approval(id).await? else {
            return Ok(());
        };
        let tree = self.engine.tree_of(id, commit).await?;
        let approval = self.engine.tree_approval(id).await?;
        if approval.is_some_and(|yes| yes.tree == tree) {
            return Ok(());
        }
        Err(Fault::new(
            Code::NotApproved,
            format!(
                "tree {} of workspace {id} {UNAPPROVED} {by} demands it",
                short(&tree)
            ),
            format!("read it: `holm review {id}`, then `holm approve {id}`"),
        ))
    }

    /// What demands an approval before work is taken over. An unreadable setting is an error, never "no".
    async fn who_demands_approval(&self, id: &WorkspaceId) -> Result<Option<&'static str>, Fault> {
        let is_in_project = self.engine.spec(id).await?.review_required;
        let (policy, path, home) = (
            self.policy.clone(),
            self.paths.config_file.clone(),
            self.home(),
        );
        try_blocking(move || {
            let is_in_policy = policy.load()?.is_some_and(|policy| policy.review_required);
            let settings = holm_config::user::load(&path, &home)?;
            Ok(
                match (is_in_policy, settings.review_required, is_in_project) {
                    (true, _, _) => Some("policy"),
                    (_, true, _) => Some("settings"),
                    (_, _, true) => Some("holm.toml"),
                    (false, false, false) => None,
                },
            )
        })
        .await
    }
}

fn nothing(id: &WorkspaceId) -> Fault {
    Fault::new(
        Code::Refused,
        format!("workspace {id} has changed nothing, so there is nothing to approve"),
        format!("`holm changes {id}` shows what it has changed"),
    )
}

fn short(tree: &str) -> &str {
    &tree[..tree.len().min(SHORTEST)]
}
