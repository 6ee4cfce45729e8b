//! The command line: one file per verb, with its arguments (whose doc is the help text) and `run`.
//!
//! Verbs reach the engine only through the daemon's API. Output goes through [`output`], and every
//! failure is a [`Fault`] whose kind decides the exit code here, in one place.

mod apply;
mod assign;
mod attach;
mod audit;
mod browser;
mod carry_out;
mod changes;
mod checkout;
mod clone;
mod completions;
mod daemon;
mod daemon_unit;
mod df;
mod diff;
mod doctor;
mod egress;
mod enter;
mod events;
mod exec;
mod fetch;
mod find;
mod fork;
mod gc;
mod here;
mod init;
mod lines;
mod logs;
mod ls;
mod mcp;
mod merge;
mod moving;
mod open;
mod origin;
mod outlet;
mod output;
mod ports;
mod progress;
mod project;
mod ready;
mod receive_pack;
#[cfg(test)]
mod reference;
mod reload;
mod rename;
mod reset;
mod restart;
mod restore;
mod rm;
mod run;
mod runs;
mod schema;
mod secret;
mod send;
mod service;
mod session;
mod settings;
mod several;
mod show;
mod signals;
mod snapshot;
mod start;
mod stop;
mod stream;
mod sync;
mod table;
mod terminal;
mod token;
mod top;
mod trust;
mod up;
mod upload_pack;
mod user_checkout;
mod work;

use crate::{connect, launch, resolve, wiring};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use holm_core::{Code, Fault, Kind};
use output::{Format, Output};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

/// An island for every agent.
///
/// holm gives each coding agent a workspace: its own copy of the code, its own ports, home,
/// processes and limits, made in milliseconds, without root and without Docker.
///
/// WS stands for a label, project/label, an id, the beginning of an id, or (inside a workspace) `.`
#[derive(Debug, Parser)]
#[command(
    name = "holm",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        holm up fix-login                  make a workspace of this repository\n  \
        holm exec fix-login -- npm test    run something inside\n  \
        holm ls                            list all workspaces"
)]
pub struct Cli {
    /// Print one JSON document on stdout, and errors as JSON on stderr
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

/// Declares the verbs, each with the arguments of its module, and runs one by its module's `run`.
macro_rules! verbs {
    ($($(#[$attribute:meta])* $verb:ident($module:ident::$arguments:ident),)*) => {
        #[derive(Debug, Subcommand)]
        enum Verb {
            $($(#[$attribute])* $verb($module::$arguments),)*
        }

        fn run(context: &Context, verb: Verb) -> Outcome {
            match verb {
                $(Verb::$verb(arguments) => $module::run(context, arguments),)*
            }
        }
    };
}

verbs! {
    Up(up::UpArgs),
    Init(init::InitArgs),
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Rename(rename::RenameArgs),
    Start(start::StartArgs),
    Stop(stop::StopArgs),
    Restart(restart::RestartArgs),
    Snapshot(snapshot::SnapshotArgs),
    Fork(fork::ForkArgs),
    Reset(reset::ResetArgs),
    Rm(rm::RmArgs),
    Restore(restore::RestoreArgs),
    Gc(gc::GcArgs),
    Df(df::DfArgs),
    Open(open::OpenArgs),
    Exec(exec::ExecArgs),
    Enter(enter::EnterArgs),
    Run(run::RunArgs),
    Runs(runs::RunsArgs),
    Session(session::SessionArgs),
    Ports(ports::PortsArgs),
    Checkout(checkout::CheckoutArgs),
    Events(events::EventsArgs),
    Top(top::TopArgs),
    Service(service::ServiceArgs),
    Logs(logs::LogsArgs),
    Diff(diff::DiffArgs),
    Changes(changes::ChangesArgs),
    Fetch(fetch::FetchArgs),
    Apply(apply::ApplyArgs),
    Merge(merge::MergeArgs),
    Assign(assign::AssignArgs),
    Sync(sync::SyncArgs),
    Reload(reload::ReloadArgs),
    Secret(secret::SecretArgs),
    Egress(egress::EgressArgs),
    Here(here::HereArgs),
    Mcp(mcp::McpArgs),
    Project(project::ProjectArgs),
    Trust(trust::TrustArgs),
    Doctor(doctor::DoctorArgs),
    Token(token::TokenArgs),
    Audit(audit::AuditArgs),
    Daemon(daemon::DaemonArgs),
    Completions(completions::CompletionsArgs),
    Schema(schema::SchemaArgs),
    #[command(hide = true)]
    ReceivePack(receive_pack::ReceivePackArgs),
    #[command(hide = true)]
    UploadPack(upload_pack::UploadPackArgs),
    #[command(hide = true)]
    CarryOut(carry_out::CarryOutArgs),
}

/// What every verb gets besides its arguments.
pub struct Context {
    pub output: Output,
    /// When this process started; `up` measures from here.
    pub started: Instant,
}

/// The result of a verb.
pub type Outcome = Result<ExitCode, Fault>;

/// Runs the command line of this process.
pub fn main(started: Instant) -> ExitCode {
    completions::answer_shell();
    wiring::raise_limits();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return wrong_usage(&error, &arguments),
    };
    let format = if cli.json {
        Format::Json
    } else {
        Format::Human
    };
    let context = Context {
        output: Output::new(format),
        started,
    };
    let outcome = allowed_here(&cli.verb).and_then(|()| run(&context, cli.verb));
    outcome.unwrap_or_else(|fault| {
        context.output.fault(&fault);
        exit_code(&fault)
    })
}

/// Inside a workspace only verbs about this workspace work. Some need no daemon, the others use a
/// socket that has the rights of the workspace.
fn allowed_here(verb: &Verb) -> Result<(), Fault> {
    let needs_nobody = matches!(
        verb,
        Verb::Here(_) | Verb::Completions(_) | Verb::Schema(_) | Verb::Mcp(_)
    );
    let is_about_this = matches!(
        verb,
        Verb::Show(_)
            | Verb::Ports(_)
            | Verb::Service(_)
            | Verb::Logs(_)
            | Verb::Changes(_)
            | Verb::Diff(_)
            | Verb::Egress(_)
            | Verb::Snapshot(_)
    );
    if needs_nobody || !wiring::guest::is_inside() {
        return Ok(());
    }
    if is_about_this {
        connect::inside().map(|_| ())
    } else {
        Err(Fault::new(
            Code::InsideWorkspace,
            "this command is for outside: it does not work inside a workspace",
            "`holm here` says where you are and what works here; leave the workspace for this one",
        ))
    }
}

/// The exit code of a failure: a cancelled command ends as if the signal had ended it.
fn exit_code(fault: &Fault) -> ExitCode {
    match fault.code {
        Code::Cancelled => ExitCode::from(130),
        code => ExitCode::from(code.kind().exit_code()),
    }
}

/// Help and version are no errors; everything else is wrong usage, as text or as an error body.
fn wrong_usage(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if asked || !asks_for_json(arguments) {
        // A reader that is gone is not worth a message.
        let _ = error.print();
    } else {
        Output::new(Format::Json).fault(&usage_fault(error));
    }
    if asked {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(Kind::Usage.exit_code())
    }
}

/// Whether `--json` was typed, determined without a successful parse. Arguments after `--` are not
/// ours.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json")
}

fn usage_fault(error: &clap::Error) -> Fault {
    let text = error.render().to_string();
    let message = text
        .split("\n\n")
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .trim();
    let is_bare = matches!(
        error.kind(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand
    );
    if is_bare {
        return Fault::new(Code::Usage, "a command is missing", "see `holm --help`");
    }
    Fault::new(Code::Usage, message, "see `holm --help`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("holm").chain(line.iter().copied()))
    }

    #[test]
    fn json_is_taken_everywhere_but_behind_the_command() {
        assert!(parse(&["--json", "ls"]).unwrap().json);
        assert!(parse(&["ls", "--json"]).unwrap().json);
        assert!(parse(&["project", "ls", "--json"]).unwrap().json);
        let cli = parse(&["exec", "x", "--", "npm", "--json"]).unwrap();
        assert!(!cli.json);
    }

    #[test]
    fn wrong_usage_as_an_error_body() {
        let line: Vec<OsString> = ["holm", "shwo", "--json"].map(OsString::from).to_vec();
        assert!(asks_for_json(&line));
        let fault = usage_fault(&Cli::try_parse_from(&line).unwrap_err());
        assert_eq!(fault.code, Code::Usage);
        assert_eq!(fault.message(), "unrecognized subcommand 'shwo'");
        for line in [&["holm", "--json"][..], &["holm"], &["holm", "daemon"]] {
            let fault = usage_fault(&Cli::try_parse_from(line).unwrap_err());
            assert_eq!(fault.message(), "a command is missing", "{line:?}");
        }
        let line: Vec<OsString> = ["holm", "exec", "x", "--", "--json"]
            .map(OsString::from)
            .to_vec();
        assert!(!asks_for_json(&line));
    }
}
