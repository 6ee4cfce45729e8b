//! Applies a changed `holm.toml`: stores the spec, and changes at once what can change at once.

use crate::engine::{Engine, detached};
use crate::progress::Progress;
use crate::store::WorkspaceRecord;
use crate::view::View;
use holm_core::plan::State;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault, WorkspaceId};
use std::sync::Arc;

// === impl Engine ===

impl Engine {
    /// The stored spec of a live workspace.
    pub async fn spec(&self, id: &WorkspaceId) -> Result<Arc<WorkspaceSpec>, Fault> {
        Ok(self.inner.live(id).await?.spec)
    }

    /// Stores the changed spec. Egress is in force and services are changing when this returns; the
    /// rest applies at the next start. Seeds of new volumes are built first: otherwise a start
    /// would find the failing seed, and would fail from then on.
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
                // Its layers are not collected before the spec is stored.
                let _making = inner.making.read().await;
                inner.ensure_layers(&next, &Progress::default()).await?;
            }
            let (key, stored) = (id.clone(), spec.clone());
            inner.settled.forget(&id);
            let storing = inner.store.call(move |store| store.set_spec(&key, &stored));
            storing.await?;
            let record = inner.live(&id).await?;
            let view = inner.view(record).await?;
            if view.state == State::Running {
                let keeper = inner.driver(&spec)?.keeper(&id);
                let set = keeper.set_egress(&spec.network.egress).await;
                set.map_err(|fault| not_in_force("egress", &id, fault))?;
                if spec.env != before.env {
                    let set = keeper.set_env(&spec.env).await;
                    set.map_err(|fault| not_in_force("env", &id, fault))?;
                }
                if spec.services != before.services {
                    let set = keeper.set_services(&spec.services).await;
                    inner.reports.mark(&id);
                    set.map_err(|fault| not_in_force("services", &id, fault))?;
                }
            }
            Ok(view)
        })
        .await
    }
}

fn not_in_force(what: &str, id: &WorkspaceId, fault: Fault) -> Fault {
    Fault::new(
        Code::StartFailed,
        format!("the new [{what}] is stored but not in force"),
        format!("`holm restart {id}` puts it in force"),
    )
    .because(fault)
}
