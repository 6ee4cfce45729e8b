//! Reaching the daemon: with [`started`] one is started when there is none, with [`running`] not, and
//! with [`started_unless_stopped`] only if the last one was not told to stop.

use crate::launch;
use crate::wiring::guest;
use holm_api::client::Client;
use holm_config::daemon_user::DaemonUser;
use holm_core::{Code, Fault};
use holm_server::runtime;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

/// How long a daemon may take to get ready.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How long to wait before looking again while another process starts or ends a daemon.
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
    // Threads that still wait for input must not keep the program from ending.
    runtime.shutdown_background();
    result
}

/// A connection to the daemon, which is started when there is none.
pub async fn started() -> Result<Client, Fault> {
    let (client, _) = found_or_started().await?;
    Ok(client)
}

/// The socket by which the daemon is reached from inside a workspace.
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

/// A connection to the daemon from inside. Nobody here can start one.
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

/// A connection to the daemon that runs already.
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

/// Like [`started`], but a daemon that somebody stopped stays stopped: for those who lost theirs.
pub async fn started_unless_stopped() -> Result<Client, Fault> {
    match is_stopped()? {
        true => running().await,
        false => started().await,
    }
}

/// Whether the daemon was told to stop, and no other serves since.
pub fn is_stopped() -> Result<bool, Fault> {
    Ok(DaemonUser::current()?.paths()?.stopped().exists())
}

/// Like [`started`], and says whether it had to be started.
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
            // Somebody else starts one at the same moment, or one is about to end.
            Err(fault) if fault.code == Code::AnotherDaemon && begun.elapsed() < START_LIMIT => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(fault) => return Err(fault),
        }
    }
}
