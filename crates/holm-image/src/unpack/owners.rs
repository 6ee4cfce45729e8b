//! The side file with the owners of a layer's files, for mounts with ranges of subordinate ids.
//!
//! Records of `<uid>:<gid>:<path>` with a zero byte after each, sorted by path. Paths are relative to the
//! root, which is the empty path. Files of user 0 and group 0 have no record.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub user: u32,
    pub group: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum OwnersError {
    #[error("the list of owners of a layer cannot be read")]
    Read(#[from] io::Error),
    #[error("record {0} of the list of owners of a layer is malformed")]
    Record(usize),
}

pub fn write(to: impl Write, owners: &BTreeMap<PathBuf, Owner>) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    for (path, owner) in owners {
        write!(to, "{}:{}:", owner.user, owner.group)?;
        to.write_all(path.as_os_str().as_bytes())?;
        to.write_all(&[0])?;
    }
    to.flush()
}

/// Reads the file `owners` of an unpacked layer.
pub fn read_owners(mut from: impl Read) -> Result<BTreeMap<PathBuf, Owner>, OwnersError> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    let mut owners = BTreeMap::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let malformed = || OwnersError::Record(owners.len() + 1);
        let end = rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(malformed)?;
        let mut fields = rest[..end].splitn(3, |byte| *byte == b':');
        let mut number = || {
            let text = std::str::from_utf8(fields.next()?).ok()?;
            text.parse().ok()
        };
        let (Some(user), Some(group)) = (number(), number()) else {
            return Err(malformed());
        };
        let path = fields.next().ok_or_else(malformed)?;
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        owners.insert(path, Owner { user, group });
        rest = &rest[end + 1..];
    }
    Ok(owners)
}
