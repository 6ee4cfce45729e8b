//! Paths on the host. Every path of a workspace contains its id.

use holm_core::{ProjectId, WorkspaceId};
use std::path::PathBuf;

/// The roots of one installation.
#[derive(Clone, Debug)]
pub struct Layout {
    pub data_dir: PathBuf,
    pub run_dir: PathBuf,
}

/// One workspace's paths on the host.
#[derive(Clone, Debug)]
pub struct WorkspaceDirs {
    pub dir: PathBuf,
    /// The keeper's control socket.
    pub socket: PathBuf,
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

    /// The vault, and the secrets record.
    pub fn secrets(&self) -> PathBuf {
        self.data_dir.join("secrets")
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

// === impl WorkspaceDirs ===

impl WorkspaceDirs {
    /// The upper layer of the tree.
    pub fn upper(&self) -> PathBuf {
        self.dir.join("upper")
    }

    /// overlayfs's work directory for the upper layer.
    pub fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// The lowest layer: directories for protected paths that the base does not have.
    pub fn pins(&self) -> PathBuf {
        self.dir.join("pins")
    }

    pub fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    pub fn tmp(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// Files that cover the host's in `/etc`.
    pub fn etc(&self) -> PathBuf {
        self.dir.join("etc")
    }

    /// The content of `/run/holm`: the guest socket and the id.
    pub fn guest(&self) -> PathBuf {
        self.dir.join("guest")
    }

    /// CA certificates for programs inside, for placeholders.
    pub fn authority(&self) -> PathBuf {
        self.guest().join("ca")
    }

    /// The digest of the secret that identifies this workspace's guests.
    pub fn guest_secret(&self) -> PathBuf {
        self.dir.join("guest.digest")
    }

    /// The empty mount point of the new root, used only inside the new mount namespace.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// Locked by the keeper while it lives: one keeper per upper layer.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// How the last run started and ended.
    pub fn last_run(&self) -> PathBuf {
        self.dir.join("last.json")
    }

    /// Written last when the files are created; contains their generation.
    pub fn complete(&self) -> PathBuf {
        self.dir.join("complete")
    }

    /// Written when the uncommitted state has been checked out.
    pub fn prepared(&self) -> PathBuf {
        self.dir.join("prepared")
    }

    /// The mover's journal.
    pub fn moves(&self) -> PathBuf {
        self.dir.join("moves")
    }

    /// The control groups that the keeper created.
    pub fn group(&self) -> PathBuf {
        self.dir.join("group.json")
    }

    /// The services' logs, a few files for each.
    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// The services' state, or their last one.
    pub fn services(&self) -> PathBuf {
        self.dir.join("services.json")
    }

    /// The sessions, or the last ones.
    pub fn sessions(&self) -> PathBuf {
        self.dir.join("sessions.json")
    }

    /// The data of volumes that are not shared.
    pub fn volumes(&self) -> PathBuf {
        self.dir.join("volumes")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.dir.join("snapshots")
    }

    /// Files that wait for deletion.
    pub fn old(&self) -> PathBuf {
        self.dir.join("old")
    }

    /// The included files, kept for a reset.
    pub fn include_tar(&self) -> PathBuf {
        self.dir.join("include.tar")
    }

    /// The objects of the uncommitted state.
    pub fn dirty_pack(&self) -> PathBuf {
        self.dir.join("dirty.pack")
    }

    /// Services that must be built before they are started.
    pub fn unbuilt(&self) -> PathBuf {
        self.dir.join("unbuilt.json")
    }

    /// overlayfs's work directory for home, when there is a layer below it.
    pub fn home_work(&self) -> PathBuf {
        self.dir.join("home-work")
    }

    /// The output of setup commands.
    pub fn setup_log(&self) -> PathBuf {
        self.dir.join("setup.log")
    }

    /// The egress record; older files have a number appended.
    pub fn egress(&self) -> PathBuf {
        self.dir.join("egress.jsonl")
    }

    pub fn keeper_log(&self) -> PathBuf {
        self.dir.join("keeper.log")
    }
}
