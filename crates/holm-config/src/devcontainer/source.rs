//! One `devcontainer.json` while it is read: its errors, notes and requests, and the variables in its values.

use super::DevContainerErrors;
use crate::compose::services::ENVIRONMENT;
use crate::compose::tree::{Location, Node, Value};
use crate::errors::{Findings, locate};
use crate::shape::short;
use holm_core::compose::{ComposeFiles, Remark, Request};
use holm_core::dev_container::ID;

/// The prefix of the keys of requests.
const PREFIX: &str = "devcontainer.";

/// More than a person reads.
const MOST_REMARKS: usize = 200;

/// Which variables a value may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Those that are known before there is a container.
    Outside,
    /// `${containerEnv:NAME}`, too, which the container fills in.
    Inside,
}

pub struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
    pub files: &'a ComposeFiles,
    /// Where the tree is in the container, when that is known.
    pub folder: String,
    findings: Findings,
    pub warnings: Vec<Remark>,
    pub requests: Vec<Request>,
}

// === impl Source ===

impl<'a> Source<'a> {
    pub fn new(name: &'a str, text: &'a str, files: &'a ComposeFiles) -> Self {
        Self {
            name,
            text,
            files,
            folder: String::new(),
            findings: Findings::default(),
            warnings: Vec::new(),
            requests: Vec::new(),
        }
    }

    pub fn error(&mut self, at: Location, what: impl Into<String>) {
        self.findings.add(at.start..at.end, what);
    }

    pub fn has_errors(&self) -> bool {
        !self.findings.is_empty()
    }

    pub fn finish(self) -> Result<(Vec<Remark>, Vec<Request>), DevContainerErrors> {
        let remarks = (self.warnings, self.requests);
        let result = self.findings.into_result(remarks, self.text, self.name);
        result.map_err(DevContainerErrors)
    }

    pub fn warn(&mut self, at: Location, words: String) {
        if self.warnings.len() < MOST_REMARKS {
            let remark = self.remark(at, words);
            self.warnings.push(remark);
        }
    }

    /// A key that reaches the host.
    pub fn ask(&mut self, at: Location, key: &str, words: &str, value: &Node) {
        let value = self.text[value.at.start..value.at.end].to_owned();
        self.ask_for(at, key, words, value);
    }

    pub fn ask_for(&mut self, at: Location, key: &str, words: &str, value: String) {
        let key = format!("{PREFIX}{key}");
        let words = format!("`{key}` {words}");
        let at = self.remark(at, words);
        if self.requests.len() >= MOST_REMARKS {
            let span = Location::default();
            self.error(
                span,
                format!("asks for more than {MOST_REMARKS} things of the host"),
            );
            return;
        }
        self.requests.push(Request { at, key, value });
    }

    pub fn remark(&self, at: Location, words: String) -> Remark {
        let place = locate(self.text, &(at.start..at.end), "");
        Remark {
            file: self.name.to_owned(),
            line: place.line,
            column: place.column,
            words: words.chars().filter(|c| !c.is_control()).collect(),
        }
    }

    /// Replaces the variables in all texts below a node.
    pub fn fill_all(&mut self, node: &mut Node, place: Where) {
        let at = node.at;
        match &mut node.value {
            Value::Text(text) if text.contains("${") => *text = self.fill(text, at, place),
            Value::List(items) => items.iter_mut().for_each(|item| self.fill_all(item, place)),
            Value::Table(entries) => entries
                .iter_mut()
                .for_each(|entry| self.fill_all(&mut entry.node, place)),
            _ => {}
        }
    }

    fn fill(&mut self, text: &str, at: Location, place: Where) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                filled.push_str("${");
                rest = after;
                continue;
            };
            match self.value_of(name, at, place) {
                Some(value) => filled.push_str(&value),
                None => filled.push_str(&format!("${{{name}}}")),
            }
            rest = after;
        }
        filled + rest
    }

    /// `None`: it stays as it is.
    fn value_of(&mut self, name: &str, at: Location, place: Where) -> Option<String> {
        let root = &self.files.root;
        let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
        match kind {
            "localWorkspaceFolder" => Some(root.clone()),
            "localWorkspaceFolderBasename" => Some(last(root).to_owned()),
            "containerWorkspaceFolder" => Some(self.folder.clone()),
            "containerWorkspaceFolderBasename" => Some(last(&self.folder).to_owned()),
            "devcontainerId" => Some(ID.to_owned()),
            "localEnv" | "env" => Some(self.of_user(rest, at)),
            "containerEnv" if place == Where::Outside => {
                let words = format!(
                    "`${{{}}}` is empty here: there is no container yet; `remoteEnv` has its variables",
                    short(name)
                );
                self.warn(at, words);
                Some(String::new())
            }
            _ => None,
        }
    }

    /// A variable of the user's environment. The use of one that is set is a request.
    fn of_user(&mut self, rest: &str, at: Location) -> String {
        let (name, default) = rest.split_once(':').unwrap_or((rest, ""));
        let Some(value) = self.files.environment.get(name) else {
            return default.to_owned();
        };
        let key = format!("{ENVIRONMENT}{name}");
        if !self.requests.iter().any(|request| request.key == key) {
            let words = format!("`{key}` reads variable `{name}` of your environment");
            let at = self.remark(at, words);
            let value = name.to_owned();
            self.requests.push(Request { at, key, value });
        }
        value.clone()
    }
}

fn last(path: &str) -> &str {
    path.trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default()
}
