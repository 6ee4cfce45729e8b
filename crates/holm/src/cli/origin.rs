//! What a workspace starts from: the current commit, another one, or the checkout's uncommitted
//! state. Called by `up`, and by `trust`, which shows what that start requests.

use super::user_checkout::{self, Checkout};
use clap::Args;
use holm_api::project::CommitFiles;
use holm_core::Fault;
use holm_core::compose::ComposeFiles;
use holm_core::config::ProjectConfig;
use holm_git::{Repository, Resolved};

#[derive(Clone, Debug, Default, Args)]
pub struct StartArgs {
    /// Branch, tag or commit to start from; default: the current commit
    #[arg(long, value_name = "REF", conflicts_with = "dirty")]
    pub from: Option<String>,
    /// Include the uncommitted state of the checkout: changed, staged and untracked files
    #[arg(long)]
    pub dirty: bool,
}

pub struct Origin {
    /// `None`: the repository has no commit yet.
    pub resolved: Option<Resolved>,
    pub files: CommitFiles,
    pub config: ProjectConfig,
    /// The Compose files that `config` names.
    pub compose: ComposeFiles,
    /// The checkout's branch, or the default branch, contains the commit.
    pub is_contained: bool,
}

// === impl StartArgs ===

impl StartArgs {
    pub fn is_default(&self) -> bool {
        self.from.is_none() && !self.dirty
    }

    /// The options as typed, with a leading blank; empty for the default.
    pub fn typed(&self) -> String {
        match &self.from {
            Some(from) => format!(" --from {from}"),
            None if self.dirty => " --dirty".to_owned(),
            None => String::new(),
        }
    }
}

// === impl Origin ===

impl Origin {
    pub async fn find(checkout: &Checkout, start: &StartArgs) -> Result<Self, Fault> {
        Self::find_with(checkout, start, None).await
    }

    /// As [`Origin::find`], with the files of the current commit, if they are known.
    pub async fn find_with(
        checkout: &Checkout,
        start: &StartArgs,
        known: Option<CommitFiles>,
    ) -> Result<Self, Fault> {
        let resolved = match start.from.clone() {
            Some(name) => {
                let question = move |repository: &Repository| repository.resolve(&name);
                Some(checkout.git(question).await?)
            }
            None => head(&checkout.repository),
        };
        let commit = resolved.as_ref().map(|resolved| resolved.commit.as_str());
        let mut files = match known.filter(|_| start.from.is_none()) {
            Some(files) => files,
            None => checkout.files_at(commit).await?,
        };
        if start.dirty {
            files.holm_toml = checkout.holm_toml()?;
        }
        let holm_toml = files.holm_toml.as_deref();
        let config = user_checkout::config(holm_toml)?;
        let read_from = commit.filter(|_| !start.dirty);
        let compose = checkout.compose_files(holm_toml, read_from).await?;
        let config = if compose.is_empty() {
            config
        } else {
            user_checkout::config_with(holm_toml, &compose)?
        };
        let is_contained = match (&start.from, commit) {
            (Some(_), Some(commit)) if makes_layers(&config) => {
                let commit = commit.to_owned();
                let question = move |repository: &Repository| repository.is_contained(&commit);
                checkout.git(question).await?
            }
            // The current commit, or nothing that others could share.
            _ => true,
        };
        Ok(Self {
            is_contained,
            resolved,
            files,
            config,
            compose,
        })
    }

    pub fn commit(&self) -> Option<String> {
        self.resolved
            .as_ref()
            .map(|resolved| resolved.commit.clone())
    }
}

fn makes_layers(config: &ProjectConfig) -> bool {
    let mut volumes = config.volumes.values();
    !config.project.setup.is_empty() || volumes.any(|volume| !volume.seed.is_empty())
}

fn head(repository: &Repository) -> Option<Resolved> {
    let commit = repository.head.clone()?;
    Some(Resolved {
        commit,
        display: repository.branch.clone(),
    })
}
