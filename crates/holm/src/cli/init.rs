//! `holm init`: detects what a repository runs, shows it as a `holm.toml`, and writes that.
//!
//! Only files are read; nothing of the repository is executed, and no daemon is needed. The result
//! is parsed again before it is written, and an existing file is never replaced without `--force`.

use super::figures;
use super::output::{self, FAINT, GOOD, STRONG, WARNING, printable_lines};
use super::user_checkout::{Checkout, HOLM_TOML};
use super::{Context, Outcome, connect};
use clap::Args;
use holm_config::look;
use holm_core::detect::Proposal;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use serde::Serialize;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Find out what this repository runs, and write it as holm.toml
///
/// Looks at package.json, Procfile, Cargo.toml, Django, FastAPI, Flask, Rails, Go, Dockerfiles, example
/// settings, Compose files and Dev Containers, shows the file that it would write to the repository's
/// root, names programs that are not installed, and writes it: after a question on a terminal, at once
/// with --yes or without a terminal. In a subdirectory with a project of its own, it looks at that one.
/// A Compose file is named as it is, with what it asks of this machine and what holm refuses of it.
/// Each line says where it comes from; uncertain parts are comments. An existing holm.toml is left alone
/// (exit code 4) unless --force is given. Nothing of the repository is executed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm init\n  holm init --print\n  holm init --yes --force")]
pub struct InitArgs {
    /// Replace an existing holm.toml
    #[arg(long)]
    force: bool,
    /// Write without asking
    #[arg(long, conflicts_with = "print")]
    yes: bool,
    /// Print it on stdout and write nothing
    #[arg(long)]
    print: bool,
}

/// The JSON output.
#[derive(Serialize)]
struct Initialized {
    path: String,
    written: bool,
    /// Kinds of projects, such as `Node`, each with the file that shows it.
    found: Vec<Sign>,
    setup: Vec<String>,
    /// The Compose file, unless holm refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    compose: Option<String>,
    /// The `devcontainer.json` that the proposal names.
    #[serde(skip_serializing_if = "Option::is_none")]
    devcontainer: Option<String>,
    /// What the Compose file asks of this machine, each with its place: `holm trust` approves it.
    needs_approval: Vec<String>,
    /// Why holm refuses the Compose file, each with its place.
    refused: Vec<String>,
    /// Those of the Compose file come first.
    services: Vec<String>,
    /// Services that are in the file as comments.
    suggestions: Vec<String>,
    notes: Vec<String>,
    /// Programs that the commands start and that are not installed here.
    missing: Vec<Missing>,
    text: String,
}

#[derive(Serialize)]
struct Missing {
    program: String,
    /// A service, or `set-up`.
    needed_by: String,
}

#[derive(Serialize)]
struct Sign {
    kind: &'static str,
    file: String,
}

/// Whether the file existed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Something,
}

pub fn run(context: &Context, arguments: InitArgs) -> Outcome {
    connect::block_on(init(context, &arguments))
}

async fn init(context: &Context, arguments: &InitArgs) -> Outcome {
    let checkout = Checkout::find().await?;
    let path = checkout.repository.toplevel.join(HOLM_TOML);
    let before = match path.symlink_metadata() {
        Ok(_) => Before::Something,
        Err(_) => Before::Nothing,
    };
    if before == Before::Something && !arguments.force && !arguments.print {
        return Err(already_there(&path));
    }
    let proposal = propose(&checkout).await?;
    let text = proposal.to_toml();
    // A file that our own parser refuses is a bug of ours, and is not written.
    holm_config::project::parse(&text, HOLM_TOML).map_err(|errors| {
        let message = format!("what was found does not make a valid holm.toml:\n{errors}");
        Fault::new(Code::Internal, message, "this is a bug; please report it")
    })?;
    let mut initialized = Initialized::new(&path, &proposal, text);
    if arguments.print {
        context
            .output
            .result(&initialized, || initialized.text.clone());
        return Ok(ExitCode::SUCCESS);
    }
    context.output.remark(&shown(&path, &initialized.text));
    if let Some(warning) = initialized.warning() {
        context.output.remark(&warning);
    }
    let may_ask = !arguments.yes && !context.output.is_json() && output::can_ask();
    if may_ask && !agreed(&path, before).await? {
        let hint = "`holm init` shows it again; `holm init --print > FILE` writes it elsewhere";
        return Err(Fault::new(
            Code::Cancelled,
            "holm.toml was not written",
            hint,
        ));
    }
    write(&path, &initialized.text, before)?;
    initialized.written = true;
    context.output.done(&initialized, || {
        let next = "commit it, or try it with `holm up --dirty`";
        format!("{GOOD}✓{GOOD:#} wrote {HOLM_TOML}; {next}")
    });
    Ok(ExitCode::SUCCESS)
}

async fn propose(checkout: &Checkout) -> Result<Proposal, Fault> {
    let notable = checkout.git(|repository| repository.ignored_notable());
    let ignored = notable.await?;
    let (toplevel, current) = (
        checkout.repository.toplevel.clone(),
        checkout.current.clone(),
    );
    try_blocking(move || {
        look::propose(&toplevel, &current, ignored).map_err(|error| {
            Fault::new(
                Code::PathNotFound,
                format!("cannot look at {}", toplevel.display()),
                "make the directory readable",
            )
            .because(error)
        })
    })
    .await
}

fn shown(path: &Path, text: &str) -> String {
    let place = output::printable(&figures::place(&path.display().to_string()));
    let lines: Vec<String> = printable_lines(text)
        .lines()
        .map(|line| {
            if line.starts_with('#') {
                format!("{FAINT}{line}{FAINT:#}")
            } else {
                line.to_owned()
            }
        })
        .collect();
    format!("{STRONG}{place}{STRONG:#}\n\n{}\n", lines.join("\n"))
}

/// Asks in a separate thread, so that ctrl-C works meanwhile.
async fn agreed(path: &Path, before: Before) -> Result<bool, Fault> {
    let place = output::printable(&figures::place(&path.display().to_string()));
    try_blocking(move || {
        Ok(match before {
            // The text of a person would be lost.
            Before::Something => output::ask(&format!("Replace {place}?")),
            Before::Nothing => output::ask_wanted(&format!("Write {place}?")),
        })
    })
    .await
}

fn already_there(path: &Path) -> Fault {
    Fault::new(
        Code::ConfigExists,
        format!("there is a holm.toml: {}", path.display()),
        "`holm init --print` shows what would be written; `holm init --force` replaces the file",
    )
}

/// Writes the file atomically.
fn write(path: &Path, text: &str, before: Before) -> Result<(), Fault> {
    let failed = |error: std::io::Error| {
        Fault::new(
            Code::ReadOnly,
            format!("cannot write {}", path.display()),
            "`holm init --print > FILE` writes it elsewhere",
        )
        .because(error)
    };
    let directory: PathBuf = path.parent().unwrap_or(Path::new(".")).to_owned();
    let mut file = tempfile::Builder::new()
        .prefix(".holm.toml-")
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let persisted = match before {
        Before::Something => file.persist(path),
        Before::Nothing => file.persist_noclobber(path),
    };
    match persisted {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(already_there(path))
        }
        Err(error) => Err(failed(error.error)),
    }
}

// === impl Initialized ===

impl Initialized {
    fn new(path: &Path, proposal: &Proposal, text: String) -> Self {
        let signs = proposal.looks_like.iter().map(|sign| Sign {
            kind: sign.kind,
            file: sign.file.clone(),
        });
        let composed = proposal.compose.clone().unwrap_or_default();
        let mut contained = proposal.container.clone().unwrap_or_default();
        let is_used = contained.errors.is_empty() && contained.instead.is_none();
        let is_used = is_used && !contained.file.is_empty();
        if contained.instead.is_some() {
            contained.requests.clear();
        }
        let file = composed.file;
        let is_own = composed.errors.is_empty() && !file.is_empty();
        // The container names the other files itself.
        let compose = (is_own && !contained.compose.contains(&file)).then_some(file);
        let services = proposal.services.iter();
        let services = services.map(|service| service.name.clone());
        let suggestions = proposal.suggestions.iter();
        Self {
            path: path.display().to_string(),
            written: false,
            found: signs.collect(),
            setup: proposal
                .setup
                .iter()
                .map(|step| step.command.clone())
                .collect(),
            needs_approval: match compose {
                Some(_) => [contained.requests, composed.requests].concat(),
                None => contained.requests,
            },
            compose,
            devcontainer: is_used.then_some(contained.file),
            refused: [contained.errors, composed.errors].concat(),
            services: composed.services.into_iter().chain(services).collect(),
            suggestions: suggestions.map(|service| service.name.clone()).collect(),
            notes: proposal.remarks.clone(),
            missing: look::missing_programs(proposal)
                .into_iter()
                .map(|(program, needed_by)| Missing { program, needed_by })
                .collect(),
            text,
        }
    }

    /// Said before the file is written.
    fn warning(&self) -> Option<String> {
        let missing = self.missing.iter();
        let missing = missing.map(|it| format!("{} (for {})", it.program, it.needed_by));
        let missing: Vec<String> = missing.collect();
        let list = output::printable(&missing.join(", "));
        (!list.is_empty()).then(|| {
            format!("{WARNING}!{WARNING:#} not installed on this machine: {list}; install it, or change the line")
        })
    }
}
