//! `GET /health`: whether the daemon can do its work, found out by doing a little of it.
//!
//! What was found is told for a moment, so that asking often costs nothing. Why something fails is in
//! the log: whoever asks here need not be anybody.

use super::{App, view};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holm_api::health::{Condition, Health};
use holm_core::Fault;
use holm_engine::{Driver, try_blocking};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What was found last.
#[derive(Default)]
pub struct LastHealth {
    found: Mutex<Option<(Instant, Health)>>,
    driver: Mutex<Option<(Instant, Condition)>>,
}

/// What was found is told for so long.
const FRESH: Duration = Duration::from_millis(500);

/// The machine does not change often, and looking at all of it takes a moment.
const DRIVER_FRESH: Duration = Duration::from_secs(60);

/// Whatever takes longer is not well.
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
    /// Those who ask at the same time wait for one look.
    async fn health(&self) -> Health {
        let mut last = self.health.found.lock().await;
        if let Some((at, health)) = &*last
            && at.elapsed() < FRESH
        {
            return health.clone();
        }
        let directory = self.paths.data_dir.clone();
        let (store, data_dir, driver) = tokio::join!(
            judged("the store", self.engine.check_store()),
            judged(
                "the data directory",
                try_blocking(move || write_and_read(&directory))
            ),
            self.driver_condition(),
        );
        let is_well = [store, data_dir, driver] == [Condition::Ok; 3];
        let health = Health {
            status: condition(is_well),
            store,
            data_dir,
            drivers: BTreeMap::from([(self.engine.driver().name().to_owned(), driver)]),
            timestamp: view::time(Timestamp::now()),
        };
        *last = Some((Instant::now(), health.clone()));
        health
    }

    async fn driver_condition(&self) -> Condition {
        let mut last = self.health.driver.lock().await;
        match &*last {
            Some((at, found)) if at.elapsed() < DRIVER_FRESH => *found,
            _ => {
                let checks = self.engine.driver().doctor().await;
                let is_fit = checks.is_ok_and(|checks| crate::fitness::document(checks, None).ok);
                *last = Some((Instant::now(), condition(is_fit)));
                condition(is_fit)
            }
        }
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
    match is_well {
        true => Condition::Ok,
        false => Condition::Failing,
    }
}

fn write_and_read(directory: &Path) -> Result<(), Fault> {
    let tried = || {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(b"well")?;
        file.rewind()?;
        let mut read = String::new();
        file.read_to_string(&mut read)?;
        match read == "well" {
            true => Ok(()),
            false => Err(std::io::Error::other(
                "what was written is not what is read",
            )),
        }
    };
    tried().map_err(|error| super::startup::unusable("write below", directory, &error))
}
