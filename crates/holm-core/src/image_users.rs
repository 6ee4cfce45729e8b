//! `/etc/passwd` and `/etc/group` of an image.
//!
//! With ranges of ids ([`crate::sub_ids`]) its users are what these files say, and [`find`] looks up the one that a service
//! starts as. Without, a workspace has one uid and one gid. Every name of the image gets them: then `getpwuid` finds the user that the
//! image wants to run as, and a script that gives files to `postgres` or `www-data` succeeds without an effect. The
//! image's files are hostile input; what becomes of them is read only by programs of the same image.

use crate::sub_ids::{OwnIds, SubIds};
use serde::{Deserialize, Serialize};

/// A user of an image, as its programs see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    pub user: u32,
    pub group: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
    /// `$HOME`.
    pub home: String,
}

/// Why a service cannot start as its user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUser {
    #[error("the image has no user `{0}`")]
    User(String),
    #[error("the image has no group `{0}`")]
    Group(String),
    #[error(
        "the id {0} is outside of the range that this machine gives to you; `holm doctor` shows it"
    )]
    Outside(u32),
}

/// The image's own files. A missing file is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserFiles<'a> {
    pub passwd: &'a str,
    pub group: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUsers {
    pub passwd: String,
    pub group: String,
    /// `$HOME` of the image's user.
    pub home: String,
}

const ROOT: &str = "root";
const UNNAMED: &str = "holm";

/// User and group of the `User` of an image's config: names or numbers. The group may be empty.
fn split(wanted: Option<&str>) -> (&str, &str) {
    match wanted.map(|text| text.split_once(':').unwrap_or((text, ""))) {
        Some((user, group)) if !user.is_empty() => (user, group),
        _ => (ROOT, ""),
    }
}

/// Whether a service with this `User` starts as root.
pub fn is_root(wanted: Option<&str>) -> bool {
    matches!(split(wanted).0, ROOT | "0")
}

/// The user that a service with this `User` starts as, with `more` groups, by names or numbers.
pub fn find(
    wanted: Option<&str>,
    more: &[String],
    files: UserFiles<'_>,
    ranges: &SubIds,
) -> Result<User, NoUser> {
    let (user, group) = split(wanted);
    let users = entries::<7>(files.passwd);
    let known = users.iter().find(|fields| is(user, fields[0], fields[2]));
    let number = match known {
        Some(fields) => fields[2].parse().ok(),
        None if user == ROOT => Some(0),
        None => user.parse().ok(),
    };
    let number: u32 = number.ok_or_else(|| NoUser::User(user.to_owned()))?;
    let groups = entries::<4>(files.group);
    let group_id = |name: &str| {
        let known = groups.iter().find(|fields| is(name, fields[0], fields[2]));
        let number = known.map_or(name, |fields| fields[2]).parse();
        let number: u32 = number.map_err(|_| NoUser::Group(name.to_owned()))?;
        let outside = ranges.groups.outside(number, 0);
        outside.map(|_| number).ok_or(NoUser::Outside(number))
    };
    let own = match (group, known) {
        ("", Some(fields)) => group_id(fields[3])?,
        ("", None) => 0,
        (named, _) => group_id(named)?,
    };
    // A group after the colon replaces the groups that the user is a member of.
    let name = known.filter(|_| group.is_empty()).map(|fields| fields[0]);
    let is_member = |fields: &&[&str; 4]| {
        let mut members = fields[3].split(',');
        name.is_some_and(|name| members.any(|member| member == name))
    };
    let member_of = groups.iter().filter(is_member).map(|fields| fields[2]);
    let mut all = member_of.chain(more.iter().map(String::as_str));
    ranges
        .users
        .outside(number, 0)
        .ok_or(NoUser::Outside(number))?;
    Ok(User {
        user: number,
        group: own,
        groups: all.try_fold(Vec::new(), |mut all, group| {
            all.push(group_id(group)?);
            Ok(all)
        })?,
        home: match known.map(|fields| fields[5]) {
            Some(home) if !home.is_empty() => home.to_owned(),
            None if number == 0 => "/root".to_owned(),
            _ => "/".to_owned(),
        },
    })
}

/// The lists in which every name is the one user; the first is that of the image's `User`.
pub fn with_one_user(wanted: Option<&str>, files: UserFiles<'_>, ids: OwnIds) -> ImageUsers {
    let (user, group) = split(wanted);
    let users = entries::<7>(files.passwd);
    let found = users.iter().find(|fields| is(user, fields[0], fields[2]));
    let made;
    let first = match found {
        Some(fields) => fields,
        None => {
            made = made_up(user);
            &made
        }
    };
    let group = if group.is_empty() { first[3] } else { group };
    let line = |fields: &[&str; 7]| {
        let [name, _, _, _, about, home, shell] = fields;
        let OwnIds { user, group } = ids;
        format!("{name}:x:{user}:{group}:{about}:{home}:{shell}\n")
    };
    let others = users.iter().filter(|fields| fields[0] != first[0]);
    let groups = entries::<4>(files.group);
    let named = groups.iter().find(|fields| is(group, fields[0], fields[2]));
    let own = named.map_or(first[0], |fields| fields[0]);
    let members = named.map_or("", |fields| fields[3]);
    let group_line =
        |name: &str, members: &str| format!("{name}:x:{number}:{members}\n", number = ids.group);
    let other_groups = groups.iter().filter(|fields| fields[0] != own);
    ImageUsers {
        passwd: line(first) + &others.map(line).collect::<String>(),
        group: group_line(own, members)
            + &other_groups
                .map(|fields| group_line(fields[0], fields[3]))
                .collect::<String>(),
        home: match first[5] {
            "" => "/".to_owned(),
            home => home.to_owned(),
        },
    }
}

/// Lines with exactly `N` fields and a name.
fn entries<const N: usize>(text: &str) -> Vec<[&str; N]> {
    let lines = text.lines();
    let split = lines.filter_map(|line| line.split(':').collect::<Vec<_>>().try_into().ok());
    split
        .filter(|fields: &[&str; N]| !fields[0].is_empty())
        .collect()
}

/// Whether an entry is the one that a config names, by name or by number.
fn is(wanted: &str, name: &str, number: &str) -> bool {
    wanted == name || wanted == number
}

/// An image may want a user that its files do not have.
fn made_up(user: &str) -> [&str; 7] {
    let is_number = user.bytes().all(|byte| byte.is_ascii_digit());
    let (name, home) = match user {
        ROOT | "0" => (ROOT, "/root"),
        _ if is_number => (UNNAMED, "/"),
        name => (name, "/"),
    };
    [name, "x", "", "", "", home, "/bin/sh"]
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: OwnIds = OwnIds {
        user: 1000,
        group: 100,
    };
    const FILES: UserFiles<'_> = UserFiles {
        passwd: "root:x:0:0:root:/root:/bin/bash\nnobody\npostgres:x:999:998:PG,,,:/var/lib/pg:/bin/sh\n:x:1:1::/:\n",
        group: "root:x:0:\npostgres:x:998:\nssl:x:101:postgres\n",
    };

    #[test]
    fn the_wanted_user_comes_first_and_every_name_has_the_same_ids() {
        let check = |wanted: Option<&str>, first: &str, group: &str, home: &str| {
            let users = with_one_user(wanted, FILES, IDS);
            assert_eq!(users.passwd.lines().next(), Some(first), "{wanted:?}");
            assert_eq!(users.group.lines().next(), Some(group), "{wanted:?}");
            assert_eq!(users.home, home, "{wanted:?}");
            for line in users.passwd.lines() {
                assert_eq!(line.split(':').nth(2), Some("1000"), "{line}");
                assert_eq!(line.split(':').nth(3), Some("100"), "{line}");
            }
            for line in users.group.lines() {
                assert_eq!(line.split(':').nth(2), Some("100"), "{line}");
            }
        };
        let root = "root:x:1000:100:root:/root:/bin/bash";
        let postgres = "postgres:x:1000:100:PG,,,:/var/lib/pg:/bin/sh";
        check(None, root, "root:x:100:", "/root");
        check(Some("0"), root, "root:x:100:", "/root");
        check(Some("postgres"), postgres, "postgres:x:100:", "/var/lib/pg");
        check(
            Some("999:ssl"),
            postgres,
            "ssl:x:100:postgres",
            "/var/lib/pg",
        );
        check(
            Some("1001"),
            "holm:x:1000:100::/:/bin/sh",
            "holm:x:100:",
            "/",
        );
        check(
            Some("node"),
            "node:x:1000:100::/:/bin/sh",
            "node:x:100:",
            "/",
        );
    }

    #[test]
    fn the_user_of_a_service_is_the_one_that_the_image_says() {
        let range = crate::sub_ids::IdRange {
            first: 100_000,
            count: 2000,
        };
        let ranges = SubIds {
            users: range,
            groups: range,
        };
        let find = |wanted: &str, more: &[&str]| {
            let more: Vec<String> = more.iter().map(|&text| text.to_owned()).collect();
            let found = super::find(Some(wanted), &more, FILES, &ranges);
            found.map(|user| (user.user, user.group, user.groups, user.home))
        };
        let found = |user, group, groups: &[u32], home: &str| {
            Ok((user, group, groups.to_vec(), home.to_owned()))
        };
        assert_eq!(find("", &[]), found(0, 0, &[], "/root"));
        assert_eq!(
            find("postgres", &[]),
            found(999, 998, &[101], "/var/lib/pg")
        );
        assert_eq!(
            find("999:ssl", &["7"]),
            found(999, 101, &[7], "/var/lib/pg")
        );
        assert_eq!(find("1000:1000", &["ssl"]), found(1000, 1000, &[101], "/"));
        assert_eq!(find("1000", &[]), found(1000, 0, &[], "/"));
        assert_eq!(find("node", &[]), Err(NoUser::User("node".to_owned())));
        assert_eq!(find("-1", &[]), Err(NoUser::User("-1".to_owned())));
        assert_eq!(find("0:x", &[]), Err(NoUser::Group("x".to_owned())));
        assert_eq!(find("2001", &[]), Err(NoUser::Outside(2001)));
        assert_eq!(find("1:9999", &[]), Err(NoUser::Outside(9999)));
        let empty = super::find(None, &[], UserFiles::default(), &ranges).unwrap();
        assert_eq!((empty.user, empty.home.as_str()), (0, "/root"));
        assert!(is_root(None) && is_root(Some("0:5")) && is_root(Some(":")) && !is_root(Some("1")));
    }

    #[test]
    fn an_image_without_users_and_nonsense_get_a_user() {
        let users = with_one_user(None, UserFiles::default(), IDS);
        assert_eq!(users.passwd, "root:x:1000:100::/root:/bin/sh\n");
        assert_eq!(users.group, "root:x:100:\n");
        let nonsense = UserFiles {
            passwd: "\0\n::::::\na:b:c\n",
            group: ":::",
        };
        let users = with_one_user(Some(":"), nonsense, IDS);
        assert_eq!(users.passwd.lines().count(), 1);
        assert_eq!(users.home, "/root");
    }
}
