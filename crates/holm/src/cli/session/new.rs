//! `holm session new`: starts a program in a long-lived terminal.

use super::super::completions::labels;
use super::super::consent;
use super::super::direct;
use super::super::ls::warn;
use super::super::output::{GOOD, printable};
use super::super::run::agent_env;
use super::super::{Context, Outcome, connect, resolve, terminal};
use super::attach::{self, AttachMode};
use super::find;
use clap::Args;
use holm_api::exec::Bytes;
use holm_api::session::NewSession;
use holm_core::Code;
use holm_core::session::Size;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

/// Start a program in a terminal that keeps running after you detach
///
/// A shell when nothing is named. Starts a stopped workspace first. On a terminal it attaches at
/// once, and then the exit code is the program's (0 after ctrl-\, which detaches); otherwise it
/// prints the session's id.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm session new fix-login\n  \
    holm session new fix-login --agent claude --name review\n  \
    holm session new fix-login --agent claude -- --continue\n  \
    holm session new fix-login --detach --size 120x40 -- npm run watch")]
pub struct NewArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Start this agent: one of [agents], or claude, codex, gemini, opencode, aider, shell
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// A name, unique among the live sessions of the workspace
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A session of the same workspace as its parent; killing that ends this one
    #[arg(long, value_name = "S", add = find::sessions())]
    parent: Option<String>,
    /// Do not attach; print the session's id
    #[arg(long)]
    detach: bool,
    /// Columns and rows of its terminal until a client attaches
    #[arg(long, value_name = "COLSxROWS", value_parser = Size::parse)]
    size: Option<Size>,
    /// Directory to run in, absolute or below the project's root
    #[arg(long, value_name = "DIR")]
    cwd: Option<OsString>,
    /// Set a variable for the program; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = clap::builder::OsStringValueParser::new())]
    env: Vec<OsString>,
    /// Refuse (exit code 4) instead of starting a stopped workspace
    #[arg(long)]
    no_start: bool,
    /// The program and its arguments; with --agent, further arguments of the agent
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub fn run(context: &Context, arguments: NewArgs) -> Outcome {
    let attaches = !arguments.detach && !context.output.is_json() && terminal::is_interactive();
    connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        let parent = match &arguments.parent {
            Some(typed) => Some(find::one(&client, typed).await?.id.to_string()),
            None => None,
        };
        let variables = arguments.env.into_iter().map(super::super::exec::variable);
        let size = match (arguments.size, attaches) {
            (None, true) => {
                let outer = terminal::size();
                Some(Size {
                    rows: outer.rows,
                    cols: outer.cols,
                })
            }
            (asked, _) => asked,
        };
        if arguments.agent.is_some() {
            direct::refresh(context, arguments.agent.as_deref())?;
        }
        let command = arguments.command.into_iter();
        let new = NewSession {
            command: command.map(|word| Bytes::from(word.into_vec())).collect(),
            agent_env: match &arguments.agent {
                Some(agent) => agent_env(Some(agent))?,
                None => BTreeMap::new(),
            },
            agent: arguments.agent,
            name: arguments.name,
            parent,
            env: variables.collect::<Result<_, _>>()?,
            cwd: arguments.cwd.map(|directory| directory.into_vec().into()),
            rows: size.map(|size| size.rows),
            cols: size.map(|size| size.cols),
            no_start: arguments.no_start,
        };
        let session = match client.new_session(&id, &new).await {
            Err(fault) if fault.code == Code::SignInNotApproved => {
                let refused = consent::Refused {
                    workspace: &id,
                    agent: new.agent.as_deref(),
                    fault,
                };
                consent::ask(context, &client, refused).await?;
                client.new_session(&id, &new).await?
            }
            begun => begun?,
        };
        for note in &session.notes {
            warn(context, note);
        }
        if attaches {
            let found = find::found(&session)?;
            return attach::attach(context, &client, &found, AttachMode::Write).await;
        }
        context.output.result(&session, || session.id.clone());
        let name = printable(session.shown_name());
        context
            .output
            .remark(&format!("{GOOD}✓{GOOD:#} session {name} started"));
        // Another workspace may have a session of the same name.
        let attach = format!("holm session attach {}", session.id);
        context.output.next(&[("attach it", &attach)]);
        Ok(ExitCode::SUCCESS)
    })
}
