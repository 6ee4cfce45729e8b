//! Plans the rooms of services that run from images. Images are resolved to directories here and nowhere else, so no
//! host path leaves the driver.

use super::{LinuxDriver, disk_fault, sweep, users};
use crate::{Layout, launch};
use holm_core::container::{Container, Mount, Source, Watch};
use holm_core::image_reference::ImageDigest;
use holm_core::image_users;
use holm_core::service_network;
use holm_core::spec::{Service, ServiceImage, WorkspaceSpec};
use holm_core::sub_ids::SubIds;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_image::{ImageConfig, Images, ImagesError};
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::room::{ImageStart, RoomPlan};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many digits of a manifest name the files of a room.
const DIGITS: usize = 16;

/// The rooms of a workspace that is about to start. Files of rooms that are not among them are set aside.
pub async fn plan(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
    ids: Option<SubIds>,
) -> Result<Vec<RoomPlan>, Fault> {
    let rooms = dirs.rooms();
    let is_used = spec.services.iter().any(|service| service.image.is_some());
    if !is_used && !rooms.exists() {
        return Ok(Vec::new());
    }
    let (layout, spec, dirs) = (Arc::clone(&driver.layout), spec.clone(), dirs.clone());
    let helper = driver.programs.roles_inside();
    try_blocking(move || {
        let mut planned = plan_all(&layout, &spec, &rooms, ids.as_ref())?;
        for room in &mut planned {
            let service = spec.services.iter().find(|it| it.name == room.service);
            if let Some(container) = service.and_then(Service::container) {
                show_watched(room, &container.watches, &helper);
            }
        }
        let kept: BTreeSet<PathBuf> = planned.iter().map(|room| room.own.clone()).collect();
        let swept = prepare(&rooms, &dirs, &kept);
        swept
            .map_err(|error| disk_fault(error, format!("cannot make the rooms of {}", spec.id)))?;
        Ok(planned)
    })
    .await
}

/// Whether a service sees the volume at this path in its room.
pub fn shows(spec: &WorkspaceSpec, service: &Service, place: &Path) -> bool {
    let Some(image) = &service.image else {
        return false;
    };
    let mounts = image.container.iter().flat_map(|it| &it.mounts);
    let mounted = mounts.filter_map(|mount| match &mount.source {
        Source::Volume { name, .. } => Some(name.clone()),
        _ => None,
    });
    let names: Vec<String> = image.volumes.iter().cloned().chain(mounted).collect();
    volumes(spec, &names).iter().any(|path| path == place)
}

fn plan_all(
    layout: &Layout,
    spec: &WorkspaceSpec,
    rooms: &Path,
    ids: Option<&SubIds>,
) -> Result<Vec<RoomPlan>, Fault> {
    let mut planned = Vec::new();
    let mut images = None;
    for service in &spec.services {
        let Some(image) = &service.image else {
            continue;
        };
        let images = match &images {
            Some(images) => images,
            None => {
                let opened = Images::open(&layout.images());
                images.insert(opened.map_err(|error| unusable(service, image, error))?)
            }
        };
        let root = images.root(&image.manifest);
        let root = root.map_err(|error| unusable(service, image, error))?;
        let start = start(&root.config, service, image)?;
        let directories = root.config.volumes.iter().map(PathBuf::from);
        let mut room = RoomPlan {
            service: service.name.clone(),
            layers: root.layers,
            own: rooms.join(format!("{}-{}", service.name, short(&image.manifest))),
            tree: image.tree.clone(),
            volumes: volumes(spec, &image.volumes),
            directories: directories
                .chain(start.directory.as_ref().map(PathBuf::from))
                .collect(),
            start,
            ..RoomPlan::default()
        };
        if let Some(container) = &image.container {
            add_container(&mut room, spec, service, container);
        }
        let home = spec.dev_container.as_ref();
        if home.is_some_and(|home| home.service == service.name) {
            room.home_of = Some(spec.generation);
            // Without approval of its mount, the directory is empty.
            room.directories
                .extend(home.map(|home| home.folder.clone()));
        }
        if let Some(ids) = ids.filter(|_| has_users(&room)) {
            give_users(&mut room, layout, &image.manifest, ids)
                .map_err(|error| unusable_users(service, image, error))?;
        }
        planned.push(room);
    }
    Ok(planned)
}

/// Whether programs of the room have the users of the image. Root of a room is the workspace's user, who owns the tree. A
/// service that starts as another user and writes the tree therefore has only this one: then what it writes is the user's,
/// and it could not change its user anyway.
fn has_users(room: &RoomPlan) -> bool {
    let mut mounts = room.mounts.iter();
    let writes_tree = room.tree.is_some()
        || mounts.any(|it| !it.read_only && matches!(it.source, Source::Tree { .. }));
    image_users::is_root(room.start.user.as_deref()) || !writes_tree
}

fn give_users(
    room: &mut RoomPlan,
    layout: &Layout,
    manifest: &ImageDigest,
    ids: &SubIds,
) -> io::Result<()> {
    room.has_users = true;
    // Files of one user and of several must not mix.
    room.own.as_mut_os_string().push("-users");
    let layer = users::layer(layout, manifest, &room.layers, ids)?;
    room.layers.splice(0..0, layer);
    Ok(())
}

/// What a Compose file says of the room.
fn add_container(
    room: &mut RoomPlan,
    spec: &WorkspaceSpec,
    service: &Service,
    container: &Container,
) {
    room.mounts.clone_from(&container.mounts);
    let volumes = spec.volumes.iter();
    let places = volumes.map(|volume| (volume.name.clone(), volume.path.clone()));
    room.places = places.collect();
    room.is_read_only = container.read_only;
    let namespace = service_network::namespace_of(&spec.services, service);
    room.network = namespace.and_then(|index| u32::try_from(index).ok());
    if room.network.is_some() {
        let hosts = service_network::hosts(&spec.services, service, launch::network::ADDRESS);
        room.hosts = Some(hosts);
        let name = container.hostname.as_ref().unwrap_or(&container.name);
        room.hostname = Some(name.clone());
    }
}

/// The directories that the service follows, and the program that does it.
fn show_watched(room: &mut RoomPlan, watches: &[Watch], helper: &Path) {
    if watches.is_empty() {
        return;
    }
    room.helper = Some(helper.to_owned());
    let watched = watches.iter().enumerate().map(|(number, watch)| Mount {
        source: Source::Tree {
            path: watch.base.clone(),
            create: true,
        },
        target: Watch::place(number),
        read_only: true,
    });
    room.mounts.extend(watched);
}

fn short(manifest: &ImageDigest) -> &str {
    &manifest.hex()[..DIGITS]
}

fn volumes(spec: &WorkspaceSpec, names: &[String]) -> Vec<PathBuf> {
    let volumes = spec.volumes.iter();
    let seen = volumes.filter(|volume| names.contains(&volume.name));
    seen.map(|volume| volume.path.clone()).collect()
}

fn start(
    config: &ImageConfig,
    service: &Service,
    image: &ServiceImage,
) -> Result<ImageStart, Fault> {
    let own = image.container.clone().unwrap_or_default();
    let (entrypoint, command) = match (own.entrypoint, own.command) {
        (None, None) => (config.entrypoint.clone(), config.command.clone()),
        (None, Some(command)) => (config.entrypoint.clone(), command),
        // Another entrypoint does not understand the image's command.
        (Some(entrypoint), command) => (entrypoint, command.unwrap_or_default()),
    };
    if entrypoint.is_empty() && command.is_empty() && service.run.is_empty() {
        return Err(Fault::new(
            Code::StartFailed,
            format!("the image {} names no program to start", image.reference),
            format!("give [services.{}] a `run` in holm.toml", service.name),
        ));
    }
    let stop_signal = match own.stop_signal.as_ref().or(config.stop_signal.as_ref()) {
        None => libc::SIGTERM,
        Some(name) => signal_named(name).ok_or_else(|| {
            let reference = &image.reference;
            Fault::new(
                Code::StartFailed,
                format!("the image {reference} has the unknown stop signal `{name}`"),
                "use another version of the image",
            )
        })?,
    };
    Ok(ImageStart {
        entrypoint,
        command,
        environment: config.environment.clone(),
        user: own.user.or_else(|| config.user.clone()),
        groups: own.groups,
        directory: own.directory.or_else(|| config.working_directory.clone()),
        stop_signal,
    })
}

/// `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`.
fn signal_named(text: &str) -> Option<i32> {
    const NAMED: [(&str, i32); 12] = [
        ("HUP", libc::SIGHUP),
        ("INT", libc::SIGINT),
        ("QUIT", libc::SIGQUIT),
        ("ABRT", libc::SIGABRT),
        ("KILL", libc::SIGKILL),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
        ("ALRM", libc::SIGALRM),
        ("TERM", libc::SIGTERM),
        ("CONT", libc::SIGCONT),
        ("WINCH", libc::SIGWINCH),
        ("PWR", libc::SIGPWR),
    ];
    let (least, most) = (1, libc::SIGRTMAX());
    let is_signal = |number: &i32| (least..=most).contains(number);
    if let Ok(number) = text.parse() {
        return Some(number).filter(is_signal);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some(rest) = name.strip_prefix("RTMIN") {
        let offset = match rest {
            "" => 0,
            _ => i32::from(rest.strip_prefix('+')?.parse::<u8>().ok()?),
        };
        return libc::SIGRTMIN().checked_add(offset).filter(is_signal);
    }
    let mut named = NAMED.iter();
    named.find(|(known, _)| *known == name).map(|named| named.1)
}

/// Makes the directory of the rooms. What another image of a service left is not shown any more.
fn prepare(rooms: &Path, dirs: &WorkspaceDirs, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
    fs::create_dir_all(rooms)?;
    for entry in fs::read_dir(rooms)? {
        let path = entry?.path();
        if !kept.contains(&path) {
            sweep::set_aside(dirs, &path)?;
        }
    }
    Ok(())
}

fn unusable_users(service: &Service, image: &ServiceImage, error: io::Error) -> Fault {
    let (name, reference) = (&service.name, &image.reference);
    disk_fault(
        error,
        format!("cannot give the files of {reference} to its users, for the service {name}"),
    )
}

fn unusable(service: &Service, image: &ServiceImage, error: ImagesError) -> Fault {
    let (name, reference) = (&service.name, &image.reference);
    Fault::new(
        Code::ImageNotFound,
        format!("the service {name} cannot run in the image {reference}"),
        format!("`holm image pull {reference}` fetches it again"),
    )
    .because(error)
}

#[cfg(test)]
mod tests {
    use super::signal_named;

    #[test]
    fn stop_signals_of_images() {
        let check = |text: &str, expected: Option<i32>| {
            assert_eq!(signal_named(text), expected, "{text}");
        };
        check("SIGTERM", Some(15));
        check("int", Some(2));
        check("3", Some(3));
        check("SIGRTMIN+3", Some(libc::SIGRTMIN() + 3));
        check("RTMIN", Some(libc::SIGRTMIN()));
        for wrong in [
            "",
            "0",
            "-9",
            "999",
            "SIGNONE",
            "SIGRTMIN+99",
            "SIGRTMIN3",
            "SIGRTMINfoo",
            "SIGRTMIN+-3",
            "SIGRTMIN+99999999999",
        ] {
            check(wrong, None);
        }
    }
}
