//! `holm session`: terminals that continue without a client. One file per verb.

mod attach;
mod find;
mod kill;
mod ls;
mod new;
mod read;
mod screen;
mod send;
mod wait;

pub use attach::{AttachArgs, run as attach_to};

use super::{Context, Outcome};
use clap::{Args, Subcommand};

/// Long-lived terminals: start one, attach, detach with ctrl-\, type, read, wait
///
/// A session is a program in its own terminal, usually an agent. It outlives this command, the
/// daemon and every client; `holm stop` ends it. S stands for an id, a name, the beginning of an
/// id, or WS/NAME.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm session new fix-login --agent claude --name review\n  \
    holm session attach review                    ctrl-\\ detaches\n  \
    holm session send review --enter 'run the tests'\n  \
    holm session wait review --idle 5s\n  \
    holm session read review")]
pub struct SessionArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    New(new::NewArgs),
    Ls(ls::LsArgs),
    Attach(attach::AttachArgs),
    Send(send::SendArgs),
    Read(read::ReadArgs),
    Wait(wait::WaitArgs),
    Kill(kill::KillArgs),
}

pub fn run(context: &Context, arguments: SessionArgs) -> Outcome {
    match arguments.verb {
        Verb::New(arguments) => new::run(context, arguments),
        Verb::Ls(arguments) => ls::run(context, arguments),
        Verb::Attach(arguments) => attach::run(context, arguments),
        Verb::Send(arguments) => send::run(context, arguments),
        Verb::Read(arguments) => read::run(context, arguments),
        Verb::Wait(arguments) => wait::run(context, arguments),
        Verb::Kill(arguments) => kill::run(context, arguments),
    }
}
