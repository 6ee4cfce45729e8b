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
pub use proposal::{Port, Proposal, Ready, Service, Sign, Step, Suggestion, Volume};

use compose::Composed;
use directory::Directory;
use proposal::{Part, Program};
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
    if parts.is_empty() {
        let below = root.directories().take(MOST_DIRECTORIES);
        parts = below.flat_map(|directory| parts_of(directory)).collect();
    } else {
        let below = root.directories().take(MOST_DIRECTORIES);
        proposal.remarks.extend(below.filter_map(named));
    }
    let procfile = procfile::read(root);
    let composed = COMPOSE
        .iter()
        .find_map(|name| Some(compose::read(name, root.document(name)?)))
        .unwrap_or_default();

    for part in &mut parts {
        proposal.looks_like.push(part.sign.clone());
        proposal.setup.append(&mut part.setup);
        proposal.setup_inputs.append(&mut part.setup_inputs);
        proposal.remarks.append(&mut part.remarks);
    }
    let mut programs: Vec<Program> = Vec::new();
    match procfile {
        Some(mut part) => {
            let left_aside = parts.iter().flat_map(|part| &part.programs);
            proposal.remarks.extend(left_aside.map(|program| {
                let file = &part.sign.file;
                format!("`{}` was left aside: {file} says what runs", program.run)
            }));
            proposal.looks_like.push(part.sign);
            proposal.remarks.append(&mut part.remarks);
            programs.append(&mut part.programs);
            proposal.suggestions.append(&mut part.suggestions);
        }
        None => {
            for mut part in parts {
                // The first program is the project's own; the others are named after their
                // framework.
                let is_beside = !programs.is_empty();
                let beside = part
                    .programs
                    .iter_mut()
                    .filter(|it| is_beside && it.name == "web");
                beside.for_each(|it| it.name = part.sign.kind.to_owned());
                programs.append(&mut part.programs);
                proposal.suggestions.append(&mut part.suggestions);
            }
        }
    }
    take_over(&mut proposal, programs, composed);
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
fn take_over(proposal: &mut Proposal, programs: Vec<Program>, composed: Composed) {
    let Composed {
        sign,
        databases,
        rest,
        built_depends_on,
        remarks,
    } = composed;
    let file = sign.as_ref().map(|sign| sign.file.clone());
    proposal.looks_like.extend(sign);
    proposal.remarks.extend(remarks);
    for database in databases {
        proposal.add_database(database);
    }
    // Only when it is certain which of our services the built one is.
    let depends_on = match (programs.as_slice(), built_depends_on.as_slice()) {
        ([_], [only]) => only.clone(),
        _ => Vec::new(),
    };
    for mut program in programs {
        if let (Some(file), false) = (&file, depends_on.is_empty()) {
            program.depends_on.extend(depends_on.iter().cloned());
            program.reason += &format!("; {file} says what it waits for");
        }
        proposal.add_program(program);
    }
    for suggestion in rest {
        proposal.suggestions.push(suggestion);
    }
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
