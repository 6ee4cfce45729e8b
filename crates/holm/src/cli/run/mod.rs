//! `holm run`: runs an agent or a command once, with a message; streams its output and lists its
//! changes. The daemon and the keeper own the run: [`follow`] only watches it.

mod follow;
pub mod report;

use super::attach::secret;
use super::check::{Brief, Checking, Waited, in_one_line};
use super::completions::labels;
use super::consent;
use super::direct;
use super::outlet::Form;
use super::output::FAINT;
use super::signals::INTERRUPTED;
use super::{Context, Outcome, connect, resolve, up};
use clap::Args;
use follow::{Attention, Following, Order, Place};
use holm_api::run::{ContextFile, CreateRun, MOST_FILE_BYTES, MOST_MESSAGE};
use holm_config::daemon_user::DaemonUser;
use holm_config::known_agents;
use holm_core::config::parse_duration;
use holm_core::{Cause, Code, Fault, WorkspaceId};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Run an agent, or a command, once inside a workspace
///
/// MESSAGE arrives on its stdin (`-` reads it from yours), its output is streamed, and the files
/// that it changed are listed and recorded: `holm runs ls`, `holm runs show`. A stopped workspace
/// is started. Without --agent it is `default_agent` of config.toml, or the only agent of
/// holm.toml. Built in are claude, codex, gemini, opencode, aider and shell; [agents] adds others.
///
/// With --new, holm first creates the workspace from the current commit of this repository. LABEL is its label; with one
/// word before `--agent` or after it, that word is MESSAGE and holm picks a label. After the run holm runs the
/// project's checks and prints their results; they do not change the exit code.
///
/// On a terminal its output stands behind a `│`: text and colours. All other sequences are dropped, so that
/// it can neither look like holm nor control the terminal; --raw passes them too. A file or a pipe gets exact
/// bytes.
///
/// The exit code is its own: 124 time-out (then all of its processes are ended), 130 cancelled, 126
/// and 127 as in sh, 128+n ended by signal n. Ctrl-C cancels the run. If the
/// daemon dies, the run continues.
///
/// With --json the output is JSON Lines: first {"run":…}, then {"time":…,"stdout":…} and
/// {"time":…,"stderr":…}, last {"exit_code":…,"run":…}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm run fix-login --agent claude \"fix the login redirect\"\n  \
    holm run --new fix-login --agent claude \"fix the login redirect\"\n  \
    holm run fix-login --file docs/task.md=./task.md --timeout 20m \"do docs/task.md\"\n  \
    git diff | holm run review --agent codex -\n  \
    holm run fix-login -- npm test")]
pub struct RunArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", required_unless_present = "new", add = labels())]
    workspace: Option<String>,
    /// Task for the agent, written to its stdin; `-` reads the task from yours
    #[arg(value_name = "MESSAGE")]
    message: Option<String>,
    /// Create the workspace first, and run the checks afterwards
    #[arg(long, conflicts_with = "no_start", help_heading = "What to run")]
    new: bool,
    /// The agent
    #[arg(long, value_name = "NAME", help_heading = "What to run")]
    agent: Option<String>,
    /// Copy a file of yours into the tree first; may be given several times
    #[arg(long = "file", value_name = "PATH=LOCAL", value_parser = clap::builder::OsStringValueParser::new(), help_heading = "What to run")]
    files: Vec<OsString>,
    /// Set a variable; may be given several times
    #[arg(long, value_name = "NAME=VALUE", help_heading = "What to run")]
    env: Vec<String>,
    /// End it after this time (30s, 5m, 1h30m); otherwise the agent's own limit, or 5 minutes
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Waiting")]
    timeout: Option<Duration>,
    /// Refuse (exit code 4) instead of starting a stopped workspace
    #[arg(long, help_heading = "Safety")]
    no_start: bool,
    /// Exact bytes also to a terminal, which then obeys every control sequence of the program
    #[arg(long, help_heading = "Safety")]
    raw: bool,
    /// Start the run in the background and print its id
    #[arg(long, help_heading = "Waiting")]
    detach: bool,
    /// Idempotency key: repeating a request with the same key starts no second run
    #[arg(long, value_name = "KEY", help_heading = "Waiting")]
    key: Option<String>,
    /// A command instead of an agent
    #[arg(value_name = "CMD", last = true, conflicts_with = "agent")]
    command: Vec<OsString>,
}

/// Where a run takes place.
enum RunIn {
    Existing(String),
    /// In a workspace with this label, which is created first.
    New(Option<String>),
}

pub fn run(context: &Context, mut arguments: RunArgs) -> Outcome {
    let (place, is_detached) = (run_in(&mut arguments), arguments.detach);
    let form = Form::asked_for(arguments.raw);
    let key = match &arguments.key {
        Some(key) => key.clone(),
        None => secret()?,
    };
    if arguments.command.is_empty() {
        direct::refresh(context, arguments.agent.as_deref())?;
    }
    let request = request(arguments)?;
    if let RunIn::Existing(workspace) = &place {
        resolve::ask_about(workspace);
    }
    let code = connect::block_on(async {
        let (workspace, made) = match place {
            RunIn::Existing(workspace) => (workspace, None),
            RunIn::New(label) => {
                let made = up::new(context, label.as_deref()).await?;
                (made.id.clone(), Some(made))
            }
        };
        let id = WorkspaceId::parse(&workspace);
        let order = Arc::new(Order {
            workspace: match &id {
                Ok(id) => Place::Known(id.clone()),
                Err(_) => Place::Typed(workspace.clone()),
            },
            request,
            key,
        });
        let attention = if is_detached {
            Attention::Nothing
        } else {
            Attention::Output
        };
        let begun = async {
            let client = connect::started().await?;
            let mut following = Following::new(context.output, client.clone())?;
            let begun = match following.begin(&order, attention).await {
                Err(fault) if fault.code == Code::SignInNotApproved => {
                    let id = resolve::one(&client, &workspace).await?;
                    let refused = consent::Refused {
                        workspace: &id,
                        agent: order.request.agent.as_deref(),
                        fault,
                    };
                    consent::ask(context, &client, refused).await?;
                    following.begin(&order, attention).await?
                }
                begun => begun?,
            };
            Ok((following, begun))
        };
        let (mut following, begun) = begun.await.inspect_err(|_: &Fault| {
            if let Some(made) = &made {
                stays(context, &made.label);
            }
        })?;
        if is_detached {
            context.output.result(&begun.run, || begun.run.id.clone());
            return Ok(0);
        }
        let name = made.as_ref().map_or(&workspace, |made| &made.label);
        context.output.remark(&report::heading(&begun.run, name));
        let watched = following.watch(begun, form).await?;
        let is_checked = match (&made, id) {
            (Some(_), Ok(id)) if watched.code != INTERRUPTED => check(context, id, name).await?,
            _ => false,
        };
        if !is_checked && watched.changed > 0 {
            let review = format!("holm review {name}");
            context.output.next(&[("read it", &review)]);
        }
        Ok(watched.code)
    })?;
    Ok(ExitCode::from(code))
}

/// The workspace of `--new` was made, and its run did not begin.
fn stays(context: &Context, label: &str) {
    context.output.remark(&format!(
        "  {FAINT}{label} stays: `holm run {label} …` tries again, `holm rm {label}` removes it{FAINT:#}"
    ));
}

/// With --new one word is the message, unless a command is run: that needs none.
fn run_in(arguments: &mut RunArgs) -> RunIn {
    let typed = arguments.workspace.take();
    if !arguments.new {
        // The parser requires it.
        return RunIn::Existing(typed.unwrap_or_default());
    }
    if arguments.message.is_none() && arguments.command.is_empty() {
        arguments.message = typed;
        return RunIn::New(None);
    }
    RunIn::New(typed)
}

/// Runs the checks of a workspace after its run; false: there are none. Their results do not change the exit code.
async fn check(context: &Context, id: WorkspaceId, label: &str) -> Result<bool, Fault> {
    let client = connect::started().await?;
    let mut checking = Checking::of(context, client, id)?;
    let list = match checking.all().await? {
        None => return Ok(false),
        Some(Waited::Ended(list) | Waited::Cancelled(list)) => list,
    };
    if context.output.is_json() {
        context.output.document(&list);
        return Ok(true);
    }
    let line = in_one_line(list.checks.iter().map(Brief::from));
    context.output.remark(&format!("  checks    {line}"));
    let read = format!("holm review {label}");
    let logs = list
        .bad()
        .next()
        .map(|bad| format!("holm logs {label} check/{}", bad.name));
    let mut next = vec![("read it", read.as_str())];
    next.extend(logs.as_deref().map(|logs| ("what failed", logs)));
    context.output.next(&next);
    Ok(true)
}

fn request(arguments: RunArgs) -> Result<CreateRun, Fault> {
    let is_command = !arguments.command.is_empty();
    if arguments.message.is_none() && !is_command {
        return Err(Fault::new(
            Code::Usage,
            "there is no message and no command",
            "`holm run WS \"fix the login\"`, or `holm run WS -- npm test`",
        ));
    }
    let message = match arguments.message.as_deref() {
        Some("-") => Some(read_message()?),
        message => message.map(str::to_owned),
    };
    let mut env = BTreeMap::new();
    for typed in &arguments.env {
        match typed.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                env.insert(name.to_owned(), value.to_owned());
            }
            _ => {
                let message = format!("--env takes NAME=VALUE, not `{}`", typed.escape_debug());
                return Err(Fault::new(Code::Usage, message, "for example `--env CI=1`"));
            }
        }
    }
    let words = arguments.command.into_iter();
    let words = words.map(|word| word.into_vec().into()).collect();
    Ok(CreateRun {
        agent_env: if is_command {
            BTreeMap::new()
        } else {
            agent_env(arguments.agent.as_deref())?
        },
        agent: arguments.agent,
        command: is_command.then_some(words),
        message,
        env,
        files: context_files(arguments.files)?,
        timeout_ms: arguments
            .timeout
            .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        no_start: arguments.no_start,
    })
}

fn read_message() -> Result<String, Fault> {
    let most = MOST_MESSAGE as u64;
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(most + 1).read_to_end(&mut bytes);
    let wrong = |cause: Cause| {
        let message = "the message on stdin cannot be used";
        Fault::new(Code::Usage, message, "`--file PATH=LOCAL` takes files").because(cause)
    };
    read.map_err(|error| wrong(error.into()))?;
    if bytes.len() as u64 > most {
        return Err(wrong(format!("it is more than {} KiB", most >> 10).into()));
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".into()))
}

/// Values of the variables that the settings give to the agent; of all agents if none is named,
/// because the daemon chooses.
///
/// A known agent also gets the variables with its keys, as far as they are set here.
pub fn agent_env(agent: Option<&str>) -> Result<BTreeMap<String, String>, Fault> {
    let settings = DaemonUser::current()?.settings()?;
    let is_meant = |name: &str| agent.is_none_or(|agent| agent == name);
    let agents = settings.agents.iter();
    let names = agents
        .filter(|(name, _)| is_meant(name.as_str()))
        .flat_map(|(_, agent)| agent.env.iter().map(|name| name.as_str()));
    let known = known_agents::table().agents.iter();
    let known = known
        .filter(|(name, _)| is_meant(name.as_str()))
        .flat_map(|(_, agent)| agent.keys.keys().map(String::as_str));
    let values = names.chain(known).filter_map(|name| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty());
        Some((name.to_owned(), value?))
    });
    Ok(values.collect())
}

fn context_files(typed: Vec<OsString>) -> Result<Vec<ContextFile>, Fault> {
    let mut left = MOST_FILE_BYTES as u64;
    let files = typed.into_iter().map(|typed| {
        let shown = typed.to_string_lossy().escape_debug().to_string();
        let wrong = |why: String| {
            let message = format!("--file {shown}: {why}");
            let hint = "`--file docs/task.md=./task.md` puts ./task.md at docs/task.md";
            Fault::new(Code::Usage, message, hint)
        };
        let typed = typed.into_vec();
        let Some(end) = typed.iter().position(|byte| *byte == b'=') else {
            return Err(wrong("it takes PATH=LOCAL".to_owned()));
        };
        let path = String::from_utf8(typed[..end].to_vec());
        let path = path.map_err(|_| wrong("PATH is not UTF-8".to_owned()))?;
        let local = OsString::from_vec(typed[end + 1..].to_vec());
        let (content, executable) = read(Path::new(&local), left).map_err(wrong)?;
        left -= content.len() as u64;
        Ok(ContextFile {
            path,
            content: content.into(),
            executable,
        })
    });
    files.collect()
}

fn read(local: &Path, most: u64) -> Result<(Vec<u8>, bool), String> {
    let shown = local.display();
    let failed = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let file = std::fs::File::open(local).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(format!("{shown} is a directory; name files"));
    }
    let mut content = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut content)
        .map_err(failed)?;
    if content.len() as u64 > most {
        let all = MOST_FILE_BYTES >> 20;
        return Err(format!("the files are more than {all} MiB together"));
    }
    let is_executable = metadata.permissions().mode() & 0o100 != 0;
    Ok((content, is_executable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parse(line: &[&str]) -> Result<CreateRun, Fault> {
        let line = std::iter::once("run").chain(line.iter().copied());
        let only = Only::try_parse_from(line)
            .map_err(|error| Fault::new(Code::Usage, error.to_string(), ""))?;
        request(only.run)
    }

    /// The label of the workspace that is created, and the message.
    fn made(line: &[&str]) -> (Option<String>, Option<String>) {
        let line = std::iter::once("run").chain(line.iter().copied());
        let mut run = Only::try_parse_from(line).unwrap().run;
        match run_in(&mut run) {
            RunIn::New(label) => (label, run.message),
            RunIn::Existing(_) => panic!("no workspace is created"),
        }
    }

    #[test]
    fn with_new_one_word_is_the_message() {
        let some = |text: &str| Some(text.to_owned());
        let message = ["--new", "--agent", "claude", "fix it"];
        assert_eq!(made(&message), (None, some("fix it")));
        assert_eq!(made(&["--new", "x", "fix it"]), (some("x"), some("fix it")));
        assert_eq!(made(&["--new", "x", "--", "true"]), (some("x"), None));
        assert_eq!(made(&["--new", "--", "true"]), (None, None));
        assert!(parse(&["--new", "--no-start", "x", "m"]).is_err());
        assert!(parse(&["--", "true"]).is_err());
    }

    #[test]
    fn a_message_or_a_command_or_both() {
        let run = parse(&["x", "--", "npm", "test", "--json"]).unwrap();
        assert_eq!((run.message, run.command.unwrap().len()), (None, 3));
        let run = parse(&["x", "say", "--", "cat"]).unwrap();
        assert_eq!(run.message.as_deref(), Some("say"));
        let run = parse(&["x", "--agent", "claude", "fix it", "--timeout", "2s"]).unwrap();
        assert_eq!((run.command, run.timeout_ms), (None, Some(2000)));
        for wrong in [
            &["x"][..],
            &["x", "--agent", "a", "--", "b"],
            &["x", "m", "--env", "=x"],
            &["x", "m", "--file", "only-a-path"],
            &["x", "m", "--file", "a=/nowhere/at/all"],
            &["x", "m", "--file", "a=/"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
