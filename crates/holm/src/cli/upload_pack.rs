//! `holm upload-pack`: what git runs in place of `git upload-pack`, to reach the one inside a
//! workspace. Never typed by people; `fetch`, `apply` and `merge` name it to `git fetch`.

use super::attach::{Attachment, Target, attach};
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::client::Client;
use holm_api::exec::Start;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::inside;
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
    /// Added by git, ignored
    repository: Option<OsString>,
}

/// The time limit of a transfer.
const LIMIT_MS: u64 = 2 * 60 * 60 * 1000;

/// Any object may be requested: the state of the working tree is on no ref. Progress messages of
/// upload-pack distinguish a blocked pack from one that takes long.
const COMMAND: [&str; 10] = [
    "git",
    "-c",
    "uploadpack.allowAnySHA1InWant=true",
    "-c",
    "uploadpack.hideRefs=refs/",
    "-c",
    "uploadpack.keepAlive=0",
    "upload-pack",
    "--timeout=600",
    ".",
];

pub fn run(_: &Context, arguments: UploadPackArgs) -> Outcome {
    let id = WorkspaceId::parse(&arguments.workspace)
        .map_err(|error| Fault::of(Code::Usage, error, "only git runs this"))?;
    let bytes = |word: &str| word.as_bytes().to_vec().into();
    let start = Start {
        argv: COMMAND.iter().map(|word| bytes(word)).collect(),
        env: vec![(bytes("GIT_PROTOCOL"), bytes("version=2"))],
        timeout_ms: Some(LIMIT_MS),
        quiet_ms: u64::try_from(inside::quiet_transfer().as_millis()).ok(),
        ..Start::default()
    };
    let code = connect::block_on(async {
        let client = Client::connect(arguments.socket).await?;
        attach(&client, Target::Known(&id), start, Attachment::Pipes).await
    })?;
    Ok(ExitCode::from(code))
}
