//! Applies `holm_core::admission` to the stored workspaces.

use crate::engine::Inner;
use crate::store::WorkspaceRecord;
use holm_core::admission::{Declared, Overcommitted, admit};
use holm_core::config::display_size;
use holm_core::plan::Desired;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault};

/// Whether a new workspace is checked against the machine's resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Check,
    /// The user overrides the check.
    Force,
}

// === impl Inner ===

impl Inner {
    /// Refuses a workspace that was just inserted, if it exceeds the machine beside all others. The
    /// caller makes sure that no other workspace is inserted meanwhile.
    pub(crate) async fn admit(&self, record: &WorkspaceRecord) -> Result<(), Fault> {
        let wanted = declared(&record.spec);
        if wanted == Declared::default() {
            return Ok(());
        }
        let machine = self.driver(&record.spec)?.room().await.map_err(unknown)?;
        let records = self.store.call(|store| store.live_workspaces()).await?;
        let running: Vec<_> = records
            .iter()
            .filter(|other| other.desired == Desired::Running && other.id != record.id)
            .filter(|other| other.spec.driver == record.spec.driver)
            .map(|other| declared(&other.spec))
            .collect();
        admit(machine, &running, wanted).map_err(refusal)
    }
}

fn declared(spec: &WorkspaceSpec) -> Declared {
    let limits = &spec.limits;
    let is_declared = |name: &str| limits.required.iter().any(|required| required == name);
    Declared {
        memory: limits.memory_bytes.filter(|_| is_declared("memory")),
        disk: limits.disk_bytes.filter(|_| is_declared("disk")),
    }
}

fn unknown(fault: Fault) -> Fault {
    Fault::new(
        Code::Internal,
        "cannot tell what the machine has",
        "`holm up --force` does not ask",
    )
    .because(fault)
}

fn refusal(why: Overcommitted) -> Fault {
    let message = match why {
        Overcommitted::Memory { declared, there_is } => format!(
            "the workspaces that run and this one may take {} of memory together, and the machine \
             has {}",
            display_size(declared),
            display_size(there_is)
        ),
        Overcommitted::Disk { declared, there_is } => format!(
            "the workspaces that run and this one may take {} of disk together, and the disk has {}",
            display_size(declared),
            display_size(there_is)
        ),
        Overcommitted::FreeDisk { declared, free } => format!(
            "this workspace may take {} of disk, and {} are free",
            display_size(declared),
            display_size(free)
        ),
    };
    Fault::new(
        Code::Overcommitted,
        message,
        "`holm stop` another one, lower `[limits]` in holm.toml, or take it on with `--force`",
    )
}
