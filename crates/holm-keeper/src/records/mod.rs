//! What is written down about a workspace: the logs of services, the output of runs, what left it, and how
//! its services, sessions and runs were. Answers the [`Query`]s of the protocol from the workspace's
//! directory, whether or not the workspace runs: a keeper serves it, and so does a driver in its own process
//! for a workspace whose files are on its machine.

pub mod egress;

use crate::directories::WorkspaceDirs;
use crate::files::remove::remove_tree;
use crate::guests::is_secret_of;
use crate::logs::follow::Follower;
use crate::logs::read::{Merged, Wanted};
use crate::logs::{Record, append};
use crate::runs;
use crate::runs::read::Reader;
use crate::wire::{
    Answer, LogQuery, Op, Query, Request, channel, frame, read_control, send_answer,
};
use holm_core::service::status::Services;
use holm_core::session::protocol::{Session, SessionResponse};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// About so many bytes are answered to one pull.
const ENOUGH: usize = 256 << 10;

/// The exit code of what ended with the workspace: 128 + SIGKILL.
const KILLED: u8 = 137;

/// Answers the one request of a connection, for a client in this same process, so of the same version.
pub fn serve(mut stream: UnixStream, dirs: &WorkspaceDirs) -> io::Result<()> {
    let request: Request = read_control(&mut stream)?;
    match request.op {
        Op::Records(query) => answer(stream, dirs, query),
        _ => send_answer(
            &stream,
            &Answer::Refused("the workspace does not run".to_owned()),
        ),
    }
}

pub fn answer(mut stream: UnixStream, dirs: &WorkspaceDirs, query: Query) -> io::Result<()> {
    let answered = match query {
        Query::Services => last_services(dirs).map(Answer::Services),
        Query::Sessions => {
            last_sessions(dirs).map(|sessions| Answer::Session(SessionResponse::Sessions(sessions)))
        }
        Query::Run { run } => run_directory(dirs, &run)
            .and_then(|directory| runs::seen(&directory))
            .map(|seen| seen.map_or(Answer::Missing, |seen| Answer::Run(Box::new(seen)))),
        Query::ForgetRun { run } => run_directory(dirs, &run)
            .and_then(|directory| remove_tree(&directory))
            .map(|()| Answer::Done),
        Query::Egress(from) => {
            let (lines, place) = egress::read(&dirs.egress(), from);
            for piece in lines.chunks(ENOUGH) {
                stream.write_all(&frame(channel::STDOUT, piece))?;
            }
            Ok(Answer::Egress(place))
        }
        Query::GuestSecret { secret } => Ok(if is_secret_of(dirs, &secret) {
            Answer::Done
        } else {
            Answer::Missing
        }),
        Query::Logs(wanted) => match Logs::open(dirs.logs(), wanted) {
            Ok(logs) => return pulled(stream, logs),
            Err(error) => Err(error),
        },
        Query::RunOutput { run, after } => match run_directory(dirs, &run) {
            Ok(directory) => return pulled(stream, Output(Reader::new(directory, after))),
            Err(error) => Err(error),
        },
    };
    send_answer(&stream, &answered.unwrap_or_else(|error| failed(&error)))
}

/// Each control frame of the client asks for what there is; until the client is gone.
fn pulled(mut stream: UnixStream, mut source: impl Source) -> io::Result<()> {
    loop {
        let mut piece = Vec::new();
        let answer = match source.read(&mut piece) {
            Ok(Left::Some) => Answer::More,
            Ok(Left::Nothing) => Answer::Done,
            Err(error) => failed(&error),
        };
        if !piece.is_empty() {
            stream.write_all(&frame(channel::STDOUT, &piece))?;
        }
        send_answer(&stream, &answer)?;
        match read_control::<()>(&mut stream) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// What can be read piece by piece while it grows.
trait Source {
    /// Adds what comes next, about [`ENOUGH`].
    fn read(&mut self, piece: &mut Vec<u8>) -> io::Result<Left>;
}

/// Whether there is more at the moment.
enum Left {
    Some,
    Nothing,
}

/// Lines of several logs, each behind its service's name.
enum Logs {
    There { logs: PathBuf, merged: Merged },
    Growing(Vec<Follower>),
}

struct Output(Reader);

// === impl Logs ===

impl Logs {
    fn open(logs: PathBuf, query: LogQuery) -> io::Result<Self> {
        let wanted = Wanted {
            since: query.since_us.map(Duration::from_micros),
            last: query.last,
        };
        let merged = Merged::open(&logs, &query.services, wanted)?;
        Ok(Logs::There { logs, merged })
    }

    fn add(piece: &mut Vec<u8>, service: &str, record: &Record) {
        piece.extend(service.as_bytes());
        piece.push(b' ');
        append(piece, record.time, record.stream, &record.text);
    }
}

impl Source for Logs {
    fn read(&mut self, piece: &mut Vec<u8>) -> io::Result<Left> {
        match self {
            Logs::There { merged, .. } => {
                while let Some((service, record)) = merged.read()? {
                    Self::add(piece, &service, &record);
                    if piece.len() > ENOUGH {
                        return Ok(Left::Some);
                    }
                }
                if let Logs::There { logs, merged } =
                    std::mem::replace(self, Logs::Growing(Vec::new()))
                {
                    let positions = merged.into_positions().into_iter();
                    let followers = positions
                        .map(|(service, position)| Follower::new(&logs, &service, position));
                    *self = Logs::Growing(followers.collect());
                }
                Ok(Left::Nothing)
            }
            Logs::Growing(followers) => {
                let mut records = Vec::new();
                for follower in followers {
                    let service = follower.service().to_owned();
                    let found = follower.read()?.into_iter();
                    records.extend(found.map(|record| (service.clone(), record)));
                }
                records.sort_by_key(|(_, record)| record.time);
                for (service, record) in &records {
                    Self::add(piece, service, record);
                }
                match records.is_empty() {
                    true => Ok(Left::Nothing),
                    false => Ok(Left::Some),
                }
            }
        }
    }
}

// === impl Output ===

impl Source for Output {
    /// As the record has it; a gap between two pieces is output that is gone.
    fn read(&mut self, piece: &mut Vec<u8>) -> io::Result<Left> {
        while piece.len() < ENOUGH {
            match self.0.piece()? {
                Some(next) => next.encode(piece),
                None => return Ok(Left::Nothing),
            }
        }
        Ok(Left::Some)
    }
}

/// How the services were when the last keeper ended, or when it was killed.
pub fn last_services(dirs: &WorkspaceDirs) -> io::Result<Services> {
    let text = read_or_nothing(&dirs.services())?;
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

/// The sessions that the last keeper wrote down, all of them ended.
pub fn last_sessions(dirs: &WorkspaceDirs) -> io::Result<Vec<Session>> {
    Ok(ended_sessions(&read_or_nothing(&dirs.sessions())?))
}

/// What was written down by a keeper that is gone, as it has ended with it at the latest.
pub fn ended_sessions(text: &[u8]) -> Vec<Session> {
    let all: Vec<Session> = serde_json::from_slice(text).unwrap_or_default();
    let ended = all.into_iter().map(|mut status| {
        if status.exit_code.is_none() {
            status.exit_code = Some(KILLED);
            status.reason = Some("the workspace ended without a word".to_owned());
        }
        status.pid = None;
        status.writer = None;
        status.viewers = 0;
        status
    });
    ended.collect()
}

/// The name comes from a client, and is a part of a path only if it is an id.
fn run_directory(dirs: &WorkspaceDirs, run: &str) -> io::Result<PathBuf> {
    let run = holm_core::RunId::parse(run).map_err(io::Error::other)?;
    Ok(runs::directory(&dirs.dir, run.as_str()))
}

fn read_or_nothing(path: &Path) -> io::Result<Vec<u8>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

fn failed(error: &io::Error) -> Answer {
    Answer::Failed {
        errno: error.raw_os_error(),
        cause: error.to_string(),
    }
}
