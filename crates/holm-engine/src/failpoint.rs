//! Points at which tests make the daemon fail, die or stop, and what tests switch off.
//! Called around every durable step; a release build has none.
//!
//! `HOLM_TEST_AT="launch:before:kill"`: the step, `before` or `after`, and the effect: `fail` (the
//! step fails), `kill` (SIGKILL to the daemon), or `stop` (SIGSTOP, until the test continues it).

use holm_core::{Code, Fault};
use rustix::process::{Signal, getpid, kill_process};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const VARIABLE: &str = "HOLM_TEST_AT";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It is journaled and not done.
    Before,
    /// It is done and not reported.
    After,
}

/// Whether a test switches off a defence of the daemon (`HOLM_TEST_WITHOUT=clock`). For those of a
/// workspace see `holm_keeper::wire::Defence`.
pub fn is_without(defence: &str) -> bool {
    static WITHOUT: OnceLock<String> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return false;
    }
    let without = WITHOUT.get_or_init(|| std::env::var("HOLM_TEST_WITHOUT").unwrap_or_default());
    without.split(',').any(|name| name == defence)
}

/// Whether the file of `HOLM_TEST_OVER` exists: the test has ended, and what a stop would record is never read.
pub(crate) fn is_test_over() -> bool {
    cfg!(debug_assertions)
        && std::env::var_os("HOLM_TEST_OVER").is_some_and(|file| Path::new(&file).exists())
}

/// Passes a point; the effect happens only the first time in a daemon's life.
pub(crate) fn pass(step: &str, moment: Moment) -> Result<(), Fault> {
    static USED: AtomicBool = AtomicBool::new(false);
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    let Ok(asked) = std::env::var(VARIABLE) else {
        return Ok(());
    };
    let word = match moment {
        Moment::Before => "before",
        Moment::After => "after",
    };
    let here = format!("{step}:{word}:");
    let Some(what) = asked.strip_prefix(&here) else {
        return Ok(());
    };
    if USED.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let signal = match what {
        "kill" => Signal::KILL,
        "stop" => Signal::STOP,
        _ => {
            let message = format!("a test asked for a failure at {here}");
            return Err(Fault::new(Code::Internal, message, "try again"));
        }
    };
    // If the signal cannot be sent, the test notices, because it waits for the effect.
    let _ = kill_process(getpid(), signal);
    Ok(())
}
