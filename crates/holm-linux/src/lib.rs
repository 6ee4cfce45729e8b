//! The Linux driver: rootless workspaces made of namespaces and overlayfs.
//!
//! The daemon runs [`LinuxDriver`]; it starts one keeper per workspace ([`keeper`]), which clones
//! the first process inside ([`launch`]), which becomes init ([`init`]). All three are the same
//! binary in another role ([`roles`]). Only fresh single-threaded processes enter namespaces;
//! unsafe code is only in [`sys`].

/// Writes a line to stderr, the log of a keeper or helper. `eprintln!` would panic when the log's
/// disk is full.
#[cfg(target_os = "linux")]
macro_rules! complain {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

#[cfg(target_os = "linux")]
pub mod cgroup;
#[cfg(target_os = "linux")]
pub mod copier;
#[cfg(target_os = "linux")]
pub mod driver;
#[cfg(target_os = "linux")]
pub mod files;
#[cfg(target_os = "linux")]
pub mod guest;
pub mod guests;
pub mod here;
#[cfg(target_os = "linux")]
pub mod init;
#[cfg(target_os = "linux")]
pub mod inside;
#[cfg(target_os = "linux")]
pub mod keeper;
#[cfg(target_os = "linux")]
pub mod launch;
pub mod layout;
pub mod logs;
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
pub mod probe;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
pub mod remount;
#[cfg(target_os = "linux")]
pub mod roles;
mod roots;
#[cfg(target_os = "linux")]
pub mod runs;
#[cfg(all(test, target_os = "linux"))]
#[path = "../../holm/tests/it/support/skip.rs"]
mod skip;
#[cfg(target_os = "linux")]
mod stdio;
#[cfg(target_os = "linux")]
pub mod sys;
pub mod wire;

pub use driver::LinuxDriver;
pub use layout::Layout;
