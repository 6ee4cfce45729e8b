//! `devcontainer.json`: the container in which people's and agents' programs of a workspace run.
//!
//! The file is not trusted: only files below the project's root are read, through a function of the caller, and nothing is
//! executed. All errors are reported at once, with file, line and column. What the file asks of the host is listed, never
//! done.

mod commands;
mod features;
mod jsonc;
mod keys;
mod kind;
mod mounts;
mod ports;
mod published;
mod root;
mod services;
mod source;

#[cfg(test)]
mod tests;

pub use keys::table as key_table;

use crate::compose::ReadFile;
use crate::errors::ConfigErrors;
use holm_core::compose::ComposeFiles;
use holm_core::config::ProjectConfig;
use holm_core::{Code, Fault};
use services::Work;
use source::{Source, Where};
use std::collections::BTreeMap;
use std::fmt;

/// Where tools look for the file. One in a directory below `.devcontainer` is chosen by its path.
pub const PLACES: [&str; 2] = [".devcontainer/devcontainer.json", ".devcontainer.json"];

/// The errors of a file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevContainerErrors(ConfigErrors);

/// The files besides holm.toml that say how workspaces are: the Compose files that it names, or its `devcontainer.json` with
/// the files of features and the Compose files that it names.
pub fn collect(
    config: &ProjectConfig,
    everything: &ComposeFiles,
    read_file: &mut ReadFile<'_>,
) -> ComposeFiles {
    let mut files = ComposeFiles::default();
    let Some(path) = &config.project.devcontainer else {
        return crate::compose::services::collect(config, everything, read_file);
    };
    let Ok(text) = read_file(path) else {
        // The daemon says that it is missing.
        return ComposeFiles {
            root: everything.root.clone(),
            ..files
        };
    };
    files.files.insert(path.clone(), text.clone());
    let mut whole = ComposeFiles {
        files: BTreeMap::new(),
        ..everything.clone()
    };
    if let Ok(node) = jsonc::parse(&text) {
        for place in features::places(path, &node) {
            features::read(&place, &mut files.files, read_file);
        }
        let composed = services::compose_files(path, &node);
        if !composed.is_empty() {
            let mut with_compose = config.clone();
            with_compose.project.compose = composed;
            let found = crate::compose::services::collect(&with_compose, everything, read_file);
            files.files.extend(found.files);
            files.environment.extend(found.environment);
        }
        let mut source = Source::new(path, &text, &whole);
        let mut node = node;
        source.fill_all(&mut node, Where::Inside);
        let used = source.requests.iter();
        let used = used.filter_map(|request| {
            request
                .key
                .strip_prefix(crate::compose::services::ENVIRONMENT)
        });
        let used: Vec<String> = used.map(str::to_owned).collect();
        whole.environment.retain(|name, _| used.contains(name));
        files.environment.extend(whole.environment);
    }
    ComposeFiles {
        root: everything.root.clone(),
        home: everything.home.clone(),
        ..files
    }
}

/// Adds the container that the configuration names: a service with its image, volumes and ports.
pub fn add(config: &mut ProjectConfig, files: &ComposeFiles) -> Result<(), Fault> {
    let Some(path) = config.project.devcontainer.clone() else {
        return crate::compose::services::add(config, files);
    };
    let Some(text) = files.files.get(&path) else {
        return Err(missing(&path));
    };
    if !config.project.compose.is_empty() {
        let message = "holm.toml has both `compose` and `devcontainer`";
        let hint = format!("name the Compose files in `dockerComposeFile` of {path} only");
        return Err(Fault::new(Code::InvalidConfig, message, hint));
    }
    let node = match jsonc::parse(text) {
        Ok(node) => node,
        Err((range, what)) => {
            let mut findings = crate::errors::Findings::default();
            findings.add(range, what);
            return findings
                .into_result((), text, &path)
                .map_err(|errors| DevContainerErrors(errors).into());
        }
    };
    Work::new(config, Source::new(&path, text, files)).add(node)
}

fn missing(path: &str) -> Fault {
    let message = format!("holm.toml names {path}, which the commit does not have");
    let hint = format!("commit {path}, or correct `devcontainer` in [project] of holm.toml");
    Fault::new(Code::InvalidConfig, message, hint)
}

/// `path` from the directory of a file below the root, without `.` and `..`; `None` if it leaves the root.
fn beside(file: &str, path: &str) -> Option<String> {
    let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
    holm_core::image_build::below(directory, path)
}

/// Reads a text file, or none.
fn text_of(read_file: &mut ReadFile<'_>, path: &str) -> Option<String> {
    read_file(path).ok()
}

impl fmt::Display for DevContainerErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for DevContainerErrors {}

impl From<DevContainerErrors> for Fault {
    fn from(errors: DevContainerErrors) -> Fault {
        let hint = "correct the file and try again; docs/devcontainers.md lists what holm does with each key";
        Fault::new(Code::InvalidConfig, errors.to_string(), hint)
    }
}
