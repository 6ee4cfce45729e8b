//! The store: one container per installation that works on the files of all its workspaces, with the Linux driver's own
//! code. It listens on a socket in the engine's volume; the daemon reaches that by [`super::relay`].
//!
//! A connection begins with one line that says whom it is for: the driver here, a keeper, or the records of a workspace.

use super::guests::Guests;
use super::user::become_user;
use crate::driver::Starter;
use crate::{Layout, LinuxDriver, open_files};
use async_trait::async_trait;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::progress::Progress;
use holm_engine::remote::{Question, Reply, carry_out};
use holm_engine::{Driver, try_blocking};
use holm_keeper::client::KeeperClient;
use holm_keeper::complain;
use holm_keeper::container::{
    DATA, Hello, INCOMING, KEEPER_GROUP, RUN, Start, Started, USER, store_socket,
};
use rustix::thread::CapabilitySet;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, mpsc};

/// A spec has a few kilobytes; a list of changed paths may be long.
const LONGEST_LINE: u64 = 64 << 20;

/// The role. `roles` is the small program, as for [`LinuxDriver::new`].
pub fn main(roles: &[u8]) -> ! {
    let done = prepare().and_then(|()| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(serve(roles))
    });
    if let Err(error) = done {
        complain!("the store ended: {error}");
    }
    std::process::exit(1)
}

/// The engine made the volume for root.
fn prepare() -> io::Result<()> {
    for directory in [DATA, RUN] {
        fs::create_dir_all(directory)?;
        std::os::unix::fs::chown(directory, Some(USER), Some(KEEPER_GROUP))?;
    }
    open_files::raise();
    become_user(CapabilitySet::empty())?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    fs::create_dir_all(INCOMING)
}

async fn serve(roles: &[u8]) -> io::Result<()> {
    let layout = Layout {
        data_dir: DATA.into(),
        run_dir: RUN.into(),
    };
    let none = Arc::new(|_: &_| Ok(Vec::new()));
    let driver = LinuxDriver::new(layout, none, roles).map_err(io::Error::other)?;
    let socket = store_socket();
    match fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let guests = Guests::open(&driver.layout().guests_socket())?;
    let listener = UnixListener::bind(&socket)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (driver, guests) = (driver.clone(), Arc::clone(&guests));
        tokio::spawn(async move {
            if let Err(error) = attend(stream, driver, &guests).await
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                complain!("a connection ended: {error}");
            }
        });
    }
}

/// The first word on a connection.
const CONNECTED: &[u8] = b"+\n";

async fn attend(stream: UnixStream, driver: LinuxDriver, guests: &Guests) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let other = match read_line(&mut reader).await? {
        Hello::Driver => {
            writer.write_all(CONNECTED).await?;
            return answer(reader, writer, driver).await;
        }
        Hello::Guest => match guests.next(&mut reader).await? {
            Some(guest) => Ok(guest.into()),
            None => return Ok(()),
        },
        Hello::Keeper(id) => client(&driver, &id)?.connect().await,
        Hello::Records(id) => client(&driver, &id)?.connect_to_records().await,
    };
    // The daemon tells a workspace that does not run from a broken connection.
    let mut other = match other {
        Ok(other) => other,
        Err(error) => {
            let kind = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => b"-\n",
                _ => b"?\n",
            };
            return writer.write_all(kind).await;
        }
    };
    writer.write_all(CONNECTED).await?;
    // Nothing follows the first line before the answer, so nothing is left in the buffer.
    let mut own = reader
        .into_inner()
        .reunite(writer)
        .map_err(io::Error::other)?;
    copy_bidirectional(&mut own, &mut other).await?;
    Ok(())
}

fn client(driver: &LinuxDriver, id: &str) -> io::Result<KeeperClient> {
    let id = WorkspaceId::parse(id).map_err(io::Error::other)?;
    Ok(driver.keeper(&id))
}

type Lines = mpsc::UnboundedReceiver<String>;

/// Answers one question. The work is cancelled when the daemon hangs up.
async fn answer(
    mut reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    driver: LinuxDriver,
) -> io::Result<()> {
    let question: Question = read_line(&mut reader).await?;
    let (lines, answers) = mpsc::unbounded_channel();
    let (progress, mut told) = mpsc::unbounded_channel();
    let daemon = Arc::new(Daemon {
        writer: Mutex::new(writer),
        answers: Mutex::new(answers),
    });
    let hears = async {
        while let Ok(line) = next_line(&mut reader).await {
            // The work may have ended.
            let _ = lines.send(line);
        }
    };
    let tells = async {
        while let Some(event) = told.recv().await {
            daemon.tell(&Reply::Progress(event)).await?;
        }
        io::Result::Ok(())
    };
    let works = carry_out_question(&driver, question, &daemon, Progress::to(progress));
    let works = async {
        let (done, told) = tokio::join!(works, tells);
        told.map(|()| done)
    };
    let done = tokio::select! {
        done = works => done?,
        () = hears => return Ok(()),
    };
    let reply = match &done {
        Ok(value) => Reply::Done(value.clone()),
        Err(fault) => Reply::Failed(fault.into()),
    };
    daemon.tell(&reply).await
}

async fn carry_out_question(
    driver: &LinuxDriver,
    question: Question,
    daemon: &Arc<Daemon>,
    progress: Progress,
) -> Result<Value, Fault> {
    let failed = |error: io::Error| {
        let message = "the store cannot work on its files";
        Fault::new(Code::Internal, message, "`holm doctor` looks at the engine").because(error)
    };
    match question {
        Question::Driver { call, given } => {
            let starter = Arc::clone(daemon) as Arc<dyn Starter>;
            carry_out(&driver.in_containers(*given, starter), call, progress).await
        }
        Question::Repository(project) => {
            let place = driver.layout().repository(&project);
            try_blocking(move || Ok(serde_json::json!(files(&place).map_err(failed)?))).await
        }
        Question::TakeRepository { project, from } => {
            let place = driver.layout().repository(&project);
            let take = move || {
                take(&incoming(&from)?, &place)?;
                remove_upload(&from)
            };
            try_blocking(move || take().map(|()| Value::Null).map_err(failed)).await
        }
        Question::Forget(path) => {
            try_blocking(move || remove_upload(&path).map(|()| Value::Null).map_err(failed)).await
        }
    }
}

/// The daemon that asked.
struct Daemon {
    writer: Mutex<OwnedWriteHalf>,
    answers: Mutex<Lines>,
}

// === impl Daemon ===

impl Daemon {
    async fn tell(&self, reply: &Reply) -> io::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        self.writer.lock().await.write_all(&line).await
    }
}

#[async_trait]
impl Starter for Daemon {
    async fn start(&self, start: Start) -> io::Result<Started> {
        let mut answers = self.answers.lock().await;
        self.tell(&Reply::Start(Box::new(start))).await?;
        let line = answers.recv().await;
        let line = line.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        Ok(serde_json::from_str(&line)?)
    }
}

async fn next_line(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<String> {
    let mut line = String::new();
    let length = reader.take(LONGEST_LINE).read_line(&mut line).await?;
    if length == 0 || !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line)
}

async fn read_line<T: for<'a> Deserialize<'a>>(
    reader: &mut BufReader<OwnedReadHalf>,
) -> io::Result<T> {
    Ok(serde_json::from_str(&next_line(reader).await?)?)
}

/// All files below a directory, relative to it; none if it is not there.
fn files(place: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        let entries = match fs::read_dir(place.join(&directory)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                waiting.push(path);
            } else {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

/// Renames every file into its place. git finds a pack by its index, so indexes come last.
fn take(from: &Path, to: &Path) -> io::Result<()> {
    let is_index = |path: &&PathBuf| path.extension().is_some_and(|end| end == "idx");
    let all = files(from)?;
    let (indexes, others): (Vec<_>, Vec<_>) = all.iter().partition(is_index);
    for path in others.into_iter().chain(indexes) {
        let place = to.join(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::rename(from.join(path), place)?;
    }
    // Directories that git expects although nothing is in them.
    for name in ["objects", "refs"] {
        fs::create_dir_all(to.join(name))?;
    }
    Ok(())
}

/// The place of an upload, which is a plain name.
fn incoming(name: &Path) -> io::Result<PathBuf> {
    let mut parts = name.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(Path::new(INCOMING).join(name)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn remove_upload(name: &Path) -> io::Result<()> {
    holm_keeper::files::remove::remove_tree(&incoming(name)?)
}
