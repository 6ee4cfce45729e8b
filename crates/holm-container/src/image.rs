//! The image whose root workspaces have: the one that the user's settings name, or one of this machine's own system
//! directories, so that a user without settings can begin at once and without a download.

use crate::engine::{is_absent, refused};
use crate::settings::Settings;
use crate::upload::pieces;
use bollard::Docker;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use holm_core::{Code, Fault};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// What an image of this machine has.
const SYSTEM: [&str; 9] = [
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "etc",
];

/// Empty directories that programs and engines expect.
const EMPTY: [&str; 12] = [
    "dev", "proc", "sys", "run", "tmp", "root", "home", "mnt", "media", "srv", "var/tmp", "var/lib",
];

/// What workspaces see of an image.
#[derive(Clone, Debug)]
pub struct Root {
    pub id: String,
    /// `PATH` of the image.
    pub path: Option<String>,
}

pub async fn root(docker: &Docker, settings: &Settings) -> Result<Root, Fault> {
    let name = match &settings.image {
        Some(name) => name.clone(),
        None => of_this_machine(docker).await?,
    };
    look(docker, &name).await?.ok_or_else(|| {
        Fault::new(
            Code::ImageNotFound,
            format!("the engine has no image {name}, which [docker] image of your settings names"),
            format!("`docker pull {name}`, or name another one"),
        )
    })
}

async fn look(docker: &Docker, name: &str) -> Result<Option<Root>, Fault> {
    let found = match docker.inspect_image(name).await {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(refused(format!("cannot look at the image {name}"), error)),
    };
    let variables = found
        .config
        .and_then(|config| config.env)
        .unwrap_or_default();
    let path = variables
        .iter()
        .find_map(|variable| variable.strip_prefix("PATH="));
    Ok(Some(Root {
        id: found.id.unwrap_or_else(|| name.to_owned()),
        path: path.map(str::to_owned),
    }))
}

/// The name of the image of this machine, which is made if the engine does not have it.
async fn of_this_machine(docker: &Docker) -> Result<String, Fault> {
    let (repository, tag) = ("holm-host", key());
    let name = format!("{repository}:{tag}");
    if look(docker, &name).await?.is_some() {
        return Ok(name);
    }
    tracing::info!(
        name,
        "the engine gets an image of this machine's system directories"
    );
    let archive = holm_engine::try_blocking(|| {
        archive(Path::new("/")).map_err(|error| {
            let message = "cannot read this machine's system directories for an image";
            let hint = "name an image in [docker] image of your settings";
            Fault::new(Code::Internal, message, hint).because(error)
        })
    });
    let options = CreateImageOptionsBuilder::default()
        .from_src("-")
        .repo(repository)
        .tag(&tag)
        .build();
    let body = bollard::body_try_stream(pieces(archive.await?));
    let mut answers = std::pin::pin!(docker.create_image(Some(options), Some(body), None));
    while let Some(answer) = answers.next().await {
        answer
            .map_err(|error| refused("the engine does not take an image of this machine", error))?;
    }
    Ok(name)
}

/// Another system, or another release of it, has another image.
fn key() -> String {
    let system = fs::read("/etc/os-release").unwrap_or_default();
    let digest = Sha256::new()
        .chain_update(system)
        .chain_update(std::env::consts::ARCH)
        .finalize();
    digest[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Everything that every user of this machine may read, and nothing else: that leaves out keys and passwords.
fn archive(root: &Path) -> io::Result<File> {
    let mut builder = Builder::new(tempfile::tempfile()?);
    builder.follow_symlinks(false);
    for name in EMPTY {
        let mode = if name.ends_with("tmp") { 0o1777 } else { 0o755 };
        directory(&mut builder, Path::new(name), mode)?;
    }
    for name in SYSTEM {
        if root.join(name).symlink_metadata().is_ok() {
            add(&mut builder, root, PathBuf::from(name))?;
        }
    }
    let mut file = builder.into_inner()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

fn directory(builder: &mut Builder<File>, name: &Path, mode: u32) -> io::Result<()> {
    let mut header = header(mode);
    header.set_entry_type(EntryType::Directory);
    builder.append_data(&mut header, name, io::empty())
}

fn header(mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    // No program gets another user's rights by executing a file.
    header.set_mode(mode & 0o1777);
    header
}

fn add(builder: &mut Builder<File>, root: &Path, name: PathBuf) -> io::Result<()> {
    let source = root.join(&name);
    let metadata = match source.symlink_metadata() {
        // A package manager works meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    let mode = metadata.mode();
    let mut own = header(mode);
    own.set_mtime(u64::try_from(metadata.mtime()).unwrap_or_default());
    if metadata.is_symlink() {
        own.set_entry_type(EntryType::Symlink);
        return builder.append_link(&mut own, &name, fs::read_link(&source)?);
    }
    const OTHERS_READ: u32 = 0o4;
    if mode & OTHERS_READ == 0 {
        return Ok(());
    }
    if metadata.is_file() {
        let file = File::open(&source)?;
        own.set_size(metadata.len());
        return builder.append_data(&mut own, &name, io::Read::take(file, metadata.len()));
    }
    if metadata.is_dir() {
        own.set_entry_type(EntryType::Directory);
        builder.append_data(&mut own, &name, io::empty())?;
        for entry in fs::read_dir(&source)? {
            add(builder, root, name.join(entry?.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_image_of_the_machine_has_what_everybody_may_read() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, mode: u32| {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("usr/bin/sh", 0o4755);
        write("etc/passwd", 0o644);
        write("etc/shadow", 0o640);
        write("etc/ssh/key", 0o600);
        write("home/me/letter", 0o644);
        std::os::unix::fs::symlink("usr/bin", place.path().join("bin")).unwrap();
        let mut archive = tar::Archive::new(archive(place.path()).unwrap());
        let entries = archive.entries().unwrap().map(Result::unwrap);
        let found: BTreeMap<_, _> = entries
            .map(|entry| {
                let path = entry.path().unwrap().display().to_string();
                (
                    path.trim_end_matches('/').to_owned(),
                    entry.header().mode().unwrap(),
                )
            })
            .collect();
        for name in ["usr/bin", "usr/bin/sh", "etc/passwd", "bin", "proc", "tmp"] {
            assert!(found.contains_key(name), "{name}: {found:?}");
        }
        for name in ["etc/shadow", "etc/ssh/key", "home/me", "home/me/letter"] {
            assert!(!found.contains_key(name), "{name}: {found:?}");
        }
        assert_eq!(found["usr/bin/sh"], 0o755);
    }
}
