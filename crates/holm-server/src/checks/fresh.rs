//! The fresh workspace of a check: the recorded tree of a turn, with the settings that are stored with the checked
//! workspace, and layers and volumes as a new workspace of that tree would get them.

use crate::App;
use crate::layers::{Start, digest};
use crate::turns::changed_files;
use holm_core::check::{Check, CheckFor, Secrets, ingredients};
use holm_core::config::CheckVolumes;
use holm_core::layer::Maker;
use holm_core::run::Requester;
use holm_core::spec::{Brought, Code as CodeSpec, Purpose, Siblings, Volume, WorkspaceSpec};
use holm_core::tree_change::TreeChange;
use holm_core::{Fault, RunId, WorkspaceId};
use holm_engine::review::TurnRecord;
use holm_engine::try_blocking;
use std::collections::BTreeMap;

/// How much of the digest is the key of a result.
const KEY_LENGTH: usize = 32;

/// The tree that is checked.
#[derive(Clone, Debug)]
pub struct Subject {
    pub workspace: WorkspaceId,
    pub tree: String,
    /// `None`: nothing was ever changed, so the starting commit itself is checked.
    pub turn: Option<TurnRecord>,
    /// The commit that the workspace started from.
    pub commit: Option<String>,
    /// Compared with that commit.
    pub changes: Vec<TreeChange>,
}

// === impl Subject ===

impl Subject {
    /// Paths that differ from the starting commit, earlier names of renamed files included.
    pub fn changed_paths(&self) -> Vec<String> {
        let text = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
        let changes = self.changes.iter();
        changes
            .flat_map(|change| [Some(&change.path), change.from.as_ref()])
            .flatten()
            .map(text)
            .collect()
    }

    pub fn number(&self) -> Option<u64> {
        self.turn.as_ref().map(|turn| turn.number)
    }
}

// === impl App ===

impl App {
    /// The tree of a turn, or of the starting commit.
    pub async fn subject(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
        turn: Option<TurnRecord>,
    ) -> Result<Subject, Fault> {
        let objects = self.turn_objects(id).await?;
        let commit = match &turn {
            Some(turn) => turn.details.start.clone(),
            None => spec.code.commit.clone(),
        };
        let (start, of_turn) = (commit.clone(), turn.as_ref().map(|turn| turn.tree.clone()));
        let (tree, changes) = try_blocking(move || match of_turn {
            Some(tree) => {
                let changes = objects.changes(start.as_deref(), &tree)?;
                Ok((tree, changes))
            }
            None => Ok((objects.tree_of(start.as_deref())?, Vec::new())),
        })
        .await?;
        Ok(Subject {
            workspace: id.clone(),
            tree,
            turn,
            commit,
            changes,
        })
    }

    /// The spec of the fresh workspace, without the changed files.
    pub async fn fresh_spec(
        &self,
        spec: &WorkspaceSpec,
        check: &Check,
        subject: &Subject,
    ) -> Result<WorkspaceSpec, Fault> {
        let project = &self.engine.project_of(&subject.workspace).await?;
        let start = Start {
            maker: Maker {
                commit: subject.commit.as_deref(),
                // What code of an agent builds is for exactly its tree.
                tree: Some(&subject.tree),
                is_contained: false,
            },
            changed: changed_files(&subject.changes),
            root: &spec.root,
            home: &spec.home,
        };
        let layers = self.layers_again(spec, project, &start).await?;
        let (volumes, copied) = match check.volumes {
            CheckVolumes::Fresh => (self.volumes_again(spec, project, &start).await?, Vec::new()),
            CheckVolumes::Current => (spec.volumes.clone(), spec.volumes.clone()),
        };
        let first = |volume: Volume| Volume {
            generation: 0,
            snapshot: None,
            ..volume
        };
        Ok(WorkspaceSpec {
            code: CodeSpec {
                commit: subject.commit.clone(),
                base: None,
                ..spec.code.clone()
            },
            layers,
            volumes: volumes.into_iter().map(first).collect(),
            retired_volumes: Vec::new(),
            generation: 0,
            origin: None,
            moving: None,
            snapshots: Vec::new(),
            // Siblings' trees are written by agents.
            siblings: Siblings::Hidden,
            agents: Vec::new(),
            checks: Vec::new(),
            brought: Brought {
                include_tar: spec.brought.include_tar.clone(),
                dirty: None,
            },
            purpose: Purpose::Check(CheckFor {
                workspace: spec.id.clone(),
                volumes: copied,
            }),
            ..spec.clone()
        })
    }

    /// What a result of this check is filed under.
    pub async fn check_key(
        &self,
        check: &Check,
        subject: &Subject,
        fresh: &WorkspaceSpec,
        asker: Requester,
    ) -> Result<String, Fault> {
        let data = match check.volumes {
            CheckVolumes::Fresh => BTreeMap::new(),
            CheckVolumes::Current => {
                let spec = self.engine.spec(&subject.workspace).await?;
                let digests = self.engine.driver(&spec)?.volume_digests(&spec).await?;
                // Data that holm cannot compare may have changed, so no earlier result fits.
                let unlike_any = || RunId::random().to_string();
                let digests = digests.into_iter();
                let digests =
                    digests.map(|(name, digest)| (name, digest.unwrap_or_else(unlike_any)));
                digests.collect()
            }
        };
        let is_for_runs = |to: &Vec<String>| to.iter().any(|receiver| receiver == "runs");
        let has_secrets = fresh.secrets.iter().any(|secret| is_for_runs(&secret.to));
        let secrets = match asker {
            Requester::User if has_secrets => Secrets::Given,
            Requester::User | Requester::Guest => Secrets::None,
        };
        let ingredients = ingredients(check, &subject.tree, fresh, &data, secrets);
        // What is made of texts and numbers serialises.
        let canonical = serde_json::to_vec(&ingredients).unwrap_or_default();
        Ok(digest(&canonical, KEY_LENGTH))
    }
}
