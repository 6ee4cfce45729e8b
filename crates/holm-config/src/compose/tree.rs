//! A YAML document as a tree with positions: anchors, aliases, merge keys and the tags `!reset` and
//! `!override` of Compose.
//!
//! The file is not trusted. Size, depth and the number of values after alias expansion are bounded, and a
//! key that a table has twice is an error.

use crate::shape::short;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use std::collections::HashMap;
use std::ops::Range;

/// A range of bytes in one of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    pub file: usize,
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub value: Value,
    pub at: Location,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Flag(bool),
    /// As written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// In file order.
    Table(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: String,
    pub key_at: Location,
    pub node: Node,
}

/// How a value changes the value of the file before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Merge,
    /// `!reset`: remove the key.
    Reset,
    /// `!override`: replace the value whole.
    Override,
}

/// An error in the text of a file.
pub type Problem = (Range<usize>, String);

const LARGEST_FILE: usize = 512 << 10;
const MOST_VALUES: usize = 20_000;
const DEEPEST: usize = 32;

/// Parses a file. An empty file is an empty table.
pub fn parse(text: &str, file: usize) -> Result<Node, Problem> {
    if text.len() > LARGEST_FILE {
        return Err((
            0..0,
            format!("the file is larger than {LARGEST_FILE} bytes"),
        ));
    }
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        file,
        anchors: HashMap::new(),
        values: 0,
    };
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            _ if root.is_some() => {
                return Err((range(&span), "a second document in one file".to_owned()));
            }
            event => root = Some(reader.node(event, span, 0)?),
        }
    }
    Ok(root.unwrap_or(Node::new(
        Value::Table(Vec::new()),
        Location::start_of(file),
    )))
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    file: usize,
    anchors: HashMap<usize, (Node, usize)>,
    values: usize,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(problem(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Problem> {
        self.count(1, &span)?;
        if depth > DEEPEST {
            return Err((range(&span), format!("nested deeper than {DEEPEST} levels")));
        }
        let before = self.values;
        let (value, anchor, tag) = match event {
            Event::Alias(id) => {
                let Some((node, size)) = self.anchors.get(&id).cloned() else {
                    return Err((range(&span), "an alias inside of its own anchor".to_owned()));
                };
                self.count(size, &span)?;
                return Ok(node);
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain
                    || tag
                        .as_ref()
                        .is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let value = if is_text {
                    Value::Text(text.into_owned())
                } else {
                    plain(&text)
                };
                (value, anchor, tag)
            }
            Event::SequenceStart(_, anchor, tag) => (self.list(depth)?, anchor, tag),
            Event::MappingStart(_, anchor, tag) => (self.table(depth)?, anchor, tag),
            _ => return Err((range(&span), "a value is missing".to_owned())),
        };
        let node = Node {
            value,
            at: self.place(&span),
            change: change(tag.as_deref(), &span)?,
        };
        if anchor != 0 {
            self.anchors
                .insert(anchor, (node.clone(), self.values - before));
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn table(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let key_at = self.place(&span);
            let is_plain = matches!(event, Event::Scalar(_, ScalarStyle::Plain, ..));
            let key = self.node(event, span, depth + 1)?;
            let Some(key) = key.written() else {
                return Err((range(&span), "a key must be a text".to_owned()));
            };
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            if key == "<<" && is_plain {
                merged.push(node);
            } else if entries.iter().any(|entry| entry.key == key) {
                let range = key_at.start..key_at.end;
                return Err((range, format!("the key `{}` is there twice", short(&key))));
            } else {
                entries.push(Entry { key, key_at, node });
            }
        }
        for node in merged {
            self.merge_key(&mut entries, node)?;
        }
        Ok(Value::Table(entries))
    }

    /// Adds the entries of `<<` that the table does not have. The first of several tables wins.
    fn merge_key(&mut self, entries: &mut Vec<Entry>, node: Node) -> Result<(), Problem> {
        let at = node.at;
        let wrong = (
            at.start..at.end,
            "`<<` takes a table or a list of tables".to_owned(),
        );
        let tables = match node.value {
            Value::Table(_) => vec![node],
            Value::List(items) => items,
            _ => return Err(wrong),
        };
        for table in tables {
            let Value::Table(more) = table.value else {
                return Err(wrong);
            };
            for entry in more {
                if !entries.iter().any(|there| there.key == entry.key) {
                    entries.push(entry);
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, more: usize, span: &Span) -> Result<(), Problem> {
        self.values += more;
        if self.values > MOST_VALUES {
            return Err((range(span), format!("more than {MOST_VALUES} values")));
        }
        Ok(())
    }

    fn place(&self, span: &Span) -> Location {
        let Range { start, end } = range(span);
        Location {
            file: self.file,
            start,
            end,
        }
    }
}

fn range(span: &Span) -> Range<usize> {
    span.byte_range().unwrap_or(0..0)
}

fn problem(error: &ScanError) -> Problem {
    let at = error.marker().byte_offset().unwrap_or_default();
    (at..at + 1, error.info())
}

fn change(tag: Option<&Tag>, span: &Span) -> Result<Change, Problem> {
    match tag {
        None => Ok(Change::Merge),
        Some(tag) if tag.is_yaml_core_schema() => Ok(Change::Merge),
        Some(tag) => match tag.original().as_str() {
            "!reset" => Ok(Change::Reset),
            "!override" => Ok(Change::Override),
            other => Err((
                range(span),
                format!(
                    "unknown tag `{}`; known are `!reset` and `!override`",
                    short(other)
                ),
            )),
        },
    }
}

/// The value of a scalar without quotes, by YAML's core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Flag(true),
        "false" | "False" | "FALSE" => return Value::Flag(false),
        _ => {}
    }
    let digits = text.trim_start_matches(['-', '+']);
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && text.parse::<f64>().is_ok();
    let has_base = |prefix: &str, base: u32| {
        let digits = digits.strip_prefix(prefix);
        digits.is_some_and(|digits| u64::from_str_radix(digits, base).is_ok())
    };
    if is_number || has_base("0x", 16) || has_base("0o", 8) {
        Value::Number(text.to_owned())
    } else {
        Value::Text(text.to_owned())
    }
}

// === impl Location ===

impl Location {
    pub fn start_of(file: usize) -> Self {
        Self {
            file,
            ..Self::default()
        }
    }
}

// === impl Node ===

impl PartialEq for Node {
    /// Positions do not matter.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value && self.change == other.change
    }
}

impl Node {
    pub fn new(value: Value, at: Location) -> Self {
        Self {
            value,
            at,
            change: Change::Merge,
        }
    }

    pub fn text(text: impl Into<String>, at: Location) -> Self {
        Self::new(Value::Text(text.into()), at)
    }

    pub fn table(entries: Vec<(&str, Node)>, at: Location) -> Self {
        let entries = entries.into_iter().map(|(key, node)| Entry {
            key: key.to_owned(),
            key_at: node.at,
            node,
        });
        Self::new(Value::Table(entries.collect()), at)
    }

    /// A text, number or flag as text.
    pub fn written(&self) -> Option<String> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text.clone()),
            Value::Flag(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The items of the list at `key`; empty without one.
    pub fn items_of(&self, key: &str) -> &[Node] {
        self.get(key).map(Node::items).unwrap_or_default()
    }

    /// The entries of the table at `key`; empty without one.
    pub fn entries_of(&self, key: &str) -> &[Entry] {
        self.get(key).map(Node::entries).unwrap_or_default()
    }

    /// The flag at `key`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)?.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// The text at `key`.
    pub fn word(&self, key: &str) -> Option<String> {
        self.get(key)?.written()
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Table(entries) => entries
                .iter_mut()
                .find(|entry| entry.key == key)
                .map(|entry| &mut entry.node),
            _ => None,
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let Value::Table(entries) = &mut self.value else {
            return None;
        };
        let place = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(place).node)
    }

    /// Adds an entry to a table that does not have it.
    pub fn set(&mut self, key: &str, node: Node) {
        if let Value::Table(entries) = &mut self.value {
            let key_at = node.at;
            entries.push(Entry {
                key: key.to_owned(),
                key_at,
                node,
            });
        }
    }

    /// The number of values in this tree.
    pub fn count(&self) -> usize {
        let inside: usize = match &self.value {
            Value::List(items) => items.iter().map(Node::count).sum(),
            Value::Table(entries) => entries.iter().map(|entry| 1 + entry.node.count()).sum(),
            _ => 0,
        };
        1 + inside
    }

    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "empty",
            Value::Flag(_) => "a flag",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}
