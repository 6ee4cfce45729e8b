//! Reads hostile archives within bounds: headers, entries, bytes and paths.
//!
//! `import` and `unpack` both read tar files through [`Entries`].

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// How much one archive may contain.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveLimits {
    pub entries: u64,
    /// Bytes of the uncompressed archive, and of the files that it makes.
    pub bytes: u64,
    /// How many uncompressed bytes one compressed byte may become, after the first 64 MiB.
    pub ratio: u64,
    /// Bytes of the path of an entry.
    pub path: usize,
    /// Bytes of all headers of one entry: long names and PAX records.
    pub header: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum BoundError {
    #[error("the archive has more than {0} entries")]
    Entries(u64),
    #[error("the archive has more than {0} bytes")]
    Bytes(u64),
    #[error("the archive grows to more than {0} times its compressed size")]
    Ratio(u64),
    #[error("the headers of an entry have more than {0} bytes")]
    Header(u64),
    #[error("the path of an entry has more than {0} bytes")]
    Path(usize),
    #[error("the archive ends in the middle of `{0}`")]
    Truncated(String),
    #[error("the archive cannot be read")]
    Read(#[source] io::Error),
    #[error("`{path}` of the archive cannot be written")]
    Write { path: String, source: io::Error },
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self {
            entries: 1_000_000,
            bytes: 64 << 30,
            ratio: 250,
            path: 4096,
            header: 1 << 20,
        }
    }
}

/// The entries of a tar file, one after the other.
pub struct Entries<R: Read> {
    archive: tar::Archive<Metered<R>>,
    meter: Rc<Meter>,
    limits: ArchiveLimits,
}

/// An entry as [`Entries::each`] passes it to `visit`.
pub type Entry<'a, R> = tar::Entry<'a, Metered<R>>;

/// Counts what passes, and stops at its allowance.
pub struct Metered<R> {
    inner: R,
    meter: Rc<Meter>,
}

#[derive(Default)]
struct Meter {
    allowance: Cell<u64>,
    total: Cell<u64>,
    is_over: Cell<bool>,
}

// === impl Entries ===

impl<R: Read> Entries<R> {
    pub fn new(inner: R, limits: ArchiveLimits) -> Self {
        let meter = Rc::new(Meter::default());
        let archive = tar::Archive::new(Metered {
            inner,
            meter: meter.clone(),
        });
        Self {
            archive,
            meter,
            limits,
        }
    }

    /// Calls `visit` for every entry with its path, then returns the reader behind the archive.
    pub fn each<E: From<BoundError>>(
        mut self,
        mut visit: impl FnMut(&[u8], &mut Entry<'_, R>) -> Result<(), E>,
    ) -> Result<R, E> {
        let (meter, limits) = (self.meter.clone(), self.limits);
        let mut count = 0;
        let mut entries = self.archive.entries().map_err(BoundError::Read)?;
        loop {
            meter.allow(limits.header);
            let next = entries.next().transpose();
            let next = next.map_err(|error| meter.cause(error, BoundError::Header(limits.header)));
            let Some(mut entry) = next? else { break };
            count += 1;
            if count > limits.entries {
                return Err(BoundError::Entries(limits.entries).into());
            }
            if entry.size() > limits.bytes.saturating_sub(meter.total.get()) {
                return Err(BoundError::Bytes(limits.bytes).into());
            }
            let path = entry.path_bytes().into_owned();
            if path.len() > limits.path {
                return Err(BoundError::Path(limits.path).into());
            }
            meter.allow(limits.bytes.saturating_sub(meter.total.get()));
            visit(&path, &mut entry)?;
            // The next header is read with an allowance of its own, so the rest of this entry is read here.
            let rest = io::copy(&mut entry, &mut io::sink());
            rest.map_err(|error| meter.cause(error, BoundError::Bytes(limits.bytes)))?;
        }
        Ok(self.archive.into_inner().inner)
    }
}

/// Copies an entry's content, and fails if the archive ends before it.
pub fn copy_content<R: Read>(
    path: &[u8],
    entry: &mut Entry<'_, R>,
    to: &mut impl io::Write,
) -> Result<u64, BoundError> {
    let size = entry.size();
    let shown = || String::from_utf8_lossy(path).into_owned();
    let copied = each_part(entry, BoundError::Read, |part| {
        let written = to.write_all(part);
        written.map_err(|source| BoundError::Write {
            path: shown(),
            source,
        })
    })?;
    if copied != size {
        return Err(BoundError::Truncated(shown()));
    }
    Ok(copied)
}

/// Calls `write` with each part that `from` has, and returns the number of bytes. Unlike `io::copy`, it keeps
/// errors of reading and of writing apart.
pub fn each_part<E>(
    from: &mut impl Read,
    unreadable: impl Fn(io::Error) -> E,
    mut write: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<u64, E> {
    let mut buffer = [0; 1 << 14];
    let mut copied = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(length) => {
                write(&buffer[..length])?;
                copied += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
}

impl Meter {
    fn allow(&self, bytes: u64) {
        self.allowance.set(bytes);
    }

    /// `over` if the allowance ended the reading.
    fn cause(&self, error: io::Error, over: BoundError) -> BoundError {
        if self.is_over.get() {
            over
        } else {
            BoundError::Read(error)
        }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let allowance = self.meter.allowance.get();
        if allowance == 0 && !buffer.is_empty() {
            self.meter.is_over.set(true);
            return Err(io::Error::other("the limit of the archive is reached"));
        }
        let most = usize::try_from(allowance).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let length = self.inner.read(&mut buffer[..most])?;
        self.meter.allowance.set(allowance - length as u64);
        self.meter.total.set(self.meter.total.get() + length as u64);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::{ArchiveLimits, BoundError, Entries, copy_content};
    use std::fs::File;

    #[test]
    fn a_full_disk_is_not_an_unreadable_archive() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        builder.append_data(&mut header, "a", &b"x"[..]).unwrap();
        let archive = builder.into_inner().unwrap();
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let entries = Entries::new(&archive[..], ArchiveLimits::default());
        let copied = entries.each(|path, entry| copy_content(path, entry, &mut full).map(drop));
        assert!(matches!(copied, Err(BoundError::Write { path, .. }) if path == "a"));
    }
}
