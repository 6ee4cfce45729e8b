//! How much of the disk things take. Descends by descriptor without following links, changes no
//! mode, and goes past what it may not read.

use super::disk::{DiskUsage, RepositoryUsage, WorkspaceUsage};
use super::disk_fault;
use super::reap::{entries, name};
use super::remove::BLOCK;
use crate::Layout;
use holm_core::trash::BaseKey;
use holm_core::{Fault, ProjectId, WorkspaceId};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat, statvfs};
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// Adds up trees; a file with several names counts the first time only.
#[derive(Default)]
struct Meter {
    seen: HashSet<(u64, u64)>,
    unread: u64,
}

/// The size of one tree.
#[derive(Clone, Copy, Default)]
struct Measured {
    bytes: u64,
    /// Of it, in files that have further names.
    linked: u64,
}

pub fn everything(layout: &Layout) -> Result<DiskUsage, Fault> {
    let mut meter = Meter::default();
    let (free, size) = room(layout)?;
    let mut usage = DiskUsage {
        trash: trash_by(&mut meter, layout)?,
        free,
        size,
        ..DiskUsage::default()
    };
    for entry in entries(&layout.data_dir)? {
        match name(&entry).as_str() {
            "workspaces" => workspaces(&mut meter, &entry.path(), &mut usage)?,
            "projects" => projects(&mut meter, &entry.path(), &mut usage)?,
            "program" => usage.programs += meter.tree(&entry.path()).bytes,
            "reap" | "incoming" => usage.leftovers += meter.tree(&entry.path()).bytes,
            "trash" => {}
            trial if trial.starts_with("trial-") => {
                usage.leftovers += meter.tree(&entry.path()).bytes;
            }
            _ => usage.other += meter.tree(&entry.path()).bytes,
        }
    }
    usage.unread = meter.unread;
    Ok(usage)
}

pub fn trash(layout: &Layout) -> Result<HashMap<WorkspaceId, u64>, Fault> {
    trash_by(&mut Meter::default(), layout)
}

/// Free bytes for us, and all bytes, of the data directory's file system.
pub fn room(layout: &Layout) -> Result<(u64, u64), Fault> {
    let found = statvfs(&layout.data_dir).map_err(|error| {
        let message = format!("cannot look at the disk of {}", layout.data_dir.display());
        disk_fault(&error.into(), message)
    })?;
    Ok((
        found.f_bavail * found.f_frsize,
        found.f_blocks * found.f_frsize,
    ))
}

fn trash_by(meter: &mut Meter, layout: &Layout) -> Result<HashMap<WorkspaceId, u64>, Fault> {
    let mut found = HashMap::new();
    for entry in entries(&layout.data_dir.join("trash"))? {
        if let Ok(id) = WorkspaceId::parse(&name(&entry)) {
            found.insert(id, meter.tree(&entry.path()).bytes);
        }
    }
    Ok(found)
}

fn workspaces(meter: &mut Meter, path: &Path, usage: &mut DiskUsage) -> Result<(), Fault> {
    for entry in entries(path)? {
        let Ok(id) = WorkspaceId::parse(&name(&entry)) else {
            usage.other += meter.tree(&entry.path()).bytes;
            continue;
        };
        let mut workspace = WorkspaceUsage::default();
        for part in entries(&entry.path())? {
            let bytes = meter.tree(&part.path()).bytes;
            match name(&part).as_str() {
                "upper" => workspace.upper += bytes,
                "home" => workspace.home += bytes,
                "tmp" => workspace.tmp += bytes,
                _ => workspace.other += bytes,
            }
        }
        usage.workspaces.insert(id, workspace);
    }
    Ok(())
}

fn projects(meter: &mut Meter, path: &Path, usage: &mut DiskUsage) -> Result<(), Fault> {
    for entry in entries(path)? {
        let Ok(project) = ProjectId::parse(&name(&entry)) else {
            usage.leftovers += meter.tree(&entry.path()).bytes;
            continue;
        };
        for base in entries(&entry.path().join("bases"))? {
            let (commit, measured) = (name(&base), meter.tree(&base.path()));
            if commit.starts_with('.') {
                usage.leftovers += measured.bytes;
                continue;
            }
            let key = BaseKey {
                project: project.to_string(),
                commit: (commit != "empty").then_some(commit),
            };
            usage.bases.push((key, measured.bytes));
        }
        let measured = meter.tree(&entry.path().join("repo.git"));
        let repository = RepositoryUsage {
            bytes: measured.bytes,
            shared: measured.linked,
        };
        usage.repositories.push((project, repository));
    }
    Ok(())
}

// === impl Meter ===

impl Meter {
    /// What a path takes, with everything below it on the same file system.
    fn tree(&mut self, path: &Path) -> Measured {
        let mut measured = Measured::default();
        let Ok(top) = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else {
            return measured;
        };
        self.add(&top, &mut measured);
        if FileType::from_raw_mode(top.st_mode) != FileType::Directory {
            return measured;
        }
        let Ok(top_name) = CString::new(path.as_os_str().as_bytes()) else {
            return measured;
        };
        // A parent stays open only while children of it wait.
        let mut waiting: Vec<(Option<Rc<OwnedFd>>, CString)> = vec![(None, top_name)];
        while let Some((parent, name)) = waiting.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let at = parent.as_ref().map_or(CWD, |parent| parent.as_fd());
            let Ok(directory) = openat(at, &name, flags, Mode::empty()) else {
                self.unread += 1;
                continue;
            };
            let directory = Rc::new(directory);
            for child in self.directory(&directory, top.st_dev, &mut measured) {
                waiting.push((Some(Rc::clone(&directory)), child));
            }
        }
        measured
    }

    /// Adds what is in a directory; returns the directories in it.
    fn directory(
        &mut self,
        directory: &OwnedFd,
        device: u64,
        measured: &mut Measured,
    ) -> Vec<CString> {
        let mut inner = Vec::new();
        let Ok(entries) = Dir::read_from(directory) else {
            self.unread += 1;
            return inner;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // What is gone meanwhile takes nothing.
            let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if stat.st_dev != device {
                continue;
            }
            self.add(&stat, measured);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                inner.push(name.to_owned());
            }
        }
        inner
    }

    fn add(&mut self, stat: &Stat, measured: &mut Measured) {
        let bytes = stat.st_blocks.cast_unsigned() * BLOCK;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if stat.st_nlink > 1 && !is_directory {
            if !self.seen.insert((stat.st_dev, stat.st_ino)) {
                return;
            }
            measured.linked += bytes;
        }
        measured.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_count_once_and_holes_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        fs::write(one.join("file"), vec![1; 1 << 20]).unwrap();
        fs::File::open(one.join("file"))
            .unwrap()
            .sync_all()
            .unwrap();
        fs::hard_link(one.join("file"), two.join("file")).unwrap();
        fs::File::create(two.join("hole"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        symlink("/usr", two.join("out")).unwrap();
        let mut meter = Meter::default();
        let first = meter.tree(&one);
        assert!(first.bytes >= 1 << 20 && first.linked >= 1 << 20);
        assert!(meter.tree(&two).bytes < 1 << 20);
        assert!(Meter::default().tree(&two).bytes >= 1 << 20);
    }

    #[test]
    fn closed_directories_are_passed_by_and_stay_closed() {
        let place = tempfile::tempdir().unwrap();
        let closed = place.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let mut meter = Meter::default();
        meter.tree(place.path());
        let mode = fs::metadata(&closed).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0);
        if !rustix::process::geteuid().is_root() {
            assert_eq!(meter.unread, 1);
        }
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
