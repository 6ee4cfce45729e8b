//! What workspaces take of the engine's machine.

use crate::live::Live;
use bollard::query_parameters::StatsOptionsBuilder;
use futures_util::StreamExt;
use holm_core::WorkspaceId;
use holm_core::numbers::{Load, Usage};
use std::time::Duration;

// === impl Live ===

impl Live {
    /// `None`: it does not run.
    pub async fn usage(&self, id: &WorkspaceId) -> Option<Usage> {
        let name = self.installation.workspace(id.as_str());
        let options = StatsOptionsBuilder::default()
            .stream(false)
            .one_shot(true)
            .build();
        let mut stats = std::pin::pin!(self.docker.stats(&name, Some(options)));
        let stats = stats.next().await?.ok()?;
        let processes = stats
            .pids_stats
            .and_then(|pids| pids.current)
            .unwrap_or_default();
        // An engine answers with zeros for a container that has ended.
        if processes == 0 {
            return None;
        }
        let cpu = stats.cpu_stats.and_then(|cpu| cpu.cpu_usage);
        let cpu = cpu.and_then(|cpu| cpu.total_usage).unwrap_or_default();
        let memory = stats.memory_stats.and_then(|memory| memory.usage);
        Some(Usage {
            total: Load {
                cpu: Duration::from_nanos(cpu),
                memory: memory.unwrap_or_default(),
                processes,
            },
            ..Usage::default()
        })
    }
}
