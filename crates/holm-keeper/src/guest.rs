//! Detects from inside whether this process is in a workspace, and asks its keeper.

use holm_core::{Code, Fault, WorkspaceId};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const ID: &str = "/run/holm/id";
/// The daemon's API for programs inside, with the rights of the workspace.
pub const API: &str = "/run/holm/api.sock";
const SOCKET: &str = "/run/holm/guest.sock";

/// Where secrets are as files inside.
pub const SECRET_FILES: &str = "/run/holm/secrets";

/// The directory of one of them, below that: who may read it is a matter of directories, because a
/// new value is a new file. A link with the secret's name leads into it.
pub fn secret_directory(name: &str) -> String {
    format!(".{name}")
}

/// Where programs inside find the gateway's authority, and whom to trust with it.
pub const AUTHORITY: &str = "/run/holm/ca";

/// Where the program itself is inside.
pub const PROGRAM: &str = "/run/holm/bin/holm";

/// Where the small program is that plays init and its helpers, if `holm` was built with it.
pub const ROLES: &str = "/run/holm/bin/holm-roles";

/// The workspace that this process runs in.
pub fn workspace() -> Option<WorkspaceId> {
    WorkspaceId::parse(std::fs::read_to_string(ID).ok()?.trim()).ok()
}

/// The keeper's description of this workspace.
pub fn here() -> Result<serde_json::Value, Fault> {
    if workspace().is_none() {
        return Err(Fault::new(
            Code::WorkspaceNotFound,
            "this is not inside a workspace",
            "`holm exec WS -- holm here` asks from inside; `holm show WS` from outside",
        ));
    }
    ask().map_err(|error| {
        let message = "the workspace's keeper does not answer";
        Fault::new(
            Code::DaemonUnreachable,
            message,
            "try again; outside, `holm show` tells more",
        )
        .because(error)
    })
}

fn ask() -> io::Result<serde_json::Value> {
    let mut stream = UnixStream::connect(SOCKET)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"here 1\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}
