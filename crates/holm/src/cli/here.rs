//! `holm here`: describes the workspace from inside. The only verb that asks the keeper directly.

use super::output::{STRONG, printable};
use super::{Context, Outcome};
use crate::wiring::guest;
use clap::Args;
use holm_core::config::display_size;
use holm_core::{Code, Fault};
use serde_json::Value;
use std::process::ExitCode;

/// Inside a workspace: say which one this is, its URLs, services, databases and limits
///
/// Answered without the daemon. The same is always in /run/holm/AGENTS.md, for agents to read.
/// Outside of a workspace this is an error (exit code 4), so scripts can use it to find out.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:\n  holm here\n  holm here --json\n  holm here --markdown")]
pub struct HereArgs {
    /// As text for agents: the current content of /run/holm/AGENTS.md
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

pub fn run(context: &Context, arguments: HereArgs) -> Outcome {
    if !guest::is_inside() {
        return Err(Fault::new(
            Code::Refused,
            "this is not inside a workspace",
            "`holm enter WS` goes inside; `holm ls` lists the workspaces",
        ));
    }
    let here = guest::here()?;
    let render = match arguments.markdown {
        true => guest::markdown,
        false => render,
    };
    context.output.result(&here, || render(&here));
    Ok(ExitCode::SUCCESS)
}

/// The most important keys, printed first.
const FIRST: [&str; 6] = ["id", "label", "project", "project_id", "state", "root"];

/// Keys whose values are bytes.
const SIZES: [&str; 2] = ["memory", "disk"];

/// One line per value; nested values are indented.
fn render(here: &Value) -> String {
    let mut text = String::new();
    append(&mut text, here, 0);
    text
}

fn append(text: &mut String, value: &Value, depth: usize) {
    let Value::Object(fields) = value else { return };
    let width = fields.keys().map(|key| key.len()).max().unwrap_or(0);
    let indent = "  ".repeat(depth);
    let mut fields: Vec<_> = fields.iter().collect();
    let place = |key: &str| FIRST.iter().position(|first| *first == key);
    fields.sort_by_key(|(key, value)| {
        let is_section = value.as_object().is_some_and(|inner| !inner.is_empty());
        (is_section, place(key).unwrap_or(FIRST.len()))
    });
    for (key, value) in fields {
        let name = printable(key);
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                text.push_str(&format!("{indent}{STRONG}{name}{STRONG:#}\n"));
                append(text, value, depth + 1);
            }
            value => {
                let size = value.as_u64().filter(|_| SIZES.contains(&key.as_str()));
                let value = size.map_or_else(|| plain(value), display_size);
                let name = format!("{name:width$}");
                text.push_str(&format!("{indent}{STRONG}{name}{STRONG:#}  {value}\n"));
            }
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => printable(text),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let name = fields.get("name").or_else(|| fields.get("kind"));
            let known = ["state", "url", "path", "port"].iter();
            let mut known = known.filter_map(|key| fields.get(*key));
            let more = known.find(|value| !value.is_null());
            match (name, more) {
                (Some(name), Some(more)) => format!("{} {}", plain(name), plain(more)),
                _ => printable(&value.to_string()),
            }
        }
        other => printable(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_plain_words() {
        let here = serde_json::json!({
            "id": "waaaaaaaaaaaa",
            "isolation": { "seccomp": true, "degraded": ["landlock"] },
            "label": "fix\u{1b}",
            "limits": { "memory": 4294967296u64, "cpus": null },
            "home": "/home/me",
            "ports": [],
            "databases": [{ "kind": "redis", "url": "redis://127.0.0.1:6379" }],
            "services": [{ "name": "db", "state": "ready" }, { "name": "web", "state": "failed" }],
        });
        let text = anstream::adapter::strip_str(&render(&here)).to_string();
        assert_eq!(
            text,
            "id         waaaaaaaaaaaa\n\
             label      fix\\u{1b}\n\
             databases  redis redis://127.0.0.1:6379\n\
             home       /home/me\n\
             ports      -\n\
             services   db ready, web failed\n\
             isolation\n  degraded  landlock\n  seccomp   yes\n\
             limits\n  cpus    -\n  memory  4GiB\n"
        );
    }
}
