//! The Compose files that a `holm.toml` names: which files they are, and their services in the project's
//! configuration.

use super::tree::{self, Node};
use super::{ComposeErrors, Input, ReadFile, Unread, read};
use crate::errors::locate;
use holm_core::compose::{ComposeFiles, Reading, Remark};
use holm_core::compose_services::{Translated, translate};
use holm_core::config::{Name, ProjectConfig, Service};
use holm_core::container::Source;
use holm_core::first_start;
use holm_core::image_build::ImageBuild;
use holm_core::{Code, Fault};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Files that Compose finds by itself, each with the one that overrides it.
const DEFAULT: [(&str, &str); 4] = [
    ("compose.yaml", "compose.override.yaml"),
    ("compose.yml", "compose.override.yml"),
    ("docker-compose.yaml", "docker-compose.override.yaml"),
    ("docker-compose.yml", "docker-compose.override.yml"),
];

/// The variable with the active profiles, as Compose has it.
const PROFILES: &str = "COMPOSE_PROFILES";

/// Where the key of a request begins that is about a variable of the user.
pub const ENVIRONMENT: &str = "environment.";

/// Reads the files that the configuration names, and those that they name. `everything` has the user's whole environment;
/// the result has what the files name. Errors come from [`add`], which reads them again.
pub fn collect(
    config: &ProjectConfig,
    everything: &ComposeFiles,
    read_file: &mut ReadFile<'_>,
) -> ComposeFiles {
    if config.project.compose.is_empty() {
        return ComposeFiles::default();
    }
    let mut files = BTreeMap::new();
    let mut recorded = |path: &str| {
        let text = read_file(path)?;
        files.insert(path.to_owned(), text.clone());
        Ok(text)
    };
    let names = names(&config.project.compose, |path| recorded(path).is_ok());
    let reading = read_all(&names, everything, &mut recorded);
    let used = reading.iter().flat_map(|reading| &reading.requests);
    let used: BTreeSet<&str> = used
        .filter_map(|request| request.key.strip_prefix(ENVIRONMENT))
        .chain([PROFILES])
        .collect();
    let mut environment = everything.environment.clone();
    environment.retain(|name, _| used.contains(name.as_str()));
    ComposeFiles {
        files,
        environment,
        ..everything.clone()
    }
}

/// Adds the services, ports and volumes of the Compose files that the configuration names. What `holm.toml` says of one
/// with the same name is added to it.
pub fn add(config: &mut ProjectConfig, files: &ComposeFiles) -> Result<(), Fault> {
    if config.project.compose.is_empty() {
        return Ok(());
    }
    let names = names(&config.project.compose, |path| {
        files.files.contains_key(path)
    });
    let found = read_all(&names, files, &mut |path| {
        files.files.get(path).cloned().ok_or(Unread::Missing)
    });
    let reading = found?;
    let places = Places::new(&names, &files.files);
    let translated = translate(&reading.stack).map_err(|errors| wrong(&places.lines(errors)))?;
    let mut errors = Vec::new();
    let mut services = translated.services;
    for (name, from_toml) in std::mem::take(&mut config.services) {
        let changes_build = from_toml
            .image
            .as_ref()
            .is_some_and(|it| it.build.is_some());
        let is_own = from_toml.image.is_some() || !from_toml.run.is_empty();
        if is_own && !(changes_build && services.contains_key(&name)) {
            if services.insert(name.clone(), from_toml).is_some() {
                errors.push(format!("`services.{name}` is in holm.toml and in the file"));
            }
            continue;
        }
        let Some(service) = services.get_mut(&name) else {
            let known = services.keys().map(Name::as_str).collect::<Vec<_>>();
            let advice = crate::shape::did_you_mean(name.as_str(), &known);
            errors.push(format!(
                "holm.toml has `services.{name}`, which the file has not{advice}"
            ));
            continue;
        };
        if let Some(build) = from_toml.image.and_then(|image| image.build) {
            errors.extend(change_build(&name, service, build));
        }
        service.on_assign = from_toml.on_assign;
        service.build = from_toml.build;
        service.rebuild_when = from_toml.rebuild_when;
        service.env = from_toml.env;
        service.depends_on.extend(from_toml.depends_on);
        service.ready = from_toml.ready.or_else(|| service.ready.take());
    }
    for service in services.values() {
        let unknown = service.depends_on.iter();
        for other in unknown.filter(|other| !services.contains_key(*other)) {
            errors.push(format!("there is no service `{other}`"));
        }
    }
    if !errors.is_empty() {
        let file = names.first().map_or("", String::as_str);
        let lines = errors.iter().map(|error| format!("{file}: {error}"));
        return Err(wrong(&lines.collect::<Vec<_>>()));
    }
    services
        .values_mut()
        .for_each(|service| resolve_mounts(files, service));
    config.services = services;
    for (name, port) in translated.ports {
        config.ports.entry(name).or_insert(port);
    }
    for (name, volume) in translated.volumes {
        config.volumes.entry(name).or_insert(volume);
    }
    first_start::plan(config).map_err(|error| wrong(&[format!("holm.toml: {error}")]))?;
    config.compose.files = files.files.keys().cloned().collect();
    config.compose.warnings = reading.warnings;
    let warnings = translated.warnings.into_iter();
    config
        .compose
        .warnings
        .extend(warnings.map(|words| places.find(words)));
    config.compose.requests = reading.requests;
    leave_out_requests_of_builds(config);
    Ok(())
}

/// Adds what `holm.toml` says of a build of the file; an error if there is none.
fn change_build(name: &Name, service: &mut Service, by: ImageBuild) -> Option<String> {
    match service
        .image
        .as_mut()
        .and_then(|image| image.build.as_mut())
    {
        Some(known) => {
            known.change(by);
            None
        }
        None => Some(format!(
            "holm.toml has `services.{name}.build`, and the file builds no image for it"
        )),
    }
}

/// What an image is built from is asked for as a whole.
fn leave_out_requests_of_builds(config: &mut ProjectConfig) {
    for service in config.services.values() {
        let Some(image) = service.image.as_ref().filter(|image| image.build.is_some()) else {
            continue;
        };
        let name = image.container.as_ref().map_or("", |it| it.name.as_str());
        let own = ["", ".network"].map(|part| format!("services.{name}.build{part}"));
        let requests = &mut config.compose.requests;
        requests.retain(|request| !own.contains(&request.key));
    }
}

/// Makes paths of the host absolute.
fn resolve_mounts(files: &ComposeFiles, service: &mut Service) {
    let image = service.image.as_mut();
    let container = image.and_then(|image| image.container.as_mut());
    for mount in container.into_iter().flat_map(|it| &mut it.mounts) {
        if let Source::Host(path) = &mut mount.source {
            *path = on_host(files, path);
        }
    }
}

/// What a workspace would get of the file, without a `holm.toml`, or everything that is wrong, each with its place.
pub fn preview(
    file: &str,
    caller: &ComposeFiles,
    read_file: &mut ReadFile<'_>,
) -> Result<(Reading, Translated), Vec<String>> {
    let mut texts = BTreeMap::new();
    let mut recorded = |path: &str| {
        let text = read_file(path)?;
        texts.insert(path.to_owned(), text.clone());
        Ok(text)
    };
    let names = names(&[file.to_owned()], |path| recorded(path).is_ok());
    let reading = read_all(&names, caller, &mut recorded).map_err(|errors| errors.lines())?;
    match translate(&reading.stack) {
        Ok(translated) => Ok((reading, translated)),
        Err(errors) => Err(Places::new(&names, &texts).lines(errors)),
    }
}

/// The absolute path on the host.
fn on_host(files: &ComposeFiles, path: &Path) -> PathBuf {
    let path = match path.strip_prefix("~") {
        Ok(rest) => Path::new(&files.home).join(rest),
        Err(_) => Path::new(&files.root).join(path),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

fn read_all(
    names: &[String],
    files: &ComposeFiles,
    read_file: &mut ReadFile<'_>,
) -> Result<Reading, ComposeErrors> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let profiles = files.environment.get(PROFILES).map_or("", String::as_str);
    let profiles: Vec<&str> = profiles
        .split(',')
        .filter(|name| !name.is_empty())
        .collect();
    let input = Input {
        root: &files.root,
        files: &names,
        environment: &files.environment,
        profiles: &profiles,
    };
    read(&input, read_file)
}

/// The files of the configuration. A single one with a name that Compose finds by itself has its override beside it.
fn names(written: &[String], mut exists: impl FnMut(&str) -> bool) -> Vec<String> {
    let mut names = written.to_vec();
    if let [only] = written {
        let (directory, file) = only.rsplit_once('/').map_or(("", only.as_str()), |it| it);
        if let Some((_, beside)) = DEFAULT.iter().find(|(name, _)| *name == file) {
            let path = match directory {
                "" => (*beside).to_owned(),
                directory => format!("{directory}/{beside}"),
            };
            if exists(&path) {
                names.push(path);
            }
        }
    }
    names
}

fn wrong(lines: &[String]) -> Fault {
    let hint = "correct the file and try again; docs/compose.md lists what holm does with each key";
    Fault::new(Code::InvalidConfig, lines.join("\n"), hint)
}

/// Where the files have what a sentence about the stack means.
struct Places<'a> {
    /// The one that the others override.
    main: &'a str,
    /// Name, text and content; stronger files come first.
    files: Vec<(&'a str, &'a str, Node)>,
}

// === impl Places ===

impl<'a> Places<'a> {
    fn new(names: &'a [String], texts: &'a BTreeMap<String, String>) -> Self {
        let others = texts.keys().filter(|name| !names.contains(name));
        let files = names.iter().rev().chain(others).filter_map(|name| {
            let text = texts.get(name)?;
            Some((name.as_str(), text.as_str(), tree::parse(text, 0).ok()?))
        });
        Self {
            main: names.first().map_or("", String::as_str),
            files: files.collect(),
        }
    }

    /// The place of the key that a sentence begins with: `services.web.ports`, else `services.web`, else the file.
    fn find(&self, words: String) -> Remark {
        let key = words.split('`').nth(1).unwrap_or_default();
        let key = key.strip_prefix("services.").unwrap_or_default();
        let services = self.files.iter().flat_map(|(name, text, node)| {
            let entries = node.entries_of("services").iter();
            entries.map(move |entry| (*name, *text, entry))
        });
        let places = services.filter_map(|(name, text, service)| {
            let rest = key.strip_prefix(service.key.as_str())?;
            let part = rest
                .strip_prefix('.')
                .and_then(|part| part.split('.').next());
            let mut inner = service.node.entries().iter();
            let inner = inner.find(|entry| Some(entry.key.as_str()) == part);
            let is_meant = rest.is_empty() || part.is_some();
            is_meant.then(|| (name, text, inner.map(|it| it.key_at), service.key_at))
        });
        let places: Vec<_> = places.collect();
        let exact = places.iter().find(|(.., inner, _)| inner.is_some());
        let place = exact
            .or(places.first())
            .map(|(name, text, inner, service)| {
                let at = inner.unwrap_or(*service);
                let at = locate(text, &(at.start..at.end), "");
                (*name, at.line, at.column)
            });
        let (file, line, column) = place.unwrap_or((self.main, 1, 1));
        Remark {
            file: file.to_owned(),
            line,
            column,
            words,
        }
    }

    fn lines(&self, sentences: Vec<String>) -> Vec<String> {
        let places = sentences.into_iter().map(|words| self.find(words));
        places
            .map(|at| format!("{}:{}:{}: {}", at.file, at.line, at.column, at.words))
            .collect()
    }
}
