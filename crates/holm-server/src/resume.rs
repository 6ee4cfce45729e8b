//! Starts workspaces again whose processes ended although they should run: after a reboot, and when their
//! keeper or init was killed. `[daemon] resume` is about reboots only.
//!
//! Only the workspace and its services start. Runs and sessions that were interrupted are recorded as such and
//! are not repeated. A workspace that needs stored secrets waits until they are unlocked.

use super::App;
use super::routes::{Death, Deaths};
use holm_core::{Code, WorkspaceId};
use holm_engine::{is_without, try_blocking};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How often a workspace that keeps dying is started again.
const TRIES: u32 = 5;

/// The pause before the first try; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A workspace that ran for this long has recovered: its next death counts as the first.
const RECOVERED: Duration = Duration::from_secs(600);

/// How many are started at the same time after a reboot.
const AT_ONCE: usize = 4;

/// How often to look whether secrets are unlocked.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What to tell about workspaces that are not started yet. Clones share it.
#[derive(Clone, Default)]
pub struct Waiting(Arc<Mutex<HashMap<WorkspaceId, String>>>);

struct Tries {
    count: u32,
    last: Instant,
}

/// Handles deaths until the daemon stops.
pub async fn begin(app: Arc<App>, mut deaths: Deaths) {
    let mut tries: HashMap<WorkspaceId, Tries> = HashMap::new();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(Death { id, by_reboot }) = deaths.recv().await {
        let is_wanted = match by_reboot {
            true => app.wants_resume().await,
            false => !is_without("revival"),
        };
        if !is_wanted {
            continue;
        }
        let pause = if by_reboot {
            Duration::ZERO
        } else {
            let Some(pause) = next_pause(&mut tries, &id, Instant::now()) else {
                let note = format!("it was started again {TRIES} times, and died each time");
                app.waiting.note(&id, Some(note));
                tracing::warn!(%id, "a workspace keeps dying and is not started again");
                continue;
            };
            pause
        };
        let (app, turns) = (Arc::clone(&app), Arc::clone(&turns));
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // The semaphore is never closed.
            let _turn = turns.acquire().await;
            app.start_again(&id).await;
        });
    }
}

/// The pause before the next try; `None`: there were enough.
fn next_pause(
    tries: &mut HashMap<WorkspaceId, Tries>,
    id: &WorkspaceId,
    now: Instant,
) -> Option<Duration> {
    let first = Tries {
        count: 0,
        last: now,
    };
    let tries = tries.entry(id.clone()).or_insert(first);
    if now.duration_since(tries.last) > RECOVERED {
        tries.count = 0;
    }
    if tries.count >= TRIES {
        return None;
    }
    let pause = FIRST_PAUSE * 2_u32.pow(tries.count);
    tries.count += 1;
    tries.last = now;
    Some(pause)
}

// === impl App ===

impl App {
    async fn wants_resume(&self) -> bool {
        let (file, home) = (self.paths.config_file.clone(), self.home());
        let settings = try_blocking(move || holm_config::user::load(&file, &home)).await;
        settings.map_or_else(
            |fault| {
                tracing::warn!(%fault, "settings are not understood; nothing is started again");
                false
            },
            |settings| settings.resume,
        )
    }

    async fn start_again(&self, id: &WorkspaceId) {
        if !self.wait_for_secrets(id).await {
            return;
        }
        self.waiting.note(id, None);
        match self.engine.revive(id).await {
            Ok(true) => tracing::info!(%id, "started again"),
            // A request stopped, started or removed the workspace meanwhile.
            Ok(false) => {}
            Err(fault) if fault.code == Code::WorkspaceNotFound => {}
            Err(fault) => {
                self.waiting
                    .note(id, Some(format!("it could not be started again: {fault}")));
                tracing::warn!(%id, %fault, "not started again");
            }
        }
    }

    /// Waits until the values that the workspace needs can be read. `false`: it is gone.
    async fn wait_for_secrets(&self, id: &WorkspaceId) -> bool {
        loop {
            let Ok(spec) = self.engine.spec(id).await else {
                return false;
            };
            if spec.secrets.is_empty() {
                return true;
            }
            let secrets = Arc::clone(&self.secrets);
            // The keyring may be asked, which takes some seconds at most.
            let looking = try_blocking(move || secrets.with(|vault| Ok(vault.is_locked())));
            if !looking.await.unwrap_or(false) {
                return true;
            }
            let note = "it waits for its secrets, which are locked; `holm secret unlock`";
            self.waiting.note(id, Some(note.to_owned()));
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

// === impl Waiting ===

impl Waiting {
    /// The note about a workspace, if there is one.
    pub fn of(&self, id: &WorkspaceId) -> Option<String> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.get(id).cloned()
    }

    fn note(&self, id: &WorkspaceId, note: Option<String>) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match note {
            Some(note) => notes.insert(id.clone(), note),
            None => notes.remove(id),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_tries_with_growing_pauses_then_none_until_it_recovered() {
        let (mut tries, id, start) = (HashMap::new(), WorkspaceId::random(), Instant::now());
        let seconds = |number| Some(Duration::from_secs(number));
        for expect in [1, 2, 4, 8, 16] {
            assert_eq!(next_pause(&mut tries, &id, start), seconds(expect));
        }
        assert_eq!(next_pause(&mut tries, &id, start), None);
        let other = WorkspaceId::random();
        assert_eq!(next_pause(&mut tries, &other, start), seconds(1));
        let later = start + RECOVERED + Duration::from_secs(1);
        assert_eq!(next_pause(&mut tries, &id, later), seconds(1));
    }
}
