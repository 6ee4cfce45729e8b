//! What users see of workspaces: the record and the latest observation.

use crate::bridge::joined;
use crate::driver::Observation;
use crate::engine::{Engine, Inner, detached, now};
use crate::notice::Notice;
use crate::projects::no_project;
use crate::service;
use crate::store::WorkspaceRecord;
use holm_core::egress::Carried;
use holm_core::head::Tip;
use holm_core::isolation::Isolation;
use holm_core::plan::{Keeper, State};
use holm_core::service::status::ServiceStatus;
use holm_core::spec::{Purpose, WorkspaceSpec};
use holm_core::state::{Birth, state};
use holm_core::{Fault, Label, ProjectId, ProjectName, WorkspaceId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// The longest time that `show` waits for an operation under way.
const LONGEST_TURN: Duration = Duration::from_secs(2);

/// A workspace: its record and its latest observation.
#[derive(Clone, Debug)]
pub struct View {
    pub record: WorkspaceRecord,
    pub project: ProjectName,
    pub state: State,
    pub reason: Option<String>,
    /// The isolation in force; `None` when it does not run.
    pub isolation: Option<Isolation>,
    /// All declared services.
    pub services: Vec<ServiceStatus>,
    /// Bytes through its gateway, when it runs.
    pub carried: Option<Carried>,
    pub tip: Tip,
    /// What was done or not done because it was idle.
    pub note: Option<String>,
}

// === impl Engine ===

impl Engine {
    /// Every live workspace, oldest first, all observed concurrently.
    pub async fn list(&self) -> Result<Vec<View>, Fault> {
        let inner = &self.inner;
        let records = inner.shown_workspaces().await?;
        let names = inner.project_names().await?;
        let mut looks = JoinSet::new();
        for (position, record) in records.into_iter().enumerate() {
            let inner = Arc::clone(inner);
            let name = names.get(&record.project_id).cloned();
            looks.spawn(async move {
                let name = match name {
                    Some(name) => name,
                    None => inner.project_name(&record.project_id).await?,
                };
                let view = inner.look(record, name).await;
                Ok::<_, Fault>((position, view))
            });
        }
        let mut views = Vec::with_capacity(looks.len());
        while let Some(look) = looks.join_next().await {
            views.push(joined(look)??);
        }
        views.sort_by_key(|(position, _)| *position);
        Ok(views.into_iter().map(|(_, view)| view).collect())
    }

    /// The names of every live workspace, oldest first. No workspace is observed, so this is cheap.
    pub async fn names(&self) -> Result<Vec<(WorkspaceRecord, ProjectName)>, Fault> {
        let inner = &self.inner;
        let records = inner.shown_workspaces().await?;
        let names = inner.project_names().await?;
        let mut named = Vec::with_capacity(records.len());
        for record in records {
            let name = match names.get(&record.project_id) {
                Some(name) => name.clone(),
                None => inner.project_name(&record.project_id).await?,
            };
            named.push((record, name));
        }
        Ok(named)
    }

    /// One workspace, live or in the trash.
    pub async fn show(&self, id: &WorkspaceId) -> Result<View, Fault> {
        let record = self.inner.record(id).await?;
        let view = self.inner.view(record).await?;
        if view.state != State::Failed {
            return Ok(view);
        }
        // A workspace that is being restarted or stopped is not failed: observe it again
        // afterwards.
        let turn = self.inner.workspaces.lock(id);
        let Ok(_turn) = tokio::time::timeout(LONGEST_TURN, turn).await else {
            return Ok(view);
        };
        let record = self.inner.record(id).await?;
        self.inner.view(record).await
    }

    /// As [`show`](Self::show), after the operations under way have ended.
    pub async fn show_in_turn(&self, id: &WorkspaceId) -> Result<View, Fault> {
        let _turn = self.inner.workspaces.lock(id).await;
        let record = self.inner.record(id).await?;
        self.inner.view(record).await
    }

    /// Changes a workspace's label and nothing else.
    pub async fn rename(&self, id: &WorkspaceId, label: Label) -> Result<View, Fault> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let earlier = inner.live(&id).await?.label;
            let (key, text) = (id.clone(), label.clone());
            let renamed = inner
                .store
                .call(move |store| store.set_label(&key, &text, now()));
            renamed.await?;
            if earlier != label {
                inner.notices.send(&id, Notice::Renamed { earlier });
            }
            let record = inner.live(&id).await?;
            let view = inner.view(record).await?;
            if view.state == State::Running
                && let Err(fault) = inner.relabel(&view.record).await
            {
                // The label is display only; the workspace gets it at its next start.
                tracing::warn!(%id, %fault, "a running workspace was not told its new label");
            }
            Ok(view)
        })
        .await
    }
}

// === impl Inner ===

impl Inner {
    async fn relabel(&self, record: &WorkspaceRecord) -> Result<(), Fault> {
        let keeper = self.driver(&record.spec)?.keeper(&record.id);
        keeper.relabel(record.label.as_str()).await
    }

    /// Live workspaces, without the temporary ones that holm creates itself.
    async fn shown_workspaces(&self) -> Result<Vec<WorkspaceRecord>, Fault> {
        let mut records = self.store.call(|store| store.live_workspaces()).await?;
        records.retain(|record| record.spec.purpose == Purpose::Work);
        Ok(records)
    }

    pub(crate) async fn view(&self, record: WorkspaceRecord) -> Result<View, Fault> {
        let name = self.project_name(&record.project_id).await?;
        Ok(self.look(record, name).await)
    }

    /// The view of a workspace that was just observed.
    pub(crate) async fn seen(
        &self,
        record: WorkspaceRecord,
        observation: Observation,
    ) -> Result<View, Fault> {
        let name = self.project_name(&record.project_id).await?;
        Ok(self.judge(record, name, Ok(observation)))
    }

    async fn look(&self, record: WorkspaceRecord, project: ProjectName) -> View {
        let is_settled = record.birth == Birth::Pending || record.removed_at.is_some();
        let observation = match is_settled {
            true => Ok(Observation::nothing()),
            false => self.observe(&record.spec).await,
        };
        self.judge(record, project, observation)
    }

    fn judge(
        &self,
        record: WorkspaceRecord,
        project: ProjectName,
        observation: Result<Observation, Fault>,
    ) -> View {
        let declared = &record.spec.services;
        let seen = observation.as_ref().ok();
        let carried = seen.and_then(|observation| observation.carried);
        let tip = seen.map(|observation| observation.tip.clone());
        let (state, reason, isolation, services) = match observation {
            Ok(observation) => {
                let last_run = observation.reason.as_ref();
                let seen = observation.observed;
                let (word, reason) = state(record.desired, record.birth, seen, last_run);
                let runs = seen.keeper == Keeper::Running;
                let isolation = observation.isolation.filter(|_| runs);
                // It runs, but a part of it does not.
                let of_kernel = isolation.as_ref().and_then(Isolation::limit_reached);
                let services = service::all(declared, observation.services, word);
                let reason = reason
                    .or(of_kernel.map(str::to_owned))
                    .or_else(|| service::trouble(&services).filter(|_| word == State::Running));
                (word, reason, isolation, services)
            }
            // A workspace that cannot be observed counts as failed.
            Err(fault) => {
                let services = service::all(declared, Vec::new(), State::Failed);
                (State::Failed, Some(fault.message()), None, services)
            }
        };
        let note = self.uses.idle_note(&record.id, state);
        let note = note.or_else(|| unfinished_note(&record.spec, &record.id));
        View {
            note,
            record,
            project,
            state,
            reason,
            isolation,
            services,
            carried,
            tip: tip.unwrap_or_default(),
        }
    }

    async fn project_names(&self) -> Result<HashMap<ProjectId, ProjectName>, Fault> {
        let projects = self.store.call(|store| store.projects()).await?;
        let names = projects.into_iter();
        Ok(names
            .map(|(project, _)| (project.id, project.name))
            .collect())
    }

    pub(crate) async fn project_name(&self, id: &ProjectId) -> Result<ProjectName, Fault> {
        let key = id.clone();
        let project = self.store.call(move |store| store.project(&key)).await?;
        let project = project.ok_or_else(|| no_project(id))?;
        Ok(project.name)
    }
}

/// The note of `show` about an unfinished move.
fn unfinished_note(spec: &WorkspaceSpec, id: &WorkspaceId) -> Option<String> {
    let moving = spec.moving.as_ref()?;
    let to = moving.ref_name.as_ref().unwrap_or(&moving.commit);
    Some(format!(
        "the move to {to} is not finished; `holm assign {id} {to}` goes on with it"
    ))
}
