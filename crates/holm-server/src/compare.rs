//! `/compare`: workspaces of one project side by side, each with its last turn.

use super::conflicts::{Among, Found, name_of};
use super::failure::{Answer, Parameters, bad_request};
use super::turns::Effort;
use super::{App, review};
use axum::Json;
use axum::extract::State;
use holm_api::review::{Compared, Comparison, ConflictWith};
use holm_core::conflict::{Conflict, Other};
use holm_core::tree_change::sum_of_lines;
use holm_core::{Code, Fault, WorkspaceId};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use utoipa::IntoParams;

/// People cannot read more side by side.
const MOST: usize = 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// Two or more ids of workspaces of one project, with commas between.
    workspaces: String,
}

operations! {
    /// Workspaces of one project side by side.
    get "/compare" "compare" compare of (Which) -> Comparison;
}

async fn compare(
    State(app): State<Arc<App>>,
    Parameters(which): Parameters<Which>,
) -> Answer<Comparison> {
    let ids: Result<Vec<WorkspaceId>, _> = which
        .workspaces
        .split(',')
        .map(WorkspaceId::parse)
        .collect();
    let ids = ids.map_err(bad_request)?;
    let mut distinct = ids.clone();
    distinct.sort();
    distinct.dedup();
    if distinct.len() != ids.len() || !(2..=MOST).contains(&ids.len()) {
        let why = format!("`workspaces` names 2 to {MOST} different workspaces");
        return Err(bad_request(why));
    }
    app.are_siblings(&ids).await?;
    let labels = app.labels().await?;
    let (mut workspaces, mut notes) = (Vec::new(), Vec::new());
    for id in &ids {
        workspaces.push(app.compared(id, &labels, &mut notes).await?);
    }
    notes.dedup();
    Ok(Json(Comparison { workspaces, notes }))
}

// === impl App ===

impl App {
    async fn are_siblings(&self, ids: &[WorkspaceId]) -> Result<(), Fault> {
        let mut first = None;
        for id in ids {
            let project = self.engine.project_of(id).await?;
            let first = first.get_or_insert_with(|| project.clone());
            if first.id != project.id {
                return Err(Fault::new(
                    Code::Refused,
                    format!(
                        "{} is of project `{}`, and {id} of `{}`: only workspaces of one project are compared",
                        ids[0], first.name, project.name
                    ),
                    "`holm ls` shows the workspaces of each project",
                ));
            }
        }
        Ok(())
    }

    /// A workspace without a turn gets one first.
    async fn compared(
        &self,
        id: &WorkspaceId,
        labels: &HashMap<WorkspaceId, String>,
        notes: &mut Vec<String>,
    ) -> Result<Compared, Fault> {
        let turn = match self.engine.last_turn(id).await? {
            Some(turn) => Some(turn),
            None => self.mark_turn(id, Effort::Look).await?.turn,
        };
        let start = turn.as_ref().and_then(|turn| turn.details.start.clone());
        let examined = self.examine(id, start, turn.as_ref()).await?;
        let evidence = self.evidence(id, None, turn.as_ref()).await?;
        let (added, removed) = sum_of_lines(&examined.changes);
        let found = match &turn {
            Some(turn) => self.conflicts_of(turn, Among::Everything).await?,
            None => Found::default(),
        };
        notes.extend(found.notes);
        let conflicts = found.conflicts.iter();
        let mut conflicts: Vec<_> = conflicts
            .map(|conflict| conflict_to_api(conflict, labels))
            .collect();
        conflicts.sort_by(|one, other| one.with.cmp(&other.with));
        Ok(Compared {
            id: id.to_string(),
            label: labels.get(id).cloned().unwrap_or_else(|| id.to_string()),
            turn: turn.as_ref().map(|turn| turn.number),
            changed_since: self.has_changed_since(id, turn.as_ref()).await,
            tree: turn.map(|turn| turn.tree),
            files: examined.changes.len() as u64,
            added,
            removed,
            checks: evidence.checks,
            ms: self.time_of_runs(id).await?,
            hosts: evidence.hosts,
            volumes: evidence.volumes,
            risks: examined.risks.iter().map(review::risk_to_api).collect(),
            conflicts,
            branch: found.branch,
        })
    }
}

fn conflict_to_api(conflict: &Conflict, labels: &HashMap<WorkspaceId, String>) -> ConflictWith {
    ConflictWith {
        with: name_of(&conflict.with, labels),
        workspace: match &conflict.with {
            Other::Workspace { id, .. } => Some(id.to_string()),
            Other::Branch { .. } => None,
        },
        paths: conflict.paths.clone(),
        more: conflict.more,
    }
}
