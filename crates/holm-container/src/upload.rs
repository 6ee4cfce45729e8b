//! Sends files to an engine as archives.

use crate::engine::refused;
use bollard::Docker;
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use bytes::Bytes;
use futures_util::stream;
use holm_core::{Code, Fault};
use holm_keeper::container::{KEEPER_GROUP, USER};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

const PIECE: usize = 256 * 1024;

/// An archive that is being written, in a file without a name.
pub struct Archive(Builder<File>);

// === impl Archive ===

impl Archive {
    pub fn new() -> io::Result<Self> {
        let mut builder = Builder::new(tempfile::tempfile()?);
        builder.follow_symlinks(false);
        Ok(Self(builder))
    }

    pub fn directory(&mut self, name: &Path) -> io::Result<()> {
        let mut header = header(0o755);
        header.set_entry_type(EntryType::Directory);
        header.set_size(0);
        self.0.append_data(&mut header, name, io::empty())
    }

    /// A file of this machine; one that is gone meanwhile is left out.
    pub fn file(&mut self, source: &Path, name: &Path) -> io::Result<()> {
        let file = match File::open(source) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let metadata = file.metadata()?;
        let mut header = header(metadata.permissions().mode() & 0o777);
        header.set_mtime(seconds(&metadata));
        header.set_size(metadata.len());
        self.0
            .append_data(&mut header, name, file.take(metadata.len()))
    }

    /// Everything below a directory of this machine, which another process may have written.
    pub fn tree(&mut self, source: &Path, name: &Path) -> io::Result<()> {
        self.directory(name)?;
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            let (from, to) = (entry.path(), name.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.tree(&from, &to)?;
            } else if kind.is_symlink() {
                let mut header = header(0o777);
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                self.0
                    .append_link(&mut header, &to, fs::read_link(&from)?)?;
            } else if kind.is_file() {
                self.file(&from, &to)?;
            }
        }
        Ok(())
    }

    pub fn finish(self) -> io::Result<File> {
        let mut file = self.0.into_inner()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }
}

/// Everything belongs to the user of workspaces.
fn header(mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_uid(USER.into());
    header.set_gid(KEEPER_GROUP.into());
    header.set_mode(mode);
    header
}

fn seconds(metadata: &fs::Metadata) -> u64 {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

/// Makes an archive in a thread that may block.
pub async fn make(
    work: impl FnOnce(&mut Archive) -> io::Result<()> + Send + 'static,
) -> Result<File, Fault> {
    holm_engine::try_blocking(move || {
        let made = Archive::new().and_then(|mut archive| {
            work(&mut archive)?;
            archive.finish()
        });
        made.map_err(|error| {
            let message = "cannot read what the engine is to get";
            Fault::new(Code::Internal, message, "see the daemon's log").because(error)
        })
    })
    .await
}

/// Unpacks an archive at a path of a container.
pub async fn put(
    docker: &Docker,
    container: &str,
    place: &Path,
    archive: File,
) -> Result<(), Fault> {
    let options = UploadToContainerOptionsBuilder::default()
        .path(&place.display().to_string())
        .build();
    let body = bollard::body_try_stream(pieces(archive));
    let sent = docker
        .upload_to_container(container, Some(options), body)
        .await;
    sent.map_err(|error| refused("cannot send files to the engine", error))
}

/// The pieces of a file. Reading a file of this machine does not block for long.
pub fn pieces(file: File) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::unfold(Some(file), async |file| {
        let mut file = file?;
        let mut piece = vec![0; PIECE];
        match file.read(&mut piece) {
            Ok(0) => None,
            Ok(length) => {
                piece.truncate(length);
                Some((Ok(Bytes::from(piece)), Some(file)))
            }
            Err(error) => Some((Err(error), None)),
        }
    })
}

/// All files below a directory, relative to it.
pub fn files_below(place: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(place.join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                waiting.push(path);
            } else {
                found.push(path);
            }
        }
    }
    Ok(found)
}
