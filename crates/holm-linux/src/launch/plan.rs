//! Everything that a launcher needs to make a workspace run; the daemon sends it to a keeper's stdin.

use crate::cgroup;
use crate::programs::Programs;
use holm_core::config::Limits;
use holm_core::sub_ids::SubIds;
use holm_keeper::plan::Plan;
use holm_keeper::wire::Defence;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// What the keeper needs when the workspace runs.
    pub keeper: Plan,
    pub programs: Programs,
    pub home: PathBuf,
    /// Read-only layers of the tree on the host, top first.
    pub layers: Vec<PathBuf>,
    /// The same of home; none: it is the workspace's own directory.
    pub home_layers: Vec<PathBuf>,
    /// The project's shared git objects on the host.
    pub objects: PathBuf,
    /// Host paths that are visible read-only at the same path.
    pub shown: Vec<PathBuf>,
    /// Relative to `root`.
    pub protected: Vec<String>,
    pub nested: bool,
    /// The most processes are kept by RLIMIT_NPROC, too.
    pub limits: Limits,
    /// Where the workspace's control groups may be made.
    pub groups: Option<cgroup::GroupParents>,
    /// Names of limits without which nothing is started.
    pub required: Vec<String>,
    /// Host files that show another list of trusted certificates inside.
    pub bundles: Vec<PathBuf>,
    /// The directory of siblings' trees on the host, if they are shown.
    pub siblings: Option<PathBuf>,
    /// The ranges of ids that services of images have for their users. `None`: they have one user, or there are none.
    pub sub_ids: Option<SubIds>,
}

/// What decides how the first process of a workspace, or of a room in it, is sealed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SealPlan {
    pub nested: bool,
    /// The most processes, kept by RLIMIT_NPROC.
    pub processes: Option<u64>,
    /// Defences that a test switched off.
    pub without: Vec<Defence>,
}

// === impl LaunchPlan ===

impl LaunchPlan {
    pub fn seal(&self) -> SealPlan {
        SealPlan {
            nested: self.nested,
            processes: self.limits.processes,
            without: self.keeper.without.clone(),
        }
    }
}

// === impl SealPlan ===

impl SealPlan {
    pub fn has(&self, defence: Defence) -> bool {
        defence.is_in_force(&self.without)
    }
}
