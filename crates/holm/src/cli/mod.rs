//! The command line: one file per verb, with its arguments (whose doc is the help text) and `run`.
//!
//! Verbs reach the engine only through the daemon's API. Output goes through [`output`], and every
//! failure is a [`Fault`] whose kind decides the exit code here, in one place.

mod apply;
mod approve;
mod assign;
mod attach;
mod audit;
mod browser;
mod build;
mod carry_out;
mod changes;
mod check;
mod checkout;
mod clone;
mod comment;
mod comments;
mod compare;
mod completions;
mod consent;
mod daemon;
mod daemon_unit;
mod df;
mod diff;
mod direct;
mod doctor;
mod egress;
mod enter;
mod events;
mod exec;
mod fetch;
mod figures;
mod find;
mod fork;
mod gc;
mod groups;
mod gutter;
mod habits;
mod help;
mod here;
mod image;
mod inbox;
mod init;
mod left;
mod lines;
mod logs;
mod ls;
mod mcp;
mod merge;
mod moving;
mod notify;
mod open;
mod origin;
mod outlet;
mod output;
mod overview;
mod patch_stat;
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
mod review;
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
mod store;
mod stream;
mod switch;
mod sync;
mod table;
mod terminal;
mod token;
mod top;
mod trust;
mod trust_question;
mod turns;
mod ui;
mod up;
mod upload_pack;
mod user_checkout;
mod work;

use crate::{connect, launch, resolve, wiring};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use habits::Asked;
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
/// WS is a label, project/label, an id or a unique prefix of one; inside a workspace also `.`
#[derive(Debug, Parser)]
#[command(
    name = "holm",
    version,
    after_help = "Examples:\n  \
        holm up fix-login                  make a workspace of this repository\n  \
        holm exec fix-login -- npm test    run something inside\n  \
        holm ls                            list all workspaces"
)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Args)]
struct Common {
    /// One JSON document on stdout, and errors as JSON on stderr
    #[arg(long, global = true)]
    json: bool,
    /// Only ids of actions, names of lists, and errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    color: Color,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// Declares the verbs, each with the arguments of its module, and runs one by its module's `run`.
macro_rules! verbs {
    ($($(#[$attribute:meta])* $verb:ident($module:ident::$arguments:ident),)*) => {
        #[derive(Debug, Subcommand)]
        enum Verb {
            $($(#[$attribute])* $verb($module::$arguments),)*
        }

        /// The arguments of one verb, added to a command of its name. Building those of all verbs
        /// would cost each command a part of a millisecond.
        fn arguments_of(verb: &str) -> Option<fn(clap::Command) -> clap::Command> {
            $(if is_kebab_of(verb, stringify!($verb)) {
                return Some(<$module::$arguments as Args>::augment_args);
            })*
            None
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
    Inbox(inbox::InboxArgs),
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
    Ui(ui::UiArgs),
    Switch(switch::SwitchArgs),
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
    Turns(turns::TurnsArgs),
    Review(review::ReviewArgs),
    Compare(compare::CompareArgs),
    Approve(approve::ApproveArgs),
    Check(check::CheckArgs),
    Comment(comment::CommentArgs),
    Comments(comments::CommentsArgs),
    Fetch(fetch::FetchArgs),
    Apply(apply::ApplyArgs),
    Merge(merge::MergeArgs),
    Assign(assign::AssignArgs),
    Sync(sync::SyncArgs),
    Reload(reload::ReloadArgs),
    Image(image::ImageArgs),
    Secret(secret::SecretArgs),
    Egress(egress::EgressArgs),
    Here(here::HereArgs),
    Notify(notify::NotifyArgs),
    Mcp(mcp::McpArgs),
    Project(project::ProjectArgs),
    Trust(trust::TrustArgs),
    Doctor(doctor::DoctorArgs),
    Token(token::TokenArgs),
    Audit(audit::AuditArgs),
    Daemon(daemon::DaemonArgs),
    Store(store::StoreArgs),
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
    let typed: Vec<OsString> = std::env::args_os().collect();
    let arguments = match habits::asked(habits::translated(typed)) {
        Asked::Line(line) => line,
        asked => return answer(&asked, started),
    };
    let cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(error) => return wrong_usage(&error, &arguments),
    };
    cli.common.color.set();
    let context = Context {
        output: cli.common.output(),
        started,
    };
    let outcome = allowed_here(&cli.verb).and_then(|()| run(&context, cli.verb));
    outcome.unwrap_or_else(|fault| {
        context.output.fault(&fault);
        exit_code(&fault)
    })
}

/// Answers a line without a verb.
fn answer(asked: &Asked, started: Instant) -> ExitCode {
    let context = Context {
        output: Output::new(Format::Human),
        started,
    };
    match asked {
        Asked::Overview => overview::run(&context).unwrap_or_else(|fault| {
            context.output.fault(&fault);
            exit_code(&fault)
        }),
        Asked::AllHelp => {
            context.output.asked_for(&help::all(&verbs()));
            ExitCode::SUCCESS
        }
        Asked::Help | Asked::Line(_) => {
            context.output.asked_for(&help::short());
            ExitCode::SUCCESS
        }
    }
}

/// The verbs that people may type, each with the first line of its help.
fn verbs() -> Vec<(String, String)> {
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs = shown.map(|verb| {
        let about = verb.get_about().map(ToString::to_string);
        (verb.get_name().to_owned(), about.unwrap_or_default())
    });
    verbs.collect()
}

/// Parses the command line with the arguments of its verb only. Help, errors and options before the
/// verb need all verbs.
fn parse(line: &[OsString]) -> Result<Cli, clap::Error> {
    let verb = line.get(1).and_then(|word| word.to_str());
    let alone = verb.and_then(|verb| {
        // clap keeps only static text, and this happens once per process.
        let name: &'static str = verb.to_owned().leak();
        let command = arguments_of(verb)?(clap::Command::new(name));
        let command = Common::augment_args(clap::Command::new("holm").subcommand(command));
        let matches = command.try_get_matches_from(line).ok()?;
        Cli::from_arg_matches(&matches).ok()
    });
    match alone {
        Some(cli) => Ok(cli),
        None => {
            let matches = help::arranged(Cli::command()).try_get_matches_from(line)?;
            Cli::from_arg_matches(&matches)
        }
    }
}

/// Whether `word` is the name of a verb as it is typed: `carry-out` of `CarryOut`.
fn is_kebab_of(word: &str, verb: &str) -> bool {
    let mut kebab = String::with_capacity(verb.len() + 2);
    for (place, letter) in verb.char_indices() {
        if letter.is_ascii_uppercase() && place > 0 {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    word == kebab
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
            | Verb::Turns(_)
            | Verb::Review(_)
            | Verb::Check(_)
            | Verb::Comments(_)
            | Verb::Egress(_)
            | Verb::Inbox(_)
            | Verb::Notify(_)
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
    let is_asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if is_asked {
        // A reader that is gone is not worth a message.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let format = if asks_for_json(arguments) {
        Format::Json
    } else {
        Format::Human
    };
    Output::new(format).fault(&habits::fault(error, arguments, &Cli::command()));
    ExitCode::from(Kind::Usage.exit_code())
}

/// Whether `--json` was typed, determined without a successful parse. Arguments after `--` are not
/// ours.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json")
}

// === impl Common ===

impl Common {
    fn output(&self) -> Output {
        let format = if self.json {
            Format::Json
        } else {
            Format::Human
        };
        let output = Output::new(format);
        if self.quiet { output.quiet() } else { output }
    }
}

// === impl Color ===

impl Color {
    /// Puts it in force for the whole program.
    fn set(self) {
        match self {
            Color::Auto => {}
            Color::Always => anstream::ColorChoice::Always.write_global(),
            Color::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
        let line = std::iter::once("holm").chain(line.iter().copied());
        super::parse(&line.map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn json_is_taken_everywhere_but_behind_the_command() {
        assert!(parse(&["--json", "ls"]).unwrap().common.json);
        assert!(parse(&["ls", "--json"]).unwrap().common.json);
        assert!(parse(&["project", "ls", "--json"]).unwrap().common.json);
        let cli = parse(&["exec", "x", "--", "npm", "--json"]).unwrap();
        assert!(!cli.common.json);
    }

    #[test]
    fn every_verb_is_parsed_alone() {
        for verb in Cli::command().get_subcommands() {
            let add =
                arguments_of(verb.get_name()).unwrap_or_else(|| panic!("{}", verb.get_name()));
            let alone = add(clap::Command::new("verb"));
            let ids = |command: &clap::Command| -> Vec<String> {
                let ids = command.get_arguments().map(|it| it.get_id().to_string());
                ids.collect()
            };
            assert_eq!(ids(&alone), ids(verb));
            let other_name = verb.get_all_aliases().next();
            assert_eq!(other_name, None, "`arguments_of` does not find it");
        }
    }

    #[test]
    fn errors_are_those_of_the_whole_command_line() {
        for line in [&["exec", "x"][..], &["exec", "--help"], &["up", "--nosuch"]] {
            let line = std::iter::once("holm").chain(line.iter().copied());
            let line: Vec<OsString> = line.map(OsString::from).collect();
            let alone = super::parse(&line).unwrap_err().to_string();
            let whole = help::arranged(Cli::command()).try_get_matches_from(&line);
            assert_eq!(alone, whole.unwrap_err().to_string());
        }
    }

    #[test]
    fn wrong_usage_says_what_was_meant() {
        let check = |words: &str, message: &str, hint: &str| {
            let words = words.split_whitespace();
            let line = std::iter::once("holm").chain(words).map(OsString::from);
            let line: Vec<OsString> = line.collect();
            let error = super::parse(&line).unwrap_err();
            let fault = habits::fault(&error, &line, &Cli::command());
            assert_eq!(fault.code, Code::Usage);
            assert_eq!(
                (fault.message().as_str(), fault.hint.as_str()),
                (message, hint)
            );
        };
        check("shwo --json", "no command shwo", "did you mean   holm show");
        check("nosuchthing", "no command nosuchthing", "see `holm help`");
        check(
            "diff fix-login --sta",
            "diff has no option --sta",
            "did you mean   holm diff fix-login --stat",
        );
        check(
            "rm x --recursive",
            "rm has no option --recursive",
            "it has --force; see `holm help rm`",
        );
        check(
            "session attach x --read",
            "session attach has no option --read",
            "did you mean   holm session attach x --read-only",
        );
        check(
            "stop x --now",
            "stop has no option --now",
            "see `holm help stop`",
        );
        check(
            "exec x",
            "exec needs a command after --",
            "for example   holm exec fix-login -- npm test",
        );
        check("show", "show needs a workspace", "list them   holm ls");
        check(
            "snapshot x",
            "snapshot needs NAME",
            "for example   holm snapshot fix-login before-upgrade",
        );
        check(
            "run x fix it",
            "run does not take another argument: it",
            "quote the message   holm run WS \"…\"",
        );
        check(
            "service restart x web",
            "service restart does not take another argument: web",
            "the workspace comes first   holm service WS restart NAME",
        );
        check("--json", "holm needs a command", "see `holm help`");
        check("daemon", "daemon needs a command", "see `holm help daemon`");
        check("statsu", "no command statsu", "did you mean   holm status");
        check(
            "compare x",
            "compare needs two or more workspaces of one project",
            "list them     holm ls\ncompare two   holm compare WS WS",
        );
        check("delet x", "no command delet", "did you mean   holm rm");
        check(
            "daemon statsu",
            "daemon has no command statsu",
            "did you mean   holm daemon status",
        );
        check(
            "doctor x",
            "doctor does not take another argument: x",
            "see `holm help doctor`",
        );
        let line: Vec<OsString> = ["holm", "exec", "x", "--", "--json"]
            .map(OsString::from)
            .to_vec();
        assert!(!asks_for_json(&line));
    }
}
