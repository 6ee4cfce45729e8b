//! A value of a TOML document with its position, and ways to read it.
//!
//! Readers return `None` for a value of another type: the shape was checked before, and errors are
//! reported already.

use super::errors::{ConfigErrors, Findings};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

#[derive(Clone)]
pub struct Node<'a> {
    pub value: &'a DeValue<'a>,
    /// Of the value.
    pub span: Range<usize>,
    /// Of its key, which is the better mark for a whole table.
    pub key_span: Range<usize>,
}

/// Larger files are not configuration.
const LARGEST_FILE: usize = 256 << 10;

/// Parses a document and passes its root to `build`, which adds errors.
pub fn read<T>(
    text: &str,
    origin: &str,
    build: impl FnOnce(&Node<'_>, &mut Findings) -> T,
) -> Result<T, ConfigErrors> {
    let mut findings = Findings::default();
    // An empty document stands for an unreadable one; the findings distinguish them.
    let (source, syntax) = if text.len() > LARGEST_FILE {
        findings.add(
            0..0,
            format!("the file is larger than {LARGEST_FILE} bytes"),
        );
        (DeTable::parse_recoverable("").0, Vec::new())
    } else {
        DeTable::parse_recoverable(text)
    };
    for error in syntax {
        let span = error.span().unwrap_or(0..0);
        findings.add(span, error.message().replace('\n', ", "));
    }
    let readable = findings.is_empty();
    let root = DeValue::Table(source.into_inner());
    let node = Node {
        value: &root,
        span: 0..0,
        key_span: 0..0,
    };
    // Further errors in a broken document are not worth reporting.
    let mut ignored = Findings::default();
    let value = build(
        &node,
        if readable {
            &mut findings
        } else {
            &mut ignored
        },
    );
    findings.into_result(value, text, origin)
}

// === impl Node ===

impl<'a> Node<'a> {
    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        self.entries()
            .into_iter()
            .find(|(name, _)| *name == key)
            .map(|(_, node)| node)
    }

    pub fn entries(&self) -> Vec<(&'a str, Node<'a>)> {
        let Some(table) = self.value.as_table() else {
            return Vec::new();
        };
        let entries = table.iter().map(|(key, value)| {
            let node = Node {
                value: value.get_ref(),
                span: value.span(),
                key_span: key.span(),
            };
            (key.get_ref().as_ref(), node)
        });
        entries.collect()
    }

    pub fn items(&self) -> Vec<Node<'a>> {
        let Some(array) = self.value.as_array() else {
            return Vec::new();
        };
        let items = array.iter().map(|value| Node {
            value: value.get_ref(),
            span: value.span(),
            key_span: value.span(),
        });
        items.collect()
    }

    pub fn text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    pub fn integer(&self) -> Option<i64> {
        let integer = self.value.as_integer()?;
        i64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    /// A float, or an integer in its place.
    pub fn number(&self) -> Option<f64> {
        match self.value.as_float() {
            Some(float) => float.as_str().parse().ok(),
            None => self.integer().map(|integer| integer as f64),
        }
    }

    pub fn flag(&self) -> Option<bool> {
        self.value.as_bool()
    }

    /// The text at `key`, as it is.
    pub fn string(&self, key: &str) -> Option<String> {
        Some(self.get(key)?.text()?.to_owned())
    }

    /// Whether `true` is at `key`.
    pub fn is_set(&self, key: &str) -> bool {
        self.get(key).and_then(|node| node.flag()) == Some(true)
    }

    /// The text at `key`, converted by `parse`.
    pub fn parsed<T, E>(&self, key: &str, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        parse(self.get(key)?.text()?).ok()
    }

    /// The list of texts at `key`, each converted by `parse`.
    pub fn list<T, E>(&self, key: &str, parse: impl Fn(&str) -> Result<T, E>) -> Option<Vec<T>> {
        let items = self.get(key)?.items();
        let texts = items.iter().filter_map(Node::text);
        Some(texts.filter_map(|text| parse(text).ok()).collect())
    }

    /// The list of texts at `key`.
    pub fn texts(&self, key: &str) -> Option<Vec<String>> {
        self.list(key, |text| {
            Ok::<_, std::convert::Infallible>(text.to_owned())
        })
    }

    /// The word of an enum at `key`.
    pub fn word<T: holm_core::config::Word>(&self, key: &str) -> Option<T> {
        T::parse_word(self.get(key)?.text()?)
    }
}
