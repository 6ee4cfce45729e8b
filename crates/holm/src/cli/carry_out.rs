//! `holm carry-out`: makes the moves that an `apply` planned, and continues when that apply is
//! killed or interrupted. Never typed by people; `apply` runs it, with the lock of the plan as its
//! stdin.

use super::{Context, Outcome};
use clap::Args;
use holm_api::ErrorBody;
use holm_core::{Code, Fault};
use holm_git::Repository;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Carry out the plan of an apply
#[derive(Debug, Args)]
pub struct CarryOutArgs {
    /// The checkout
    checkout: PathBuf,
}

pub fn run(_: &Context, arguments: CarryOutArgs) -> Outcome {
    Repository::discover(&arguments.checkout)?.carry_out_apply()?;
    Ok(ExitCode::SUCCESS)
}

/// Runs it in a separate process. `None`: it was killed.
pub fn carry_out(checkout: &Path, lock: File) -> Option<Result<(), Fault>> {
    let ran = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args(["--json", "carry-out"])
            .arg(checkout)
            // Its own process group: an interrupt from the terminal does not reach it.
            .process_group(0)
            .stdin(Stdio::from(lock))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
    });
    let ended = match ran {
        Ok(ended) => ended,
        Err(error) => {
            let message = "cannot run a second process of this program";
            let hint = "nothing was changed; type the command again";
            return Some(Err(Fault::new(Code::Internal, message, hint).because(error)));
        }
    };
    if ended.status.success() {
        return Some(Ok(()));
    }
    ended.status.code()?;
    let body = serde_json::from_slice::<ErrorBody>(&ended.stderr);
    Some(Err(match body {
        Ok(body) => Fault::from(body),
        Err(_) => {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            Fault::new(Code::Internal, said, "type the command again")
        }
    }))
}
