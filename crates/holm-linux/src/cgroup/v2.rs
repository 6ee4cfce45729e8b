//! cgroup v2: one hierarchy, of which systemd or root delegates a part. A group with limited
//! children must not have processes itself, so the daemon lives in a leaf (`daemon`) beside its
//! workspaces.

use super::kernel::{Membership, Mount, directory, unified};
use super::{
    Controller, GroupParents, PARENT, Version, hand_over, is_writable, make_directory, words,
};
use std::fs;
use std::path::{Path, PathBuf};

/// The leaf of the daemon and its keepers.
const LEAF: &str = "daemon";

/// The controllers that limits need.
const NEEDED: [Controller; 3] = [Controller::Memory, Controller::Cpu, Controller::Pids];

/// Keeps this process in the daemon's leaf, so that the daemon is started there; dropping it moves
/// the process back.
pub struct Stay {
    back: PathBuf,
}

pub fn find(mounts: &[Mount], memberships: &[Membership]) -> Result<GroupParents, String> {
    let own = own_directory(mounts, memberships)?;
    let others = words(&own.join("cgroup.procs"));
    settle(&own, &others, std::process::id())
}

/// Prepares a place below `own`, the group of process `pid`, which has `members`.
fn settle(own: &Path, members: &[String], pid: u32) -> Result<GroupParents, String> {
    let above = own.parent().filter(|parent| is_writable(parent));
    let base = match (own.file_name().is_some_and(|name| name == LEAF), above) {
        (true, Some(above)) => above,
        _ => own,
    };
    let shown = base.display();
    if !is_writable(base) {
        return Err(format!("its control group ({shown}) is not the user's"));
    }
    let offered = words(&base.join("cgroup.controllers"));
    let usable: Vec<Controller> = NEEDED
        .into_iter()
        .filter(|controller| offered.iter().any(|name| name == controller.as_str()))
        .collect();
    if usable.is_empty() {
        return Err(format!(
            "its control group ({shown}) was given no controllers"
        ));
    }
    let failed = |error: std::io::Error| format!("{shown} cannot be used: {error}");
    if base == own {
        if members.iter().any(|member| *member != pid.to_string()) {
            return Err(format!(
                "its control group ({shown}) has other programs in it"
            ));
        }
        make_directory(&base.join(LEAF)).map_err(failed)?;
        let leaf = base.join(LEAF).join("cgroup.procs");
        fs::write(leaf, pid.to_string()).map_err(failed)?;
    }
    let parent = if base.file_name().is_some_and(|name| name == PARENT) {
        base.to_owned()
    } else {
        base.join(PARENT)
    };
    make_directory(&parent).map_err(failed)?;
    for group in [base, &parent] {
        enable(group, &usable).map_err(failed)?;
    }
    Ok(GroupParents {
        version: Version::V2,
        directories: usable
            .into_iter()
            .map(|controller| (controller, parent.clone()))
            .collect(),
    })
}

/// Gives `<mount>/holm` to the user, with a leaf for its daemon, and moves this process there.
pub fn prepare(
    mounts: &[Mount],
    memberships: &[Membership],
    owner: (u32, u32),
) -> Result<Stay, String> {
    let back = own_directory(mounts, memberships)?;
    let Some(mount) = unified(mounts) else {
        return Err("cgroup v2 is not mounted".to_owned());
    };
    let parent = mount.at.join(PARENT);
    let leaf = parent.join(LEAF);
    let failed = |error: std::io::Error| format!("{} cannot be made: {error}", parent.display());
    let offered = words(&mount.at.join("cgroup.controllers"));
    let usable: Vec<_> = NEEDED
        .into_iter()
        .filter(|controller| offered.iter().any(|name| name == controller.as_str()))
        .collect();
    enable(&mount.at, &usable).map_err(failed)?;
    for directory in [&parent, &leaf] {
        make_directory(directory).map_err(failed)?;
        let names = [
            "",
            "cgroup.procs",
            "cgroup.threads",
            "cgroup.subtree_control",
        ];
        hand_over(&names.map(|name| directory.join(name)), owner)?;
    }
    fs::write(leaf.join("cgroup.procs"), "0").map_err(failed)?;
    Ok(Stay { back })
}

fn own_directory(mounts: &[Mount], memberships: &[Membership]) -> Result<PathBuf, String> {
    let own = memberships
        .iter()
        .find(|membership| membership.controllers.is_empty());
    match (unified(mounts), own) {
        (Some(mount), Some(own)) => directory(mount, &own.path)
            .ok_or_else(|| "its own control group cannot be seen from here".to_owned()),
        _ => Err("cgroup v2 is not mounted".to_owned()),
    }
}

/// Enables controllers for the groups below, one at a time: an enabled controller may stay although
/// it could not be enabled now.
fn enable(group: &Path, controllers: &[Controller]) -> std::io::Result<()> {
    let file = group.join("cgroup.subtree_control");
    let on = words(&file);
    for controller in controllers {
        let name = controller.as_str();
        if !on.iter().any(|word| word == name) {
            fs::write(&file, format!("+{name}"))?;
        }
    }
    Ok(())
}

impl Drop for Stay {
    fn drop(&mut self) {
        // Staying in the daemon's leaf does no harm.
        let _ = fs::write(self.back.join("cgroup.procs"), "0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A directory with files like the kernel's.
    fn group(place: &TempDir, path: &str, controllers: &str) -> PathBuf {
        let directory = place.path().join(path);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("cgroup.controllers"), controllers).unwrap();
        fs::write(directory.join("cgroup.subtree_control"), "").unwrap();
        directory
    }

    #[test]
    fn a_unit_of_its_own_is_used_and_the_daemon_goes_to_a_leaf() {
        let place = tempfile::tempdir().unwrap();
        let unit = group(&place, "user@1000.service/holm.service", "cpu io pids\n");
        group(&place, "user@1000.service/holm.service/holm", "");
        let found = settle(&unit, &["7".to_owned()], 7).unwrap();
        let parent = unit.join("holm");
        let expect = [
            (Controller::Cpu, parent.clone()),
            (Controller::Pids, parent.clone()),
        ];
        assert_eq!(
            (found.version, found.directories.as_slice()),
            (Version::V2, &expect[..])
        );
        let leaf = unit.join("daemon/cgroup.procs");
        assert_eq!(fs::read_to_string(leaf).unwrap(), "7");
        for enabled in [&unit, &parent] {
            let text = fs::read_to_string(enabled.join("cgroup.subtree_control")).unwrap();
            assert_eq!(text, "+pids", "each is written by itself");
        }
    }

    #[test]
    fn a_leaf_that_was_prepared_is_stayed_in() {
        let place = tempfile::tempdir().unwrap();
        let parent = group(&place, "holm", "memory");
        let leaf = group(&place, "holm/daemon", "memory");
        let members = ["7", "8"].map(str::to_owned);
        let found = settle(&leaf, &members, 7).unwrap();
        assert_eq!(found.directories, [(Controller::Memory, parent.clone())]);
        assert!(!leaf.join("daemon").exists());
        let on = parent.join("cgroup.subtree_control");
        assert_eq!(fs::read_to_string(on).unwrap(), "+memory");
    }

    #[test]
    fn what_cannot_be_used_is_told_apart() {
        let place = tempfile::tempdir().unwrap();
        let refused = |own: &Path, members: &[&str]| {
            let members: Vec<_> = members.iter().map(|text| (*text).to_owned()).collect();
            settle(own, &members, 7).unwrap_err()
        };
        let bare = group(&place, "bare", "hugetlb");
        assert!(refused(&bare, &["7"]).contains("no controllers"));
        let shared = group(&place, "session.scope", "memory");
        assert!(refused(&shared, &["7", "8"]).contains("other programs"));
        let nowhere = place.path().join("nowhere");
        assert!(refused(&nowhere, &["7"]).contains("not the user's"));
    }
}
