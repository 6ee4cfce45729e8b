//! `holm upload-pack`: what git runs in place of `git upload-pack`, to reach the one inside a
//! workspace. Never typed by people; `fetch`, `apply` and `merge` name it to `git fetch`.

use super::attach::{Target, attach};
use super::terminal::Attachment;
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::client::Client;
use holm_api::exec::Start;
use holm_core::{Code, Fault, WorkspaceId};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Carry git's bytes from a workspace
#[derive(Debug, Args)]
pub struct UploadPackArgs {
    /// The daemon's socket
    socket: PathBuf,
    /// The id of the workspace
    workspace: String,
    /// The commit that is fetched
    commit: String,
    /// Added by git, ignored
    repository: Option<OsString>,
}

pub fn run(_: &Context, arguments: UploadPackArgs) -> Outcome {
    let id = WorkspaceId::parse(&arguments.workspace)
        .map_err(|error| Fault::of(Code::Usage, error, "only git runs this"))?;
    let code = connect::block_on(async {
        let client = Client::connect(arguments.socket).await?;
        let target = Target::Fetch(&id, &arguments.commit);
        attach(&client, target, Start::default(), Attachment::Pipes).await
    })?;
    Ok(ExitCode::from(code))
}
