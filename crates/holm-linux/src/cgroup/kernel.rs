//! Parses the kernel's information about control groups: mounted hierarchies, and the groups of a
//! process.

use super::{Controller, Version};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub version: Version,
    /// For v1; v2 lists them in a file.
    pub controllers: Vec<String>,
    pub at: PathBuf,
    /// The group that is visible at `at`.
    pub root: PathBuf,
}

/// The group of a process in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Empty: v2.
    pub controllers: Vec<String>,
    pub path: PathBuf,
}

/// Parses `/proc/<pid>/mountinfo`. A later mount at the same place hides the earlier one.
pub fn mounts(mountinfo: &str) -> Vec<Mount> {
    let mut found: Vec<Mount> = Vec::new();
    for line in mountinfo.lines() {
        let Some((place, kind)) = line.split_once(" - ") else {
            continue;
        };
        let place: Vec<&str> = place.split(' ').collect();
        let kind: Vec<&str> = kind.split(' ').collect();
        let (Some(root), Some(at)) = (place.get(3), place.get(4)) else {
            continue;
        };
        let (root, at) = (unescaped(root), unescaped(at));
        found.retain(|mount| mount.at != at);
        let version = match kind.first() {
            Some(&"cgroup") => Version::V1,
            Some(&"cgroup2") => Version::V2,
            _ => continue,
        };
        let options = kind.get(2).copied().unwrap_or_default();
        let controllers = match version {
            Version::V1 => options.split(',').map(str::to_owned).collect(),
            Version::V2 => Vec::new(),
        };
        found.push(Mount {
            version,
            controllers,
            at,
            root,
        });
    }
    found
}

/// Parses `/proc/<pid>/cgroup`.
pub fn memberships(text: &str) -> Vec<Membership> {
    let parse = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let controllers = controllers.split(',').filter(|name| !name.is_empty());
        Some(Membership {
            controllers: controllers.map(str::to_owned).collect(),
            path: PathBuf::from(path),
        })
    };
    text.lines().filter_map(parse).collect()
}

/// The version that has the needed controllers. A machine may have both: controllers in v1 are
/// missing in v2.
pub fn version(mounts: &[Mount]) -> Option<Version> {
    let needed = [Controller::Memory, Controller::Cpu, Controller::Pids];
    let has_v1 = needed
        .iter()
        .any(|controller| mount_of(mounts, *controller).is_some());
    if has_v1 {
        return Some(Version::V1);
    }
    unified(mounts).map(|_| Version::V2)
}

/// The v1 hierarchy of a controller.
pub fn mount_of(mounts: &[Mount], controller: Controller) -> Option<&Mount> {
    mounts.iter().find(|mount| {
        let has = |name: &String| name == controller.as_str();
        mount.version == Version::V1 && mount.controllers.iter().any(has)
    })
}

/// The v2 hierarchy.
pub fn unified(mounts: &[Mount]) -> Option<&Mount> {
    mounts.iter().find(|mount| mount.version == Version::V2)
}

/// The directory of a group, if it is visible below the mount.
pub fn directory(mount: &Mount, group: &Path) -> Option<PathBuf> {
    let below = group.strip_prefix(&mount.root).ok()?;
    let is_plain = below
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    is_plain.then(|| mount.at.join(below))
}

/// Decodes octal escapes.
fn unescaped(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while let Some(byte) = bytes.get(position) {
        let number = bytes
            .get(position + 1..position + 4)
            .filter(|_| *byte == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(number.unwrap_or(*byte));
        position += if number.is_some() { 4 } else { 1 };
    }
    PathBuf::from(std::ffi::OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn v1_wins_where_it_has_the_controllers() {
        let found = mounts(HYBRID);
        assert_eq!(found.len(), 4);
        assert_eq!(version(&found), Some(Version::V1));
        let cpu = mount_of(&found, Controller::Cpu).unwrap();
        assert_eq!(cpu.at, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(mount_of(&found, Controller::Pids), None);
        let unified = unified(&found).unwrap();
        assert_eq!(unified.at, Path::new("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn v2_alone_and_nothing() {
        let found = mounts("25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
        assert_eq!(version(&found), Some(Version::V2));
        assert_eq!(version(&mounts("")), None);
        assert_eq!(version(&mounts("nonsense\n - \n1 2 - cgroup\n")), None);
        // The later mount is the visible one.
        let hidden = format!("{HYBRID}50 31 0:40 / /sys/fs/cgroup/memory rw - tmpfs tmpfs rw\n");
        assert_eq!(mount_of(&mounts(&hidden), Controller::Memory), None);
    }

    #[test]
    fn groups_of_a_process_and_their_directories() {
        let text = "4:memory:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/x:y\n0::/user.slice/u\n";
        let found = memberships(text);
        assert_eq!(found[0].path, Path::new("/a/b"));
        assert_eq!(found[1].controllers, ["cpu", "cpuacct"]);
        assert_eq!(found[2].path, Path::new("/x:y"));
        assert!(found[3].controllers.is_empty());

        let odd = "25 1 0:22 /docker/c /my\\040groups rw - cgroup2 cgroup2 rw\n";
        let mount = &mounts(odd)[0];
        assert_eq!(mount.at, Path::new("/my groups"));
        let at = |group: &str| directory(mount, Path::new(group));
        assert_eq!(at("/docker/c"), Some(PathBuf::from("/my groups")));
        assert_eq!(at("/docker/c/d"), Some(PathBuf::from("/my groups/d")));
        assert_eq!(at("/elsewhere"), None);
        assert_eq!(at("/docker/c/../../x"), None);
    }
}
