//! The names of a layer's entries: relative to the root of the image, and what whiteouts mean.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// What the name of an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// The root of the image.
    Root,
    File(Inside),
    /// The file is absent, although a layer below has it.
    Whiteout(Inside),
    /// The directory shows nothing of the layers below; an empty path is the root.
    Opaque(PathBuf),
}

/// A path below the root: no `..`, no empty part, and a last part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Empty for the root.
    pub parent: PathBuf,
    pub name: OsString,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("`{0}` leaves the root of the image")]
    Climbs(String),
    #[error("`{0}` contains a zero byte or a part of more than 255 bytes")]
    Malformed(String),
    #[error("`{0}` is not a whiteout that the specification defines")]
    Whiteout(String),
    #[error("`{0}` is the root, which cannot be this kind of file")]
    Root(String),
}

const PREFIX: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const LONGEST_PART: usize = 255;

// === impl Name ===

impl Name {
    /// Reads the path of an entry. A leading `/` means the root of the image, as in every engine.
    pub fn parse(path: &[u8]) -> Result<Self, NameError> {
        let mut parts = parts(path)?;
        let Some(last) = parts.pop() else {
            return Ok(Self::Root);
        };
        let whiteout = || NameError::Whiteout(shown(path));
        // A directory with such a name could not be told from a whiteout.
        if parts.iter().any(|part| part.starts_with(PREFIX)) {
            return Err(whiteout());
        }
        let parent: PathBuf = parts
            .iter()
            .map(|part| OsString::from_vec(part.to_vec()))
            .collect();
        if last == OPAQUE {
            return Ok(Self::Opaque(parent));
        }
        let Some(hidden) = last.strip_prefix(PREFIX) else {
            let name = OsString::from_vec(last.to_vec());
            return Ok(Self::File(Inside { parent, name }));
        };
        if matches!(hidden, b"" | b"." | b"..") || hidden.starts_with(PREFIX) {
            return Err(whiteout());
        }
        let name = OsString::from_vec(hidden.to_vec());
        Ok(Self::Whiteout(Inside { parent, name }))
    }
}

// === impl Inside ===

impl Inside {
    pub fn path(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// The target of a hard link, which is a path from the root of the image.
    pub fn of_link(path: &[u8]) -> Result<Self, NameError> {
        match Name::parse(path)? {
            Name::File(inside) => Ok(inside),
            Name::Root => Err(NameError::Root(shown(path))),
            Name::Whiteout(_) | Name::Opaque(_) => Err(NameError::Whiteout(shown(path))),
        }
    }
}

fn parts(path: &[u8]) -> Result<Vec<&[u8]>, NameError> {
    let parts = path.split(|byte| *byte == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&b"..".as_slice()) {
        return Err(NameError::Climbs(shown(path)));
    }
    if path.contains(&0) || parts.iter().any(|part| part.len() > LONGEST_PART) {
        return Err(NameError::Malformed(shown(path)));
    }
    Ok(parts)
}

/// For messages: without control characters, and not too long.
pub fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    text.escape_debug().take(300).collect()
}

pub fn shown_path(path: &std::path::Path) -> String {
    shown(path.as_os_str().as_bytes())
}
