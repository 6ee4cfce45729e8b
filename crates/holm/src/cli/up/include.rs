//! Files of the checkout that are sent beside the commit: those that `include`, `.worktreeinclude`
//! and `--include` name, as a tar that is uploaded while it is written.
//!
//! Symlinks are sent as symlinks, never followed. Only files in the checkout are taken, and never
//! the repository's own `.git`, nor a submodule's link to its part of it. Owners are dropped; modes
//! and times are kept.

use holm_api::client::Client;
use holm_core::{Code, Fault};
use rustix::fs::{FileType, Mode, OFlags};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Paths relative to the root of the checkout, each once, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Included(BTreeSet<PathBuf>);

// === impl Included ===

impl Included {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, relative: PathBuf) {
        self.0.insert(relative);
    }

    /// Whether `relative` is included, by itself or with a directory above it.
    pub fn contains(&self, relative: &Path) -> bool {
        relative.ancestors().any(|path| self.0.contains(path))
    }

    /// The paths that `git status` inside must not show.
    pub fn excluded(&self) -> Vec<String> {
        let texts = self.0.iter().filter_map(|path| path.to_str());
        texts.map(str::to_owned).collect()
    }

    /// Adds the paths of `--include`, relative to `current`.
    pub fn add_typed(
        &mut self,
        typed: &Path,
        current: &Path,
        checkout: &Path,
    ) -> Result<(), Fault> {
        let path = current.join(typed);
        let shown = typed.display();
        let metadata = path.symlink_metadata().map_err(|error| {
            Fault::new(
                Code::PathNotFound,
                format!("cannot include `{shown}`"),
                "--include takes a file or directory of this checkout",
            )
            .because(error)
        })?;
        let outside = || {
            Fault::new(
                Code::Usage,
                format!("cannot include `{shown}`: it is not in the checkout"),
                format!("--include takes paths below {}", checkout.display()),
            )
        };
        let relative = inside(&path, checkout).ok_or_else(outside)?;
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_dir() && !kind.is_symlink() {
            return Err(Fault::new(
                Code::Usage,
                format!("cannot include `{shown}`: it is neither a file nor a directory"),
                "sockets, pipes and devices cannot be taken along",
            ));
        }
        if relative.components().next().map(Component::as_os_str) == Some(OsStr::new(".git")) {
            return Err(Fault::new(
                Code::Usage,
                format!("cannot include `{shown}`: a workspace has a repository of its own"),
                "leave out .git",
            ));
        }
        if relative.as_os_str().is_empty() {
            // The whole checkout: everything in it except the repository.
            for entry in std::fs::read_dir(checkout).map_err(|error| unreadable(checkout, error))? {
                let entry = entry.map_err(|error| unreadable(checkout, error))?;
                if entry.file_name() != ".git" {
                    self.add(PathBuf::from(entry.file_name()));
                }
            }
            return Ok(());
        }
        self.add(relative);
        Ok(())
    }

    /// Writes the files below `checkout` as a tar.
    fn write(&self, checkout: &Path, to: impl Write) -> Result<(), Fault> {
        let mut builder = tar::Builder::new(to);
        for relative in &self.0 {
            append(&mut builder, checkout, relative)?;
        }
        let finished = builder.into_inner().and_then(|mut to| to.flush());
        finished.map_err(|error| unreadable(checkout, error))
    }
}

/// Uploads the tar and returns the name of the upload.
pub async fn upload(
    client: &Client,
    included: Included,
    checkout: PathBuf,
) -> Result<String, Fault> {
    let broken = |error: io::Error| {
        let message = "cannot send the included files";
        Fault::new(Code::Internal, message, "try again").because(error)
    };
    let (reader, writer) = io::pipe().map_err(broken)?;
    let reader = tokio::net::unix::pipe::Receiver::from_owned_fd(reader.into()).map_err(broken)?;
    let writing = tokio::task::spawn_blocking(move || included.write(&checkout, writer));
    let upload = client.upload(reader).await;
    // When a file cannot be read the tar ends early; that error explains more.
    writing
        .await
        .map_err(|error| broken(io::Error::other(error)))??;
    Ok(upload?.upload)
}

/// The path relative to the checkout. Its parents are resolved, the last name is not.
fn inside(path: &Path, checkout: &Path) -> Option<PathBuf> {
    let checkout = checkout.canonicalize().ok()?;
    let resolved = match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => parent.canonicalize().ok()?.join(name),
        _ => path.canonicalize().ok()?,
    };
    resolved.strip_prefix(&checkout).ok().map(Path::to_owned)
}

fn append<W: Write>(
    builder: &mut tar::Builder<W>,
    checkout: &Path,
    relative: &Path,
) -> Result<(), Fault> {
    let path = checkout.join(relative);
    let failed = |error: io::Error| unreadable(&path, error);
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        // It was removed since git listed it, by a build or an editor.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let kind = metadata.file_type();
    let mut header = header(&metadata);
    if kind.is_file() || kind.is_dir() || kind.is_symlink() {
        // The header has only seconds. Build tools compare finer than that.
        let modified = format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec());
        builder
            .append_pax_extensions([("mtime", modified.as_bytes())])
            .map_err(failed)?;
    }
    if kind.is_symlink() {
        let target = std::fs::read_link(&path).map_err(failed)?;
        header.set_entry_type(tar::EntryType::Symlink);
        return builder
            .append_link(&mut header, relative, target)
            .map_err(failed);
    }
    if kind.is_dir() {
        header.set_entry_type(tar::EntryType::Directory);
        builder
            .append_data(&mut header, relative, io::empty())
            .map_err(failed)?;
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A submodule's link to its repository points into the user's `.git`, which does not
            // exist inside; git would fail at it.
            let is_link =
                entry.file_name() == ".git" && entry.file_type().is_ok_and(|kind| !kind.is_dir());
            if !is_link {
                names.push(entry.file_name());
            }
        }
        names.sort();
        return names
            .iter()
            .try_for_each(|name| append(builder, checkout, &relative.join(name)));
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
        return Ok(());
    }
    append_file(builder, &path, relative, header).map_err(failed)
}

fn append_file<W: Write>(
    builder: &mut tar::Builder<W>,
    path: &Path,
    relative: &Path,
    mut header: tar::Header,
) -> io::Result<()> {
    // Opens exactly what was listed: no symlink and no pipe in its place.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let status = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it changed while it was read"));
    }
    let size = status.st_size as u64;
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(size);
    // A file that grows or shrinks meanwhile (a log) must not break the archive.
    let content = file.take(size).chain(io::repeat(0)).take(size);
    builder.append_data(&mut header, relative, content)
}

fn header(metadata: &Metadata) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(metadata.mode() & 0o7777);
    header.set_mtime(metadata.mtime().max(0) as u64);
    header.set_size(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn unreadable(path: &Path, error: io::Error) -> Fault {
    Fault::new(
        Code::PathNotFound,
        format!("cannot take `{}` along", path.display()),
        "make it readable, or leave it out of the included paths",
    )
    .because(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn checkout() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir_all(root.join("conf/deep")).unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(root.join(".env"), "KEY=1").unwrap();
        std::fs::write(root.join("conf/deep/run.sh"), "#!/bin/sh\n").unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.join("conf/deep/run.sh"), executable).unwrap();
        symlink("/etc/passwd", root.join("conf/link")).unwrap();
        directory
    }

    #[test]
    fn links_modes_and_directories_travel_as_they_are() {
        let directory = checkout();
        let mut included = Included::default();
        for path in [".env", "conf"] {
            let root = directory.path();
            included.add_typed(Path::new(path), root, root).unwrap();
        }
        included.add(PathBuf::from("gone-meanwhile"));
        let mut bytes = Vec::new();
        included.write(directory.path(), &mut bytes).unwrap();
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let link = entry
                .link_name()
                .unwrap()
                .map(|to| to.display().to_string());
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            assert_eq!(entry.header().uid().unwrap(), 0);
            let mode = entry.header().mode().unwrap() & 0o111;
            found.insert(path, (link, content, mode != 0));
        }
        let file = |text: &str, executable| (None, text.to_owned(), executable);
        let expect = BTreeMap::from([
            (".env".to_owned(), file("KEY=1", false)),
            ("conf".to_owned(), file("", true)),
            ("conf/deep".to_owned(), file("", true)),
            ("conf/deep/run.sh".to_owned(), file("#!/bin/sh\n", true)),
            (
                "conf/link".to_owned(),
                (Some("/etc/passwd".to_owned()), String::new(), true),
            ),
        ]);
        assert_eq!(found, expect);
    }

    #[test]
    fn only_paths_of_the_checkout_are_taken() {
        let directory = checkout();
        let root = directory.path();
        symlink("/etc", root.join("etc")).unwrap();
        let check = |typed: &str, expect: Code| {
            let added = Included::default().add_typed(Path::new(typed), root, root);
            assert_eq!(added.unwrap_err().code, expect, "{typed}");
        };
        check("absent", Code::PathNotFound);
        check("/etc/passwd", Code::Usage);
        check("..", Code::Usage);
        check("etc/passwd", Code::Usage);
        check(".git", Code::Usage);
        check("conf/../.git", Code::Usage);
        let mut whole = Included::default();
        whole.add_typed(Path::new("."), root, root).unwrap();
        assert_eq!(whole.excluded(), [".env", "conf", "etc"]);
        let mut below = Included::default();
        below
            .add_typed(Path::new("../.env"), &root.join("conf"), root)
            .unwrap();
        assert_eq!(below.excluded(), [".env"]);
        assert!(below.contains(Path::new(".env")));
        assert!(!below.contains(Path::new("conf")));
        assert!(whole.contains(Path::new("conf/deep/run.sh")));
    }
}
