//! The rename calls that a mover has accepted and not answered, in a form that survives it: the
//! kernel reports a rename once, and the caller waits for the answer. When a mover is killed, the
//! next one answers for it ([`super::main`]), or the keeper if there is none.
//!
//! A memory file with one eight-byte number per rename in progress; zero means none.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

const WIDTH: u64 = 8;

pub struct TakenUp {
    file: File,
    free: Mutex<Free>,
}

/// The free slots. The first one is for renames that are done at once.
#[derive(Default)]
struct Free {
    used: u64,
    again: Vec<u64>,
}

/// A rename that takes longer.
pub struct Noted {
    taken_up: Arc<TakenUp>,
    place: u64,
}

// === impl TakenUp ===

impl TakenUp {
    pub fn new() -> io::Result<Self> {
        let file = memfd_create("renames", MemfdFlags::CLOEXEC)?;
        Ok(file.into())
    }

    /// Notes the current rename, replacing the last one, which was answered or noted by
    /// [`Self::note`].
    pub fn look_at(&self, id: u64) -> io::Result<()> {
        self.file.write_all_at(&id.to_ne_bytes(), 0)
    }

    /// Notes a rename until it is answered.
    pub fn note(self: &Arc<Self>, id: u64) -> io::Result<Noted> {
        let place = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let again = free.again.pop();
            again.unwrap_or_else(|| {
                free.used += 1;
                free.used
            })
        };
        let noted = Noted {
            taken_up: Arc::clone(self),
            place,
        };
        self.file.write_all_at(&id.to_ne_bytes(), place * WIDTH)?;
        Ok(noted)
    }

    /// All noted renames; some may have been answered.
    pub fn all(&self) -> io::Result<Vec<u64>> {
        let length = self.file.metadata()?.len();
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        let (numbers, _) = bytes.as_chunks::<{ WIDTH as usize }>();
        let numbers = numbers.iter().map(|number| u64::from_ne_bytes(*number));
        Ok(numbers.filter(|number| *number != 0).collect())
    }

    pub fn clear(&self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

impl From<OwnedFd> for TakenUp {
    fn from(descriptor: OwnedFd) -> Self {
        Self {
            file: File::from(descriptor),
            free: Mutex::default(),
        }
    }
}

impl AsFd for TakenUp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

// === impl Noted ===

impl Drop for Noted {
    fn drop(&mut self) {
        // A rename that stays noted is answered twice, which the kernel refuses.
        let _ = self
            .taken_up
            .file
            .write_all_at(&0_u64.to_ne_bytes(), self.place * WIDTH);
        let mut free = self
            .taken_up
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        free.again.push(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_seen_through_another_descriptor_until_it_is_dropped() {
        let mine = Arc::new(TakenUp::new().unwrap());
        let other = TakenUp::from(mine.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(other.all().unwrap(), Vec::<u64>::new());
        mine.look_at(7).unwrap();
        let (one, two) = (mine.note(8).unwrap(), mine.note(9).unwrap());
        mine.look_at(10).unwrap();
        assert_eq!(other.all().unwrap(), [10, 8, 9]);
        drop(one);
        let _three = mine.note(11).unwrap();
        assert_eq!(other.all().unwrap(), [10, 11, 9]);
        drop(two);
        other.clear().unwrap();
        assert_eq!(mine.all().unwrap(), Vec::<u64>::new());
    }
}
