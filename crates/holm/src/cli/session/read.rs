//! `holm session read`: a session's screen or output, as text.

use super::super::output::printable;
use super::super::{Context, Outcome, connect};
use super::find;
use clap::Args;
use std::process::ExitCode;

/// Print what a session shows, or what it wrote, as plain text
///
/// The screen, unless --since asks for the output since a cursor (0: all that is stored). Without
/// colours and without control sequences.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm session read review\n  \
    holm session read review --since 0\n  \
    holm session read review --since 4711 --json")]
pub struct ReadArgs {
    /// An id, a name, the beginning of an id, or WS/NAME
    #[arg(value_name = "S", add = find::sessions())]
    session: String,
    /// The screen (this is the default)
    #[arg(long, conflicts_with = "since")]
    screen: bool,
    /// The output since this cursor; --json has the next one
    #[arg(long, value_name = "CURSOR")]
    since: Option<u64>,
}

pub fn run(context: &Context, arguments: ReadArgs) -> Outcome {
    let text = connect::block_on(async {
        let client = connect::started().await?;
        let found = find::one(&client, &arguments.session).await?;
        match arguments.since {
            Some(since) => {
                client
                    .session_output(&found.workspace, &found.id, since)
                    .await
            }
            None => client.session_screen(&found.workspace, &found.id).await,
        }
    })?;
    if text.missed > 0 {
        let missed = text.missed;
        let word = format!("{missed} bytes before this are not kept any more");
        context.output.remark(&word);
    }
    if context.output.is_json() {
        context.output.document(&text);
    } else if !text.text.is_empty() {
        context.output.asked_for(&plain(&text.text));
    }
    Ok(ExitCode::SUCCESS)
}

/// Lines and tabs stay.
fn plain(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let cells: Vec<_> = line.split('\t').map(printable).collect();
        cells.join("\t")
    });
    lines.collect::<Vec<_>>().join("\n")
}
