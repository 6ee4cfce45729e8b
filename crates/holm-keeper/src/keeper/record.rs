//! The egress record: JSON lines outside the workspace's reach.
//!
//! Repeated refusals are counted: the first is written at once, the others after a while as one
//! line. The guest chooses names and frequency, so everything is escaped and bounded.

use crate::records::egress::{FILES, older};
use holm_proxy::gateway::{Carried, Entry, EntryKind, Process};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// As services' logs.
const LARGEST: u64 = 10 << 20;

/// How long repeated refusals are counted before they are written.
const COUNTED_FOR: Duration = Duration::from_secs(5);

/// Distinct refusals that are counted at the same time.
const MOST_COUNTED: usize = 512;

pub struct Record {
    path: PathBuf,
    state: Mutex<State>,
    counting: Notify,
}

#[derive(Default)]
struct State {
    file: Option<File>,
    length: u64,
    counted: HashMap<String, Counted>,
    /// Refusals beyond that number.
    lost: u64,
    /// Lines about refusals that were written.
    refusals: u64,
}

struct Counted {
    line: Value,
    since: Instant,
    /// Without the first, which was written.
    more: u64,
}

// === impl Record ===

impl Record {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            state: Mutex::default(),
            counting: Notify::new(),
        }
    }

    pub fn write(&self, entry: &Entry) {
        let line = line(entry);
        let mut state = self.state();
        let repeats = !matches!(entry.kind, EntryKind::Connect(_) | EntryKind::Cut(..));
        if repeats {
            let key = key(entry);
            if let Some(counted) = state.counted.get_mut(&key) {
                counted.more += 1;
                return;
            }
            if state.counted.len() >= MOST_COUNTED {
                state.lost += 1;
                return;
            }
            let counted = Counted {
                line: line.clone(),
                since: Instant::now(),
                more: 0,
            };
            state.counted.insert(key, counted);
            self.counting.notify_one();
        }
        state.append(&self.path, &line);
    }

    /// How many lines about refusals were written: when it changes, the record has something new to say.
    pub fn refusals(&self) -> u64 {
        self.state().refusals
    }

    /// Writes counted entries periodically, for as long as the gateway runs.
    pub async fn keep_counting(&self) {
        loop {
            self.counting.notified().await;
            while !self.state().counted.is_empty() {
                tokio::time::sleep(COUNTED_FOR).await;
                self.settle(COUNTED_FOR);
            }
        }
    }

    /// Writes entries that were counted for at least `age`.
    pub fn settle(&self, age: Duration) {
        let mut state = self.state();
        let mut done = Vec::new();
        state.counted.retain(|_, counted| {
            let is_due = counted.since.elapsed() >= age;
            if is_due && counted.more > 0 {
                let mut line = counted.line.clone();
                line["count"] = json!(counted.more);
                line["time"] = json!(Timestamp::now().to_string());
                done.push(line);
            }
            !is_due
        });
        for line in done {
            state.append(&self.path, &line);
        }
        if state.lost > 0 {
            let lost = std::mem::take(&mut state.lost);
            let line = json!({
                "time": Timestamp::now().to_string(),
                "kind": "refuse",
                "reason": "too many different refusals to list",
                "count": lost,
            });
            state.append(&self.path, &line);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn append(&mut self, path: &Path, line: &Value) {
        if matches!(line["kind"].as_str(), Some("refuse" | "resolve")) {
            self.refusals += 1;
        }
        if let Err(error) = self.try_append(path, line) {
            complain!("cannot write the record of egress: {error}");
        }
    }

    fn try_append(&mut self, path: &Path, line: &Value) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        if self.length + text.len() as u64 > LARGEST {
            self.file = None;
            rotate(path)?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = File::options().create(true).append(true).open(path)?;
                self.length = file.metadata()?.len();
                self.file.insert(file)
            }
        };
        file.write_all(&text)?;
        self.length += text.len() as u64;
        Ok(())
    }
}

/// `egress.jsonl` becomes `egress.jsonl.1`, and so on; the oldest is deleted.
fn rotate(path: &Path) -> io::Result<()> {
    let full = (1..FILES - 1)
        .rev()
        .map(|number| (older(path, number), number + 1));
    for (from, number) in full.chain([(path.to_owned(), 1)]) {
        match std::fs::rename(from, older(path, number)) {
            // A user deleted it; that must not end the record.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
    }
    Ok(())
}

/// Equal for refusals that are counted together.
fn key(entry: &Entry) -> String {
    let process = entry.process.as_ref().map(|process| &process.name);
    let Entry {
        kind,
        name,
        address,
        port,
        ..
    } = entry;
    format!("{kind:?} {name:?} {address:?} {port:?} {process:?}")
}

fn line(entry: &Entry) -> Value {
    let (kind, carried, failure) = match &entry.kind {
        EntryKind::Connect(carried) => ("connect", Some(*carried), None),
        EntryKind::Cut(carried, _) => ("cut", Some(*carried), None),
        EntryKind::Fail { why } => ("fail", None, Some(why.clone())),
        EntryKind::Refuse(_) => ("refuse", None, None),
        EntryKind::Resolve(_) => ("resolve", None, None),
    };
    let reason = entry.reason().map(ToString::to_string).or(failure);
    let Carried {
        bytes_in,
        bytes_out,
        duration,
    } = carried.unwrap_or_default();
    let process = |process: &Process| json!({"pid": process.pid, "name": process.name});
    json!({
        "time": Timestamp::now().to_string(),
        "kind": kind,
        "name": entry.name,
        "address": entry.address,
        "port": entry.port,
        "bytes_in": carried.map(|_| bytes_in),
        "bytes_out": carried.map(|_| bytes_out),
        "duration_ms": carried.map(|_| duration.as_millis() as u64),
        "process": entry.process.as_ref().map(process),
        "secrets": entry.secrets,
        "reason": reason,
        "allow": entry.line_that_allows(),
        "count": 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oldest first, whether they are there or not.
    fn files_of(path: &Path) -> Vec<PathBuf> {
        let older = (1..FILES).rev().map(|number| older(path, number));
        older.chain([path.to_owned()]).collect()
    }
    use holm_core::egress::Reason;

    fn refusal(name: &str) -> Entry {
        Entry {
            kind: EntryKind::Resolve(Reason::NotListed),
            name: Some(name.to_owned()),
            address: None,
            port: None,
            process: Some(Process {
                pid: 7,
                name: name.to_owned(),
            }),
            secrets: Vec::new(),
        }
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn the_newest_five_files_are_kept_and_each_is_full() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("egress.jsonl");
        let record = Record::new(path.clone());
        // Long names to fill the file quickly; each differs, so that none is only counted.
        let long = "x".repeat(200_000);
        let mut written = 0;
        for number in 0..110 {
            record.write(&refusal(&format!("{number}-{long}")));
            written += 1;
        }
        let kept: Vec<PathBuf> = files_of(&path)
            .into_iter()
            .filter(|file| file.exists())
            .collect();
        assert_eq!(kept, files_of(&path), "five, the oldest first");
        assert_eq!(place.path().read_dir().unwrap().count(), 5);
        let mut numbers = Vec::new();
        for file in &kept {
            let length = file.metadata().unwrap().len();
            assert!(length <= LARGEST, "{length}");
            assert!(*file == path || length > LARGEST - 1_000_000, "{length}");
            numbers.extend(lines(file).iter().map(|line| {
                let name = line["name"].as_str().unwrap();
                name.split('-').next().unwrap().parse::<u32>().unwrap()
            }));
        }
        // Without a gap, up to the last one written.
        let first = numbers[0];
        assert!(first > 0, "the oldest are gone");
        assert_eq!(numbers, (first..written).collect::<Vec<_>>());
    }

    #[test]
    fn a_record_that_was_deleted_goes_on() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("egress.jsonl");
        let record = Record::new(path.clone());
        let long = "x".repeat(2_000_000);
        record.write(&refusal(&format!("a{long}")));
        std::fs::remove_file(&path).unwrap();
        for name in ["b", "c"] {
            record.write(&refusal(&format!("{name}{long}")));
        }
        assert_eq!(lines(&path).len(), 1);
    }

    #[test]
    fn what_a_guest_calls_things_is_one_line() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("egress.jsonl");
        let record = Record::new(path.clone());
        let forged = "a\n{\"kind\":\"connect\",\"name\":\"forged\"}\r\u{1b}[2J\"\\\u{85}\u{2028}";
        record.write(&refusal(forged));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.contains(['\r', '\u{1b}']), "{text}");
        let found = lines(&path);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["name"], forged);
        assert_eq!(found[0]["kind"], "resolve");
    }
}
