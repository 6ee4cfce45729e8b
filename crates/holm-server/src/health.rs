//! `GET /health`: checks whether the daemon can do its work, by doing a little of it.
//!
//! The result is cached for a moment, so that frequent requests cost nothing. The reasons of
//! failures are only logged: this route needs no authentication.

use super::{App, view};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holm_api::daemon::Doctor;
use holm_api::health::{Condition, Health};
use holm_config::paths::Paths;
use holm_core::Fault;
use holm_engine::try_blocking;
use jiff::Timestamp;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::collections::BTreeMap;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The cached result.
#[derive(Default)]
pub struct LastHealth {
    found: Mutex<Option<(Instant, Health)>>,
    drivers: Mutex<Option<(Instant, BTreeMap<String, Condition>)>>,
}

/// How long the result is cached.
const FRESH: Duration = Duration::from_millis(500);

/// The machine rarely changes, and checking all of it takes a moment.
const DRIVER_FRESH: Duration = Duration::from_secs(60);

/// A check that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(health))
}

/// Whether the daemon is well: its store and its directory are tried.
#[utoipa::path(
    get,
    path = "/health",
    operation_id = "health",
    security(()),
    responses(
        (status = 200, description = "Everything is well.", body = Health),
        (status = 503, description = "Something is not.", body = Health)
    )
)]
async fn health(State(app): State<Arc<App>>) -> (StatusCode, Json<Health>) {
    let health = app.health().await;
    let status = match health.status {
        Condition::Ok => StatusCode::OK,
        Condition::Failing => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(health))
}

// === impl App ===

impl App {
    /// Concurrent requests wait for one check.
    async fn health(&self) -> Health {
        let mut last = self.health.found.lock().await;
        if let Some((at, health)) = &*last
            && at.elapsed() < FRESH
        {
            return health.clone();
        }
        let paths = self.paths.clone();
        let (store, directory, places, drivers) = tokio::join!(
            judged("the store", self.engine.check_store()),
            judged("the data directory", {
                let directory = paths.data_dir.clone();
                try_blocking(move || write_and_read(&directory))
            }),
            try_blocking(move || Ok(unusable_places(&paths))),
            self.driver_conditions(),
        );
        let places = places.unwrap_or_default();
        for place in &places {
            tracing::warn!(place, "not well: it is missing, or cannot be written");
        }
        let data_dir = condition(directory == Condition::Ok && places.is_empty());
        let parts = [
            (store, "the store cannot be read and written".to_owned()),
            (directory, "the data directory cannot be written".to_owned()),
        ];
        let of_drivers = drivers.iter().map(|(name, condition)| {
            let words = format!("the driver {name} cannot make workspaces");
            (*condition, words)
        });
        let failing = parts
            .into_iter()
            .chain(of_drivers)
            .filter(|(part, _)| *part == Condition::Failing);
        let missing = places.into_iter();
        let missing = missing.map(|place| format!("{place} is missing or cannot be written"));
        let problems: Vec<String> = failing.map(|(_, words)| words).chain(missing).collect();
        let health = Health {
            status: condition(problems.is_empty()),
            store,
            data_dir,
            drivers,
            timestamp: view::time(Timestamp::now()),
            problems,
        };
        *last = Some((Instant::now(), health.clone()));
        health
    }

    async fn driver_conditions(&self) -> BTreeMap<String, Condition> {
        let mut last = self.health.drivers.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < DRIVER_FRESH
        {
            return found.clone();
        }
        let mut found = BTreeMap::new();
        for driver in self.engine.drivers().all() {
            let checks = driver.probe().await;
            let is_fit = checks.is_ok_and(|checks| Doctor::new(checks, None).ok);
            found.insert(driver.name().as_str().to_owned(), condition(is_fit));
        }
        *last = Some((Instant::now(), found.clone()));
        found
    }
}

async fn judged(what: &str, trying: impl Future<Output = Result<(), Fault>>) -> Condition {
    let why = match tokio::time::timeout(PATIENCE, trying).await {
        Ok(Ok(())) => return Condition::Ok,
        Ok(Err(fault)) => fault.to_string(),
        Err(_) => "it takes too long".to_owned(),
    };
    tracing::warn!(what, why, "not well");
    Condition::Failing
}

fn condition(is_well: bool) -> Condition {
    if is_well {
        Condition::Ok
    } else {
        Condition::Failing
    }
}

/// Paths of the daemon that cannot be used, by names that reveal nothing about this machine.
fn unusable_places(paths: &Paths) -> Vec<String> {
    let below = super::DIRECTORIES.map(|name| (paths.data_dir.join(name), name));
    let mut places = below.to_vec();
    places.push((paths.run_dir.join("w"), "the directory of sockets"));
    let is_usable = |place: &Path| {
        let is_open = accessat(
            CWD,
            place,
            Access::WRITE_OK | Access::EXEC_OK,
            AtFlags::EACCESS,
        );
        place.is_dir() && is_open.is_ok()
    };
    places.retain(|(place, _)| !is_usable(place));
    let names = places.into_iter().map(|(_, name)| name.to_owned());
    names.collect()
}

fn write_and_read(directory: &Path) -> Result<(), Fault> {
    let tried = || {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(b"well")?;
        file.rewind()?;
        let mut read = String::new();
        file.read_to_string(&mut read)?;
        if read == "well" {
            Ok(())
        } else {
            Err(std::io::Error::other(
                "what was written is not what is read",
            ))
        }
    };
    tried().map_err(|error| super::startup::unusable("write below", directory, error))
}
