//! The user's builder: which one is there, how it is called, and how it ends.
//!
//! Everything that a repository chooses reaches the command line as `--name=value` after a check in
//! `holm_core::image_build`. The builder has a process group of its own, which ends with the command.

use super::super::output::printable;
use super::super::progress::Progress;
use super::inputs::{CONTEXT, DOCKERFILE};
use super::{Cache, Job, no_room};
use crate::wiring::as_inherited;
use holm_config::daemon_user::DaemonUser;
use holm_core::{Code, Fault};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug)]
pub struct Builder {
    kind: &'static Kind,
}

/// How a program builds and exports an image.
#[derive(Debug)]
struct Kind {
    program: &'static str,
    /// Succeeds where the program can build.
    probe: &'static [&'static str],
    /// Then the id of the image; `{}` in the last word stands for the file.
    save: &'static [&'static str],
    save_to: &'static str,
    /// See [`Kind::has_failed_by_itself`].
    loses_helpers: bool,
}

static KINDS: [Kind; 3] = [
    Kind {
        program: "docker",
        probe: &["version", "--format", "{{.Server.Version}}"],
        save: &["save", "--output"],
        save_to: "",
        loses_helpers: false,
    },
    Kind {
        program: "podman",
        probe: &["--version"],
        save: &["save", "--quiet", "--format=oci-archive", "--output"],
        save_to: "",
        loses_helpers: true,
    },
    Kind {
        program: "buildah",
        probe: &["--version"],
        save: &["push", "--quiet"],
        save_to: "oci-archive:",
        loses_helpers: true,
    },
];

const IMAGE_ID: &str = "id";
const ARCHIVE: &str = "image.tar";

/// How often a build is tried whose builder lost a helper.
const TRIES: usize = 3;

/// What a builder says when it has lost a helper: one that unpacks a layer, or one that starts a command.
const LOST: [&str; 2] = ["signal: killed", "nsexec-"];

/// How many lines of a failed build are shown.
const LINES: usize = 20;

/// The longest line of which the end is shown.
const LONGEST_LINE: u64 = 64 * 1024;

/// How long a builder may take to end when the command is cancelled.
const CLEAN_UP: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

// === impl Builder ===

impl Builder {
    /// The user's choice, or the first that is there.
    pub async fn find() -> Result<Self, Fault> {
        let user = DaemonUser::current()?;
        let settings = holm_config::user::load(&user.paths()?.config_file, &user.home()?)?;
        let wanted = settings.builder;
        let is_wanted = |kind: &&Kind| wanted.as_ref().is_none_or(|name| name == kind.program);
        let mut missing = Vec::new();
        for kind in KINDS.iter().filter(is_wanted) {
            match kind.probe() {
                Ok(()) => return Ok(Self { kind }),
                Err(why) => missing.push(format!("{} {why}", kind.program)),
            }
        }
        Err(Fault::new(
            Code::NoBuilder,
            format!("no program can build images here: {}", missing.join(", ")),
            "install one of docker, podman and buildah: `sudo apt install buildah` (or dnf, pacman), \
             or name an `image` instead of `build`",
        ))
    }

    /// Builds the image and exports it to a file below `place`, where the context is.
    pub async fn run(
        &self,
        job: &Job<'_>,
        place: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<PathBuf, Fault> {
        let step = format!("build: {}", job.service);
        progress.report(&step, 0, 0);
        let id = place.join(IMAGE_ID);
        let mut reported = |line: &str| progress.report(&format!("{step}  {line}"), 0, 0);
        for left in (0..TRIES).rev() {
            let build = self.build(job, place, &id);
            match self.follow(build, job, &mut reported).await {
                Err(fault) if left > 0 && self.kind.has_failed_by_itself(&fault) => {}
                done => {
                    done?;
                    break;
                }
            }
        }
        let id = fs::read_to_string(id).map_err(no_room)?;
        let archive = place.join(ARCHIVE);
        let mut save = self.command(self.kind.save[0]);
        save.args(&self.kind.save[1..]);
        let to = format!("{}{}", self.kind.save_to, archive.display());
        // Where the program has an option for the file, that comes first.
        match self.kind.save_to {
            "" => save.arg(to).arg(id.trim()),
            _ => save.arg(id.trim()).arg(to),
        };
        self.follow(save, job, |_| {}).await?;
        Ok(archive)
    }

    fn build(&self, job: &Job<'_>, place: &Path, id: &Path) -> Command {
        let mut build = self.command("build");
        build.arg(option("iidfile", id));
        build.arg(option("file", &place.join(DOCKERFILE)));
        build.arg(format!("--tag=localhost/holm/{}", job.service));
        if !job.build.network {
            build.arg("--network=none");
            // With this one, a build has the host's network whatever it is told.
            build.env_remove("BUILDAH_ISOLATION");
        }
        if job.cache == Cache::Ignore {
            build.arg("--no-cache");
        }
        for (name, value) in &job.build.args {
            build.arg(format!("--build-arg={name}={value}"));
        }
        if let Some(target) = &job.build.target {
            build.arg(format!("--target={target}"));
        }
        build.arg(place.join(CONTEXT));
        build
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(self.kind.program);
        command.arg(verb);
        // Docker's own builder, whose images are in the engine, without descriptions of the build beside them.
        command.env("BUILDX_BUILDER", "default");
        command.env("BUILDX_NO_DEFAULT_ATTESTATIONS", "1");
        command
    }

    /// Runs the program to its end. Ctrl-C ends it.
    async fn follow(
        &self,
        mut command: Command,
        job: &Job<'_>,
        mut report: impl FnMut(&str),
    ) -> Result<(), Fault> {
        let (output, input) = io::pipe().map_err(no_room)?;
        command.stdin(Stdio::null()).process_group(0);
        command.stdout(input.try_clone().map_err(no_room)?);
        command.stderr(input);
        let mut interrupted = [
            signal(SignalKind::interrupt()).map_err(no_room)?,
            signal(SignalKind::terminate()).map_err(no_room)?,
            signal(SignalKind::hangup()).map_err(no_room)?,
        ];
        let [interrupt, terminate, hangup] = &mut interrupted;
        let child = as_inherited(&mut command).spawn();
        // The pipe ends only when nothing here can write to it.
        drop(command);
        let mut running = Running {
            child: child.map_err(|error| self.failed(job, &error.to_string()))?,
        };
        let output = Receiver::from_owned_fd(output.into()).map_err(no_room)?;
        let mut output = BufReader::new(output);
        let mut last: VecDeque<String> = VecDeque::new();
        loop {
            let mut line = Vec::new();
            let mut limited = tokio::io::AsyncReadExt::take(&mut output, LONGEST_LINE);
            let read = tokio::select! {
                read = limited.read_until(b'\n', &mut line) => read,
                _ = interrupt.recv() => return Err(cancelled(job)),
                _ = terminate.recv() => return Err(cancelled(job)),
                _ = hangup.recv() => return Err(cancelled(job)),
            };
            if read.map_err(no_room)? == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end().rsplit('\r').next().unwrap_or_default();
            if text.is_empty() {
                continue;
            }
            report(&printable(text));
            last.push_back(printable(text));
            if last.len() > LINES {
                last.pop_front();
            }
        }
        let status = running.wait().map_err(no_room)?;
        if status.success() {
            return Ok(());
        }
        let said = last.make_contiguous().join("\n  ");
        Err(self.failed(job, &format!("{status}\n  {said}")))
    }

    fn failed(&self, job: &Job<'_>, why: &str) -> Fault {
        let program = self.kind.program;
        let message = format!(
            "{program} could not build the image of {}: {why}",
            job.service
        );
        let hint = match job.build.network {
            true => {
                "correct the Dockerfile and commit; `holm up --dirty` takes the checkout as it is"
                    .to_owned()
            }
            false => format!(
                "its network is off; `build = {{ network = \"default\" }}` in [services.{}] of holm.toml asks for one",
                job.service
            ),
        };
        Fault::new(Code::BuildFailed, message, hint)
    }
}

// === impl Kind ===

impl Kind {
    /// podman and buildah have the kernel kill their helpers when the thread ends that started them, and releases before
    /// 2023 did not keep that thread. A build then fails now and then, whatever its Dockerfile says.
    fn has_failed_by_itself(&self, fault: &Fault) -> bool {
        let said = fault.message();
        self.loses_helpers && LOST.iter().any(|sign| said.contains(sign))
    }

    fn probe(&self) -> Result<(), String> {
        let mut command = Command::new(self.program);
        command.args(self.probe).stdin(Stdio::null());
        let asked = as_inherited(&mut command).output();
        let asked = asked.map_err(|error| match error.kind() {
            ErrorKind::NotFound => "is not installed".to_owned(),
            _ => format!("does not start ({error})"),
        })?;
        if asked.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&asked.stderr);
        let said = said.lines().next().unwrap_or_default();
        Err(format!("does not answer ({})", printable(said)))
    }
}

/// A program that ends when this is dropped.
struct Running {
    child: Child,
}

// === impl Running ===

impl Running {
    /// Its output has ended, so it is about to end.
    fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if ended(&mut self.child) {
            return;
        }
        // Both signals fail only when the group has ended already.
        let _ = kill_process_group(group, Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < CLEAN_UP {
            if ended(&mut self.child) {
                return;
            }
            thread::sleep(POLL);
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(format!("--{name}="));
    option.push(path);
    option
}

fn cancelled(job: &Job<'_>) -> Fault {
    let message = format!("the build of the image of {} was cancelled", job.service);
    Fault::new(Code::Cancelled, message, "type the command again")
}
