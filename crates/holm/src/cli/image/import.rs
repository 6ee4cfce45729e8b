//! `holm image import`: takes images from a file, a directory, or another program that has them.
//!
//! The client reads: the daemon may be another user's, and engines are the user's own. The archive is streamed to the
//! daemon, which verifies it.

use super::super::completions;
use super::super::progress::Progress;
use super::super::{Context, Outcome, connect};
use super::{parse, stored};
use crate::wiring::as_inherited;
use clap::{Args, ValueHint};
use holm_api::client::Client;
use holm_api::image::ImportImages;
use holm_api::workspace::Upload;
use holm_core::image_reference::ImageReference;
use holm_core::{Code, Fault};
use std::fs::File;
use std::io::{self, PipeWriter, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll};
use std::thread;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::Receiver;

/// Import images from a file, a directory or a local engine
///
/// A file is an archive of `docker save` or an OCI archive, also compressed; `-` is stdin. A directory is an OCI
/// layout. docker:NAME, podman:NAME and containerd:NAME ask the program `docker`, `podman` or `ctr`, as you.
/// With --json: {"images":[{reference,digest,bytes,stored_at,used_by}]}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm image import app.tar --name team/app:1\n  \
    holm image import docker:postgres:16\n  \
    docker save app | holm image import -")]
pub struct ImportArgs {
    /// A file, a directory, docker:NAME, podman:NAME or containerd:NAME
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    source: String,
    /// The name of the image here; default: the names in the archive, or what you typed for an engine
    #[arg(long, value_name = "IMAGE", add = completions::images())]
    name: Option<String>,
}

/// Where images come from.
enum Source {
    Stdin,
    File(PathBuf),
    Directory(PathBuf),
    Engine(&'static Engine, String),
}

/// A program that has images.
struct Engine {
    prefix: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const ENGINES: [Engine; 3] = [
    Engine {
        prefix: "docker:",
        program: "docker",
        arguments: &["save"],
    },
    Engine {
        prefix: "podman:",
        program: "podman",
        arguments: &["save"],
    },
    Engine {
        prefix: "containerd:",
        program: "ctr",
        arguments: &["image", "export", "-"],
    },
];

/// How much of what a failing program says is shown.
const MOST_SAID: u64 = 4096;

pub fn run(context: &Context, arguments: ImportArgs) -> Outcome {
    let source = Source::parse(&arguments.source)?;
    let name = match (&arguments.name, &source) {
        (Some(name), _) => Some(parse(name)?),
        (None, Source::Engine(_, name)) => Some(parse(name)?),
        (None, _) => None,
    };
    let list = connect::block_on(async {
        let client = connect::started().await?;
        let mut progress = Progress::new(context);
        progress.report(&format!("read: {}", arguments.source), 0, 0);
        let upload = source.send(&client).await;
        let upload = upload.inspect_err(|_| progress.fail())?;
        let import = ImportImages {
            upload: upload.upload,
            name: name.as_ref().map(ImageReference::to_string),
        };
        let report = |step: &str, done, total| progress.report(step, done, total);
        let imported = client.import_images(&import, report).await;
        imported.inspect_err(|_| progress.fail())
    })?;
    stored(context, &list, "imported");
    Ok(ExitCode::SUCCESS)
}

// === impl Source ===

impl Source {
    fn parse(typed: &str) -> Result<Self, Fault> {
        if typed == "-" {
            return Ok(Self::Stdin);
        }
        for engine in &ENGINES {
            if let Some(name) = typed.strip_prefix(engine.prefix) {
                parse(name)?;
                return Ok(Self::Engine(engine, name.to_owned()));
            }
        }
        let path = PathBuf::from(typed);
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => Ok(Self::Directory(path)),
            Ok(_) => Ok(Self::File(path)),
            Err(error) => Err(unread(&path, error)),
        }
    }

    /// Streams the archive to the daemon.
    async fn send(self, client: &Client) -> Result<Upload, Fault> {
        match self {
            Self::Stdin => client.upload(tokio::io::stdin()).await,
            Self::File(path) => {
                let file = tokio::fs::File::open(&path).await;
                client
                    .upload(file.map_err(|error| unread(&path, error))?)
                    .await
            }
            Self::Directory(path) => packed(client, path).await,
            Self::Engine(engine, name) => engine.send(client, name).await,
        }
    }
}

// === impl Engine ===

impl Engine {
    async fn send(&'static self, client: &Client, name: String) -> Result<Upload, Fault> {
        let mut child = self.start(&name)?;
        // Both pipes were asked for.
        let (Some(output), Some(mut complaints)) = (child.stdout.take(), child.stderr.take())
        else {
            return Err(self.failed(&name, "it has no output"));
        };
        let complaining = thread::spawn(move || {
            let mut said = Vec::new();
            // What cannot be read is not shown; the rest is read so that the program does not wait.
            let _ = complaints.by_ref().take(MOST_SAID).read_to_end(&mut said);
            let _ = io::copy(&mut complaints, &mut io::sink());
            String::from_utf8_lossy(&said).trim().to_owned()
        });
        let check = move || {
            let status = child.wait().map_err(|error| self.failed(&name, error))?;
            let said = complaining.join().unwrap_or_default();
            if status.success() {
                Ok(())
            } else if said.is_empty() {
                Err(self.failed(&name, format!("it ended with {status}")))
            } else {
                Err(self.failed(&name, said))
            }
        };
        upload(client, output.into(), check).await
    }

    fn start(&self, name: &str) -> Result<Child, Fault> {
        let mut command = Command::new(self.program);
        command
            .args(self.arguments)
            .arg(name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = as_inherited(&mut command).spawn();
        started.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let message = format!("`{}` is not installed, or not on PATH", self.program);
                let hint = "`holm image pull` needs no other program; `holm image import FILE` takes an archive";
                Fault::new(Code::ImportFailed, message, hint)
            }
            _ => self.failed(name, error),
        })
    }

    fn failed(&self, name: &str, cause: impl Into<holm_core::Cause>) -> Fault {
        let words = self.arguments.join(" ");
        let message = format!("`{} {words} {name}` failed", self.program);
        let hint = format!(
            "run it yourself to see more; `holm image pull {name}` asks the registry instead"
        );
        Fault::new(Code::ImportFailed, message, hint).because(cause)
    }
}

/// Streams an OCI layout as an archive.
async fn packed(client: &Client, directory: PathBuf) -> Result<Upload, Fault> {
    let index = directory.join("index.json");
    if let Err(error) = std::fs::symlink_metadata(&index) {
        let message = format!("{} is not an OCI layout", directory.display());
        let hint =
            "a layout has `index.json` and `blobs`; `skopeo copy` and `buildah push` write one";
        return Err(Fault::new(Code::ImportFailed, message, hint).because(error));
    }
    let (reader, writer) = io::pipe().map_err(|error| unread(&directory, error))?;
    let from = directory.clone();
    let packing = thread::spawn(move || pack(&from, writer));
    let check = move || {
        let packed = packing.join();
        let packed = packed.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        packed.map_err(|error| unread(&directory, error))
    };
    upload(client, reader.into(), check).await
}

/// Streams what a program or thread writes. At its end `check` says whether it is whole; if not, the upload is broken
/// off, and the daemon deletes what it has.
async fn upload(
    client: &Client,
    from: OwnedFd,
    check: impl FnOnce() -> Result<(), Fault> + Send + 'static,
) -> Result<Upload, Fault> {
    let output = Receiver::from_owned_fd(from).map_err(|error| {
        let hint = "is the limit of open files reached?";
        Fault::new(Code::ImportFailed, "cannot read from a pipe", hint).because(error)
    })?;
    let failed = Arc::new(Mutex::new(None));
    let checked = Checked {
        output,
        check: Some(Box::new(check)),
        failed: Arc::clone(&failed),
    };
    let sent = client.upload(checked).await;
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    match failed {
        Some(fault) => Err(fault),
        None => sent,
    }
}

struct Checked {
    output: Receiver,
    check: Option<Box<dyn FnOnce() -> Result<(), Fault> + Send>>,
    failed: Arc<Mutex<Option<Fault>>>,
}

// === impl Checked ===

impl AsyncRead for Checked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.output).poll_read(context, buffer);
        let is_end = matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        // What wrote it has closed it, and is about to end.
        if is_end && let Some(Err(fault)) = self.check.take().map(|check| check()) {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            *failed = Some(fault);
            return Poll::Ready(Err(io::ErrorKind::Other.into()));
        }
        read
    }
}

/// Links are packed as links: the daemon follows none of them out of the archive.
fn pack(directory: &Path, to: PipeWriter) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    let mut index = File::open(directory.join("index.json"))?;
    archive.append_file("index.json", &mut index)?;
    archive.append_dir_all("blobs", directory.join("blobs"))?;
    archive.finish()
}

fn unread(path: &Path, error: io::Error) -> Fault {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::PathNotFound,
        _ => Code::ImportFailed,
    };
    let message = format!("cannot read {}", path.display());
    let hint = "name an archive, an OCI layout, or docker:NAME, podman:NAME, containerd:NAME";
    Fault::new(code, message, hint).because(error)
}
