//! `/workspaces/{id}/review`: risks, evidence and changed files between two turns, for a person who decides
//! whether the work is good. Everything here is what holm recorded, never what an agent claims.

mod approve;
mod evidence;

pub use approve::routes as approve_routes;

use super::App;
use super::caller::Caller;
use super::conflicts::{Among, name_of};
use super::failure::{Answer, Body, Failure, Parameters, WorkspaceKey, bad_request};
use super::turns::Effort;
use super::view;
use super::work::escaped;
use axum::Json;
use axum::extract::State;
use holm_api::review::{Looked, Review, ReviewFile, Risk};
use holm_core::risk::{self, Changed, RiskKind, Weight, risks};
use holm_core::tree_change::{Entry, TreeChange};
use holm_core::turn::{Discrepancy, TurnNumber};
use holm_core::{Fault, WorkspaceId};
use holm_engine::review::{Look, TurnRecord};
use holm_engine::{clock, try_blocking};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use utoipa::IntoParams;

/// A larger file is not searched for risks.
const LARGEST_FILE: u64 = 1 << 20;

/// The contents of more files are not searched; their names and modes are.
const MOST_FILES: usize = 2000;

/// Stands for the content of a deleted file.
const DELETED: &str = "deleted";

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReviewQuery {
    /// `look` (default), `base`, or a turn (`@2`).
    since: Option<String>,
}

operations! {
    /// Risks, evidence and changed files of the last turn.
    get "/workspaces/{id}/review" "review" review of (WorkspaceKey, ReviewQuery) -> Review;
    /// Records that a person looked at a turn.
    post "/workspaces/{id}/review" "review_looked" looked
        of (WorkspaceKey) sends Looked -> Review;
}

/// The beginning of a review.
#[derive(Clone, Debug)]
pub enum From {
    Look,
    Base,
    Turn(TurnNumber),
}

/// A difference and what is risky about it.
pub struct Examined {
    pub changes: Vec<TreeChange>,
    pub risks: Vec<risk::Risk>,
}

async fn review(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(since): Parameters<ReviewQuery>,
) -> Answer<Review> {
    let from = from_text(since.since.as_deref())?;
    let among = match caller {
        Caller::Workspace(_) => Among::Branch,
        Caller::Person { .. } | Caller::Browser { .. } | Caller::Token { .. } | Caller::Anyone => {
            Among::Everything
        }
    };
    Ok(Json(app.review(&id, from, among).await?))
}

async fn looked(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(looked): Body<Looked>,
) -> Answer<Review> {
    let turn = match looked.turn {
        Some(number) => Some(app.turn(&id, TurnNumber(number)).await?),
        None => app.engine.last_turn(&id).await?,
    };
    match &turn {
        Some(turn) => app.note_look(&id, turn, looked.paths).await?,
        // A run can fail or be refused something without a change; a person can look at that too.
        None => app.note_look_at_nothing(&id).await?,
    }
    app.inbox.poke();
    Ok(Json(app.review(&id, From::Look, Among::Everything).await?))
}

fn from_text(text: Option<&str>) -> Result<From, Failure> {
    match text {
        None | Some("look") => Ok(From::Look),
        Some("base") => Ok(From::Base),
        Some(text) => TurnNumber::parse(text).map(From::Turn).ok_or_else(|| {
            let text = text.escape_debug();
            bad_request(format!(
                "`{text}` is neither `look`, `base` nor a turn such as `@3`"
            ))
        }),
    }
}

// === impl App ===

impl App {
    /// A workspace without a turn gets one first, so that there is something to read.
    pub async fn review(
        &self,
        id: &WorkspaceId,
        from: From,
        among: Among,
    ) -> Result<Review, Fault> {
        let to = match self.engine.last_turn(id).await? {
            Some(turn) => Some(turn),
            None => self.mark_turn(id, Effort::Look).await?.turn,
        };
        let look = self.engine.look(id).await?;
        let (from, start) = self.beginning(id, from, look.as_ref(), to.as_ref()).await?;
        let mut examined = self.examine(id, start, to.as_ref()).await?;
        let mut notes = match &to {
            Some(to) => self.add_conflicts(&mut examined.risks, to, among).await?,
            None => Vec::new(),
        };
        let viewed = self.engine.viewed(id).await?;
        let evidence = self.evidence(id, from.as_ref(), to.as_ref()).await?;
        let mut kinds: HashMap<&str, Vec<String>> = HashMap::new();
        let mut weights: HashMap<&str, Weight> = HashMap::new();
        for risk in &examined.risks {
            kinds
                .entry(&risk.path)
                .or_default()
                .push(risk.kind.as_str().to_owned());
            let weight = weights.entry(&risk.path).or_insert(Weight::Low);
            *weight = risk.kind.weight().min(*weight);
        }
        let mut files: Vec<ReviewFile> = examined
            .changes
            .iter()
            .map(|change| {
                let path = escaped(&change.path);
                let risks = kinds.get(String::from_utf8_lossy(&change.path).as_ref());
                let risks = risks.cloned().unwrap_or_default();
                file(change, path, risks, &viewed)
            })
            .collect();
        files.sort_by_key(|file| {
            (
                weights
                    .get(file.path.as_str())
                    .copied()
                    .map_or(3, |w| w as u8),
                file.path.clone(),
            )
        });
        let changed_since = self.has_changed_since(id, to.as_ref()).await;
        if let Some(failure) = self.engine.turn_failure(id)? {
            let at = view::time(failure.at);
            notes.push(format!(
                "the tree of {at} could not be recorded: {}",
                failure.text
            ));
        }
        Ok(Review {
            from: from.map(|turn| turn.number),
            to: to.as_ref().map(|turn| turn.number),
            tree: to.map(|turn| turn.tree),
            risks: examined.risks.iter().map(risk_to_api).collect(),
            evidence,
            files,
            looked_at: look.map(|look| view::time(look.at)),
            changed_since,
            notes,
            comments: self.comments(id).await?,
        })
    }

    /// Adds what cannot be merged, and returns what could not be computed.
    async fn add_conflicts(
        &self,
        risks: &mut Vec<risk::Risk>,
        turn: &TurnRecord,
        among: Among,
    ) -> Result<Vec<String>, Fault> {
        let found = self.conflicts_of(turn, among).await?;
        let labels = self.labels().await?;
        for conflict in &found.conflicts {
            let with = name_of(&conflict.with, &labels);
            risks.extend(conflict.paths.iter().map(|path| risk::Risk {
                path: path.clone(),
                kind: RiskKind::Conflict,
                text: format!("same lines as {with}"),
            }));
        }
        risks.sort_by_key(|risk| risk.kind.weight());
        Ok(found.notes)
    }

    /// The turn that a review begins at, and its tree or commit.
    async fn beginning(
        &self,
        id: &WorkspaceId,
        from: From,
        look: Option<&Look>,
        to: Option<&TurnRecord>,
    ) -> Result<(Option<TurnRecord>, Option<String>), Fault> {
        let number = match from {
            From::Base => None,
            From::Look => look
                .filter(|look| look.turn > 0)
                .map(|look| TurnNumber(look.turn)),
            From::Turn(number) => Some(number),
        };
        match number {
            None => Ok((None, to.and_then(|to| to.details.start.clone()))),
            Some(number) => {
                let turn = self.turn(id, number).await?;
                let tree = turn.tree.clone();
                Ok((Some(turn), Some(tree)))
            }
        }
    }

    /// The changes between two trees, and their risks.
    pub async fn examine(
        &self,
        id: &WorkspaceId,
        start: Option<String>,
        to: Option<&TurnRecord>,
    ) -> Result<Examined, Fault> {
        let Some(to) = to else {
            return Ok(Examined {
                changes: Vec::new(),
                risks: Vec::new(),
            });
        };
        let protected = self.engine.spec(id).await?.protected_paths.clone();
        let objects = self.turn_objects(id).await?;
        let (tree, found) = (to.tree.clone(), to.details.discrepancies.clone());
        try_blocking(move || {
            let changes = objects.changes(start.as_deref(), &tree)?;
            let entries = changes.iter().take(MOST_FILES);
            let entries = entries.flat_map(|change| [change.old.as_ref(), change.new.as_ref()]);
            let wanted: Vec<String> = entries
                .flatten()
                .map(|entry| entry.object.clone())
                .collect();
            let contents = objects.contents(&wanted, LARGEST_FILE)?;
            let risks = risks_of(&changes, &contents, &protected, &found);
            Ok(Examined { changes, risks })
        })
        .await
    }

    /// Whether the layer looks different than at the last turn.
    pub async fn has_changed_since(&self, id: &WorkspaceId, to: Option<&TurnRecord>) -> bool {
        let Some(known) = to.and_then(|to| to.details.layer.clone()) else {
            return false;
        };
        let Ok(spec) = self.engine.spec(id).await else {
            return false;
        };
        let Ok(driver) = self.engine.driver(&spec) else {
            return false;
        };
        let listed = driver.layer_changes(&spec).await;
        matches!(listed, Ok(Some(listed)) if super::turns::hex(&listed.digest) != known)
    }

    /// Records a look at a workspace without turns, as one at turn 0.
    async fn note_look_at_nothing(&self, id: &WorkspaceId) -> Result<(), Fault> {
        let look = Look {
            turn: 0,
            tree: String::new(),
            at: clock::wall(),
        };
        self.engine.set_look(id, look, Vec::new()).await
    }

    /// Records a look at a turn, with which every changed file counts as viewed. With `paths`, only these files count as viewed,
    /// and the look stays where it is: the rest is still unread.
    async fn note_look(
        &self,
        id: &WorkspaceId,
        turn: &TurnRecord,
        paths: Option<Vec<String>>,
    ) -> Result<(), Fault> {
        let examined = self
            .examine(id, turn.details.start.clone(), Some(turn))
            .await?;
        let viewed = examined
            .changes
            .iter()
            .map(|change| (escaped(&change.path), blob(change)));
        if let Some(paths) = paths {
            let paths: HashSet<String> = paths.into_iter().collect();
            let viewed = viewed.filter(|(path, _)| paths.contains(path)).collect();
            return self.engine.mark_viewed(id, viewed).await;
        }
        let look = Look {
            turn: turn.number,
            tree: turn.tree.clone(),
            at: clock::wall(),
        };
        self.engine.set_look(id, look, viewed.collect()).await
    }
}

fn risks_of(
    changes: &[TreeChange],
    contents: &HashMap<String, Vec<u8>>,
    protected: &[String],
    found: &[Discrepancy],
) -> Vec<risk::Risk> {
    let content = |entry: Option<&Entry>| contents.get(&entry?.object).cloned();
    let changed = changes.iter().map(|change| Changed {
        path: change.path.clone(),
        old_mode: change.old.as_ref().map(|entry| entry.mode),
        new_mode: change.new.as_ref().map(|entry| entry.mode),
        lines: change.lines,
        old: content(change.old.as_ref()),
        new: content(change.new.as_ref()),
    });
    risks(&changed.collect::<Vec<_>>(), protected, found)
}

pub fn risk_to_api(risk: &risk::Risk) -> Risk {
    let weight = match risk.kind.weight() {
        Weight::High => "high",
        Weight::Middle => "middle",
        Weight::Low => "low",
    };
    Risk {
        path: risk.path.clone(),
        kind: risk.kind.as_str().to_owned(),
        text: risk.text.clone(),
        weight: weight.to_owned(),
    }
}

/// The content that a viewed mark stands for.
fn blob(change: &TreeChange) -> String {
    let new = change.new.as_ref();
    new.map_or_else(|| DELETED.to_owned(), |entry| entry.object.clone())
}

fn file(
    change: &TreeChange,
    path: String,
    risks: Vec<String>,
    viewed: &BTreeMap<String, String>,
) -> ReviewFile {
    ReviewFile {
        operation: change.operation().to_owned(),
        added: change.lines.map(|(added, _)| added),
        removed: change.lines.map(|(_, removed)| removed),
        viewed: viewed.get(&path) == Some(&blob(change)),
        from: change.from.as_ref().map(|from| escaped(from)),
        risks,
        path,
    }
}
