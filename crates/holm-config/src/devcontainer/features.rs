//! Features: directories of the repository with a script that a build runs. Their order, their options, and what they add
//! to the container.

use super::source::{Source, Where};
use super::{beside, commands, jsonc, mounts, text_of};
use crate::compose::ReadFile;
use crate::compose::tree::{Location, Node, Value};
use crate::digest::digest_of;
use crate::errors::locate;
use crate::shape::{did_you_mean, short};
use holm_core::config::Image;
use holm_core::container::Mount;
use holm_core::dev_container::LifecycleCommand;
use holm_core::image_build::{Dockerfile, FeatureFiles, ImageBuild};
use holm_core::image_reference::ImageReference;
use holm_core::shell::quoted;
use std::collections::BTreeMap;

const METADATA: &str = "devcontainer-feature.json";
const SCRIPT: &str = "install.sh";

/// More are a mistake or an attack.
const MOST: usize = 64;

/// What all features together add.
#[derive(Default)]
pub struct Added {
    pub files: Option<FeatureFiles>,
    pub commands: Vec<LifecycleCommand>,
    pub mounts: Vec<Mount>,
}

/// The users that install scripts hear of.
pub struct Users<'a> {
    pub container: Option<&'a str>,
    pub remote: Option<&'a str>,
}

struct Feature {
    /// As the file names it.
    name: String,
    /// Below the project's root.
    directory: String,
    at: Location,
    metadata: Node,
    options: BTreeMap<String, String>,
    /// Of the script.
    digest: String,
    depends_on: Vec<String>,
}

/// The directories of the features that a file names, as far as they are in the repository.
pub fn places(file: &str, node: &Node) -> Vec<String> {
    let named = node.entries_of("features").iter();
    let local = named.filter(|entry| is_local(&entry.key));
    local.filter_map(|entry| beside(file, &entry.key)).collect()
}

/// Reads the files that decide what a feature does, and those of the features that it depends on.
pub fn read(directory: &str, files: &mut BTreeMap<String, String>, read_file: &mut ReadFile<'_>) {
    let mut waiting = vec![directory.to_owned()];
    let mut count = 0;
    while let Some(directory) = waiting.pop() {
        let metadata = format!("{directory}/{METADATA}");
        count += 1;
        if files.contains_key(&metadata) || count > MOST {
            continue;
        }
        // What is missing is told when the file is read for its own sake.
        if let Some(text) = text_of(read_file, &format!("{directory}/{SCRIPT}")) {
            files.insert(format!("{directory}/{SCRIPT}"), text);
        }
        let Some(text) = text_of(read_file, &metadata) else {
            continue;
        };
        if let Ok(node) = jsonc::parse(&text) {
            let needed = node.entries_of("dependsOn").iter();
            let needed = needed.filter(|entry| is_local(&entry.key));
            waiting.extend(needed.filter_map(|entry| beside(&metadata, &entry.key)));
        }
        files.insert(metadata, text);
    }
}

/// A Dockerfile that adds nothing to an image.
pub fn from(reference: &ImageReference) -> Dockerfile {
    Dockerfile::Inline(format!("FROM {reference}\n"))
}

/// Has the image built with features.
pub fn install(image: &mut Image, mut files: FeatureFiles, user: Option<&str>) {
    let first = files.directories.first().cloned().unwrap_or_default();
    let mut build = match image.build.take() {
        Some(build) => build,
        None => ImageBuild {
            // The build sees the features beside; of the tree it needs nothing else.
            context: first.clone(),
            dockerfile: from(&image.reference),
            args: BTreeMap::new(),
            target: None,
            network: false,
            digest: None,
            features: None,
        },
    };
    if let Dockerfile::Inline(_) = &build.dockerfile {
        build.context = first;
    }
    if let Some(target) = build.target.take() {
        files.instructions = format!("FROM {target}\n{}", files.instructions);
    }
    files.user = user.map(str::to_owned);
    build.features = Some(files);
    if let Some(unbuilt) = ImageReference::unbuilt() {
        image.reference = unbuilt;
    }
    image.build = Some(build);
}

fn is_local(name: &str) -> bool {
    name.starts_with("./") || name.starts_with("../")
}

/// What the features of a file add; errors are at their places in it.
pub fn resolve(source: &mut Source<'_>, node: &Node, users: &Users<'_>) -> Added {
    let mut found: Vec<Feature> = Vec::new();
    for entry in node.entries_of("features") {
        find(
            source,
            &mut found,
            source.name.to_owned().as_str(),
            &entry.key,
            &entry.node,
            entry.key_at,
        );
    }
    if source.has_errors() || found.is_empty() {
        return Added::default();
    }
    let wanted = node.items_of("overrideFeatureInstallOrder").iter();
    let wanted: Vec<String> = wanted.filter_map(Node::written).collect();
    let Some(ordered) = in_order(source, found, &wanted) else {
        return Added::default();
    };
    let mut added = Added::default();
    for feature in &ordered {
        add(source, feature, &mut added);
    }
    added.files = Some(FeatureFiles {
        directories: ordered.iter().map(|it| it.directory.clone()).collect(),
        instructions: instructions(&ordered, users),
        user: None,
    });
    added
}

/// Finds a feature and those that it depends on.
fn find(
    source: &mut Source<'_>,
    found: &mut Vec<Feature>,
    file: &str,
    name: &str,
    options: &Node,
    at: Location,
) -> Option<String> {
    let shown = short(name);
    if !is_local(name) {
        let what = format!(
            "the feature `{shown}` is not in the repository: copy its directory beside this file, and name it `./NAME`"
        );
        source.error(at, what);
        return None;
    }
    let Some(directory) = beside(file, name).filter(|it| !it.is_empty()) else {
        source.error(
            at,
            format!("the feature `{shown}` is outside of the project's root"),
        );
        return None;
    };
    if found.iter().any(|it| it.directory == directory) {
        return Some(directory);
    }
    if found.len() >= MOST {
        source.error(at, format!("there are more than {MOST} features"));
        return None;
    }
    let path = format!("{directory}/{METADATA}");
    let Some(text) = source.files.files.get(&path) else {
        source.error(
            at,
            format!("the feature `{shown}` has no file {}", short(&path)),
        );
        return None;
    };
    let metadata = match jsonc::parse(text) {
        Ok(node) => node,
        Err((range, what)) => {
            let place = locate(text, &range, "");
            let (line, column) = (place.line, place.column);
            source.error(at, format!("{}:{line}:{column}: {what}", short(&path)));
            return None;
        }
    };
    let Some(script) = source.files.files.get(&format!("{directory}/{SCRIPT}")) else {
        source.error(at, format!("the feature `{shown}` has no {SCRIPT}"));
        return None;
    };
    let digest = digest_of(script);
    let options = chosen(source, &metadata, options, name, at);
    let place = found.len();
    found.push(Feature {
        name: name.to_owned(),
        directory: directory.clone(),
        at,
        options,
        digest,
        depends_on: Vec::new(),
        metadata: metadata.clone(),
    });
    for entry in metadata.entries_of("dependsOn") {
        let needed = find(source, found, &path, &entry.key, &entry.node, at);
        found[place].depends_on.extend(needed);
    }
    Some(directory)
}

/// The variables of the script: the defaults of the feature, with what the file sets.
fn chosen(
    source: &mut Source<'_>,
    metadata: &Node,
    written: &Node,
    name: &str,
    at: Location,
) -> BTreeMap<String, String> {
    let declared = metadata.entries_of("options");
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    for option in declared {
        let default = option.node.word("default").unwrap_or_default();
        values.insert(&option.key, default);
    }
    match &written.value {
        Value::Table(entries) => {
            for entry in entries {
                let Some(option) = declared.iter().find(|it| it.key == entry.key) else {
                    let known: Vec<&str> = declared.iter().map(|it| it.key.as_str()).collect();
                    let advice = did_you_mean(&entry.key, &known);
                    let words = format!(
                        "the feature `{}` has no option `{}`{advice}",
                        short(name),
                        short(&entry.key)
                    );
                    source.warn(at, words);
                    continue;
                };
                let value = entry.node.written().unwrap_or_default();
                let allowed: Vec<String> = option
                    .node
                    .items_of("enum")
                    .iter()
                    .filter_map(Node::written)
                    .collect();
                if !allowed.is_empty() && !allowed.contains(&value) {
                    let what = format!(
                        "the option `{}` of the feature `{}` must be one of `{}`",
                        short(&entry.key),
                        short(name),
                        short(&allowed.join("`, `"))
                    );
                    source.error(at, what);
                }
                values.insert(&option.key, value);
            }
        }
        Value::Text(version) => drop(values.insert("version", version.clone())),
        _ => {}
    }
    let values = values.into_iter();
    values
        .map(|(option, value)| (variable(option), value))
        .collect()
}

/// As the specification makes a variable of an option.
fn variable(option: &str) -> String {
    let plain: String = option
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let rest = plain.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let prefix = if rest.len() < plain.len() { "_" } else { "" };
    format!("{prefix}{rest}").to_ascii_uppercase()
}

/// The order of installation: what a feature depends on comes first, then what it wants to come after, then the order that
/// the file asks for.
fn in_order(
    source: &mut Source<'_>,
    found: Vec<Feature>,
    wanted: &[String],
) -> Option<Vec<Feature>> {
    let mut left = found;
    let mut ordered: Vec<Feature> = Vec::new();
    while !left.is_empty() {
        let is_ready = |feature: &Feature| {
            let waits = feature.metadata.items_of("installsAfter").iter();
            let mut waits = waits.filter_map(Node::written);
            let needs = &feature.depends_on;
            let has = |directory: &String| ordered.iter().any(|it| it.directory == *directory);
            needs.iter().all(has)
                && !waits.any(|name| {
                    left.iter()
                        .any(|it| it.directory != feature.directory && it.is_called(&name))
                })
        };
        let rank = |feature: &Feature| {
            let place = wanted.iter().position(|name| feature.is_called(name));
            place.unwrap_or(wanted.len())
        };
        let ready = left.iter().enumerate().filter(|(_, it)| is_ready(it));
        let Some((next, _)) = ready.min_by_key(|(place, it)| (rank(it), *place)) else {
            let names: Vec<String> = left.iter().map(|it| short(&it.name)).collect();
            let what = format!("the features `{}` wait for each other", names.join("`, `"));
            source.error(left[0].at, what);
            return None;
        };
        ordered.push(left.remove(next));
    }
    Some(ordered)
}

/// What a feature adds to the container besides its files.
fn add(source: &mut Source<'_>, feature: &Feature, added: &mut Added) {
    let mut metadata = feature.metadata.clone();
    // The places of another file mean nothing in this one.
    move_to(&mut metadata, feature.at);
    source.fill_all(&mut metadata, Where::Inside);
    let name = short(&feature.name);
    for key in ["privileged", "capAdd", "securityOpt"] {
        let is_asked = metadata.get(key).is_some_and(|node| match &node.value {
            Value::Flag(flag) => *flag,
            _ => !node.items().is_empty(),
        });
        if is_asked {
            let words = format!("of the feature `{name}` weakens the isolation");
            source.ask_for(
                feature.at,
                &format!("features.{key}"),
                &words,
                feature.name.clone(),
            );
        }
    }
    if metadata.get("entrypoint").is_some() {
        let words = format!(
            "`entrypoint` of the feature `{name}` has no effect: holm starts the container"
        );
        source.warn(feature.at, words);
    }
    for node in metadata.items_of("mounts") {
        added
            .mounts
            .extend(mounts::mount(source, "features.mounts", node));
    }
    added.commands.extend(commands::of_stages(&metadata));
}

fn move_to(node: &mut Node, at: Location) {
    node.at = at;
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| move_to(item, at)),
        Value::Table(entries) => {
            for entry in entries {
                entry.key_at = at;
                move_to(&mut entry.node, at);
            }
        }
        _ => {}
    }
}

/// The end of the Dockerfile.
fn instructions(features: &[Feature], users: &Users<'_>) -> String {
    let mut text = String::from("USER root\n");
    let user = users.remote.or(users.container).unwrap_or("root");
    let container = users.container.unwrap_or("root");
    let home = |user: &str| format!("\"$(getent passwd {} | cut -d: -f6)\"", quoted(user));
    for (number, feature) in features.iter().enumerate() {
        let place = format!("{}/{number}", FeatureFiles::INSIDE);
        // Another content of the script is another request.
        text.push_str(&format!("# {SCRIPT} {}\n", feature.digest));
        text.push_str(&format!(
            "COPY {}/{number} {place}\n",
            FeatureFiles::DIRECTORY
        ));
        for entry in feature.metadata.entries_of("containerEnv") {
            let value = entry.node.written().unwrap_or_default();
            if is_variable(&entry.key) && !value.contains(['\n', '\r']) {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                text.push_str(&format!("ENV {}=\"{value}\"\n", entry.key));
            }
        }
        let options = feature.options.iter();
        let options: String = options
            .filter(|(_, value)| !value.contains(['\n', '\r']))
            .map(|(name, value)| format!(" {name}={}", quoted(value)))
            .collect();
        text.push_str(&format!(
            "RUN cd {place} && chmod +x {SCRIPT} && _REMOTE_USER={} _REMOTE_USER_HOME={} _CONTAINER_USER={} _CONTAINER_USER_HOME={}{options} ./{SCRIPT}\n",
            quoted(user),
            home(user),
            quoted(container),
            home(container),
        ));
    }
    text
}

fn is_variable(name: &str) -> bool {
    holm_core::config::Variable::parse(name).is_ok()
}

// === impl Feature ===

impl Feature {
    /// Whether another feature, or the file, means this one.
    fn is_called(&self, name: &str) -> bool {
        let own = self.metadata.word("id");
        let bare = name.rsplit('/').next().unwrap_or(name);
        let bare = bare.split([':', '@']).next().unwrap_or(bare);
        self.name == name || own.is_some_and(|own| own == bare)
    }
}
