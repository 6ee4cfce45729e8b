//! Texts for states, exits and times. Called by [`Life`](super::Life) and where services are shown.

use super::State;
use std::time::Duration;

// === impl State ===

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Ready => "ready",
            State::Stopped => "stopped",
            State::Exited => "exited",
            State::Backoff => "backoff",
            State::Failed => "failed",
        }
    }
}

/// `exited with 1`, and the usual meaning of a code above 128.
pub fn exit_in_words(code: u8) -> String {
    let signal = match code.wrapping_sub(128) {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        31 => "SIGSYS",
        _ => return format!("exited with {code}"),
    };
    format!("exited with {code} ({signal})")
}

pub(super) fn in_words(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}
