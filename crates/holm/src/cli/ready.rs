//! Waits until a workspace's services are ready, with live progress. If one is not, explains which,
//! why, its last output, and what to type. Used by `up`, `start`, `restart` and `service`.

use super::figures::duration;
use super::left::Left;
use super::output::{BAD, FAINT, GOOD, HINT, STRONG, WARNING, for_bar, has_glyphs, printable};
use super::progress::{LINE_EVERY, PATIENCE};
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
use std::future::Future;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How many log lines are shown with a failure.
const LAST_LINES: usize = 10;

/// How many lost daemons are replaced while waiting.
const DAEMONS: usize = 5;

/// How often the elapsed time is redrawn.
const TICK: Duration = Duration::from_millis(100);

pub struct Display<'a> {
    context: &'a Context,
    shown: Shown,
    begun: Instant,
}

enum Shown {
    Nothing,
    Bar(Option<ProgressBar>),
    /// When a line was printed last, and the services that it named.
    Lines(Option<(Instant, String)>),
}

/// A running workspace, and what is wrong with its services.
pub struct Readied {
    pub workspace: Workspace,
    pub trouble: Option<Trouble>,
    /// What `up` did not copy or start.
    pub left: Left,
    /// How long `setup` ran, if it did.
    pub setup: Option<Duration>,
}

/// Why services are not ready.
pub struct Trouble {
    /// For machines: everything in one message.
    fault: Fault,
    /// For people: a line, and rows with the reason and the last output of each service.
    headline: String,
    rows: Vec<String>,
    hint: String,
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
            let mut readied = Readied::from(workspace);
            readied.trouble = Some(Trouble::from(gave_up(&readied.workspace.label)));
            return Ok(readied);
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
        started: workspace.started,
        ms: workspace.ms,
        notes: workspace.notes,
        ..now
    };
    let mut readied = Readied::from(workspace);
    readied.trouble = trouble;
    Ok(readied)
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
) -> Trouble {
    let (mut message, mut rows) = (String::new(), Vec::new());
    let culprits: Vec<&ServiceStatus> = services.iter().filter(|one| is_culprit(one)).collect();
    for service in &culprits {
        let name = &service.name;
        let why = service.reason.as_deref().unwrap_or(&service.state);
        if !message.is_empty() {
            message.push('\n');
        }
        message.push_str(&format!("service `{name}` is not ready: {why}"));
        let name = printable(name);
        rows.push(format!(
            "  {BAD}✗{BAD:#} {STRONG}{name}{STRONG:#}  {}",
            printable(why)
        ));
        let width = name.chars().count() + 6;
        let lines = last_lines(client, id, &service.name).await;
        for line in &lines {
            message.push_str(&format!("\n  {name} | {line}"));
        }
        // What each attempt repeated is printed once.
        for line in last_of_each(&lines) {
            rows.push(format!(
                "{:width$}{FAINT}│{FAINT:#} {}",
                "",
                printable(line)
            ));
        }
    }
    let waiting: Vec<&str> = services
        .iter()
        .filter(|service| service.state == "stopped" && service.reason.is_some())
        .map(|service| service.name.as_str())
        .collect();
    if !waiting.is_empty() {
        let waiting = waiting.join(", ");
        message.push_str(&format!("\nnot started for that: {waiting}"));
        rows.push(format!(
            "  {FAINT}□{FAINT:#} not started for that: {}",
            printable(&waiting)
        ));
    }
    let names: Vec<&str> = culprits.iter().map(|one| one.name.as_str()).collect();
    let headline = match names.as_slice() {
        [one] => format!("service {one} of {label} failed"),
        several => format!("services {} of {label} failed", several.join(", ")),
    };
    let name = names.first().copied().unwrap_or("SERVICE");
    let hint = format!(
        "all it printed: `holm logs {label} {name}`\n\
         try again: `holm service {label} restart {name}`"
    );
    let fault = Fault::new(Code::ServiceNotReady, message, hint);
    Trouble::new(fault, headline, rows)
}

/// Not ready by itself, rather than waiting for another one.
pub fn is_culprit(service: &ServiceStatus) -> bool {
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
            // How it ended is in the reason.
            if line.stream != "holm" {
                lines.push(line.text.trim_end_matches('\r').to_owned());
            }
        }
    }
    lines
}

/// The lines without those that come again later.
fn last_of_each(lines: &[String]) -> Vec<&String> {
    let comes_again = |at: usize| lines[at + 1..].contains(&lines[at]);
    let kept = (0..lines.len()).filter(|at| !comes_again(*at));
    kept.map(|at| &lines[at]).collect()
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
pub fn outcome(context: &Context, trouble: Option<&Trouble>) -> Outcome {
    Ok(match trouble {
        None => ExitCode::SUCCESS,
        Some(trouble) => {
            trouble.print(context);
            exit_code(&trouble.fault)
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
        "ready" => format!("{GOOD}●{GOOD:#}"),
        "failed" => format!("{BAD}✗{BAD:#}"),
        "backoff" | "exited" => format!("{WARNING}▲{WARNING:#}"),
        "stopped" => format!("{FAINT}□{FAINT:#}"),
        _ => format!("{HINT}◌{HINT:#}"),
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
            left: Left::default(),
            setup: None,
        }
    }
}

// === impl Trouble ===

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self {
            headline: fault.message(),
            rows: Vec::new(),
            hint: fault.hint.clone(),
            fault,
        }
    }
}

impl Trouble {
    pub fn new(fault: Fault, headline: String, rows: Vec<String>) -> Self {
        Self {
            hint: fault.hint.clone(),
            fault,
            headline,
            rows,
        }
    }

    /// With another hint for people.
    pub fn with_hint(mut self, hint: String) -> Self {
        self.hint = hint;
        self
    }

    pub fn print(&self, context: &Context) {
        let output = &context.output;
        if output.is_json() || output.is_quiet() {
            return output.fault(&self.fault);
        }
        if !self.rows.is_empty() {
            output.remark(&self.rows.join("\n"));
        }
        let (headline, hint) = (self.headline.clone(), self.hint.clone());
        output.fault(&Fault::new(self.fault.code, headline, hint));
    }

    pub fn exit_code(&self) -> ExitCode {
        exit_code(&self.fault)
    }

    pub fn code(&self) -> Code {
        self.fault.code
    }
}

// === impl Display ===

impl<'a> Display<'a> {
    /// On a terminal the display changes in place; elsewhere a line says what is waited for, and one
    /// that all are ready.
    pub fn live(context: &'a Context) -> Self {
        let shown = if context.output.is_json() {
            Shown::Nothing
        } else if std::io::stderr().is_terminal() {
            Shown::Bar(None)
        } else {
            Shown::Lines(None)
        };
        Self {
            context,
            shown,
            begun: Instant::now(),
        }
    }

    pub fn none(context: &'a Context) -> Self {
        Self {
            context,
            shown: Shown::Nothing,
            begun: Instant::now(),
        }
    }

    fn update(&mut self, services: &[ServiceStatus]) {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                let lines: Vec<String> = services.iter().map(line).collect();
                bar.get_or_insert_with(new_bar)
                    .set_message(for_bar(&lines.join("\n")));
            }
            Shown::Lines(said) => {
                let pending = services.iter().filter(|one| one.state != "ready");
                let pending: Vec<String> = pending.map(|one| printable(&one.name)).collect();
                let elapsed = self.begun.elapsed();
                if elapsed < PATIENCE {
                    return;
                }
                let pending = pending.join(", ");
                let output = &self.context.output;
                match said {
                    _ if pending.is_empty() => {
                        let names = services.iter().map(|one| printable(&one.name));
                        let names = names.collect::<Vec<_>>().join(", ");
                        let time = duration(elapsed.as_millis() as u64);
                        output.remark(&format!("services: {names} ready, {time}"));
                    }
                    None => {
                        output.remark(&format!("services: {pending}"));
                        *said = Some((Instant::now(), pending));
                    }
                    Some((at, before)) if at.elapsed() >= LINE_EVERY && *before != pending => {
                        output.remark(&format!("services: waiting for {pending}"));
                        *said = Some((Instant::now(), pending));
                    }
                    Some(_) => {}
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
        let turning = if has_glyphs() {
            "◐◓◑◒◐"
        } else {
            "|/-\\|"
        };
        bar.set_style(style.tick_chars(turning));
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
    fn what_comes_again_is_said_once() {
        let lines = ["start", "Error: x", "start", "Error: x"].map(str::to_owned);
        assert_eq!(last_of_each(&lines), ["start", "Error: x"]);
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
        assert_eq!(plain(&service("ready", None)), "  ● web  ready");
        assert_eq!(
            plain(&service("failed", Some("bad\u{1b}[2J"))),
            "  ✗ web  failed  bad\\u{1b}[2J"
        );
        assert_eq!(
            plain(&service("starting", Some("waits for db"))),
            "  ◌ web  starting  waits for db"
        );
    }
}
