//! Which directories of a repository are parts of the product: the root, packages below it, or the
//! directory in which the command was typed.

use super::directory::Directory;
use super::proposal::{Part, Proposal};
use super::{COMPOSE, MOST_DIRECTORIES, go, node, python, ruby, rust};

/// Directories beside the root's own project that belong to the same product.
const APPS: [&str; 14] = [
    "frontend",
    "front",
    "client",
    "web",
    "webapp",
    "ui",
    "app",
    "backend",
    "back",
    "server",
    "api",
    "admin",
    "dashboard",
    "worker",
];

/// Directories whose subdirectories are parts of the product.
const PARENTS: [&str; 4] = ["apps", "services", "packages", "projects"];

/// From this many unrelated projects on, a repository is a collection of examples.
const COLLECTION: usize = 4;

/// Whether a directory is a project of its own, or has projects below it.
pub fn is_project(directory: Directory<'_>) -> bool {
    !parts_of(directory).is_empty()
        || directory.first(&COMPOSE).is_some()
        || below(directory).any(|(_, parts)| !parts.is_empty())
}

/// Every framework found in a directory.
pub fn parts_of(directory: Directory<'_>) -> Vec<Part> {
    let look = [ruby::look, python::look, node::look, go::look, rust::look];
    look.iter().filter_map(|look| look(directory)).collect()
}

/// The parts of the product, with remarks about those that are not taken.
pub fn parts(
    root: Directory<'_>,
    focus: Option<Directory<'_>>,
    proposal: &mut Proposal,
) -> Vec<Part> {
    if let Some(focus) = focus {
        return parts_in(root, focus, proposal);
    }
    let mut parts = parts_of(root);
    let is_nothing_there = parts.is_empty();
    let has_programs = parts.iter().any(|part| !part.programs.is_empty());
    let below: Vec<_> = below(root).collect();
    if is_nothing_there && is_collection(root, &below) {
        let names: Vec<&str> = below.iter().map(|(at, _)| at.at()).collect();
        proposal.remarks.push(format!(
            "`cd DIRECTORY && holm init` looks at one of these separate projects: {}",
            names.join(", ")
        ));
        return Vec::new();
    }
    for (directory, found) in below {
        let is_member = node::is_member(directory) || rust::is_member(directory);
        if is_member || found.is_empty() {
            continue;
        }
        let is_app = APPS.contains(&directory.name()) || PARENTS.contains(&first(directory));
        let starts = found.iter().any(|part| !part.programs.is_empty());
        // A script of the root that names the directory starts it.
        let programs = parts.iter().flat_map(|part| &part.programs);
        let is_started = programs
            .filter(|program| program.at.is_empty())
            .any(|program| program.reason.contains(directory.at()));
        let is_taken = is_nothing_there || (is_app && starts);
        if is_taken && (!has_programs || starts) {
            parts.extend(
                found
                    .into_iter()
                    .map(|part| if is_started { part.installed() } else { part }),
            );
        } else {
            proposal.remarks.push(named(directory, &found));
        }
    }
    parts
}

/// The parts of one directory. The root installs the packages of its workspaces.
fn parts_in(root: Directory<'_>, focus: Directory<'_>, proposal: &mut Proposal) -> Vec<Part> {
    proposal.remarks.push(format!(
        "Only {} was looked at; `holm init` in the root looks at everything",
        focus.path("")
    ));
    let mut parts = Vec::new();
    if node::is_member(focus) || rust::is_member(focus) {
        for part in parts_of(root) {
            parts.push(part.installed());
        }
    }
    let own = parts_of(focus);
    if own.is_empty() {
        parts.extend(below(focus).flat_map(|(_, parts)| parts));
    }
    parts.extend(own);
    parts
}

/// The directories below the root with a project, and those one level deeper where there is none.
fn below(root: Directory<'_>) -> impl Iterator<Item = (Directory<'_>, Vec<Part>)> {
    let directories = root.directories().take(MOST_DIRECTORIES);
    directories.flat_map(|directory| {
        let parts = parts_of(directory);
        if !parts.is_empty() || !PARENTS.contains(&directory.name()) {
            return vec![(directory, parts)];
        }
        let deeper = directory.directories().take(MOST_DIRECTORIES);
        deeper.map(|it| (it, parts_of(it))).collect()
    })
}

fn first<'a>(directory: Directory<'a>) -> &'a str {
    directory.at().split('/').next().unwrap_or_default()
}

/// Whether the directories are unrelated: several have a compose file of their own, and the root has none.
fn is_collection(root: Directory<'_>, below: &[(Directory<'_>, Vec<Part>)]) -> bool {
    let has_compose = |directory: Directory<'_>| directory.first(&COMPOSE).is_some();
    let composed = below
        .iter()
        .filter(|(directory, _)| has_compose(*directory));
    !has_compose(root) && composed.count() >= COLLECTION
}

/// A remark about a directory that is not taken.
fn named(directory: Directory<'_>, parts: &[Part]) -> String {
    let kinds: Vec<&str> = parts.iter().map(|part| part.sign.kind).collect();
    let at = directory.path("");
    let kinds = kinds.join(", ");
    format!("{at} looks like a project of its own ({kinds})")
}
