//! The record of secrets that were put into requests: which secret, workspace and host.
//!
//! The first use is recorded before it happens, and nothing is sent if that fails. Repetitions
//! within a minute are counted and written as one line, because the guest chooses the rate.

use holm_secrets::audit::{Chain, Happening};
use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

const COUNTED_FOR: Duration = Duration::from_secs(60);

pub struct Uses {
    chain: Chain,
    workspace: String,
    /// By secret and host, as many as `holm.toml` names.
    counted: Mutex<HashMap<(String, String), Counted>>,
    counting: Notify,
}

struct Counted {
    since: Instant,
    /// Without the first, which was written.
    more: u64,
}

// === impl Uses ===

impl Uses {
    pub fn new(directory: &Path, workspace: String) -> Self {
        Self {
            chain: Chain::in_directory(directory),
            workspace,
            counted: Mutex::default(),
            counting: Notify::new(),
        }
    }

    /// Records a use. When this returns it is on disk, or counted.
    pub fn note(&self, secrets: &BTreeSet<String>, host: &str) -> io::Result<()> {
        let mut counted = self.counted();
        let mut fresh = Vec::new();
        for secret in secrets {
            match counted.get_mut(&(secret.clone(), host.to_owned())) {
                Some(counted) => counted.more += 1,
                None => fresh.push(secret.clone()),
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let happened = fresh.iter().map(|secret| self.used(secret, host, None));
        self.chain.append(&happened.collect::<Vec<_>>())?;
        for secret in fresh {
            let begun = Counted {
                since: Instant::now(),
                more: 0,
            };
            counted.insert((secret, host.to_owned()), begun);
        }
        self.counting.notify_one();
        Ok(())
    }

    /// Writes counted entries periodically, for as long as the gateway runs.
    pub async fn keep_counting(&self) {
        loop {
            self.counting.notified().await;
            while !self.counted().is_empty() {
                tokio::time::sleep(COUNTED_FOR).await;
                self.settle(COUNTED_FOR);
            }
        }
    }

    /// Writes entries that were counted for at least `age`.
    pub fn settle(&self, age: Duration) {
        let mut counted = self.counted();
        let mut happened = Vec::new();
        counted.retain(|(secret, host), counted| {
            let is_due = counted.since.elapsed() >= age;
            if is_due && counted.more > 0 {
                happened.push(self.used(secret, host, Some(counted.more)));
            }
            !is_due
        });
        if let Err(error) = self.chain.append(&happened) {
            complain!("how often secrets were used cannot be written down: {error}");
        }
    }

    fn used(&self, secret: &str, host: &str, count: Option<u64>) -> Happening {
        Happening {
            time: Timestamp::now().to_string(),
            event: "used".to_owned(),
            who: "holm".to_owned(),
            secret: Some(secret.to_owned()),
            workspace: Some(self.workspace.clone()),
            form: Some("placeholder".to_owned()),
            host: Some(host.to_owned()),
            count,
            ..Happening::default()
        }
    }

    fn counted(&self) -> MutexGuard<'_, HashMap<(String, String), Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_is_written_and_the_others_are_counted() {
        let place = tempfile::tempdir().unwrap();
        let uses = Uses::new(place.path(), "w1".to_owned());
        let lines = || {
            let read = Chain::in_directory(place.path())
                .read()
                .unwrap()
                .into_iter();
            read.map(|line| {
                let used = line.happening;
                (used.secret.unwrap(), used.host.unwrap(), used.count)
            })
            .collect::<Vec<_>>()
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let line = |secret: &str, host: &str, count| (secret.to_owned(), host.to_owned(), count);
        for _ in 0..5 {
            uses.note(&names(&["A"]), "a.test").unwrap();
        }
        uses.note(&names(&["A", "B"]), "b.test").unwrap();
        let mut expect = vec![
            line("A", "a.test", None),
            line("A", "b.test", None),
            line("B", "b.test", None),
        ];
        assert_eq!(lines(), expect);
        uses.settle(COUNTED_FOR);
        assert_eq!(lines(), expect);
        uses.settle(Duration::ZERO);
        expect.push(line("A", "a.test", Some(4)));
        assert_eq!(lines(), expect);
        uses.note(&names(&["A"]), "a.test").unwrap();
        expect.push(line("A", "a.test", None));
        assert_eq!(lines(), expect);
    }

    #[test]
    fn what_cannot_be_written_is_an_error_every_time() {
        let place = tempfile::tempdir().unwrap();
        let uses = Uses::new(&place.path().join("gone"), "w1".to_owned());
        for _ in 0..2 {
            uses.note(&BTreeSet::from(["A".to_owned()]), "a.test")
                .unwrap_err();
        }
    }
}
