//! Decides what may be deleted to free disk space, and when space is short. The engine and its
//! driver carry it out.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;
use utoipa::ToSchema;

/// Whether unsaved work prevents a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    RefuseUnsaved,
    Force,
}

/// How much to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Expired trash and unused data.
    Expired,
    /// All trash, and every unused base.
    All,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BaseKey {
    pub project: String,
    /// `None`: of a repository without a commit.
    pub commit: Option<String>,
}

/// One item that garbage collection deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// workspace base layer project leftover image
    pub kind: String,
    /// An id, a commit, a key or a path.
    pub name: String,
    #[schema(required)]
    pub label: Option<String>,
    pub bytes: u64,
}

/// Whether an entry of the trash may be deleted. Times are since the epoch; a clock that went back
/// deletes nothing early.
pub fn may_go(now: Duration, removed_at: Duration, keep_for: Duration, extent: Extent) -> bool {
    match extent {
        Extent::All => true,
        Extent::Expired => now.saturating_sub(removed_at) >= keep_for,
    }
}

/// Data that is built once and shared by workspaces.
pub trait Shared: Clone + Eq + Hash {
    /// Whether only the newer of the two is kept when both are unused.
    fn is_rival(&self, other: &Self) -> bool;

    /// Breaks a tie in age.
    fn name(&self) -> &str;
}

/// The bases that may be deleted: those that no workspace uses, live or in the trash. The newest
/// one of each project stays, so that the next `up` is quick, unless `extent` is `All`.
pub fn unused_bases(
    built: &[(BaseKey, Duration)],
    used: &HashSet<BaseKey>,
    extent: Extent,
) -> Vec<BaseKey> {
    unused(built, used, extent)
}

/// Unused data, except the newest among rivals unless `extent` is `All`.
pub fn unused<K: Shared>(built: &[(K, Duration)], used: &HashSet<K>, extent: Extent) -> Vec<K> {
    let is_latest = |(key, at): &(K, Duration)| {
        let mut others = built.iter().filter(|(other, _)| other.is_rival(key));
        others.all(|(other, other_at)| (other_at, other.name()) <= (at, key.name()))
    };
    built
        .iter()
        .filter(|(key, _)| !used.contains(key))
        .filter(|shared| extent == Extent::All || !is_latest(shared))
        .map(|(key, _)| key.clone())
        .collect()
}

// === impl BaseKey ===

impl Shared for BaseKey {
    fn is_rival(&self, other: &Self) -> bool {
        self.project == other.project
    }

    fn name(&self) -> &str {
        self.commit.as_deref().unwrap_or("")
    }
}

/// Whether a file system has so little free space that users should be warned.
pub fn is_short(free: u64, total: u64) -> bool {
    free < (total / 20).max(LEAST_FREE)
}

const LEAST_FREE: u64 = 2 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn entries_go_when_their_time_is_over() {
        let check = |now: u32, removed: u32, keep: u32, expect: bool| {
            let found = may_go(DAY * now, DAY * removed, DAY * keep, Extent::Expired);
            assert_eq!(found, expect, "{now} {removed} {keep}");
            assert!(may_go(DAY * now, DAY * removed, DAY * keep, Extent::All));
        };
        check(17, 10, 7, true);
        check(16, 10, 7, false);
        check(10, 10, 0, true);
        check(3, 10, 7, false);
    }

    #[test]
    fn bases_in_use_stay_and_so_does_the_latest_of_each_project() {
        let key = |project: &str, commit: &str| BaseKey {
            project: project.to_owned(),
            commit: (commit != "-").then(|| commit.to_owned()),
        };
        let built = [
            (key("a", "1"), DAY),
            (key("a", "2"), DAY * 2),
            (key("a", "3"), DAY * 3),
            (key("b", "1"), DAY),
            (key("b", "-"), DAY),
            (key("c", "9"), DAY),
        ];
        let used = HashSet::from([key("a", "1"), key("c", "9")]);
        assert_eq!(
            unused_bases(&built, &used, Extent::Expired),
            [key("a", "2"), key("b", "-")]
        );
        assert_eq!(
            unused_bases(&built, &used, Extent::All),
            [key("a", "2"), key("a", "3"), key("b", "1"), key("b", "-")]
        );
    }

    #[test]
    fn room_is_short_below_a_twentieth_or_two_gibibytes() {
        const GIB: u64 = 1 << 30;
        assert!(is_short(GIB, 10 * GIB));
        assert!(!is_short(2 * GIB, 10 * GIB));
        assert!(is_short(4 * GIB, 100 * GIB));
        assert!(!is_short(5 * GIB, 100 * GIB));
    }
}
