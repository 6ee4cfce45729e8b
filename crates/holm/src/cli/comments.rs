//! `holm comments`: the conversation of a review: list, send, resolve, reopen.

use super::figures::{count, cut};
use super::output::{BAD, FAINT, GOOD, WARNING, printable};
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::client::Client;
use holm_api::comment::{Act, Action, Comment, CommentList, Send};
use holm_core::comment::{CommentSide, CommentState};
use holm_core::hunk::{HunkLine, LineKind};
use holm_core::{Code, Fault, WorkspaceId};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The changed lines shown of one comment; the others are counted.
const MOST_CHANGED: usize = 8;

/// List, send, resolve and reopen review comments
///
/// `comments send WS` makes a round of all comments that were not sent: one message with their ids, typed into the
/// agent's session if there is exactly one, else put before the message of the next run. The agent answers and
/// resolves them by MCP; `comments resolve` and `reopen` do it by hand. Below each comment stands what changed since in
/// its lines.
///
/// With --json: {"comments":[{id,path,lines,text,state,stale,round,replies,side,changes}]}; `send` prints
/// {round,ids,to}.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm comments fix-login --open\n  holm comments send fix-login\n  \
    holm comments resolve fix-login c2 c3\n  holm comments reopen fix-login c3"
)]
pub struct CommentsArgs {
    /// A workspace; or `send`, `resolve` or `reopen` and a workspace, and the ids of comments
    #[arg(value_name = "[send|resolve|reopen] WS [ID]", required = true, num_args = 1..)]
    words: Vec<String>,
    /// Only open ones
    #[arg(long)]
    open: bool,
    /// Send to this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

pub fn run(context: &Context, arguments: CommentsArgs) -> Outcome {
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["send", workspace] => send(context, workspace, arguments.session),
        ["resolve", workspace, ids @ ..] if !ids.is_empty() => {
            act(context, workspace, ids, Action::Resolve)
        }
        ["reopen", workspace, ids @ ..] if !ids.is_empty() => {
            act(context, workspace, ids, Action::Reopen)
        }
        ["send" | "resolve" | "reopen", ..] => Err(usage()),
        [workspace] => list(context, workspace, arguments.open),
        _ => Err(usage()),
    }
}

fn usage() -> Fault {
    Fault::new(
        Code::Usage,
        "a workspace is missing, or the ids of comments",
        "`holm comments WS`, `holm comments send WS`, `holm comments resolve|reopen WS ID…`",
    )
}

fn of<T>(
    workspace: &str,
    work: impl AsyncFnOnce(Client, WorkspaceId) -> Result<T, Fault>,
) -> Result<T, Fault> {
    connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, workspace).await?;
        work(client, id).await
    })
}

fn list(context: &Context, workspace: &str, is_open: bool) -> Outcome {
    let list = of(workspace, async |client, id| {
        client.comments(&id, is_open).await
    })?;
    show(context, &list);
    Ok(ExitCode::SUCCESS)
}

fn send(context: &Context, workspace: &str, session: Option<String>) -> Outcome {
    let send = Send { session };
    let round = of(workspace, async |client, id| {
        client.send_comments(&id, &send).await
    })?;
    context.output.done(&round, || {
        let comments = count(round.ids.len() as u64, "comment");
        format!(
            "{GOOD}✓{GOOD:#} round {}: {comments} to {}",
            round.round, round.to
        )
    });
    Ok(ExitCode::SUCCESS)
}

fn act(context: &Context, workspace: &str, ids: &[&str], action: Action) -> Outcome {
    let act = Act {
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        action,
        text: None,
    };
    let list = of(workspace, async |client, id| {
        client.act_on_comments(&id, &act).await
    })?;
    show(context, &list);
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, list: &CommentList) {
    if list.comments.is_empty() {
        context.output.done(list, || "No comments.".to_owned());
        return;
    }
    context.output.result(list, || render(&list.comments));
}

/// By round, the newest first.
fn render(comments: &[Comment]) -> String {
    let mut rounds: BTreeMap<u64, Vec<&Comment>> = BTreeMap::new();
    for comment in comments {
        rounds
            .entry(comment.round.unwrap_or(u64::MAX))
            .or_default()
            .push(comment);
    }
    let mut lines = Vec::new();
    for (round, comments) in rounds.into_iter().rev() {
        let delivered = comments
            .iter()
            .find_map(|comment| comment.delivered.clone());
        lines.push(match (round, delivered) {
            (u64::MAX, _) => "Not sent".to_owned(),
            (round, Some(to)) => format!("Round {round}, to {}", printable(&to)),
            (round, None) => format!("Round {round}, waits for the next run"),
        });
        lines.extend(comments.into_iter().flat_map(rows));
    }
    lines.join("\n")
}

/// The comment, and what changed since in its lines.
pub fn rows(comment: &Comment) -> Vec<String> {
    let changed = comment.changes.iter().flat_map(|hunk| &hunk.lines);
    let changed: Vec<String> = changed.map(changed_line).collect();
    let more = changed.len().saturating_sub(MOST_CHANGED);
    let more = (more > 0).then(|| {
        let more = count(more as u64, "more changed line");
        format!("       {FAINT}│ {more}{FAINT:#}")
    });
    let changed = changed.into_iter().take(MOST_CHANGED);
    [row(comment)]
        .into_iter()
        .chain(changed)
        .chain(more)
        .collect()
}

fn changed_line(line: &HunkLine) -> String {
    let (style, sign) = match line.kind {
        LineKind::Add => (GOOD, "+"),
        LineKind::Delete => (BAD, "−"),
        LineKind::Context => (FAINT, " "),
    };
    let text = cut(&printable(&line.text), 66);
    format!("       {FAINT}│{FAINT:#} {style}{sign} {text}{style:#}")
}

fn row(comment: &Comment) -> String {
    let before = match comment.side {
        CommentSide::New => "",
        CommentSide::Old => " before the change",
    };
    let place = format!("{}:{}{before}", printable(&comment.path), comment.lines);
    let reply = comment.replies.last();
    let (glyph, text) = match (comment.state, comment.stale, reply) {
        (CommentState::Resolved, _, _) => (
            format!("{GOOD}✓{GOOD:#}"),
            format!("resolved: {}", first_line(&comment.text)),
        ),
        (_, _, Some(reply)) => (
            format!("{WARNING}◆{WARNING:#}"),
            format!("answered: \"{}\"", first_line(&reply.text)),
        ),
        (_, true, None) => (
            format!("{WARNING}▲{WARNING:#}"),
            format!("stale: {}", first_line(&comment.text)),
        ),
        _ => (" ".to_owned(), first_line(&comment.text)),
    };
    format!(
        "{glyph} {:<4} {place:<28} {FAINT}│{FAINT:#} {text}",
        comment.id
    )
}

fn first_line(text: &str) -> String {
    cut(&printable(text.lines().next().unwrap_or_default()), 60)
}
