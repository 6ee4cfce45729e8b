//! Requests to a workspace's keeper.

use crate::launch::{descriptor_path, open_directory};
use crate::layout::WorkspaceDirs;
use crate::wire::{Answer, MAX_FRAME, Op, Request, channel, control_frame, spoken_version};
use holm_core::{Code, Fault};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A keeper answers at once; one that does not is broken.
const PATIENCE: Duration = Duration::from_secs(2);

/// Connects through the directory's descriptor, because a socket's path is limited to 107 bytes.
pub async fn connect(dirs: &WorkspaceDirs) -> io::Result<UnixStream> {
    let (Some(parent), Some(name)) = (dirs.socket.parent(), dirs.socket.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let directory = open_directory(parent)?;
    UnixStream::connect(descriptor_path(&directory).join(name)).await
}

pub async fn ask(dirs: &WorkspaceDirs, op: Op) -> Result<Answer, Fault> {
    ask_within(dirs, op, PATIENCE).await
}

pub async fn ask_within(dirs: &WorkspaceDirs, op: Op, limit: Duration) -> Result<Answer, Fault> {
    let talk = async {
        let mut stream = connect(dirs).await?;
        stream
            .write_all(&control_frame(&Request {
                version: spoken_version(),
                op,
            })?)
            .await?;
        read_answer(&mut stream).await
    };
    let answer = match tokio::time::timeout(limit, talk).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(keeper_fault(&error.to_string())),
        Err(_) => return Err(keeper_fault("it does not answer")),
    };
    match answer {
        Answer::Refused(why) => Err(refused(&why)),
        other => Ok(other),
    }
}

/// Reads one complete frame.
pub async fn read_frame(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let length = stream.read_u32_le().await? as usize;
    let kind = stream.read_u8().await?;
    if length > MAX_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the frame is too long",
        ));
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    Ok((kind, payload))
}

async fn read_answer(stream: &mut UnixStream) -> io::Result<Answer> {
    let (kind, payload) = read_frame(stream).await?;
    if kind != channel::CONTROL {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer"));
    }
    Ok(serde_json::from_slice(&payload)?)
}

/// The fault for a keeper that refuses a request.
pub fn refused(why: &str) -> Fault {
    Fault::new(
        Code::ExecFailed,
        format!("the workspace's keeper refuses: {why}"),
        "`holm show` says what is known of it; `holm restart` starts it anew",
    )
}

pub fn keeper_fault(why: &str) -> Fault {
    Fault::new(
        Code::ExecFailed,
        format!("the workspace's keeper cannot be reached: {why}"),
        "`holm show` says what is known of it; `holm restart` starts it anew",
    )
}
