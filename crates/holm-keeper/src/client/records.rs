//! What is written down about a workspace, also of one that does not run.

use super::{KeeperClient, Stream, read_frame, refused, send, unreachable, wrong_answer};
use crate::logs::{self, Record};
use crate::runs::read::Piece;
use crate::wire::{Answer, EgressFrom, EgressPlace, LogQuery, Op, Query, channel, control_frame};
use holm_core::run::RunSeen;
use holm_core::service::status::Services;
use holm_core::session::protocol::{Session, SessionResponse};
use holm_core::{Cause, Code, Fault, RunId};
use tokio::io::AsyncWriteExt;

/// Reads the logs of services, piece by piece.
pub struct LogReader(Pulling);

/// Reads the output of a run, piece by piece.
pub struct OutputReader {
    pulling: Pulling,
    cursor: u64,
}

/// What was read, and whether there is more at the moment.
pub struct Pulled<T> {
    pub items: Vec<T>,
    pub has_more: bool,
}

struct Pulling {
    stream: Stream,
    /// The first answer comes without being asked for.
    has_begun: bool,
}

// === impl KeeperClient ===

impl KeeperClient {
    /// How the services were when that was last written down.
    pub async fn last_services(&self) -> Result<Services, Fault> {
        match self.recorded(Query::Services).await?.1 {
            Answer::Services(services) => Ok(services),
            _ => Err(wrong_answer()),
        }
    }

    /// The sessions that the workspace had when it last ran, all of them ended.
    pub async fn last_sessions(&self) -> Result<Vec<Session>, Fault> {
        match self.recorded(Query::Sessions).await?.1 {
            Answer::Session(SessionResponse::Sessions(sessions)) => Ok(sessions),
            _ => Err(wrong_answer()),
        }
    }

    /// How a run was when that was last written down; `None`: it never began.
    pub async fn recorded_run(&self, run: &RunId) -> Result<Option<RunSeen>, Fault> {
        let run = run.to_string();
        match self.recorded(Query::Run { run }).await?.1 {
            Answer::Run(seen) => Ok(Some(*seen)),
            Answer::Missing => Ok(None),
            _ => Err(wrong_answer()),
        }
    }

    /// Deletes what there is of a run that has ended.
    pub async fn forget_run(&self, run: &RunId) -> Result<(), Fault> {
        let run = run.to_string();
        self.recorded(Query::ForgetRun { run }).await.map(drop)
    }

    /// Whether this is the secret of the workspace's last start.
    pub async fn has_guest_secret(&self, secret: String) -> Result<bool, Fault> {
        match self.recorded(Query::GuestSecret { secret }).await?.1 {
            Answer::Done => Ok(true),
            Answer::Missing => Ok(false),
            _ => Err(wrong_answer()),
        }
    }

    /// Lines of the record of what left the workspace, and where to go on.
    pub async fn egress(&self, from: EgressFrom) -> Result<(Vec<u8>, Option<EgressPlace>), Fault> {
        match self.recorded(Query::Egress(from)).await? {
            (lines, Answer::Egress(place)) => Ok((lines, place)),
            _ => Err(wrong_answer()),
        }
    }

    pub async fn logs(&self, query: LogQuery) -> Result<LogReader, Fault> {
        let stream = self.begin_records(Query::Logs(query)).await?;
        Ok(LogReader(Pulling::new(stream)))
    }

    /// The output of a run behind a cursor.
    pub async fn run_output(&self, run: &RunId, after: u64) -> Result<OutputReader, Fault> {
        let run = run.to_string();
        let query = Query::RunOutput { run, after };
        let stream = self.begin_records(query).await?;
        Ok(OutputReader {
            pulling: Pulling::new(stream),
            cursor: after,
        })
    }

    /// One question about records, and its answer behind the bytes that come before it.
    async fn recorded(&self, query: Query) -> Result<(Vec<u8>, Answer), Fault> {
        let mut stream = self.begin_records(query).await?;
        read_to_answer(&mut stream).await
    }

    async fn begin_records(&self, query: Query) -> Result<Stream, Fault> {
        let begun = async { send(self.0.connect_to_records().await?, Op::Records(query)).await };
        begun.await.map_err(unreachable)
    }
}

async fn read_to_answer(stream: &mut Stream) -> Result<(Vec<u8>, Answer), Fault> {
    let mut bytes = Vec::new();
    loop {
        let (kind, payload) = read_frame(stream).await.map_err(unreachable)?;
        if kind == channel::STDOUT {
            bytes.extend(payload);
            continue;
        }
        return match serde_json::from_slice(&payload) {
            Ok(Answer::Refused(why)) => Err(refused(why)),
            Ok(Answer::Failed { cause, .. }) => Err(unreadable(cause)),
            Ok(answer) => Ok((bytes, answer)),
            Err(_) => Err(wrong_answer()),
        };
    }
}

fn unreadable(cause: impl Into<Cause>) -> Fault {
    Fault::new(
        Code::Internal,
        "a record of the workspace cannot be read",
        "see the daemon's log; `holm daemon status` names its directory",
    )
    .because(cause)
}

// === impl Pulling ===

impl Pulling {
    fn new(stream: Stream) -> Self {
        Self {
            stream,
            has_begun: false,
        }
    }

    /// What came since, and whether there is more.
    async fn pull(&mut self) -> Result<(Vec<u8>, bool), Fault> {
        if std::mem::replace(&mut self.has_begun, true) {
            let next = control_frame(&()).map_err(unreachable)?;
            let asked = self.stream.write_all(&next).await;
            asked.map_err(unreachable)?;
        }
        match read_to_answer(&mut self.stream).await? {
            (bytes, Answer::More) => Ok((bytes, true)),
            (bytes, Answer::Done) => Ok((bytes, false)),
            _ => Err(wrong_answer()),
        }
    }
}

// === impl LogReader ===

impl LogReader {
    /// The next lines, each with its service.
    pub async fn read(&mut self) -> Result<Pulled<(String, Record)>, Fault> {
        let (bytes, has_more) = self.0.pull().await?;
        let lines = bytes.split(|byte| *byte == b'\n');
        let items = lines.filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b' ')?;
            let service = String::from_utf8_lossy(&line[..at]).into_owned();
            Some((service, logs::parse(&line[at + 1..])?))
        });
        Ok(Pulled {
            items: items.collect(),
            has_more,
        })
    }
}

// === impl OutputReader ===

impl OutputReader {
    pub async fn read(&mut self) -> Result<Pulled<Piece>, Fault> {
        let (bytes, has_more) = self.pulling.pull().await?;
        let items = Piece::decode(&bytes, &mut self.cursor);
        let items = items.map_err(unreadable)?;
        Ok(Pulled { items, has_more })
    }
}
