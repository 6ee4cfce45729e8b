//! The project's tree: an overlay at `project.root`, with protected paths held in place.

use super::absent::{self, Absent, Layers, unprotectable};
use super::beneath::{make_directories, open_plain};
use super::root::{NewRoot, overlay, pin};
use super::{LaunchPlan, map_user};
use crate::sys;
use crate::sys::clone::{Side, clone_into};
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY};
use holm_core::sub_ids::OwnIds;
use holm_keeper::directories::open_directory;
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use holm_keeper::wire::Defence;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The tree, mounted nowhere yet.
pub struct Tree {
    mount: OwnedFd,
    absent: Absent,
}

/// The directories that the tree is an overlay of.
struct Directories {
    /// Top first.
    lower: Vec<OwnedFd>,
    upper: OwnedFd,
    work: OwnedFd,
}

// === impl Tree ===

impl Tree {
    pub fn make(plan: &LaunchPlan) -> Result<Self, LaunchFailure> {
        let absent = hide_absent(plan)?;
        let mount = Directories::open(plan)
            .and_then(|all| overlay(&all.lower, Some((&all.upper, &all.work))));
        Ok(Self {
            mount: mount.step(Part::Overlay, "mount the tree")?,
            absent,
        })
    }

    pub fn mount(self, root: &NewRoot, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
        if plan.keeper.has(Defence::Pins) {
            pin_way_to_root(root, plan)?;
        }
        if !self.absent.hidden.is_empty() {
            absent::hold(root, plan, &self.absent.hidden)?;
        }
        root.attach(&self.mount, &plan.keeper.root).step(
            Part::Mount,
            &format!("mount the tree at {}", plan.keeper.root.display()),
        )?;
        protect(root, plan, &protected(plan), &self.absent)
    }
}

/// The tree of a workspace whose services have several users. Whatever they do, its files belong to the workspace's user:
/// what a person gets out of the workspace is theirs. Two things make sure of it. The overlay belongs to a user namespace
/// that maps this user only, so no other user can make a file. And overlayfs changes files with the rights of the process that
/// mounted it, which has no right to change owners. The caller must have one thread only.
pub fn of_one_user(plan: &LaunchPlan, own: OwnIds) -> Result<Tree, LaunchFailure> {
    let step = "make the tree for one user";
    let absent = hide_absent(plan)?;
    let (mut report, mut tell) = io::pipe().step(Part::Overlay, step)?;
    // The overlay is made in the descriptor table of this process.
    let side = clone_into(sys::clone::BESIDE).step(Part::User, step)?;
    match side {
        Side::Child => {
            let made = map_user(own)
                .and_then(|()| sys::capability::give_up_owning())
                .and_then(|()| Directories::open(plan))
                .and_then(|all| {
                    let mount = overlay(&all.lower, Some((&all.upper, &all.work)))?;
                    tell.write_all(&mount.into_raw_fd().to_ne_bytes())
                });
            let code = made.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
            std::process::exit(code)
        }
        Side::Parent { pidfd, .. } => {
            // Both processes have one table of descriptors, so nothing is closed before the other one ends.
            let code = sys::enter::code_of(&pidfd).step(Part::Overlay, step)?;
            drop(tell);
            if code != 0 {
                return Err(io::Error::from_raw_os_error(code)).step(Part::Overlay, step);
            }
            let mut number = [0; 4];
            report.read_exact(&mut number).step(Part::Overlay, step)?;
            let mount = sys::process::inherited(i32::from_ne_bytes(number));
            Ok(Tree { mount, absent })
        }
    }
}

// === impl Directories ===

impl Directories {
    fn open(plan: &LaunchPlan) -> io::Result<Self> {
        let lower = plan.layers.iter().map(|layer| open_directory(layer));
        let mut lower = lower.collect::<io::Result<Vec<_>>>()?;
        lower.push(open_directory(&plan.keeper.dir.join("pins"))?);
        Ok(Self {
            lower,
            upper: open_directory(&plan.keeper.dir.join("upper"))?,
            work: open_directory(&plan.keeper.dir.join("work"))?,
        })
    }
}

/// The outermost protected paths that are in force.
fn protected(plan: &LaunchPlan) -> Vec<&Path> {
    if plan.keeper.has(Defence::Protection) {
        outermost(&plan.protected)
    } else {
        Vec::new()
    }
}

fn hide_absent(plan: &LaunchPlan) -> Result<Absent, LaunchFailure> {
    let protected = protected(plan);
    if protected.is_empty() {
        return Ok(Absent::default());
    }
    let mut directories = Directories::open(plan).step(Part::Overlay, "open the layers")?;
    let pins = directories.lower.pop();
    let pins = pins.ok_or_else(|| io::Error::other("there are none"));
    let layers = Layers {
        upper: &directories.upper,
        lower: &directories.lower,
        pins: &pins.step(Part::Overlay, "open the layers")?,
    };
    absent::hide(&layers, &protected)
}

/// The protected paths without those inside another one.
pub fn outermost(protected: &[String]) -> Vec<&Path> {
    let paths = protected.iter().map(Path::new);
    let is_outermost = |path: &&Path| {
        let mut others = protected.iter().map(Path::new);
        !others.any(|other| other != *path && path.starts_with(other))
    };
    let outermost: BTreeSet<&Path> = paths.filter(is_outermost).collect();
    outermost.into_iter().collect()
}

/// Makes the directories between a writable place and the tree mount points, so that none can be
/// renamed together with the tree.
fn pin_way_to_root(root: &NewRoot, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
    let writable = [plan.home.as_path(), Path::new("/tmp"), Path::new("/run")];
    let way: BTreeSet<&Path> = plan.keeper.root.ancestors().skip(1).collect();
    for directory in way {
        let below = writable
            .iter()
            .any(|place| directory.starts_with(place) && directory != *place);
        if below {
            root.pin(directory, NO_SUID | NO_DEV)
                .step(Part::Mount, &format!("pin {}", directory.display()))?;
        }
    }
    Ok(())
}

/// Makes the protected paths read-only and every directory above one a mount point: a read-only
/// mount alone can be bypassed by renaming its parent.
fn protect(
    root: &NewRoot,
    plan: &LaunchPlan,
    protected: &[&Path],
    absent: &Absent,
) -> Result<(), LaunchFailure> {
    let tree = root
        .directory(&plan.keeper.root)
        .step(Part::ProtectedPath, "open the tree")?;
    // Sorted, so that parents come first.
    let ways: BTreeSet<&Path> = protected
        .iter()
        .flat_map(|path| path.ancestors().skip(1))
        .filter(|ancestor| !ancestor.as_os_str().is_empty())
        .filter(|_| plan.keeper.has(Defence::Pins))
        .collect();
    let writable = ways.into_iter().map(|way| (way, NO_SUID | NO_DEV));
    let is_shown = |path: &&Path| !absent.hidden.iter().any(|hidden| hidden == path);
    let shown = protected.iter().copied().filter(is_shown);
    let marks: BTreeSet<&Path> = absent.marks.iter().map(PathBuf::as_path).collect();
    let sealed = shown.chain(marks);
    let sealed = sealed.map(|path| (path, READ_ONLY | NO_SUID | NO_DEV));
    for (path, attributes) in writable.chain(sealed) {
        pin_beneath(&tree, path, attributes).map_err(|error| unprotectable(path, error))?;
    }
    Ok(())
}

fn pin_beneath(tree: &OwnedFd, path: &Path, attributes: u64) -> Result<(), Errno> {
    let number = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let place = match open_plain(tree.as_fd(), path) {
        // Deleted in the upper layer, which hides the lowest layer's directory.
        Err(Errno::NOENT) => {
            make_directories(tree.as_fd(), path).map_err(number)?;
            open_plain(tree.as_fd(), path)?
        }
        opened => opened?,
    };
    pin(&place, attributes).map_err(number)
}
