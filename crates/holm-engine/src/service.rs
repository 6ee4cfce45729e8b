//! The services of a workspace: their state, and users' requests. Called by the server.

use crate::engine::Engine;
use crate::store::WorkspaceRecord;
use holm_core::plan::{Keeper, State};
use holm_core::service::Wish;
use holm_core::service::exit_in_words;
use holm_core::service::status::{ServiceStatus, Services};
use holm_core::spec::Service;
use holm_core::{Code, Fault, WorkspaceId};
use tokio::sync::mpsc;

// === impl Engine ===

impl Engine {
    /// Starts, stops or restarts one service; does not wait for it.
    pub async fn service(&self, id: &WorkspaceId, name: &str, wish: Wish) -> Result<(), Fault> {
        let inner = &self.inner;
        let record = inner.live(id).await?;
        require_service(&record, name)?;
        self.require_running(&record).await?;
        let served = inner.keeper(id).await?.service(name, wish).await;
        inner.reports.mark(id);
        served
    }

    /// The state of the services, at once and at every change.
    pub async fn watch_services(
        &self,
        id: &WorkspaceId,
    ) -> Result<mpsc::Receiver<Services>, Fault> {
        let record = self.inner.live(id).await?;
        self.require_running(&record).await?;
        let mut changes = self.inner.reader(id).await?.watch_services().await?;
        let (sender, receiver) = mpsc::channel(1);
        let (engine, id) = (self.clone(), id.clone());
        tokio::spawn(async move {
            loop {
                let services = tokio::select! {
                    services = changes.recv() => services,
                    () = sender.closed() => None,
                };
                let Some(services) = services else { return };
                // A reader that has seen this must not be shown an earlier state.
                engine.mark(&id);
                if sender.send(services).await.is_err() {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    /// Resolves names of services; all of them when none is named.
    pub async fn services_named(
        &self,
        id: &WorkspaceId,
        names: &[String],
    ) -> Result<Vec<String>, Fault> {
        let record = self.inner.record(id).await?;
        for name in names {
            require_service(&record, name)?;
        }
        let declared = record.spec.services.iter().map(|service| &service.name);
        let is_meant = |name: &&String| names.is_empty() || names.contains(name);
        Ok(declared.filter(is_meant).cloned().collect())
    }

    async fn require_running(&self, record: &WorkspaceRecord) -> Result<(), Fault> {
        let observation = self.inner.observe(&record.spec).await?;
        if observation.observed.keeper == Keeper::Running {
            return Ok(());
        }
        let label = &record.label;
        Err(Fault::new(
            Code::NotRunning,
            format!("workspace `{label}` is not running, so its services are not either"),
            format!("`holm start {}` starts it and them", record.id),
        ))
    }
}

fn require_service(record: &WorkspaceRecord, name: &str) -> Result<(), Fault> {
    let services = &record.spec.services;
    if services.iter().any(|service| service.name == name) {
        return Ok(());
    }
    let label = &record.label;
    let names: Vec<_> = services
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    let hint = if names.is_empty() {
        "it has none; [services] in holm.toml declares them".to_owned()
    } else {
        format!("its services are: {}", names.join(", "))
    };
    Err(Fault::new(
        Code::ServiceNotFound,
        format!(
            "workspace `{label}` has no service `{}`",
            name.escape_debug()
        ),
        hint,
    ))
}

/// Every declared service with its state. In a stopped workspace none runs.
pub(crate) fn all(
    declared: &[Service],
    seen: Vec<ServiceStatus>,
    state: State,
) -> Vec<ServiceStatus> {
    let services = declared.iter().map(|service| {
        let known = seen.iter().find(|status| status.name == service.name);
        let mut status = known.cloned().unwrap_or_else(|| ServiceStatus {
            name: service.name.clone(),
            state: "stopped".to_owned(),
            pid: None,
            restarts: 0,
            port: service.port,
            reason: None,
            exit_code: None,
        });
        if state != State::Running {
            status.pid = None;
            if !matches!(status.state.as_str(), "exited" | "failed") {
                status.state = "stopped".to_owned();
                status.reason = None;
            }
        }
        status
    });
    services.collect()
}

/// The reason why a running workspace is not healthy.
pub(crate) fn trouble(services: &[ServiceStatus]) -> Option<String> {
    services.iter().find_map(|service| {
        let name = &service.name;
        match (service.state.as_str(), service.exit_code) {
            ("failed", _) => Some(format!("service {name} failed")),
            ("exited", Some(code @ 1..)) => Some(format!("service {name} {}", exit_in_words(code))),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::config::{OnAssign, Restart};

    fn status(state: &str, exit_code: Option<u8>) -> ServiceStatus {
        ServiceStatus {
            name: "web".to_owned(),
            state: state.to_owned(),
            pid: Some(7),
            restarts: 0,
            port: None,
            reason: Some("why".to_owned()),
            exit_code,
        }
    }

    fn declared(name: &str) -> Service {
        Service {
            name: name.to_owned(),
            run: "true".to_owned(),
            image: None,
            ready: None,
            depends_on: Vec::new(),
            restart: Restart::No,
            on_assign: OnAssign::None,
            build: None,
            rebuild_when: Vec::new(),
            env: Vec::new(),
            port: Some(3000),
        }
    }

    #[test]
    fn nothing_is_said_to_run_where_nothing_does() {
        let declared = [declared("db"), declared("web")];
        let check = |state: &str, expect: &str, reason: Option<&str>| {
            let all = all(&declared, vec![status(state, None)], State::Stopped);
            assert_eq!(all.len(), 2);
            assert_eq!(
                (all[0].state.as_str(), all[0].port),
                ("stopped", Some(3000))
            );
            assert_eq!((all[1].state.as_str(), all[1].pid), (expect, None));
            assert_eq!(all[1].reason.as_deref(), reason);
        };
        check("ready", "stopped", None);
        check("backoff", "stopped", None);
        check("failed", "failed", Some("why"));
        check("exited", "exited", Some("why"));
        let running = all(&declared, vec![status("ready", None)], State::Running);
        assert_eq!(running[1], status("ready", None));
    }

    #[test]
    fn what_failed_is_the_reason() {
        let check = |state, code, expect: Option<&str>| {
            assert_eq!(trouble(&[status(state, code)]).as_deref(), expect);
        };
        check("ready", None, None);
        check("exited", Some(0), None);
        check("exited", Some(3), Some("service web exited with 3"));
        check("failed", Some(1), Some("service web failed"));
    }
}
