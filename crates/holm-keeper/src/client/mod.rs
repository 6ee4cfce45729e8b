//! The daemon's side of the keeper's protocol. It works over any ordered byte stream that a driver's
//! [`Connect`] opens; every question has a connection of its own.

mod exec;
mod ports;
mod records;
mod runs;
mod services;
mod sessions;
mod watch;

pub use exec::ExecStream;
pub use holm_proxy::Stream;
pub use records::{LogReader, OutputReader, Pulled};
pub use sessions::{AttachReader, AttachStream, AttachWriter, SessionNotices};
pub use watch::{StatusRequests, Watch, Watched};

use crate::wire::{
    Answer, Grant, MAX_FRAME, Op, Request, SignIn, Status, channel, control_frame, spoken_version,
};
use holm_core::route::PortAddress;
use holm_core::spec::{Egress, Service};
use holm_core::{Cause, Code, Fault};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, WriteHalf};
use tokio::sync::mpsc;

/// A keeper answers at once; one that does not is broken.
const PATIENCE: Duration = Duration::from_secs(2);

/// A keeper that is busy starting programs, or writes files first, answers within this.
const LONG_PATIENCE: Duration = Duration::from_secs(5);

/// Opens connections to the keeper of one workspace.
pub trait Connect: Send + Sync {
    /// Opens one connection. [`io::ErrorKind::NotFound`] or `ConnectionRefused`: no keeper runs.
    fn connect(&self) -> Connecting<'_>;

    /// Opens one connection for a question about what is written down, also of a workspace that does not
    /// run. What answers is [`records`](crate::records), in the keeper or where the files are.
    fn connect_to_records(&self) -> Connecting<'_>;
}

pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + 'a>>;

/// What the daemon asks of one workspace that runs.
#[derive(Clone)]
pub struct KeeperClient(Arc<dyn Connect>);

// === impl KeeperClient ===

impl KeeperClient {
    pub fn new(connect: impl Connect + 'static) -> Self {
        Self(Arc::new(connect))
    }

    /// A connection without a request.
    pub fn connect(&self) -> Connecting<'_> {
        self.0.connect()
    }

    /// The same, for a question about what is written down.
    pub fn connect_to_records(&self) -> Connecting<'_> {
        self.0.connect_to_records()
    }

    pub async fn status(&self) -> Result<Status, Fault> {
        match self.ask(Op::Status).await? {
            Answer::Status(status) => Ok(*status),
            _ => Err(wrong_answer()),
        }
    }

    /// Ends every process inside: SIGTERM first, SIGKILL after `grace`.
    pub async fn stop(&self, grace: Duration, limit: Duration) -> Result<(), Fault> {
        let grace_ms = grace.as_millis() as u64;
        self.order_within(Op::Stop { grace_ms }, limit).await
    }

    /// Tells the workspace its new label (display only).
    pub async fn relabel(&self, label: &str) -> Result<(), Fault> {
        let label = label.to_owned();
        self.order_within(Op::Relabel { label }, PATIENCE).await
    }

    /// Tells the workspace how its ports are reached, for programs inside that ask.
    pub async fn set_ports(&self, ports: Vec<PortAddress>) -> Result<(), Fault> {
        self.order_within(Op::SetPorts(ports), PATIENCE).await
    }

    /// Changes where the gateway may go; what is no longer allowed is cut.
    pub async fn set_egress(&self, egress: &Egress) -> Result<(), Fault> {
        let op = Op::SetEgress(egress.clone());
        self.order_within(op, PATIENCE).await
    }

    /// Replaces the variables of `[env]`, for programs that start from now on.
    pub async fn set_env(&self, env: &[(String, String)]) -> Result<(), Fault> {
        let op = Op::SetEnv(env.to_vec());
        self.order_within(op, PATIENCE).await
    }

    /// Gives the workspace other secrets, or other values, from now on.
    pub async fn set_secrets(&self, grants: Vec<Grant>) -> Result<(), Fault> {
        let op = Op::SetSecrets(grants);
        self.order_within(op, LONG_PATIENCE).await
    }

    /// Gives the gateway the sign-in of an agent, for a run or session. `None`: for those that have it.
    pub async fn set_sign_ins(
        &self,
        agent: String,
        sign_ins: Vec<SignIn>,
        holder: Option<String>,
    ) -> Result<(), Fault> {
        let op = Op::SetSignIns {
            agent,
            sign_ins,
            holder,
        };
        self.order_within(op, PATIENCE).await
    }

    /// A run or session that was given a sign-in did not start.
    pub async fn end_sign_ins(&self, holder: String) -> Result<(), Fault> {
        self.order_within(Op::EndSignIns { holder }, PATIENCE).await
    }

    /// Replaces the services: the keeper starts new ones, ends missing ones and restarts changed ones.
    /// Does not wait for them.
    pub async fn set_services(&self, services: &[Service]) -> Result<(), Fault> {
        let op = Op::SetServices(services.to_vec());
        self.order_within(op, PATIENCE).await
    }

    /// Asks for something that is answered with `Done`, or why not.
    pub async fn order_within(&self, op: Op, limit: Duration) -> Result<(), Fault> {
        self.ask_within(op, limit).await.map(drop)
    }

    async fn ask(&self, op: Op) -> Result<Answer, Fault> {
        self.ask_within(op, PATIENCE).await
    }

    /// One question, one answer. A refusal is a fault.
    pub async fn ask_within(&self, op: Op, limit: Duration) -> Result<Answer, Fault> {
        let talk = async {
            let mut stream = self.begin(op).await?;
            read_answer(&mut stream).await
        };
        let answer = match tokio::time::timeout(limit, talk).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(unreachable(error)),
            Err(_) => return Err(unreachable("it does not answer")),
        };
        match answer {
            Answer::Refused(why) => Err(refused(why)),
            other => Ok(other),
        }
    }

    /// Asks on a connection of its own and leaves the answers to the caller.
    async fn begin(&self, op: Op) -> io::Result<Stream> {
        send(self.0.connect().await?, op).await
    }

    /// Asks, and passes on what `understand` makes of each answer until it makes nothing of one, or nobody
    /// receives any more.
    async fn watch<T: Send + 'static>(
        &self,
        op: Op,
        understand: fn(Answer) -> Option<T>,
    ) -> Result<mpsc::Receiver<T>, Fault> {
        /// Changes that nobody took yet; the keeper skips to the newest.
        const UNHEARD: usize = 4;
        let mut stream = self.begin(op).await.map_err(unreachable)?;
        let (sender, receiver) = mpsc::channel(UNHEARD);
        tokio::spawn(async move {
            loop {
                let answer = tokio::select! {
                    answer = read_answer(&mut stream) => answer,
                    () = sender.closed() => return,
                };
                let Some(value) = answer.ok().and_then(understand) else {
                    return;
                };
                if sender.send(value).await.is_err() {
                    return;
                }
            }
        });
        Ok(receiver)
    }
}

/// Writes the frame of each message, until the last one. `frame_of` gets `None` when the client vanished
/// without a word, and says whether a frame is the last.
async fn write_messages<T>(
    mut writer: WriteHalf<Stream>,
    mut messages: mpsc::Receiver<T>,
    frame_of: fn(Option<T>) -> (Frame, Order),
) {
    loop {
        let (frame, order) = frame_of(messages.recv().await);
        let written = match frame {
            Ok(bytes) => writer.write_all(&bytes).await,
            Err(error) => Err(error),
        };
        // The other end may be gone; the reading side reports that.
        if written.is_err() || order == Order::Last {
            let _ = writer.shutdown().await;
            return;
        }
    }
}

/// A message in its frame, unless it could not be written as JSON.
type Frame = io::Result<Vec<u8>>;

/// Whether messages follow.
#[derive(PartialEq, Eq)]
enum Order {
    Middle,
    Last,
}

async fn send(mut stream: Stream, op: Op) -> io::Result<Stream> {
    let request = Request {
        version: spoken_version(),
        op,
    };
    stream.write_all(&control_frame(&request)?).await?;
    Ok(stream)
}

/// One whole frame.
async fn read_frame(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<(u8, Vec<u8>)> {
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

async fn read_answer(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Answer> {
    let (kind, payload) = read_frame(stream).await?;
    if kind != channel::CONTROL {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer"));
    }
    Ok(serde_json::from_slice(&payload)?)
}

/// A keeper that answers, and says no.
fn refused(why: String) -> Fault {
    Fault::new(
        Code::ExecFailed,
        "the workspace's keeper refuses",
        "`holm show` says what is known of it; `holm restart` starts it anew",
    )
    .because(why)
}

fn wrong_answer() -> Fault {
    unreachable("a wrong answer")
}

fn unreachable(cause: impl Into<Cause>) -> Fault {
    Fault::new(
        Code::ExecFailed,
        "the workspace's keeper cannot be reached",
        "`holm show` says what is known of it; `holm restart` starts it anew",
    )
    .because(cause)
}
