//! Decides which role this process plays. Called first in `main`, before any runtime or thread.

use crate::system::Kernel;
use crate::{copier, keeper, launch, measure, mover, owned, remount, room, sub_ids};
use holm_keeper::{files, init, inside};
use std::os::unix::ffi::OsStrExt;

/// Runs the requested role and does not return, or returns at once for the ordinary program.
pub fn dispatch() {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let first = arguments.next().unwrap_or_default();
    if name == launch::INIT_NAME {
        init::main(first.as_bytes(), &Kernel);
    }
    // Only keepers and the ordinary program look up names.
    crate::sys::lookup::use_built_in_sources();
    if first == keeper::ROLE {
        keeper::main(&arguments.next().unwrap_or_default());
    }
    if first == measure::ROLE {
        measure::main();
    }
    if first == copier::ROLE {
        copier::main();
    }
    if first == owned::ROLE {
        owned::main();
    }
    if first == sub_ids::ROLE {
        sub_ids::main();
    }
    if first == remount::ROLE {
        remount::main();
    }
    if first == room::ROLE {
        room::main();
    }
    if first == mover::ROLE {
        mover::main();
    }
    if first == holm_core::files::ROLE {
        files::main(arguments.next().unwrap_or_default().as_bytes());
    }
    if first == inside::ROLE {
        inside::main(&arguments.collect::<Vec<_>>());
    }
}
