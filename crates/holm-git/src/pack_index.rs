//! Looks up objects in a pack's index (version 2) without git. Used to keep packs with private
//! objects out of the shared store.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An open `*.idx` file.
pub(crate) struct PackIndex {
    file: File,
    /// For each first byte, the number of objects up to and including it.
    fanout: [u32; 256],
}

const HEADER: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];

impl PackIndex {
    pub fn open(path: &Path) -> io::Result<PackIndex> {
        let file = File::open(path)?;
        let mut start = [0u8; 8 + 256 * 4];
        file.read_exact_at(&mut start, 0)?;
        if start[..8] != HEADER {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let mut fanout = [0u32; 256];
        for (slot, bytes) in fanout.iter_mut().zip(start[8..].chunks_exact(4)) {
            *slot = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(PackIndex { file, fanout })
    }

    /// Whether the pack holds the object.
    pub fn contains(&self, object: &[u8]) -> io::Result<bool> {
        let first = usize::from(object[0]);
        let mut low = match first {
            0 => 0,
            _ => self.fanout[first - 1],
        };
        let mut high = self.fanout[first];
        let mut name = vec![0u8; object.len()];
        while low < high {
            let middle = low + (high - low) / 2;
            let offset = 8 + 1024 + u64::from(middle) * object.len() as u64;
            self.file.read_exact_at(&mut name, offset)?;
            match name.as_slice().cmp(object) {
                std::cmp::Ordering::Equal => return Ok(true),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(false)
    }
}

/// The bytes of a hexadecimal object id.
pub(crate) fn object_bytes(hex: &str) -> Option<Vec<u8>> {
    if hex.is_empty() || !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
        .collect()
}
