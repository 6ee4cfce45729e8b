//! Writes one service's log: rotated by size, bounded on disk. Lines that cannot be written are
//! counted and reported later. No output of a service can end the keeper.

use crate::logs::{FILE_SIZE, FILES, Stream, append, now, path};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How much a service may write at once, and then per second, so that endless output does not use
/// the whole disk bandwidth. Beyond that its full pipe blocks it.
const BURST: u64 = 64 << 20;
const PER_SECOND: u64 = 16 << 20;

pub struct Log {
    logs: PathBuf,
    service: String,
    file: Option<File>,
    length: u64,
    /// The number of lines that could not be written, and why.
    lost: u64,
    because: String,
    budget: Budget,
}

struct Budget {
    left: u64,
    at: Instant,
}

// === impl Log ===

impl Log {
    pub fn new(logs: PathBuf, service: &str) -> Self {
        Self {
            logs,
            service: service.to_owned(),
            file: None,
            length: 0,
            lost: 0,
            because: String::new(),
            budget: Budget {
                left: BURST,
                at: Instant::now(),
            },
        }
    }

    /// Writes records that belong together. Returns how long to wait before the next write.
    pub fn write(&mut self, records: &[u8], lines: u64) -> Duration {
        if lines == 0 {
            return Duration::ZERO;
        }
        match self.try_write(records) {
            Ok(()) => {}
            Err(error) => {
                self.lost += lines;
                self.because = error.to_string();
            }
        }
        self.budget.spend(records.len() as u64, Instant::now())
    }

    fn try_write(&mut self, records: &[u8]) -> io::Result<()> {
        if self.lost > 0 {
            let text = format!("[{} lines were lost: {}]", self.lost, self.because);
            let mut notice = Vec::new();
            append(&mut notice, now(), Stream::Holm, text.as_bytes());
            self.put(&notice)?;
            self.lost = 0;
        }
        self.put(records)
    }

    fn put(&mut self, records: &[u8]) -> io::Result<()> {
        if self.length > 0 && self.length + records.len() as u64 > FILE_SIZE {
            self.turn()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = open(&path(&self.logs, &self.service, 0))?;
                self.length = file.metadata()?.len();
                self.file.insert(file)
            }
        };
        if let Err(error) = file.write_all(records) {
            // A partial line would be read as the beginning of the next.
            file.set_len(self.length)?;
            return Err(error);
        }
        self.length += records.len() as u64;
        Ok(())
    }

    /// Rotates the files; the oldest is deleted.
    fn turn(&mut self) -> io::Result<()> {
        for age in (0..FILES - 1).rev() {
            let (from, to) = (age, age + 1);
            let renamed = std::fs::rename(
                path(&self.logs, &self.service, from),
                path(&self.logs, &self.service, to),
            );
            match renamed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = None;
        self.length = 0;
        Ok(())
    }
}

fn open(path: &std::path::Path) -> io::Result<File> {
    let mut file = File::options().create(true).append(true).open(path)?;
    // A killed keeper, or a full disk, may have left a partial line.
    let length = file.metadata()?.len();
    if length > 0 {
        let whole = whole_lines(path, length)?;
        if whole != length {
            file.set_len(whole)?;
        }
    }
    file.flush()?;
    Ok(file)
}

/// The length of the complete lines.
fn whole_lines(path: &std::path::Path, length: u64) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let file = File::open(path)?;
    let mut end = length;
    let mut chunk = vec![0; 128 * 1024];
    while end > 0 {
        let begin = end.saturating_sub(chunk.len() as u64);
        let piece = &mut chunk[..(end - begin) as usize];
        file.read_exact_at(piece, begin)?;
        if let Some(last) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

// === impl Budget ===

impl Budget {
    fn spend(&mut self, bytes: u64, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.at);
        let earned = (elapsed.as_secs_f64() * PER_SECOND as f64) as u64;
        self.left = self.left.saturating_add(earned).min(BURST);
        self.at = now;
        if bytes <= self.left {
            self.left -= bytes;
            return Duration::ZERO;
        }
        let debt = bytes - self.left;
        self.left = 0;
        let wait = Duration::from_secs_f64(debt as f64 / PER_SECOND as f64);
        // No budget accrues while it waits.
        self.at = now + wait;
        wait
    }
}

/// Writes a message of holm to the log of a service.
pub fn note(log: &Mutex<Log>, text: &str) {
    let mut records = Vec::new();
    append(&mut records, now(), Stream::Holm, text.as_bytes());
    lock(log).write(&records, 1);
}

pub fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::follow::Follower;
    use crate::logs::read::{Merged, Wanted};

    fn write(log: &mut Log, time: u64, text: &[u8]) {
        let mut records = Vec::new();
        append(
            &mut records,
            Duration::from_secs(time),
            Stream::Stdout,
            text,
        );
        log.write(&records, 1);
    }

    fn texts(mut merged: Merged) -> Vec<String> {
        let mut found = Vec::new();
        while let Some((service, record)) = merged.read().unwrap() {
            found.push(format!(
                "{service} {}",
                String::from_utf8(record.text).unwrap()
            ));
        }
        found
    }

    #[test]
    fn files_are_turned_and_the_disk_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = Log::new(directory.path().to_owned(), "web");
        let text = vec![b'x'; 60 * 1024];
        for time in 0..2000 {
            write(&mut log, time, &text);
        }
        write(&mut log, 5000, b"the last");
        let names = std::fs::read_dir(directory.path()).unwrap();
        let sizes: Vec<u64> = names
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert_eq!(sizes.len(), FILES);
        assert!(sizes.iter().all(|size| *size <= FILE_SIZE), "{sizes:?}");
        let wanted = Wanted {
            last: Some(2),
            ..Wanted::default()
        };
        let merged = Merged::open(directory.path(), &["web".to_owned()], wanted).unwrap();
        let found = texts(merged);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], "web the last");
        let all = Merged::open(directory.path(), &["web".to_owned()], Wanted::default()).unwrap();
        assert!(texts(all).len() > 500, "the other files are read too");
    }

    #[test]
    fn several_are_merged_by_time_and_half_a_line_is_left_for_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut api = Log::new(path.to_owned(), "api");
        let mut web = Log::new(path.to_owned(), "web");
        write(&mut api, 1, b"a1");
        write(&mut web, 2, b"w2");
        write(&mut web, 3, b"w3");
        write(&mut api, 4, b"a4");
        std::fs::OpenOptions::new()
            .append(true)
            .open(path.join("web.log"))
            .unwrap()
            .write_all(b"9.000000 o hal")
            .unwrap();
        let services = ["api".to_owned(), "web".to_owned()];
        let merged = Merged::open(path, &services, Wanted::default()).unwrap();
        assert_eq!(texts(merged), ["api a1", "web w2", "web w3", "api a4"]);
        let since = Wanted {
            since: Some(Duration::from_secs(3)),
            last: None,
        };
        let merged = Merged::open(path, &services, since).unwrap();
        assert_eq!(texts(merged), ["web w3", "api a4"]);
        let last = Wanted {
            since: None,
            last: Some(1),
        };
        let merged = Merged::open(path, &services, last).unwrap();
        assert_eq!(texts(merged), ["web w3", "api a4"]);
        // Opening the file for writing repairs it first.
        let mut web = Log::new(path.to_owned(), "web");
        write(&mut web, 10, b"w10");
        let merged = Merged::open(path, &services[1..], Wanted::default()).unwrap();
        assert_eq!(texts(merged), ["web w2", "web w3", "web w10"]);
    }

    #[test]
    fn followers_read_on_across_turned_files_and_say_what_they_missed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut log = Log::new(path.to_owned(), "web");
        let mut follower = Follower::new(path, "web", None);
        assert!(follower.read().unwrap().is_empty(), "nothing is there yet");
        write(&mut log, 1, b"one");
        let text = |follower: &mut Follower| {
            let mut all = Vec::new();
            loop {
                let records = follower.read().unwrap();
                if records.is_empty() {
                    return all;
                }
                all.extend(records.into_iter().map(|record| record.text));
            }
        };
        assert_eq!(text(&mut follower), [b"one"]);
        write(&mut log, 2, b"two");
        log.turn().unwrap();
        write(&mut log, 3, b"three");
        log.turn().unwrap();
        write(&mut log, 4, b"four");
        assert_eq!(
            text(&mut follower),
            [&b"two"[..], b"three", b"four"],
            "nothing is missed or told twice"
        );
        for time in 0..10 {
            log.turn().unwrap();
            write(&mut log, time, b"more");
        }
        let found = follower.read().unwrap();
        let notice = &found[0].text;
        assert!(notice.starts_with(b"[lines were left out"), "{found:?}");
        assert_eq!(
            found[0].time, found[1].time,
            "it stands before what is left"
        );
        assert_eq!(found.len() + text(&mut follower).len(), 1 + FILES);
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_said() {
        let directory = tempfile::tempdir().unwrap();
        let logs = directory.path().join("logs");
        let mut log = Log::new(logs.clone(), "web");
        write(&mut log, 1, b"lost");
        write(&mut log, 2, b"lost too");
        std::fs::create_dir(&logs).unwrap();
        write(&mut log, 3, b"kept");
        let merged = Merged::open(&logs, &["web".to_owned()], Wanted::default()).unwrap();
        let found = texts(merged);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found
                .iter()
                .any(|line| line.starts_with("web [2 lines were lost: "))
        );
        assert!(found.contains(&"web kept".to_owned()));
    }

    #[test]
    fn one_that_prints_without_end_is_slowed_down() {
        let begun = Instant::now();
        let mut budget = Budget {
            left: BURST,
            at: begun,
        };
        assert_eq!(budget.spend(BURST, begun), Duration::ZERO);
        assert_eq!(budget.spend(PER_SECOND, begun), Duration::from_secs(1));
        let later = begun + Duration::from_secs(3);
        assert_eq!(budget.spend(PER_SECOND, later), Duration::ZERO);
    }
}
