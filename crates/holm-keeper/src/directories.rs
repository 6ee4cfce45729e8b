//! Where things of one workspace are on the host. Every path is below the workspace's directory, which is
//! named by its id.

use rustix::fs::{CWD, Mode, OFlags, openat};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// One workspace's places on the host.
#[derive(Clone, Debug)]
pub struct WorkspaceDirs {
    pub dir: PathBuf,
    /// The keeper's control socket.
    pub socket: PathBuf,
}

/// How a descriptor is named where only a path is taken.
pub fn descriptor_path(descriptor: impl AsFd) -> std::path::PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()).into()
}

pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(
        CWD,
        path,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

// === impl WorkspaceDirs ===

impl WorkspaceDirs {
    /// The writable layer of the tree.
    pub fn upper(&self) -> PathBuf {
        self.dir.join("upper")
    }

    /// What overlayfs needs beside the upper layer.
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

    /// What is visible at `/run/holm`: the guest socket and the id.
    pub fn guest(&self) -> PathBuf {
        self.dir.join("guest")
    }

    /// What programs inside trust for the sake of placeholders.
    pub fn authority(&self) -> PathBuf {
        self.guest().join("ca")
    }

    /// A digest of what proves that a connection is of this workspace's guests.
    pub fn guest_secret(&self) -> PathBuf {
        self.dir.join("guest.digest")
    }

    /// An empty directory that the new root is mounted on, inside the new mount namespace only.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// Held by the keeper for as long as it lives: one upper, one keeper.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// How the last run began and ended.
    pub fn last_run(&self) -> PathBuf {
        self.dir.join("last.json")
    }

    /// Written last when the files are made: how often they were made anew.
    pub fn complete(&self) -> PathBuf {
        self.dir.join("complete")
    }

    /// Written when the uncommitted state that was brought along has been laid out.
    pub fn prepared(&self) -> PathBuf {
        self.dir.join("prepared")
    }

    /// Moves that the mover has under way.
    pub fn moves(&self) -> PathBuf {
        self.dir.join("moves")
    }

    /// Which control groups the keeper made.
    pub fn group(&self) -> PathBuf {
        self.dir.join("group.json")
    }

    /// What the services said, a few files for each.
    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// How the services are, or were when the keeper ended.
    pub fn services(&self) -> PathBuf {
        self.dir.join("services.json")
    }

    /// The sessions that there are, or were when the keeper ended.
    pub fn sessions(&self) -> PathBuf {
        self.dir.join("sessions.json")
    }

    /// The data of volumes that are not shared.
    pub fn volumes(&self) -> PathBuf {
        self.dir.join("volumes")
    }

    /// What services of images wrote into the roots of their images.
    pub fn rooms(&self) -> PathBuf {
        self.dir.join("rooms")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.dir.join("snapshots")
    }

    /// What is only waiting to be deleted.
    pub fn old(&self) -> PathBuf {
        self.dir.join("old")
    }

    /// The files that were brought along, to begin with them again.
    pub fn include_tar(&self) -> PathBuf {
        self.dir.join("include.tar")
    }

    /// The objects of the uncommitted state that was brought along.
    pub fn dirty_pack(&self) -> PathBuf {
        self.dir.join("dirty.pack")
    }

    /// Names of services that have to be built before they are started.
    pub fn unbuilt(&self) -> PathBuf {
        self.dir.join("unbuilt.json")
    }

    /// What overlayfs needs beside home, when there is a layer below it.
    pub fn home_work(&self) -> PathBuf {
        self.dir.join("home-work")
    }

    /// What the commands of a set-up say.
    pub fn setup_log(&self) -> PathBuf {
        self.dir.join("setup.log")
    }

    /// The record of what left and what was refused; older ones have a number behind it.
    pub fn egress(&self) -> PathBuf {
        self.dir.join("egress.jsonl")
    }

    pub fn keeper_log(&self) -> PathBuf {
        self.dir.join("keeper.log")
    }
}
