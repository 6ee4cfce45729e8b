//! Files and directories of the host that every workspace sees read-only: the system, `/etc`,
//! toolchains.
//!
//! A read-only mount does not keep a program from connecting to a socket of the host, reading from
//! a pipe, or locking files. An overlay does: each socket, pipe and file in it is an inode of its
//! own, which no program of the host has open.

use super::LaunchPlan;
use super::root::{EMPTY, NewRoot, filesystem, overlay};
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY, Reach, set_attributes};
use holm_keeper::complain;
use holm_keeper::directories::open_directory;
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use holm_keeper::wire::Defence;
use rustix::fs::symlinkat;
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// System directories, where the host has them.
const SYSTEM: [&str; 10] = [
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix", "gnu",
];

pub(super) const SEALED: u64 = READ_ONLY | NO_SUID | NO_DEV;

// === impl NewRoot ===

impl NewRoot {
    /// Shows the system's programs and libraries.
    pub fn show_system(&self, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
        for name in SYSTEM {
            let host = Path::new("/").join(name);
            let Ok(metadata) = host.symlink_metadata() else {
                continue;
            };
            // For example `/bin` as a part of `/usr`. A symlink to elsewhere would be dangling
            // inside.
            let is_alias = metadata.is_symlink()
                && !host.canonicalize().is_ok_and(|to| !to.starts_with("/usr"));
            let shown = if is_alias {
                fs::read_link(&host).and_then(|target| self.link(target, name))
            } else if plan.keeper.has(Defence::ReadOnlySystem) {
                self.show_apart(&host, plan)
            } else {
                self.show(&host, &host, 0)
            };
            let part = match &shown {
                Err(error) if has_no_overlays(error) => Part::Overlay,
                _ => Part::Mount,
            };
            shown.step(part, &format!("show {} as an overlay", host.display()))?;
        }
        for name in EMPTY {
            self.directory(Path::new(name))
                .step(Part::Mount, "make the empty places")?;
        }
        self.link("/tmp", "var/tmp")
            .step(Part::Mount, "link /var/tmp")?;
        self.link("/run", "var/run")
            .step(Part::Mount, "link /var/run")?;
        let processors = Path::new("/sys/devices/system/cpu");
        if processors.exists() {
            self.show(processors, processors, SEALED)
                .step(Part::Mount, "show the processors")?;
        }
        Ok(())
    }

    /// Shows a file or a directory of the host read-only, at the same path. Its sockets and pipes
    /// are not connected to the host's, and locks do not reach the host.
    pub fn show_apart(&self, host: &Path, plan: &LaunchPlan) -> io::Result<()> {
        let kind = host.metadata()?.file_type();
        if kind.is_file() || !plan.keeper.has(Defence::NoHostSockets) {
            return self.show(host, host, SEALED);
        }
        if !kind.is_dir() {
            return Ok(());
        }
        if self.has_mounts_below(host) {
            return self.compose(host, None, plan);
        }
        // An overlay needs two layers; the second one is empty.
        let layers = [open_directory(host)?, self.directory(Path::new("srv"))?];
        let copy = overlay(&layers, None)?;
        set_attributes(copy.as_fd(), SEALED, Reach::ThisMount)?;
        self.attach(&copy, host)
    }

    /// Whether something is mounted below a directory of the host. Then it cannot be an overlay
    /// layer in a user namespace.
    pub fn has_mounts_below(&self, host: &Path) -> bool {
        let Ok(host) = host.canonicalize() else {
            return false;
        };
        let mut mounts = self.mounts.iter();
        mounts.any(|place| place.starts_with(&host) && *place != host)
    }

    /// Assembles a directory of the host entry by entry, with the files of `own` in place of those
    /// with the same names.
    pub fn compose(&self, host: &Path, own: Option<&Path>, plan: &LaunchPlan) -> io::Result<()> {
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let composed = filesystem("tmpfs", &[("mode", "0755"), ("size", "16m")], attributes)?;
        self.attach(&composed, host)?;
        if let Some(own) = own {
            for entry in fs::read_dir(own)? {
                let entry = entry?;
                self.show(&entry.path(), &host.join(entry.file_name()), SEALED)?;
            }
        }
        for entry in fs::read_dir(host)? {
            let entry = entry?;
            if own.is_some_and(|own| own.join(entry.file_name()).exists()) {
                continue;
            }
            if entry.file_type()?.is_symlink() {
                let target = fs::read_link(entry.path())?;
                symlinkat(target, &composed, entry.file_name())?;
                continue;
            }
            match self.show_apart(&entry.path(), plan) {
                // Not shown: a file system that cannot be a layer (`/proc` of another root), a
                // directory that the user may not list, or an entry that was removed.
                Err(error) if is_unfit(&error) => {
                    complain!("{} is not shown: {error}", entry.path().display());
                }
                shown => shown?,
            }
        }
        set_attributes(composed.as_fd(), SEALED, Reach::ThisMount)
    }
}

/// The kernel has no overlayfs, or not for users.
fn has_no_overlays(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NODEV | Errno::PERM)
    )
}

fn is_unfit(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::ACCESS | Errno::NOENT)
    )
}
