//! The project's tree: an overlay at `project.root`, with protected paths held in place.

use super::LaunchPlan;
use super::absent::{self, Absent, Layers, unprotectable};
use super::beneath::{make_directories, open_plain};
use super::root::{NewRoot, overlay, pin};
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY};
use holm_keeper::directories::open_directory;
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use holm_keeper::wire::Defence;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

pub fn mount(root: &NewRoot, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
    let open =
        |path: &Path| open_directory(path).step(Part::Overlay, &format!("open {}", path.display()));
    let mut layers = plan
        .layers
        .iter()
        .map(|layer| open(layer))
        .collect::<Result<Vec<_>, _>>()?;
    let upper = open(&plan.keeper.dir.join("upper"))?;
    let work = open(&plan.keeper.dir.join("work"))?;
    let pins = open(&plan.keeper.dir.join("pins"))?;
    let protected = if plan.keeper.has(Defence::Protection) {
        outermost(&plan.protected)
    } else {
        Vec::new()
    };
    let absent = if protected.is_empty() {
        Absent::default()
    } else {
        let layers = Layers {
            upper: &upper,
            lower: &layers,
            pins: &pins,
        };
        absent::hide(&layers, &protected)?
    };
    layers.push(pins);

    let tree = overlay(&layers, Some((&upper, &work))).step(Part::Overlay, "mount the tree")?;
    if plan.keeper.has(Defence::Pins) {
        pin_way_to_root(root, plan)?;
    }
    if !absent.hidden.is_empty() {
        absent::hold(root, plan, &absent.hidden)?;
    }
    root.attach(&tree, &plan.keeper.root).step(
        Part::Mount,
        &format!("mount the tree at {}", plan.keeper.root.display()),
    )?;
    protect(root, plan, &protected, &absent)
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
