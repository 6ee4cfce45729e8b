//! The small program of keepers, inits and their helpers. `holm` embeds it and writes it beside its own copy.
//!
//! It has the roles and nothing else, so it starts faster than `holm` and its processes have fewer pages of their own.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    holm_linux::roles::dispatch();
    eprintln!("error: this program is a part of holm and is not started by hand; use `holm`");
    ExitCode::from(2)
}
