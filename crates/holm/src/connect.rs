//! Connects to the daemon: [`started`] starts one if necessary, [`running`] does not, and
//! [`started_unless_stopped`] does only if the last one was not told to stop.
//!
//! [`started`] sends nothing: the first request finds out whether the daemon is alive.

use crate::launch;
use crate::wiring::guest;
use holm_api::client::{Client, Revive};
use holm_config::daemon_user::DaemonUser;
use holm_core::{Code, Fault};
use holm_server::runtime;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

/// How long a daemon may take to get ready.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How long to wait before checking again while another process starts or ends a daemon.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Whether a daemon was found or had to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Found,
    Started,
}

/// Runs a verb's asynchronous part on this thread.
pub fn block_on<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = runtime::build(&mut Builder::new_current_thread())?;
    let result = runtime.block_on(work);
    // Threads that wait for input must not keep the program from ending.
    runtime.shutdown_background();
    result
}

/// Connects to the daemon, which is started if necessary.
pub async fn started() -> Result<Client, Fault> {
    if !guest::is_inside() {
        let socket = DaemonUser::current()?.socket()?;
        let revive = Revive::new(|| Box::pin(async { found_or_started().await.map(|_| ()) }));
        if let Ok(client) = Client::begin(socket, revive).await {
            return Ok(client);
        }
    }
    let (client, _) = found_or_started().await?;
    Ok(client)
}

/// The daemon's socket inside a workspace.
pub fn inside() -> Result<PathBuf, Fault> {
    let socket = PathBuf::from(guest::API);
    match socket.exists() {
        true => Ok(socket),
        false => Err(Fault::new(
            Code::InsideWorkspace,
            "this command does not work inside this workspace: it was started by an older holm",
            "`holm here` works; outside, `holm restart` starts the workspace anew",
        )),
    }
}

/// Connects from inside a workspace, where no daemon can be started.
async fn from_inside() -> Result<Client, Fault> {
    Client::connect(inside()?)
        .await
        .map_err(|fault| match fault.code {
            Code::DaemonUnreachable => Fault::new(
                Code::DaemonUnreachable,
                "the daemon outside does not run, so it cannot be asked",
                "`holm here` works without it; any holm command outside starts it",
            ),
            _ => fault,
        })
}

/// Connects to a running daemon.
pub async fn running() -> Result<Client, Fault> {
    if guest::is_inside() {
        return from_inside().await;
    }
    let socket = DaemonUser::current()?.socket()?;
    Client::connect(socket)
        .await
        .map_err(|fault| match fault.code {
            Code::DaemonUnreachable => Fault::new(
                Code::DaemonUnreachable,
                "the daemon is not running",
                "`holm daemon start` starts it",
            ),
            _ => fault,
        })
}

/// Like [`started`], but a daemon that the user stopped stays stopped: for clients that lost
/// theirs.
pub async fn started_unless_stopped() -> Result<Client, Fault> {
    if is_stopped()? {
        running().await
    } else {
        started().await
    }
}

/// Whether the daemon was told to stop, and no other runs since.
pub fn is_stopped() -> Result<bool, Fault> {
    Ok(DaemonUser::current()?.paths()?.stopped().exists())
}

/// Like [`started`], and reports whether it had to be started. Waits for an answer of the daemon.
pub async fn found_or_started() -> Result<(Client, Origin), Fault> {
    if guest::is_inside() {
        return Ok((from_inside().await?, Origin::Found));
    }
    let user = DaemonUser::current()?;
    let socket = user.socket()?;
    let begun = Instant::now();
    let mut origin = Origin::Found;
    loop {
        let unreachable = match Client::connect(&socket).await {
            Ok(client) => return Ok((client, origin)),
            Err(fault) => fault,
        };
        if origin == Origin::Started || begun.elapsed() > START_LIMIT {
            return Err(unreachable);
        }
        match launch::background(&user, START_LIMIT).await {
            Ok(()) => origin = Origin::Started,
            // Another process starts a daemon at the same time, or one is about to end.
            Err(fault) if fault.code == Code::AnotherDaemon && begun.elapsed() < START_LIMIT => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(fault) => return Err(fault),
        }
    }
}
