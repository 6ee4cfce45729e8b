//! `holm store`: copies, backups and restored backups of the daemon's state. Works on the store itself, not through the
//! daemon.

use super::output::{GOOD, printable};
use super::{Context, Outcome, launch, wiring};
use clap::{Args, Subcommand};
use holm_config::daemon_user::DaemonUser;
use holm_core::store_place::StorePlace;
use holm_core::{Code, Fault};
use holm_server::startup::{DataLock, private_dir};
use holm_store::{Content, Place};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// Copy, back up and restore the daemon's state
///
/// The state is what holm knows of projects, workspaces, runs, reviews and tokens: a file, or a PostgreSQL database if
/// `[daemon] store` of config.toml names one. The files of workspaces, repositories and the sealed secrets are not part of
/// it.
#[derive(Debug, Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Copy(CopyArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
}

/// Copy the state to another store, which must be unused
///
/// Daemons of both must be stopped. What was written is read again and compared. A URL has no password: it is read from
/// PostgreSQL's password file, or from `store_password_file` for the database of config.toml.
///
/// With --json: {from,to,tables:[{table,rows,digest}]}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm store copy --from sqlite:$HOME/.local/share/holm/holm.db --to postgres://holm@db.example.org/holm\n  \
    holm store copy --from postgres://holm@db.example.org/holm --to sqlite:/srv/holm.db")]
struct CopyArgs {
    /// The store to read: sqlite:PATH or postgres://USER@HOST:PORT/NAME
    #[arg(long, value_name = "URL")]
    from: String,
    /// The store to write
    #[arg(long, value_name = "URL")]
    to: String,
}

/// Write the whole state into one file, also while the daemon works
///
/// Only you can read the file. It has no values of secrets and not the key that seals them.
///
/// With --json: {file,tables:[{table,rows,digest}]}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm store backup holm-monday.db")]
struct BackupArgs {
    /// The file, which is replaced if it exists
    file: PathBuf,
}

/// Replace the state by a backup
///
/// The daemon must be stopped. A store with content is only replaced with --force; a file in the data directory keeps
/// the earlier content, and can be restored as well. Workspaces that the backup does not know stay on the disk: `holm gc`
/// lists them.
///
/// With --json: {file,store,kept,tables:[{table,rows,digest}]}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm daemon stop && holm store restore holm-monday.db --force")]
struct RestoreArgs {
    /// A file of `holm store backup`
    file: PathBuf,
    /// Replace a store that has content
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Serialize)]
struct Copied {
    from: String,
    to: String,
    tables: Vec<Content>,
}

#[derive(Debug, Serialize)]
struct BackedUp {
    file: PathBuf,
    tables: Vec<Content>,
}

#[derive(Debug, Serialize)]
struct Restored {
    file: PathBuf,
    store: String,
    kept: Option<PathBuf>,
    tables: Vec<Content>,
}

pub fn run(context: &Context, arguments: StoreArgs) -> Outcome {
    let user = DaemonUser::current()?;
    if matches!(user, DaemonUser::Service(_)) {
        // The files and the database belong to the daemon's user.
        let words: Vec<String> = std::env::args().skip(1).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        return Err(launch::replace(&user, &words));
    }
    match arguments.action {
        Action::Copy(arguments) => copy(context, &arguments),
        Action::Backup(arguments) => backup(context, arguments.file),
        Action::Restore(arguments) => restore(context, arguments),
    }
}

fn copy(context: &Context, arguments: &CopyArgs) -> Outcome {
    let (from, to) = (named("from", &arguments.from)?, named("to", &arguments.to)?);
    let copied = Copied {
        from: from.to_string(),
        to: to.to_string(),
        tables: Vec::new(),
    };
    let (from, to) = (wiring::store::named(from)?, wiring::store::named(to)?);
    let _locks = locks([&from, &to])?;
    let tables = holm_store::copy(&from, &to)?;
    let copied = Copied { tables, ..copied };
    context.output.done(&copied, || {
        let Copied { from, to, tables } = &copied;
        let rows = rows(tables);
        let (from, to) = (printable(from), printable(to));
        format!("{GOOD}✓{GOOD:#} {rows} copied from {from} to {to}, and compared")
    });
    Ok(ExitCode::SUCCESS)
}

fn backup(context: &Context, file: PathBuf) -> Outcome {
    let tables = holm_store::backup(&wiring::store::own()?, &file)?;
    let done = BackedUp { file, tables };
    context.output.done(&done, || {
        let file = printable(&done.file.display().to_string());
        format!("{GOOD}✓{GOOD:#} {} in {file}", rows(&done.tables))
    });
    Ok(ExitCode::SUCCESS)
}

fn restore(context: &Context, arguments: RestoreArgs) -> Outcome {
    let RestoreArgs { file, force } = arguments;
    let paths = DaemonUser::current()?.paths()?;
    private_dir(&paths.data_dir)?;
    let _lock = DataLock::acquire(&paths.data_dir.join("lock"))?;
    let now = Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let aside = paths.data_dir.join(format!("store-before-{now}.db"));
    let place = wiring::store::own()?;
    let restored = holm_store::restore(&file, &place, force.then_some(&*aside))?;
    let done = Restored {
        file,
        store: shown(&place),
        kept: restored.kept,
        tables: restored.contents,
    };
    context.output.done(&done, || {
        let (rows, store) = (rows(&done.tables), printable(&done.store));
        let kept = match &done.kept {
            Some(kept) => format!(
                "; the earlier content is in {}",
                printable(&kept.display().to_string())
            ),
            None => String::new(),
        };
        format!("{GOOD}✓{GOOD:#} {rows} restored to {store}{kept}")
    });
    context.output.next(&[(
        "holm gc",
        "names workspaces on the disk that the backup does not know",
    )]);
    Ok(ExitCode::SUCCESS)
}

/// A store that a person named. The error does not repeat a text that may have a password.
fn named(option: &str, text: &str) -> Result<StorePlace, Fault> {
    StorePlace::parse(text).map_err(|error| {
        let message = format!("the URL of `--{option}` cannot be used");
        let hint = "`holm store copy --help` shows both forms";
        Fault::new(Code::Usage, message, hint).because(error)
    })
}

/// The locks of the data directories that files are in: no daemon uses the files then.
fn locks(places: [&Place; 2]) -> Result<Vec<DataLock>, Fault> {
    let locks = places.into_iter().filter_map(|place| match place {
        Place::File(file) => Some(file.parent()?.join("lock")),
        Place::Server(_) => None,
    });
    // Both may be in one directory.
    let locks: BTreeSet<PathBuf> = locks.filter(|lock| lock.exists()).collect();
    locks.iter().map(|lock| DataLock::acquire(lock)).collect()
}

fn shown(place: &Place) -> String {
    match place {
        Place::File(file) => file.display().to_string(),
        Place::Server(server) => server.to_string(),
    }
}

fn rows(tables: &[Content]) -> String {
    let rows: u64 = tables.iter().map(|content| content.rows).sum();
    format!("{rows} rows of {} tables", tables.len())
}
