//! The wire format between the daemon and the file program inside: the request is one argument, the
//! response is one line of JSON ([`Head`]) and then content. Names are bytes.
//!
//! The program inside can be of another version than the daemon: an unknown word is an error, never
//! a guess.

use serde::{Deserialize, Serialize};

/// The hidden first argument of the program inside.
pub const ROLE: &str = "__files";

/// The most of a file that one request reads.
pub const MOST_READ: u64 = 4 << 30;

/// The most that is packed into one archive, or unpacked from one.
pub const MOST_ARCHIVE: u64 = 4 << 30;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// `project.root`, absolute.
    pub root: Vec<u8>,
    /// Below it; empty is the root itself.
    pub path: Vec<u8>,
    pub operation: Operation,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// The entries of a directory, or the content of a file.
    Get,
    List(Page),
    Read(Range),
    Stat,
    Write(Write),
    Delete(Depth),
    Search(Search),
    /// A directory as a tar archive.
    Pack,
    /// A tar archive from stdin into a directory.
    Unpack,
}

/// The entries after a name, sorted by their bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    pub after: Option<Vec<u8>>,
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub offset: u64,
    /// `None`: to the end.
    pub length: Option<u64>,
}

/// The content comes on stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    pub length: u64,
    /// `None`: the mode of the replaced file, or 0644.
    pub mode: Option<u32>,
    pub parents: Parents,
}

/// Whether to create missing parent directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parents {
    Make,
    Require,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// A file or an empty directory.
    One,
    /// With everything in it.
    Whole,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    pub pattern: String,
    pub syntax: Syntax,
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Syntax {
    Literal,
    Regex,
}

/// The first line of a response.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    Listed {
        entries: Vec<Entry>,
        more: bool,
    },
    /// This many bytes follow, of a file of `size`.
    Content {
        length: u64,
        size: u64,
    },
    Entry(Entry),
    Found(Found),
    /// A tar archive follows.
    Archive,
    Done,
    Failed(Failure),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub name: Vec<u8>,
    pub kind: Kind,
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// The modification time, since the epoch.
    pub seconds: i64,
    pub nanoseconds: u32,
    /// The target of a symlink.
    pub target: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    File,
    Directory,
    Link,
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub matches: Vec<Match>,
    /// There are more than the limit.
    pub more: bool,
    /// Files and directories that could not be read or are too large.
    pub skipped: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// Below the root.
    pub path: Vec<u8>,
    /// From 1.
    pub line: u64,
    /// The line, or the beginning of a long one.
    pub text: Vec<u8>,
}

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    #[error("it does not exist")]
    NotFound,
    #[error("it is, or leads through, a symbolic link")]
    Link,
    #[error("it is not a directory")]
    NotADirectory,
    #[error("it is a directory")]
    IsADirectory,
    #[error("it is a pipe, a socket or a device")]
    Special,
    #[error("the workspace's user may not do it")]
    Denied,
    /// Paths below the requested one, and whether there are more.
    #[error("the workspace's user may not read {}", listed(.0, *.1))]
    Unreadable(Vec<Vec<u8>>, bool),
    #[error("it is read-only inside")]
    ReadOnly,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("a name is too long")]
    NameTooLong,
    #[error("the disk is full")]
    DiskFull,
    #[error("more than {0} bytes")]
    TooLarge(u64),
    #[error("the pattern is not understood: {0}")]
    BadPattern(String),
    #[error("the archive is refused: {0}")]
    BadArchive(String),
    #[error("the request is not understood: {0}")]
    BadRequest(String),
    #[error("error {0} of the system")]
    System(i32),
}

/// Names as bytes, in words.
fn listed(names: &[Vec<u8>], has_more: bool) -> String {
    let names = names.iter().map(|name| String::from_utf8_lossy(name));
    let mut listed = names.collect::<Vec<_>>().join(", ");
    if has_more {
        listed.push_str(", …");
    }
    listed
}
