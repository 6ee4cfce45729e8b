//! Compose files: several files, their variables, `extends` and `include` become one
//! [`Stack`](holm_core::compose::Stack).
//!
//! The files are not trusted: only files below the project's root are read, through a function of the caller, and
//! nothing is executed. All errors are reported at once, with file, line and column. What the files ask of
//! the host is listed, never done.

mod ask;
mod dotenv;
mod form;
mod judge;
mod keys;
mod links;
mod merge;
mod normal;
mod reader;
pub mod services;
pub(crate) mod shape;
mod short;
pub(crate) mod tree;

#[cfg(test)]
mod tests;

use crate::errors::ConfigErrors;
use holm_core::compose::Reading;
use holm_core::{Code, Fault};
use std::collections::BTreeMap;
use std::fmt;

/// What to read.
pub struct Input<'a> {
    /// The absolute path of the project's root, which `$PWD` and absolute paths of the files name.
    pub root: &'a str,
    /// Relative to the root. Later files override earlier ones. Relative paths start at the directory of the first
    /// file.
    pub files: &'a [&'a str],
    /// The caller's variables. Each that a file uses is a request.
    pub environment: &'a BTreeMap<String, String>,
    /// The active profiles; `*` is all of them.
    pub profiles: &'a [&'a str],
}

/// Why a file has no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    Missing,
    /// Another reason, as the end of a sentence.
    Because(String),
}

/// Reads a file by its path below the root. It must not follow links that leave the root.
pub type ReadFile<'a> = dyn FnMut(&str) -> Result<String, Unread> + 'a;

/// The errors of all files. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComposeErrors(Vec<ConfigErrors>);

/// Reads the files of a stack.
pub fn read(input: &Input<'_>, read_file: &mut ReadFile<'_>) -> Result<Reading, ComposeErrors> {
    let mut reader = reader::Reader::new(input, read_file);
    let stack = reader.project();
    let stack = judge::judge(&mut reader, stack);
    reader.finish(stack)
}

/// The table of `docs/compose.md`.
pub fn key_table() -> String {
    let mut table = "| key | verdict | note |\n| --- | --- | --- |\n".to_owned();
    for key in keys::SERVICE_KEYS {
        table.push_str(&format!(
            "| `{}` | {} | {} |\n",
            key.name,
            key.verdict.word(),
            key.note
        ));
    }
    table
}

// === impl ComposeErrors ===

impl ComposeErrors {
    /// Each with its place, without the line that it is about.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().flat_map(ConfigErrors::lines).collect()
    }
}

impl fmt::Display for ComposeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ConfigErrors::to_string).collect();
        f.write_str(&texts.join("\n"))
    }
}

impl std::error::Error for ComposeErrors {}

impl From<ComposeErrors> for Fault {
    fn from(errors: ComposeErrors) -> Fault {
        let hint =
            "correct the file and try again; docs/compose.md lists what holm does with each key";
        Fault::new(Code::InvalidConfig, errors.to_string(), hint)
    }
}
