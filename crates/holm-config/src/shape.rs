//! A file's keys as data: names, types and meanings.
//!
//! The same tables validate a document ([`check`]) and are printed as its JSON schema
//! ([`super::schema`]), so that the two cannot disagree about a key.

use super::errors::{Findings, clean};
use super::node::Node;
use holm_core::ProjectName;
use holm_core::config::{
    Address, Destination, HostHeader, Name, Pattern, Place, ProtectedPath, ProxyUrl, Root,
    Variable, WebhookUrl, parse_duration, parse_size,
};
use holm_core::environment::check_name;
use holm_core::image_reference::ImageReference;
use holm_core::reference::distance;
use holm_core::store_place::PostgresUrl;
use std::fmt::Display;
use toml::de::DeValue;

/// The type of a value.
pub enum Shape {
    Text(Form),
    Integer {
        least: i64,
        most: i64,
    },
    /// Greater than zero.
    Number {
        most: f64,
    },
    Flag,
    /// Only `true`: omitting the key is the alternative.
    True,
    Choice(&'static [&'static str]),
    List {
        item: &'static Shape,
        least: usize,
    },
    /// A program that is not empty, and its arguments.
    Command,
    Table(Table),
    /// Any number of entries with user-chosen names, next to fixed keys.
    Map {
        names: Form,
        value: &'static Shape,
        fixed: &'static [Key],
    },
    /// A text or a number for the same thing.
    Either(&'static Shape, &'static Shape),
}

pub struct Table {
    pub keys: &'static [Key],
    /// If not empty: exactly one of these keys must be present.
    pub one_of: &'static [&'static str],
}

pub struct Key {
    pub name: &'static str,
    pub doc: &'static str,
    pub shape: Shape,
    pub need: Need,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Optional,
    Required,
}

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Anything, also empty (the value of a variable).
    Any,
    /// A command, or a text to search: not empty.
    Filled,
    ProjectName,
    Name,
    Variable,
    /// A variable that `[env]` may set for every program.
    SharedVariable,
    Duration,
    /// A duration, or `off`.
    DurationOrOff,
    Size,
    Root,
    /// The name of an image.
    Image,
    /// Absolute, in an image.
    ImagePath,
    ProtectedPath,
    Pattern,
    /// Relative to the project, to home, or absolute.
    Place,
    /// Relative to the project.
    ProjectFile,
    /// Relative to the project or to home.
    GivenPath,
    /// Relative to home or absolute.
    HostPath,
    /// Relative to home or absolute, not a system directory.
    Mount,
    HttpPath,
    Address,
    ProxyUrl,
    WebhookUrl,
    /// A PostgreSQL database.
    StoreUrl,
    Destination,
    HostHeader,
}

/// The shape of a table: after `one_of`, keys of which exactly one must be present; then one row for each key, with its doc comment as its description, its name, whether it must be there, and its shape.
macro_rules! table {
    (
        $(one_of $one_of:tt;)?
        $($(#[doc = $doc:literal])+ $name:ident: $need:ident $shape:expr,)+
    ) => {
        $crate::shape::Shape::Table($crate::shape::Table {
            keys: &[$($crate::shape::Key::$need(
                stringify!($name),
                concat!($($doc),+).trim_ascii_start(),
                $shape,
            )),+],
            one_of: table!(@keys $($one_of)?),
        })
    };
    (@keys) => { &[] };
    (@keys $keys:tt) => { &$keys };
}
pub(crate) use table;

/// Reports everything about `node` that does not fit this shape. `at` names the place for people.
pub fn check(shape: &Shape, node: &Node<'_>, at: &str, findings: &mut Findings) {
    match shape {
        Shape::Text(form) => check_text(*form, node, at, findings),
        Shape::Integer { least, most } => {
            if !node.value.is_integer() {
                wrong_type(node, at, "an integer", findings);
            } else if !node
                .integer()
                .is_some_and(|it| (*least..=*most).contains(&it))
            {
                findings.add(
                    node.span.clone(),
                    format!("`{at}` must be {least} to {most}"),
                );
            }
        }
        Shape::Number { most } => {
            if !node.value.is_integer() && !node.value.is_float() {
                wrong_type(node, at, "a number", findings);
            } else if !node.number().is_some_and(|it| it > 0.0 && it <= *most) {
                let what = format!("`{at}` must be greater than 0 and at most {most}");
                findings.add(node.span.clone(), what);
            }
        }
        Shape::Flag => {
            if node.flag().is_none() {
                wrong_type(node, at, "`true` or `false`", findings);
            }
        }
        Shape::True => {
            if node.flag() != Some(true) {
                findings.add(node.span.clone(), format!("`{at}` can only be `true`"));
            }
        }
        Shape::Choice(words) => check_choice(words, node, at, findings),
        Shape::List { item, least } => {
            if !node.value.is_array() {
                return wrong_type(node, at, "a list", findings);
            }
            let items = node.items();
            if items.len() < *least {
                findings.add(node.span.clone(), format!("`{at}` is empty"));
            }
            for item_node in items {
                check(item, &item_node, at, findings);
            }
        }
        Shape::Command => check_command(node, at, findings),
        Shape::Table(table) => check_table(table, node, at, findings),
        Shape::Map {
            names,
            value,
            fixed,
        } => check_map(*names, value, fixed, node, at, findings),
        Shape::Either(first, second) => {
            let shape = if first.takes(node.value) {
                first
            } else {
                second
            };
            if shape.takes(node.value) {
                check(shape, node, at, findings);
            } else {
                let both = format!("{} or {}", first.noun(), second.noun());
                wrong_type(node, at, &both, findings);
            }
        }
    }
}

fn check_text(form: Form, node: &Node<'_>, at: &str, findings: &mut Findings) {
    let Some(text) = node.text() else {
        return wrong_type(node, at, "a string", findings);
    };
    if let Err(why) = form.check(text) {
        let what = match form {
            // It may have a password.
            Form::StoreUrl => format!("this is not a valid `{at}`: {why}"),
            _ => format!("`{}` is not a valid `{at}`: {why}", short(text)),
        };
        findings.add(node.span.clone(), what);
    }
}

fn check_choice(words: &[&str], node: &Node<'_>, at: &str, findings: &mut Findings) {
    let Some(text) = node.text() else {
        return wrong_type(node, at, "a string", findings);
    };
    if !words.contains(&text) {
        let listed = listed(words);
        let near = did_you_mean(text, words);
        let what = format!(
            "`{at}` cannot be `{}`; it is one of {listed}{near}",
            short(text)
        );
        findings.add(node.span.clone(), what);
    }
}

fn listed(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

fn check_command(node: &Node<'_>, at: &str, findings: &mut Findings) {
    if !node.value.is_array() {
        return wrong_type(node, at, "a list of a program and its arguments", findings);
    }
    let items = node.items();
    for (index, item) in items.iter().enumerate() {
        let form = if index == 0 { Form::Filled } else { Form::Any };
        check_text(form, item, at, findings);
    }
    if items.is_empty() {
        findings.add(node.span.clone(), format!("`{at}` is empty"));
    }
}

fn check_table(table: &Table, node: &Node<'_>, at: &str, findings: &mut Findings) {
    if !node.value.is_table() {
        return wrong_type(node, at, "a table", findings);
    }
    let entries = node.entries();
    for (name, entry) in &entries {
        match table.keys.iter().find(|key| key.name == *name) {
            Some(key) => check(&key.shape, entry, &join(at, name), findings),
            None => unknown_key(name, entry, table.keys, at, findings),
        }
    }
    let present = |name: &str| entries.iter().any(|(entry, _)| *entry == name);
    for key in table.keys {
        if key.need == Need::Required && !present(key.name) {
            findings.add(
                node.key_span.clone(),
                format!("`{at}` needs `{}`", key.name),
            );
        }
    }
    let chosen = table.one_of.iter().filter(|name| present(name)).count();
    if !table.one_of.is_empty() && chosen != 1 {
        let what = format!("`{at}` needs exactly one of {}", listed(table.one_of));
        findings.add(node.key_span.clone(), what);
    }
}

fn check_map(
    names: Form,
    value: &Shape,
    fixed: &'static [Key],
    node: &Node<'_>,
    at: &str,
    findings: &mut Findings,
) {
    if !node.value.is_table() {
        return wrong_type(node, at, "a table", findings);
    }
    for (name, entry) in node.entries() {
        let place = join(at, name);
        if let Some(key) = fixed.iter().find(|key| key.name == name) {
            check(&key.shape, &entry, &place, findings);
            continue;
        }
        if let Err(why) = names.check(name) {
            let what = format!("`{}` is not a valid name in `{at}`: {why}", short(name));
            findings.add(entry.key_span.clone(), what);
        }
        check(value, &entry, &place, findings);
    }
}

/// Keys of `config.toml` that a repository must not have: they run programs on the host or tell others of the work.
const OF_USER: [&str; 1] = ["notify"];

fn unknown_key(
    name: &str,
    entry: &Node<'_>,
    keys: &'static [Key],
    at: &str,
    findings: &mut Findings,
) {
    let place = if at.is_empty() {
        String::new()
    } else {
        format!(" in `{at}`")
    };
    let known: Vec<_> = keys.iter().map(|key| key.name).collect();
    let advice = match nearest(name, &known) {
        _ if at.is_empty() && OF_USER.contains(&name) => {
            "only your own settings, config.toml, may have it".to_owned()
        }
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: {}", known.join(", ")),
    };
    let what = format!("unknown key `{}`{place}; {advice}", short(name));
    findings.add(entry.key_span.clone(), what);
}

fn wrong_type(node: &Node<'_>, at: &str, expected: &str, findings: &mut Findings) {
    let found = match node.value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    // A table's own span is its header or all of it; its key is clearer.
    let span = if node.value.is_table() {
        &node.key_span
    } else {
        &node.span
    };
    findings.add(
        span.clone(),
        format!("`{at}` must be {expected}, not {found}"),
    );
}

/// The name of a key for messages: `services.web`.
pub fn join(at: &str, name: &str) -> String {
    if at.is_empty() {
        short(name)
    } else {
        format!("{at}.{}", short(name))
    }
}

/// A text for an error message: escaped and shortened.
pub fn short(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    clean(&shown)
}

/// The word that was probably meant, among the first hundred: a file can name thousands.
pub fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known
        .iter()
        .take(100)
        .map(|word| (distance(typed, word), *word));
    let near = distances.filter(|(distance, word)| *distance <= 1 + word.len() / 4);
    near.min().map(|(_, word)| word)
}

/// The end of a message about a word that is not known; empty if no known word is similar.
pub fn did_you_mean(typed: &str, known: &[&str]) -> String {
    let near = nearest(typed, known);
    near.map(|near| format!("; did you mean `{}`?", short(near)))
        .unwrap_or_default()
}

// === impl Shape ===

impl Shape {
    /// Any number of items, also none.
    pub const fn list(item: &'static Shape) -> Self {
        Shape::List { item, least: 0 }
    }

    /// Whether a value has the right type.
    fn takes(&self, value: &DeValue<'_>) -> bool {
        match self {
            Shape::Text(_) | Shape::Choice(_) => value.is_str(),
            Shape::Integer { .. } => value.is_integer(),
            Shape::Number { .. } => value.is_integer() || value.is_float(),
            Shape::Flag | Shape::True => value.is_bool(),
            Shape::List { .. } | Shape::Command => value.is_array(),
            Shape::Table(_) | Shape::Map { .. } => value.is_table(),
            Shape::Either(first, second) => first.takes(value) || second.takes(value),
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            Shape::Text(_) | Shape::Choice(_) => "a string",
            Shape::Integer { .. } => "an integer",
            Shape::Number { .. } => "a number",
            Shape::Flag | Shape::True => "a boolean",
            Shape::List { .. } | Shape::Command => "a list",
            Shape::Table(_) | Shape::Map { .. } | Shape::Either(..) => "a table",
        }
    }
}

// === impl Key ===

impl Key {
    pub const fn optional(name: &'static str, doc: &'static str, shape: Shape) -> Self {
        Self {
            name,
            doc,
            shape,
            need: Need::Optional,
        }
    }

    pub const fn required(name: &'static str, doc: &'static str, shape: Shape) -> Self {
        Self {
            name,
            doc,
            shape,
            need: Need::Required,
        }
    }
}

// === impl Form ===

impl Form {
    /// Why the text does not have this format, as the end of a sentence.
    pub fn check(self, text: &str) -> Result<(), String> {
        fn why<T, E: Display>(result: Result<T, E>) -> Result<(), String> {
            result.map(|_| ()).map_err(|error| error.to_string())
        }
        let no_nul = |text: &str| {
            if text.contains('\0') {
                Err("it has a NUL character".to_owned())
            } else {
                Ok(())
            }
        };
        match self {
            Form::Any => no_nul(text),
            Form::Filled if text.trim().is_empty() => Err("it is empty".to_owned()),
            Form::Filled => no_nul(text),
            Form::ProjectName => why(ProjectName::parse(text)),
            Form::Name => why(Name::parse(text)),
            Form::Variable => why(Variable::parse(text)),
            Form::SharedVariable => {
                why(Variable::parse(text))?;
                why(check_name(text))
            }
            Form::Duration => why(parse_duration(text)),
            Form::DurationOrOff if text == "off" => Ok(()),
            Form::DurationOrOff => why(parse_duration(text)),
            Form::Size => why(parse_size(text)),
            Form::Root => why(Root::parse(text)),
            Form::ProtectedPath => why(ProtectedPath::parse(text)),
            Form::Pattern => why(Pattern::parse(text)),
            Form::Place => why(Place::parse(text)),
            Form::ProjectFile => match Place::parse(text) {
                Ok(Place::Home(_) | Place::Absolute(_)) => {
                    Err("it must be relative to the project's root".to_owned())
                }
                other => why(other),
            },
            Form::GivenPath => why(Place::parse_given(text)),
            Form::HostPath => match Place::parse(text) {
                Ok(Place::Project(_)) => Err("it must begin with `/` or `~/`".to_owned()),
                other => why(other),
            },
            Form::Mount => why(Place::parse_mount(text)),
            Form::HttpPath if !text.starts_with('/') => Err("it must begin with `/`".to_owned()),
            Form::HttpPath => match text.chars().find(|c| c.is_control() || *c == ' ') {
                Some(_) => Err("it has a space or a control character".to_owned()),
                None => Ok(()),
            },
            Form::Image => why(text.parse::<ImageReference>()),
            Form::ImagePath => why(Root::parse_in_image(text)),
            Form::Address => why(Address::parse(text)),
            Form::ProxyUrl => why(ProxyUrl::parse(text)),
            Form::WebhookUrl => why(WebhookUrl::parse(text)),
            Form::StoreUrl => why(PostgresUrl::parse(text)),
            Form::Destination => why(Destination::parse(text)),
            Form::HostHeader => why(HostHeader::parse(text)),
        }
    }
}
