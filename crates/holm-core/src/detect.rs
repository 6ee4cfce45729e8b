//! Proposes a `holm.toml` from the names and contents of a few known files of a repository. Called
//! by `holm init`, and by `holm up` for its notes.
//!
//! Every line of a proposal names the file it comes from, and uncertain parts become commented
//! blocks with the reason. Nothing of the repository is executed, and values that look like secrets
//! are not repeated.

mod command;
mod compose;
mod database;
mod database_url;
mod devcontainer;
mod directory;
mod dockerfile;
mod document;
mod environment;
mod gather;
mod go;
mod join;
mod needs;
mod node;
mod orm;
mod procfile;
mod proposal;
mod python;
mod ruby;
mod rust;
mod sample;
mod source;
mod write;

pub use compose::{Composition, file as compose_file};
pub use document::Document;
pub use proposal::{Composed, Contained, Proposal, Service, Sign, Step};

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
    /// The directory in which the command was typed, without a trailing `/`; empty for the root.
    pub current: String,
    /// The file that [`compose_file`] names.
    pub compose: Option<Composition>,
    /// The Dev Container of the checkout.
    pub container: Option<Contained>,
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
    /// JSON with comments and trailing commas.
    CommentedJson,
    Toml,
    Yaml,
}

/// Compose files, in Compose's order of preference.
const COMPOSE: [&str; 8] = [
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
    "compose.dev.yaml",
    "compose.dev.yml",
    "docker-compose.dev.yml",
    "docker-compose.local.yml",
];

/// The development file first, then the general one.
const PROCFILES: [&str; 2] = ["Procfile.dev", "Procfile"];

/// Files whose content is read, by their last part.
const KNOWN: [(&str, Form); 34] = [
    ("package.json", Form::Json),
    ("pnpm-workspace.yaml", Form::Yaml),
    ("schema.prisma", Form::Text),
    ("drizzle.config.ts", Form::Text),
    ("drizzle.config.js", Form::Text),
    ("drizzle.config.mjs", Form::Text),
    ("www", Form::Text),
    ("Cargo.toml", Form::Toml),
    ("pyproject.toml", Form::Toml),
    ("requirements.txt", Form::Text),
    ("requirements-dev.txt", Form::Text),
    ("base.txt", Form::Text),
    ("local.txt", Form::Text),
    ("dev.txt", Form::Text),
    ("manage.py", Form::Text),
    ("settings.py", Form::Text),
    ("base.py", Form::Text),
    ("local.py", Form::Text),
    ("dev.py", Form::Text),
    ("main.py", Form::Text),
    ("app.py", Form::Text),
    ("wsgi.py", Form::Text),
    ("Gemfile", Form::Text),
    ("database.yml", Form::Text),
    ("go.mod", Form::Text),
    ("main.go", Form::Text),
    ("main.rs", Form::Text),
    ("Procfile.dev", Form::Text),
    ("Procfile", Form::Text),
    ("Dockerfile.dev", Form::Text),
    ("Dockerfile", Form::Text),
    ("Containerfile", Form::Text),
    ("devcontainer.json", Form::CommentedJson),
    (".devcontainer.json", Form::CommentedJson),
];

/// Sources in which a port may be written, by name and ending.
const SOURCES: [&str; 7] = [
    "server",
    "index",
    "app",
    "main",
    "config",
    "env",
    "vite.config",
];
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

/// Whether a directory may contain a part of the product. Its path has no trailing `/`.
pub fn is_looked_into(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    // A website about the product is a program like the others.
    path == "apps/docs" || (!name.starts_with('.') && !PASSED_OVER.contains(&name))
}

/// Whether the names in a directory are listed.
pub fn is_listed(path: &str) -> bool {
    is_looked_into(path) || path == ".devcontainer"
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
    if environment::SAMPLES.contains(&name) {
        return Some(Form::Text);
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
    let focus = focus(root, &found.current);
    let mut parts = gather::parts(root, focus, &mut proposal);
    for part in &mut parts {
        proposal.take(part);
    }
    if let Some(mut procfile) = procfile::read(root).filter(|_| focus.is_none()) {
        let left_aside = parts.iter().flat_map(|part| &part.programs);
        proposal.remarks.extend(left_aside.map(|program| {
            let file = &procfile.sign.file;
            format!("`{}` was left aside: {file} says what runs", program.run)
        }));
        proposal.take(&mut procfile);
        join::replace_programs(&mut parts, procfile);
    }
    name_after_frameworks(&mut parts);
    proposal.container = devcontainer::chosen(found);
    let used = devcontainer::used(&proposal);
    let is_used = used.is_some();
    // Another Compose file than those of the container is not used.
    let named = used.map(|it| it.compose.clone()).unwrap_or_default();
    let is_meant = |it: &&Composition| named.is_empty() || named.contains(&it.file);
    if let Some(composition) = found.compose.as_ref().filter(is_meant) {
        compose::add(composition, &mut parts, &mut proposal);
    }
    join::join(&mut proposal, parts, devcontainer::read(root, is_used));
    environment::settings(found, &mut proposal);
    unusable(found, &mut proposal);
    let mut seen = BTreeSet::new();
    proposal
        .remarks
        .retain(|remark| seen.insert(remark.clone()));
    proposal
}

/// The directory in which the command was typed, or the nearest one above with a project of its own.
fn focus<'a>(root: Directory<'a>, current: &str) -> Option<Directory<'a>> {
    let mut at = current;
    while !at.is_empty() {
        let directory = root.below(at);
        if let Some(directory) = directory.filter(|it| gather::is_project(*it)) {
            return Some(directory);
        }
        at = at.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    None
}

/// The first program is the project's own; others of the same directory are named after their framework.
fn name_after_frameworks(parts: &mut [Part]) {
    let mut has_web = false;
    for part in parts {
        let kind = part.sign.kind;
        let own = part
            .programs
            .iter_mut()
            .filter(|it| it.name == "web" && it.at.is_empty());
        let mut own: Vec<_> = own.collect();
        if has_web {
            own.iter_mut().for_each(|it| it.name = kind.to_owned());
        }
        has_web = has_web || !own.is_empty();
    }
}

/// Names files that could not be used.
fn unusable(found: &Found, proposal: &mut Proposal) {
    for (path, content) in &found.contents {
        if let Content::Unusable(why) = content {
            proposal.remarks.push(format!("{path} was not used: {why}"));
        }
    }
}
