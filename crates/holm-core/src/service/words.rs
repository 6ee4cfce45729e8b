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

/// Whether a line of output says that a program does not exist, in the words of common shells.
/// Starting the service again cannot change that.
pub fn names_missing_program(line: &str) -> bool {
    // `sh: 1: vite: not found`, `bash: line 1: vite: command not found`
    let line = line.trim_end();
    let rest = line.strip_suffix(": not found");
    let rest = rest.or_else(|| line.strip_suffix(": command not found"));
    rest.is_some_and(|rest| {
        let shell = rest.split(':').next().unwrap_or_default();
        let shell = shell.rsplit('/').next().unwrap_or_default();
        ["sh", "bash", "dash", "ash"].contains(&shell)
    })
}

/// `1st`, `2nd`, `3rd`, `11th`.
pub(super) fn ordinal(number: u32) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

pub(super) fn in_words(time: Duration) -> String {
    match (time.as_secs(), time.subsec_millis()) {
        (seconds, 0) | (seconds @ 10.., _) => format!("{seconds}s"),
        _ => format!("{}ms", time.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let all = [400, 3000, 60_400].map(|ms| in_words(Duration::from_millis(ms)));
        assert_eq!(all, ["400ms", "3s", "60s"]);
    }

    #[test]
    fn ordinals() {
        let all = [1, 2, 3, 4, 11, 13, 21, 112].map(ordinal);
        assert_eq!(
            all,
            ["1st", "2nd", "3rd", "4th", "11th", "13th", "21st", "112th"]
        );
    }

    #[test]
    fn lines_about_a_missing_program() {
        let check = |line, expect| assert_eq!(names_missing_program(line), expect, "{line}");
        check("sh: 1: vite: not found", true);
        check("sh: vite: command not found", true);
        check("/bin/bash: line 1: vite: command not found", true);
        check("GET /vite: not found", false);
        check("error: route /a: not found", false);
        check("", false);
    }
}
