//! `holm switch`: makes a workspace the one that the user is in. Three commands in one: `checkout`, `open`, and `session
//! attach` or `enter`.

use super::checkout::CheckoutArgs;
use super::completions::labels;
use super::enter::EnterArgs;
use super::open::{OpenArgs, has_display};
use super::session::AttachArgs;
use super::{Context, Outcome, checkout, connect, enter, open, resolve, session, terminal};
use clap::Args;
use holm_core::session::protocol::{Session, SessionState};
use std::process::ExitCode;

/// Make a workspace the one you are in: ports, browser, terminal
///
/// Points this machine's usual ports at it, opens its browser if there is a display, and attaches its agent's session if
/// exactly one is live; otherwise it opens a shell inside.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm switch fix-login\n  holm switch fix-login --no-browser")]
pub struct SwitchArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Open no browser
    #[arg(long)]
    no_browser: bool,
    /// Attach no session and open no shell
    #[arg(long)]
    no_terminal: bool,
}

pub fn run(context: &Context, arguments: SwitchArgs) -> Outcome {
    let (workspace, sessions) = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        let workspace = client.workspace(&id).await?;
        Ok((workspace, client.sessions(&id).await?.sessions))
    })?;
    let has_ports = workspace.ports.iter().any(|port| port.source == "declared");
    if has_ports {
        checkout::run(context, CheckoutArgs::of(&workspace.id))?;
    }
    if has_ports && !arguments.no_browser && has_display() {
        open::run(context, OpenArgs::of(&workspace.id))?;
    }
    if arguments.no_terminal || !terminal::is_interactive() {
        return Ok(ExitCode::SUCCESS);
    }
    let is_at_work =
        |session: &&Session| session.agent.is_some() && session.state == SessionState::Running;
    let mut agents = sessions.iter().filter(is_at_work);
    match (agents.next(), agents.next()) {
        (Some(agent), None) => session::attach_to(context, AttachArgs::of(&agent.id)),
        _ => enter::run(context, EnterArgs::of(&workspace.id)),
    }
}
