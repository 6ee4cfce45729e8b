//! Checks: commands of `holm.toml` that holm itself runs on a turn, each in a fresh workspace of that turn. This
//! module decides which checks a tree needs, how many run at once and what their ends mean; the server runs them.

pub use crate::spec::{Check, CheckFor};

use crate::config::Pattern;
use crate::run::{RunEnd, RunEnding};
use crate::spec::{Service, WorkspaceSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Waits until fewer checks run.
    Queued,
    Running,
    /// Exit code 0.
    Passed,
    /// Any other exit code, a time-out, or its workspace could not be made.
    Failed,
    /// Nothing that concerns it has changed.
    Skipped,
    /// By a person, by a newer turn, or because the daemon ended.
    Cancelled,
}

/// What to do about one check of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Skip,
    /// The tree has a result already.
    Reuse,
    Run,
}

/// A recorded result, as far as it decides whether a check runs again.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    pub key: &'a str,
    pub state: CheckState,
}

/// Whether a recorded result is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    IfNeeded,
    /// `--again`.
    Always,
}

/// Everything that the result of a check depends on; the server hashes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckIngredients<'a> {
    tree: &'a str,
    run: &'a str,
    timeout_ms: u64,
    copied: &'static str,
    layers: Vec<String>,
    /// With the keys of their seeds.
    volumes: Vec<(&'a str, Option<&'a str>)>,
    /// Digests of copied volumes.
    data: &'a BTreeMap<String, String>,
    services: &'a [Service],
    env: &'a [(String, String)],
    secrets: Secrets,
}

/// Whether a check gets the secrets of runs. A check that a program inside asked for gets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Secrets {
    Given,
    None,
}

/// The time limit of a check that names none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// The exit code of a check that hit its time limit.
pub const TIMED_OUT: u8 = 124;

/// The most checks at once, unless the user's settings say otherwise.
const MOST_BY_DEFAULT: usize = 4;

// === impl CheckState ===

impl CheckState {
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Running,
        Self::Passed,
        Self::Failed,
        Self::Skipped,
        Self::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            CheckState::Queued => "queued",
            CheckState::Running => "running",
            CheckState::Passed => "passed",
            CheckState::Failed => "failed",
            CheckState::Skipped => "skipped",
            CheckState::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    pub fn has_ended(self) -> bool {
        !matches!(self, CheckState::Queued | CheckState::Running)
    }
}

/// How many checks run at once. A check has services and tests of its own, so by default every second core
/// runs one.
pub fn at_once(asked: Option<u64>, cores: usize) -> usize {
    match asked.and_then(|asked| usize::try_from(asked).ok()) {
        Some(asked) => asked.max(1),
        None => (cores / 2).clamp(1, MOST_BY_DEFAULT),
    }
}

/// Decides about one check: `changed` has the paths that differ from the starting commit, `key` identifies the
/// result that a run would have.
pub fn step(
    when: &[Pattern],
    changed: &[String],
    key: &str,
    earlier: Option<Earlier<'_>>,
    repeat: Repeat,
) -> Step {
    let is_concerned = |path: &String| when.iter().any(|pattern| pattern.matches(path));
    if !when.is_empty() && !changed.iter().any(is_concerned) {
        return Step::Skip;
    }
    let is_known = |earlier: Earlier<'_>| {
        earlier.key == key && matches!(earlier.state, CheckState::Passed | CheckState::Failed)
    };
    if repeat == Repeat::IfNeeded && earlier.is_some_and(is_known) {
        Step::Reuse
    } else {
        Step::Run
    }
}

/// Everything that a result depends on. `spec` is that of the fresh workspace of the tree.
pub fn ingredients<'a>(
    check: &'a Check,
    tree: &'a str,
    spec: &'a WorkspaceSpec,
    data: &'a BTreeMap<String, String>,
    secrets: Secrets,
) -> CheckIngredients<'a> {
    let volumes = spec.volumes.iter().map(|volume| {
        let seed = volume.seed.as_ref().map(|seed| seed.key.as_str());
        (volume.name.as_str(), seed)
    });
    CheckIngredients {
        tree,
        run: &check.run,
        timeout_ms: check.timeout_ms,
        copied: check.volumes.as_str(),
        layers: spec.tree_layers().map(|layer| layer.key).collect(),
        volumes: volumes.collect(),
        data,
        services: &spec.services,
        env: &spec.env,
        secrets,
    }
}

/// The state, exit code and reason of a check whose command has ended.
pub fn judge(end: &RunEnd) -> (CheckState, Option<u8>, Option<String>) {
    match end.how {
        RunEnding::Exited if end.code == 0 => (CheckState::Passed, Some(0), None),
        RunEnding::Exited => (CheckState::Failed, Some(end.code), None),
        RunEnding::TimedOut => {
            let reason = "it hit its time limit".to_owned();
            (CheckState::Failed, Some(TIMED_OUT), Some(reason))
        }
        RunEnding::NotStarted | RunEnding::Stopped | RunEnding::Died => {
            (CheckState::Failed, Some(end.code), end.reason())
        }
        RunEnding::Cancelled => (CheckState::Cancelled, None, end.reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        let texts = texts.iter();
        texts.map(|text| Pattern::parse(text).unwrap()).collect()
    }

    #[test]
    fn a_check_runs_when_a_path_concerns_it_and_no_result_fits() {
        let passed = Some(Earlier {
            key: "k",
            state: CheckState::Passed,
        });
        let with = |state| Some(Earlier { key: "k", state });
        let other = Some(Earlier {
            key: "other",
            state: CheckState::Passed,
        });
        let (always, needed) = (Repeat::Always, Repeat::IfNeeded);
        for (when, changed, earlier, repeat, expected) in [
            (&[][..], &["a"][..], None, needed, Step::Run),
            (&[], &[], None, needed, Step::Run),
            (&[], &["a"], passed, needed, Step::Reuse),
            (&[], &["a"], passed, always, Step::Run),
            (&[], &["a"], other, needed, Step::Run),
            (&[], &["a"], with(CheckState::Failed), needed, Step::Reuse),
            (&[], &["a"], with(CheckState::Cancelled), needed, Step::Run),
            (&[], &["a"], with(CheckState::Skipped), needed, Step::Run),
            (&[], &["a"], with(CheckState::Running), needed, Step::Run),
            (&["src/**"], &["docs/a"], None, needed, Step::Skip),
            (&["src/**"], &["docs/a"], passed, always, Step::Skip),
            (&["src/**"], &[], None, needed, Step::Skip),
            (&["src/**"], &["docs/a", "src/x/b"], None, needed, Step::Run),
            (&["lib", "src"], &["src/b"], passed, needed, Step::Reuse),
        ] {
            let changed: Vec<_> = changed.iter().map(|path| (*path).to_owned()).collect();
            let step = step(&patterns(when), &changed, "k", earlier, repeat);
            assert_eq!(step, expected, "{when:?} {changed:?} {earlier:?}");
        }
    }

    #[test]
    fn the_limit_is_small_and_never_nothing() {
        for (asked, cores, expected) in [
            (None, 1, 1),
            (None, 2, 1),
            (None, 6, 3),
            (None, 64, 4),
            (Some(7), 2, 7),
            (Some(0), 2, 1),
        ] {
            assert_eq!(at_once(asked, cores), expected, "{asked:?} {cores}");
        }
    }

    #[test]
    fn states_are_words_and_a_time_out_has_its_code() {
        for state in CheckState::ALL {
            assert_eq!(CheckState::parse(state.as_str()), Some(state));
        }
        assert_eq!(CheckState::parse("lost"), None);
        let end = |how, code| RunEnd {
            at_ms: 0,
            code,
            how,
            cause: None,
        };
        for (how, code, expected) in [
            (RunEnding::Exited, 0, (CheckState::Passed, Some(0))),
            (RunEnding::Exited, 3, (CheckState::Failed, Some(3))),
            (RunEnding::TimedOut, 143, (CheckState::Failed, Some(124))),
            (RunEnding::Cancelled, 130, (CheckState::Cancelled, None)),
            (RunEnding::Died, 137, (CheckState::Failed, Some(137))),
        ] {
            let (state, code, _) = judge(&end(how, code));
            assert_eq!((state, code), expected, "{how:?}");
        }
    }
}
