//! `holm ui`: opens the dashboard in the user's browser.
//!
//! Other users of the machine can read the arguments of programs, so the code is not among them: the browser is given a
//! file that only this user can read, and that page leads to the address with the code.

use super::open::has_display;
use super::output::GOOD;
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::dashboard::Opened;
use holm_config::paths::Paths;
use holm_core::{Code, Fault};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Open the dashboard in your browser
///
/// The address has a code that signs one browser in and works once, within five minutes. With --json: {url,
/// expires_seconds}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm ui\n  holm ui --print")]
pub struct UiArgs {
    /// Print the address and open nothing
    #[arg(long)]
    print: bool,
}

/// Programs that open a file with what the user prefers.
const OPENERS: [&str; 3] = ["xdg-open", "wslview", "sensible-browser"];

pub fn run(context: &Context, arguments: UiArgs) -> Outcome {
    let opened = connect::block_on(async { connect::started().await?.open_dashboard().await })?;
    if arguments.print || context.output.is_json() {
        context.output.result(&opened, || opened.url.clone());
        return Ok(ExitCode::SUCCESS);
    }
    if !has_display() {
        context.output.asked_for(&opened.url);
        let note = "no display here: open this address in a browser of this machine; it works once, within 5 min";
        context.output.remark(note);
        return Ok(ExitCode::SUCCESS);
    }
    let file = write_redirect(&opened)?;
    show(&file)?;
    let address = opened.url.split('#').next().unwrap_or_default();
    let shown = format!("{GOOD}✓{GOOD:#} {address}  opened in your browser");
    context.output.remark(&shown);
    Ok(ExitCode::SUCCESS)
}

/// Writes a page that redirects to the dashboard.
fn write_redirect(opened: &Opened) -> Result<PathBuf, Fault> {
    let file = Paths::of_process()?.run_dir.join("dashboard.html");
    let new = file.with_extension("new");
    let write = || {
        let mut written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        // The address consists of letters, digits and punctuation that HTML does not change.
        write!(
            written,
            "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={}\">",
            opened.url
        )?;
        std::fs::rename(&new, &file)
    };
    write().map_err(|error| {
        let message = format!("cannot write {}", file.display());
        Fault::new(Code::NoBrowser, message, PRINT).because(error)
    })?;
    Ok(file)
}

const PRINT: &str = "`holm ui --print` prints the address";

fn show(file: &Path) -> Result<(), Fault> {
    for opener in OPENERS {
        let started = Command::new(opener)
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match started {
            Ok(status) if status.success() => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let message = format!("{opener} cannot be started");
                return Err(Fault::new(Code::NoBrowser, message, PRINT).because(error));
            }
            _ => {}
        }
    }
    let message = format!("no program opened a browser; tried {}", OPENERS.join(", "));
    Err(Fault::new(Code::NoBrowser, message, PRINT))
}
