//! `holm session send`: types into a session.

use super::super::{Context, Outcome, connect};
use super::find;
use clap::Args;
use holm_api::exec::Bytes;
use holm_api::session::SendInput;
use holm_core::session::keys::{self, CursorKeys};
use holm_core::{Code, Fault};
use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

/// Type text or keys into a session
///
/// At once: the text, then the keys, then Enter if requested. Without text and keys it types what
/// comes on stdin. Several lines arrive as pasted text if the program supports that. --json prints
/// a cursor; `session read --since CURSOR` returns only output after this text.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm session send review --enter 'run the tests'\n  \
    holm session send review --keys C-c\n  \
    holm session send review --keys Down Down Enter\n  \
    git diff | holm session send review --enter")]
pub struct SendArgs {
    /// An id, a name, the beginning of an id, or WS/NAME
    #[arg(value_name = "S", add = find::sessions())]
    session: String,
    /// What to type
    #[arg(value_name = "TEXT")]
    text: Option<OsString>,
    /// Press Enter afterwards
    #[arg(short, long)]
    enter: bool,
    /// Keys to press: Enter, Escape, Tab, Up, PageDown, F1, C-c (ctrl), M-x (alt), …
    #[arg(long, value_name = "KEY", num_args = 1..)]
    keys: Vec<String>,
}

/// The limit of one `send`.
const MOST: u64 = 256 * 1024;

pub fn run(context: &Context, arguments: SendArgs) -> Outcome {
    let is_no_key = |name: &&String| keys::bytes(name, CursorKeys::Normal).is_none();
    if let Some(name) = arguments.keys.iter().find(is_no_key) {
        return Err(Fault::new(
            Code::Usage,
            format!("there is no key `{}`", name.escape_debug()),
            "keys are Enter, Escape, Tab, Up, PageDown, F1, C-c, M-x and the like; text is typed as it is",
        ));
    }
    let text = match arguments.text {
        Some(text) => Some(text.into_vec()),
        None if arguments.keys.is_empty() && !std::io::stdin().is_terminal() => Some(piped()?),
        None => None,
    }
    .filter(|text| !text.is_empty());
    if text.is_none() && arguments.keys.is_empty() && !arguments.enter {
        return Err(Fault::new(
            Code::Usage,
            "there is nothing to type",
            "say TEXT, --keys or --enter, or pipe something in",
        ));
    }
    let input = SendInput {
        text: text.map(Bytes::from),
        keys: arguments.keys,
        enter: arguments.enter,
    };
    let sent = connect::block_on(async {
        let client = connect::started().await?;
        let found = find::one(&client, &arguments.session).await?;
        let sent = client.send_to_session(&found.workspace, &found.id, &input);
        sent.await
    })?;
    if context.output.is_json() {
        context.output.document(&sent);
    }
    Ok(ExitCode::SUCCESS)
}

fn piped() -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(MOST + 1).read_to_end(&mut bytes);
    read.map_err(|error| {
        let message = "cannot read stdin";
        Fault::new(Code::Internal, message, "say what to type as an argument").because(error)
    })?;
    Ok(bytes)
}
