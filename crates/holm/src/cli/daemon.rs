//! `holm daemon`: the server, in the foreground or in the background.

use super::connect::{self, Origin};
use super::launch::{self, READY};
use super::output::{GOOD, printable};
use super::{Context, Outcome, daemon_unit, open, wiring};
use crate::mcp;
use clap::{Args, Subcommand};
use holm_api::ErrorBody;
use holm_api::daemon::{Status, Stop};
use holm_config::daemon_user::DaemonUser;
use holm_core::{Code, Fault};
use holm_server::headless;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Run, start, stop and look at the server
///
/// Other commands start it when there is none. Workspaces go on running without it.
#[derive(Debug, Args)]
pub struct DaemonArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(RunArgs),
    Start(StartArgs),
    Stop(StopArgs),
    Status(StatusArgs),
    Install(daemon_unit::InstallArgs),
}

/// Run the daemon in the foreground
///
/// Prints `ready` on stdout when it serves. Started by root it switches to the user `holm`.
#[derive(Debug, Args)]
struct RunArgs {
    /// Leave the terminal and the session of the caller; errors are one line of JSON on stdout
    #[arg(long, hide = true)]
    background: bool,
}

/// Start the daemon in the background, if it does not run
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm daemon start")]
struct StartArgs {}

/// Stop the daemon; workspaces go on running
///
/// So do commands of `exec` and `enter`. A client that waits for such a command reconnects when the
/// daemon is started within 30 seconds; otherwise it exits with 5.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm daemon stop\n  holm daemon stop --all")]
struct StopArgs {
    /// Stop every workspace too, and end the browsers of `open --headless`
    #[arg(long)]
    all: bool,
}

/// Say whether the daemon runs, as whom, and where its data is
///
/// Exit code 5 when it does not run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm daemon status\n  holm daemon status --json")]
struct StatusArgs {}

/// How long a daemon may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(10);

const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub fn run(context: &Context, arguments: DaemonArgs) -> Outcome {
    match arguments.action {
        Action::Run(arguments) => serve(&arguments),
        Action::Start(_) => start(context),
        Action::Stop(arguments) => stop(context, &arguments),
        Action::Status(_) => status(context),
        Action::Install(arguments) => daemon_unit::run(context, &arguments),
    }
}

fn serve(arguments: &RunArgs) -> Outcome {
    if !arguments.background {
        return serve_here(&["daemon", "run"]).map(|()| ExitCode::SUCCESS);
    }
    // Fails only for the leader of a process group, which a freshly started process is not. A
    // process that was started by hand with this option stays in its session.
    let _ = rustix::process::setsid();
    match serve_here(&["daemon", "run", "--background"]) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(fault) => {
            let body = serde_json::to_string(&ErrorBody::from(&fault)).unwrap_or_default();
            say(&body);
            Ok(super::exit_code(&fault))
        }
    }
}

fn serve_here(arguments: &[&str]) -> Result<(), Fault> {
    let user = DaemonUser::current()?;
    if matches!(user, DaemonUser::Service(_)) {
        return Err(launch::replace(&user, arguments));
    }
    let paths = user.paths()?;
    let mcp = mcp::http::answers(paths.socket());
    wiring::serve(paths, mcp, || say(READY))
}

/// Prints one line on stdout. The process that started the daemon may be gone.
fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

fn start(context: &Context) -> Outcome {
    let (status, origin) = connect::block_on(async {
        let (client, origin) = connect::found_or_started().await?;
        Ok((client.status().await?, origin))
    })?;
    context.output.done(&status, || {
        let how = match origin {
            Origin::Found => "runs already",
            Origin::Started => "started",
        };
        format!("{GOOD}✓{GOOD:#} daemon {how}  pid {}", status.pid)
    });
    Ok(ExitCode::SUCCESS)
}

fn stop(context: &Context, arguments: &StopArgs) -> Outcome {
    let all = arguments.all;
    let status = connect::block_on(async {
        let client = connect::running().await?;
        let status = client.stop_daemon(&Stop { all }).await?;
        drop(client);
        ended(&status).await?;
        Ok(status)
    })?;
    if all {
        // Browsers belong to the caller, even with another user's daemon.
        headless::end(&open::profiles()?, &|_| true);
    }
    let document = serde_json::json!({ "stopped": true, "pid": status.pid, "all": all });
    context.output.done(&document, || {
        let workspaces = match (all, status.running) {
            (true, _) => "all workspaces are stopped".to_owned(),
            (false, 0) => "no workspace runs".to_owned(),
            (false, 1) => "1 workspace goes on running".to_owned(),
            (false, count) => format!("{count} workspaces go on running"),
        };
        format!("{GOOD}✓{GOOD:#} daemon stopped; {workspaces}")
    });
    Ok(ExitCode::SUCCESS)
}

/// Waits until the daemon is gone, so that the next one finds its socket and lock free.
async fn ended(status: &Status) -> Result<(), Fault> {
    let socket = DaemonUser::current()?.socket()?;
    let begun = Instant::now();
    while is_alive(status.pid) && begun.elapsed() < STOP_LIMIT {
        // Another daemon may already have the socket; it matters that this one is gone.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    if is_alive(status.pid) && holm_api::client::Client::connect(&socket).await.is_ok() {
        return Err(Fault::new(
            Code::Busy,
            format!("the daemon (pid {}) has not ended yet", status.pid),
            "`holm daemon status` says whether it still runs",
        ));
    }
    Ok(())
}

/// Whether the process still holds resources. A zombie does not (the first process of many
/// containers reaps late).
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The name in parentheses may contain anything, so parse after the last one.
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !state.starts_with(['Z', 'X'])
}

fn status(context: &Context) -> Outcome {
    let status = connect::block_on(async { connect::running().await?.status().await })?;
    context.output.result(&status, || render(&status));
    Ok(ExitCode::SUCCESS)
}

fn previews(status: &Status) -> String {
    let port = status.port.map(|port| format!("http://localhost:{port}"));
    port.unwrap_or_else(|| "none".to_owned())
}

fn render(status: &Status) -> String {
    let mut text = String::new();
    for (name, value) in [
        ("pid", status.pid.to_string()),
        ("version", status.version.clone()),
        ("user", format!("{} ({})", status.user, status.uid)),
        ("since", status.started_at.clone()),
        ("data", status.data_dir.clone()),
        ("socket", status.socket.clone()),
        ("previews", previews(status)),
        (
            "workspaces",
            format!("{}, {} running", status.workspaces, status.running),
        ),
    ] {
        text.push_str(&format!("{name:10}  {}\n", printable(&value)));
    }
    text
}
