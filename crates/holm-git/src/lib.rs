//! The only crate that runs git, for the client (`holm up`) and for the daemon's driver.
//!
//! It keeps two kinds apart. [`Repository`] is the user's repository, read with the user's
//! configuration. [`Bare`], [`build_base`], [`seed_excluded`] and [`seed_git_dir`] work on the
//! daemon's files with only holm's configuration: no hook, filter, helper or transport can run
//! there.
//!
//! Absent here: async, `unsafe`, and any git directory that a workspace can write.

mod attributes;
mod bare;
mod base;
mod begin;
mod clone;
mod command;
mod error;
mod merge;
mod missing;
mod pack_index;
mod quote;
mod remote;
mod repository;
mod seed;
mod turns;
mod version;

pub use attributes::{lfs_patterns, submodule_paths, uses_lfs};
pub use bare::Bare;
pub use base::{
    Build, COMMIT_FILES, base_files, base_is_present, build_base, build_base_dated, mark_base_used,
};
pub use begin::init;
pub use clone::{Dial, ORIGIN, clone, origin_of};
pub use command::{Cancel, require_version, version};
pub use error::GitError;
pub use merge::{MERGES_TREES, Merge, can_merge_trees};
pub use missing::missing_objects;
pub use remote::without_credentials;
pub use repository::adopt::{Staged, Work};
pub use repository::dirty::Dirty;
pub use repository::extent::Extent;
pub use repository::fetch::Branch;
pub use repository::journal::{Planned, Recovered};
pub use repository::refs::{RecentRef, Resolved, refs_digest};
pub use repository::tree::{Export, Tree, TreeFile, TreeFileKind};
pub use repository::{Repository, project_id_of};
pub use seed::{OBJECTS_INSIDE, Seed, make_git_places, seed_excluded, seed_git_dir};
pub use turns::TurnObjects;
pub use version::{MINIMUM_VERSION, Version};
