//! `holm up --at WS@3`: a new workspace with the files of another workspace's turn.

use crate::cli::resolve;
use holm_api::client::Client;
use holm_api::review::TurnWish;
use holm_api::workspace::Dirty;
use holm_core::turn::TurnNumber;
use holm_core::{Code, Fault, WorkspaceId};

/// The commit that the workspace of a turn started from; `None`: the project had none.
pub async fn commit(client: &Client, typed: &str) -> Result<Option<String>, Fault> {
    let (id, number) = parse(client, typed).await?;
    let wish = TurnWish {
        turn: number.0,
        only_commit: true,
    };
    Ok(client.turn_state(&id, &wish).await?.commit)
}

/// The files of a turn as an uncommitted state. The daemon uses each once.
pub async fn state(client: &Client, typed: &str) -> Result<Dirty, Fault> {
    let (id, number) = parse(client, typed).await?;
    let wish = TurnWish {
        turn: number.0,
        only_commit: false,
    };
    let dirty = client.turn_state(&id, &wish).await?.dirty;
    dirty.ok_or_else(|| {
        let message = "the daemon did not send the files of the turn";
        Fault::new(Code::Internal, message, "is the daemon of another version?")
    })
}

async fn parse(client: &Client, typed: &str) -> Result<(WorkspaceId, TurnNumber), Fault> {
    let (workspace, number) = TurnNumber::split(typed).ok_or_else(|| {
        let message = format!("`{}` is not a turn of a workspace", typed.escape_debug());
        Fault::new(
            Code::Usage,
            message,
            "type it as `fix-login@2`; `holm turns WS` lists them",
        )
    })?;
    Ok((resolve::one(client, workspace).await?, number))
}
