//! Moments at which tests make the daemon fail, die or stand still, and defences that they switch off. Called
//! around every durable step; in a release build there are none.
//!
//! `HOLM_TEST_AT="launch:before:kill"`: the step, `before` or `after`, and what happens then: `fail`
//! (the step does), `kill` (SIGKILL to the daemon), or `stop` (SIGSTOP, until somebody continues it).

use holm_core::{Code, Fault};
use rustix::process::{Signal, getpid, kill_process};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const VARIABLE: &str = "HOLM_TEST_AT";

/// Where in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It is written down, and nothing is done.
    Before,
    /// It is done, and nobody was told.
    After,
}

/// Whether a test shows what happens without a defence of the daemon (`HOLM_TEST_WITHOUT=clock`). Those of
/// a workspace are `holm_linux::wire::Defence`.
pub fn is_without(defence: &str) -> bool {
    static WITHOUT: OnceLock<String> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return false;
    }
    let without = WITHOUT.get_or_init(|| std::env::var("HOLM_TEST_WITHOUT").unwrap_or_default());
    without.split(',').any(|name| name == defence)
}

/// Passes a moment; only the first time in the life of a daemon is something done there.
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
    // A signal to oneself that cannot be sent is seen by the test, which waits for its effect.
    let _ = kill_process(getpid(), signal);
    Ok(())
}
