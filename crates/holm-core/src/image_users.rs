//! `/etc/passwd` and `/etc/group` of an image whose programs all run as one user.
//!
//! A workspace has one uid and one gid. Every name of the image gets them: then `getpwuid` finds the user that the
//! image wants to run as, and a script that gives files to `postgres` or `www-data` succeeds without an effect. The
//! image's files are hostile input; what becomes of them is read only by programs of the same image.

/// The only ids that exist inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    pub user: u32,
    pub group: u32,
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

/// `wanted` is the `User` of the image's config: a name or number, and perhaps a group after a colon.
pub fn with_one_user(wanted: Option<&str>, files: UserFiles<'_>, ids: Ids) -> ImageUsers {
    let (user, group) = match wanted.map(|text| text.split_once(':').unwrap_or((text, ""))) {
        Some((user, group)) if !user.is_empty() => (user, group),
        _ => (ROOT, ""),
    };
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
        let Ids { user, group } = ids;
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

    const IDS: Ids = Ids {
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
