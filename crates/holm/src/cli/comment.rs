//! `holm comment`: a remark on lines of a workspace's work.

use super::completions::labels;
use super::output::{FAINT, GOOD, printable};
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::comment::NewComment;
use holm_core::comment::{CommentOrigin, CommentSide, parse_place};
use holm_core::{Code, Fault};
use std::process::ExitCode;

/// Comment on lines of a workspace's work
///
/// The comment belongs to the last turn, and keeps the lines that it is about. `holm comments send WS` gives all
/// comments that were not sent yet to the agent as one round.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm comment fix-login src/auth/session.ts:62 'A backslash is a host too'\n  \
    holm comment fix-login src/auth/session.ts:60-64 'Say why'\n  \
    holm comment fix-login --old test/login.test.ts:1 'Why is it gone?'\n  holm comments send fix-login"
)]
pub struct CommentArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// The file, and its line or lines
    #[arg(value_name = "PATH:LINE[-LINE]")]
    place: String,
    /// What to say about these lines
    #[arg(value_name = "TEXT")]
    text: String,
    /// The lines are those before the change, for example of a deleted file
    #[arg(long)]
    old: bool,
    /// The text comes from elsewhere (a pull request, an issue): the agent gets it as data
    #[arg(long)]
    from_elsewhere: bool,
}

pub fn run(context: &Context, arguments: CommentArgs) -> Outcome {
    let (path, first, last) = parse_place(&arguments.place).ok_or_else(|| {
        let place = arguments.place.escape_debug();
        let message = format!("`{place}` is not a file with a line");
        Fault::new(
            Code::Usage,
            message,
            "for example `src/main.rs:12` or `src/main.rs:12-15`",
        )
    })?;
    let new = NewComment {
        path: path.to_owned(),
        first,
        last,
        text: arguments.text.clone(),
        side: if arguments.old {
            CommentSide::Old
        } else {
            CommentSide::New
        },
        origin: if arguments.from_elsewhere {
            CommentOrigin::Elsewhere
        } else {
            CommentOrigin::Person
        },
    };
    let comment = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        client.comment(&id, &new).await
    })?;
    if context.output.is_quiet() {
        context.output.asked_for(&comment.id);
        return Ok(ExitCode::SUCCESS);
    }
    context.output.done(&comment, || {
        let (id, path, lines) = (&comment.id, printable(&comment.path), &comment.lines);
        format!("{GOOD}✓{GOOD:#} {id}  {path}:{lines}  {FAINT}not sent{FAINT:#}")
    });
    let send = format!("holm comments send {}", arguments.workspace);
    context.output.next(&[("send it", &send)]);
    Ok(ExitCode::SUCCESS)
}
