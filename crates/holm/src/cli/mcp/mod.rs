//! `holm mcp`: serves MCP on stdin and stdout, and configures clients to start it.

mod install;

use super::completions::labels;
use super::{Context, Outcome, connect, resolve};
use crate::mcp::Holm;
use crate::wiring::guest;
use clap::{Args, Subcommand};
use holm_core::{Code, Fault};
use std::process::ExitCode;

/// Serve MCP on stdin and stdout, for an agent that starts this command
///
/// Tools have the names of the command line: workspace_create, exec, run, changes, diff, logs and
/// so on. With --workspace it is scoped to one workspace: there are only tools for one, and no
/// other can be reached. Inside a workspace it is always scoped to that one. The daemon serves the
/// same as streamable HTTP at /mcp. `holm mcp install CLIENT` configures a client.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        holm mcp install claude\n  \
        holm mcp --workspace fix-login"
)]
pub struct McpArgs {
    /// Serve this workspace only: a label, project/label, an id or the beginning of an id
    #[arg(long, value_name = "WS", add = labels())]
    workspace: Option<String>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Install(install::InstallArgs),
}

pub fn run(context: &Context, arguments: McpArgs) -> Outcome {
    match arguments.verb {
        Some(Verb::Install(arguments)) => install::run(context, arguments),
        None => serve(arguments.workspace.as_deref()),
    }
}

fn serve(typed: Option<&str>) -> Outcome {
    connect::block_on(async {
        let holm = match (guest::is_inside(), typed) {
            (true, typed) => {
                let typed = typed.unwrap_or(".");
                let id = resolve::own(typed)?;
                Holm::inside(id)
            }
            (false, Some(typed)) => {
                let client = connect::started().await?;
                Holm::of_user(Some(resolve::one(&client, typed).await?))
            }
            (false, None) => Holm::of_user(None),
        };
        holm.serve_stdio().await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Inside a workspace there is nothing to install.
pub fn outside_only() -> Result<(), Fault> {
    if guest::is_inside() {
        Err(Fault::new(
            Code::InsideWorkspace,
            "clients are configured outside of workspaces",
            "inside, an agent starts `holm mcp` by itself; see `holm mcp --help`",
        ))
    } else {
        Ok(())
    }
}
