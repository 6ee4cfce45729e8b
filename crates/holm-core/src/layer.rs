//! Layers: what `setup` made, or what a checkout had, kept once and shared by workspaces below their
//! own files. Decided here as data: what a layer is keyed by, who may use what a commit makes, and which may
//! go. The server digests [`canonical`]; the engine and its driver carry the rest out.

use crate::config::{Name, Pattern};
use crate::trash::{Extent, Shared, unused};
use std::collections::HashSet;
use std::time::Duration;

/// Files that decide what a set-up makes, by their names, wherever they are in the tree.
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

/// Always an input: a layer holds what git ignores, so it is good only where the same is ignored.
const IGNORE_FILE: &str = ".gitignore";

/// Directories that builds and installers make, by their names.
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

/// What the keys of layers begin with that are not of a set-up.
const WARM: &str = "warm-";
const CACHE: &str = "cache-";
const VOLUME: &str = "volume-";

/// Changes when layers are made in another way, so that none of an earlier kind is used.
const FORMAT: &str = "2";
const SEED_FORMAT: &str = "seed 2";

/// Everything that a set-up layer depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingredients {
    pub commands: Vec<String>,
    pub root: String,
    pub home: String,
    /// Toolchains of the host that are visible inside.
    pub toolchains: Vec<String>,
    /// The layer that it was made on top of.
    pub warm: Option<String>,
    /// Paths and the ids of their content.
    pub inputs: Vec<(String, String)>,
    /// The only code that may use it; `None`: whatever has the same inputs.
    pub only: Option<String>,
}

/// Everything that the first content of a volume depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedIngredients {
    pub commands: Vec<String>,
    /// Where the volume is inside.
    pub path: String,
    pub root: String,
    /// Paths and the ids of their content.
    pub inputs: Vec<(String, String)>,
    /// The only code that may use it; `None`: whatever has the same inputs.
    pub only: Option<String>,
}

/// The code that would make a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maker<'a> {
    pub commit: Option<&'a str>,
    /// The tree of an uncommitted state on top of it.
    pub tree: Option<&'a str>,
    /// The default branch, or the branch of the user's checkout, contains the commit.
    pub is_contained: bool,
}

/// Which layer is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// That of everybody with the same inputs, which is made if it is not there.
    Shared,
    /// That of everybody, which others made; it must not be made by this code.
    Borrowed,
    /// One that only the same code uses.
    Own,
}

/// When a file of the checkout was changed that has this content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dated {
    pub path: String,
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

/// One layer on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LayerKey {
    pub project: String,
    pub key: String,
}

/// Whether a path of the tree is an input of `setup`.
pub fn is_input(path: &str, patterns: Option<&[Pattern]>) -> bool {
    is_named_input(path, patterns) || name_of(path) == IGNORE_FILE
}

/// Whether it is one because of what it says, and not only because of what it makes git ignore.
pub fn is_named_input(path: &str, patterns: Option<&[Pattern]>) -> bool {
    match patterns {
        None => INPUT_NAMES.binary_search(&name_of(path)).is_ok(),
        Some(patterns) => patterns.iter().any(|pattern| pattern.matches(path)),
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether an ignored directory is one that can be made again by a build, and so is worth being taken
/// of a checkout. Anything else that is ignored may be a secret, and is not taken.
pub fn is_build_output(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    BUILD_OUTPUT.binary_search(&name).is_ok()
}

/// Whether a key is that of a checkout's build output.
pub fn is_warm(key: &str) -> bool {
    key.starts_with(WARM)
}

/// The inputs at the commit with what an uncommitted state changes of them; `None` is deleted.
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

/// The only code that may use what this code makes; `None`: whatever has the same inputs may.
///
/// What a set-up runs is in the commit, and not all of it is an input. A person lets others use what a
/// commit makes by having it in the default branch, or in the branch that is checked out.
pub fn only(maker: Maker<'_>) -> Option<String> {
    let commit = maker.commit.unwrap_or("none");
    match maker.tree {
        Some(tree) => Some(format!("{commit} {tree}")),
        None if maker.is_contained || maker.commit.is_none() => None,
        None => Some(commit.to_owned()),
    }
}

/// Which layer a workspace begins with. What others made may be used by any code.
pub fn choose(only: Option<&str>, is_shared_there: bool) -> Choice {
    match (only, is_shared_there) {
        (None, _) => Choice::Shared,
        (Some(_), true) => Choice::Borrowed,
        (Some(_), false) => Choice::Own,
    }
}

/// One text for each set of ingredients, and another one for every other set: each part is preceded
/// by its length.
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

/// The inputs of a seed, as [`inputs`] of a set-up; only what the patterns name is one.
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

/// As [`canonical`], of a seed.
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

/// The layers that may go: those that no workspace uses, live or in the trash. Of each project the
/// newest stays, and so does what was taken of a checkout, unless all are to go.
pub fn unused_layers(
    built: &[(LayerKey, Duration)],
    used: &HashSet<LayerKey>,
    extent: Extent,
) -> Vec<LayerKey> {
    unused(built, used, extent)
}

// === impl LayerKey ===

impl LayerKey {
    /// The layer of a project's checkout; each project has one.
    pub fn warm(project: &str) -> Self {
        Self {
            project: project.to_owned(),
            key: format!("{WARM}{project}"),
        }
    }

    /// A snapshot of a directory that is a cache of the user's; `path` is a digest of where it is.
    pub fn cache(project: &str, name: &Name, path: &str) -> Self {
        Self {
            project: project.to_owned(),
            key: format!("{CACHE}{name}-{path}"),
        }
    }

    /// What a volume begins with; `inputs` is a digest of everything that decides it.
    pub fn volume(project: &str, name: &Name, inputs: &str) -> Self {
        Self {
            project: project.to_owned(),
            key: format!("{VOLUME}{name}-{inputs}"),
        }
    }

    /// What it is a layer of: the set-up, the checkout, one cache, or one volume.
    fn kind(&self) -> &str {
        let is_named = [CACHE, VOLUME]
            .iter()
            .any(|kind| self.key.starts_with(kind));
        match self.key.starts_with(WARM) {
            true => WARM,
            false if is_named => self.key.rsplit_once('-').map_or(CACHE, |(name, _)| name),
            false => "",
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
        // An uncommitted state is for itself, whatever it is on top of.
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
