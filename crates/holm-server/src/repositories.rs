//! The daemon's bare repositories, one per project. All of it blocks.

use super::startup::{private_dir, unusable};
use holm_core::{Fault, ProjectId, WorkspaceId};
use holm_engine::store::ProjectRecord;
use holm_git::Bare;
use holm_keeper::files::remove::remove_tree;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone)]
pub struct Repositories {
    /// One directory for each.
    projects: PathBuf,
}

/// The prefix of a project's files that are being deleted.
const GONE: &str = ".gone-";

// === impl Repositories ===

impl Repositories {
    pub fn new(data_dir: &Path) -> Self {
        Self {
            projects: data_dir.join("projects"),
        }
    }

    fn project(&self, id: &ProjectId) -> PathBuf {
        self.projects.join(id.as_str())
    }

    fn repository(&self, id: &ProjectId) -> PathBuf {
        self.project(id).join("repo.git")
    }

    /// The repository of a project, created if missing.
    pub fn open(&self, project: &ProjectRecord) -> Result<Bare, Fault> {
        private_dir(&self.project(&project.id))?;
        let path = self.repository(&project.id);
        Ok(Bare::open_or_init(&path, &project.object_format)?)
    }

    /// Which of these objects the project's repository lacks.
    pub fn missing(&self, id: &ProjectId, objects: &[String]) -> Result<Vec<String>, Fault> {
        let path = self.repository(id);
        Ok(holm_git::missing_objects(&path, objects)?)
    }

    /// Deletes the files of an unused project.
    pub fn delete(&self, id: &ProjectId) -> Result<(), Fault> {
        let path = self.project(id);
        // Renamed first, so that it is never found partially deleted, and what a crash leaves is
        // swept.
        let gone = path.with_file_name(format!("{GONE}{}", WorkspaceId::random()));
        match std::fs::rename(&path, &gone) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unusable("delete", &path, error)),
        }
        remove_tree(&gone).map_err(|error| unusable("delete", &gone, error))
    }

    /// Finishes deletions of an earlier daemon.
    pub fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.projects) else {
            return;
        };
        for entry in entries.flatten() {
            let is_gone = entry.file_name().to_string_lossy().starts_with(GONE);
            if is_gone && let Err(error) = remove_tree(&entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "not deleted");
            }
        }
    }
}
