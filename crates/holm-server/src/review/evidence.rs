//! The evidence of a review: what holm itself recorded since a turn.

use crate::App;
use crate::view;
use holm_api::egress::EgressEntry;
use holm_api::review::{
    CheckEvidence, CommandEvidence, Evidence, HostEvidence, OutsideEvidence, ProcessEvidence,
    VolumeEvidence,
};
use holm_core::{Fault, WorkspaceId};
use holm_engine::driver::{Since, Traces};
use holm_engine::review::TurnRecord;
use holm_engine::run::{RunFilter, RunRecord};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most entries of each kind.
const MOST: usize = 200;
const MOST_EGRESS: usize = 20_000;

// === impl App ===

impl App {
    pub async fn evidence(
        &self,
        id: &WorkspaceId,
        from: Option<&TurnRecord>,
        to: Option<&TurnRecord>,
    ) -> Result<Evidence, Fault> {
        let view = self.engine.show(id).await?;
        let since = from.map_or(view.record.created_at, |turn| turn.at);
        let time = Duration::from_millis(u64::try_from(since.as_millisecond()).unwrap_or(0));
        let traces = self.traces(
            id,
            match from {
                Some(_) => Since::Turn(time),
                None => Since::Creation(time),
            },
        );
        let traces = traces.await?;
        let volumes = traces.volumes.into_iter().map(|volume| VolumeEvidence {
            name: volume.name,
            files: volume.files,
            replaced: volume.is_replaced,
            shared: volume.is_shared,
            partial: volume.is_partial,
            services: volume.services,
        });
        let known = self.secrets_of(id).await?;
        let masked =
            |text: &str| String::from_utf8_lossy(&known.mask(text.as_bytes())).into_owned();
        let processes = traces
            .processes
            .iter()
            .take(MOST)
            .map(|process| ProcessEvidence {
                pid: process.pid,
                command: masked(&process.command),
                service: process.service.clone(),
            });
        let outside = traces
            .outside
            .into_iter()
            .take(MOST)
            .map(|files| OutsideEvidence {
                path: files.path,
                files: files.files,
                partial: files.is_partial,
            });
        let mut commands = self.runs_since(id, since).await?;
        for run in &mut commands {
            run.command = masked(&run.command);
        }
        let services = view.services.iter().map(|service| CommandEvidence {
            kind: "service".to_owned(),
            name: service.name.clone(),
            command: service.name.clone(),
            state: service.state.clone(),
            exit_code: service.exit_code.map(i32::from),
            at: None,
        });
        commands.extend(services);
        let recorded = match to {
            Some(turn) => self.engine.checks_of(id, &turn.tree).await?,
            None => Vec::new(),
        };
        let checks = recorded.iter().map(|check| CheckEvidence {
            name: check.name.clone(),
            state: check.state,
            exit_code: check.details.exit_code,
            ms: check.details.ms,
        });
        let checks = checks.collect();
        Ok(Evidence {
            commands,
            checks,
            hosts: self.hosts_since(id, since).await?,
            volumes: volumes.collect(),
            outside: outside.collect(),
            processes: processes.collect(),
        })
    }

    /// What programs left outside of the tree; a stopped workspace has only volumes and files.
    async fn traces(&self, id: &WorkspaceId, since: Since) -> Result<Traces, Fault> {
        let spec = self.engine.spec(id).await?;
        self.engine.driver(&spec)?.traces(&spec, since).await
    }

    async fn runs_since(
        &self,
        id: &WorkspaceId,
        since: Timestamp,
    ) -> Result<Vec<CommandEvidence>, Fault> {
        let mut runs = self.last_runs(id).await?;
        runs.retain(|run| {
            let end = run.details.ended_ms;
            end.is_none_or(|end| end >= since.as_millisecond())
        });
        runs.reverse();
        let listed = runs.into_iter().map(|run| CommandEvidence {
            kind: "run".to_owned(),
            name: run.id.to_string(),
            command: run
                .details
                .agent
                .clone()
                .unwrap_or_else(|| run.details.command.join(" ")),
            state: run.state.as_str().to_owned(),
            exit_code: run.details.exit_code.map(i32::from),
            at: Some(view::time(run.created_at)),
        });
        Ok(listed.collect())
    }

    /// How long the last runs took together.
    pub async fn time_of_runs(&self, id: &WorkspaceId) -> Result<u64, Fault> {
        let runs = self.last_runs(id).await?.into_iter();
        let times = runs.filter_map(|run| {
            let time = run.details.ended_ms? - run.details.started_ms?;
            u64::try_from(time).ok()
        });
        Ok(times.sum())
    }

    /// The newest first.
    async fn last_runs(&self, id: &WorkspaceId) -> Result<Vec<RunRecord>, Fault> {
        let filter = RunFilter {
            workspace: Some(id.clone()),
            limit: MOST,
            ..RunFilter::default()
        };
        let runs = self.engine.runs(filter).await?.into_iter();
        Ok(runs.map(|(_, run)| run).collect())
    }

    async fn hosts_since(
        &self,
        id: &WorkspaceId,
        since: Timestamp,
    ) -> Result<Vec<HostEvidence>, Fault> {
        let entries = self.egress_since(id, Some(since), MOST_EGRESS).await?;
        Ok(hosts(entries))
    }
}

/// Each host once, refused ones first. A host that did not answer was neither reached nor refused.
fn hosts(entries: Vec<EgressEntry>) -> Vec<HostEvidence> {
    let mut hosts: BTreeMap<(bool, String, Option<u16>), u64> = BTreeMap::new();
    for entry in entries.into_iter().filter(|entry| !entry.is_failure()) {
        let is_refused = entry.is_refusal();
        let Some(host) = entry.name.or(entry.address) else {
            continue;
        };
        *hosts.entry((!is_refused, host, entry.port)).or_default() += entry.count;
    }
    let hosts = hosts.into_iter().take(MOST);
    let listed = hosts.map(|((is_reached, host, port), count)| HostEvidence {
        host,
        port,
        refused: !is_reached,
        count,
    });
    listed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_reached_or_refused_and_counted_once() {
        let entry = |kind: &str, name: Option<&str>, count: u64| EgressEntry {
            time: String::new(),
            kind: kind.to_owned(),
            name: name.map(str::to_owned),
            address: Some("192.0.2.1".to_owned()),
            port: Some(443),
            bytes_in: None,
            bytes_out: None,
            duration_ms: None,
            process: None,
            secrets: Vec::new(),
            reason: None,
            allow: None,
            count,
        };
        let listed = hosts(vec![
            entry("connect", Some("a.test"), 2),
            entry("connect", Some("a.test"), 3),
            entry("fail", Some("silent.test"), 1),
            entry("refuse", None, 1),
            entry("resolve", Some("z.test"), 4),
            entry("cut", Some("b.test"), 1),
        ]);
        let listed = listed.iter();
        let listed: Vec<_> = listed
            .map(|host| (host.host.as_str(), host.refused, host.count))
            .collect();
        let expected = [
            ("192.0.2.1", true, 1),
            ("z.test", true, 4),
            ("a.test", false, 5),
            ("b.test", false, 1),
        ];
        assert_eq!(listed, expected);
    }
}
