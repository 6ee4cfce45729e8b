//! Registers a repository with the daemon and sends the objects that it lacks. Called by `up`,
//! `trust` and `project add`.
//!
//! The project's identity is `holm.projectId` in the repository. A moved repository keeps its id; a
//! copied one gets a new id, because the original still uses the old one.

use super::user_checkout::{Checkout, path_text};
use holm_api::client::Client;
use holm_api::project::{CommitFiles, Project, Refs, Sync, SyncAnswer};
use holm_core::config::ProjectConfig;
use holm_core::{Code, Fault, ProjectId};
use holm_git::{Cancel, GitError, refs_digest};
use std::path::PathBuf;

/// The refs of the repository that workspaces share.
#[derive(Clone, Debug)]
pub struct SharedRefs {
    refs: Vec<(String, String)>,
    digest: String,
    /// The daemon's answer about them and the current commit, if it was asked already.
    answer: Option<SyncAnswer>,
}

/// What the daemon should have.
pub struct Wanted<'a> {
    pub refs: SharedRefs,
    /// The commit to start from, if there is one.
    pub commit: Option<String>,
    /// Names a project that the daemon does not know yet; `None`: the daemon knows it.
    pub config: Option<&'a ProjectConfig>,
}

/// Registers the project, and stores its id in the repository; sends no objects.
pub async fn register(
    client: &Client,
    checkout: &Checkout,
    wanted: &Wanted<'_>,
) -> Result<SyncAnswer, Fault> {
    let mut sync = question(checkout, &wanted.refs, wanted.commit.clone())?;
    sync.name = wanted.config.map(|config| {
        let name = config.project.name.as_ref();
        name.map_or_else(|| directory_name(checkout), ToString::to_string)
    });
    let asked = match wanted.refs.answer.clone() {
        Some(answer) => Ok(answer),
        None => client.sync_project(&sync).await,
    };
    let answer = match asked {
        Err(fault) if fault.code == Code::ProjectElsewhere => {
            if is_still_there(client, checkout).await? {
                sync.project_id = None;
                sync.name.get_or_insert_with(|| directory_name(checkout));
            } else {
                sync.moved = true;
            }
            client.sync_project(&sync).await?
        }
        answer => answer?,
    };
    let id = project_id(&answer.project)?;
    if checkout.repository.project_id.as_ref() != Some(&id) {
        checkout
            .git(move |repository| repository.set_project_id(&id))
            .await?;
    }
    Ok(answer)
}

/// Registers the project and sends the objects that the daemon needs.
pub async fn send(
    client: &Client,
    checkout: &Checkout,
    wanted: Wanted<'_>,
    cancel: &Cancel,
) -> Result<Project, Fault> {
    let answer = register(client, checkout, &wanted).await?;
    if !answer.needed {
        return Ok(answer.project);
    }
    let id = project_id(&answer.project)?;
    transfer(client, checkout, &wanted, &answer, cancel).await?;
    let refs = Refs {
        refs: wanted.refs.refs,
        commit: wanted.commit,
        shallow: checkout.repository.shallow.clone(),
        digest: wanted.refs.digest,
    };
    client.set_refs(&id, &refs).await
}

/// Parses the id in the daemon's response.
pub fn project_id(project: &Project) -> Result<ProjectId, Fault> {
    ProjectId::parse(&project.id).map_err(|error| {
        Fault::new(
            Code::Internal,
            "the daemon sent something that is not understood",
            "is the daemon of another version? `holm daemon stop`, then try again",
        )
        .because(error)
    })
}

// === impl SharedRefs ===

impl SharedRefs {
    pub async fn of(checkout: &Checkout) -> Result<Self, Fault> {
        let refs = checkout.git(|repository| repository.refs()).await?;
        let digest = refs_digest(&refs, &checkout.repository.shallow);
        Ok(Self {
            refs,
            digest,
            answer: None,
        })
    }

    /// As [`SharedRefs::of`], for a start from the current commit. Asks the daemon about a project that it knows; its answer
    /// often has the files of the commit. Without an answer, [`register`] asks later.
    pub async fn with_answer(client: &Client, checkout: &Checkout) -> Result<Self, Fault> {
        let mut refs = Self::of(checkout).await?;
        if checkout.repository.project_id.is_some() {
            let sync = question(checkout, &refs, checkout.repository.head.clone())?;
            refs.answer = client.sync_project(&sync).await.ok();
        }
        Ok(refs)
    }

    /// The files of the current commit, if the daemon had them at hand.
    pub fn files(&self) -> Option<CommitFiles> {
        self.answer.as_ref()?.files.clone()
    }
}

fn directory_name(checkout: &Checkout) -> String {
    let name = checkout.repository.main_root.file_name();
    name.map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn question(checkout: &Checkout, refs: &SharedRefs, commit: Option<String>) -> Result<Sync, Fault> {
    let repository = &checkout.repository;
    Ok(Sync {
        project_id: repository.project_id.as_ref().map(ToString::to_string),
        name: None,
        path: path_text(&repository.main_root)?,
        git_dir: path_text(&repository.common_dir)?,
        device: repository.device,
        inode: repository.inode,
        moved: false,
        object_format: repository.object_format.clone(),
        commit,
        refs_digest: refs.digest.clone(),
    })
}

/// Whether the repository that had this id first still exists at its path with the id. Then this
/// one is a copy.
async fn is_still_there(client: &Client, checkout: &Checkout) -> Result<bool, Fault> {
    let Some(id) = checkout.repository.project_id.clone() else {
        return Ok(false);
    };
    let projects = client.projects().await?.projects;
    let Some(project) = projects
        .into_iter()
        .find(|project| project.id == id.as_str())
    else {
        return Ok(false);
    };
    let place = (checkout.repository.device, checkout.repository.inode);
    checkout
        .git(move |_| {
            let earlier = holm_git::Repository::discover(&PathBuf::from(project.path));
            Ok(earlier.is_ok_and(|earlier| {
                earlier.project_id == Some(id) && (earlier.device, earlier.inode) != place
            }))
        })
        .await
}

/// Transfers the objects: by links to a daemon of the same user, by a push otherwise.
async fn transfer(
    client: &Client,
    checkout: &Checkout,
    wanted: &Wanted<'_>,
    answer: &SyncAnswer,
    cancel: &Cancel,
) -> Result<(), Fault> {
    let command = receive_pack_command(client, &answer.project)?;
    let store = answer.objects_dir.clone().map(PathBuf::from);
    let (refs, commit) = (wanted.refs.refs.clone(), wanted.commit.clone());
    let cancel = cancel.clone();
    checkout
        .git(move |repository| {
            let commit = commit.as_deref();
            if let Some(store) = store {
                match repository.link_objects(&store, &refs, commit, &cancel) {
                    Err(GitError::LinkUnavailable { .. }) => {}
                    linked => return linked,
                }
            }
            repository.push(&command, &refs, commit, &cancel)
        })
        .await
}

/// The command that git runs to reach the daemon's receive-pack.
fn receive_pack_command(client: &Client, project: &Project) -> Result<String, Fault> {
    let program = std::env::current_exe().map_err(|error| {
        let message = "cannot tell where this program is";
        Fault::new(Code::Internal, message, "run it by its whole path").because(error)
    })?;
    let socket = path_text(client.socket())?;
    let program = path_text(&program)?;
    Ok(format!(
        "{} receive-pack {} {}",
        quoted(&program),
        quoted(&socket),
        quoted(&project.id)
    ))
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_reads_words_back_unchanged() {
        for word in ["/usr/bin/holm", "/my tools/it's $HOME `x`", ""] {
            let output = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
