//! `holm exec`: runs a command inside; its bytes, signals and exit code are passed through.

use super::attach::{Target, attach};
use super::completions::labels;
use super::terminal::Attachment;
use super::{Context, Outcome, connect, resolve, terminal};
use clap::Args;
use holm_api::exec::Start;
use holm_core::config::parse_duration;
use holm_core::exec::Terminal;
use holm_core::{Code, Fault, WorkspaceId};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::time::Duration;

/// Run a command inside a workspace
///
/// Runs in the project's root and starts a stopped workspace first. stdin, signals and exact bytes
/// pass through; there is a terminal inside when stdin and stdout are terminals. The exit code is
/// the command's: 124 time-out, 126 cannot be run, 127 not found, 128+n ended by signal n.
///
/// Your terminal gets exactly what the command writes and obeys it: title, clipboard, queries. For
/// programs that you do not trust with it there are `holm run` and `holm session`, which draw
/// safely.
///
/// With --json the output is JSON Lines: {"stdout":…}, {"stderr":…} and last {"exit_code":…}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm exec fix-login -- npm test\n  \
    holm exec fix-login --env CI=1 --timeout 5m -- make check\n  \
    git diff | holm exec fix-login -- git apply")]
pub struct ExecArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Directory to run in, absolute or below the project's root
    #[arg(long, value_name = "DIR")]
    cwd: Option<OsString>,
    /// Set a variable for the command; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = clap::builder::OsStringValueParser::new())]
    env: Vec<OsString>,
    /// End the command after this time (30s, 5m, 1h30m) with exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Refuse (exit code 4) instead of starting a stopped workspace
    #[arg(long)]
    no_start: bool,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub fn run(context: &Context, arguments: ExecArgs) -> Outcome {
    let attachment = if context.output.is_json() {
        Attachment::Lines
    } else if terminal::is_interactive() {
        Attachment::Terminal
    } else {
        Attachment::Pipes
    };
    let workspace = arguments.workspace.clone();
    let start = start(arguments, attachment)?;
    let code = connect::block_on(async {
        let client = connect::started().await?;
        let id = WorkspaceId::parse(&workspace);
        let target = match &id {
            Ok(id) => Target::Known(id),
            Err(_) => Target::Typed(&workspace),
        };
        resolve::ask_about(&workspace);
        attach(&client, target, start, attachment).await
    })?;
    Ok(ExitCode::from(code))
}

fn start(arguments: ExecArgs, attachment: Attachment) -> Result<Start, Fault> {
    let env = arguments
        .env
        .into_iter()
        .map(variable)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Start {
        argv: arguments
            .command
            .into_iter()
            .map(|argument| argument.into_vec().into())
            .collect(),
        env,
        cwd: arguments.cwd.map(|directory| directory.into_vec().into()),
        terminal: (attachment == Attachment::Terminal).then(outer_terminal),
        timeout_ms: arguments.timeout.map(|time| time.as_millis() as u64),
        quiet_ms: None,
        no_start: arguments.no_start,
        // Output to a pipe may be of any kind and must arrive unchanged.
        mask: false,
        attaches: false,
    })
}

/// The terminal inside has the type and size of the one outside.
pub fn outer_terminal() -> Terminal {
    let size = terminal::size();
    Terminal {
        term: std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned()),
        rows: size.rows,
        cols: size.cols,
    }
}

pub type Variable = (holm_api::exec::Bytes, holm_api::exec::Bytes);

/// Parses `NAME=VALUE`; the value may be any bytes.
pub fn variable(typed: OsString) -> Result<Variable, Fault> {
    let typed = typed.into_vec();
    match typed.iter().position(|byte| *byte == b'=') {
        Some(end) if end > 0 => {
            let (name, value) = (typed[..end].to_vec(), typed[end + 1..].to_vec());
            Ok((name.into(), value.into()))
        }
        _ => Err(Fault::new(
            Code::Usage,
            format!(
                "--env takes NAME=VALUE, not `{}`",
                String::from_utf8_lossy(&typed).escape_debug()
            ),
            "for example `--env CI=1`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        exec: ExecArgs,
    }

    fn parse(line: &[&str]) -> Start {
        let line = std::iter::once("exec").chain(line.iter().copied());
        let only = Only::try_parse_from(line).unwrap();
        start(only.exec, Attachment::Pipes).unwrap()
    }

    fn argv(start: &Start) -> Vec<String> {
        let bytes = start.argv.iter().cloned().map(Vec::<u8>::from);
        bytes
            .map(|bytes| String::from_utf8(bytes).unwrap())
            .collect()
    }

    #[test]
    fn what_follows_is_the_commands_own() {
        let check = |line: &[&str], expect: &[&str]| assert_eq!(argv(&parse(line)), expect);
        check(&["x", "--", "npm", "test"], &["npm", "test"]);
        check(&["x", "ls", "-la"], &["ls", "-la"]);
        check(
            &["x", "--", "sh", "-c", "a", "--", "b"],
            &["sh", "-c", "a", "--", "b"],
        );
        check(&["x", "--", "--cwd"], &["--cwd"]);
        check(
            &["x", "--no-start", "--", "a", "--no-start"],
            &["a", "--no-start"],
        );
    }

    #[test]
    fn options_reach_the_request() {
        let start = parse(&[
            "x",
            "--env",
            "A=b=c",
            "--env",
            "E=",
            "--timeout",
            "2s",
            "--",
            "a",
        ]);
        assert_eq!(start.timeout_ms, Some(2000));
        let env: Vec<(Vec<u8>, Vec<u8>)> = start
            .env
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let expect: [(&[u8], &[u8]); 2] = [(b"A", b"b=c"), (b"E", b"")];
        assert_eq!(
            env,
            expect.map(|(name, value)| (name.to_vec(), value.to_vec()))
        );
        assert!(variable("=x".into()).is_err());
        assert!(variable("x".into()).is_err());
    }

    #[test]
    fn a_command_is_needed() {
        for line in [&["exec", "x"][..], &["exec", "x", "--"], &["exec"]] {
            assert!(Only::try_parse_from(line).is_err(), "{line:?}");
        }
        assert!(Only::try_parse_from(["exec", "x", "--timeout", "5", "--", "a"]).is_err());
    }
}
