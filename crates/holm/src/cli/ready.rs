//! Waits until a workspace's services are ready, with live progress. If one is not, explains which,
//! why, its last output, and what to type. Used by `up`, `start`, `restart` and `service`.

use super::output::{BAD, FAINT, GOOD, WARNING, printable};
use super::{Context, Outcome, connect, exit_code};
use futures_util::future::join_all;
use holm_api::Workspace;
use holm_api::client::Client;
use holm_api::service::LogQuery;
use holm_api::service::ServiceList;
use holm_core::plan::State;
use holm_core::service::graph::Verdict;
use holm_core::service::status::ServiceStatus;
use holm_core::{Code, Fault, WorkspaceId};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::HashMap;
use std::future::Future;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// How many log lines are shown with a failure.
const LAST_LINES: usize = 10;

/// How many lost daemons are replaced while waiting.
const DAEMONS: usize = 5;

/// How often the elapsed time is redrawn.
const TICK: Duration = Duration::from_millis(100);

pub struct Display<'a> {
    context: &'a Context,
    shown: Shown,
    /// The last printed state of each service.
    said: HashMap<String, String>,
}

enum Shown {
    Nothing,
    Bar(Option<ProgressBar>),
    Lines,
}

/// A running workspace, and what is wrong with its services.
pub struct Readied {
    pub workspace: Workspace,
    pub trouble: Option<Fault>,
}

/// Waits until all services are ready or some will not be. `interrupted` ends only the waiting.
pub async fn wait(
    client: &Client,
    workspace: Workspace,
    mut display: Display<'_>,
    interrupted: impl Future<Output = ()>,
) -> Result<Readied, Fault> {
    if workspace.services.is_empty() {
        return Ok(Readied::from(workspace));
    }
    let id = id_of(&workspace)?;
    let settled = settle(client, &id, &mut display);
    let list = tokio::select! {
        list = settled => list?,
        () = interrupted => {
            drop(display);
            let trouble = Some(gave_up(&workspace.label));
            return Ok(Readied { workspace, trouble });
        }
    };
    drop(display);
    let trouble = if list.verdict.as_deref() == Some(Verdict::Ready.as_str()) {
        None
    } else {
        Some(explain(client, &id, &workspace.label, &list.services).await)
    };
    // Its current state: its reason may be a service.
    let now = client.workspace(&id).await?;
    let workspace = Workspace {
        created: workspace.created,
        ms: workspace.ms,
        notes: workspace.notes,
        ..now
    };
    Ok(Readied { workspace, trouble })
}

/// Follows the services until none is starting any more, with another daemon if this one dies:
/// services outlive it.
async fn settle(
    client: &Client,
    id: &WorkspaceId,
    display: &mut Display<'_>,
) -> Result<ServiceList, Fault> {
    let mut found = settle_with(client, id, display).await;
    for _ in 0..DAEMONS {
        match found {
            Err(fault) if fault.code == Code::DaemonUnreachable => {
                let client = connect::started().await?;
                found = settle_with(&client, id, display).await;
            }
            settled => return settled,
        }
    }
    found
}

async fn settle_with(
    client: &Client,
    id: &WorkspaceId,
    display: &mut Display<'_>,
) -> Result<ServiceList, Fault> {
    let mut changes = client.watch_services(id).await?;
    while let Some(list) = changes.next().await? {
        display.update(&list.services);
        if list.verdict.as_deref() != Some(Verdict::Pending.as_str()) {
            return Ok(list);
        }
    }
    Err(Fault::new(
        Code::ServiceNotReady,
        format!("workspace {id} was stopped while its services started"),
        format!("`holm show {id}` says why; `holm start {id}` starts it again"),
    ))
}

/// Ends when the user types ctrl-C.
pub async fn interruption() {
    // If the handler cannot be installed, the signal ends the program as usual.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

fn gave_up(label: &str) -> Fault {
    Fault::new(
        Code::Cancelled,
        format!("no longer waiting; workspace `{label}` stays, and its services go on starting"),
        format!("`holm service {label} ls` says how they are"),
    )
}

/// Which service is not ready, why, and its last output.
async fn explain(
    client: &Client,
    id: &WorkspaceId,
    label: &str,
    services: &[ServiceStatus],
) -> Fault {
    let mut message = String::new();
    let mut culprit = None;
    for service in services.iter().filter(|service| is_culprit(service)) {
        let name = &service.name;
        let why = service.reason.as_deref().unwrap_or(&service.state);
        if !message.is_empty() {
            message.push('\n');
        }
        message.push_str(&format!("service `{name}` is not ready: {why}"));
        for line in last_lines(client, id, name).await {
            message.push_str(&format!("\n  {name} | {line}"));
        }
        culprit = culprit.or(Some(name.as_str()));
    }
    let waiting: Vec<&str> = services
        .iter()
        .filter(|service| service.state == "stopped" && service.reason.is_some())
        .map(|service| service.name.as_str())
        .collect();
    if !waiting.is_empty() {
        message.push_str(&format!("\nnot started for that: {}", waiting.join(", ")));
    }
    let name = culprit.unwrap_or("SERVICE");
    Fault::new(
        Code::ServiceNotReady,
        message,
        format!(
            "`holm logs {label} {name}` has all it said; `holm service {label} restart {name}` tries again"
        ),
    )
}

/// Not ready by itself, rather than waiting for another one.
fn is_culprit(service: &ServiceStatus) -> bool {
    let has_done_its_work = service.reason.as_deref() == Some("exited with 0");
    match service.state.as_str() {
        "failed" | "backoff" => true,
        "exited" => !has_done_its_work,
        _ => false,
    }
}

async fn last_lines(client: &Client, id: &WorkspaceId, service: &str) -> Vec<String> {
    let query = LogQuery {
        services: service.to_owned(),
        last: Some(LAST_LINES),
        ..LogQuery::default()
    };
    let mut lines = Vec::new();
    // If the log cannot be read, the explanation goes without it.
    if let Ok(mut log) = client.logs(id, &query).await {
        while let Ok(Some(line)) = log.next().await {
            lines.push(line.text.trim_end_matches('\r').to_owned());
        }
    }
    lines
}

/// For `start`, `restart`, `fork` and `reset`: waits for the started workspaces, and reports each.
pub async fn all(
    context: &Context,
    client: &Client,
    started: Vec<Result<Workspace, Fault>>,
) -> Vec<Result<Readied, Fault>> {
    let is_one = started.len() == 1;
    let waits = started.into_iter().map(|workspace| async move {
        let display = if is_one {
            Display::live(context)
        } else {
            Display::none(context)
        };
        let workspace = workspace?;
        // A workspace that was stopped when it was reset stays stopped.
        if workspace.state == State::Stopped.as_str() {
            return Ok(Readied::from(workspace));
        }
        wait(client, workspace, display, interruption()).await
    });
    join_all(waits).await
}

/// The exit code for a running workspace, after its problem was printed.
pub fn outcome(context: &Context, trouble: Option<&Fault>) -> Outcome {
    Ok(match trouble {
        None => ExitCode::SUCCESS,
        Some(fault) => {
            context.output.fault(fault);
            exit_code(fault)
        }
    })
}

pub fn id_of(workspace: &Workspace) -> Result<WorkspaceId, Fault> {
    WorkspaceId::parse(&workspace.id)
        .map_err(|error| Fault::of(Code::Internal, error, "is the daemon of another version?"))
}

/// One line about a service.
pub fn line(service: &ServiceStatus) -> String {
    let name = printable(&service.name);
    let mark = match service.state.as_str() {
        "ready" => format!("{GOOD}✓{GOOD:#}"),
        "failed" => format!("{BAD}✗{BAD:#}"),
        "backoff" | "exited" => format!("{WARNING}!{WARNING:#}"),
        _ => format!("{FAINT}·{FAINT:#}"),
    };
    let reason = service.reason.as_deref().map(printable);
    let reason = reason.map_or_else(String::new, |reason| format!("  {reason}"));
    format!("  {mark} {name}  {}{reason}", service.state)
}

// === impl Readied ===

impl From<Workspace> for Readied {
    fn from(workspace: Workspace) -> Self {
        Self {
            workspace,
            trouble: None,
        }
    }
}

// === impl Display ===

impl<'a> Display<'a> {
    /// On a terminal the display changes in place; elsewhere every change is a line, until all are
    /// ready.
    pub fn live(context: &'a Context) -> Self {
        let shown = if context.output.is_json() {
            Shown::Nothing
        } else if std::io::stderr().is_terminal() {
            Shown::Bar(None)
        } else {
            Shown::Lines
        };
        Self {
            context,
            shown,
            said: HashMap::new(),
        }
    }

    pub fn none(context: &'a Context) -> Self {
        Self {
            context,
            shown: Shown::Nothing,
            said: HashMap::new(),
        }
    }

    fn update(&mut self, services: &[ServiceStatus]) {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                let lines: Vec<String> = services.iter().map(line).collect();
                bar.get_or_insert_with(new_bar)
                    .set_message(lines.join("\n"));
            }
            Shown::Lines => {
                // The command itself reports ready services at the end.
                for service in services.iter().filter(|one| one.state != "ready") {
                    let line = line(service);
                    if self.said.get(&service.name) != Some(&line) {
                        self.context.output.remark(&line);
                        self.said.insert(service.name.clone(), line);
                    }
                }
            }
        }
    }
}

impl Drop for Display<'_> {
    fn drop(&mut self) {
        if let Shown::Bar(Some(bar)) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // The template is a constant; if it is wrong, the plain one is good enough.
    if let Ok(style) = ProgressStyle::with_template("{msg}\n  {spinner} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(state: &str, reason: Option<&str>) -> ServiceStatus {
        ServiceStatus {
            name: "web".to_owned(),
            state: state.to_owned(),
            pid: None,
            restarts: 0,
            port: None,
            reason: reason.map(str::to_owned),
            exit_code: None,
        }
    }

    #[test]
    fn who_is_to_blame() {
        assert!(is_culprit(&service("failed", Some("crash loop"))));
        assert!(is_culprit(&service("exited", Some("exited with 1"))));
        assert!(!is_culprit(&service("exited", Some("exited with 0"))));
        assert!(!is_culprit(&service("stopped", Some("waits for db"))));
        assert!(!is_culprit(&service("ready", None)));
    }

    #[test]
    fn lines_say_it_without_colour_too() {
        let plain =
            |service: &ServiceStatus| anstream::adapter::strip_str(&line(service)).to_string();
        assert_eq!(plain(&service("ready", None)), "  ✓ web  ready");
        assert_eq!(
            plain(&service("failed", Some("bad\u{1b}[2J"))),
            "  ✗ web  failed  bad\\u{1b}[2J"
        );
        assert_eq!(
            plain(&service("starting", Some("waits for db"))),
            "  · web  starting  waits for db"
        );
    }
}
