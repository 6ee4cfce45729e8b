//! A service whose build is older than its files: built first, beside what runs, and started or
//! restarted only when that succeeded. A part of [`Life`].

use super::{Life, Phase, Then, exit_in_words};

/// What it runs is older than its files, and what is done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Build {
    NotNeeded,
    Due,
    Underway {
        /// Its files changed again since it began.
        is_stale: bool,
    },
    /// Until somebody starts or restarts it.
    Failed(String),
}

// === impl Life ===

impl Life {
    /// It is to be built before it is started.
    pub fn needs_build(&mut self) {
        self.build = Build::Due;
    }

    /// Whether what it would run is older than its files.
    pub fn is_build_due(&self) -> bool {
        self.build != Build::NotNeeded
    }

    pub(super) fn rebuild(&mut self) {
        self.build = match self.build {
            Build::Underway { .. } => Build::Underway { is_stale: true },
            Build::NotNeeded | Build::Due | Build::Failed(_) => Build::Due,
        };
    }

    pub(super) fn built(&mut self, code: u8, cause: Option<String>) {
        let Build::Underway { is_stale } = self.build else {
            return;
        };
        if is_stale {
            self.build = Build::Due;
            return;
        }
        if code != 0 {
            let how = exit_in_words(code);
            let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
            let rest = match self.pid {
                Some(_) => "; what was built before it still runs",
                None => "",
            };
            self.build = Build::Failed(format!("the build {how}{cause}{rest}"));
            return;
        }
        self.build = Build::NotNeeded;
        match &self.phase {
            Phase::Running { .. } => self.end(Then::Run),
            Phase::Backoff { .. } | Phase::Exited | Phase::Failed => {
                self.forgive();
                self.phase = Phase::Waiting;
            }
            // Nothing starts during a build, and what ends is started or not as was asked for.
            Phase::Down | Phase::Waiting | Phase::Launching { .. } | Phase::Ending(_) => {}
        }
    }
}
