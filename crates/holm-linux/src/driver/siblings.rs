//! Trees of workspaces for their siblings (`isolation = "project"`). Called by the launch, and by
//! the server, which provides the trees.
//!
//! `projects/<id>/siblings/<workspace id>` is a plain copy of a tree as git recorded it, never a
//! writable layer. The directory above is mounted read-only in every such workspace, so replacing a
//! copy atomically is visible to all and needs no mount.

use super::{disk_fault, remove_tree};
use crate::Layout;
use holm_core::spec::{Siblings, WorkspaceSpec};
use holm_core::{Fault, ProjectId, WorkspaceId};
use holm_engine::storage::{Piece, SiblingTree};
use holm_keeper::directories::open_directory;
use holm_keeper::files::unpack::{GitDirectory, unpack_at};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// A larger tree is not shown: the program inside determines its size.
const LARGEST: u64 = 1 << 30;

/// The directory to mount in a workspace, if its project shows trees.
pub fn shown(
    layout: &Layout,
    project: &ProjectId,
    spec: &WorkspaceSpec,
) -> io::Result<Option<PathBuf>> {
    if spec.siblings == Siblings::Hidden {
        return Ok(None);
    }
    let directory = directory(layout, project);
    fs::create_dir_all(&directory)?;
    Ok(Some(directory))
}

fn directory(layout: &Layout, project: &ProjectId) -> PathBuf {
    layout.project(project).join("siblings")
}

/// Where copies are assembled and deleted, invisible inside.
fn workshop(layout: &Layout, project: &ProjectId) -> PathBuf {
    layout.project(project).join("siblings-making")
}

/// Shows what comes as an archive in place of what was shown of a workspace before.
pub fn show(layout: &Layout, tree: SiblingTree) -> Result<(), Fault> {
    let SiblingTree {
        project,
        workspace: id,
        archive,
    } = tree;
    let (place, workshop) = (directory(layout, &project), workshop(layout, &project));
    exchange(&place, &workshop, &id, archive)
        .map_err(|error| disk_fault(error, format!("cannot show the tree of {id}")))
}

/// Removes the trees of all other workspaces.
pub fn show_only(
    layout: &Layout,
    shown: &HashMap<ProjectId, HashSet<WorkspaceId>>,
) -> Result<(), Fault> {
    let projects = layout.data_dir.join("projects");
    let nothing = HashSet::new();
    for entry in fs::read_dir(&projects).into_iter().flatten().flatten() {
        let Ok(project) = ProjectId::parse(&entry.file_name().to_string_lossy()) else {
            continue;
        };
        let (place, workshop) = (directory(layout, &project), workshop(layout, &project));
        take_back(&place, &workshop, shown.get(&project).unwrap_or(&nothing))
            .map_err(|error| disk_fault(error, "cannot take a tree back".to_owned()))?;
    }
    Ok(())
}

fn exchange(
    place: &Path,
    workshop: &Path,
    id: &WorkspaceId,
    archive: mpsc::Receiver<Piece>,
) -> io::Result<()> {
    let making = workshop.join(id.as_str());
    remove_tree(&making)?;
    fs::create_dir_all(&making)?;
    fs::create_dir_all(place)?;
    let top = open_directory(&making)?;
    let mut archive = Arriving::new(archive);
    let unpacked = unpack_at(&mut archive, &top, GitDirectory::Refuse)
        // Data may follow the archive; it is complete only at the end of the stream.
        .and_then(|()| io::copy(&mut archive, &mut io::sink()).map(drop));
    drop(top);
    let shown = place.join(id.as_str());
    let put = || match renameat_with(CWD, &making, CWD, &shown, RenameFlags::EXCHANGE) {
        Err(Errno::NOENT) => fs::rename(&making, &shown),
        exchanged => Ok(exchanged?),
    };
    let put = unpacked.and_then(|()| put());
    // The earlier tree, or one that could not be unpacked.
    remove_tree(&making)?;
    put
}

fn take_back(place: &Path, workshop: &Path, shown: &HashSet<WorkspaceId>) -> io::Result<()> {
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let id = WorkspaceId::parse(&name.to_string_lossy());
        if id.is_ok_and(|id| shown.contains(&id)) {
            continue;
        }
        fs::create_dir_all(workshop)?;
        let away = workshop.join(&name);
        remove_tree(&away)?;
        fs::rename(entry.path(), &away)?;
        remove_tree(&away)?;
    }
    Ok(())
}

/// Reads the pieces, up to the size limit.
struct Arriving {
    pieces: mpsc::Receiver<Piece>,
    piece: io::Cursor<Vec<u8>>,
    taken: u64,
    has_ended: bool,
}

// === impl Arriving ===

impl Arriving {
    fn new(pieces: mpsc::Receiver<Piece>) -> Self {
        Self {
            pieces,
            piece: io::Cursor::default(),
            taken: 0,
            has_ended: false,
        }
    }
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.piece.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            if self.has_ended {
                return Ok(0);
            }
            let piece = match self.pieces.blocking_recv() {
                Some(Piece::Bytes(piece)) => piece,
                Some(Piece::End) => {
                    self.has_ended = true;
                    return Ok(0);
                }
                None => return Err(io::Error::other("it is cut off")),
            };
            self.taken += piece.len() as u64;
            if self.taken > LARGEST {
                let most = LARGEST >> 30;
                return Err(io::Error::other(format!("it is larger than {most} GiB")));
            }
            self.piece = io::Cursor::new(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    /// An archive in small pieces, as the other side sends it.
    fn arriving(files: &[(&str, &str)], end: Option<Piece>) -> mpsc::Receiver<Piece> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            header.as_old_mut().name[..name.len()]
                .copy_from_slice(Path::new(name).as_os_str().as_bytes());
            header.set_cksum();
            archive.append(&header, text.as_bytes()).unwrap();
        }
        let bytes = archive.into_inner().unwrap();
        let (send, receive) = mpsc::channel(bytes.len() + 1);
        for piece in bytes.chunks(100) {
            send.try_send(Piece::Bytes(piece.to_vec())).unwrap();
        }
        if let Some(end) = end {
            send.try_send(end).unwrap();
        }
        receive
    }

    #[test]
    fn a_tree_is_exchanged_whole_or_stays() {
        let data = tempfile::tempdir().unwrap();
        let (place, workshop) = (data.path().join("siblings"), data.path().join("making"));
        let id = WorkspaceId::parse("w000000000001").unwrap();
        let read = |name: &str| fs::read_to_string(place.join("w000000000001").join(name));
        let show = |files: &[(&str, &str)]| {
            exchange(&place, &workshop, &id, arriving(files, Some(Piece::End)))
        };
        show(&[("a", "1"), ("gone", "x")]).unwrap();
        show(&[("a", "2")]).unwrap();
        assert_eq!(read("a").unwrap(), "2");
        assert!(read("gone").is_err());
        // What a hostile program sends instead of a tree changes nothing.
        for name in ["../escaped", "/escaped", ".git/config"] {
            show(&[("a", "3"), (name, "x")]).unwrap_err();
            assert_eq!(read("a").unwrap(), "2", "{name}");
        }
        exchange(&place, &workshop, &id, arriving(&[("a", "3")], None)).unwrap_err();
        assert_eq!(read("a").unwrap(), "2", "cut off");
        assert_eq!(fs::read_dir(&workshop).unwrap().count(), 0);
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 2);
        take_back(&place, &workshop, &HashSet::from([id.clone()])).unwrap();
        assert_eq!(read("a").unwrap(), "2");
        take_back(&place, &workshop, &HashSet::new()).unwrap();
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }
}
