//! One directory of a checkout: its files, and how to run a command in it.

use super::{Content, Document, Found, is_looked_into};

#[derive(Clone, Copy)]
pub struct Directory<'a> {
    found: &'a Found,
    /// Empty for the root; otherwise the path without a trailing `/`.
    at: &'a str,
}

// === impl Directory ===

impl<'a> Directory<'a> {
    pub fn root(found: &'a Found) -> Self {
        Self { found, at: "" }
    }

    pub fn is_root(&self) -> bool {
        self.at.is_empty()
    }

    pub fn to_root(self) -> Self {
        Self::root(self.found)
    }

    /// The last part of its path; empty for the root.
    pub fn name(&self) -> &'a str {
        self.at.rsplit('/').next().unwrap_or_default()
    }

    /// The name of its only service: `web` in the root.
    pub fn service_name(&self) -> String {
        if self.is_root() { "web" } else { self.name() }.to_owned()
    }

    pub fn at(&self) -> &'a str {
        self.at
    }

    /// The path of an entry, relative to the root.
    pub fn path(&self, name: &str) -> String {
        match self.at {
            "" => name.to_owned(),
            at => format!("{at}/{name}"),
        }
    }

    /// Whether the file exists; with a trailing `/`, the directory.
    pub fn has(&self, name: &str) -> bool {
        self.found.listing.contains(&self.path(name))
    }

    /// The first of these files that exists.
    pub fn first<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has(name))
    }

    pub fn text(&self, name: &str) -> Option<&'a str> {
        match self.found.contents.get(&self.path(name))? {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn document(&self, name: &str) -> Option<&'a Document> {
        match self.found.contents.get(&self.path(name))? {
            Content::Document(document) => Some(document),
            _ => None,
        }
    }

    /// A listed directory below this one.
    pub fn below(&self, path: &str) -> Option<Directory<'a>> {
        let wanted = format!("{}/", self.path(path));
        let listed = self.found.listing.get(&wanted)?;
        Some(Directory {
            found: self.found,
            at: listed.strip_suffix('/')?,
        })
    }

    /// This directory and those above it, without the root.
    pub fn and_above(self) -> impl Iterator<Item = Directory<'a>> {
        let found = self.found;
        let parent = |at: &&'a str| at.rsplit_once('/').map(|(parent, _)| parent);
        let places = std::iter::successors(Some(self.at), parent);
        places
            .filter(|at| !at.is_empty())
            .map(move |at| Directory { found, at })
    }

    /// The subdirectories that may contain a part of the product.
    pub fn directories(self) -> impl Iterator<Item = Directory<'a>> {
        let prefix = self.path("");
        let found = self.found;
        let listing = found.listing.iter();
        listing.filter_map(move |path| {
            let at = path.strip_suffix('/')?;
            let name = at.strip_prefix(prefix.as_str())?;
            let is_direct = !name.is_empty() && !name.contains('/');
            (is_direct && is_looked_into(at)).then_some(Directory { found, at })
        })
    }

    /// A command line that runs the command here; commands of `holm.toml` start in the root.
    pub fn run(&self, command: &str) -> String {
        match self.at {
            "" => command.to_owned(),
            at => format!("cd {} && {command}", quoted(at)),
        }
    }
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
