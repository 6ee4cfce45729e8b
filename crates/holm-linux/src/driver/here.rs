//! The static part of `holm here`; the keeper adds what changes.

use holm_core::config::SIBLINGS;
use holm_core::spec::{Siblings, WorkspaceSpec};
use serde_json::{Value, json};
use std::path::Path;

/// Commands that work inside, with their purpose.
const COMMANDS: [(&str, &str); 6] = [
    ("logs", "holm logs . [SERVICE] [-f]"),
    ("ports", "holm ports ."),
    ("services", "holm service . ls"),
    ("restart a service", "holm service . restart NAME"),
    ("changes since the start", "holm changes ."),
    ("what left, and what was refused", "holm egress ."),
];

pub fn here(spec: &WorkspaceSpec) -> Value {
    // Programs of a Dev Container do not see the workspace's own root.
    let container = spec.dev_container.as_ref();
    let root = container.map_or(&spec.root, |container| &container.folder);
    // The image and its user decide which directory that is.
    let home = container.map_or(spec.home.as_path(), |_| Path::new("~"));
    let volumes = spec
        .volumes
        .iter()
        .map(|volume| json!({ "name": volume.name, "path": volume.path, "policy": volume.policy.as_str() }));
    let shared = spec.network.shared.iter();
    let shared = shared.map(|shared| json!({ "name": shared.name, "port": shared.port }));
    let commands = COMMANDS.iter().map(|(what, command)| (*what, *command));
    let commands: std::collections::BTreeMap<_, _> = commands.collect();
    json!({
        "id": spec.id,
        "project_id": spec.project_id,
        "root": root,
        "home": home,
        "ref": spec.code.ref_name,
        "commit": spec.code.commit,
        "driver": spec.driver.as_str(),
        "limits": {
            "memory": spec.limits.memory_bytes,
            "cpus": spec.limits.cpus,
            "processes": spec.limits.processes,
            "disk": spec.limits.disk_bytes,
        },
        "ports": [],
        "services": [],
        "volumes": volumes.collect::<Vec<_>>(),
        "shared": shared.collect::<Vec<_>>(),
        "protected_paths": spec.protected_paths,
        "siblings": (spec.siblings == Siblings::Shown).then_some(SIBLINGS),
        "commands": commands,
    })
}
