//! Reads a checkout for `holm init` and the notes of `holm up`: names near the root, and the
//! contents of the files that holm-core wants.
//!
//! The repository is not trusted: no symlink is followed, nothing outside is opened, nothing is
//! executed, and the amount read is limited. Unreadable files are reported, not errors.

mod compose;
mod container;
mod format;

use compose::{Place, read_composition};
use container::read_container;
use holm_core::detect::{self, Content, Found, Proposal};
use rustix::fd::OwnedFd;
use rustix::fs::{Access, Dir, FileType, Mode, OFlags, ResolveFlags, access, fstat, openat2};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Larger files are not the kind that their name suggests.
const LARGEST_FILE: u64 = 512 << 10;

/// The depth of a listing: enough for `packages/*/src/server.js`, and bounded work in every
/// repository.
const DEEPEST: usize = 3;
const MOST_DIRECTORIES: usize = 150;
const MOST_ENTRIES: usize = 20_000;

const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Stay below the checkout, and follow no symlinks.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The proposal for the checkout at `toplevel`, asked for in the directory `current` of it; git ignores
/// `ignored` at its root.
pub fn propose(toplevel: &Path, current: &Path, ignored: Vec<String>) -> std::io::Result<Proposal> {
    let mut found = look(toplevel)?;
    found.ignored = ignored;
    let below = current.strip_prefix(toplevel).ok().and_then(Path::to_str);
    found.current = below.unwrap_or_default().to_owned();
    let variables = std::env::vars_os();
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    add_composition(toplevel, &mut found, &variables.collect())?;
    Ok(detect::propose(&found))
}

/// Reads the Compose file of what was found.
fn add_composition(
    toplevel: &Path,
    found: &mut Found,
    environment: &BTreeMap<String, String>,
) -> std::io::Result<()> {
    let place = Place {
        toplevel,
        root: &File::open(toplevel)?,
        environment,
    };
    found.compose = read_composition(&place, found);
    found.container = read_container(&place, found);
    Ok(())
}

/// The programs of a proposal that are not installed, each with what needs it.
pub fn missing_programs(proposal: &Proposal) -> Vec<(String, String)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Debian has database servers here, and the commands that `init` writes look here, too.
    places.push(PathBuf::from("/usr/sbin"));
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    places.extend(versions.flatten().map(|version| version.path().join("bin")));
    let is_there = |name: &str| {
        let mut files = places.iter().map(|place| place.join(name));
        files.any(|file| access(&file, Access::EXEC_OK).is_ok() && file.is_file())
    };
    let mut programs = proposal.programs();
    programs.retain(|(name, _)| !is_there(name));
    programs
}

fn look(toplevel: &Path) -> std::io::Result<Found> {
    let root = File::open(toplevel)?;
    let listing = list(&root);
    let wanted = detect::wanted(&listing).into_iter();
    let contents = wanted.map(|(path, form)| {
        let content = match read(&root, &path) {
            Ok(text) => format::parse(&text, form),
            Err(why) => Content::Unusable(why),
        };
        (path, content)
    });
    Ok(Found {
        contents: contents.collect(),
        listing,
        ..Found::default()
    })
}

/// Files and directories near the root, nearest first, within the limits.
fn list(root: &File) -> BTreeSet<String> {
    let mut listing = BTreeSet::new();
    let mut waiting = VecDeque::from([(String::new(), 0)]);
    let mut looked_into = 0;
    let mut room = MOST_ENTRIES;
    while let Some((at, depth)) = waiting.pop_front() {
        if looked_into == MOST_DIRECTORIES {
            break;
        }
        looked_into += 1;
        // A directory that cannot be opened is skipped.
        let Ok(entries) = entries(root, &at, room) else {
            continue;
        };
        room -= entries.len();
        for (name, kind) in entries {
            match kind {
                FileType::RegularFile => {
                    listing.insert(format!("{at}{name}"));
                }
                FileType::Directory => {
                    let path = format!("{at}{name}/");
                    if depth < DEEPEST && detect::is_listed(path.trim_end_matches('/')) {
                        waiting.push_back((path.clone(), depth + 1));
                    }
                    listing.insert(path);
                }
                _ => {}
            }
        }
    }
    listing
}

/// At most `most` entries of a directory, sorted. Names that are not plain text cannot be written
/// into a file for people and are skipped.
fn entries(root: &File, at: &str, most: usize) -> Result<Vec<(String, FileType)>, Errno> {
    let path = if at.is_empty() { "." } else { at };
    let directory = open(root, path, OFlags::DIRECTORY)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&directory)?.take(most) {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        if name == "." || name == ".." || name.chars().any(char::is_control) {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let place = open(root, &format!("{at}{name}"), OFlags::PATH);
                let status = place.and_then(|place| fstat(&place));
                status.map_or(FileType::Unknown, |it| FileType::from_raw_mode(it.st_mode))
            }
            kind => kind,
        };
        entries.push((name.to_owned(), kind));
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(entries)
}

fn open(root: &File, path: &str, more: OFlags) -> Result<OwnedFd, Errno> {
    openat2(root, path, OPEN | more, Mode::empty(), BENEATH)
}

/// The text of a regular file, or why there is none.
fn read(root: &File, path: &str) -> Result<String, String> {
    let file = open(root, path, OFlags::empty()).map_err(|error| {
        let error = std::io::Error::from(error);
        format!("it cannot be opened: {error}")
    })?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not an ordinary file".to_owned());
    }
    let mut bytes = Vec::new();
    // One byte over the limit shows that there is more, even while a program writes.
    let limited = file.take(LARGEST_FILE + 1).read_to_end(&mut bytes);
    limited.map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(format!("it is larger than {} KiB", LARGEST_FILE >> 10));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests;
