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

/// Prefixes of the keys of layers that do not come from `setup`.
const WARM: &str = "warm-";
const CACHE: &str = "cache-";
const VOLUME: &str = "volume-";

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Paths that the set-up made and that git does not ignore; they are not in the layer.
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        let parse = |text: &&str| Pattern::parse(text).unwrap();
        texts.iter().map(parse).collect()
    }

    #[test]
    fn known_names_are_sorted_for_the_search() {
        assert!(INPUT_NAMES.is_sorted() && BUILD_OUTPUT.is_sorted());
        assert!(is_build_output("apps/web/node_modules") && !is_build_output("secrets"));
    }

    #[test]
    fn what_is_an_input() {
        let check = |path: &str, written: Option<&[&str]>, expect: bool| {
            let written = written.map(patterns);
            assert_eq!(is_input(path, written.as_deref()), expect, "{path}");
        };
        check("package-lock.json", None, true);
        check("apps/web/package.json", None, true);
        check("src/package.json.ts", None, false);
        check(".gitignore", None, true);
        check("package.json", Some(&["deps/**"]), false);
        check("deps/a/b", Some(&["deps/**"]), true);
        check("apps/.gitignore", Some(&["deps/**"]), true);
    }

    #[test]
    fn an_uncommitted_state_changes_inputs() {
        let pair = |path: &str, object: &str| (path.to_owned(), object.to_owned());
        let committed = [pair("go.mod", "1"), pair("go.sum", "2"), pair("a.go", "3")];
        let changed = [
            ("go.mod".to_owned(), Some("9".to_owned())),
            ("go.sum".to_owned(), None),
            ("b.go".to_owned(), Some("8".to_owned())),
            ("x/go.mod".to_owned(), Some("7".to_owned())),
        ];
        assert_eq!(
            inputs(committed, &changed, None),
            [pair("go.mod", "9"), pair("x/go.mod", "7")]
        );
    }

    #[test]
    fn every_part_changes_the_text() {
        let plain = Ingredients {
            commands: vec!["npm ci".to_owned()],
            root: "/r".to_owned(),
            home: "/h".to_owned(),
            toolchains: vec!["/t".to_owned()],
            warm: None,
            inputs: vec![("a".to_owned(), "1".to_owned())],
            only: None,
        };
        let mut others = vec![plain.clone(); 8];
        others[1].commands = vec!["npm".to_owned(), " ci".to_owned()];
        others[2].root = "/q".to_owned();
        others[3].home = "/q".to_owned();
        others[4].toolchains.clear();
        others[5].warm = Some("w".to_owned());
        others[6].inputs[0].1 = "2".to_owned();
        others[7].only = Some("c".to_owned());
        let texts: HashSet<_> = others.iter().map(canonical).collect();
        assert_eq!(texts.len(), others.len());
        let mut turned = plain.clone();
        turned.toolchains = vec!["/b".to_owned(), "/a".to_owned()];
        let mut sorted = plain;
        sorted.toolchains = vec!["/a".to_owned(), "/b".to_owned()];
        assert_eq!(canonical(&turned), canonical(&sorted));
    }

    #[test]
    fn who_may_use_what_a_commit_makes() {
        let check =
            |commit: Option<&str>, tree: Option<&str>, is_contained, expect: Option<&str>| {
                let maker = Maker {
                    commit,
                    tree,
                    is_contained,
                };
                assert_eq!(only(maker).as_deref(), expect, "{maker:?}");
            };
        check(Some("c"), None, true, None);
        check(Some("c"), None, false, Some("c"));
        check(None, None, false, None);
        // An uncommitted state is never shared, whatever its commit is.
        check(Some("c"), Some("t"), true, Some("c t"));
        check(Some("c"), Some("t"), false, Some("c t"));
        check(None, Some("t"), true, Some("none t"));
        assert_eq!(choose(None, false), Choice::Shared);
        assert_eq!(choose(None, true), Choice::Shared);
        assert_eq!(choose(Some("c"), true), Choice::Borrowed);
        assert_eq!(choose(Some("c"), false), Choice::Own);
    }

    #[test]
    fn the_newest_and_the_warm_one_stay() {
        let key = |project: &str, key: &str| LayerKey {
            project: project.to_owned(),
            key: key.to_owned(),
        };
        let at = Duration::from_secs;
        let built = [
            (LayerKey::warm("a"), at(1)),
            (key("a", "1"), at(2)),
            (key("a", "2"), at(3)),
            (key("a", "3"), at(4)),
            (key("b", "1"), at(1)),
            (key("a", "cache-npm-1"), at(1)),
            (key("a", "cache-npm-2"), at(2)),
            (key("a", "cache-pip-1"), at(1)),
        ];
        let used = HashSet::from([key("a", "1")]);
        assert_eq!(
            unused_layers(&built, &used, Extent::Expired),
            [key("a", "2"), key("a", "cache-npm-1")]
        );
        assert_eq!(unused_layers(&built, &used, Extent::All).len(), 7);
    }

    #[test]
    fn a_seed_is_known_by_its_commands_its_place_and_its_inputs_alone() {
        let seed = SeedIngredients {
            commands: vec!["initdb".into(), "./seed.sh".into()],
            path: "/data/pg".into(),
            root: "/src".into(),
            inputs: vec![("migrations/1".into(), "a".into())],
            only: None,
        };
        let same = canonical_seed(&seed);
        let mut others = vec![seed.clone(); 5];
        others[4].only = Some("c".into());
        others[0].commands = vec!["initdb./seed.sh".into()];
        others[1].path = "/data/p".into();
        others[2].inputs[0].1 = "b".into();
        others[3].inputs.clear();
        assert!(others.iter().all(|other| canonical_seed(other) != same));
        assert_eq!(canonical_seed(&seed.clone()), same);
        let committed = ["migrations/1", "other", ".gitignore"];
        let committed = committed.map(|path| (path.to_owned(), "a".to_owned()));
        let found = seed_inputs(committed, &[], &patterns(&["migrations/**"]));
        assert_eq!(found, seed.inputs);
    }

    #[test]
    fn the_newest_of_each_volume_stays() {
        let name = |text: &str| Name::parse(text).unwrap();
        let key = |volume: &str, digest: &str| LayerKey::volume("p", &name(volume), digest);
        let built = [
            (key("pg", "a1"), Duration::from_secs(1)),
            (key("pg", "b2"), Duration::from_secs(2)),
            (key("redis", "c3"), Duration::from_secs(1)),
        ];
        let unused = unused_layers(&built, &HashSet::new(), Extent::Expired);
        assert_eq!(unused, [key("pg", "a1")]);
        let used = HashSet::from([key("pg", "a1")]);
        assert_eq!(unused_layers(&built, &used, Extent::All).len(), 2);
    }
}
