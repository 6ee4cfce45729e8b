//! The mounts of a workspace's container, as the engine makes them: places in holm's volume by their path on the
//! engine's machine, and overlays as volumes that last as long as the container.

use crate::engine::{Kind, refused};
use crate::labels::random;
use crate::live::Live;
use bollard::models::{
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, MountVolumeOptions,
    Volume, VolumeCreateRequest,
};
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptions};
use holm_core::{Code, Fault};
use holm_keeper::container::{
    Access, KEEPER_GROUP, SecretFiles, Shown, USER, VOLUME, What, Writable,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What the two containers of a workspace get.
#[derive(Default)]
pub struct Mounts {
    pub workspace: Vec<Mount>,
    pub keeper: Vec<Mount>,
}

/// Makes the mounts of one start.
pub async fn make(
    live: &Live,
    id: &str,
    shown: &[Shown],
    secrets: Option<&SecretFiles>,
) -> Result<Mounts, Fault> {
    let start = random().map_err(|error| {
        Fault::new(Code::Internal, "no random numbers", "report this").because(error)
    })?;
    let mut mounts = Mounts {
        keeper: vec![live.volume()],
        ..Mounts::default()
    };
    for (number, shown) in shown.iter().enumerate() {
        let mount = match &shown.what {
            What::Place { from, access } => bind(live.place(from), &shown.to, *access),
            What::Overlay { layers, writable } => {
                let name = live.installation.mount(id, &start, number);
                let options = live.overlay(layers, writable.as_ref());
                live.create_mount(&name, id, "overlay", options).await?;
                volume(name, &shown.to, access_of(writable.as_ref()))
            }
        };
        mounts.workspace.push(mount);
    }
    // An engine's own `tmpfs` belongs to root, and Podman gives it to no other user.
    let name = live.installation.mount(id, &start, shown.len());
    let options = format!("mode=0755,nosuid,nodev,uid={USER},gid={USER}");
    live.create_mount(&name, id, "tmpfs", live.sized(options, "256m"))
        .await?;
    mounts
        .workspace
        .push(volume(name, Path::new("/run"), Access::Write));
    if let Some(files) = secrets {
        let name = live.installation.mount(id, &start, shown.len() + 1);
        let options = format!("mode=0755,nosuid,nodev,noexec,uid={USER},gid={KEEPER_GROUP}");
        live.create_mount(&name, id, "tmpfs", live.sized(options, "8m"))
            .await?;
        mounts
            .keeper
            .push(volume(name.clone(), &files.keeper, Access::Write));
        mounts
            .workspace
            .push(volume(name, &files.inside, Access::Read));
    }
    Ok(mounts)
}

fn access_of(writable: Option<&Writable>) -> Access {
    match writable {
        Some(_) => Access::Write,
        None => Access::Read,
    }
}

fn bind(from: PathBuf, to: &Path, access: Access) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(from.display().to_string()),
        target: Some(to.display().to_string()),
        read_only: Some(access == Access::Read),
        bind_options: Some(MountBindOptions {
            // Docker refuses other modes for places below its own directory.
            propagation: Some(MountBindOptionsPropagationEnum::RSLAVE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

fn volume(name: String, to: &Path, access: Access) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(name),
        target: Some(to.display().to_string()),
        read_only: Some(access == Access::Read),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

// === impl Live ===

impl Live {
    /// A path of the volume, on the engine's machine.
    fn place(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(VOLUME).unwrap_or(path);
        Path::new(&self.mountpoint).join(below)
    }

    /// The options of an overlay. Its attributes are those that the store can read without the engine's rights.
    fn overlay(&self, layers: &[PathBuf], writable: Option<&Writable>) -> String {
        let place = |path: &PathBuf| self.place(path).display().to_string();
        let layers: Vec<_> = layers.iter().map(place).collect();
        let mut options = format!("lowerdir={}", layers.join(":"));
        if let Some(Writable { upper, work }) = writable {
            options += &format!(",upperdir={},workdir={}", place(upper), place(work));
        }
        options + ",userxattr"
    }

    /// Podman takes a size for a quota of its own, which few file systems have.
    fn sized(&self, options: String, size: &str) -> String {
        match self.kind {
            Kind::Docker => format!("{options},size={size}"),
            Kind::Podman => options,
        }
    }

    async fn create_mount(
        &self,
        name: &str,
        id: &str,
        kind: &str,
        options: String,
    ) -> Result<(), Fault> {
        let options = [("type", kind), ("device", kind), ("o", &options)];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            driver: Some("local".to_owned()),
            driver_opts: Some(HashMap::from(options)),
            labels: Some(self.installation.labels_of(id)),
            ..VolumeCreateRequest::default()
        };
        let created = self.docker.create_volume(request).await;
        created.map_err(|error| refused("cannot make a volume of the workspace", error))?;
        Ok(())
    }

    /// Removes the volumes of a workspace's earlier starts, whose containers are gone.
    pub async fn remove_mounts(&self, id: &str) -> Result<(), Fault> {
        let filter = self.installation.filter(id);
        let options = ListVolumesOptionsBuilder::default()
            .filters(&filter)
            .build();
        let found = self.docker.list_volumes(Some(options)).await;
        let found =
            found.map_err(|error| refused("the engine does not list its volumes", error))?;
        let own = self.installation.labels_of(id);
        // Podman lists what has one of the labels.
        let is_own = |volume: &Volume| {
            own.iter()
                .all(|label| volume.labels.get_key_value(label.0) == Some(label))
        };
        let found = found.volumes.unwrap_or_default().into_iter();
        for volume in found.filter(is_own) {
            let removed = self
                .docker
                .remove_volume(&volume.name, None::<RemoveVolumeOptions>)
                .await;
            match removed {
                Err(error) if !crate::engine::is_absent(&error) => {
                    return Err(refused(
                        format!("cannot remove the volume {}", volume.name),
                        error,
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
