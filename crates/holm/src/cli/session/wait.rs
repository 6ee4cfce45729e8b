//! `holm session wait`: waits until a session is quiet, prints something, or ends.

use super::super::output::printable;
use super::super::{Context, Outcome, connect};
use super::find;
use clap::Args;
use holm_api::session::Wait;
use holm_core::config::parse_duration;
use holm_core::session::protocol::{WaitEnd, Waited};
use std::process::ExitCode;
use std::time::Duration;

/// Wait until a session is quiet, has written something, or has ended
///
/// With --idle until it wrote nothing for so long; with --for until its output since the last
/// `send` matches a regular expression; with neither until it ends. Exit code 0 when that came, 1
/// when the program ended first, 124 when the time was up.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm session wait review --idle 5s\n  \
    holm session wait review --for 'tests? passed' --timeout 10m\n  \
    holm session wait review")]
pub struct WaitArgs {
    /// An id, a name, the beginning of an id, or WS/NAME
    #[arg(value_name = "S", add = find::sessions())]
    session: String,
    /// Nothing was written for this long (2s, 1m)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    idle: Option<Duration>,
    /// A regular expression; ^ and $ are ends of lines
    #[arg(long = "for", value_name = "PATTERN")]
    pattern: Option<String>,
    /// Search the output from this cursor, instead of the last `send`
    #[arg(long, value_name = "CURSOR")]
    since: Option<u64>,
    /// Give up after this time (30s, 5m) with exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

const TIMED_OUT: u8 = 124;

pub fn run(context: &Context, arguments: WaitArgs) -> Outcome {
    let until_end = arguments.idle.is_none() && arguments.pattern.is_none();
    let milliseconds = |time: Duration| time.as_millis() as u64;
    let wait = Wait {
        idle_ms: arguments.idle.map(milliseconds),
        pattern: arguments.pattern,
        since: arguments.since,
        timeout_ms: arguments.timeout.map(milliseconds),
    };
    let waited = connect::block_on(async {
        let client = connect::started().await?;
        let found = find::one(&client, &arguments.session).await?;
        let waited = client.wait_for_session(&found.workspace, &found.id, wait);
        waited.await
    })?;
    context.output.done(&waited, || outcome_text(&waited));
    Ok(match waited.reason {
        WaitEnd::Timeout => ExitCode::from(TIMED_OUT),
        WaitEnd::Exited if !until_end => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

fn outcome_text(waited: &Waited) -> String {
    match (waited.reason, &waited.matched, waited.exit_code) {
        (WaitEnd::Matched, Some(matched), _) => format!("it wrote: {}", printable(matched.trim())),
        (WaitEnd::Idle, ..) => "it is quiet".to_owned(),
        (WaitEnd::Exited, _, Some(code)) => format!("its program ended with exit code {code}"),
        _ => "the time is up".to_owned(),
    }
}
