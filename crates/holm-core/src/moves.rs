//! Decides how services react when a live workspace moves to another commit, and whether `setup`
//! runs again. The input is the list of changed paths; the engine computes it and carries the
//! decision out.

use crate::config::{OnAssign, Pattern, Word};
use crate::layer;

/// How a service reacts to changed files, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reaction {
    /// It keeps running, by its strategy or because nothing changed.
    None,
    /// It keeps running and sees the changed files by itself.
    Hot,
    Restart,
    /// It is built, and restarted if the build succeeds.
    Rebuild,
}

/// The settings of one service in `holm.toml`.
#[derive(Clone, Copy, Debug)]
pub struct Strategy<'a> {
    pub on_assign: OnAssign,
    pub build: Option<&'a str>,
    /// Empty: every change rebuilds.
    pub rebuild_when: &'a [Pattern],
}

/// Whether the move runs `setup` in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetUp {
    Again,
    NotNeeded,
}

/// The reaction of a service with this strategy to these changed paths.
pub fn reaction(strategy: Strategy<'_>, changed: &[String], set_up: SetUp) -> Reaction {
    let has_changed = !changed.is_empty() || set_up == SetUp::Again;
    match strategy.on_assign {
        _ if !has_changed => Reaction::None,
        OnAssign::None => Reaction::None,
        OnAssign::Hot => Reaction::Hot,
        OnAssign::Restart => Reaction::Restart,
        OnAssign::Rebuild => {
            let when = strategy.rebuild_when;
            let is_relevant = |path: &String| when.iter().any(|pattern| pattern.matches(path));
            let is_stale = when.is_empty() || changed.iter().any(is_relevant);
            match (strategy.build, is_stale) {
                (Some(_), true) => Reaction::Rebuild,
                (None, _) | (_, false) => Reaction::Restart,
            }
        }
    }
}

/// Whether a changed path is an input of `setup`. `.gitignore` files do not count here: they decide
/// which layers can be shared, while this setup runs in the workspace's own files.
pub fn set_up(changed: &[String], inputs: Option<&[Pattern]>) -> SetUp {
    if changed
        .iter()
        .any(|path| layer::is_named_input(path, inputs))
    {
        SetUp::Again
    } else {
        SetUp::NotNeeded
    }
}

// === impl Reaction ===

impl Reaction {
    pub fn as_str(self) -> &'static str {
        match self {
            Reaction::None => "none",
            Reaction::Hot => "hot",
            Reaction::Restart => "restart",
            Reaction::Rebuild => "rebuild",
        }
    }
}

impl Word for Reaction {
    const ALL: &'static [(&'static str, Self)] = &[
        ("none", Reaction::None),
        ("hot", Reaction::Hot),
        ("restart", Reaction::Restart),
        ("rebuild", Reaction::Rebuild),
    ];

    fn word(self) -> &'static str {
        self.as_str()
    }
}
