//! What `holm init` proposes for real-world projects: files in, a summary out.
//!
//! Every row is written to a real directory, read like the command does, and its text is parsed
//! again; the summary is made from the parsed result.

mod attacks;
mod compose;
mod frameworks;
mod shapes;

use super::{add_composition, look};
use crate::compose::{Unread, services::collect};
use crate::project;
use holm_core::compose::ComposeFiles;
use holm_core::config::{Probe, ProjectConfig};
use holm_core::detect::{self, Proposal};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

/// A checkout with these files; a name that ends with `/` is a directory.
fn checkout(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

fn proposed(at: &Path) -> (Proposal, ProjectConfig) {
    proposed_in(at, "")
}

/// As if the command was typed in the directory `current`.
fn proposed_in(at: &Path, current: &str) -> (Proposal, ProjectConfig) {
    let mut found = look(at).unwrap();
    found.current = current.to_owned();
    // In place of git, which the command asks.
    found.ignored = vec![".env".to_owned()];
    found.ignored.retain(|name| found.listing.contains(name));
    let variables = BTreeMap::from([("USER_TOKEN".to_owned(), "of-the-user".to_owned())]);
    add_composition(at, &mut found, &variables).unwrap();
    let proposal = detect::propose(&found);
    let text = proposal.to_toml();
    assert!(!text.contains("of-the-user"), "{text}");
    let config = project::parse(&text, "holm.toml")
        .unwrap_or_else(|errors| panic!("{errors}\n--- in\n{text}"));
    if !config.project.compose.is_empty() {
        whole(at, &text, &config, variables);
    }
    (proposal, config)
}

/// `holm up` takes the file together with the Compose file that it names.
fn whole(at: &Path, text: &str, config: &ProjectConfig, environment: BTreeMap<String, String>) {
    let everything = ComposeFiles {
        root: at.display().to_string(),
        environment,
        ..ComposeFiles::default()
    };
    let is_in_commit = |path: &str| path != ".env" || config.project.include.len() == 1;
    let files = collect(config, &everything, &mut |path| {
        let text = std::fs::read_to_string(at.join(path)).ok();
        text.filter(|_| is_in_commit(path)).ok_or(Unread::Missing)
    });
    project::parse_with(text, "holm.toml", &files)
        .unwrap_or_else(|errors| panic!("{errors}\n--- in\n{text}"));
}

/// One line per setting in force, then suggestions and remarks.
fn summary(at: &Path) -> Vec<String> {
    let (proposal, config) = proposed(at);
    let mut lines = Vec::new();
    for sign in &proposal.looks_like {
        lines.push(format!("looks like {}: {}", sign.kind, sign.file));
    }
    lines.extend(config.project.setup.iter().map(|it| format!("setup {it}")));
    if let Some(compose) = &proposal.compose {
        lines.extend(compose.requests.iter().map(|it| format!("asks {it}")));
        lines.extend(compose.errors.iter().map(|it| format!("refused {it}")));
        if compose.errors.is_empty() {
            lines.push(format!(
                "compose {} runs {}",
                compose.file,
                compose.services.join(" ")
            ));
        }
    }
    if let Some(inputs) = &config.project.setup_inputs {
        let inputs: Vec<String> = inputs.iter().map(ToString::to_string).collect();
        lines.push(format!("inputs {}", inputs.join(" ")));
    }
    // In file order.
    for service in &proposal.services {
        let name = holm_core::config::Name::parse(&service.name).unwrap();
        let parsed = &config.services[&name];
        let mut line = format!("service {name}");
        if let Some(port) = config.ports.get(&name) {
            line += &format!(":{}", port.port);
        }
        line += &match parsed.run.lines().count() {
            1 => format!(" = {}", parsed.run),
            _ => format!(
                " = … {}",
                parsed.run.trim_end().lines().last().unwrap().trim()
            ),
        };
        for (variable, value) in &parsed.env {
            line += &format!(" {variable}={value}");
        }
        if !parsed.depends_on.is_empty() {
            let others: Vec<&str> = parsed.depends_on.iter().map(|it| it.as_str()).collect();
            line += &format!(" after {}", others.join(" "));
        }
        if let Some(Probe::Log { .. }) = parsed.ready.as_ref().map(|ready| &ready.probe) {
            line += " ready by its log";
        }
        lines.push(line);
    }
    assert_eq!(config.services.len(), proposal.services.len());
    lines.extend(config.volumes.keys().map(|name| format!("volume {name}")));
    for it in &proposal.suggestions {
        let run = if it.run.is_empty() { "?" } else { &it.run };
        let last = run.trim_end().lines().last().unwrap_or_default().trim();
        let port = it.port.as_ref().map(|(port, _)| format!(":{port}"));
        let port = port.unwrap_or_default();
        lines.push(format!("maybe {}{port} = {last}", it.name));
    }
    lines.extend(
        proposal
            .include
            .iter()
            .map(|path| format!("maybe include {path}")),
    );
    lines.extend(
        proposal
            .remarks
            .iter()
            .map(|remark| format!("note {remark}")),
    );
    lines
}

#[track_caller]
fn check(files: &[(&str, &str)], expect: &[&str]) {
    let directory = checkout(files);
    let found = summary(directory.path());
    assert_eq!(found, expect, "{}", found.join("\n"));
}
