//! `/etc`: the host's, read-only, with our own files over it.

use super::LaunchPlan;
use super::root::{NewRoot, overlay};
use super::shown::SEALED;
use crate::sys::mount::{Reach, set_attributes};
use holm_keeper::directories::open_directory;
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

const HOST: &str = "/etc";

/// One overlay, or entry by entry where something is mounted below `/etc`, as in every container.
pub fn mount(root: &NewRoot, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
    let (host, own) = (Path::new(HOST), plan.keeper.dir.join("etc"));
    if root.has_mounts_below(host) {
        root.compose(host, Some(&own), plan)
            .step(Part::Mount, "put /etc together")
    } else {
        lay_over(root, &own).step(Part::Overlay, "lay our files over /etc")
    }
}

fn lay_over(root: &NewRoot, own: &Path) -> io::Result<()> {
    let layers = [open_directory(own)?, open_directory(Path::new(HOST))?];
    let etc = overlay(&layers, None)?;
    set_attributes(etc.as_fd(), SEALED, Reach::ThisMount)?;
    root.attach(&etc, Path::new(HOST))
}
