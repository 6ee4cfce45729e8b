//! One reading: the files with their errors, variables, `extends` and `include`.

use super::dotenv::{self, Pair};
use super::form::{is_outside, is_remote, parent};
use super::keys;
use super::merge::{merge, settle};
use super::normal::Normal;
use super::tree::{self, Location, Node, Value};
use super::{ComposeErrors, Input, ReadFile, Unread};
use crate::errors::{Findings, locate};
use crate::shape::{did_you_mean, short};
use holm_core::compose::{Reading, Remark, Request, Stack, interpolate};
use std::collections::BTreeMap;

/// A project that reads more files, or nests them deeper, is a mistake or an attack.
const MOST_FILES: usize = 200;
const DEEPEST: usize = 16;

/// Of all files together, with the bases of services that extend others.
const MOST_VALUES: usize = 200_000;

/// More warnings than a person reads; each costs a search for its line.
const MOST_WARNINGS: usize = 200;
const MOST_REQUESTS: usize = 500;

pub struct Reader<'a, 'f> {
    input: &'a Input<'a>,
    read_file: &'a mut ReadFile<'f>,
    files: Vec<File>,
    warnings: Vec<(Location, String)>,
    requests: Vec<Asked>,
    pub inactive: Vec<String>,
    /// The variables of the caller's files, which values of services come from.
    pub variables: BTreeMap<String, String>,
    reads: usize,
    values: usize,
    /// A file could not be read, so names may be declared there.
    pub is_incomplete: bool,
}

/// Why a file is read.
#[derive(Clone, Copy)]
pub enum Origin {
    /// The caller names it.
    Caller,
    /// It need not exist.
    Optional,
    /// A file names it here.
    Named(Location),
}

struct File {
    name: String,
    text: String,
    findings: Findings,
}

struct Asked {
    at: Location,
    key: String,
    words: String,
    value: String,
}

/// Files that share a project directory and variables: those of the caller, or those of one `include`.
struct Level {
    /// A resolved path.
    directory: String,
    variables: BTreeMap<String, String>,
    /// Files that services of this level extend, after interpolation, in normal form.
    read: BTreeMap<String, Node>,
    /// The files that include this level.
    above: Vec<String>,
}

// === impl Reader ===

impl<'a, 'f> Reader<'a, 'f> {
    pub fn new(input: &'a Input<'a>, read_file: &'a mut ReadFile<'f>) -> Self {
        Self {
            input,
            read_file,
            files: Vec::new(),
            warnings: Vec::new(),
            requests: Vec::new(),
            inactive: Vec::new(),
            variables: BTreeMap::new(),
            reads: 0,
            values: 0,
            is_incomplete: false,
        }
    }

    /// The merged tree of all files.
    pub fn project(&mut self) -> Node {
        let paths: Vec<String> = self
            .input
            .files
            .iter()
            .map(|file| super::form::resolve(self.input.root, "", file))
            .collect();
        let directory = paths.first().map_or(".", |path| parent(path)).to_owned();
        let variables = self.read_variables(
            &[super::form::resolve("", &directory, ".env")],
            Origin::Optional,
        );
        self.variables.clone_from(&variables);
        let level = Level {
            directory,
            variables,
            read: BTreeMap::new(),
            above: Vec::new(),
        };
        self.level(level, &paths, Origin::Caller)
    }

    fn level(&mut self, mut level: Level, paths: &[String], origin: Origin) -> Node {
        let mut merged: Option<Node> = None;
        for path in paths {
            let base = level.directory.clone();
            let Some(mut node) = self.normal(path, &base, &level, origin) else {
                continue;
            };
            self.extend_all(&mut node, path, &mut level);
            merged = Some(match merged {
                Some(base) => merge(base, node, &keys::FILE),
                None => node,
            });
        }
        let mut merged = merged.unwrap_or(Node::new(Value::Table(Vec::new()), Location::default()));
        settle(&mut merged);
        let includes = merged.remove("include");
        level.above.extend(paths.iter().cloned());
        for include in includes.iter().flat_map(Node::items) {
            merged = self.include(include, merged, &level);
        }
        merged
    }

    /// A file after interpolation, in normal form, whose paths begin at `base`; `None` if it cannot be
    /// read, and an error says why.
    fn normal(&mut self, path: &str, base: &str, level: &Level, origin: Origin) -> Option<Node> {
        if let Some(node) = level.read.get(path) {
            return Some(node.clone());
        }
        let Some((file, text)) = self.open(path, origin) else {
            self.is_incomplete = true;
            return None;
        };
        let mut node = match tree::parse(&text, file) {
            Ok(node) => node,
            Err((range, why)) => {
                self.is_incomplete = true;
                self.files[file].findings.add(range, why);
                return None;
            }
        };
        if !self.has_room(&node) {
            return None;
        }
        self.fill(&mut node, level);
        let mut normal = Normal {
            root: self.input.root,
            base,
            errors: Vec::new(),
        };
        let node = normal.value(node, &keys::FILE, "");
        for (at, why) in normal.errors {
            self.error(at, why);
        }
        Some(node)
    }

    /// Replaces the variables in all values.
    fn fill(&mut self, node: &mut Node, level: &Level) {
        let at = node.at;
        match &mut node.value {
            Value::Text(text) if text.contains('$') => {
                let mut missing = Vec::new();
                let filled = interpolate(
                    text,
                    &mut |name| self.lookup(name, at, &level.variables),
                    &mut |name| missing.push(name.to_owned()),
                );
                for name in missing {
                    self.warn(
                        at,
                        format!("variable `{name}` is not set; it becomes empty"),
                    );
                }
                match filled {
                    Ok(filled) => *text = filled,
                    Err(error) => {
                        self.error(at, error.to_string().chars().take(300).collect::<String>())
                    }
                }
            }
            Value::List(items) => items.iter_mut().for_each(|item| self.fill(item, level)),
            Value::Table(entries) => entries
                .iter_mut()
                .for_each(|entry| self.fill(&mut entry.node, level)),
            _ => {}
        }
    }

    /// The value of a variable. The use of one of the caller's is a request.
    pub fn lookup(
        &mut self,
        name: &str,
        at: Location,
        variables: &BTreeMap<String, String>,
    ) -> Option<String> {
        if name == "PWD" {
            return Some(self.input.root.to_owned());
        }
        let Some(value) = self.input.environment.get(name) else {
            return variables.get(name).cloned();
        };
        let key = format!("environment.{name}");
        if !self.requests.iter().any(|asked| asked.key == key) {
            let words = format!("reads variable `{name}` of your environment");
            self.request(at, key, words, name.to_owned());
        }
        Some(value.clone())
    }

    /// The variables of files in the format of `.env`.
    fn read_variables(&mut self, paths: &[String], origin: Origin) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        for path in paths {
            let pairs = self.pairs(path, origin, &variables);
            variables.extend(
                pairs
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
        }
        variables
    }

    pub fn pairs(
        &mut self,
        path: &str,
        origin: Origin,
        known: &BTreeMap<String, String>,
    ) -> Vec<Pair> {
        let Some((file, text)) = self.open(path, origin) else {
            return Vec::new();
        };
        let at = Location::start_of(file);
        let parsed = dotenv::parse(&text, &mut |name| self.lookup(name, at, known));
        parsed.unwrap_or_else(|(range, why)| {
            self.files[file].findings.add(range, why);
            Vec::new()
        })
    }

    /// Reads a file of the project.
    pub fn open(&mut self, path: &str, origin: Origin) -> Option<(usize, String)> {
        if is_outside(path) && matches!(origin, Origin::Optional) {
            return None;
        }
        let refused = if is_remote(path) {
            Some("is on another machine; copy it into the repository".to_owned())
        } else if is_outside(path) {
            Some("is outside of the project's root; copy it into the repository".to_owned())
        } else if self.reads >= MOST_FILES {
            Some(format!("is one file too many; holm reads {MOST_FILES}"))
        } else {
            None
        };
        let content = match refused {
            Some(why) => Err(why),
            None => {
                self.reads += 1;
                match (self.read_file)(path) {
                    Ok(text) => Ok(text),
                    Err(Unread::Missing) if matches!(origin, Origin::Optional) => return None,
                    Err(Unread::Missing) => Err("does not exist".to_owned()),
                    Err(Unread::Because(why)) => Err(why),
                }
            }
        };
        match content {
            Ok(text) => {
                self.files.push(File {
                    name: path.to_owned(),
                    text: text.clone(),
                    findings: Findings::default(),
                });
                Some((self.files.len() - 1, text))
            }
            Err(why) => {
                if let Origin::Named(at) = origin {
                    self.error(at, format!("`{}` {why}", short(path)));
                } else {
                    self.files.push(File {
                        name: path.to_owned(),
                        text: String::new(),
                        findings: Findings::default(),
                    });
                    let file = self.files.len() - 1;
                    self.error(Location::start_of(file), format!("the file {why}"));
                }
                None
            }
        }
    }

    /// Resolves `extends` of all services of a file.
    fn extend_all(&mut self, node: &mut Node, path: &str, level: &mut Level) {
        level.read.insert(path.to_owned(), node.clone());
        let names: Vec<String> = node
            .entries_of("services")
            .iter()
            .map(|entry| entry.key.clone())
            .collect();
        for name in names {
            let extended = self.extended(path, &name, level, &mut Vec::new());
            if let (Some(extended), Some(service)) = (
                extended,
                node.get_mut("services").and_then(|all| all.get_mut(&name)),
            ) {
                *service = extended;
            }
        }
    }

    /// A service of a file with its bases merged in.
    fn extended(
        &mut self,
        path: &str,
        name: &str,
        level: &mut Level,
        chain: &mut Vec<(String, String)>,
    ) -> Option<Node> {
        let mut service = level.read.get(path)?.get("services")?.get(name)?.clone();
        let Some(extends) = service.remove("extends") else {
            return Some(service);
        };
        let Some(base_name) = extends.word("service") else {
            self.error(
                extends.at,
                format!("`services.{name}.extends` needs `service`"),
            );
            return Some(service);
        };
        let base_path = extends.word("file").unwrap_or_else(|| path.to_owned());
        chain.push((path.to_owned(), name.to_owned()));
        let next = (base_path.clone(), base_name.clone());
        if chain.contains(&next) || chain.len() > DEEPEST {
            let names: Vec<&str> = chain
                .iter()
                .chain([&next])
                .map(|(_, name)| name.as_str())
                .collect();
            self.error(
                extends.at,
                format!(
                    "`extends` goes in a circle or too deep: {}",
                    short(&names.join(" → "))
                ),
            );
            return Some(service);
        }
        if !level.read.contains_key(&base_path) {
            let origin = Origin::Named(extends.at);
            let read = self.normal(&base_path, parent(&base_path), level, origin);
            let Some(node) = read else {
                return Some(service);
            };
            level.read.insert(base_path.clone(), node);
        }
        let Some(base) = self.extended(&base_path, &base_name, level, chain) else {
            if self.is_incomplete {
                return Some(service);
            }
            let known: Vec<&str> = level
                .read
                .get(&base_path)
                .map(|file| file.entries_of("services"))
                .unwrap_or_default()
                .iter()
                .map(|entry| entry.key.as_str())
                .collect();
            let near = did_you_mean(&base_name, &known);
            let what = format!(
                "`{}` has no service `{}`{near}",
                short(&base_path),
                short(&base_name)
            );
            self.error(extends.at, what);
            return Some(service);
        };
        if !self.has_room(&base) {
            return None;
        }
        Some(merge(base, service, &keys::SERVICE))
    }

    /// Adds the resources of an included project. The project's own definitions change those.
    fn include(&mut self, include: &Node, merged: Node, level: &Level) -> Node {
        let texts = |key: &str| -> Vec<String> {
            let items = include.items_of(key);
            items.iter().filter_map(Node::written).collect()
        };
        let paths = texts("path");
        let Some(first) = paths.first() else {
            self.error(include.at, "`include` needs `path`");
            return merged;
        };
        if paths.iter().any(|path| level.above.contains(path)) || level.above.len() > DEEPEST {
            let chain = [level.above.join(" → "), first.clone()].join(" → ");
            self.error(
                include.at,
                format!("`include` goes in a circle or too deep: {}", short(&chain)),
            );
            return merged;
        }
        let directory = include
            .word("project_directory")
            .unwrap_or_else(|| parent(first).to_owned());
        let mut named = texts("env_file");
        named.retain(|path| path != "/dev/null");
        let mut variables = if include.get("env_file").is_some() {
            self.read_variables(&named, Origin::Named(include.at))
        } else {
            self.read_variables(
                &[super::form::resolve("", &directory, ".env")],
                Origin::Optional,
            )
        };
        // The variables of the including project are stronger.
        variables.extend(level.variables.clone());
        let inner = Level {
            directory,
            variables,
            read: BTreeMap::new(),
            above: level.above.clone(),
        };
        let mut included = self.level(inner, &paths, Origin::Named(include.at));
        included.remove("name");
        included.remove("version");
        for section in ["services", "networks", "volumes", "secrets", "configs"] {
            let theirs = included.entries_of(section);
            let ours = merged.entries_of(section);
            for entry in ours.iter().filter(|ours| {
                theirs
                    .iter()
                    .any(|theirs| theirs.key == ours.key && theirs.node != ours.node)
            }) {
                self.warn(
                    entry.key_at,
                    format!(
                        "`{section}.{}` changes the one of the included `{}`",
                        entry.key,
                        short(first)
                    ),
                );
            }
        }
        merge(included, merged, &keys::FILE)
    }

    /// Whether the values of a tree still fit. Many services that extend a large one would fill the memory.
    fn has_room(&mut self, node: &Node) -> bool {
        let had_room = self.values <= MOST_VALUES;
        self.values += node.count();
        let has_room = self.values <= MOST_VALUES;
        if had_room && !has_room {
            let what =
                format!("more than {MOST_VALUES} values in all files, with what services extend");
            self.error(node.at, what);
        }
        self.is_incomplete |= !has_room;
        has_room
    }

    pub fn error(&mut self, at: Location, what: impl Into<String>) {
        if let Some(file) = self.files.get_mut(at.file) {
            file.findings.add(at.start..at.end, what);
        }
    }

    pub fn warn(&mut self, at: Location, words: String) {
        self.warnings.push((at, words));
    }

    pub fn request(&mut self, at: Location, key: String, words: String, value: String) {
        self.requests.push(Asked {
            at,
            key,
            words,
            value,
        });
    }

    pub fn input(&self) -> &'a Input<'a> {
        self.input
    }

    fn remark(&self, at: Location, words: &str) -> Remark {
        let file = &self.files[at.file];
        let located = locate(&file.text, &(at.start..at.end), words);
        Remark {
            file: file.name.clone(),
            line: located.line,
            column: located.column,
            words: located.what,
        }
    }

    /// The result, or all errors in the order in which the files were read.
    pub fn finish(mut self, stack: Stack) -> Result<Reading, ComposeErrors> {
        if let Some(asked) = self.requests.get(MOST_REQUESTS) {
            self.error(
                asked.at,
                format!("the files ask for more than {MOST_REQUESTS} things of the host"),
            );
        }
        self.requests.truncate(MOST_REQUESTS);
        if let Some((at, _)) = self.warnings.get(MOST_WARNINGS).cloned() {
            let more = self.warnings.len() - MOST_WARNINGS;
            self.warnings.truncate(MOST_WARNINGS);
            self.warn(at, format!("{more} more warnings are not listed"));
        }
        let warnings = self
            .warnings
            .iter()
            .map(|(at, words)| self.remark(*at, words))
            .collect();
        let request = |asked: &Asked| Request {
            at: self.remark(asked.at, &asked.words),
            key: asked.key.clone(),
            value: asked.value.clone(),
        };
        let requests = self.requests.iter().map(request).collect();
        let mut errors = Vec::new();
        for file in self.files {
            errors.extend(file.findings.into_result((), &file.text, &file.name).err());
        }
        if errors.is_empty() {
            Ok(Reading {
                stack,
                warnings,
                requests,
                inactive: self.inactive,
            })
        } else {
            Err(ComposeErrors(errors))
        }
    }
}
