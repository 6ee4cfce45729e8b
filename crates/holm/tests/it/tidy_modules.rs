//! Modules below the same parent use each other in one direction, at every level of a crate.

use super::tidy::{code_of, crates, is_test, none, sources};
use std::collections::{BTreeMap, BTreeSet};

/// A path below the crate: of a module, or of an item in one.
type Names = Vec<String>;

/// Which modules each module of a parent uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Names that stand for the path of something else.
type Imports = BTreeMap<String, Names>;

/// The modules of a crate, by their path.
#[derive(Default)]
struct Modules(BTreeMap<Names, Module>);

#[derive(Default)]
struct Module {
    imports: Imports,
    /// All paths in its code that lead to this crate, also those of its imports.
    named: Vec<Names>,
}

/// A re-export of a re-export is followed this many times.
const MOST_IMPORTS: usize = 8;

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let sources = sources();
    let mut found = Vec::new();
    for name in crates() {
        let directory = format!("crates/{name}/src/");
        let files = sources.iter().filter(|(file, _)| !is_test(file));
        let files = files.filter_map(|(file, text)| Some((file.strip_prefix(&directory)?, text)));
        let files: Vec<_> = files.map(|(file, text)| (file, text.as_str())).collect();
        let circles = Modules::read(&files).circles();
        found.extend(circles.iter().map(|circle| format!("{name}: {circle}")));
    }
    none("modules that use each other in circles", found);
}

// === impl Modules ===

impl Modules {
    /// `files` are paths below `src`, with their text.
    fn read(files: &[(&str, &str)]) -> Self {
        let mut code = BTreeMap::<Names, String>::new();
        for (file, text) in files {
            let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
            let path = match path {
                "lib" | "main" => Names::new(),
                path => path.split('/').map(str::to_owned).collect(),
            };
            code.entry(path).or_default().push_str(&code_of(text));
        }
        let known: BTreeSet<Names> = code.keys().cloned().collect();
        let modules = code.into_iter().map(|(own, code)| {
            let module = Module::read(&code, &own, &known);
            (own, module)
        });
        Self(modules.collect())
    }

    /// Each circle in words.
    fn circles(&self) -> Vec<String> {
        let circles = self.uses().into_iter().map(|(parent, uses)| {
            let circle = circle(&uses);
            let parent = parent.join("::");
            (!circle.is_empty()).then(|| format!("below `{parent}`: {circle:?}"))
        });
        circles.flatten().collect()
    }

    /// The uses among the children of each parent. What a child and its parent use of each other does not count.
    fn uses(&self) -> BTreeMap<Names, Uses> {
        let mut uses = BTreeMap::<Names, Uses>::new();
        for (own, module) in &self.0 {
            for named in &module.named {
                let used = self.resolve(named.clone());
                let shared = own.iter().zip(&used).take_while(|(a, b)| a == b).count();
                if let (Some(user), Some(used)) = (own.get(shared), used.get(shared)) {
                    let siblings = uses.entry(own[..shared].to_vec()).or_default();
                    siblings.entry(used.clone()).or_default();
                    siblings
                        .entry(user.clone())
                        .or_default()
                        .insert(used.clone());
                }
            }
        }
        uses
    }

    /// The module in which the path ends, also when a module on the way has the name only by an import.
    fn resolve(&self, mut path: Names) -> Names {
        for _ in 0..MOST_IMPORTS {
            let is_module = |length: &usize| self.0.contains_key(&path[..*length]);
            let Some(length) = (0..=path.len()).rev().find(is_module) else {
                break;
            };
            let imported = path.get(length);
            let imported = imported.and_then(|name| self.0[&path[..length]].imports.get(name));
            match imported {
                Some(imported) => path = [imported, &path[length + 1..]].concat(),
                None => {
                    path.truncate(length);
                    break;
                }
            }
        }
        path
    }
}

// === impl Module ===

impl Module {
    fn read(code: &str, own: &[String], known: &BTreeSet<Names>) -> Self {
        let (trees, rest) = without_uses(code);
        let is_child = |name: &str| known.contains(&[own, &[name.to_owned()]].concat());
        let absolute = |path: Names| -> Option<Names> {
            let ups = path.iter().take_while(|name| *name == "super").count();
            let below = own.len().checked_sub(ups)?;
            match path.first()?.as_str() {
                "crate" => Some(path[1..].to_vec()),
                "super" => Some([&own[..below], &path[ups..]].concat()),
                "self" => Some([own, &path[1..]].concat()),
                child if is_child(child) => Some([own, &path].concat()),
                _ => None,
            }
        };
        let mut module = Self::default();
        for (path, alias) in trees.iter().flat_map(|tree| expand(tree)) {
            if let Some(path) = absolute(path) {
                module.named.push(path.clone());
                module.imports.insert(alias, path);
            }
        }
        for path in paths(&rest) {
            let imported = module.imports.get(&path[0]);
            let imported = imported.map(|imported| [imported, &path[1..]].concat());
            module.named.extend(imported.or_else(|| absolute(path)));
        }
        module
    }
}

/// The trees of all `use` statements, and the code without these statements.
fn without_uses(code: &str) -> (Vec<String>, String) {
    let (mut trees, mut rest) = (Vec::new(), String::new());
    let mut left = code;
    while let Some(at) = left.find("use ") {
        let (before, statement) = left.split_at(at);
        rest.push_str(before);
        let is_statement = before.is_empty() || before.ends_with([' ', '\n', '{', ';']);
        match statement.split_once(';') {
            Some((tree, after)) if is_statement => {
                trees.push(tree["use ".len()..].to_owned());
                left = after;
            }
            _ => left = &statement["use ".len()..],
        }
    }
    rest.push_str(left);
    (trees, rest)
}

/// The paths of a `use` tree, with the name that each has here: `a::b` and `a::c as d` of `a::{b, c as d}`.
fn expand(tree: &str) -> Vec<(Names, String)> {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path: Names = path
            .split("::")
            .map(|name| name.trim().to_owned())
            .collect();
        path.retain(|name| !["", "*"].contains(&name.as_str()));
        if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        let alias = match alias.trim() {
            "" => path.last().cloned().unwrap_or_default(),
            alias => alias.to_owned(),
        };
        return vec![(path, alias)];
    };
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let parts = parts(group).into_iter();
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| expand(&format!("{prefix}{}", part.trim())))
        .collect()
}

/// The text between the commas that are in no braces.
fn parts(group: &str) -> Vec<&str> {
    let (mut depth, mut begin) = (0, 0);
    let mut parts = Vec::new();
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[begin..]);
    parts
}

/// All `a::b` in the code.
fn paths(code: &str) -> Vec<Names> {
    let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let paths = words.filter(|word| word.contains("::") && !word.starts_with(':'));
    let names = paths.map(|path| path.split("::").filter(|name| !name.is_empty()));
    let names = names.map(|names| names.map(str::to_owned).collect::<Names>());
    names.filter(|names| !names.is_empty()).collect()
}

/// What is left when modules that use no other are taken away, again and again, and those that no other uses too.
fn circle(uses: &Uses) -> Uses {
    let mut left = uses.clone();
    loop {
        let used: BTreeSet<String> = left.values().flatten().cloned().collect();
        let before = left.len();
        left.retain(|module, uses| !uses.is_empty() && used.contains(module));
        let modules: BTreeSet<String> = left.keys().cloned().collect();
        for uses in left.values_mut() {
            uses.retain(|used| modules.contains(used));
        }
        if left.len() == before && left.values().all(|uses| !uses.is_empty()) {
            return left;
        }
    }
}

#[test]
fn circles_are_found_at_every_level() {
    let check = |files: &[(&str, &str)], expected: &[&str]| {
        assert_eq!(Modules::read(files).circles(), expected, "{files:?}");
    };
    let root = ("lib.rs", "mod a;\nmod b;\npub use a::A;\n");
    let top = &["below ``: {\"a\": {\"b\"}, \"b\": {\"a\"}}"];
    check(&[root, ("a.rs", "use crate::b::B;"), ("b.rs", "")], &[]);
    check(
        &[
            root,
            ("a.rs", "use crate::{c, b::B};"),
            ("b.rs", "fn f() { super::a::g() }"),
        ],
        top,
    );
    // The crate's root has the name only by an import.
    check(
        &[root, ("a.rs", "use crate::b;"), ("b.rs", "use crate::A;")],
        top,
    );
    // A deeper module counts for the one below the shared parent.
    let deep = ("a/deep.rs", "use super::super::b::B;");
    check(
        &[
            root,
            ("a/mod.rs", "mod deep;"),
            deep,
            ("b.rs", "use crate::a;"),
        ],
        top,
    );
    check(
        &[
            root,
            ("a/mod.rs", "mod deep;\nuse deep::D;"),
            ("a/deep.rs", "use super::A;"),
        ],
        &[],
    );
    let nested = &["below `a`: {\"x\": {\"y\"}, \"y\": {\"x\"}}"];
    let parent = ("a/mod.rs", "mod x;\nmod y;\nuse y::Y;\nstruct P;\n");
    let uses_y = ("a/x.rs", "pub(crate) use super::{P, Y as Other};");
    check(&[root, parent, uses_y, ("a/y.rs", "use super::P;")], &[]);
    check(
        &[root, parent, uses_y, ("a/y.rs", "use super::x::{self};")],
        nested,
    );
    check(
        &[
            root,
            parent,
            uses_y,
            ("a/y.rs", "use crate::a;\nfn f() { a::x::g() }"),
        ],
        nested,
    );
    let tests = "struct Y;\n#[cfg(test)]\nmod tests {\n    use super::super::x;\n}\n";
    check(&[root, parent, uses_y, ("a/y.rs", tests)], &[]);
}
