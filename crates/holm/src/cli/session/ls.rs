//! `holm session ls`: lists sessions.

use super::super::completions::labels;
use super::super::figures::age;
use super::super::table::Table;
use super::super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::session::SessionList;
use holm_core::session::protocol::Session;
use holm_core::shell;
use std::collections::HashMap;
use std::process::ExitCode;

/// List sessions, also those that have ended, children below their parents
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm session ls\n  holm session ls fix-login --json")]
pub struct LsArgs {
    /// Only of this workspace
    #[arg(value_name = "WS", add = labels())]
    workspace: Option<String>,
}

/// The longest command that is shown.
const LONGEST: usize = 40;

pub fn run(context: &Context, arguments: LsArgs) -> Outcome {
    let (list, labels) = connect::block_on(async {
        let client = connect::started().await?;
        let list = match &arguments.workspace {
            Some(workspace) => {
                let id = resolve::one(&client, workspace).await?;
                client.sessions(&id).await?
            }
            None => client.all_sessions().await?,
        };
        Ok((list, resolve::labels(&client).await?))
    })?;
    if list.sessions.is_empty() && !context.output.is_json() {
        let text = "No sessions. `holm session new WS` starts one.";
        context.output.remark(text);
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || render(&list, &labels));
    Ok(ExitCode::SUCCESS)
}

fn render(list: &SessionList, labels: &HashMap<String, String>) -> String {
    let now = jiff::Timestamp::now();
    let mut table = Table::new([
        "session",
        "workspace",
        "name",
        "state",
        "age",
        "viewers",
        "command",
    ]);
    for (depth, session) in tree(&list.sessions) {
        let state = match (session.exit_code, &session.attention) {
            (Some(code), _) => format!("exited {code}"),
            (None, Some(_)) => "running !".to_owned(),
            (None, None) => "running".to_owned(),
        };
        let label = labels.get(&session.workspace);
        table.row([
            format!("{}{}", "  ".repeat(depth), session.id),
            label.unwrap_or(&session.workspace).clone(),
            session.name.clone().unwrap_or_else(|| "-".to_owned()),
            state,
            age(&session.created_at, now),
            session.viewers.to_string(),
            shown(session),
        ]);
    }
    table.render()
}

fn shown(session: &Session) -> String {
    let words = match &session.agent {
        Some(agent) => agent.clone(),
        None if session.command == shell::COMMAND => "shell".to_owned(),
        None => session.command.join(" "),
    };
    match words.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// Children after their parents, with their depth.
fn tree(sessions: &[Session]) -> Vec<(usize, &Session)> {
    let is_known = |id: &str| sessions.iter().any(|session| session.id == id);
    let is_root = |session: &&Session| !session.parent.as_deref().is_some_and(is_known);
    let mut found = Vec::new();
    for root in sessions.iter().filter(is_root) {
        add(sessions, root, 0, &mut found);
    }
    found
}

fn add<'a>(
    sessions: &'a [Session],
    session: &'a Session,
    depth: usize,
    found: &mut Vec<(usize, &'a Session)>,
) {
    found.push((depth, session));
    let is_child = |one: &&Session| one.parent.as_deref() == Some(session.id.as_str());
    for child in sessions.iter().filter(is_child) {
        add(sessions, child, depth + 1, found);
    }
}
