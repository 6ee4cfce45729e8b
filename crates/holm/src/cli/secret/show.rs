//! The text output about secrets: names, places, times.

use super::super::output::{FAINT, GOOD, WARNING, printable};
use super::super::table::Table;
use super::super::{Context, Outcome, connect, resolve};
use holm_api::client::Verify;
use holm_api::secret::{Declared, Scope};
use holm_core::spec::SecretSource;
use holm_core::{Code, Fault};
use holm_secrets::audit::Happening;
use std::collections::HashMap;
use std::process::ExitCode;

pub fn list(context: &Context) -> Outcome {
    let (list, projects, names) = connect::block_on(async {
        let client = connect::started().await?;
        let (list, projects) = (client.secrets().await?, client.projects().await?);
        Ok((list, projects, resolve::labels(&client).await?))
    })?;
    let projects = projects.projects.into_iter();
    let projects: HashMap<_, _> = projects.map(|project| (project.id, project.name)).collect();
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
        let mut table = Table::new(["name", "for", "version", "set"]);
        for secret in &list.secrets {
            let whose = match &secret.scope {
                Scope::User => "every project".to_owned(),
                Scope::Project(id) => format!("project {}", label(&projects, id)),
                Scope::Workspace(id) => format!("workspace {}", label(&names, id)),
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

/// The secrets that a workspace declares, with their states.
pub fn declared(context: &Context, typed: &str) -> Outcome {
    let list = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, typed).await?;
        client.declared_secrets(&id).await
    })?;
    if list.secrets.is_empty() && !context.output.is_json() {
        let text = "Its holm.toml declares no secrets that it may have.";
        context.output.remark(text);
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        let mut table = Table::new(["name", "from", "as", "to", "state", "until"]);
        for secret in &list.secrets {
            table.row([
                secret.name.clone(),
                source(&secret.from),
                secret.inject.clone(),
                secret.to.join(", "),
                secret.state.clone(),
                secret.expires_at.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        table.render()
    });
    Ok(ExitCode::SUCCESS)
}

fn source(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(variable) => format!("variable {variable}"),
        SecretSource::File(path) => format!("file {path}"),
        SecretSource::Command(argv) => format!("command {}", argv.join(" ")),
        SecretSource::Stored => "stored".to_owned(),
    }
}

/// The label of a workspace, or the id if it is gone.
pub fn label<'a>(labels: &'a HashMap<String, String>, id: &'a str) -> &'a str {
    labels.get(id).map_or(id, String::as_str)
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
    for (label, secrets) in workspaces {
        lines.push(format!("{GOOD}✓{GOOD:#} {}", printable(label)));
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

/// Each on its own line.
pub fn notes(notes: &[String]) -> String {
    let lines = notes.iter();
    let lines = lines.map(|note| format!("\n  {WARNING}note{WARNING:#}  {}", printable(note)));
    lines.collect()
}

pub fn audit(context: &Context, verify: Verify) -> Outcome {
    let (audit, labels) = connect::block_on(async {
        let client = connect::started().await?;
        let audit = client.secrets_audit(verify).await?;
        Ok((audit, resolve::labels(&client).await?))
    })?;
    if audit.audit.is_empty() {
        context
            .output
            .remark("Nothing has happened to secrets yet.");
    }
    context.output.result(&audit, || {
        if audit.audit.is_empty() {
            return String::new();
        }
        let mut table = Table::new(["time", "event", "secret", "workspace", "form", "to", "who"]);
        let cell = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        for line in &audit.audit {
            let happening = &line.happening;
            table.row([
                happening.time.clone(),
                happening.event.clone(),
                cell(&happening.secret),
                label(&labels, &cell(&happening.workspace)).to_owned(),
                cell(&happening.form),
                to(happening),
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

/// The receiver, or the host where it was used.
fn to(happening: &Happening) -> String {
    let mut parts = Vec::new();
    parts.extend(happening.receiver.clone());
    parts.extend(happening.which.clone());
    parts.extend(happening.pid.map(|pid| format!("({pid})")));
    parts.extend(happening.host.clone());
    parts.extend(happening.count.map(|count| format!("{count} times")));
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_who_was_given_it_and_where_it_was_used() {
        let given = Happening {
            receiver: Some("runs".to_owned()),
            which: Some("r4c5xd8nmw06v".to_owned()),
            pid: Some(7),
            ..Happening::default()
        };
        assert_eq!(to(&given), "runs r4c5xd8nmw06v (7)");
        let used = Happening {
            host: Some("api.example.org".to_owned()),
            count: Some(3),
            ..Happening::default()
        };
        assert_eq!(to(&used), "api.example.org 3 times");
        assert_eq!(to(&Happening::default()), "-");
    }
}
