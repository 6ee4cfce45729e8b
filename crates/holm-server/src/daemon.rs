//! `/daemon` and `/doctor`: the daemon's status and its machine.

use super::failure::{Answer, Body};
use super::listen::user_name;
use super::{App, view};
use axum::Json;
use axum::extract::State;
use holm_api::daemon::{Doctor, Status, Stop};
use holm_core::Fault;
use holm_core::fitness::Check;
use holm_core::plan::State as Condition;
use std::sync::Arc;
use tokio::task::JoinSet;

operations! {
    [ping]
    /// The daemon's status.
    get "/daemon" "daemon_status" status -> Status;
    /// Stops the daemon; workspaces go on, unless `all` says otherwise.
    post "/daemon/stop" "daemon_stop" stop sends Stop -> Status;
    /// Checks whether this machine can run workspaces.
    get "/doctor" "doctor" doctor -> Doctor;
}

/// Answers when the daemon is alive.
#[utoipa::path(
    get,
    path = "/ping",
    operation_id = "ping",
    responses((status = 200, body = serde_json::Value))
)]
async fn ping() -> Json<serde_json::Value> {
    Json(serde_json::json!({}))
}

async fn status(State(app): State<Arc<App>>) -> Answer<Status> {
    Ok(Json(app.status().await?))
}

async fn stop(State(app): State<Arc<App>>, Body(stop): Body<Stop>) -> Answer<Status> {
    // Checks belong to this daemon.
    if let Err(fault) = app.cancel_checks(|_| true).await {
        tracing::warn!(%fault, "the next daemon undoes it");
    }
    if stop.all {
        app.stop_workspaces().await?;
        app.end_browsers(|_| true).await;
    }
    let status = app.status().await;
    // A daemon that is told to stop does so, whatever is wrong with its state.
    app.stop.send_replace(true);
    Ok(Json(status?))
}

async fn doctor(State(app): State<Arc<App>>) -> Answer<Doctor> {
    let mut checks = app.probe().await?;
    checks.push(app.check_of_key().await);
    checks.push(app.policy.check());
    checks.push(app.check_of_clock());
    Ok(Json(Doctor::new(checks, Some(std::process::id()))))
}

// === impl App ===

impl App {
    /// What every driver says of this machine.
    async fn probe(&self) -> Result<Vec<holm_core::fitness::Check>, Fault> {
        let mut checks = Vec::new();
        for driver in self.engine.drivers().all() {
            checks.extend(driver.probe().await?);
        }
        Ok(checks)
    }

    async fn status(&self) -> Result<Status, Fault> {
        let views = self.engine.list().await?;
        let running = views.iter().filter(|view| view.state == Condition::Running);
        let uid = rustix::process::geteuid().as_raw();
        Ok(Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            user: user_name(uid),
            uid,
            data_dir: self.paths.data_dir.display().to_string(),
            socket: self.paths.socket().display().to_string(),
            port: self.routes.front_door().port(),
            started_at: view::time(self.started_at),
            workspaces: views.len() as u64,
            running: running.count() as u64,
        })
    }

    fn check_of_clock(&self) -> Check {
        let doubt = self.engine.clock().look().doubt();
        let fix = "set the clock right; if it is right, type `holm gc`";
        let fix = doubt.as_ref().map(|_| fix.to_owned());
        let detail = doubt.unwrap_or_else(|| "it agrees with the time since the boot".to_owned());
        Check::optional("clock", detail, fix)
    }

    /// Stops every running workspace concurrently, and ends leftovers of failed ones. Fails if one
    /// does not stop.
    async fn stop_workspaces(&self) -> Result<(), Fault> {
        let mut stops = JoinSet::new();
        for view in self.engine.list().await? {
            if matches!(view.state, Condition::Running | Condition::Failed) {
                let engine = self.engine.clone();
                stops.spawn(async move { engine.stop(&view.record.id).await });
            }
        }
        let mut result = Ok(());
        while let Some(stopped) = stops.join_next().await {
            if let Ok(Err(fault)) = stopped {
                result = Err(fault);
            }
        }
        result
    }
}
