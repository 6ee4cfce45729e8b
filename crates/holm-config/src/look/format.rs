//! Parses JSON, TOML and YAML into one kind of value. The files are not trusted: a document that is
//! too deep, too large or not of its format is unusable, and the reason names the place.

use crate::compose::tree::{self, Node};
use crate::errors::locate;
use holm_core::detect::{Content, Document, Form};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The longest reason that is shown.
const LONGEST_REASON: usize = 160;

pub fn parse(text: &str, form: Form) -> Content {
    let parsed = match form {
        Form::Text => return Content::Text(text.to_owned()),
        // Its own depth limit is 128.
        Form::Json => serde_json::from_str(text).map_err(|error| error.to_string()),
        Form::CommentedJson => {
            serde_json::from_str(&without_comments(text)).map_err(|error| error.to_string())
        }
        Form::Toml => toml::from_str(text).map_err(|error| error.message().to_owned()),
        Form::Yaml => yaml(text),
    };
    match parsed {
        Ok(Value(document)) => Content::Document(document),
        Err(why) => {
            let first = why.lines().next().unwrap_or_default();
            Content::Unusable(first.chars().take(LONGEST_REASON).collect())
        }
    }
}

/// Replaces comments and trailing commas by spaces, so that places in errors stay right.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(character) = rest.next() {
        match (is_quoted, character, rest.peek()) {
            (true, '\\', Some(_)) => {
                plain.push(character);
                plain.extend(rest.next());
                continue;
            }
            (_, '"', _) => is_quoted = !is_quoted,
            (false, '/', Some('/')) => {
                while rest.peek().is_some_and(|next| *next != '\n') {
                    rest.next();
                }
                continue;
            }
            (false, '/', Some('*')) => {
                let mut before = ' ';
                for inside in rest.by_ref().skip(1) {
                    if inside == '\n' {
                        plain.push('\n');
                    }
                    if (before, inside) == ('*', '/') {
                        break;
                    }
                    before = inside;
                }
                continue;
            }
            (false, '}' | ']', _) => {
                let end = plain.trim_end().len();
                if plain[..end].ends_with(',') {
                    plain.replace_range(end - 1..end, " ");
                }
            }
            _ => {}
        }
        plain.push(character);
    }
    plain
}

fn yaml(text: &str) -> Result<Value, String> {
    tree::parse(text, 0)
        .map(|node| Value(document(&node)))
        .map_err(|(span, why)| {
            let place = locate(text, &span, &why);
            format!(
                "line {} column {}: {}",
                place.line, place.column, place.what
            )
        })
}

fn document(node: &Node) -> Document {
    match &node.value {
        tree::Value::Null => Document::Nothing,
        tree::Value::Flag(flag) => Document::Flag(*flag),
        tree::Value::Number(number) => Document::Number(number.clone()),
        tree::Value::Text(text) => Document::Text(text.clone()),
        tree::Value::List(items) => Document::List(items.iter().map(document).collect()),
        tree::Value::Table(entries) => {
            let entries = entries.iter();
            Document::Table(
                entries
                    .map(|entry| (entry.key.clone(), document(&entry.node)))
                    .collect(),
            )
        }
    }
}

/// A document under construction.
struct Value(Document);

struct ValueVisitor;

// === impl Value ===

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(Value)
    }
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Document;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Document, E> {
        Ok(Document::Flag(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Document, E> {
        Ok(Document::Number(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Document, E> {
        Ok(Document::Number(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Document, E> {
        Ok(Document::Number(number.to_string()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Document, E> {
        Ok(Document::Text(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Document, E> {
        Ok(Document::Nothing)
    }

    fn visit_none<E: Error>(self) -> Result<Document, E> {
        Ok(Document::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Document, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Document, A::Error> {
        let mut items = Vec::new();
        while let Some(Value(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Document::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Document, A::Error> {
        let mut entries = Vec::new();
        // Keys that are numbers or flags (`3000:`, `on:`) become names.
        while let Some((Value(key), Value(value))) = access.next_entry()? {
            entries.push((key.written().unwrap_or_default(), value));
        }
        Ok(Document::Table(entries))
    }
}
