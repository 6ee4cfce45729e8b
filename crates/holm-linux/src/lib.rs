//! The Linux driver: rootless workspaces made of namespaces and overlayfs.
//!
//! Who runs what: the daemon runs [`LinuxDriver`]; it starts one keeper per workspace
//! ([`keeper`]), which clones the first process inside ([`launch`]), which becomes init
//! ([`holm_keeper::init`]). Keepers and inits run a small program that has the [`roles`] only. Namespaces are entered
//! only in fresh single-threaded processes; unsafe code is only in [`sys`].

#[cfg(target_os = "linux")]
pub mod cgroup;
#[cfg(target_os = "linux")]
mod closed;
#[cfg(target_os = "linux")]
pub mod copier;
#[cfg(target_os = "linux")]
mod domain;
#[cfg(target_os = "linux")]
pub mod driver;
#[cfg(target_os = "linux")]
pub mod keeper;
#[cfg(target_os = "linux")]
pub mod launch;
pub mod layout;
#[cfg(target_os = "linux")]
pub mod machine;
#[cfg(target_os = "linux")]
pub mod measure;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
pub mod mover;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
pub mod numbers;
#[cfg(target_os = "linux")]
pub mod open_files;
#[cfg(target_os = "linux")]
pub mod owned;
#[cfg(target_os = "linux")]
pub mod probe;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
pub mod remount;
#[cfg(target_os = "linux")]
pub mod roles;
#[cfg(target_os = "linux")]
pub mod room;
#[cfg(all(test, target_os = "linux"))]
#[path = "../../holm/tests/it/support/skip.rs"]
mod skip;
#[cfg(target_os = "linux")]
pub mod sub_ids;
#[cfg(target_os = "linux")]
pub mod sys;
#[cfg(target_os = "linux")]
pub mod system;

pub use driver::LinuxDriver;
pub use layout::Layout;
