//! The evidence of a review: what holm itself recorded since a turn.

use crate::App;
use crate::view;
use holm_api::review::{
    CheckEvidence, CommandEvidence, Evidence, HostEvidence, OutsideEvidence, ProcessEvidence,
    VolumeEvidence,
};
use holm_core::{Fault, WorkspaceId};
use holm_engine::driver::Traces;
use holm_engine::review::TurnRecord;
use holm_engine::run::{RunFilter, RunRecord};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most entries of each kind.
const MOST: usize = 200;
const MOST_EGRESS: usize = 20_000;

/// The digest of a volume without files.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

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
        let traces = self.traces(id, since).await?;
        let before = from
            .map(|turn| turn.details.volumes.clone())
            .unwrap_or_default();
        let now = to.map_or(&traces.volumes, |turn| &turn.details.volumes);
        let changed = now.iter().filter(|(name, digest)| {
            let earlier = before.get(*name).map_or(EMPTY, String::as_str);
            earlier != digest.as_str()
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
            volumes: changed
                .map(|(name, _)| VolumeEvidence { name: name.clone() })
                .collect(),
            outside: outside.collect(),
            processes: processes.collect(),
        })
    }

    /// What programs left outside of the tree; a stopped workspace has only volumes and files.
    pub async fn traces(&self, id: &WorkspaceId, since: Timestamp) -> Result<Traces, Fault> {
        let spec = self.engine.spec(id).await?;
        let since = Duration::from_millis(u64::try_from(since.as_millisecond()).unwrap_or(0));
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
        let told = runs.into_iter().map(|run| CommandEvidence {
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
        Ok(told.collect())
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
        let mut hosts: BTreeMap<(bool, String, Option<u16>), u64> = BTreeMap::new();
        for entry in entries {
            let is_refused = entry.is_refusal();
            let Some(host) = entry.name.or(entry.address) else {
                continue;
            };
            // Refusals first.
            *hosts.entry((!is_refused, host, entry.port)).or_default() += entry.count;
        }
        let hosts = hosts.into_iter().take(MOST);
        let told = hosts.map(|((is_reached, host, port), count)| HostEvidence {
            host,
            port,
            refused: !is_reached,
            count,
        });
        Ok(told.collect())
    }
}
