//! `/projects`: registers repositories, and what the daemon has of them.

use super::caller::Caller;
use super::failure::{Answer, Body, Failure, Parameters, ProjectKey, bad_request, project_id};
use super::page::{Order, Page};
use super::{App, view};
use axum::Json;
use axum::extract::State;
use holm_api::project::{ChangeProject, CommitFiles, Project, ProjectList, Refs, Sync, SyncAnswer};
use holm_core::config::{ProtectedPath, Scope, Word};
use holm_core::{Code, Fault, ProjectId};
use holm_engine::store::ProjectRemoval;
use holm_engine::try_blocking;
use holm_engine::{EarlierPlace, Repository};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The parameters of `GET /projects`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct List {
    /// Only the one with this name.
    name: Option<String>,
    /// The maximum number.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next` of the page before.
    after: Option<String>,
}

operations! {
    /// The projects that holm knows.
    get "/projects" "project_list" list of (List) -> ProjectList;
    /// Changes the rules for all workspaces of a project that are made or reloaded from now on.
    patch "/projects/{id}" "project_change" change of (ProjectKey) sends ChangeProject -> Project;
    /// Forgets a project that has no workspaces.
    delete "/projects/{id}" "project_remove" remove of (ProjectKey) -> Project;
    /// Registers a repository and answers what the daemon needs of it.
    post "/projects/sync" "project_sync" sync sends Sync -> SyncAnswer;
    /// Sets the refs of a repository whose objects were transferred.
    post "/projects/{id}/refs" "project_refs" set_refs of (ProjectKey) sends Refs -> Project;
}

async fn list(
    State(app): State<Arc<App>>,
    Parameters(parameters): Parameters<List>,
) -> Answer<ProjectList> {
    let page = Page::new(parameters.limit, parameters.after)?;
    let projects = app.engine.projects().await?;
    let mut projects: Vec<_> = projects
        .into_iter()
        .map(|(project, live)| view::project(project, live))
        .collect();
    if let Some(name) = parameters.name {
        projects.retain(|project| project.name == name);
    }
    let next = page.cut(&mut projects, Order::Rising, |project| {
        format!("{}.{}", project.created_at, project.id)
    });
    Ok(Json(ProjectList { projects, next }))
}

async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    ProjectKey(id): ProjectKey,
    Body(change): Body<ChangeProject>,
) -> Answer<Project> {
    if !change.unprotect.is_empty() {
        app.require_approver(&caller)?;
    }
    let path = |path: String| match ProtectedPath::parse(&path) {
        Ok(path) => Ok(path.to_string()),
        Err(error) => {
            let path = path.escape_debug();
            let message = format!("`{path}` cannot be a protected path");
            let hint = "name a path below the repository's root, for example `infra/prod`";
            Err(Failure::from(
                Fault::new(Code::InvalidPath, message, hint).because(error),
            ))
        }
    };
    if let Some(word) = &change.isolation
        && Scope::parse_word(word).is_none()
    {
        let message = "the isolation of a project is neither \"workspace\" nor \"project\"";
        let hint = "`workspace` hides the trees of siblings, `project` shows them read-only";
        return Err(Fault::new(Code::BadRequest, message, hint).into());
    }
    let paths = |list: Vec<String>| list.into_iter().map(path).collect::<Result<Vec<_>, _>>();
    let (protect, unprotect) = (paths(change.protect)?, paths(change.unprotect)?);
    let changing = app.engine.change_rules(&id, |rules| {
        rules.protected_paths.extend(protect);
        rules
            .protected_paths
            .retain(|path| !unprotect.contains(path));
        rules.isolation = change.isolation.or(rules.isolation.take());
    });
    let project = changing.await?;
    let live = app.engine.live_workspaces(&id).await?;
    Ok(Json(view::project(project, live)))
}

async fn remove(State(app): State<Arc<App>>, ProjectKey(id): ProjectKey) -> Answer<Project> {
    let (project, removal) = app.engine.remove_project(&id).await?;
    if removal == ProjectRemoval::Deleted {
        let repositories = app.repositories.clone();
        try_blocking(move || repositories.delete(&id)).await?;
    }
    Ok(Json(view::project(project, 0)))
}

async fn sync(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(sync): Body<Sync>,
) -> Answer<SyncAnswer> {
    if !matches!(sync.object_format.as_str(), "sha1" | "sha256") {
        return Err(bad_request("`object_format` is neither sha1 nor sha256"));
    }
    let id = sync.project_id.as_deref().map(project_id).transpose()?;
    try_blocking(|| Ok(holm_git::require_version()?)).await?;
    let repository = Repository {
        id,
        wish: sync.name,
        path: sync.path,
        git_dir: sync.git_dir,
        device: sync.device,
        inode: sync.inode,
        object_format: sync.object_format,
        earlier_place: if sync.moved {
            EarlierPlace::Gone
        } else {
            EarlierPlace::NotLookedAt
        },
    };
    let (project, live) = app.engine.sync_project(repository).await?;
    let is_current = project.refs_digest.as_deref() == Some(&sync.refs_digest);
    let (repositories, record) = (app.repositories.clone(), project.clone());
    let (asked, commit) = (sync.commit.clone(), sync.commit);
    let (needed, objects) = try_blocking(move || {
        let bare = repositories.open(&record)?;
        let has_commit = match &commit {
            Some(commit) => bare.has_commit(commit)?,
            None => true,
        };
        Ok((!(is_current && has_commit), bare.objects_dir()))
    })
    .await?;
    let files = asked.and_then(|commit| app.commit_files(&project.id, &commit));
    // Another user's hard links would make that user's files part of the daemon's repository.
    let may_link = caller.is_daemon_user();
    Ok(Json(SyncAnswer {
        project: view::project(project, live),
        needed,
        objects_dir: may_link.then(|| objects.display().to_string()),
        files,
    }))
}

async fn set_refs(
    State(app): State<Arc<App>>,
    ProjectKey(id): ProjectKey,
    Body(refs): Body<Refs>,
) -> Answer<Project> {
    let project = app.engine.project(&id).await?;
    let repositories = app.repositories.clone();
    let digest = refs.digest.clone();
    try_blocking(move || {
        let bare = repositories.open(&project)?;
        Ok(bare.set_refs(&refs.refs, refs.commit.as_deref(), &refs.shallow)?)
    })
    .await?;
    app.engine.set_refs_digest(&id, digest).await?;
    let project = app.engine.project(&id).await?;
    let live = app.engine.live_workspaces(&id).await?;
    Ok(Json(view::project(project, live)))
}

// === impl App ===

impl App {
    /// The files of a commit that a driver has at hand.
    fn commit_files(&self, project: &ProjectId, commit: &str) -> Option<CommitFiles> {
        let mut drivers = self.engine.drivers().all();
        let found = drivers.find_map(|driver| driver.commit_files(project, commit))?;
        let [holm_toml, agents_md, modules, attributes] = found.try_into().ok()?;
        Some(CommitFiles {
            // The client explains what is wrong with a text that is not UTF-8.
            holm_toml: holm_toml.map(String::from_utf8).transpose().ok()?,
            has_agents_md: agents_md.is_some(),
            submodules: modules.map_or_else(Vec::new, |file| holm_git::submodule_paths(&file)),
            has_lfs: attributes.is_some_and(|file| holm_git::uses_lfs(&file)),
        })
    }
}
