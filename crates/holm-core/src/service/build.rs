//! Builds of a service whose files changed: the build runs beside the old version, and the service
//! is started or restarted only when it succeeds. A part of [`Life`].

use super::{Life, Phase, Then, exit_in_words};

/// Whether the build is up to date, and what is done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Build {
    NotNeeded,
    Due,
    Underway {
        /// The files changed again since the build began.
        is_stale: bool,
    },
    /// Until a user starts or restarts it.
    Failed(String),
}

// === impl Life ===

impl Life {
    /// Requires a build before the next start.
    pub fn needs_build(&mut self) {
        self.build = Build::Due;
    }

    /// Whether the build is outdated.
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
            // Nothing starts during a build, and an exit is handled as requested.
            Phase::Down | Phase::Waiting | Phase::Launching { .. } | Phase::Ending(_) => {}
        }
    }
}
