//! cgroup v1: one hierarchy per controller. Only root can prepare a place in it; the user that root
//! gave it to can use it.

use super::kernel::{Mount, mount_of};
use super::{Controller, GroupParents, PARENT, Version, hand_over, is_writable, make_directory};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

pub fn find(mounts: &[Mount], uid: u32) -> Result<GroupParents, String> {
    let directories: Vec<_> = places(mounts)
        .filter(|(_, directory)| {
            let is_own = directory
                .metadata()
                .is_ok_and(|metadata| metadata.uid() == uid);
            is_own && is_writable(directory)
        })
        .collect();
    if directories.is_empty() {
        return Err("root has not prepared cgroup v1 for this user".to_owned());
    }
    Ok(GroupParents {
        version: Version::V1,
        directories,
    })
}

/// Creates one directory in each hierarchy, in which the user may create others and move processes.
/// The limit files still belong to root.
pub fn prepare(mounts: &[Mount], owner: (u32, u32)) -> Result<(), String> {
    for (_, directory) in places(mounts) {
        make_directory(&directory)
            .map_err(|error| format!("{} cannot be made: {error}", directory.display()))?;
        let handed = ["", "cgroup.procs", "tasks"].map(|name| directory.join(name));
        hand_over(&handed, owner)?;
    }
    Ok(())
}

fn places(mounts: &[Mount]) -> impl Iterator<Item = (Controller, PathBuf)> {
    Controller::ALL.into_iter().filter_map(|controller| {
        let mount = mount_of(mounts, controller)?;
        Some((controller, mount.at.join(PARENT)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_what_was_handed_over_to_this_user_is_used() {
        let place = tempfile::tempdir().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let mounts: Vec<Mount> = ["memory", "pids", "blkio"]
            .map(|name| Mount {
                version: Version::V1,
                controllers: vec!["rw".to_owned(), name.to_owned()],
                at: place.path().join(name),
                root: "/".into(),
            })
            .into();
        for mount in &mounts {
            fs::create_dir(&mount.at).unwrap();
        }
        assert!(find(&mounts, uid).unwrap_err().contains("not prepared"));
        // The kernel creates these files with the directory.
        for name in ["memory", "pids"] {
            let directory = place.path().join(name).join(PARENT);
            fs::create_dir(&directory).unwrap();
            for file in ["cgroup.procs", "tasks"] {
                fs::write(directory.join(file), "").unwrap();
            }
        }
        prepare(&mounts, (uid, gid)).unwrap();
        let found = find(&mounts, uid).unwrap();
        let expect = [
            (Controller::Memory, place.path().join("memory/holm")),
            (Controller::Pids, place.path().join("pids/holm")),
        ];
        assert_eq!(found.directories, expect);
        assert!(find(&mounts, uid + 1).is_err(), "somebody else's");
        assert!(!place.path().join("blkio/holm").exists());
    }
}
