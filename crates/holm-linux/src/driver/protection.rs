//! Refuses specs whose protected paths could not be kept.

use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault};
use std::path::PathBuf;

/// Refuses a spec whose protected paths could not be enforced.
pub fn check(spec: &WorkspaceSpec) -> Result<(), Fault> {
    refuse_unkept_protection(spec)?;
    refuse_covered_protection(spec)
}

/// In its own user namespace a program can leave the mounts of protected paths and then remove what
/// is under them.
fn refuse_unkept_protection(spec: &WorkspaceSpec) -> Result<(), Fault> {
    if !spec.nested || spec.protected_paths.is_empty() {
        return Ok(());
    }
    Err(Fault::new(
        Code::ProtectedPath,
        "protected paths cannot be held where programs may make user namespaces",
        "take `nested` or `protected_paths` out of [project] in holm.toml",
    ))
}

/// A mount over or in a protected path would be writable.
fn refuse_covered_protection(spec: &WorkspaceSpec) -> Result<(), Fault> {
    let paths = spec.protected_paths.iter();
    let protected: Vec<PathBuf> = paths.map(|path| spec.root.join(path)).collect();
    let caches = spec
        .caches
        .iter()
        .map(|cache| ("cache", &cache.name, &cache.path));
    let volumes = spec.volumes.iter();
    let volumes = volumes.map(|volume| ("volume", &volume.name, &volume.path));
    let met = caches.chain(volumes).find_map(|(kind, name, path)| {
        let mut met = protected.iter();
        let met =
            met.find(|protected| protected.starts_with(path) || path.starts_with(protected))?;
        Some((kind, name, met.display()))
    });
    let Some((kind, name, protected)) = met else {
        return Ok(());
    };
    Err(Fault::new(
        Code::ProtectedPath,
        format!("the {kind} {name} would lie over the protected path {protected}"),
        format!("give it another path in [{kind}s] of holm.toml"),
    ))
}
