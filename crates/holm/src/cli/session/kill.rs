//! `holm session kill`: ends sessions.

use super::super::output::{GOOD, printable};
use super::super::{Context, Outcome, connect};
use super::find;
use clap::Args;
use holm_api::session::SessionList;
use std::process::ExitCode;

/// End sessions, with their children
///
/// The program is asked to end (SIGTERM and SIGHUP) and killed after two seconds; so are sessions
/// whose --parent it is, and their children. The ended session stays listed for a while.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm session kill review")]
pub struct KillArgs {
    /// An id, a name, the beginning of an id, or WS/NAME
    #[arg(value_name = "S", required = true, add = find::sessions())]
    sessions: Vec<String>,
}

pub fn run(context: &Context, arguments: KillArgs) -> Outcome {
    let ended = connect::block_on(async {
        let client = connect::started().await?;
        let mut ended = SessionList::default();
        for typed in &arguments.sessions {
            let found = find::one(&client, typed).await?;
            let killed = client.kill_session(&found.workspace, &found.id).await?;
            ended.sessions.extend(killed.sessions);
        }
        Ok(ended)
    })?;
    context.output.done(&ended, || {
        let lines = ended.sessions.iter().map(|session| {
            let name = printable(session.shown_name());
            let code = session
                .exit_code
                .map(|code| format!(" with exit code {code}"));
            format!(
                "{GOOD}✓{GOOD:#} session {name} ended{}",
                code.unwrap_or_default()
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(ExitCode::SUCCESS)
}
