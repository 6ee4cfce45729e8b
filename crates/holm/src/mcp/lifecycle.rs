//! Tools that change a workspace's state: start, stop, remove, snapshot, fork, reset.

use super::{Call, value_of};
use crate::resolve;
use holm_api::Workspace;
use holm_api::port::Checkout;
use holm_api::service::{Action, ServiceAct, ServiceList};
use holm_api::workspace::{Fork, Reset, TakeSnapshot};
use holm_core::service::graph::Verdict;
use holm_core::trash::Removal;
use holm_core::{Code, Fault, WorkspaceId};
use serde_json::Value;
use std::time::Duration;

/// How long to wait for services before their state is returned as it is.
const PATIENCE: Duration = Duration::from_secs(60);

// === impl Call ===

impl Call<'_> {
    pub async fn workspace_start(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        self.client.start(&id).await?;
        self.settle(&id).await?;
        value_of(&self.client.workspace(&id).await?)
    }

    pub async fn workspace_stop(&self) -> Result<Value, Fault> {
        value_of(&self.client.stop(&self.workspace().await?).await?)
    }

    pub async fn workspace_remove(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let removal = if self.arguments.is_set("force") {
            Removal::Force
        } else {
            Removal::RefuseUnsaved
        };
        value_of(&self.client.remove(&id, removal).await?)
    }

    pub async fn workspace_rename(&self) -> Result<Value, Fault> {
        let label = self.arguments.needed("label")?;
        let id = self.workspace().await?;
        value_of(&self.client.rename(&id, label).await?)
    }

    pub async fn snapshot(&self) -> Result<Value, Fault> {
        let name = self.arguments.needed("name")?.to_owned();
        let id = self.workspace().await?;
        let take = TakeSnapshot { name };
        value_of(&self.client.take_snapshot(&id, &take).await?)
    }

    pub async fn reset(&self) -> Result<Value, Fault> {
        let reset = Reset {
            volume: self.arguments.owned("volume"),
            at: self.arguments.owned("at"),
            force: self.arguments.is_set("force"),
        };
        value_of(&self.client.reset(&self.workspace().await?, &reset).await?)
    }

    pub async fn fork(&self) -> Result<Value, Fault> {
        let fork = Fork {
            label: self.arguments.owned("label"),
            at: self.arguments.owned("at"),
        };
        let forked = self.client.fork(&self.workspace().await?, &fork).await?;
        let Ok(id) = WorkspaceId::parse(&forked.id) else {
            return value_of(&forked);
        };
        self.settle(&id).await?;
        let now = self.client.workspace(&id).await?;
        value_of(&Workspace {
            created: forked.created,
            ms: forked.ms,
            notes: forked.notes,
            ..now
        })
    }

    pub async fn workspace_restore(&self) -> Result<Value, Fault> {
        let typed = [self.arguments.needed("workspace")?.to_owned()];
        let ids = resolve::all_trashed(&self.client, &typed).await?;
        match ids.as_slice() {
            [id] => value_of(&self.client.restore(id).await?),
            _ => Err(Fault::new(
                Code::WorkspaceNotFound,
                "no such workspace is in the trash",
                "workspace_list with `trash` lists them",
            )),
        }
    }

    pub async fn checkout(&self) -> Result<Value, Fault> {
        let list = match self.arguments.text("workspace") {
            Some(_) => {
                let ports = self.arguments.words("ports");
                let checkout = Checkout {
                    workspace: self.workspace().await?.to_string(),
                    ports: (!ports.is_empty()).then_some(ports),
                };
                self.client.check_out(&checkout).await?
            }
            None if self.arguments.is_set("none") => self.client.release_ports().await?,
            None => self.client.checked_out().await?,
        };
        value_of(&list)
    }

    pub async fn service_restart(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let act = ServiceAct {
            service: self.arguments.needed("service")?.to_owned(),
            action: Action::Restart,
        };
        self.client.service(&id, &act).await?;
        value_of(&self.settle(&id).await?)
    }

    /// Waits until no service is starting any more, or the time is up.
    async fn settle(&self, id: &WorkspaceId) -> Result<ServiceList, Fault> {
        let following = async {
            let mut changes = self.client.watch_services(id).await?;
            while let Some(list) = changes.next().await? {
                let waiting = list.services.iter().filter(|one| one.state == "starting");
                let waiting: Vec<_> = waiting.map(|one| one.name.as_str()).collect();
                self.progress
                    .say(format!("waiting for {}", waiting.join(", ")));
                if list.verdict.as_deref() != Some(Verdict::Pending.as_str()) {
                    return Ok::<_, Fault>(());
                }
            }
            Ok(())
        };
        // After the time limit the current state is returned.
        let _ = tokio::time::timeout(PATIENCE, following).await;
        self.client.services(id).await
    }
}
