//! `holm checkout`: gives a workspace the canonical ports (`localhost:3000`).

use super::completions::labels;
use super::ls::state;
use super::output::{GOOD, WARNING, printable};
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::Workspace;
use holm_api::client::Client;
use holm_api::port::{CanonicalPort, Checkout, CheckoutList};
use holm_core::{Fault, WorkspaceId};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Point this machine's usual ports (localhost:3000) at a workspace
///
/// New connections to 127.0.0.1 and ::1 go to the workspace from then on; open connections stay,
/// and nothing is restarted. Without --ports the workspace takes all ports that it declares, or
/// none of them when another program holds one. Without WS this lists the holders.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm checkout fix-login\n  \
    holm checkout fix-login --ports web,api\n  \
    holm checkout --none")]
pub struct CheckoutArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels(), conflicts_with = "none")]
    workspace: Option<String>,
    /// Take these ports only, by name or number
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        requires = "workspace"
    )]
    ports: Option<Vec<String>>,
    /// Release all canonical ports
    #[arg(long)]
    none: bool,
}

// === impl CheckoutArgs ===

impl CheckoutArgs {
    /// All ports of a workspace.
    pub fn of(workspace: &str) -> Self {
        Self {
            workspace: Some(workspace.to_owned()),
            ports: None,
            none: false,
        }
    }
}

pub fn run(context: &Context, arguments: CheckoutArgs) -> Outcome {
    let (list, asleep) = connect::block_on(async {
        let client = connect::started().await?;
        let list = match &arguments.workspace {
            Some(workspace) => {
                let id = resolve::one(&client, workspace).await?;
                let checkout = Checkout {
                    workspace: id.to_string(),
                    ports: arguments.ports.clone(),
                };
                client.check_out(&checkout).await?
            }
            None if arguments.none => client.release_ports().await?,
            None => client.checked_out().await?,
        };
        let asleep = if arguments.none || context.output.is_json() {
            Vec::new()
        } else {
            asleep(&client, &list).await?
        };
        Ok((list, asleep))
    })?;
    let none = match (&arguments.workspace, arguments.none) {
        (None, true) => "No workspace had a canonical port.",
        _ => "No workspace has a canonical port. `holm checkout WS` gives it its ports.",
    };
    if list.checkout.is_empty() && !context.output.is_json() {
        context.output.remark(none);
        return Ok(ExitCode::SUCCESS);
    }
    let lines = || {
        let lines = list.checkout.iter().map(|port| {
            if arguments.none {
                released(port)
            } else {
                taken(port)
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    if arguments.workspace.is_none() && !arguments.none {
        context.output.result(&list, || lines() + "\n")
    } else {
        context.output.done(&list, lines)
    }
    for workspace in &asleep {
        context.output.remark(&nobody_answers(workspace));
    }
    Ok(ExitCode::SUCCESS)
}

/// Holders that are stopped: their ports are forwarded to them, but no program answers.
async fn asleep(client: &Client, list: &CheckoutList) -> Result<Vec<Workspace>, Fault> {
    let holders = list.checkout.iter().map(|port| &port.holder.workspace);
    let holders: BTreeSet<&String> = holders.collect();
    let mut asleep = Vec::new();
    for id in holders
        .into_iter()
        .filter_map(|id| WorkspaceId::parse(id).ok())
    {
        let workspace = client.workspace(&id).await?;
        if workspace.state != "running" {
            asleep.push(workspace);
        }
    }
    Ok(asleep)
}

fn nobody_answers(workspace: &Workspace) -> String {
    let (label, state) = (printable(&workspace.label), printable(&state(workspace)));
    format!(
        "{WARNING}note:{WARNING:#} {label} is {state}, so nobody answers there until `holm start {label}`"
    )
}

fn taken(port: &CanonicalPort) -> String {
    let (number, name) = (port.port, printable(&port.name));
    let label = printable(&port.holder.label);
    if let Some(problem) = &port.problem {
        let problem = printable(problem);
        return format!(
            "{WARNING}!{WARNING:#} localhost:{number}  does not lead to {label}: {problem}"
        );
    }
    let before = port.before.as_ref().map_or_else(String::new, |before| {
        format!("  (until now {})", printable(&before.label))
    });
    format!("{GOOD}✓{GOOD:#} localhost:{number}  → {label} {name}{before}")
}

fn released(port: &CanonicalPort) -> String {
    let label = printable(&port.holder.label);
    format!(
        "{GOOD}✓{GOOD:#} localhost:{}  is free; it led to {label}",
        port.port
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_api::port::Holder;

    fn holder(label: &str) -> Holder {
        Holder {
            workspace: "waaaaaaaaaaaa".to_owned(),
            label: label.to_owned(),
            project: "shop".to_owned(),
        }
    }

    #[test]
    fn who_has_it_and_who_had_it() {
        let mut port = CanonicalPort {
            port: 3000,
            name: "web".to_owned(),
            holder: holder("fix"),
            before: None,
            problem: None,
        };
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain(taken(&port)), "✓ localhost:3000  → fix web");
        port.before = Some(holder("old"));
        let text = plain(taken(&port));
        assert_eq!(text, "✓ localhost:3000  → fix web  (until now old)");
        port.problem = Some("port 3000 is held by `node` (pid 7)".to_owned());
        let text = plain(taken(&port));
        assert!(text.contains("does not lead to fix: port 3000"), "{text}");
        assert!(plain(released(&port)).ends_with("it led to fix"));
    }
}
