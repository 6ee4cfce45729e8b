//! Paths on the host. Every path of a workspace contains its id.

use holm_core::{ProjectId, WorkspaceId};
use holm_keeper::directories::WorkspaceDirs;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The roots of one installation.
#[derive(Clone, Debug)]
pub struct Layout {
    pub data_dir: PathBuf,
    pub run_dir: PathBuf,
}

// === impl Layout ===

impl Layout {
    pub fn workspace(&self, id: &WorkspaceId) -> WorkspaceDirs {
        WorkspaceDirs {
            dir: self.data_dir.join("workspaces").join(id.as_str()),
            socket: self.run_dir.join("w").join(format!("{id}.sock")),
        }
    }

    pub fn trash(&self, id: &WorkspaceId) -> PathBuf {
        self.data_dir.join("trash").join(id.as_str())
    }

    /// Files that are being deleted.
    pub fn reap(&self) -> PathBuf {
        self.data_dir.join("reap")
    }

    /// The daemon's socket for what programs inside ask of it.
    pub fn guests_socket(&self) -> PathBuf {
        self.run_dir.join(holm_keeper::guests::SOCKET)
    }

    /// The vault, and the secrets record.
    pub fn secrets(&self) -> PathBuf {
        self.data_dir.join("secrets")
    }

    /// Images, shared by all projects.
    pub fn images(&self) -> PathBuf {
        self.data_dir.join("images")
    }

    /// Files of images that do not belong to root, with their owners.
    pub fn owned_files(&self) -> PathBuf {
        self.data_dir.join("owned")
    }

    pub fn project(&self, id: &ProjectId) -> PathBuf {
        self.data_dir.join("projects").join(id.as_str())
    }

    /// The daemon's own repository of a project.
    pub fn repository(&self, id: &ProjectId) -> PathBuf {
        self.project(id).join("repo.git")
    }

    pub fn bases(&self, id: &ProjectId) -> PathBuf {
        self.project(id).join("bases")
    }
}

/// The places of a workspace, empty; also those of a trial.
pub fn make_directories(dirs: &WorkspaceDirs) -> io::Result<()> {
    let own = [
        dirs.upper(),
        dirs.work(),
        dirs.pins(),
        dirs.home(),
        dirs.home_work(),
        dirs.tmp(),
        dirs.etc(),
        dirs.guest().join("bin"),
        dirs.guest().join("objects"),
        dirs.mount_point(),
    ];
    for directory in own {
        fs::create_dir_all(directory)?;
    }
    fs::write(dirs.guest().join("bin/holm"), "")?;
    fs::write(dirs.lock(), "")?;
    fs::set_permissions(dirs.tmp(), fs::Permissions::from_mode(0o1777))?;
    fs::set_permissions(dirs.home(), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&dirs.dir, fs::Permissions::from_mode(0o700))
}
