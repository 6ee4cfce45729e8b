//! The shapes of values in a Compose file, as data: [`super::keys`] has one table of them.
//!
//! A shape decides three things about a value, so that they cannot disagree: its normal form
//! ([`super::normal`]), how a later file changes it ([`super::merge`]), and what holm does with each key
//! ([`super::judge`]).

use super::tree::Node;

pub enum Shape {
    /// Anything of no further interest.
    Any,
    Text,
    Choice(&'static [&'static str]),
    Flag,
    Integer,
    Number,
    Size,
    Duration,
    /// Relative to the file's project directory.
    Path,
    /// A path if the `type` beside it is `bind`, otherwise a name.
    Source,
    /// A flag, or a table with the name that a resource has outside.
    External,
    /// A command line or its words. A later file replaces it.
    Command,
    /// The test of a health check.
    Test,
    /// One text or a list of them. A later file appends.
    Texts,
    /// The same, and each text once.
    Unique,
    /// `NAME: value` or a list of `NAME=value`.
    Map,
    /// `host: address`, or a list of `host=address` or `host:address`.
    Hosts,
    Table(&'static [Key]),
    /// Entries with names that the user chooses.
    Named(&'static Shape),
    /// Entries, each of which may be written as one of several things.
    List {
        item: &'static Shape,
        /// The long form of an item.
        long: Long,
        /// The keys that make an item the same as one of an earlier file. None: all items are kept.
        same: &'static [&'static str],
    },
    /// A table or list that has a short form.
    Short {
        /// The long form of a value that is not a table.
        long: fn(&Node) -> Result<Node, String>,
        table: &'static Shape,
    },
}

/// The long forms of one item: a range of ports has several.
pub type Long = fn(&Node) -> Result<Vec<Node>, String>;

pub struct Key {
    pub name: &'static str,
    pub verdict: Verdict,
    pub shape: Shape,
    /// For the documentation, and the reason in a message.
    pub note: &'static str,
}

/// What holm does with a key.
#[derive(Clone, Copy)]
pub enum Verdict {
    /// It has the meaning of the specification.
    Done,
    /// It has no effect, and a warning names it. The stack does not have it.
    Ignored,
    /// The same, but the stack has it.
    Unused,
    /// A person has to approve a value for which this returns the words of a request.
    Trust(fn(&Node) -> Option<String>),
    /// It is an error.
    Refused,
}

// === impl Verdict ===

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Done => "done",
            Verdict::Ignored | Verdict::Unused => "ignored",
            Verdict::Trust(_) => "trust",
            Verdict::Refused => "refused",
        }
    }
}

/// The key with a name.
pub fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}
