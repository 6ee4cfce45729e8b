//! Projects: identifying repositories, their names, and their approvals.

use crate::clock::now;
use crate::engine::{Engine, detached};
use crate::store::{
    Approval, ProjectRecord, ProjectRemoval, ProjectRules, StoreError, WorkspaceRecord,
};
use holm_core::trust::Ask;
use holm_core::{Code, Fault, ProjectId, ProjectName, WorkspaceId};
use std::sync::Arc;
use std::time::Duration;

/// A repository as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The id stored in the repository.
    pub id: Option<ProjectId>,
    /// The preferred name of the project. `None`: no project is created.
    pub wish: Option<String>,
    pub path: String,
    pub git_dir: String,
    pub device: u64,
    pub inode: u64,
    pub object_format: String,
    pub earlier_place: EarlierPlace,
}

/// What the client knows about the last known path of the id's repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierPlace {
    NotLookedAt,
    /// The repository is no longer there, so it was moved here.
    Gone,
}

/// Two clients in a new repository at the same time get one project, not two.
const SAME_MOMENT: Duration = Duration::from_secs(10);

// === impl Engine ===

impl Engine {
    /// Every project, with the number of its live workspaces.
    pub async fn projects(&self) -> Result<Vec<(ProjectRecord, u64)>, Fault> {
        self.inner.store.call(|store| store.projects()).await
    }

    pub async fn project(&self, id: &ProjectId) -> Result<ProjectRecord, Fault> {
        let found = self.inner.store.read(|store| store.project(id))?;
        found.ok_or_else(|| no_project(id))
    }

    /// The project of a workspace, also of one in the trash.
    pub async fn project_of(&self, id: &WorkspaceId) -> Result<ProjectRecord, Fault> {
        self.project(&self.inner.record(id).await?.project_id).await
    }

    /// The number of live workspaces of a project.
    pub async fn live_workspaces(&self, id: &ProjectId) -> Result<u64, Fault> {
        let projects = self.projects().await?;
        let found = projects.into_iter().find(|(project, _)| project.id == *id);
        Ok(found.map_or(0, |(_, live)| live))
    }

    /// The project's workspace that was created last, live or in the trash.
    pub async fn latest_workspace(&self, id: &ProjectId) -> Result<Option<WorkspaceRecord>, Fault> {
        self.inner.store.read(|store| store.latest_workspace(id))
    }

    /// The project of a repository, known or new, and the number of its live workspaces.
    pub async fn sync_project(
        &self,
        repository: Repository,
    ) -> Result<(ProjectRecord, u64), Fault> {
        let inner = Arc::clone(&self.inner);
        detached(async move {
            let _turn = inner.projects.lock().await;
            let counted = inner.store.read(|store| store.projects())?;
            let shown: Vec<_> = counted.iter().map(|(project, _)| project.clone()).collect();
            let known = match repository.id.clone() {
                Some(id) => inner.store.read(|store| store.project(&id))?,
                None => None,
            };
            let project = settle(repository, known.clone(), &shown)?;
            let is_shown = shown.iter().any(|other| other.id == project.id);
            if known.as_ref() != Some(&project) || !is_shown {
                let row = project.clone();
                inner
                    .store
                    .call(move |store| store.save_project(&row))
                    .await?;
            }
            let found = counted.iter().find(|(other, _)| other.id == project.id);
            let live = found.map_or(0, |(_, live)| *live);
            Ok((project, live))
        })
        .await
    }

    /// Stores what the daemon's bare repository has now.
    pub async fn set_refs_digest(&self, id: &ProjectId, digest: String) -> Result<(), Fault> {
        let _turn = self.inner.projects.lock().await;
        let mut project = self.project(id).await?;
        project.refs_digest = Some(digest);
        let saved = self
            .inner
            .store
            .call(move |store| store.save_project(&project));
        saved.await
    }

    /// Changes the settings for all workspaces of a project that are created or reloaded from now
    /// on.
    pub async fn change_rules(
        &self,
        id: &ProjectId,
        change: impl FnOnce(&mut ProjectRules),
    ) -> Result<ProjectRecord, Fault> {
        let _turn = self.inner.projects.lock().await;
        let mut project = self.project(id).await?;
        change(&mut project.rules);
        let row = project.clone();
        let store = &self.inner.store;
        store.call(move |store| store.save_project(&row)).await?;
        Ok(project)
    }

    /// Removes a project that has no live workspaces.
    pub async fn remove_project(
        &self,
        id: &ProjectId,
    ) -> Result<(ProjectRecord, ProjectRemoval), Fault> {
        let _turn = self.inner.projects.lock().await;
        let project = self.project(id).await?;
        let key = id.clone();
        let removed = self
            .inner
            .store
            .ask(move |store| store.remove_project(&key));
        match removed.await? {
            Ok(removal) => Ok((project, removal)),
            Err(StoreError::ProjectInUse { live, .. }) => Err(Fault::new(
                Code::ProjectInUse,
                format!("project `{}` still has {live} workspaces", project.name),
                "`holm ls` lists them, `holm rm` removes them",
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores that a person approved exactly these requests, identified by `digest`.
    pub async fn approve(
        &self,
        id: &ProjectId,
        digest: String,
        asks: Vec<Ask>,
    ) -> Result<(), Fault> {
        let key = id.clone();
        let approval = Approval {
            digest,
            asks,
            at: now(),
        };
        let store = &self.inner.store;
        store
            .call(move |store| store.approve(&key, &approval))
            .await
    }

    pub async fn last_approval(&self, id: &ProjectId) -> Result<Option<Approval>, Fault> {
        self.inner.store.read(|store| store.last_approval(id))
    }

    pub async fn revoke(&self, id: &ProjectId, digest: String) -> Result<(), Fault> {
        let key = id.clone();
        let store = &self.inner.store;
        store.call(move |store| store.revoke(&key, &digest)).await
    }

    pub async fn is_approved(&self, id: &ProjectId, digest: String) -> Result<bool, Fault> {
        self.inner
            .store
            .read(|store| store.is_approved(id, &digest))
    }
}

/// Decides which project a repository is. `shown` are all projects except removed ones.
fn settle(
    repository: Repository,
    known: Option<ProjectRecord>,
    shown: &[ProjectRecord],
) -> Result<ProjectRecord, Fault> {
    let at = now();
    let is_here = |project: &ProjectRecord| {
        project.git_dir == repository.git_dir
            || (project.device, project.inode) == (repository.device, repository.inode)
    };
    let twin = |project: &&ProjectRecord| {
        repository.id.is_none()
            && project.git_dir == repository.git_dir
            && (project.device, project.inode) == (repository.device, repository.inode)
            && at.duration_since(project.created_at).unsigned_abs() < SAME_MOMENT
    };
    let Some(mut project) = known.or_else(|| shown.iter().find(twin).cloned()) else {
        let id = repository.id.unwrap_or_else(ProjectId::random);
        let wish = repository.wish.ok_or_else(|| no_project(&id))?;
        return Ok(ProjectRecord {
            id,
            name: free_name(ProjectName::from_wish(&wish), shown),
            path: repository.path,
            git_dir: repository.git_dir,
            device: repository.device,
            inode: repository.inode,
            object_format: repository.object_format,
            refs_digest: None,
            rules: ProjectRules::default(),
            created_at: at,
        });
    };
    let is_shown = shown.iter().any(|other| other.id == project.id);
    let may_be_here = repository.earlier_place == EarlierPlace::Gone || is_here(&project);
    if is_shown && !may_be_here {
        return Err(elsewhere(&project, &repository));
    }
    if project.object_format != repository.object_format {
        return Err(other_format(&project, &repository));
    }
    if !is_shown {
        let others: Vec<_> = shown
            .iter()
            .filter(|other| other.id != project.id)
            .cloned()
            .collect();
        project.name = free_name(project.name, &others);
        // Removing a project also removes its settings.
        project.rules = ProjectRules::default();
    }
    project.path = repository.path;
    project.git_dir = repository.git_dir;
    project.device = repository.device;
    project.inode = repository.inode;
    Ok(project)
}

pub(crate) fn free_name(wish: ProjectName, shown: &[ProjectRecord]) -> ProjectName {
    let is_free = |name: &ProjectName| shown.iter().all(|project| project.name != *name);
    let numbered = (2..).map(|number| wish.numbered(number));
    let mut names = std::iter::once(wish.clone()).chain(numbered);
    // There are more numbers than projects.
    names.find(is_free).unwrap_or(wish)
}

fn elsewhere(project: &ProjectRecord, repository: &Repository) -> Fault {
    Fault::new(
        Code::ProjectElsewhere,
        format!(
            "the repository at {} carries the id of project `{}` ({}), which is at {}",
            repository.path, project.name, project.id, project.path
        ),
        "is it a copy? `git config --unset holm.projectId` in it makes it a project of its own",
    )
}

fn other_format(project: &ProjectRecord, repository: &Repository) -> Fault {
    Fault::new(
        Code::Refused,
        format!(
            "project `{}` has {} objects, and the repository at {} has {}",
            project.name, project.object_format, repository.path, repository.object_format
        ),
        "`git config --unset holm.projectId` in it makes it a project of its own",
    )
}

pub(crate) fn no_project(id: &ProjectId) -> Fault {
    Fault::new(
        Code::ProjectNotFound,
        format!("no project `{id}`"),
        "`holm project ls` lists the projects; `holm project add` makes one known",
    )
}
