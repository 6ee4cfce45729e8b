//! `holm service`: one service of a workspace.

use super::completions::labels;
use super::output::{GOOD, printable};
use super::ready::{self, Display, Readied};
use super::table::Table;
use super::{Context, Outcome, connect, resolve};
use clap::{Args, Subcommand};
use holm_api::service::{Action, ServiceAct, ServiceList};
use holm_core::service::status::ServiceStatus;
use std::process::ExitCode;

/// List, start, stop or restart the services of a workspace
///
/// Services are declared in [services] of holm.toml; `holm up` and `holm start` start them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm service fix-login ls\n  \
    holm service fix-login restart web")]
pub struct ServiceArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the services and their states
    Ls,
    /// Start a service, with its dependencies, and wait until it is ready
    Start(One),
    /// Stop a service with all its processes; services that depend on it go on
    Stop(One),
    /// Stop a service and start it again, even after a crash loop
    Restart(One),
}

#[derive(Debug, Args)]
struct One {
    /// The service
    name: String,
    /// Do not wait until it is ready
    #[arg(long)]
    no_wait: bool,
}

pub fn run(context: &Context, arguments: ServiceArgs) -> Outcome {
    match arguments.verb {
        Verb::Ls => list(context, &arguments.workspace),
        Verb::Start(one) => act(context, &arguments.workspace, one, Action::Start),
        Verb::Stop(one) => act(context, &arguments.workspace, one, Action::Stop),
        Verb::Restart(one) => act(context, &arguments.workspace, one, Action::Restart),
    }
}

fn list(context: &Context, workspace: &str) -> Outcome {
    let list = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, workspace).await?;
        client.services(&id).await
    })?;
    if list.services.is_empty() && !context.output.is_json() {
        let text = "No services. [services] in holm.toml declares them.";
        context.output.remark(text);
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || render(&list.services));
    Ok(ExitCode::SUCCESS)
}

fn act(context: &Context, workspace: &str, one: One, action: Action) -> Outcome {
    let (list, trouble) = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, workspace).await?;
        let act = ServiceAct {
            service: one.name.clone(),
            action,
        };
        client.service(&id, &act).await?;
        let mut trouble = None;
        if !one.no_wait {
            let found = client.workspace(&id).await?;
            let display = Display::live(context);
            let readied = ready::wait(&client, found, display, ready::interruption()).await;
            let Readied { trouble: found, .. } = readied?;
            trouble = found;
        }
        Ok((client.services(&id).await?, trouble))
    })?;
    let service = list.services.iter().find(|found| found.name == one.name);
    // Problems of other services do not matter here.
    let is_well = service.is_some_and(|service| match action {
        Action::Stop => service.state == "stopped",
        Action::Start | Action::Restart => matches!(service.state.as_str(), "ready" | "exited"),
    });
    context
        .output
        .done(&list, || match service.filter(|_| one.no_wait || is_well) {
            Some(service) => done(service),
            None => every(&list),
        });
    ready::outcome(context, trouble.as_ref().filter(|_| !is_well))
}

fn done(service: &ServiceStatus) -> String {
    let (name, state) = (printable(&service.name), &service.state);
    format!("{GOOD}✓{GOOD:#} {name}  {state}")
}

fn every(list: &ServiceList) -> String {
    let lines: Vec<_> = list.services.iter().map(ready::line).collect();
    lines.join("\n")
}

fn render(services: &[ServiceStatus]) -> String {
    let mut table = Table::new(["service", "state", "pid", "restarts", "port", "reason"]);
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    for service in services {
        table.row([
            service.name.clone(),
            service.state.clone(),
            number(service.pid),
            service.restarts.to_string(),
            number(service.port.map(u32::from)),
            service.reason.clone().unwrap_or_default(),
        ]);
    }
    table.render()
}
