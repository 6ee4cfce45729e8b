//! What the daemon has to know to start the containers of a workspace: what the Linux driver's launcher would mount, for
//! an engine that mounts it.

use super::environment::ETC;
use crate::launch::{LaunchPlan, NewRoot};
use holm_core::config::Inject;
use holm_keeper::container::{Access, SecretFiles, Shown, Start, What, Writable};
use holm_keeper::directories::open_directory;
use holm_keeper::guest::SECRET_FILES;
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use holm_keeper::wire::Mounted;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The order, and the directories inside that its mounts need.
pub fn start_order(plan: &LaunchPlan) -> Result<Start, LaunchFailure> {
    let shown = everything(plan)?;
    make_places(plan, &shown)?;
    let has_files = plan
        .keeper
        .secrets
        .iter()
        .any(|grant| grant.form == Inject::File);
    let secret_files = has_files.then(|| SecretFiles {
        inside: SECRET_FILES.into(),
        keeper: plan.keeper.directories().guest().join("secrets"),
    });
    Ok(Start {
        id: plan.keeper.id.clone(),
        label: plan.keeper.label.clone(),
        plan: serde_json::to_value(plan)
            .map_err(io::Error::from)
            .step(Part::Other, "write the plan")?,
        keeper: plan.programs.roles().to_owned(),
        init: plan.keeper.helper.clone(),
        shown,
        secret_files,
        limits: plan.limits,
        required: plan.required.clone(),
    })
}

fn everything(plan: &LaunchPlan) -> Result<Vec<Shown>, LaunchFailure> {
    let dirs = plan.keeper.directories();
    let guest = Path::new("/run/holm");
    let (programs, programs_inside) = plan.programs.shown();
    let mut shown = vec![
        place(dirs.tmp(), "/tmp", Access::Write),
        place(dirs.guest(), guest, Access::Read),
        place(&plan.objects, guest.join("objects"), Access::Read),
        place(programs, programs_inside, Access::Read),
        home(plan),
        Shown {
            to: plan.keeper.root.clone(),
            what: What::Overlay {
                layers: plan.layers.clone(),
                writable: Some(Writable {
                    upper: dirs.upper(),
                    work: dirs.work(),
                }),
            },
        },
    ];
    let files = ETC.iter();
    shown.extend(files.map(|name| {
        let to = Path::new("/etc").join(name);
        place(dirs.etc().join(name), to, Access::Read)
    }));
    let bundle = dirs.authority().join("bundle.pem");
    let bundles = plan.bundles.iter();
    shown.extend(bundles.map(|covered| place(&bundle, covered, Access::Read)));
    shown.extend(plan.keeper.caches.iter().map(mounted));
    let volumes = plan.keeper.volumes.iter();
    shown.extend(volumes.map(|volume| mounted(&volume.mount)));
    for path in crate::launch::outermost(&plan.protected) {
        shown.push(protected(plan, path)?);
    }
    shown.sort_by_key(|shown| shown.to.components().count());
    Ok(shown)
}

fn place(from: impl Into<PathBuf>, to: impl Into<PathBuf>, access: Access) -> Shown {
    Shown {
        to: to.into(),
        what: What::Place {
            from: from.into(),
            access,
        },
    }
}

fn home(plan: &LaunchPlan) -> Shown {
    let dirs = plan.keeper.directories();
    if plan.home_layers.is_empty() {
        return place(dirs.home(), &plan.home, Access::Write);
    }
    Shown {
        to: plan.home.clone(),
        what: What::Overlay {
            layers: plan.home_layers.clone(),
            writable: Some(Writable {
                upper: dirs.home(),
                work: dirs.home_work(),
            }),
        },
    }
}

fn mounted(mounted: &Mounted) -> Shown {
    match &mounted.below {
        None => place(&mounted.own, &mounted.inside, Access::Write),
        Some(below) => Shown {
            to: mounted.inside.clone(),
            what: What::Overlay {
                layers: vec![below.layer.clone()],
                writable: Some(Writable {
                    upper: mounted.own.clone(),
                    work: below.work.clone(),
                }),
            },
        },
    }
}

/// A protected path as the overlay shows it, read-only. The kernel refuses to rename a directory of a lower layer, so the
/// path stays where it is if a lower layer has the directory above it.
fn protected(plan: &LaunchPlan, path: &Path) -> Result<Shown, LaunchFailure> {
    let to = plan.keeper.root.join(path);
    let cannot = |why: &str| LaunchFailure {
        part: Part::ProtectedPath,
        step: format!("protect {}", path.display()),
        cause: format!("in a container a protected path {why}"),
        errno: None,
    };
    let parent = path.parent().unwrap_or(Path::new(""));
    if !plan.layers.iter().any(|layer| layer.join(parent).is_dir()) {
        return Err(cannot("has to be in a directory of the commit"));
    }
    let upper = plan.keeper.directories().upper();
    let mut found = Vec::new();
    for layer in std::iter::once(&upper).chain(&plan.layers) {
        let hidden = path.ancestors().any(|above| {
            let metadata = layer.join(above).symlink_metadata();
            metadata.is_ok_and(|metadata| metadata.file_type().is_char_device())
        });
        match layer.join(path).symlink_metadata() {
            Ok(metadata) if !hidden => {
                if metadata.is_symlink() {
                    return Err(cannot("cannot be a symlink"));
                }
                found.push(layer.join(path));
                if !metadata.is_dir() {
                    break;
                }
            }
            _ => {}
        }
        if hidden {
            break;
        }
    }
    let what = match found.len() {
        0 => return Err(cannot("has to exist")),
        1 => What::Place {
            from: found.swap_remove(0),
            access: Access::Read,
        },
        _ => What::Overlay {
            layers: found,
            writable: None,
        },
    };
    Ok(Shown { to, what })
}

/// An engine would create missing directories as its own user, where a program inside may have put a link. Places in the
/// tree, home and `/tmp` are therefore made here, without following links.
fn make_places(plan: &LaunchPlan, shown: &[Shown]) -> Result<(), LaunchFailure> {
    let dirs = plan.keeper.directories();
    let writable = [
        (plan.keeper.root.as_path(), dirs.upper()),
        (plan.home.as_path(), dirs.home()),
        (Path::new("/tmp"), dirs.tmp()),
    ];
    for place in shown {
        let below = writable.iter().filter_map(|(top, directory)| {
            let rest = place.to.strip_prefix(top).ok()?;
            (!rest.as_os_str().is_empty()).then_some((top, directory, rest))
        });
        let Some((top, directory, rest)) = below.max_by_key(|(top, ..)| top.components().count())
        else {
            continue;
        };
        let in_layer = |layer: &PathBuf| layer.join(rest).symlink_metadata().is_ok();
        let in_lower = **top == *plan.keeper.root && plan.layers.iter().any(in_layer);
        if in_lower
            || directory
                .join(rest)
                .symlink_metadata()
                .is_ok_and(|found| found.is_dir())
        {
            continue;
        }
        let is_file = matches!(&place.what, What::Place { from, .. } if from.is_file());
        let make = || {
            let top = NewRoot::at(open_directory(directory)?);
            if is_file {
                top.file(rest).map(drop)
            } else {
                top.directory(rest).map(drop)
            }
        };
        make().step(
            Part::Mount,
            &format!("make a place for {}", place.to.display()),
        )?;
    }
    Ok(())
}
