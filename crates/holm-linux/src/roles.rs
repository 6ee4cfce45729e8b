//! Decides which role this process plays. Called first in `main`, before any runtime or thread.

use crate::{copier, files, init, inside, keeper, launch, measure, mover, remount};
use std::os::unix::ffi::OsStrExt;

/// The hidden first argument of a keeper.
pub const KEEPER: &str = "__keeper";

/// The hidden first argument of a process that measures a workspace's disk use.
pub const MEASURE: &str = "__measure";

/// The hidden first argument of a mover.
pub const MOVER: &str = "__mover";

/// The hidden first argument of a helper of the keeper that runs inside.
pub const INSIDE: &str = "__inside";

/// The hidden first argument of a process that copies a workspace's files.
pub const COPY: &str = "__copy";

/// The hidden first argument of a process that mounts a volume into a running workspace.
pub const REMOUNT: &str = "__remount";

/// Runs the requested role and does not return, or returns at once for the ordinary program.
pub fn dispatch() {
    crate::sys::lookup::use_built_in_sources();
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let first = arguments.next().unwrap_or_default();
    if name == launch::INIT_NAME {
        init::main(first.as_bytes());
    }
    if first == KEEPER {
        keeper::main(&arguments.next().unwrap_or_default());
    }
    if first == MEASURE {
        measure::main();
    }
    if first == COPY {
        copier::main();
    }
    if first == REMOUNT {
        remount::main();
    }
    if first == MOVER {
        mover::main();
    }
    if first == holm_engine::files::wire::ROLE {
        files::main(arguments.next().unwrap_or_default().as_bytes());
    }
    if first == INSIDE {
        inside::main(&arguments.collect::<Vec<_>>());
    }
}

/// For a process that reads files of workspaces: in its own user namespace it may enter directories
/// that are closed to the user. It ends with its parent. If this fails, those directories are not
/// read.
pub fn enter_closed_directories() {
    let _ = crate::sys::process::die_with_parent();
    let user = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if crate::sys::process::own_user_namespace().is_ok() {
        let _ = launch::map_user(user);
        // Gaining rights has cleared it.
        let _ = crate::sys::process::die_with_parent();
    }
}
