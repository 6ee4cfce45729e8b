//! Tools that only read.

use super::arguments::wrong;
use super::catalogue::Reach;
use super::{Call, Door, value_of};
use crate::resolve;
use crate::since::since;
use crate::wiring::guest;
use holm_api::client::{ExecEvent, ExecSocket};
use holm_api::comment::{Act, Action};
use holm_api::exec::Start;
use holm_api::inbox::Notify;
use holm_api::service::LogLine;
use holm_api::service::LogQuery;
use holm_api::work::Capture;
use holm_core::turn::TurnNumber;
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
    pub async fn project_list(&self) -> Result<Value, Fault> {
        value_of(&self.client.projects().await?)
    }

    pub async fn workspace_list(&self) -> Result<Value, Fault> {
        if self.arguments.is_set("trash") {
            value_of(&self.client.trash().await?)
        } else {
            value_of(&self.client.workspaces().await?)
        }
    }

    pub async fn workspace_show(&self) -> Result<Value, Fault> {
        value_of(&self.client.workspace(&self.workspace().await?).await?)
    }

    pub async fn changes(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let tree = self.tree(&id).await?;
        value_of(&self.client.changes(&id, &tree).await?)
    }

    pub async fn turns(&self) -> Result<Value, Fault> {
        value_of(&self.client.turns(&self.workspace().await?).await?)
    }

    pub async fn review(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let since = self.arguments.text("since").unwrap_or("look");
        if !matches!(since, "look" | "base") && TurnNumber::parse(since).is_none() {
            let message = format!(
                "`since` is neither look, base nor a turn: {}",
                since.escape_debug()
            );
            return Err(wrong(message));
        }
        if self.arguments.is_set("mark") {
            self.client.mark_turn(&id).await?;
        }
        value_of(&self.client.review(&id, since).await?)
    }

    pub async fn compare(&self) -> Result<Value, Fault> {
        let mut ids = Vec::new();
        for typed in self.arguments.words("workspaces") {
            ids.push(resolve::one(&self.client, &typed).await?.to_string());
        }
        value_of(&self.client.compare(&ids.join(",")).await?)
    }

    pub async fn comments_list(&self) -> Result<Value, Fault> {
        let is_open = self.arguments.is_set("open");
        value_of(
            &self
                .client
                .comments(&self.workspace().await?, is_open)
                .await?,
        )
    }

    pub async fn comment_reply(&self) -> Result<Value, Fault> {
        self.act_on_comment(Action::Reply).await
    }

    pub async fn comment_resolve(&self) -> Result<Value, Fault> {
        self.act_on_comment(Action::Resolve).await
    }

    pub async fn inbox(&self) -> Result<Value, Fault> {
        let mut list = self.client.inbox().await?;
        if let Some(scope) = &self.holm.scope {
            list.items.retain(|item| item.workspace == scope.as_str());
        }
        value_of(&list)
    }

    pub async fn notify(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let text = self.arguments.needed("text")?.to_owned();
        value_of(&self.client.notify(&id, &Notify { text }).await?)
    }

    async fn act_on_comment(&self, action: Action) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let act = Act {
            ids: vec![self.arguments.needed("comment")?.to_owned()],
            action,
            text: self.arguments.owned("text"),
        };
        value_of(&self.client.act_on_comments(&id, &act).await?)
    }

    pub async fn logs(&self) -> Result<Value, Fault> {
        let lines = self.log_lines(&self.workspace().await?).await?;
        Ok(json!({ "lines": lines }))
    }

    pub async fn here(&self) -> Result<Value, Fault> {
        self.description(&self.workspace().await?).await
    }

    pub async fn ports(&self) -> Result<Value, Fault> {
        match self.workspace_if_any().await? {
            Some(id) => value_of(&self.client.ports_of(&id).await?),
            None => value_of(&self.client.ports().await?),
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

    pub async fn diff(&self) -> Result<Value, Fault> {
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

    pub async fn log_lines(&self, id: &WorkspaceId) -> Result<Vec<LogLine>, Fault> {
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
    pub async fn description(&self, id: &WorkspaceId) -> Result<Value, Fault> {
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
