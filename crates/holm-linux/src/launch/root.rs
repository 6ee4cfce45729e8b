//! The new root: a small tmpfs on which everything visible is mounted.
//!
//! Every path is resolved from the root's descriptor without following symlinks, because home and
//! tree contain files that programs of the workspace wrote in an earlier run.

use super::LaunchPlan;
use super::beneath::PLAIN;
use crate::mounts;
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY, Reach, set_attributes};
use holm_core::config::SIBLINGS;
use holm_keeper::directories::open_directory;
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use holm_keeper::process::read_proc;
use holm_keeper::wire::{Defence, Mounted};
use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen, mount_change, move_mount, open_tree, unmount,
};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::thread::JoinHandle;

/// The workspace's future root, mounted at a place that only this namespace knows.
pub struct NewRoot {
    directory: OwnedFd,
    /// The host's mount points before anything was mounted here.
    pub(super) mounts: Vec<PathBuf>,
}

/// Directories that programs expect and that are empty inside.
pub(super) const EMPTY: [&str; 6] = ["mnt", "media", "srv", "var/lib", "var/cache", "var/log"];

const DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

// === impl NewRoot ===

impl NewRoot {
    pub fn mount(plan: &LaunchPlan) -> Result<Self, LaunchFailure> {
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).step(Part::Mount, "make the mounts private")?;
        let table = read_proc("/proc/self/mountinfo").step(Part::Mount, "list the mounts")?;
        let mounts = mounts::points(&table).collect();
        let tmpfs = filesystem(
            "tmpfs",
            &[("mode", "0755"), ("size", "16m")],
            MountAttrFlags::empty(),
        )
        .step(Part::Mount, "make the new root")?;
        let place = plan.keeper.dir.join("root");
        move_mount(
            tmpfs,
            "",
            CWD,
            &place,
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )
        .step(Part::Mount, "mount the new root")?;
        let directory =
            openat(CWD, &place, DIRECTORY, Mode::empty()).step(Part::Mount, "open the new root")?;
        Ok(Self { directory, mounts })
    }

    /// The root of this process.
    pub fn entered() -> io::Result<Self> {
        Ok(Self::at(open_directory(Path::new("/"))?))
    }

    /// A root that is mounted already.
    pub fn at(directory: OwnedFd) -> Self {
        Self {
            directory,
            mounts: Vec::new(),
        }
    }

    /// `/run`, with holm's own files at `/run/holm`.
    pub fn make_run(&self, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
        let step = "make /run";
        let run = filesystem(
            "tmpfs",
            &[("mode", "0755"), ("size", "256m")],
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
        )
        .step(Part::Mount, step)?;
        self.attach(&run, Path::new("run"))
            .step(Part::Mount, step)?;
        // The default socket directory of Debian's PostgreSQL.
        self.directory(Path::new("run/postgresql"))
            .step(Part::Mount, step)?;
        self.directory(Path::new("run/lock"))
            .step(Part::Mount, step)?;
        let sealed = READ_ONLY | NO_SUID | NO_DEV;
        self.show(
            &plan.keeper.dir.join("guest"),
            Path::new("run/holm"),
            sealed,
        )
        .step(Part::Mount, "show /run/holm")?;
        self.show(&plan.objects, Path::new("run/holm/objects"), sealed)
            .step(Part::Mount, "show the shared git objects")?;
        let (programs, place) = plan.programs.shown();
        self.show(programs, place, sealed)
            .step(Part::Mount, "show holm itself")
    }

    /// `/tmp`, home, and the user's toolchains.
    pub fn make_places(&self, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
        self.show(
            &plan.keeper.dir.join("tmp"),
            Path::new("tmp"),
            NO_SUID | NO_DEV,
        )
        .step(Part::Mount, "mount /tmp")?;
        self.mount_home(plan)
            .step(Part::Mount, "mount the home directory")?;
        for shown in &plan.shown {
            // A toolchain that was removed since does not prevent the start.
            if !shown.exists() {
                continue;
            }
            match self.show_apart(shown, plan) {
                // Nor do symlinks and files that programs inside created there.
                Err(error) if is_taken(&error) => {}
                result => result.step(Part::Mount, &format!("show {}", shown.display()))?,
            }
        }
        Ok(())
    }

    fn mount_home(&self, plan: &LaunchPlan) -> io::Result<()> {
        let own = plan.keeper.dir.join("home");
        if plan.home_layers.is_empty() {
            return self.show(&own, &plan.home, NO_SUID | NO_DEV);
        }
        let layers = plan.home_layers.iter().map(|layer| open_directory(layer));
        let layers = layers.collect::<io::Result<Vec<_>>>()?;
        let (own, work) = (
            open_directory(&own)?,
            open_directory(&plan.keeper.dir.join("home-work"))?,
        );
        let home = overlay(&layers, Some((&own, &work)))?;
        self.attach(&home, &plan.home)
    }

    pub fn mount_caches(&self, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
        for cache in &plan.keeper.caches {
            match self.mount_cache(cache) {
                // A file that programs inside created there stays.
                Err(error) if is_taken(&error) => {}
                mounted => mounted.step(
                    Part::Mount,
                    &format!("mount the cache {}", cache.inside.display()),
                )?,
            }
        }
        Ok(())
    }

    /// Unlike a cache, a volume must be mounted: otherwise data would be written elsewhere.
    pub fn mount_volumes(&self, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
        for volume in &plan.keeper.volumes {
            self.mount_cache(&volume.mount)
                .step(Part::Volume, &volume.name)?;
        }
        Ok(())
    }

    /// Copies of the trees of other workspaces, read-only.
    pub fn show_siblings(&self, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
        let Some(siblings) = &plan.siblings else {
            return Ok(());
        };
        let sealed = if plan.keeper.has(Defence::SealedSiblings) {
            READ_ONLY | NO_SUID | NO_DEV
        } else {
            NO_SUID | NO_DEV
        };
        self.show(siblings, Path::new(SIBLINGS), sealed)
            .step(Part::Mount, "show the siblings")
    }

    fn mount_cache(&self, cache: &Mounted) -> io::Result<()> {
        let mount = detached(cache)?;
        self.attach(&mount, &cache.inside)
    }

    /// Makes the root itself read-only.
    pub fn freeze(&self) -> Result<(), LaunchFailure> {
        set_attributes(
            self.directory.as_fd(),
            READ_ONLY | NO_SUID | NO_DEV,
            Reach::ThisMount,
        )
        .step(Part::Mount, "make the root read-only")
    }

    /// Makes this the root of the namespace and begins to leave the old root for good.
    pub fn enter(self) -> Result<Leaving, LaunchFailure> {
        rustix::process::fchdir(&self.directory).step(Part::Mount, "go to the new root")?;
        rustix::process::pivot_root(".", ".").step(Part::Mount, "enter the new root")?;
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        // The working directory is the old root now, until it is left.
        let leaving = thread.spawn(|| unmount(".", UnmountFlags::DETACH));
        Ok(Leaving(leaving.step(Part::Mount, "leave the old root")?))
    }

    /// Shows a file or a directory of the host, with everything mounted below it.
    pub fn show(&self, host: &Path, inside: &Path, attributes: u64) -> io::Result<()> {
        let copy = clone_tree(host)?;
        set_attributes(copy.as_fd(), attributes, Reach::AllBelow)?;
        self.attach(&copy, inside)
    }

    /// Mounts at a path of the new root, which is created if missing.
    pub fn attach(&self, mount: &OwnedFd, inside: &Path) -> io::Result<()> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(mount)?.st_mode);
        let place = match kind {
            FileType::Directory => self.directory(inside)?,
            _ => self.file(inside)?,
        };
        attach(mount.as_fd(), place.as_fd())
    }

    /// A directory of the new root, created with its parents if missing.
    pub fn directory(&self, inside: &Path) -> io::Result<OwnedFd> {
        let names = inside.components().filter(|it| *it != Component::RootDir);
        let is_plain = |name: &Component<'_>| matches!(name, Component::Normal(_));
        if !names.clone().all(|name| is_plain(&name)) {
            return Err(io::Error::other("the path is not plain"));
        }
        self.walk(&names.collect::<PathBuf>())
    }

    /// `relative` has plain names only. It is followed across mounts, never through a link.
    fn walk(&self, relative: &Path) -> io::Result<OwnedFd> {
        let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
            return Ok(rustix::io::dup(&self.directory)?);
        };
        if parent.as_os_str().is_empty() {
            return open_or_make(self.directory.as_fd(), name);
        }
        match openat2(&self.directory, relative, DIRECTORY, Mode::empty(), PLAIN) {
            Ok(found) => Ok(found),
            Err(_) => open_or_make(self.walk(parent)?.as_fd(), name),
        }
    }

    /// A file of the new root, created empty if missing.
    pub fn file(&self, inside: &Path) -> io::Result<OwnedFd> {
        let (Some(parent), Some(name)) = (inside.parent(), inside.file_name()) else {
            return Err(io::Error::other("the path names no file"));
        };
        let parent = self.directory(parent)?;
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        match openat(&parent, name, create, Mode::from_raw_mode(0o644)) {
            Ok(_) | Err(Errno::EXIST | Errno::ROFS) => {}
            Err(error) => return Err(error.into()),
        }
        let open = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = openat(&parent, name, open, Mode::empty())?;
        match FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode) {
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Ok(place),
        }
    }

    /// Mounts a path of the new root on itself.
    pub fn pin(&self, inside: &Path, attributes: u64) -> io::Result<()> {
        pin(&self.directory(inside)?, attributes)
    }

    pub fn link(&self, target: impl AsRef<Path>, inside: impl AsRef<Path>) -> io::Result<()> {
        Ok(symlinkat(
            target.as_ref(),
            &self.directory,
            inside.as_ref(),
        )?)
    }
}

impl AsFd for NewRoot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Opens a directory, which is created if missing.
fn open_or_make(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    match mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        // A read-only directory of the host may already contain it.
        Err(Errno::ROFS | Errno::ACCESS) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}

/// The old root is being unmounted: the kernel waits until no processor uses it, while this process seals itself.
/// Nothing is executed before that is [finished](Self::finish).
pub struct Leaving(JoinHandle<rustix::io::Result<()>>);

// === impl Leaving ===

impl Leaving {
    pub fn finish(self) -> Result<(), LaunchFailure> {
        let left = self.0.join().unwrap_or(Err(Errno::FAULT));
        left.step(Part::Mount, "leave the old root")?;
        rustix::process::chdir("/").step(Part::Mount, "go to /")
    }
}

/// Whether the path in the new root has the wrong type for the mount.
fn is_taken(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOTDIR | Errno::ISDIR | Errno::LOOP)
    )
}

/// A new detached file system.
pub fn filesystem(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// An overlay of directories, top first. Descriptors instead of paths keep the options short
/// however deep the host's directories are, and no host path is visible inside.
pub fn overlay(lower: &[OwnedFd], writable: Option<(&OwnedFd, &OwnedFd)>) -> io::Result<OwnedFd> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let path = |descriptor: &OwnedFd| format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let layers: Vec<_> = lower.iter().map(path).collect();
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_set_string(&context, "lowerdir", layers.join(":"))?;
    if let Some((upper, work)) = writable {
        fsconfig_set_string(&context, "upperdir", path(upper))?;
        fsconfig_set_string(&context, "workdir", path(work))?;
    }
    fsconfig_set_string(&context, "source", "holm")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// A detached cache or volume.
pub fn detached(mounted: &Mounted) -> io::Result<OwnedFd> {
    let own = open_directory(&mounted.own)?;
    match &mounted.below {
        Some(below) => {
            let work = open_directory(&below.work)?;
            overlay(&[open_directory(&below.layer)?], Some((&own, &work)))
        }
        None => {
            let copy = clone_tree(&mounted.own)?;
            set_attributes(copy.as_fd(), NO_SUID | NO_DEV, Reach::AllBelow)?;
            Ok(copy)
        }
    }
}

/// A detached copy of a file or a directory of the host, with everything mounted below it.
pub fn clone_tree(host: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, host, flags)?)
}

/// Mounts a file on a new one of this name.
pub fn attach_new(mount: &OwnedFd, directory: &OwnedFd, name: &str) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o644);
    mknodat(directory, name, FileType::RegularFile, mode, 0)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(mount, "", directory, name, flags)?)
}

/// A detached copy of an attached mount with its attributes, or of a file or directory of one.
pub fn copy_mount(place: &OwnedFd, reach: Reach) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let flags = match reach {
        Reach::ThisMount => flags,
        Reach::AllBelow => flags | OpenTreeFlags::AT_RECURSIVE,
    };
    Ok(open_tree(place, "", flags)?)
}

/// Mounts exactly on the opened `place`.
pub fn attach(mount: BorrowedFd<'_>, place: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", place, "", flags)?)
}

/// Mounts a path on itself.
pub fn pin(place: &OwnedFd, attributes: u64) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let copy = open_tree(place, "", flags)?;
    set_attributes(copy.as_fd(), attributes, Reach::AllBelow)?;
    attach(copy.as_fd(), place.as_fd())
}
