//! Tools that only read.

use super::catalogue::{Inspect, Reach};
use super::{Call, Door, value_of};
use crate::since::since;
use crate::wiring::guest;
use holm_api::client::{ExecEvent, ExecSocket};
use holm_api::exec::Start;
use holm_api::service::LogLine;
use holm_api::service::LogQuery;
use holm_api::work::Capture;
use holm_core::{Code, Fault, WorkspaceId, cut};
use serde_json::{Value, json};

/// The size limit of a patch, in bytes.
const LONGEST_DIFF: usize = 512 << 10;
/// The default and the maximum of log lines.
const LAST_LINES: u64 = 200;
const MOST_LINES: u64 = 5000;
/// The size limit of `holm here`.
const LONGEST_HERE: usize = 1 << 20;

// === impl Call ===

impl Call<'_> {
    pub async fn inspect(&self, inspect: Inspect) -> Result<Value, Fault> {
        let client = &self.client;
        match inspect {
            Inspect::Projects => value_of(&client.projects().await?),
            Inspect::Workspaces => {
                if self.arguments.is_set("trash") {
                    value_of(&client.trash().await?)
                } else {
                    value_of(&client.workspaces().await?)
                }
            }
            Inspect::Show => value_of(&client.workspace(&self.workspace().await?).await?),
            Inspect::Changes => {
                let id = self.workspace().await?;
                let tree = self.tree(&id).await?;
                value_of(&client.changes(&id, &tree).await?)
            }
            Inspect::Diff => self.diff().await,
            Inspect::Logs => {
                let lines = self.logs(&self.workspace().await?).await?;
                Ok(json!({ "lines": lines }))
            }
            Inspect::Ports => self.ports().await,
            Inspect::Here => self.here(&self.workspace().await?).await,
        }
    }

    async fn ports(&self) -> Result<Value, Fault> {
        let is_of_one = self.holm.scope.is_some() || self.arguments.text("workspace").is_some();
        if is_of_one {
            value_of(&self.client.ports_of(&self.workspace().await?).await?)
        } else {
            value_of(&self.client.ports().await?)
        }
    }

    /// The tree of all files that are not ignored.
    async fn tree(&self, id: &WorkspaceId) -> Result<String, Fault> {
        let report = |step: &str, done: u64, total: u64| self.progress.report(step, done, total);
        let captured = self.client.capture(id, &Capture::default(), report).await?;
        captured.tree.ok_or_else(|| {
            let message = "the daemon said nothing of the tree";
            Fault::new(Code::Internal, message, "is the daemon of another version?")
        })
    }

    async fn diff(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let tree = self.tree(&id).await?;
        let mut patch = Vec::new();
        let take = |piece: &[u8]| {
            patch.extend_from_slice(piece);
            patch.len() <= LONGEST_DIFF
        };
        self.client.diff(&id, &tree, take).await?;
        let truncated = patch.len() > LONGEST_DIFF;
        let diff = String::from_utf8_lossy(cut::beginning(&patch, LONGEST_DIFF));
        Ok(json!({ "diff": diff, "truncated": truncated }))
    }

    pub async fn logs(&self, id: &WorkspaceId) -> Result<Vec<LogLine>, Fault> {
        let since = self.arguments.text("since").map(since).transpose()?;
        let last = self.arguments.number("last").unwrap_or(LAST_LINES);
        let query = LogQuery {
            services: self.arguments.owned("service").unwrap_or_default(),
            since,
            last: usize::try_from(last.min(MOST_LINES)).ok(),
            follow: false,
        };
        let mut following = self.client.logs(id, &query).await?;
        let mut lines = Vec::new();
        while let Some(line) = following.next().await? {
            lines.push(line);
        }
        Ok(lines)
    }

    /// The keeper's description: asked directly from inside, and by a command from outside.
    pub async fn here(&self, id: &WorkspaceId) -> Result<Value, Fault> {
        if self.holm.reach == Reach::Inside && matches!(self.holm.door, Door::Command) {
            return holm_engine::try_blocking(guest::here).await;
        }
        let start = Start {
            argv: ["holm", "here", "--json"]
                .map(|word| word.as_bytes().to_vec().into())
                .to_vec(),
            no_start: true,
            ..Start::default()
        };
        let ExecSocket {
            mut sender,
            mut receiver,
        } = self.client.exec(id, start).await?;
        sender.stdin_eof().await?;
        let mut said = Vec::new();
        loop {
            match receiver.next().await? {
                ExecEvent::Stdout(bytes) if said.len() < LONGEST_HERE => said.extend(bytes),
                ExecEvent::Exit(_) => break,
                _ => {}
            }
        }
        serde_json::from_slice(&said).map_err(|_| {
            Fault::new(
                Code::ExecFailed,
                "the workspace did not say what it has",
                "workspace_show says what is known outside",
            )
        })
    }
}
