//! Mounts reset volumes into a running workspace, on the root directories of the earlier ones
//! ([`crate::remount`]). Called for [`Action::RenewVolumes`](holm_core::plan::Action).
//!
//! The kernel unmounts what is mounted on a deleted directory, so an earlier `own` is emptied at
//! once and deleted at the next start ([`super::sweep`]).

use super::connect::client;
use super::sweep::earlier;
use super::volume::mounts;
use super::{LinuxDriver, halt, launch, rooms};
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault};
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::files::remove::empty_tree;
use holm_keeper::wire::{Answer, Op, Renewal};
use std::path::Path;
use std::time::Duration;

/// Services get twenty seconds to end; the rest is quick.
const RENEWED_WITHIN: Duration = Duration::from_secs(120);

/// Mounts reset volumes into a running workspace. If that is impossible, the workspace is
/// restarted.
pub async fn renew(driver: &LinuxDriver, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let id = super::workspace_id(spec)?;
    let dirs = driver.layout.workspace(&id);
    if driver.starter.is_some() {
        // An engine mounts only when it starts a container.
        halt::halt(&driver.layout, &id).await?;
        return launch::launch(driver, spec).await.map(drop);
    }
    let mounts = mounts(driver, spec, &dirs).await?.into_iter();
    let renewals = mounts.map(|volume| Renewal {
        users: users(spec, &volume.mount.inside),
        volume,
    });
    let op = Op::RenewVolumes(renewals.collect());
    match client(&dirs).ask_within(op, RENEWED_WITHIN).await {
        Ok(Answer::Done) => {}
        Ok(Answer::Failed { cause, .. }) => {
            return Err(Fault::new(
                Code::StartFailed,
                format!("workspace {id}"),
                format!("`holm restart {id}` begins with what is wanted"),
            )
            .because(cause));
        }
        Ok(_) | Err(_) => {
            halt::halt(&driver.layout, &id).await?;
            return launch::launch(driver, spec).await.map(drop);
        }
    }
    empty_earlier(&dirs, spec);
    Ok(())
}

/// The services that name the path in their command or environment, or see it in their room.
pub fn users(spec: &WorkspaceSpec, place: &Path) -> Vec<String> {
    let text = place.to_string_lossy();
    let named = spec.services.iter().filter(|service| {
        let values = service.env.iter().map(|(_, value)| value);
        let mut texts = values.chain([&service.run]);
        texts.any(|words| words.contains(text.as_ref())) || rooms::shows(spec, service, place)
    });
    named.map(|service| service.name.clone()).collect()
}

/// Empties, in the background, earlier generations of volumes of a running workspace. Their root
/// directories stay, because the new volumes are mounted on them.
fn empty_earlier(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) {
    let earlier = earlier(dirs, spec);
    tokio::task::spawn_blocking(move || {
        for generation in earlier {
            let own = generation.join("own");
            if let Err(error) = empty_tree(&own) {
                let own = own.display();
                tracing::warn!(%own, %error, "an earlier volume is deleted at the next start");
            }
        }
    });
}
