//! The machine's policy in the daemon: refuses requests and narrows what is started.
//!
//! The file is read each time, so it takes effect when it is written. An unreadable file refuses
//! everything that would start something. `holm_core::policy` decides.

use super::App;
use super::caller::Caller;
use holm_config::policy::PolicyFile;
use holm_core::config::{Destination, Limits, Name, ProjectConfig, ProtectedPath};
use holm_core::plan::State;
use holm_core::policy::{Breach, MachinePolicy, Rights, SourceKind, Typed};
use holm_core::spec::{Siblings, SpecLimits, WorkspaceSpec};
use holm_core::{Code, Fault, WorkspaceId};

/// This file is not an `include`: it belongs to every workspace.
const ALWAYS_BROUGHT: &str = "AGENTS.md";

// === impl App ===

impl App {
    /// Refuses a project and a command line that exceed the policy.
    pub fn refuse_beyond_policy(
        &self,
        config: &ProjectConfig,
        typed: Typed<'_>,
    ) -> Result<(), Fault> {
        let Some(policy) = self.policy.load()? else {
            return Ok(());
        };
        let is_typed = |path: &&String| path.as_str() != ALWAYS_BROUGHT;
        let included: Vec<_> = typed.included.iter().filter(is_typed).cloned().collect();
        let wishes = Typed {
            included: &included,
            degraded: typed.degraded,
        };
        let breaches = policy.breaches(config, wishes);
        if breaches.is_empty() {
            Ok(())
        } else {
            Err(self.policy.refusal(&breaches))
        }
    }

    /// The spec within the policy, and notes for the user.
    pub fn within_policy(
        &self,
        spec: WorkspaceSpec,
    ) -> Result<(WorkspaceSpec, Vec<String>), Fault> {
        Ok(match narrowed(&self.policy, &spec)? {
            Some((spec, lost)) => (spec, notes(&self.policy, &lost)),
            None => (spec, Vec::new()),
        })
    }

    /// Names of declared secrets whose source the policy forbids.
    pub fn forbidden_secrets(&self, spec: &WorkspaceSpec) -> Result<Vec<String>, Fault> {
        let policy = self.policy.load()?.unwrap_or_default();
        let secrets = spec.secrets.iter();
        let forbidden = secrets.filter(|secret| !policy.may_read(SourceKind::from(&secret.source)));
        Ok(forbidden.map(|secret| secret.name.clone()).collect())
    }

    /// What the policy would remove from a workspace that starts now.
    pub async fn policy_notes(&self, id: &WorkspaceId) -> Result<Vec<String>, Fault> {
        let spec = self.engine.spec(id).await?;
        let narrowed = narrowed(&self.policy, &spec)?;
        Ok(narrowed.map_or_else(Vec::new, |(_, lost)| notes(&self.policy, &lost)))
    }

    /// Refuses to start something in a workspace that runs with more than the policy allows,
    /// because it was started before the policy. A stopped one is narrowed when it starts.
    pub async fn require_within_policy(&self, id: &WorkspaceId) -> Result<(), Fault> {
        if self.policy.load()?.is_none() {
            return Ok(());
        }
        let spec = self.engine.spec(id).await?;
        let Some((_, lost)) = narrowed(&self.policy, &spec)? else {
            return Ok(());
        };
        let view = self.engine.show(id).await?;
        if view.state != State::Running {
            return Ok(());
        }
        let label = &view.record.label;
        let fault = self.policy.refusal(&lost);
        Err(Fault::new(
            fault.code,
            format!("workspace `{label}` was started with more than is allowed now"),
            format!("`holm restart {id}` starts it within the policy; its files stay"),
        )
        .because(fault))
    }

    pub fn require_agent_named(&self, name: &str) -> Result<(), Fault> {
        let agent = Name::parse(name).map_err(|error| damaged(&error.to_string()))?;
        self.require(|policy| policy.may_run(&agent))
    }

    pub fn require_canonical_ports(&self) -> Result<(), Fault> {
        self.require(MachinePolicy::may_take_canonical_ports)
    }

    pub fn require_builds(&self) -> Result<(), Fault> {
        self.require(MachinePolicy::may_build)
    }

    /// Whether this caller may approve a repository's requests.
    pub fn require_approver(&self, caller: &Caller) -> Result<(), Fault> {
        if caller.is_person() {
            return Ok(());
        }
        self.require(MachinePolicy::may_trust_by_token)
    }

    fn require(&self, may: impl FnOnce(&MachinePolicy) -> Result<(), Breach>) -> Result<(), Fault> {
        let Some(policy) = self.policy.load()? else {
            return Ok(());
        };
        may(&policy).map_err(|breach| self.policy.refusal(&[breach]))
    }
}

/// The bounds that the engine applies before every start.
pub fn bounds(file: PolicyFile) -> holm_engine::Bounds {
    Box::new(move |spec| Ok(narrowed(&file, spec)?.map(|(spec, _)| spec)))
}

fn notes(file: &PolicyFile, lost: &[Breach]) -> Vec<String> {
    let path = file.path.display();
    let note = |Breach { key, words }: &Breach| format!("by {path}, {key}: {words}");
    lost.iter().map(note).collect()
}

/// The spec within the policy, if it differs, and what was removed.
fn narrowed(
    file: &PolicyFile,
    spec: &WorkspaceSpec,
) -> Result<Option<(WorkspaceSpec, Vec<Breach>)>, Fault> {
    let Some(policy) = file.load()? else {
        return Ok(None);
    };
    let (narrow, lost) = policy.narrow(&rights(spec)?);
    if lost.is_empty() {
        return Ok(None);
    }
    let mut spec = spec.clone();
    put(&mut spec, narrow, &policy.limits);
    Ok(Some((spec, lost)))
}

fn rights(spec: &WorkspaceSpec) -> Result<Rights, Fault> {
    let egress = &spec.network.egress;
    let allow = egress.allow.iter().map(|entry| Destination::parse(entry));
    Ok(Rights {
        mode: egress.mode,
        allow: allow
            .collect::<Result<_, _>>()
            .map_err(|error| damaged(&error.to_string()))?,
        limits: Limits {
            memory: spec.limits.memory_bytes,
            cpus: spec.limits.cpus,
            processes: spec.limits.processes,
            disk: spec.limits.disk_bytes,
        },
        is_nested: spec.nested,
        shows_siblings: spec.siblings == Siblings::Shown,
        shared: spec
            .network
            .shared
            .iter()
            .map(|it| it.name.clone())
            .collect(),
        degraded: spec.allow_degraded.clone(),
        protected_paths: protected_paths(spec)?,
        secrets: spec
            .secrets
            .iter()
            .map(|secret| (secret.name.clone(), SourceKind::from(&secret.source)))
            .collect(),
    })
}

/// The stored paths. An invalid one is an error: ignoring it would protect less.
pub fn protected_paths(spec: &WorkspaceSpec) -> Result<Vec<ProtectedPath>, Fault> {
    let paths = spec.protected_paths.iter();
    let paths = paths.map(|path| ProtectedPath::parse(path));
    paths
        .collect::<Result<_, _>>()
        .map_err(|error| damaged(&error.to_string()))
}

/// Writes the narrowed values into a spec. The policy's limits are enforced or refused, like
/// explicit ones of `holm.toml`.
fn put(spec: &mut WorkspaceSpec, narrow: Rights, bounded: &Limits) {
    let egress = &mut spec.network.egress;
    egress.mode = narrow.mode;
    egress.allow = narrow.allow.iter().map(ToString::to_string).collect();
    let mut required = std::mem::take(&mut spec.limits.required);
    let written = [
        ("memory", bounded.memory.is_some()),
        ("cpus", bounded.cpus.is_some()),
        ("processes", bounded.processes.is_some()),
        ("disk", bounded.disk.is_some()),
    ];
    for (name, _) in written.into_iter().filter(|(_, is_written)| *is_written) {
        if !required.iter().any(|has| has == name) {
            required.push(name.to_owned());
        }
    }
    spec.limits = SpecLimits {
        memory_bytes: narrow.limits.memory,
        cpus: narrow.limits.cpus,
        processes: narrow.limits.processes,
        disk_bytes: narrow.limits.disk,
        required,
    };
    spec.nested = narrow.is_nested;
    spec.siblings = if narrow.shows_siblings {
        Siblings::Shown
    } else {
        Siblings::Hidden
    };
    let shared = &mut spec.network.shared;
    shared.retain(|shared| narrow.shared.contains(&shared.name));
    let has = |name: &String| narrow.secrets.iter().any(|(kept, _)| kept == name);
    spec.secrets.retain(|secret| has(&secret.name));
    spec.allow_degraded = narrow.degraded;
    let protected = narrow.protected_paths.iter();
    spec.protected_paths = protected.map(ToString::to_string).collect();
}

fn damaged(why: &str) -> Fault {
    let message = format!("a stored workspace is damaged: {}", why.escape_debug());
    Fault::new(Code::CorruptState, message, "holm doctor")
}
