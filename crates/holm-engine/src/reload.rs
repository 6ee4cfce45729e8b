//! Taking over a changed `holm.toml`: the spec is stored, and what can change at once does.

use crate::driver::Progress;
use crate::engine::{Engine, View, detached};
use crate::spec::WorkspaceSpec;
use crate::store::WorkspaceRecord;
use holm_core::plan::State;
use holm_core::{Code, Fault, WorkspaceId};
use std::sync::Arc;

// === impl Engine ===

impl Engine {
    /// What a live workspace was asked to be.
    pub async fn spec(&self, id: &WorkspaceId) -> Result<Arc<WorkspaceSpec>, Fault> {
        Ok(self.inner.live(id).await?.spec)
    }

    /// Stores what `change` makes of the spec. Egress is in force when this returns, and services
    /// are on their way; the rest at the next start. What new volumes begin with is made first: a
    /// seed that fails would otherwise be found by a start, which would fail for good.
    pub async fn reload(
        &self,
        id: &WorkspaceId,
        change: impl FnOnce(&mut WorkspaceSpec) + Send + 'static,
    ) -> Result<View, Fault> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let record = inner.live(&id).await?;
            let before = Arc::clone(&record.spec);
            let mut spec = (*before).clone();
            change(&mut spec);
            if spec.volumes != before.volumes {
                let next = WorkspaceRecord {
                    spec: Arc::new(spec.clone()),
                    ..record
                };
                // No layer of it goes before it is stored.
                let _making = inner.making.read().await;
                inner.ensure_layers(&next, &Progress::default()).await?;
            }
            let (key, stored) = (id.clone(), spec.clone());
            let storing = inner.store.call(move |store| store.set_spec(&key, &stored));
            storing.await?;
            let record = inner.live(&id).await?;
            let view = inner.view(record).await?;
            if view.state == State::Running {
                let driver = inner.driver(&spec)?;
                let set = driver.set_egress(&id, &spec.network.egress).await;
                set.map_err(|fault| not_in_force("egress", &id, &fault))?;
                if spec.services != before.services {
                    let set = driver.set_services(&id, &spec.services).await;
                    set.map_err(|fault| not_in_force("services", &id, &fault))?;
                }
            }
            Ok(view)
        })
        .await
    }
}

fn not_in_force(what: &str, id: &WorkspaceId, fault: &Fault) -> Fault {
    Fault::new(
        Code::StartFailed,
        format!(
            "the new [{what}] is stored but not in force: {}",
            fault.message
        ),
        format!("`holm restart {id}` puts it in force"),
    )
}
