//! What may go to make room, and when room is short. Decided here as data; the engine and its driver
//! carry it out.

use std::collections::HashSet;
use std::time::Duration;

/// How much is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// What was in the trash for long enough, and what nothing needs.
    Expired,
    /// Everything in the trash, and every base that nothing uses.
    All,
}

/// One base on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BaseKey {
    pub project: String,
    /// `None`: of a repository without a commit.
    pub commit: Option<String>,
}

/// Whether an entry of the trash may go. Times are since the epoch; a clock that went back lets
/// nothing go early.
pub fn may_go(now: Duration, removed_at: Duration, keep_for: Duration, extent: Extent) -> bool {
    match extent {
        Extent::All => true,
        Extent::Expired => now.saturating_sub(removed_at) >= keep_for,
    }
}

/// The bases that may go: those that no workspace uses, live or in the trash. Of each project the
/// one that was built last stays, so that the next `up` is quick, unless all are to go.
pub fn unused_bases(
    built: &[(BaseKey, Duration)],
    used: &HashSet<BaseKey>,
    extent: Extent,
) -> Vec<BaseKey> {
    let is_latest = |(key, at): &(BaseKey, Duration)| {
        let mut others = built
            .iter()
            .filter(|(other, _)| other.project == key.project);
        others.all(|(other, other_at)| (other_at, &other.commit) <= (at, &key.commit))
    };
    built
        .iter()
        .filter(|(key, _)| !used.contains(key))
        .filter(|base| extent == Extent::All || !is_latest(base))
        .map(|(key, _)| key.clone())
        .collect()
}

/// Whether so little is free on a file system that it should be said.
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
