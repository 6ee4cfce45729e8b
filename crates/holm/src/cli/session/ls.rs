//! `holm session ls`: lists sessions.

use super::super::completions::labels;
use super::super::figures::age;
use super::super::output::{FAINT, GOOD, HINT, WARNING, printable};
use super::super::table::{Row, rows};
use super::super::{Context, Outcome, connect, resolve, terminal};
use clap::Args;
use clap::builder::styling::Style;
use holm_core::session::protocol::Session;
use holm_core::shell;
use jiff::Timestamp;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::process::ExitCode;

/// List sessions, also those that have ended, children below their parents
///
/// A session is `working` while it printed something within the last minute, `quiet` after that, and has a
/// `question` when its program asked for attention. In a pipe nothing is cut and times are complete.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm session ls\n  holm session ls fix-login --json")]
pub struct LsArgs {
    /// Only of this workspace
    #[arg(value_name = "WS", add = labels())]
    workspace: Option<String>,
}

/// Output within so many seconds is work.
const WORKING: i64 = 60;

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
    if context.output.is_quiet() {
        let ids: Vec<&str> = list.sessions.iter().map(|one| one.id.as_str()).collect();
        if !ids.is_empty() {
            context.output.asked_for(&ids.join("\n"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if list.sessions.is_empty() && !context.output.is_json() {
        let text = "No sessions. `holm session new WS` starts one.";
        context.output.remark(text);
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        let now = Timestamp::now();
        if std::io::stdout().is_terminal() {
            let columns = terminal::size().cols.into();
            on_terminal(&list.sessions, &labels, columns, now)
        } else {
            in_pipe(&list.sessions, &labels, now)
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// What one session is doing.
struct Doing {
    style: Style,
    glyph: &'static str,
    word: &'static str,
    fact: String,
    since: String,
}

fn on_terminal(
    sessions: &[Session],
    labels: &HashMap<String, String>,
    columns: usize,
    now: Timestamp,
) -> String {
    let all = tree(sessions).into_iter().map(|(depth, session)| {
        let doing = doing(session, now);
        let label = format!("{}{}", "  ".repeat(depth), label(session, labels));
        let cells = [
            label,
            program(session),
            doing.word.to_owned(),
            doing.fact,
            handle(session),
            age(&doing.since, now),
        ];
        Row {
            style: doing.style,
            glyph: doing.glyph,
            cells,
        }
    });
    rows(&all.collect::<Vec<_>>(), FACT, columns)
}

/// The column with the fact.
const FACT: usize = 3;

/// The state is the first column, and nothing is cut.
fn in_pipe(sessions: &[Session], labels: &HashMap<String, String>, now: Timestamp) -> String {
    let lines = tree(sessions).into_iter().map(|(_, session)| {
        let doing = doing(session, now);
        let (label, program) = (label(session, labels), program(session));
        let cells = [
            doing.word,
            &label,
            &program,
            &doing.fact,
            &session.id,
            &doing.since,
        ];
        let cells = cells.map(printable);
        format!("{}\n", cells.join("  "))
    });
    lines.collect()
}

fn doing(session: &Session, now: Timestamp) -> Doing {
    let last = session.last_output_at.as_ref();
    let since = last.unwrap_or(&session.created_at).clone();
    let title = session.title.clone().filter(|title| !title.is_empty());
    let watchers = match session.viewers {
        0 => None,
        1 => Some("1 person watches".to_owned()),
        more => Some(format!("{more} people watch")),
    };
    let none = || "–".to_owned();
    if let Some(code) = session.exit_code {
        let fact = match &session.reason {
            Some(reason) => format!("exit {code}: {reason}"),
            None => format!("exit {code}"),
        };
        return Doing {
            style: FAINT,
            glyph: "□",
            word: "ended",
            fact,
            since: session.ended_at.clone().unwrap_or(since),
        };
    }
    if let Some(attention) = &session.attention {
        return Doing {
            style: WARNING,
            glyph: "◆",
            word: "question",
            fact: attention.text.clone().or(title).unwrap_or_else(none),
            since: attention.time.clone(),
        };
    }
    let at = since.parse::<Timestamp>().ok();
    let is_working = at.is_some_and(|at| now.as_second() - at.as_second() < WORKING);
    let (style, glyph, word, fact) = if is_working {
        (HINT, "◐", "working", title.or(watchers))
    } else {
        (GOOD, "●", "quiet", watchers.or(title))
    };
    Doing {
        style,
        glyph,
        word,
        fact: fact.unwrap_or_else(none),
        since,
    }
}

fn label(session: &Session, labels: &HashMap<String, String>) -> String {
    let label = labels.get(&session.workspace);
    label.unwrap_or(&session.workspace).clone()
}

/// What a person types for it.
fn handle(session: &Session) -> String {
    session.name.clone().unwrap_or_else(|| session.id.clone())
}

fn program(session: &Session) -> String {
    match &session.agent {
        Some(agent) => agent.clone(),
        None if session.command == shell::COMMAND => "shell".to_owned(),
        None => {
            let program = session.command.first().map_or("–", String::as_str);
            let name = program.rsplit('/').next().unwrap_or(program);
            name.chars().take(20).collect()
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn session(change: Value) -> Session {
        let mut document = json!({
            "id": "s00000000001", "workspace": "waaaaaaaaaaaa", "name": null, "parent": null,
            "agent": "claude", "command": ["claude"], "state": "running", "exit_code": null,
            "reason": null, "pid": 7, "created_at": "2026-11-15T20:00:00Z", "ended_at": null,
            "last_output_at": "2026-11-15T20:26:00Z", "rows": 24, "cols": 80, "title": null,
            "cursor": 0, "attention": null, "writer": null, "viewers": 0, "notes": [],
        });
        for (key, value) in change.as_object().unwrap() {
            document[key] = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn one_row_per_session_with_what_it_does() {
        let sessions = [
            session(json!({"attention": {"time": "2026-11-15T20:27:00Z",
                "text": "Is tax computed before or after the coupon is taken off?"}})),
            session(
                json!({"id": "s00000000002", "parent": "s00000000001", "name": "tests",
                "last_output_at": "2026-11-15T20:29:50Z", "title": "Edits src/cart.ts"}),
            ),
            session(json!({"id": "s00000000003", "viewers": 2})),
            session(json!({"id": "s00000000004", "exit_code": 3, "agent": null,
                "command": ["/usr/bin/npm", "test"], "ended_at": "2026-11-15T18:30:00Z"})),
        ];
        let labels = HashMap::from([("waaaaaaaaaaaa".to_owned(), "fix-login".to_owned())]);
        let now = "2026-11-15T20:30:00Z".parse().unwrap();
        let text = on_terminal(&sessions, &labels, 80, now);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "◆ fix-login    claude  question  Is tax computed before or…  s00000000001  3 min\n\
             ◐   fix-login  claude  working   Edits src/cart.ts           tests           now\n\
             ● fix-login    claude  quiet     2 people watch              s00000000003  4 min\n\
             □ fix-login    npm     ended     exit 3                      s00000000004    2 h\n"
        );
        let text = in_pipe(&sessions[..1], &labels, now);
        assert_eq!(
            text,
            "question  fix-login  claude  Is tax computed before or after the coupon is taken off?  \
             s00000000001  2026-11-15T20:27:00Z\n"
        );
    }
}
