//! What a value may be, and the check of a whole file.

use super::source::Source;
use crate::compose::shape::Verdict;
use crate::compose::tree::{Node, Value};
use crate::shape::{did_you_mean, join, short};

pub struct Key {
    pub name: &'static str,
    pub verdict: Verdict,
    pub kind: Kind,
    /// For the documentation, and the reason in a message.
    pub note: &'static str,
}

pub enum Kind {
    /// Anything of no further interest.
    Any,
    Text,
    Choice(&'static [&'static str]),
    Flag,
    Texts,
    TextOrTexts,
    /// Names with texts.
    Variables,
    /// The same; `null` removes a variable.
    RemoteVariables,
    /// A port, or a list of them; each is a number or a text.
    Ports,
    /// A table for each port.
    Attributes,
    /// A text, its words, or a table of such commands.
    Command,
    /// A text of `key=value` pairs, or a table.
    Mount,
    Mounts,
    /// Options of each feature.
    Features,
    Table(&'static [Key]),
}

/// Checks every key of a table: its kind, and what holm does with it.
pub fn check(source: &mut Source<'_>, node: &Node, keys: &'static [Key], at: &str) {
    for entry in node.entries() {
        let place = join(at, &entry.key);
        let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
            let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
            let advice = did_you_mean(&entry.key, &known);
            let place = short(&place);
            let words = format!(
                "`{place}` is no key of the specification and has no effect; tools keep theirs in `customizations`{advice}"
            );
            source.warn(entry.key_at, words);
            continue;
        };
        if let Some(expected) = key.kind.refuses(&entry.node) {
            let found = entry.node.kind();
            let what = format!("`{place}` must be {expected}, and is {found}");
            source.error(entry.node.at, what);
            continue;
        }
        if let Kind::Table(inner) = key.kind {
            check(source, &entry.node, inner, &place);
        }
        match key.verdict {
            Verdict::Trust(asks) => {
                if let Some(words) = asks(&entry.node) {
                    let words = format!("{words}: {}", key.note);
                    source.ask(entry.key_at, &place, &words, &entry.node);
                }
            }
            Verdict::Ignored | Verdict::Unused => {
                source.warn(
                    entry.key_at,
                    format!("`{place}` has no effect: {}", key.note),
                );
            }
            Verdict::Refused => {
                let what = format!("`{place}` is not supported: {}", key.note);
                source.error(entry.key_at, what);
            }
            Verdict::Done => {}
        }
    }
}

// === impl Kind ===

impl Kind {
    /// What the value must be, if it is something else.
    fn refuses(&self, node: &Node) -> Option<String> {
        let is = |is_so: bool, expected: &str| (!is_so).then(|| expected.to_owned());
        match self {
            Kind::Any => None,
            Kind::Text => is(is_text(node), "a text"),
            Kind::Flag => is(matches!(node.value, Value::Flag(_)), "true or false"),
            Kind::Choice(words) => {
                let is_known = match &node.value {
                    Value::Text(text) => words.contains(&text.as_str()),
                    _ => false,
                };
                is(is_known, &format!("one of `{}`", words.join("`, `")))
            }
            Kind::Texts => is(is_list(node, is_text), "a list of texts"),
            Kind::TextOrTexts => is(
                is_text(node) || is_list(node, is_text),
                "a text or a list of texts",
            ),
            Kind::Variables => is(is_table(node, is_scalar), "a table of texts"),
            Kind::RemoteVariables => is(
                is_table(node, |value| is_scalar(value) || value.value == Value::Null),
                "a table of texts",
            ),
            Kind::Ports => is(
                is_port(node) || is_list(node, is_port),
                "a port or a list of ports",
            ),
            Kind::Attributes => is(
                is_table(node, |value| is_table(value, |_| true)),
                "a table of tables",
            ),
            Kind::Command => is(
                is_command(node) || is_table(node, is_command),
                "a command: a text, a list of words, or a table of such commands",
            ),
            Kind::Mount => is(is_mount(node), "a mount: a text or a table"),
            Kind::Mounts => is(is_list(node, is_mount), "a list of mounts"),
            Kind::Features => is(
                is_table(node, |value| is_scalar(value) || is_table(value, is_scalar)),
                "a table with the options of each feature",
            ),
            Kind::Table(_) => is(is_table(node, |_| true), "a table"),
        }
    }
}

fn is_text(node: &Node) -> bool {
    matches!(node.value, Value::Text(_))
}

fn is_scalar(node: &Node) -> bool {
    node.written().is_some()
}

fn is_list(node: &Node, of: impl Fn(&Node) -> bool) -> bool {
    matches!(node.value, Value::List(_)) && node.items().iter().all(of)
}

fn is_table(node: &Node, of: impl Fn(&Node) -> bool) -> bool {
    let mut values = node.entries().iter().map(|entry| &entry.node);
    matches!(node.value, Value::Table(_)) && values.all(of)
}

fn is_port(node: &Node) -> bool {
    matches!(node.value, Value::Text(_) | Value::Number(_))
}

fn is_command(node: &Node) -> bool {
    is_text(node) || is_list(node, is_text)
}

fn is_mount(node: &Node) -> bool {
    is_text(node) || is_table(node, is_scalar)
}
