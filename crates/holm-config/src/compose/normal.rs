//! The normal form of a file: every value has the type of its shape, short syntaxes are long, and paths are
//! relative to the project's root. Errors are collected, with their places.

use super::form;
use super::shape::{Key, Shape, find};
use super::tree::{Entry, Location, Node, Value};
use crate::shape::{did_you_mean, join, nearest, short};

/// Normalises the values of one file.
pub struct Normal<'a> {
    pub root: &'a str,
    /// The directory that relative paths of this file begin at, as a resolved path.
    pub base: &'a str,
    pub errors: Vec<(Location, String)>,
}

// === impl Normal ===

impl Normal<'_> {
    /// `at` names the place of `node` for people. A value that does not fit becomes empty.
    pub fn value(&mut self, node: Node, shape: &'static Shape, at: &str) -> Node {
        let place = node.at;
        let change = node.change;
        let value = match self.shaped(node, shape, at) {
            Ok(value) => value,
            Err(why) => {
                let subject = if at.is_empty() {
                    "the file".to_owned()
                } else {
                    format!("`{at}`")
                };
                self.errors.push((place, format!("{subject} {why}")));
                Value::Null
            }
        };
        Node {
            value,
            at: place,
            change,
        }
    }

    fn shaped(&mut self, node: Node, shape: &'static Shape, at: &str) -> Result<Value, String> {
        match shape {
            Shape::Any => Ok(node.value),
            Shape::Short { long, table } => match node.value {
                Value::Table(_) | Value::Null => self.shaped(node, table, at),
                _ => self.shaped(long(&node)?, table, at),
            },
            Shape::Table(keys) => match node.value {
                Value::Null => Ok(Value::Null),
                Value::Table(entries) => Ok(Value::Table(self.table(entries, keys, at))),
                _ => Err(format!("must be a table, not {}", node.kind())),
            },
            Shape::Named(shape) => self.named(node, shape, at),
            Shape::List { item, long, .. } => {
                let items = list(node)?;
                let mut longer = Vec::new();
                for node in items {
                    match long(&node) {
                        Ok(nodes) => {
                            longer.extend(nodes.into_iter().map(|node| self.value(node, item, at)))
                        }
                        Err(why) => self.errors.push((node.at, format!("`{at}`: {why}"))),
                    }
                }
                Ok(Value::List(longer))
            }
            Shape::Texts | Shape::Unique => {
                let items = match node.written() {
                    Some(text) => vec![Node::text(text, node.at)],
                    None => list(node)?,
                };
                let mut texts = Vec::new();
                for item in items {
                    let item = self.value(item, &Shape::Text, at);
                    if !matches!(shape, Shape::Unique) || !texts.contains(&item) {
                        texts.push(item);
                    }
                }
                Ok(Value::List(texts))
            }
            Shape::Command | Shape::Test => self.command(node, shape, at),
            Shape::Map => self.map(node, at),
            Shape::Hosts => self.hosts(node, at),
            _ => scalar(&node, shape, self),
        }
    }

    fn table(&mut self, entries: Vec<Entry>, keys: &'static [Key], at: &str) -> Vec<Entry> {
        let is_bind = entries
            .iter()
            .any(|entry| entry.key == "type" && entry.node.written().as_deref() == Some("bind"));
        let mut known = Vec::new();
        for entry in with_outer_name(entries) {
            if entry.key.starts_with("x-") {
                continue;
            }
            let Some(key) = find(keys, &entry.key) else {
                self.errors
                    .push((entry.key_at, unknown(&entry.key, keys, at)));
                continue;
            };
            let shape = match key.shape {
                Shape::Source if is_bind => &Shape::Path,
                _ => &key.shape,
            };
            let node = self.value(entry.node, shape, &join(at, &entry.key));
            known.push(Entry { node, ..entry });
        }
        known
    }

    fn named(&mut self, node: Node, shape: &'static Shape, at: &str) -> Result<Value, String> {
        let Value::Table(entries) = node.value else {
            return match node.value {
                Value::Null => Ok(Value::Table(Vec::new())),
                _ => Err(format!("must be a table, not {}", node.kind())),
            };
        };
        let mut named = Vec::new();
        for mut entry in entries {
            if !is_name(&entry.key) {
                let what = format!("`{}` is not a valid name in `{at}`", short(&entry.key));
                self.errors.push((entry.key_at, what));
                continue;
            }
            let is_table = matches!(shape, Shape::Table(_));
            if is_table && entry.node.value == Value::Null {
                entry.node.value = Value::Table(Vec::new());
            }
            let node = self.value(entry.node, shape, &join(at, &entry.key));
            named.push(Entry { node, ..entry });
        }
        Ok(Value::Table(named))
    }

    fn command(&mut self, node: Node, shape: &Shape, at: &str) -> Result<Value, String> {
        let is_test = matches!(shape, Shape::Test);
        if let Value::Null = node.value {
            return Ok(Value::Null);
        }
        let text = |text: &str| Node::text(text, node.at);
        match node.written() {
            Some(line) if is_test => Ok(Value::List(vec![text("CMD-SHELL"), text(&line)])),
            Some(line) => {
                let words = form::words(&line).ok_or("has a quote that is not closed")?;
                Ok(Value::List(words.iter().map(|word| text(word)).collect()))
            }
            None => {
                let items = list(node)?;
                let words: Vec<Node> = items
                    .into_iter()
                    .map(|item| self.value(item, &Shape::Text, at))
                    .collect();
                let first = words.first().and_then(Node::written).unwrap_or_default();
                if is_test && !["NONE", "CMD", "CMD-SHELL"].contains(&first.as_str()) {
                    return Err("must begin with `CMD`, `CMD-SHELL` or `NONE`".to_owned());
                }
                Ok(Value::List(words))
            }
        }
    }

    fn map(&mut self, node: Node, at: &str) -> Result<Value, String> {
        let mut map: Vec<Entry> = Vec::new();
        match node.value {
            Value::Null => {}
            Value::Table(entries) => {
                for entry in entries {
                    let place = join(at, &entry.key);
                    let node = match entry.node.value {
                        Value::Null => entry.node,
                        _ => self.value(entry.node, &Shape::Text, &place),
                    };
                    map.push(Entry { node, ..entry });
                }
            }
            Value::List(items) => {
                for item in items {
                    let Some(text) = item.written() else {
                        self.errors.push((
                            item.at,
                            format!("`{at}` must have `NAME=value`, not {}", item.kind()),
                        ));
                        continue;
                    };
                    let (key, value) = match text.split_once('=') {
                        Some((key, value)) => (key.to_owned(), Value::Text(value.to_owned())),
                        None => (text, Value::Null),
                    };
                    if key.is_empty() {
                        self.errors
                            .push((item.at, format!("`{at}` has a value without a name")));
                        continue;
                    }
                    let entry = Entry {
                        key,
                        key_at: item.at,
                        node: Node { value, ..item },
                    };
                    // As in a process's environment, the last of several wins.
                    map.retain(|other| other.key != entry.key);
                    map.push(entry);
                }
            }
            _ => {
                return Err(format!(
                    "must be a table or a list of `NAME=value`, not {}",
                    node.kind()
                ));
            }
        }
        Ok(Value::Table(map))
    }

    fn hosts(&mut self, node: Node, at: &str) -> Result<Value, String> {
        let mut hosts: Vec<Entry> = Vec::new();
        match node.value {
            Value::Null => {}
            Value::Table(entries) => {
                for entry in entries {
                    let place = join(at, &entry.key);
                    let node = self.value(entry.node, &Shape::Texts, &place);
                    hosts.push(Entry { node, ..entry });
                }
            }
            Value::List(items) => {
                for item in items {
                    let text = item.written().unwrap_or_default();
                    let Some((host, address)) =
                        text.split_once('=').or_else(|| text.split_once(':'))
                    else {
                        self.errors
                            .push((item.at, format!("`{at}` must have `HOST=ADDRESS`")));
                        continue;
                    };
                    let address = Node::text(address, item.at);
                    match hosts.iter_mut().find(|entry| entry.key == host) {
                        Some(entry) => {
                            if let Value::List(addresses) = &mut entry.node.value {
                                addresses.push(address);
                            }
                        }
                        None => hosts.push(Entry {
                            key: host.to_owned(),
                            key_at: item.at,
                            node: Node::new(Value::List(vec![address]), item.at),
                        }),
                    }
                }
            }
            _ => {
                return Err(format!(
                    "must be a table or a list of `HOST=ADDRESS`, not {}",
                    node.kind()
                ));
            }
        }
        Ok(Value::Table(hosts))
    }
}

/// Moves the name in `external: {name: x}`, the older form, beside `external`.
fn with_outer_name(mut entries: Vec<Entry>) -> Vec<Entry> {
    let external = entries.iter().find(|entry| entry.key == "external");
    let name = external
        .and_then(|external| external.node.entry("name"))
        .cloned();
    let has_name = entries.iter().any(|entry| entry.key == "name");
    entries.extend(name.filter(|_| !has_name));
    entries
}

fn list(node: Node) -> Result<Vec<Node>, String> {
    match node.value {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => Ok(items),
        _ => Err(format!("must be a list, not {}", node.kind())),
    }
}

fn scalar(node: &Node, shape: &Shape, normal: &Normal<'_>) -> Result<Value, String> {
    match (shape, &node.value) {
        (_, Value::Null) => return Ok(Value::Null),
        (Shape::External, Value::Table(_)) => return Ok(Value::Flag(true)),
        _ => {}
    }
    let noun = match shape {
        Shape::Flag | Shape::External => "`true` or `false`",
        Shape::Integer => "an integer",
        Shape::Number => "a number",
        Shape::Size => "a size such as `64m`",
        Shape::Duration => "a duration such as `1m30s`",
        _ => "a text",
    };
    let Some(text) = node.written() else {
        return Err(format!("must be {noun}, not {}", node.kind()));
    };
    let value = match shape {
        Shape::Flag | Shape::External => form::flag(&text).map(Value::Flag),
        Shape::Integer => integer(&text).map(|number| Value::Number(number.to_string())),
        Shape::Number => text
            .parse::<f64>()
            .ok()
            .filter(|it| it.is_finite())
            .map(|_| Value::Number(text.clone())),
        Shape::Size => form::size(&text).map(|bytes| Value::Number(bytes.to_string())),
        Shape::Duration => form::duration(&text).map(|ms| Value::Number(ms.to_string())),
        Shape::Path if text.is_empty() => return Err("is an empty path".to_owned()),
        Shape::Path => Some(Value::Text(form::resolve(normal.root, normal.base, &text))),
        Shape::Choice(words) if !words.contains(&text.as_str()) => {
            let near = did_you_mean(&text, words);
            let words = words.join("`, `");
            return Err(format!(
                "cannot be `{}`; it is one of `{words}`{near}",
                short(&text)
            ));
        }
        _ if text.contains('\0') => return Err("has a NUL character".to_owned()),
        _ => Some(Value::Text(text.clone())),
    };
    value.ok_or_else(|| format!("must be {noun}, not `{}`", short(&text)))
}

fn integer(text: &str) -> Option<i64> {
    let base = |prefix: &str, base| i64::from_str_radix(text.strip_prefix(prefix)?, base).ok();
    text.parse()
        .ok()
        .or_else(|| base("0x", 16))
        .or_else(|| base("0o", 8))
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.len() <= 128 && name.chars().all(is_part)
}

fn unknown(name: &str, keys: &'static [Key], at: &str) -> String {
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    let near = nearest(name, &names);
    let advice = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "a key of your own begins with `x-`".to_owned(),
    };
    let place = if at.is_empty() {
        String::new()
    } else {
        format!(" in `{at}`")
    };
    format!("unknown key `{}`{place}; {advice}", short(name))
}
