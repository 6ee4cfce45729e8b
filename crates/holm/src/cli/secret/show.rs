//! What people read of secrets: names, places, times.

use super::super::output::{FAINT, GOOD, WARNING, printable};
use super::super::table::Table;
use super::super::{Context, Outcome, connect};
use holm_api::client::Verify;
use holm_api::secret::{Declared, Scope};
use holm_core::{Code, Fault};
use std::collections::BTreeMap;
use std::process::ExitCode;

pub fn list(context: &Context) -> Outcome {
    let (list, projects, names) = connect::block_on(async {
        let client = connect::started().await?;
        let (list, projects) = (client.secrets().await?, client.projects().await?);
        Ok((list, projects, client.names().await?))
    })?;
    let projects = projects.projects.into_iter();
    let projects: BTreeMap<_, _> = projects.map(|project| (project.id, project.name)).collect();
    let names = names.names.into_iter();
    let names: BTreeMap<_, _> = names.map(|name| (name.id, name.label)).collect();
    match (&list.locked_why, list.locked) {
        (Some(why), _) => {
            let why = printable(why);
            let text = format!("Locked: {why}; `holm secret unlock` tries again.");
            context.output.remark(&text);
        }
        (None, true) => {
            let text = "The key is behind a passphrase; `holm secret unlock` asks for it.";
            context.output.remark(text);
        }
        (None, false) => {}
    }
    if list.secrets.is_empty() && !context.output.is_json() {
        context
            .output
            .remark("No secrets are stored. `holm secret set NAME` stores one.");
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        let mut table = Table::new(["NAME", "FOR", "VERSION", "SET"]);
        let known = |names: &BTreeMap<String, String>, id: &str| {
            names.get(id).cloned().unwrap_or_else(|| id.to_owned())
        };
        for secret in &list.secrets {
            let whose = match &secret.scope {
                Scope::User => "every project".to_owned(),
                Scope::Project(id) => format!("project {}", known(&projects, id)),
                Scope::Workspace(id) => format!("workspace {}", known(&names, id)),
            };
            table.row([
                secret.name.clone(),
                whose,
                secret.version.to_string(),
                secret.set_at.clone(),
            ]);
        }
        let place = place(list.key.as_deref());
        format!("{}{FAINT}The key is {place}.{FAINT:#}\n", table.render())
    });
    Ok(ExitCode::SUCCESS)
}

/// Where the key is, in words.
pub fn place(key: Option<&str>) -> &'static str {
    match key {
        Some("keyring") => "in the keyring of your desktop",
        Some("passphrase") => "in a file, behind a passphrase",
        Some(_) => "in a file that only you may read",
        None => "made when the first value comes",
    }
}

pub fn refreshed<'a>(
    workspaces: impl Iterator<Item = (&'a str, &'a [Declared])>,
    notes: &[String],
) -> String {
    let mut lines = Vec::new();
    for (id, secrets) in workspaces {
        lines.push(format!("{GOOD}✓{GOOD:#} {id}"));
        for secret in secrets {
            let (name, state) = (printable(&secret.name), &secret.state);
            let until = secret.expires_at.as_ref();
            let until = until.map_or(String::new(), |time| format!(" until {time}"));
            let to = printable(&secret.to.join(", "));
            lines.push(format!("  {name}  {state}{until}  {FAINT}to {to}{FAINT:#}"));
        }
    }
    if lines.is_empty() {
        return "This project has no workspaces.".to_owned();
    }
    lines.join("\n") + &self::notes(notes)
}

/// Each on a line of its own, after what was said before.
pub fn notes(notes: &[String]) -> String {
    let lines = notes.iter();
    let lines = lines.map(|note| format!("\n  {WARNING}note{WARNING:#}  {}", printable(note)));
    lines.collect()
}

pub fn audit(context: &Context, verify: Verify) -> Outcome {
    let audit = connect::block_on(async {
        let client = connect::started().await?;
        client.secrets_audit(verify).await
    })?;
    context.output.result(&audit, || {
        let mut table = Table::new(["TIME", "EVENT", "SECRET", "WORKSPACE", "FORM", "TO", "WHO"]);
        let cell = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        for line in &audit.audit {
            let happening = &line.happening;
            let to = match (&happening.receiver, happening.pid) {
                (Some(receiver), Some(pid)) => format!("{receiver} ({pid})"),
                (receiver, _) => cell(receiver),
            };
            table.row([
                happening.time.clone(),
                happening.event.clone(),
                cell(&happening.secret),
                cell(&happening.workspace),
                cell(&happening.form),
                to,
                happening.who.clone(),
            ]);
        }
        table.render()
    });
    match (&audit.broken, audit.intact) {
        (Some(why), _) => {
            let message = format!("the record was changed: {why}");
            let hint = "compare it with a backup; from that line on nothing in it is sure";
            Err(Fault::new(Code::RecordChanged, message, hint))
        }
        (None, Some(_)) => {
            let text = format!("{GOOD}✓{GOOD:#} {} lines, none changed", audit.audit.len());
            context.output.remark(&text);
            Ok(ExitCode::SUCCESS)
        }
        (None, None) => Ok(ExitCode::SUCCESS),
    }
}
