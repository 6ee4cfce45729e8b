//! `holm receive-pack`: what git runs in place of `git receive-pack`, to reach the daemon. Never
//! typed by people; `up` names it to `git send-pack`.

use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::client::Client;
use holm_core::{Code, Fault, ProjectId};
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::ExitCode;

/// Carry git's bytes to the daemon's repository of a project
#[derive(Debug, Args)]
pub struct ReceivePackArgs {
    /// The daemon's socket
    socket: PathBuf,
    /// The id of the project
    project: String,
    /// Added by git, ignored
    repository: Option<OsString>,
}

pub fn run(_: &Context, arguments: ReceivePackArgs) -> Outcome {
    let id = ProjectId::parse(&arguments.project)
        .map_err(|error| Fault::of(Code::Usage, error, "only git runs this"))?;
    connect::block_on(async {
        let client = Client::connect(arguments.socket).await?;
        let input = file(rustix::stdio::stdin())?;
        let output = file(rustix::stdio::stdout())?;
        client.receive_pack(&id).await?.pump(input, output).await
    })?;
    Ok(ExitCode::SUCCESS)
}

fn file(descriptor: BorrowedFd<'_>) -> Result<tokio::fs::File, Fault> {
    let owned = descriptor.try_clone_to_owned().map_err(|error| {
        let message = "cannot use stdin and stdout";
        Fault::new(Code::Internal, message, "only git runs this").because(error)
    })?;
    Ok(tokio::fs::File::from_std(std::fs::File::from(owned)))
}
