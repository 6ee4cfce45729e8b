//! The CA bundle inside, in workspaces with placeholders: a list that also contains the gateway's
//! CA covers the machine's own.

use super::LaunchPlan;
use super::root::NewRoot;
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY};
use holm_keeper::guest::AUTHORITY;
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use std::path::Path;

pub fn mount(root: &NewRoot, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
    let name = Path::new(AUTHORITY).file_name().unwrap_or_default();
    let bundle = plan.keeper.dir.join("guest").join(name).join("bundle.pem");
    for place in &plan.bundles {
        root.show(&bundle, place, READ_ONLY | NO_SUID | NO_DEV)
            .step(Part::Mount, "show whose certificates are trusted")?;
    }
    Ok(())
}
