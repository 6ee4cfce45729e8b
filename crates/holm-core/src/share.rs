//! The share of one workspace in resources that the kernel counts per user.
//!
//! Workspaces run as the user, so the kernel counts inotify instances, pending signals and the like
//! together for all workspaces, for holm and for the user's own programs. The launcher and `holm
//! doctor` call this.

/// Enough for programs that take as many open files as they can get (databases, search engines).
const MOST_OPEN_FILES: u64 = 65_536;

/// The share of one workspace; never zero.
pub fn of_one(most: u64) -> u64 {
    (most / 4).max(1)
}

/// The share of all workspaces together, where the kernel can enforce such a limit.
pub fn of_all(most: u64) -> u64 {
    most / 2
}

/// The hard limit of open files inside, given the host's. The kernel lets a program send a
/// descriptor unless the user has more in flight than the sender's own limit of open files. So this
/// bounds what all workspaces together can have in flight, and stays well below holm's own limit.
pub fn open_files(hard: u64) -> u64 {
    of_all(hard).min(MOST_OPEN_FILES)
}

/// The terminals of one workspace. The kernel keeps `reserved` of the machine's for the host
/// itself.
pub fn terminals(most: u64, reserved: u64) -> u64 {
    of_one(most.saturating_sub(reserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_gets_a_quarter_and_all_get_half() {
        assert_eq!((of_one(128), of_all(128)), (32, 64));
        assert_eq!(terminals(4096, 1024), 768);
        assert_eq!(terminals(100, 1024), 1);
        for (hard, expect) in [(1024, 512), (20_000, 10_000), (1 << 20, 65_536)] {
            assert_eq!(open_files(hard), expect);
            assert!(open_files(hard) <= of_all(hard));
        }
    }
}
