//! A compose file: databases become installed programs, everything else a commented block with the
//! reason. Only the keys that matter for that are read.

use super::command::is_operator;
use super::database::{Server, database};
use super::directory::quoted;
use super::document::Document;
use super::environment::{command_looks_secret, interpolate, is_secret};
use super::proposal::{Database, Sign, Suggestion, valid_name};
use crate::config::Variable as VariableName;
use std::collections::{BTreeMap, BTreeSet};

/// What a compose file amounts to.
#[derive(Default)]
pub struct Composed {
    pub sign: Option<Sign>,
    pub databases: Vec<Database>,
    pub rest: Vec<Suggestion>,
    /// What each service that is built here waits for.
    pub built_depends_on: Vec<Vec<String>>,
    pub remarks: Vec<String>,
}

/// One service of a compose file.
#[derive(Default)]
pub struct Entry {
    /// As it is written there.
    pub name: String,
    pub image: Option<String>,
    pub build: Option<String>,
    pub command: Option<String>,
    pub environment: Vec<Variable>,
    pub env_files: Vec<String>,
    pub ports: Vec<Mapping>,
    pub depends_on: Vec<String>,
    pub profiles: Vec<String>,
    /// What the image runs when its database is new.
    pub first_start: Vec<String>,
}

pub struct Variable {
    pub name: String,
    /// `None`: it comes from the environment of whoever starts it.
    pub value: Option<String>,
}

pub struct Mapping {
    pub inside: u16,
    pub published: Option<String>,
}

/// More services than this are not a stack that somebody wrote.
const MOST_SERVICES: usize = 100;

pub fn read(file: &str, document: &Document) -> Composed {
    let mut composed = Composed {
        sign: Some(Sign {
            kind: "Compose",
            file: file.to_owned(),
        }),
        ..Composed::default()
    };
    let listed = document.get("services").map_or(&[][..], Document::entries);
    if listed.len() > MOST_SERVICES {
        composed.remarks.push(format!(
            "{file} has {} services; the first {MOST_SERVICES} were read",
            listed.len()
        ));
    }
    if document.get("include").is_some() {
        composed
            .remarks
            .push(format!("{file} includes other files, which were not read"));
    }
    let listed = &listed[..listed.len().min(MOST_SERVICES)];
    let entries: Vec<Entry> = listed
        .iter()
        .map(|(name, node)| entry(name, node))
        .collect();
    let names = names(&entries);
    for entry in &entries {
        add(&mut composed, file, entry, &names);
    }
    composed
}

/// For every service the name that it has in `holm.toml`.
fn names(entries: &[Entry]) -> BTreeMap<&str, String> {
    let mut taken = BTreeSet::new();
    let mut names = BTreeMap::new();
    for entry in entries {
        let wish = valid_name(&entry.name);
        let numbered = (2..).map(|number| valid_name(&format!("{:.36}-{number}", wish)));
        let mut wishes = std::iter::once(wish.clone()).chain(numbered);
        let free = wishes.find(|name| taken.insert(name.clone()));
        names.insert(entry.name.as_str(), free.unwrap_or(wish));
    }
    names
}

fn add(composed: &mut Composed, file: &str, entry: &Entry, names: &BTreeMap<&str, String>) {
    let name = names.get(entry.name.as_str()).cloned().unwrap_or_default();
    let others = entry.depends_on.iter();
    let depends_on: Vec<String> = others
        .filter_map(|other| names.get(other.as_str()).cloned())
        .collect();
    let image = entry.image.as_deref();
    let server = image
        .and_then(Server::of_image)
        .filter(|_| entry.build.is_none());
    let mut run = entry
        .command
        .clone()
        .filter(|command| !command_looks_secret(command));
    let reason = match (server, image, &entry.build) {
        (Some(server), _, _) => {
            let database = database(server, &name, entry, file);
            if entry.profiles.is_empty() {
                composed.databases.push(database);
                return;
            }
            run = Some(database.service.run);
            format!("starts only with the profile {}", entry.profiles.join(", "))
        }
        (None, _, Some(context)) => {
            composed.built_depends_on.push(depends_on.clone());
            format!("built as an image from `{context}`; say what runs here instead")
        }
        (None, Some(image), None) => format!(
            "the image `{image}` is none that holm knows as a program; install it and say how it starts"
        ),
        (None, None, None) => "neither an image nor a build".to_owned(),
    };
    let is_kept = |it: &&Variable| {
        it.value
            .as_deref()
            .is_some_and(|value| !is_secret(&it.name, value))
    };
    let variables = entry.environment.iter();
    let variables = variables.filter(|it| VariableName::parse(&it.name).is_ok());
    let (kept, secret): (Vec<&Variable>, Vec<&Variable>) = variables.partition(is_kept);
    let kept = kept.into_iter();
    composed.rest.push(Suggestion {
        name,
        run,
        port: entry.ports.first().map(|port| port.inside),
        depends_on,
        env: kept
            .filter_map(|it| Some((it.name.clone(), it.value.clone()?)))
            .collect(),
        secrets: secret.into_iter().map(|it| it.name.clone()).collect(),
        reason: format!("{file}: {}: {reason}", entry.name),
    });
}

fn entry(name: &str, node: &Document) -> Entry {
    let text = |key: &str| node.get(key).and_then(Document::written);
    let list = |key: &str| node.get(key).map(Document::texts).unwrap_or_default();
    let build = node.get("build").map(|build| {
        let context = build.get("context").unwrap_or(build).written();
        context.unwrap_or_else(|| ".".to_owned())
    });
    let volumes = node.get("volumes").map_or(&[][..], Document::items);
    Entry {
        name: name.to_owned(),
        image: text("image").map(|image| interpolate(&image).unwrap_or(image)),
        build,
        command: node.get("command").and_then(command),
        environment: node.get("environment").map(environment).unwrap_or_default(),
        env_files: env_files(node),
        ports: ports(node),
        depends_on: node
            .get("depends_on")
            .map(Document::names)
            .unwrap_or_default(),
        profiles: list("profiles"),
        first_start: volumes.iter().filter_map(first_start).collect(),
    }
}

/// A command as a shell takes it; lists are words.
fn command(node: &Document) -> Option<String> {
    match node {
        Document::List(_) => {
            let words: Vec<String> = node.texts().iter().map(|word| quoted(word)).collect();
            Some(words.join(" ")).filter(|line| !line.is_empty())
        }
        other => other.text().map(|line| line.trim().to_owned()),
    }
    .filter(|line| !line.is_empty() && !line.split(' ').all(is_operator))
}

/// `NAME: value` or `NAME=value`; a name alone comes from outside.
fn environment(node: &Document) -> Vec<Variable> {
    let variable = |name: &str, value: Option<String>| Variable {
        name: name.to_owned(),
        value: value.and_then(|value| interpolate(&value)),
    };
    match node {
        Document::Table(entries) => entries
            .iter()
            .map(|(name, value)| variable(name, value.written()))
            .collect(),
        list => list
            .texts()
            .iter()
            .map(|line| match line.split_once('=') {
                Some((name, value)) => variable(name, Some(value.to_owned())),
                None => variable(line, None),
            })
            .collect(),
    }
}

fn env_files(node: &Document) -> Vec<String> {
    let Some(files) = node.get("env_file") else {
        return Vec::new();
    };
    let paths = files.items().iter().filter_map(|item| item.get("path"));
    let paths = paths.filter_map(Document::written);
    files.texts().into_iter().chain(paths).collect()
}

/// Ports inside, from `"8080"`, `"3000:8080"`, `"127.0.0.1:3000:8080/tcp"` and the long form.
fn ports(node: &Document) -> Vec<Mapping> {
    let listed = node.get("ports").map_or(&[][..], Document::items);
    let exposed = node.get("expose").map_or(&[][..], Document::items);
    let listed = listed.iter().chain(exposed);
    listed.filter_map(mapping).collect()
}

fn mapping(node: &Document) -> Option<Mapping> {
    let number = |text: &str| text.parse().ok().filter(|port: &u16| *port != 0);
    if let Some(target) = node.get("target") {
        return Some(Mapping {
            inside: number(&interpolate(&target.written()?)?)?,
            published: node.get("published").and_then(Document::written),
        });
    }
    let written = interpolate(&node.written()?)?;
    let (address, protocol) = written.split_once('/').unwrap_or((&written, "tcp"));
    if protocol != "tcp" {
        return None;
    }
    let mut parts = address.rsplit(':');
    Some(Mapping {
        inside: number(parts.next()?)?,
        published: parts.next().map(str::to_owned),
    })
}

/// A file or directory of the project that the image of a database runs once.
fn first_start(volume: &Document) -> Option<String> {
    const PLACE: &str = "/docker-entrypoint-initdb.d";
    let (source, target) = match volume.get("target") {
        Some(target) => (volume.get("source")?.written()?, target.written()?),
        None => {
            let written = volume.written()?;
            let (source, rest) = written.split_once(':')?;
            (source.to_owned(), rest.to_owned())
        }
    };
    target.starts_with(PLACE).then_some(source)
}
