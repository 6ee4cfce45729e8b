//! Subordinate ids: ranges of uids and gids that root gives to a user in `/etc/subuid` and `/etc/subgid`. Services of
//! images have several users with them.
//!
//! A workspace's user namespace maps the user and the ranges to themselves. The user namespace of a room maps the user
//! to root, and the ids from 1 on to the ranges.

use serde::{Deserialize, Serialize};

/// Consecutive ids of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdRange {
    pub first: u32,
    pub count: u32,
}

/// The ranges of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubIds {
    pub users: IdRange,
    pub groups: IdRange,
}

/// Enough for `nobody` (65534) of an image.
pub const WANTED: u32 = 65_536;

/// Fewer ids are not worth a range: the users that packages make have numbers up to 999.
const LEAST: u32 = 1_000;

/// The ids of one user on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnIds {
    pub user: u32,
    pub group: u32,
}

/// The first range of a user in the text of `/etc/subuid` or `/etc/subgid` that is large enough, by name or number.
pub fn find(text: &str, name: &str, number: u32) -> Option<IdRange> {
    let number = number.to_string();
    let ranges = text.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (user, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        if fields.next().is_some() || (user != name && user != number) {
            return None;
        }
        let (first, count) = (first.parse().ok()?, count.parse().ok()?);
        Some(IdRange { first, count })
    });
    let mut usable = ranges.filter(|range| range.count >= LEAST && range.is_whole());
    usable.next().map(|range| IdRange {
        count: range.count.min(WANTED),
        ..range
    })
}

// === impl IdRange ===

impl IdRange {
    /// Neither root's id nor the one that means "no change" is in it.
    fn is_whole(self) -> bool {
        let end = self.first.checked_add(self.count);
        self.first > 0 && end.is_some_and(|end| end < u32::MAX)
    }

    pub fn contains(self, id: u32) -> bool {
        id.checked_sub(self.first)
            .is_some_and(|offset| offset < self.count)
    }

    /// The id of the host that an id of a room stands for; `own` is that of the room's root.
    pub fn outside(self, inside: u32, own: u32) -> Option<u32> {
        match inside.checked_sub(1) {
            None => Some(own),
            Some(offset) => (offset < self.count).then(|| self.first + offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_name_and_number() {
        let text = "alice:100000:65536\nbob:1:2:3\n\n1001:300000:70000\ncarol:400000:10\ncarol:500000:2000\n";
        let check = |name: &str, number: u32, expected: Option<(u32, u32)>| {
            let expected = expected.map(|(first, count)| IdRange { first, count });
            assert_eq!(find(text, name, number), expected, "{name}");
        };
        check("alice", 7, Some((100_000, 65_536)));
        check("bob", 1001, Some((300_000, 65_536)));
        check("bob", 7, None);
        check("carol", 7, Some((500_000, 2000)));
        for hostile in [
            "x:0:65536",
            "x:4294967290:65536",
            "x:-1:65536",
            "x:1:4294967295",
            "x::",
            "x",
        ] {
            assert_eq!(find(hostile, "x", 7), None, "{hostile}");
        }
    }

    #[test]
    fn root_of_a_room_is_the_user_and_others_are_of_the_range() {
        let range = IdRange {
            first: 100_000,
            count: 1000,
        };
        let outside = |inside| range.outside(inside, 7);
        assert_eq!(outside(0), Some(7));
        assert_eq!(outside(1), Some(100_000));
        assert_eq!(outside(1000), Some(100_999));
        assert_eq!(outside(1001), None);
        assert_eq!(outside(u32::MAX), None);
        assert!(range.contains(100_999) && !range.contains(101_000) && !range.contains(7));
    }
}
