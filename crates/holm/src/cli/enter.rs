//! `holm enter`: an interactive shell inside, on a fresh terminal.

use super::attach::{Target, attach};
use super::completions::labels;
use super::exec::outer_terminal;
use super::terminal::Attachment;
use super::{Context, Outcome, connect, resolve, terminal};
use clap::Args;
use holm_api::exec::{Bytes, Start};
use holm_core::{Code, Fault, shell};
use std::process::ExitCode;

/// Open a shell inside a workspace
///
/// bash where it exists, sh otherwise, in the project's root. Your own shell and environment are
/// not used. Starts a stopped workspace first.
///
/// Your terminal gets exactly what programs inside write and obeys it: title, clipboard, queries.
/// `holm session new` opens a shell that is drawn safely.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm enter fix-login")]
pub struct EnterArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
}

// === impl EnterArgs ===

impl EnterArgs {
    pub fn of(workspace: &str) -> Self {
        Self {
            workspace: workspace.to_owned(),
        }
    }
}

pub fn run(_: &Context, arguments: EnterArgs) -> Outcome {
    if !terminal::is_interactive() {
        return Err(Fault::new(
            Code::Usage,
            "a shell needs a terminal on stdin and stdout",
            "use `holm exec WS -- CMD` to run a command without one",
        ));
    }
    let code = connect::block_on(async {
        let client = connect::started().await?;
        let workspace = resolve::named(&client, &arguments.workspace).await?;
        let start = Start {
            argv: shell::COMMAND.map(text).to_vec(),
            env: prompt(&workspace.label),
            terminal: Some(outer_terminal()),
            attaches: true,
            ..Start::default()
        };
        let target = Target::Known(&workspace.id);
        attach(&client, target, start, Attachment::Terminal).await
    })?;
    Ok(ExitCode::from(code))
}

fn prompt(label: &str) -> Vec<(Bytes, Bytes)> {
    let variables = shell::prompt(label).into_iter();
    let variables = variables.map(|(name, value)| (text(name), Bytes::Text(value)));
    variables.collect()
}

fn text(text: &str) -> Bytes {
    Bytes::Text(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_stands_once_in_front_of_the_prompt() {
        let Bytes::Text(command) = prompt("fix-login").remove(0).1 else {
            panic!("not text");
        };
        let script = format!("PS1='\\w$ '; {command}; {command}; printf %s \"$PS1\"");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "(fix-login) \\w$ "
        );
    }
}
