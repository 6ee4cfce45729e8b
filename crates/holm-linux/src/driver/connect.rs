//! Connections to the keepers of this machine's workspaces.

use crate::layout::Layout;
use holm_core::exec::{ExecInput, ExecOutput, ExecRequest};
use holm_core::{Fault, WorkspaceId};
use holm_keeper::client::{Connect, Connecting, KeeperClient, Stream};
use holm_keeper::directories::{WorkspaceDirs, descriptor_path, open_directory};
use holm_keeper::guest::PROGRAM;
use holm_keeper::inside;
use holm_keeper::records;
use std::io;
use std::path::PathBuf;
use tokio::net::UnixStream;

/// Of a thread that answers a question about records.
const STACK: usize = 256 * 1024;

/// A workspace of this machine.
struct Local {
    dirs: WorkspaceDirs,
    /// Where its files are while it is in the trash.
    trash: Option<PathBuf>,
}

/// What is asked of the keeper of the workspace that is in these directories.
pub fn client(dirs: &WorkspaceDirs) -> KeeperClient {
    let dirs = dirs.clone();
    KeeperClient::new(Local { dirs, trash: None })
}

/// Runs holm's own helper inside with these words, and returns whether it succeeded.
pub async fn succeeds_inside(dirs: &WorkspaceDirs, words: &[&str]) -> Result<bool, Fault> {
    let argv = [PROGRAM, inside::ROLE].iter().chain(words);
    let request = ExecRequest {
        argv: argv.map(|word| word.as_bytes().to_vec()).collect(),
        ..ExecRequest::default()
    };
    let mut stream = client(dirs).exec(request).await?;
    let _ = stream.input.send(ExecInput::StdinEof).await;
    while let Some(output) = stream.output.recv().await {
        match output {
            ExecOutput::Exit(code) => return Ok(code == 0),
            ExecOutput::Failed(fault) => return Err(fault),
            _ => {}
        }
    }
    Ok(false)
}

/// The client of a workspace. It asks the keeper while the workspace runs, and the records also when it does not.
pub fn keeper(layout: &Layout, id: &WorkspaceId) -> KeeperClient {
    KeeperClient::new(Local {
        dirs: layout.workspace(id),
        trash: Some(layout.trash(id)),
    })
}

// === impl Local ===

impl Connect for Local {
    /// By way of the directory's descriptor: a socket's path may have 107 bytes only.
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            let socket = &self.dirs.socket;
            let (Some(parent), Some(name)) = (socket.parent(), socket.file_name()) else {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            };
            let directory = open_directory(parent)?;
            let stream = UnixStream::connect(descriptor_path(&directory).join(name)).await?;
            Ok(Stream::Unix(stream))
        })
    }

    /// Always from the files, in a thread of this process: they are on this machine, a slow reader then takes
    /// nothing of the keeper's, and a keeper of an earlier version need not know the question.
    fn connect_to_records(&self) -> Connecting<'_> {
        Box::pin(async {
            let mut dirs = self.dirs.clone();
            if let Some(trash) = &self.trash
                && !dirs.dir.exists()
            {
                dirs.dir.clone_from(trash);
            }
            let (client, server) = UnixStream::pair()?;
            let server = server.into_std()?;
            server.set_nonblocking(false)?;
            let thread = std::thread::Builder::new().stack_size(STACK);
            thread.spawn(move || {
                if let Err(error) = records::serve(server, &dirs) {
                    tracing::debug!(%error, "a client of records went away");
                }
            })?;
            Ok(Stream::Unix(client))
        })
    }
}
