//! Writes a proposal as the text of a `holm.toml`, with comments that say where each line comes
//! from.
//!
//! Text from the repository is hostile: every text is quoted and every comment stays on its line,
//! so no text can add a line of its own.

use super::devcontainer::used;
use super::proposal::{Composed, Contained, Proposal, Service};

/// The column of comments after short lines.
const COMMENT_COLUMN: usize = 36;

/// Longer comments are truncated.
const LONGEST_COMMENT: usize = 140;
/// What a person has to read as a whole.
const LONGEST_SENTENCE: usize = 400;

const HEAD: &str = "\
# Written by `holm init`. Commit it: a workspace uses its commit's holm.toml.
# `holm schema` lists all settings; `holm up` works without the file, too.
";

const NOTHING: &str = "
# Nothing was found that sets the project up or that keeps running. For example:
#
# [project]
# setup = [\"make deps\"]
#
# [ports]
# web = 3000
#
# [services.web]
# run = \"./serve\"
# ready = { tcp = \"web\" }
";

// === impl Proposal ===

impl Proposal {
    pub fn to_toml(&self) -> String {
        toml(self)
    }
}

fn toml(proposal: &Proposal) -> String {
    let mut lines = Vec::new();
    if !proposal.remarks.is_empty() {
        lines.push(String::new());
        lines.push("# Seen, and not written:".to_owned());
        lines.extend(
            proposal
                .remarks
                .iter()
                .map(|remark| comment(&format!("- {remark}"))),
        );
    }
    project(proposal, &mut lines);
    let ports = proposal.services.iter().filter_map(|it| {
        let (number, reason) = it.port.as_ref()?;
        Some(beside(&port(it, *number), reason))
    });
    let ports: Vec<String> = ports.collect();
    if !ports.is_empty() {
        lines.extend([String::new(), "[ports]".to_owned()]);
        lines.extend(ports);
    }
    for it in &proposal.services {
        lines.push(String::new());
        service(it, &mut lines);
    }
    for Service { name, .. } in proposal.services.iter().filter(|it| it.is_database) {
        let policy = beside("policy = \"isolated\"", "begins empty in every workspace");
        let path = line(&format!("~/{name}"));
        lines.push(format!("\n[volumes.{name}]\npath = {path}\n{policy}"));
    }
    for (name, reason) in proposal.compose.iter().flat_map(|it| &it.downloads) {
        let build = beside("build = { network = \"default\" }", reason);
        lines.push(format!("\n[services.{name}]\n{build}"));
    }
    for (name, service) in proposal.compose.iter().flat_map(|it| &it.forked) {
        let reason =
            format!("the first start of {service} makes the data, each workspace gets a copy");
        let policy = beside("policy = \"fork\"", &reason);
        lines.push(format!("\n[volumes.{name}]\n{policy}"));
    }
    for it in &proposal.suggestions {
        lines.push(String::new());
        suggestion(it, &mut lines);
    }
    let mut written = HEAD.to_owned();
    for line in lines {
        written.push_str(&line);
        written.push('\n');
    }
    if proposal.is_empty() {
        written.push_str(NOTHING);
    }
    written
}

fn project(proposal: &Proposal, lines: &mut Vec<String>) {
    let has_settings = !proposal.setup.is_empty() || !proposal.include.is_empty();
    if !has_settings && proposal.compose.is_none() && proposal.container.is_none() {
        return;
    }
    lines.extend([String::new(), "[project]".to_owned()]);
    let is_contained = used(proposal).is_some_and(|it| !it.compose.is_empty());
    if let Some(composed) = proposal.compose.as_ref().filter(|_| !is_contained) {
        compose(composed, lines);
    }
    if let Some(contained) = &proposal.container {
        container(contained, lines);
    }
    if !proposal.setup.is_empty() {
        lines.push("setup = [".to_owned());
        for step in &proposal.setup {
            let command = format!("    {},", text(&step.command));
            lines.push(beside(&command, &step.reason));
        }
        lines.push("]".to_owned());
    }
    if !proposal.setup_inputs.is_empty() {
        lines.push(format!("setup_inputs = {}", list(&proposal.setup_inputs)));
    }
    if !proposal.include.is_empty() {
        let include = format!("# include = {}", list(&proposal.include));
        lines.push(beside(
            &include,
            "git ignores it; to bring it needs `holm trust`",
        ));
    }
}

/// The Dev Container, below what it needs.
fn container(contained: &Contained, lines: &mut Vec<String>) {
    let key = format!("devcontainer = {}", line(&contained.file));
    if !contained.errors.is_empty() {
        let title = format!("holm refuses {} until this is changed:", contained.file);
        listed(title, &contained.errors, lines);
        lines.push(format!("# {key}"));
        return;
    }
    if let Some(file) = &contained.instead {
        let title = format!("In place of {file}, programs can run in a container:");
        lines.push(comment(&title));
        lines.push(format!("# {key}"));
        return;
    }
    let title = "This needs your approval, `holm trust`:".to_owned();
    listed(title, &contained.requests, lines);
    lines.push(beside(&key, "programs run in this container"));
}

fn listed(title: String, sentences: &[String], lines: &mut Vec<String>) {
    if !sentences.is_empty() {
        lines.push(comment(&title));
        let sentences = sentences.iter();
        lines.extend(sentences.map(|it| comment_within(&format!("- {it}"), LONGEST_SENTENCE)));
    }
}

/// The Compose file, below what it needs.
fn compose(composed: &Composed, lines: &mut Vec<String>) {
    let key = format!("compose = {}", line(&composed.file));
    if !composed.errors.is_empty() {
        let title = format!("holm refuses {} until this is changed:", composed.file);
        listed(title, &composed.errors, lines);
        lines.push(format!("# {key}"));
        return;
    }
    let title = "This needs your approval, `holm trust`:".to_owned();
    listed(title, &composed.requests, lines);
    let services = composed.services.join(", ");
    lines.push(beside(&key, &format!("its services: {services}")));
    if !composed.included.is_empty() {
        let include = format!("include = {}", list(&composed.included));
        let reason = format!(
            "{} reads it; git ignores it, so it needs `holm trust`",
            composed.file
        );
        lines.push(beside(&include, &reason));
    }
}

/// The entry in `[ports]`.
fn port(service: &Service, number: u16) -> String {
    let name = &service.name;
    if service.checks_host {
        format!("{name} = {{ port = {number}, host = \"localhost:{number}\" }}")
    } else {
        format!("{name} = {number}")
    }
}

fn service(service: &Service, lines: &mut Vec<String>) {
    lines.extend(service.remarks.iter().map(|remark| comment(remark)));
    let title = format!("[services.{}]", service.name);
    lines.push(beside(&title, &service.reason));
    let ready = match (service.ready_log, &service.port) {
        (Some(words), _) => Some(format!("ready = {{ log = {} }}", line(words))),
        (None, Some(_)) => {
            let timeout = service
                .timeout
                .map(|it| format!(", timeout = {}", line(it)));
            let timeout = timeout.unwrap_or_default();
            Some(format!(
                "ready = {{ tcp = {}{timeout} }}",
                line(&service.name)
            ))
        }
        (None, None) => None,
    };
    settings(service, ready, lines);
    if service.is_database {
        lines.push("on_assign = \"none\"".to_owned());
    }
}

fn suggestion(suggestion: &Service, lines: &mut Vec<String>) {
    let name = &suggestion.name;
    lines.push(comment(&suggestion.reason));
    lines.push(format!("# [services.{name}]"));
    let mut shown = Vec::new();
    settings(suggestion, None, &mut shown);
    // A script of several lines stays valid when the user removes the comment marks.
    lines.extend(shown.iter().flat_map(|setting| setting.lines()).map(hidden));
    if let Some((number, _)) = &suggestion.port {
        lines.push(format!("# and in [ports]: {}", port(suggestion, *number)));
    }
}

/// The settings that services and suggestions have, with `ready` in its place.
fn settings(service: &Service, ready: Option<String>, lines: &mut Vec<String>) {
    lines.push(match service.run.as_str() {
        "" => "run = \"\"                        # what runs here?".to_owned(),
        run => format!("run = {}", text(run)),
    });
    lines.extend(ready);
    if !service.depends_on.is_empty() {
        lines.push(format!("depends_on = {}", list(&service.depends_on)));
    }
    if !service.env.is_empty() {
        lines.push(format!("env = {}", table(&service.env)));
    }
}

fn hidden(line: &str) -> String {
    match line {
        "" => "#".to_owned(),
        line => format!("# {line}"),
    }
}

/// A line with a comment after it.
fn beside(written: &str, reason: &str) -> String {
    let comment = comment(reason);
    let gap = if written.len() < COMMENT_COLUMN {
        ""
    } else {
        "  "
    };
    if comment.is_empty() {
        written.to_owned()
    } else {
        format!("{written:<COMMENT_COLUMN$}{gap}{comment}")
    }
}

fn comment(text: &str) -> String {
    comment_within(text, LONGEST_COMMENT)
}

/// A comment on one line, whatever the text contains.
fn comment_within(text: &str, longest: usize) -> String {
    let mut safe = String::from("# ");
    for character in text.trim().chars().take(longest) {
        if steers(character) {
            safe.extend(character.escape_default())
        } else {
            safe.push(character)
        }
    }
    if text.trim().chars().count() > longest {
        safe.push('…');
    }
    if text.trim().is_empty() {
        String::new()
    } else {
        safe
    }
}

/// Whether a character ends a line, controls a terminal, or changes the reading order.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A command: several lines as a multi-line string, everything else on one line.
fn text(value: &str) -> String {
    let body = value.trim_end_matches('\n');
    let is_script = body.contains('\n')
        && !body.contains("'''")
        && !body.chars().any(|c| steers(c) && c != '\n');
    if is_script {
        format!("'''\n{body}\n'''")
    } else {
        line(body)
    }
}

/// A TOML text on one line.
fn line(value: &str) -> String {
    let mut quoted = String::from("\"");
    for character in value.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            other if steers(other) => quoted.push_str(&format!("\\u{:04X}", u32::from(other))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| line(item)).collect();
    format!("[{}]", items.join(", "))
}

/// On one line, as an inline table requires; keys are names of variables.
fn table(entries: &[(String, String)]) -> String {
    let entries = entries
        .iter()
        .map(|(name, value)| format!("{name} = {}", line(value)));
    format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
}
