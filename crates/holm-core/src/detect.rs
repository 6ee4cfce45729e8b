//! Proposes a `holm.toml` from the names and contents of a few known files of a repository. Called
//! by `holm init`, and by `holm up` for its notes.
//!
//! Every line of a proposal names the file it comes from, and uncertain parts become commented
//! blocks with the reason. Nothing of the repository is executed, and values that look like secrets
//! are not repeated.

mod command;
mod compose;
mod database;
mod directory;
mod document;
mod environment;
mod go;
mod node;
mod procfile;
mod proposal;
mod python;
mod ruby;
mod rust;
mod source;
mod write;

pub use document::Document;
pub use proposal::{Proposal, Service, Sign, Step};

use directory::Directory;
use proposal::Part;
use std::collections::{BTreeMap, BTreeSet};

/// What was read of a checkout.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Paths relative to the root with `/`; directories end with `/`.
    pub listing: BTreeSet<String>,
    /// The contents of the files that [`wanted`] named.
    pub contents: BTreeMap<String, Content>,
    /// Files at the root that git ignores, so workspaces do not have them.
    pub ignored: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Text(String),
    Document(Document),
    /// Why it is not used: too large, not of its format, a symlink.
    Unusable(String),
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
    Toml,
    Yaml,
}

/// Compose files, in Compose's order of preference.
const COMPOSE: [&str; 4] = [
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
];

/// Further files that Compose reads; the proposal only mentions them.
const COMPOSE_OVERRIDES: [&str; 4] = [
    "compose.override.yaml",
    "compose.override.yml",
    "docker-compose.override.yaml",
    "docker-compose.override.yml",
];

/// The development file first, then the general one.
const PROCFILES: [&str; 2] = ["Procfile.dev", "Procfile"];

/// Files whose content is read, by their last part.
const KNOWN: [(&str, Form); 12] = [
    ("package.json", Form::Json),
    ("pnpm-workspace.yaml", Form::Yaml),
    ("Cargo.toml", Form::Toml),
    ("pyproject.toml", Form::Toml),
    ("requirements.txt", Form::Text),
    ("manage.py", Form::Text),
    ("Gemfile", Form::Text),
    ("go.mod", Form::Text),
    ("main.go", Form::Text),
    ("main.rs", Form::Text),
    ("Procfile.dev", Form::Text),
    ("Procfile", Form::Text),
];

/// Sources in which a port may be written, by name and ending.
const SOURCES: [&str; 5] = ["server", "index", "app", "main", "vite.config"];
const SOURCE_ENDINGS: [&str; 5] = ["js", "mjs", "cjs", "ts", "mts"];

/// Directories without hand-written code of the product.
const PASSED_OVER: [&str; 16] = [
    "node_modules",
    "target",
    "vendor",
    "dist",
    "build",
    "out",
    "venv",
    "__pycache__",
    "coverage",
    "docs",
    "doc",
    "examples",
    "example",
    "test",
    "tests",
    "fixtures",
];

/// Repositories with more projects than this are not searched completely.
const MOST_FILES: usize = 200;
const MOST_DIRECTORIES: usize = 20;

/// Whether a directory may contain a part of the product.
pub fn is_looked_into(name: &str) -> bool {
    !name.starts_with('.') && !PASSED_OVER.contains(&name)
}

/// The files of a listing to read, those near the root first.
pub fn wanted(listing: &BTreeSet<String>) -> Vec<(String, Form)> {
    let mut wanted: Vec<(String, Form)> = listing
        .iter()
        .filter_map(|path| Some((path.clone(), form(path)?)))
        .collect();
    wanted.sort_by_key(|(path, _)| path.matches('/').count());
    wanted.truncate(MOST_FILES);
    wanted
}

fn form(path: &str) -> Option<Form> {
    let name = path.rsplit('/').next()?;
    if COMPOSE.contains(&path) {
        return Some(Form::Yaml);
    }
    let source = || {
        let (stem, ending) = name.rsplit_once('.')?;
        let is_source = SOURCES.contains(&stem) && SOURCE_ENDINGS.contains(&ending);
        is_source.then_some(Form::Text)
    };
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    known.map(|(_, form)| *form).or_else(source)
}

/// The proposed `holm.toml` for this checkout.
pub fn propose(found: &Found) -> Proposal {
    let root = Directory::root(found);
    let mut proposal = Proposal::default();
    let mut parts = parts_of(root);
    let below = root.directories().take(MOST_DIRECTORIES);
    if parts.is_empty() {
        parts = below.flat_map(parts_of).collect();
    } else {
        proposal.remarks.extend(below.filter_map(named));
    }
    for part in &mut parts {
        proposal.take(part);
    }
    if let Some(mut procfile) = procfile::read(root) {
        let left_aside = parts.iter().flat_map(|part| &part.programs);
        proposal.remarks.extend(left_aside.map(|program| {
            let file = &procfile.sign.file;
            format!("`{}` was left aside: {file} says what runs", program.run)
        }));
        proposal.take(&mut procfile);
        parts = vec![procfile];
    }
    let mut programs: Vec<Service> = Vec::new();
    for mut part in parts {
        // The first program is the project's own; the others are named after their framework.
        let is_beside = !programs.is_empty();
        let own = part.programs.iter_mut();
        own.filter(|it| is_beside && it.name == "web")
            .for_each(|it| it.name = part.sign.kind.to_owned());
        programs.append(&mut part.programs);
        proposal.suggestions.append(&mut part.suggestions);
    }
    add_services(&mut proposal, programs, root);
    environment::settings(found, &mut proposal);
    unusable(found, &mut proposal);
    proposal
}

/// Every framework found in a directory.
fn parts_of(directory: Directory<'_>) -> Vec<Part> {
    let look = [ruby::look, python::look, node::look, go::look, rust::look];
    look.iter().filter_map(|look| look(directory)).collect()
}

/// A remark about a directory with its own project next to one in the root.
fn named(directory: Directory<'_>) -> Option<String> {
    let kinds: Vec<&str> = parts_of(directory)
        .iter()
        .map(|part| part.sign.kind)
        .collect();
    let at = directory.path("");
    let text = format!(
        "{at} looks like a project of its own ({})",
        kinds.join(", ")
    );
    let is_member = node::is_member(directory) || rust::is_member(directory);
    (!kinds.is_empty() && !is_member).then_some(text)
}

/// Adds the services; databases of a compose file come first, because others wait for them.
fn add_services(proposal: &mut Proposal, mut programs: Vec<Service>, root: Directory<'_>) {
    let mut files = COMPOSE.iter();
    let composed = files.find_map(|name| Some(compose::read(name, root.document(name)?)));
    let mut rest = Vec::new();
    if let Some(mut composed) = composed {
        proposal.take(&mut composed.part);
        for database in composed.part.programs {
            proposal.add_database(database);
        }
        // Only when it is certain which of our services the built one is.
        if let ([program], [depends_on]) = (&mut programs[..], &composed.built_depends_on[..])
            && !depends_on.is_empty()
        {
            program.depends_on.extend(depends_on.iter().cloned());
            program.reason += &format!("; {} says what it waits for", composed.part.sign.file);
        }
        rest = composed.part.suggestions;
    }
    for program in programs {
        proposal.add_program(program);
    }
    proposal.suggestions.append(&mut rest);
    proposal.settle();
}

/// Names files that could not be used or are not read.
fn unusable(found: &Found, proposal: &mut Proposal) {
    for name in COMPOSE_OVERRIDES {
        if found.listing.contains(name) {
            proposal.remarks.push(format!("{name} was not read"));
        }
    }
    for (path, content) in &found.contents {
        if let Content::Unusable(why) = content {
            proposal.remarks.push(format!("{path} was not used: {why}"));
        }
    }
}
