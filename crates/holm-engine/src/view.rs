//! What users see of workspaces: the record and the latest observation.

use crate::bridge::joined;
use crate::clock::now;
use crate::driver::Observation;
use crate::engine::{Engine, Inner, detached};
use crate::notice::Notice;
use crate::projects::no_project;
use crate::service;
use crate::store::WorkspaceRecord;
use holm_core::egress::Carried;
use holm_core::head::Tip;
use holm_core::isolation::Isolation;
use holm_core::plan::{Keeper, State};
use holm_core::reference::{Candidate, Here};
use holm_core::service::status::ServiceStatus;
use holm_core::session::protocol::Session;
use holm_core::spec::{Purpose, WorkspaceSpec};
use holm_core::state::{Birth, state};
use holm_core::{Fault, Label, ProjectId, ProjectName, WorkspaceId, WorkspaceRef};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many workspaces a list observes at once.
const MOST_LOOKS: usize = 64;

/// The longest time that `show` and lists wait for an operation under way.
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
    /// As its keeper reported them, the oldest first; `None`: the keeper has to be asked.
    pub sessions: Option<Vec<Session>>,
    /// What was done or not done because it was idle.
    pub note: Option<String>,
    /// When its keeper reported this, if that is some seconds ago.
    pub observed_at: Option<Timestamp>,
    /// Whether `up` found it stopped.
    pub was_stopped: bool,
}

/// A workspace as it was observed.
pub(crate) struct Observed {
    pub(crate) observation: Result<Observation, Fault>,
    /// As in [`View::sessions`].
    pub(crate) sessions: Option<Vec<Session>>,
    /// When, if that is some seconds ago.
    pub(crate) at: Option<Timestamp>,
}

/// The reason of a workspace that was kept after its setup failed and has not been started since.
const SETUP_FAILED: &str = "setup_failed";

// === impl Engine ===

impl Engine {
    /// Every live workspace, oldest first, as its keeper last reported. Those that no keeper reported are observed,
    /// several at a time.
    pub async fn list(&self) -> Result<Vec<View>, Fault> {
        let inner = &self.inner;
        let named = self.names().await?;
        let mut views = Vec::with_capacity(named.len());
        let mut looks = JoinSet::new();
        let turns = Arc::new(Semaphore::new(MOST_LOOKS));
        for (position, (record, name)) in named.into_iter().enumerate() {
            if let Some(observed) = inner.remembered(&record) {
                views.push((position, inner.judge(record, name, observed)));
                continue;
            }
            let (inner, turns) = (Arc::clone(inner), Arc::clone(&turns));
            looks.spawn(async move {
                // The semaphore is never closed.
                let _turn = turns.acquire().await;
                (position, inner.look_between_operations(record, name).await)
            });
        }
        while let Some(look) = looks.join_next().await {
            let (position, view) = joined(look)?;
            views.extend((view.state != State::Removed).then_some((position, view)));
        }
        inner.ask_silent();
        views.sort_by_key(|(position, _)| *position);
        Ok(views.into_iter().map(|(_, view)| view).collect())
    }

    /// The names of every live workspace, oldest first, without the temporary ones that holm creates itself.
    pub async fn names(&self) -> Result<Vec<(WorkspaceRecord, ProjectName)>, Fault> {
        let store = &self.inner.store;
        let (records, projects) = store
            .call(|store| Ok((store.live_workspaces()?, store.projects()?)))
            .await?;
        let names: HashMap<ProjectId, ProjectName> = projects
            .into_iter()
            .map(|(project, _)| (project.id, project.name))
            .collect();
        let work = records
            .into_iter()
            .filter(|record| record.spec.purpose == Purpose::Work);
        let named = work.map(|record| match names.get(&record.project_id) {
            Some(name) => Ok((record, name.clone())),
            None => Err(no_project(&record.project_id)),
        });
        named.collect()
    }

    /// The live workspace that a person means, if that does not depend on the current project. A
    /// label costs one indexed query; other text is compared with all names.
    pub async fn resolve(&self, typed: &str) -> Result<WorkspaceId, Fault> {
        let label = typed.to_owned();
        let found = self
            .inner
            .store
            .read(move |store| store.workspaces_labelled(&label))?;
        if let [record] = found.as_slice()
            && record.spec.purpose == Purpose::Work
        {
            return Ok(record.id.clone());
        }
        let names = self.names().await?.into_iter();
        let candidates: Vec<_> = names
            .map(|(record, project)| Candidate {
                id: record.id,
                label: record.label.to_string(),
                project_id: record.project_id,
                project: project.to_string(),
            })
            .collect();
        WorkspaceRef::new(typed).resolve(&Here::default(), &candidates)
    }

    /// One workspace, live or in the trash.
    pub async fn show(&self, id: &WorkspaceId) -> Result<View, Fault> {
        let record = self.inner.record(id).await?;
        let name = self.inner.project_name(&record.project_id).await?;
        Ok(self.inner.look_between_operations(record, name).await)
    }

    /// As [`show`](Self::show), after the operations under way have ended.
    pub async fn show_in_turn(&self, id: &WorkspaceId) -> Result<View, Fault> {
        let _turn = self.inner.workspaces.lock(id).await;
        self.inner.show(id).await
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

    async fn show(&self, id: &WorkspaceId) -> Result<View, Fault> {
        let record = self.record(id).await?;
        self.view(record).await
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
        Ok(self.judge(record, name, Observed::now(Ok(observation))))
    }

    /// A workspace that is being restarted or stopped has no processes for a moment and is not failed: it is observed
    /// again after the operation. The caller does not hold the workspace's lock.
    async fn look_between_operations(&self, record: WorkspaceRecord, project: ProjectName) -> View {
        let was_wanted = self.workspaces.is_wanted(&record.id);
        let view = self.look(record, project).await;
        let is_changing = was_wanted || self.workspaces.is_wanted(&view.record.id);
        if view.state != State::Failed || !is_changing {
            return view;
        }
        let turn = self.workspaces.lock(&view.record.id);
        let Ok(_turn) = tokio::time::timeout(LONGEST_TURN, turn).await else {
            return view;
        };
        match self.record(&view.record.id).await {
            Ok(record) => self.look(record, view.project).await,
            Err(fault) => {
                // It was deleted meanwhile, or the store cannot be read, which the next request reports.
                tracing::debug!(id = %view.record.id, %fault, "not observed again");
                view
            }
        }
    }

    async fn look(&self, record: WorkspaceRecord, project: ProjectName) -> View {
        let observed = match self.reported(&record).await {
            _ if is_settled(&record) => Observed::now(Ok(Observation::nothing())),
            Some(observed) => observed,
            None => Observed::now(self.observe(&record.spec).await),
        };
        self.judge(record, project, observed)
    }

    fn judge(&self, record: WorkspaceRecord, project: ProjectName, observed: Observed) -> View {
        let Observed {
            observation,
            sessions,
            at,
        } = observed;
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
                let kept = record.spec.layers.failed.as_ref();
                let kept = kept.filter(|_| word == State::Stopped);
                let reason = reason
                    .or(kept.map(|_| SETUP_FAILED.to_owned()))
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
            sessions,
            observed_at: at,
            was_stopped: false,
        }
    }

    pub(crate) async fn project_name(&self, id: &ProjectId) -> Result<ProjectName, Fault> {
        let project = self.store.read(|store| store.project(id))?;
        let project = project.ok_or_else(|| no_project(id))?;
        Ok(project.name)
    }
}

/// Whether there is nothing to observe.
pub(crate) fn is_settled(record: &WorkspaceRecord) -> bool {
    record.birth == Birth::Pending || record.removed_at.is_some()
}

// === impl Observed ===

impl Observed {
    pub(crate) fn now(observation: Result<Observation, Fault>) -> Self {
        Self {
            observation,
            sessions: None,
            at: None,
        }
    }
}

/// The note of `show` about a failed setup or an unfinished move.
fn unfinished_note(spec: &WorkspaceSpec, id: &WorkspaceId) -> Option<String> {
    if let Some(failed) = &spec.layers.failed {
        return Some(format!(
            "it was kept as its failed `setup` left it: {failed}"
        ));
    }
    let moving = spec.moving.as_ref()?;
    let to = moving.ref_name.as_ref().unwrap_or(&moving.commit);
    Some(format!(
        "the move to {to} is not finished; `holm assign {id} {to}` goes on with it"
    ))
}
