//! The services and agents of `holm.toml` as they are stored with a workspace. Called by [`super::compose`].

use super::trust::Judged;
use holm_core::config::{self, Name, ProjectConfig};
use holm_engine::spec::{Agent, Probe, Ready, Service};

pub fn services(config: &ProjectConfig) -> Vec<Service> {
    let services = config.services.iter().map(|(name, service)| Service {
        name: name.to_string(),
        run: service.run.clone(),
        ready: service.ready.as_ref().map(ready),
        depends_on: service.depends_on.iter().map(Name::to_string).collect(),
        restart: service.restart.as_str().to_owned(),
        on_assign: service.on_assign.as_str().to_owned(),
        build: service.build.clone(),
        rebuild_when: service
            .rebuild_when
            .iter()
            .map(|pattern| pattern.to_string())
            .collect(),
        env: service
            .env
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect(),
        port: port(config, name, service),
    });
    services.collect()
}

/// The agents. What was judged was approved, or taken out.
pub fn agents(judged: &Judged) -> Vec<Agent> {
    let agents = judged.config.agents.iter().map(|(name, agent)| Agent {
        name: name.to_string(),
        command: agent.command.clone(),
        timeout_ms: agent
            .timeout
            .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        approved: judged.gives_to(name),
    });
    agents.collect()
}

fn ready(ready: &config::Ready) -> Ready {
    Ready {
        probe: match &ready.probe {
            config::Probe::Http { path, port } => Probe::Http {
                path: path.clone(),
                port: port.get(),
            },
            config::Probe::Tcp { port } => Probe::Tcp { port: port.get() },
            config::Probe::Log { text } => Probe::Log { text: text.clone() },
            config::Probe::Command { command } => Probe::Command {
                command: command.clone(),
            },
        },
        timeout_ms: u64::try_from(ready.timeout.as_millis()).unwrap_or(u64::MAX),
    }
}

/// The port that its readiness is asked at, or the one that has its name.
fn port(config: &ProjectConfig, name: &Name, service: &config::Service) -> Option<u16> {
    let asked = service.ready.as_ref().and_then(|ready| match &ready.probe {
        config::Probe::Http { port, .. } | config::Probe::Tcp { port } => Some(*port),
        config::Probe::Log { .. } | config::Probe::Command { .. } => None,
    });
    let port = asked.or_else(|| config.ports.get(name).copied())?;
    Some(port.get())
}
