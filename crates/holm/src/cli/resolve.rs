//! From what was typed to ids, once, at the edge. Below this nothing sees a label as a name.

use holm_api::Workspace;
use holm_api::client::Client;
use holm_core::reference::{Candidate, Here};
use holm_core::{Code, Fault, ProjectId, WorkspaceId, WorkspaceRef};

/// The id that is meant. A whole id needs no question to the daemon.
pub async fn one(client: &Client, typed: &str) -> Result<WorkspaceId, Fault> {
    match WorkspaceId::parse(typed) {
        Ok(id) => Ok(id),
        Err(_) => Ok(workspace(client, typed).await?.0),
    }
}

/// The ids that are meant, each once, in the order they were typed.
pub async fn all(client: &Client, typed: &[String]) -> Result<Vec<WorkspaceId>, Fault> {
    let workspaces = client.workspaces().await?.workspaces;
    let mut ids = Vec::new();
    for typed in typed {
        let id = meant(typed, &workspaces)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// The workspace that is meant, with everything that the list says about it.
pub async fn workspace(client: &Client, typed: &str) -> Result<(WorkspaceId, Workspace), Fault> {
    let workspaces = client.workspaces().await?.workspaces;
    let id = meant(typed, &workspaces)?;
    let found = workspaces.into_iter().find(|one| one.id == id.as_str());
    match found {
        Some(workspace) => Ok((id, workspace)),
        None => client.workspace(&id).await.map(|workspace| (id, workspace)),
    }
}

fn meant(typed: &str, workspaces: &[Workspace]) -> Result<WorkspaceId, Fault> {
    let candidates = workspaces
        .iter()
        .map(candidate)
        .collect::<Result<Vec<_>, Fault>>()?;
    let reference = WorkspaceRef::new(typed);
    match reference.resolve(&Here::default(), &candidates) {
        // Only now does it matter where the person stands, and asking git takes time.
        Err(fault) if fault.code == Code::Ambiguous => {
            let here = Here {
                project: project_here(),
                workspace: None,
            };
            reference.resolve(&here, &candidates)
        }
        resolved => resolved,
    }
}

/// The project of the current directory, if it is one.
fn project_here() -> Option<ProjectId> {
    let directory = std::env::current_dir().ok()?;
    holm_git::Repository::discover(&directory).ok()?.project_id
}

fn candidate(workspace: &Workspace) -> Result<Candidate, Fault> {
    let not_understood = |error: holm_core::id::NotAnId| {
        Fault::new(
            Code::Internal,
            format!("the daemon sent something that is not understood: {error}"),
            "is the daemon of another version? `holm daemon stop`, then try again",
        )
    };
    Ok(Candidate {
        id: WorkspaceId::parse(&workspace.id).map_err(not_understood)?,
        label: workspace.label.clone(),
        project_id: ProjectId::parse(&workspace.project_id).map_err(not_understood)?,
        project: workspace.project.clone(),
    })
}
