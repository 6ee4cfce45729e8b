//! Periodic work of the daemon: hourly, and at its start, it deletes expired trash and expired
//! secrets; and, if the settings say so, it stops and removes idle workspaces. The engine does none
//! of this while the clock is not believed; this module reports that once.
//!
//! Settings are read each time, so a change needs no restart. With unreadable settings nothing is
//! done: the log says so, and so does every command that needs them.

use super::App;
use holm_core::Fault;
use holm_core::idle::IdleLimits;
use holm_engine::clock;
use holm_engine::try_blocking;
use holm_engine::{Collect, Progress, Swept};
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(3600);

/// How often the clock and the log of the store are checked.
const CLOCK_EVERY: Duration = Duration::from_secs(1);

/// Starts all of it, until the daemon stops.
pub fn begin(app: &Arc<App>) {
    let collecting = Arc::clone(app);
    let sweeping = Arc::clone(app);
    tokio::spawn(async move {
        let work = async {
            loop {
                collecting.collect_expired().await;
                collecting.sweep_browsers().await;
                collecting.settle_secrets().await;
                if let Err(fault) = collecting.engine.forget_old_keys().await {
                    tracing::warn!(%fault, "old keys of requests were not forgotten");
                }
                tokio::time::sleep(EVERY).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = super::stopped(Arc::clone(&collecting)) => {}
        }
    });
    tokio::spawn(super::until_stopped(
        Arc::clone(app),
        watch_clock(Arc::clone(app)),
    ));
    tokio::spawn(async move {
        let work = async {
            loop {
                let limits = sweeping.idle_limits().await;
                let limits = limits.unwrap_or_else(|fault| {
                    tracing::warn!(%fault, "settings are not understood; idle workspaces stay");
                    IdleLimits::default()
                });
                sweeping.routes.note_traffic().await;
                let swept = sweeping.engine.sweep_idle(clock::wall(), limits).await;
                match swept {
                    Ok(swept) => {
                        for Swept { id, what } in swept {
                            let audit = &sweeping.audit;
                            audit.note_own("idle", Some(id), what.to_owned()).await;
                        }
                    }
                    Err(fault) => tracing::warn!(%fault, "idle workspaces were not looked for"),
                }
                tokio::time::sleep(limits.pause()).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = super::stopped(Arc::clone(&sweeping)) => {}
        }
    });
}

/// Stores clock readings, and reports when the clock becomes implausible and plausible again.
async fn watch_clock(app: Arc<App>) {
    let mut is_doubted = false;
    let mut outages = app.engine.store_outages();
    loop {
        let doubt = app.engine.clock().look().doubt();
        if doubt.is_some() != is_doubted {
            is_doubted = doubt.is_some();
            let message = doubt.unwrap_or_else(|| "the clock is believed again".to_owned());
            tracing::warn!("{message}");
            app.audit.note_own("clock", None, message).await;
        }
        if let Err(fault) = app.engine.keep_clock().await {
            tracing::warn!(%fault, "what the clock said is not stored");
        }
        let ended = app.engine.store_outages();
        if ended != outages {
            outages = ended;
            // Operations that the outage interrupted are finished or undone.
            match app.engine.catch_up().await {
                Ok(recovery) => tracing::info!(?recovery, "caught up after the database was lost"),
                Err(fault) => tracing::warn!(%fault, "not caught up after the database was lost"),
            }
        }
        if let Err(fault) = app.engine.tidy_store().await {
            tracing::warn!(%fault, "the log of the store was not moved into its file");
        }
        tokio::time::sleep(CLOCK_EVERY).await;
    }
}

// === impl App ===

impl App {
    async fn collect_expired(&self) {
        if let Some(doubt) = self.engine.clock().look().doubt() {
            tracing::warn!("nothing is collected: {doubt}");
            return;
        }
        let collected = async {
            let keep_for = self.keep_for().await?;
            let collect = Collect::ExpiredTrash;
            self.engine
                .collect(keep_for, collect, Progress::default())
                .await
        };
        match collected.await {
            Ok(collected) => {
                for gone in &collected.removed {
                    tracing::info!(kind = %gone.kind, name = %gone.name, bytes = gone.bytes, "deleted");
                    let outcome = format!("deleted the {} {}", gone.kind, gone.name);
                    self.audit.note_own("/gc", None, outcome).await;
                }
                for fault in &collected.faults {
                    tracing::warn!(%fault, "not deleted");
                }
            }
            Err(fault) => tracing::warn!(%fault, "the trash was not looked through"),
        }
    }

    async fn idle_limits(&self) -> Result<IdleLimits, Fault> {
        let (file, home) = (self.paths.config_file.clone(), self.home());
        let settings = try_blocking(move || holm_config::user::load(&file, &home)).await?;
        Ok(IdleLimits {
            stop_after: settings.stop_after,
            remove_after: settings.remove_after,
        })
    }
}
