//! Starts workspaces again whose processes ended although they should run: after a reboot, and when their
//! keeper or init was killed. `[daemon] resume` is about reboots only.
//!
//! Only the workspace and its services start. Runs and sessions that were interrupted are recorded as such and
//! are not repeated. A workspace that needs stored secrets waits until they are unlocked.

use super::App;
use super::routes::{Death, Deaths};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::{Revival, is_without, try_blocking};
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

/// The pause before the daemon looks again whether the old processes have ended. It doubles each time.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(15);

/// How often to look whether secrets are unlocked.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What to tell about workspaces that are not started yet. Clones share it.
#[derive(Clone, Default)]
pub struct Waiting(Arc<Mutex<HashMap<WorkspaceId, String>>>);

/// How often each workspace was started again of late. Clones share it.
#[derive(Clone, Default)]
struct Tries(Arc<Mutex<HashMap<WorkspaceId, Tried>>>);

struct Tried {
    count: u32,
    last: Instant,
}

/// Handles deaths until the daemon stops.
pub async fn begin(app: Arc<App>, mut deaths: Deaths) {
    let tries = Tries::default();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(Death { id, by_reboot }) = deaths.recv().await {
        let is_wanted = if by_reboot {
            app.wants_resume().await
        } else {
            !is_without("revival")
        };
        if !is_wanted {
            continue;
        }
        let pause = if by_reboot {
            Duration::ZERO
        } else {
            let Some(pause) = tries.next_pause(&id, Instant::now()) else {
                let note = format!("it was started again {TRIES} times, and died each time");
                app.waiting.note(&id, Some(note));
                tracing::warn!(%id, "a workspace keeps dying and is not started again");
                continue;
            };
            pause
        };
        let (app, turns, tries) = (Arc::clone(&app), Arc::clone(&turns), tries.clone());
        tokio::spawn(async move { app.bring_back(&id, pause, &turns, &tries).await });
    }
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

    /// Starts a workspace after a pause, and again after a longer one if that fails.
    async fn bring_back(
        &self,
        id: &WorkspaceId,
        mut pause: Duration,
        turns: &Semaphore,
        tries: &Tries,
    ) {
        loop {
            if !is_without("revival_pause") {
                tokio::time::sleep(pause).await;
            }
            let fault = match self.start_again(id, turns).await {
                Ok(()) => return,
                // A request removed the workspace meanwhile.
                Err(fault) if fault.code == Code::WorkspaceNotFound => return,
                Err(fault) => fault,
            };
            tracing::warn!(%id, %fault, "not started again");
            let note = format!("it could not be started again: {fault}");
            let Some(next) = tries.next_pause(id, Instant::now()) else {
                let note = format!("{note}; that was the last of {TRIES} tries");
                return self.waiting.note(id, Some(note));
            };
            pause = next;
            let seconds = pause.as_secs();
            let note = format!("{note}; the next try is in {seconds} s");
            self.waiting.note(id, Some(note));
        }
    }

    async fn start_again(&self, id: &WorkspaceId, turns: &Semaphore) -> Result<(), Fault> {
        // A workspace that waits for its secrets keeps no turn from others.
        self.wait_for_secrets(id).await?;
        self.waiting.note(id, None);
        let mut pause = FIRST_LOOK;
        loop {
            let revival = {
                // The semaphore is never closed.
                let _turn = turns.acquire().await;
                self.engine.revive(id).await?
            };
            match revival {
                Revival::Started => tracing::info!(%id, "started again"),
                Revival::NotDown if pause <= LONGEST_LOOK => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    continue;
                }
                Revival::NotDown => {
                    let message = "the processes of its last start do not end";
                    let hint = format!("`holm stop {id}` ends them");
                    return Err(Fault::new(Code::StartFailed, message, hint));
                }
                Revival::Unneeded => {}
            }
            return Ok(());
        }
    }

    /// Waits until the values that the workspace needs can be read.
    async fn wait_for_secrets(&self, id: &WorkspaceId) -> Result<(), Fault> {
        loop {
            if self.engine.spec(id).await?.secrets.is_empty() {
                return Ok(());
            }
            let secrets = Arc::clone(&self.secrets);
            // The keyring may be asked, which takes some seconds at most.
            if !try_blocking(move || secrets.with(|vault| Ok(vault.is_locked()))).await? {
                return Ok(());
            }
            let note = "it waits for its secrets, which are locked; `holm secret unlock`";
            self.waiting.note(id, Some(note.to_owned()));
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

// === impl Tries ===

impl Tries {
    /// The pause before the next try; `None`: there were enough.
    fn next_pause(&self, id: &WorkspaceId, now: Instant) -> Option<Duration> {
        let first = Tried {
            count: 0,
            last: now,
        };
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = tries.entry(id.clone()).or_insert(first);
        if now.duration_since(tried.last) > RECOVERED {
            tried.count = 0;
        }
        if tried.count >= TRIES {
            return None;
        }
        let pause = FIRST_PAUSE * 2_u32.pow(tried.count);
        tried.count += 1;
        tried.last = now;
        Some(pause)
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
        let (tries, id, start) = (Tries::default(), WorkspaceId::random(), Instant::now());
        let seconds = |number| Some(Duration::from_secs(number));
        for expect in [1, 2, 4, 8, 16] {
            assert_eq!(tries.next_pause(&id, start), seconds(expect));
        }
        assert_eq!(tries.next_pause(&id, start), None);
        let other = WorkspaceId::random();
        assert_eq!(tries.next_pause(&other, start), seconds(1));
        let later = start + RECOVERED + Duration::from_secs(1);
        assert_eq!(tries.next_pause(&id, later), seconds(1));
    }
}
