//! Lists what could be deleted, and deletes it: a rename into `reap/`, which is never searched,
//! then the deletion.

use super::connect::client;
use super::{disk_fault, layer, observe};
use crate::{Layout, owned};
use holm_core::image_reference::ImageDigest;
use holm_core::layer::LayerKey;
use holm_core::trash::BaseKey;
use holm_core::{Fault, ProjectId, WorkspaceId};
use holm_engine::Progress;
use holm_engine::storage::{Discard, Discarded, Known, Leftover, Survey};
use holm_image::Images;
use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Older uploads and trials are unused.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// The prefix of a base that is being built.
const BUILDING: &str = ".building-";

/// Progress is reported once per this many files.
const TELL_EVERY: u64 = 256;

/// The program copies that keepers run, and our own; `None` when a keeper does not answer.
pub async fn programs_in_use(
    layout: &Layout,
    own: &Path,
    known: &Known,
) -> Result<Option<HashSet<PathBuf>>, Fault> {
    let mut programs = HashSet::from([own.to_owned()]);
    for id in &known.workspaces {
        let dirs = layout.workspace(id);
        let holder = observe::keeper_pid(&dirs)
            .map_err(|error| disk_fault(error, format!("cannot look at the lock of {id}")))?;
        if holder.is_none() {
            continue;
        }
        match client(&dirs).status().await.map(|status| status.program) {
            Ok(Some(program)) => programs.insert(program),
            Ok(None) | Err(_) => return Ok(None),
        };
    }
    Ok(Some(programs))
}

pub fn survey(
    layout: &Layout,
    known: &Known,
    programs: Option<&HashSet<PathBuf>>,
) -> Result<Survey, Fault> {
    let mut survey = Survey::default();
    for entry in entries(&layout.data_dir.join("projects"))? {
        survey_project(layout, &entry, known, &mut survey)?;
    }
    for place in ["workspaces", "trash"] {
        for entry in entries(&layout.data_dir.join(place))? {
            // A workspace that is being restored or removed may be in either place.
            let is_known = WorkspaceId::parse(&name(&entry))
                .is_ok_and(|id| known.workspaces.contains(&id) || known.trashed.contains(&id));
            if !is_known {
                survey.unknown.push(entry.path().display().to_string());
            }
        }
    }
    for entry in entries(&layout.data_dir.join("incoming"))? {
        if is_stale(&entry) {
            survey.leftovers.push(leftover(layout, &entry));
        }
    }
    for entry in entries(&layout.data_dir)? {
        if name(&entry).starts_with("trial-") && is_stale(&entry) {
            survey.leftovers.push(leftover(layout, &entry));
        }
    }
    survey_owned(layout, &mut survey)?;
    if let Some(programs) = programs {
        for entry in entries(&layout.data_dir.join("program"))? {
            if !programs.contains(&entry.path().join("holm")) {
                survey.leftovers.push(leftover(layout, &entry));
            }
        }
    }
    Ok(survey)
}

/// Files of images with their owners, of images that are gone.
fn survey_owned(layout: &Layout, survey: &mut Survey) -> Result<(), Fault> {
    let entries = entries(&layout.owned_files())?;
    if entries.is_empty() {
        return Ok(());
    }
    // Without the images nothing is known of them.
    let Ok(images) = Images::open(&layout.images()) else {
        return Ok(());
    };
    for entry in entries {
        let name = name(&entry);
        let digits = name.split('-').next().unwrap_or_default();
        let digest = format!("sha256:{digits}").parse::<ImageDigest>();
        let is_there = digest.is_ok_and(|digest| images.root(&digest).is_ok());
        if !is_there || (name.contains(".new-") && is_stale(&entry)) {
            survey.leftovers.push(leftover(layout, &entry));
        }
    }
    Ok(())
}

fn survey_project(
    layout: &Layout,
    entry: &DirEntry,
    known: &Known,
    survey: &mut Survey,
) -> Result<(), Fault> {
    let project = match ProjectId::parse(&name(entry)) {
        Ok(id) if known.projects.contains(&id) => id,
        Ok(_) => {
            survey.unknown.push(entry.path().display().to_string());
            return Ok(());
        }
        // Deletions under way have names that are no ids.
        Err(_) => return Ok(()),
    };
    for base in entries(&entry.path().join("bases"))? {
        let commit = name(&base);
        if commit.starts_with(BUILDING) {
            survey.leftovers.push(leftover(layout, &base));
            continue;
        }
        let key = BaseKey {
            project: project.to_string(),
            commit: (commit != "empty").then_some(commit),
        };
        survey.bases.push((key, made_at(&base)));
    }
    survey_layers(layout, &project, known, survey)
}

fn survey_layers(
    layout: &Layout,
    project: &ProjectId,
    known: &Known,
    survey: &mut Survey,
) -> Result<(), Fault> {
    for layer in entries(&layout.project(project).join("layers"))? {
        let key = name(&layer);
        let builder = key.strip_prefix(layer::BUILDING).map(WorkspaceId::parse);
        match builder {
            Some(Ok(id)) if known.workspaces.contains(&id) => {}
            Some(_) => survey.leftovers.push(leftover(layout, &layer)),
            None if key.starts_with(layer::FAILED) || key.starts_with(layer::BRINGING) => {
                if is_stale(&layer) {
                    survey.leftovers.push(leftover(layout, &layer));
                }
            }
            None => {
                let key = LayerKey {
                    project: project.to_string(),
                    key,
                };
                survey.layers.push((key, made_at(&layer)));
            }
        }
    }
    Ok(())
}

/// Its name is the path below the data directory.
fn leftover(layout: &Layout, entry: &DirEntry) -> Leftover {
    let path = entry.path();
    let name = path.strip_prefix(&layout.data_dir).unwrap_or(&path);
    Leftover {
        name: name.to_string_lossy().into_owned(),
        shown: path.display().to_string(),
    }
}

/// Since the epoch; an unknown time counts as old.
fn made_at(entry: &DirEntry) -> Duration {
    let made = entry.metadata().and_then(|metadata| metadata.modified());
    let made = made.unwrap_or(SystemTime::UNIX_EPOCH);
    made.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Renames it into `reap/`. A workspace keeps its id as the name.
pub fn discard(layout: &Layout, what: Discard) -> Result<Option<Discarded>, Fault> {
    let fresh = || WorkspaceId::random();
    let (path, name) = match what {
        Discard::Workspace(id) => (layout.trash(&id), id.to_string()),
        Discard::Base(base) => {
            let bases = layout.data_dir.join("projects").join(&base.project);
            let commit = base.commit.as_deref().unwrap_or("empty");
            let path = bases.join("bases").join(commit);
            (path, format!("base-{}", fresh()))
        }
        Discard::Layer(key) => (layer::directory(layout, &key), format!("layer-{}", fresh())),
        Discard::Project(id) => (layout.project(&id), format!("project-{}", fresh())),
        Discard::Leftover(leftover) => {
            let path = layout.data_dir.join(&leftover.name);
            (path, format!("leftover-{}", fresh()))
        }
    };
    match fs::rename(&path, layout.reap().join(&name)) {
        Ok(()) => Ok(Some(Discarded::new(name))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(disk_fault(
            error,
            format!("cannot delete {}", path.display()),
        )),
    }
}

pub fn discarded(layout: &Layout) -> Result<Vec<Discarded>, Fault> {
    let entries = entries(&layout.reap())?;
    Ok(entries
        .iter()
        .map(|entry| Discarded::new(name(entry)))
        .collect())
}

pub fn delete(layout: &Layout, discarded: &Discarded, progress: &Progress) -> Result<u64, Fault> {
    let path = layout.reap().join(discarded.name());
    let (mut files, mut bytes) = (0, 0);
    let removed = owned::remove_all(&path, &mut |freed| {
        files += 1;
        bytes += freed;
        if files % TELL_EVERY == 0 {
            progress.report("deleting", files, 0);
        }
    });
    removed.map_err(|error| disk_fault(error, format!("cannot delete {}", path.display())))?;
    Ok(bytes)
}

/// The entries of a directory; empty if it does not exist.
pub fn entries(path: &Path) -> Result<Vec<DirEntry>, Fault> {
    let read = || fs::read_dir(path)?.collect::<io::Result<Vec<_>>>();
    match read() {
        Ok(entries) => Ok(entries),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(disk_fault(
            error,
            format!("cannot look into {}", path.display()),
        )),
    }
}

pub fn name(entry: &DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

/// An unknown age counts as young.
fn is_stale(entry: &DirEntry) -> bool {
    let modified = entry.metadata().and_then(|metadata| metadata.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE))
}
