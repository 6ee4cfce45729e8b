//! Layers: the output of `setup`, or build output of a checkout, stored once and shared by
//! workspaces below their own files. This module decides a layer's key, which code may use it, and
//! which layers may be deleted. The server hashes [`canonical`]; the engine and its driver do the
//! rest.

use crate::config::{Name, Pattern};
use crate::trash::{Extent, Shared, unused};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::time::Duration;
use utoipa::ToSchema;

/// Files that determine the result of `setup`, by name, anywhere in the tree.
pub const INPUT_NAMES: [&str; 46] = [
    ".node-version",
    ".npmrc",
    ".nvmrc",
    ".python-version",
    ".ruby-version",
    ".tool-versions",
    ".yarnrc.yml",
    "Cargo.lock",
    "Cargo.toml",
    "Gemfile",
    "Gemfile.lock",
    "Package.resolved",
    "Pipfile",
    "Pipfile.lock",
    "build.gradle",
    "build.gradle.kts",
    "bun.lock",
    "bun.lockb",
    "composer.json",
    "composer.lock",
    "deno.json",
    "deno.lock",
    "environment.yml",
    "flake.lock",
    "go.mod",
    "go.sum",
    "go.work",
    "go.work.sum",
    "gradle.lockfile",
    "mise.toml",
    "mix.exs",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "poetry.lock",
    "pom.xml",
    "pyproject.toml",
    "requirements.txt",
    "rust-toolchain",
    "rust-toolchain.toml",
    "uv.lock",
    "yarn.lock",
];

/// Always an input: a layer contains ignored files, so it is valid only where the same files are
/// ignored.
const IGNORE_FILE: &str = ".gitignore";

/// Directories that builds and installers create, by name.
const BUILD_OUTPUT: [&str; 34] = [
    ".build",
    ".bundle",
    ".cxx",
    ".dart_tool",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".parcel-cache",
    ".pixi",
    ".pnpm-store",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".tox",
    ".turbo",
    ".venv",
    ".vite",
    ".yarn",
    "Pods",
    "__pycache__",
    "_build",
    "build",
    "deps",
    "dist",
    "elm-stuff",
    "node_modules",
    "obj",
    "out",
    "target",
    "vendor",
    "venv",
    "zig-cache",
];

/// Download caches below home that package managers fill while they install. What was installed does not need
/// them, so layers leave them out; `[caches]` shares them. (Go and cargo read theirs when they build.)
pub const DOWNLOAD_CACHES: [&str; 8] = [
    ".npm/_cacache",
    ".npm/_logs",
    ".cache/pip",
    ".cache/uv",
    ".cache/yarn",
    ".cache/pypoetry/cache",
    ".local/share/pnpm/store",
    ".bun/install/cache",
];

/// Prefixes of the keys of layers that do not come from `setup`.
const WARM: &str = "warm-";
const CACHE: &str = "cache-";
const VOLUME: &str = "volume-";

/// Marks an input that is the user's own.
const GIVEN: char = '\u{1}';

/// Changed when layers are built in another way, so that older ones are not used.
const FORMAT: &str = "2";
const SEED_FORMAT: &str = "seed 2";

/// Everything that a setup layer depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingredients {
    pub commands: Vec<String>,
    pub root: String,
    pub home: String,
    /// Toolchains of the host that are visible inside.
    pub toolchains: Vec<String>,
    /// The layer below it.
    pub warm: Option<String>,
    /// Paths with the ids of their content.
    pub inputs: Vec<(String, String)>,
    /// The only code that may use it; `None`: any code with the same inputs.
    pub only: Option<String>,
}

/// Everything that a seed depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedIngredients {
    pub commands: Vec<String>,
    /// The volume's mount point inside.
    pub path: String,
    pub root: String,
    /// Paths with the ids of their content.
    pub inputs: Vec<(String, String)>,
    /// The only code that may use it; `None`: any code with the same inputs.
    pub only: Option<String>,
}

/// The code that would build a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maker<'a> {
    pub commit: Option<&'a str>,
    /// The tree of an uncommitted state on top of the commit.
    pub tree: Option<&'a str>,
    /// The default branch, or the branch of the user's checkout, contains the commit.
    pub is_contained: bool,
}

/// Which layer to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The shared layer for these inputs, which is built if missing.
    Shared,
    /// The shared layer, which other code built; this code must not build it.
    Borrowed,
    /// A layer that only the same code uses.
    Own,
}

/// The modification time of a file of the checkout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileDate {
    pub path: String,
    /// The object id of the file's content.
    pub object: String,
    pub seconds: i64,
    pub nanoseconds: u32,
}

/// A layer that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Paths that the set-up made and that git does not ignore; they are not in the layer.
    pub left_out: Vec<String>,
    /// Lock files of a checkout whose packages are all in the layer.
    pub installed: Vec<InstalledLock>,
}

/// A lock file, and the content of it that a package manager installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstalledLock {
    pub path: String,
    /// The object id of the content.
    pub object: String,
}

/// Commands that only install what a lock file of the root names.
const INSTALLERS: [(&str, &str); 7] = [
    ("npm ci", "package-lock.json"),
    ("npm install", "package-lock.json"),
    ("npm i", "package-lock.json"),
    ("pnpm install", "pnpm-lock.yaml"),
    ("pnpm i", "pnpm-lock.yaml"),
    ("pnpm install --frozen-lockfile", "pnpm-lock.yaml"),
    ("pnpm i --frozen-lockfile", "pnpm-lock.yaml"),
];

/// Whether a layer of a checkout's build output already is what the set-up would make: every command only
/// installs a lock file, and the checkout had installed exactly that content. (`npm ci` would delete the
/// packages and install them again.)
pub fn is_set_up(ingredients: &Ingredients, installed: &[InstalledLock]) -> bool {
    let is_done = |command: &String| {
        let mut known = INSTALLERS.iter();
        let lock = known
            .find(|(known, _)| *known == command.trim())
            .map(|(_, lock)| *lock);
        let mut installed = installed.iter();
        installed.any(|it| {
            let has_content =
                |(path, object): &(String, String)| *path == it.path && *object == it.object;
            Some(it.path.as_str()) == lock && ingredients.inputs.iter().any(has_content)
        })
    };
    !ingredients.commands.is_empty() && ingredients.commands.iter().all(is_done)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LayerKey {
    pub project: String,
    pub key: String,
}

/// Whether a path of the tree is an input of `setup`.
pub fn is_input(path: &str, patterns: Option<&[Pattern]>) -> bool {
    is_named_input(path, patterns) || name_of(path) == IGNORE_FILE
}

/// Whether it is an input because of its content, and not only because it changes what git ignores.
pub fn is_named_input(path: &str, patterns: Option<&[Pattern]>) -> bool {
    match patterns {
        None => INPUT_NAMES.binary_search(&name_of(path)).is_ok(),
        Some(patterns) => patterns.iter().any(|pattern| pattern.matches(path)),
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether an ignored directory can be rebuilt, and so may be copied from a checkout. Other ignored
/// files may be secrets and are not copied.
pub fn is_build_output(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    BUILD_OUTPUT.binary_search(&name).is_ok()
}

/// Whether a key belongs to a checkout's build output.
pub fn is_warm(key: &str) -> bool {
    key.starts_with(WARM)
}

/// The inputs at the commit, updated by an uncommitted state (`None`: deleted).
pub fn inputs(
    committed: impl IntoIterator<Item = (String, String)>,
    changed: &[(String, Option<String>)],
    patterns: Option<&[Pattern]>,
) -> Vec<(String, String)> {
    let is_changed = |path: &str| changed.iter().any(|(other, _)| other == path);
    let mut found: Vec<_> = committed
        .into_iter()
        .filter(|(path, _)| is_input(path, patterns) && !is_changed(path))
        .collect();
    let changed = changed.iter().filter_map(|(path, object)| {
        let object = object.clone().filter(|_| is_input(path, patterns))?;
        Some((path.clone(), object))
    });
    found.extend(changed);
    found.sort();
    found
}

/// The only code that may use what this code builds; `None`: any code with the same inputs.
///
/// The commands that `setup` runs are in the commit, and not all of them are inputs. A person
/// permits sharing by having the commit in the default branch or in the checked-out branch.
pub fn only(maker: Maker<'_>) -> Option<String> {
    let commit = maker.commit.unwrap_or("none");
    match maker.tree {
        Some(tree) => Some(format!("{commit} {tree}")),
        None if maker.is_contained || maker.commit.is_none() => None,
        None => Some(commit.to_owned()),
    }
}

/// The layer for a workspace. Any code may use a shared layer that exists.
pub fn choose(only: Option<&str>, is_shared_there: bool) -> Choice {
    match (only, is_shared_there) {
        (None, _) => Choice::Shared,
        (Some(_), true) => Choice::Borrowed,
        (Some(_), false) => Choice::Own,
    }
}

/// An unambiguous serialisation of the ingredients: each part is preceded by its length.
pub fn canonical(ingredients: &Ingredients) -> Vec<u8> {
    let mut text = Vec::new();
    let mut part = |bytes: &str| {
        text.extend(format!("{}:", bytes.len()).bytes());
        text.extend(bytes.bytes());
    };
    part(FORMAT);
    part(&ingredients.root);
    part(&ingredients.home);
    part(ingredients.warm.as_deref().unwrap_or(""));
    part(ingredients.only.as_deref().unwrap_or(""));
    let mut toolchains = ingredients.toolchains.clone();
    toolchains.sort();
    for list in [&ingredients.commands, &toolchains] {
        part(&list.len().to_string());
        list.iter().for_each(|item| part(item));
    }
    for (path, object) in &ingredients.inputs {
        part(path);
        part(object);
    }
    text
}

/// Adds the variables of `[env]`, which `setup` and seeds see. No path begins with NUL.
pub fn with_env(
    mut inputs: Vec<(String, String)>,
    env: &[(String, String)],
) -> Vec<(String, String)> {
    let env = env.iter();
    inputs.extend(env.map(|(name, value)| (format!("\0{name}"), value.clone())));
    inputs
}

/// Adds what `setup` gets of the user's own: names, and digests that reveal nothing. No path begins with
/// this character.
pub fn with_given(
    mut inputs: Vec<(String, String)>,
    given: &[(String, String)],
) -> Vec<(String, String)> {
    let given = given.iter();
    inputs.extend(given.map(|(name, digest)| (format!("{GIVEN}{name}"), digest.clone())));
    inputs
}

/// Why a set-up runs although an earlier one exists: the first part that differs, as one line. `None`: nothing
/// that the user changed.
pub fn why_again(before: &Ingredients, now: &Ingredients) -> Option<String> {
    let object = |inputs: &[(String, String)], path: &str| {
        let found = inputs.iter().find(|(it, _)| it == path);
        found.map(|(_, object)| object.clone())
    };
    let paths = now
        .inputs
        .iter()
        .chain(&before.inputs)
        .map(|(path, _)| path);
    let mut changed: Vec<&str> = Vec::new();
    for path in paths {
        let is_other = object(&before.inputs, path) != object(&now.inputs, path);
        if is_other && !changed.contains(&path.as_str()) {
            changed.push(path);
        }
    }
    // A lock file says more than the manifest beside it.
    let is_lock = |path: &&&str| path.contains("lock") || path.ends_with(".sum");
    let first = changed.iter().find(is_lock).or(changed.first());
    if let Some(first) = first {
        let others = match changed.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let first = match (first.strip_prefix('\0'), first.strip_prefix(GIVEN)) {
            (Some(variable), _) => format!("{variable} of `[env]`"),
            (None, given) => given.unwrap_or(first).to_owned(),
        };
        return Some(format!("{first}{others} changed"));
    }
    let parts = [
        (
            "`setup` of holm.toml changed",
            before.commands != now.commands,
        ),
        (
            "the code is at another path inside",
            before.root != now.root,
        ),
        ("the home directory is another", before.home != now.home),
        (
            "another toolchain is visible inside",
            before.toolchains != now.toolchains,
        ),
        (
            "the build output of the checkout is another",
            before.warm != now.warm,
        ),
    ];
    let found = parts.iter().find(|(_, is_other)| *is_other);
    found.map(|(text, _)| (*text).to_owned())
}

/// The inputs of a seed: only files that the patterns name.
pub fn seed_inputs(
    committed: impl IntoIterator<Item = (String, String)>,
    changed: &[(String, Option<String>)],
    patterns: &[Pattern],
) -> Vec<(String, String)> {
    let is_input = |path: &str| patterns.iter().any(|pattern| pattern.matches(path));
    let mut found = inputs(committed, changed, Some(patterns));
    found.retain(|(path, _)| is_input(path));
    found
}

/// As [`canonical`], for a seed.
pub fn canonical_seed(ingredients: &SeedIngredients) -> Vec<u8> {
    let SeedIngredients {
        commands,
        path,
        root,
        inputs,
        only,
    } = ingredients;
    let mut text = Vec::new();
    let mut part = |bytes: &str| {
        text.extend(format!("{}:", bytes.len()).bytes());
        text.extend(bytes.bytes());
    };
    part(SEED_FORMAT);
    part(path);
    part(root);
    part(only.as_deref().unwrap_or(""));
    part(&commands.len().to_string());
    commands.iter().for_each(|command| part(command));
    for (path, object) in inputs {
        part(path);
        part(object);
    }
    text
}

/// The layers that may be deleted: those that no workspace uses, live or in the trash. The newest
/// of each project and the checkout's build output stay, unless `extent` is `All`.
pub fn unused_layers(
    built: &[(LayerKey, Duration)],
    used: &HashSet<LayerKey>,
    extent: Extent,
) -> Vec<LayerKey> {
    unused(built, used, extent)
}

// === impl LayerKey ===

impl LayerKey {
    /// The build output of a project's checkout; each project has one.
    pub fn warm(project: &str) -> Self {
        Self {
            project: project.to_owned(),
            key: format!("{WARM}{project}"),
        }
    }

    /// A snapshot of a cache directory of the user; `path` is a digest of its location.
    pub fn cache(project: &str, name: &Name, path: &str) -> Self {
        Self {
            project: project.to_owned(),
            key: format!("{CACHE}{name}-{path}"),
        }
    }

    /// The initial content of a volume; `inputs` is a digest of everything that determines it.
    pub fn volume(project: &str, name: &Name, inputs: &str) -> Self {
        Self {
            project: project.to_owned(),
            key: format!("{VOLUME}{name}-{inputs}"),
        }
    }

    /// The source of the layer: setup, checkout, a cache, or a volume.
    fn kind(&self) -> &str {
        let is_named = [CACHE, VOLUME]
            .iter()
            .any(|kind| self.key.starts_with(kind));
        if self.key.starts_with(WARM) {
            WARM
        } else if is_named {
            self.key.rsplit_once('-').map_or(CACHE, |(name, _)| name)
        } else {
            ""
        }
    }
}

impl Shared for LayerKey {
    fn is_rival(&self, other: &Self) -> bool {
        self.project == other.project && self.kind() == other.kind()
    }

    fn name(&self) -> &str {
        &self.key
    }
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
