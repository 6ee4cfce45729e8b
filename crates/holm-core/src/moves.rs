//! A live workspace moves to another commit: what each service does about it, and whether `setup` has
//! to run again. Decided from the paths that differ; the engine finds these and carries it out.

use crate::config::{OnAssign, Pattern, Word};
use crate::layer;

/// What a service does when the files under it changed, the mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reaction {
    /// Nothing, by its strategy or because nothing changed.
    None,
    /// Nothing either: it sees the changed files by itself.
    Hot,
    Restart,
    /// Runs its build command first; only if that succeeds it is restarted.
    Rebuild,
}

/// What `holm.toml` says of one service.
#[derive(Clone, Copy, Debug)]
pub struct Strategy<'a> {
    pub on_assign: OnAssign,
    pub build: Option<&'a str>,
    /// Empty: every change rebuilds.
    pub rebuild_when: &'a [Pattern],
}

/// Whether `setup` runs in place because of the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetUp {
    Again,
    NotNeeded,
}

/// What a service with this strategy does when these paths of the tree changed.
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

/// Whether one of the changed paths is an input of `setup`. What git ignores is not asked here: that
/// decides which layers can be shared, and here the set-up runs in the workspace's own files.
pub fn set_up(changed: &[String], inputs: Option<&[Pattern]>) -> SetUp {
    match changed
        .iter()
        .any(|path| layer::is_named_input(path, inputs))
    {
        true => SetUp::Again,
        false => SetUp::NotNeeded,
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
