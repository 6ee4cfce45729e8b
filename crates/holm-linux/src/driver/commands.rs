//! Runs the commands of a setup or a seed, one after the other, in a temporary workspace or, after
//! a move, in the user's own. Called by [`layer`](super::layer) and [`seed`](super::seed).
//!
//! Their output goes to a log of bounded size; the log of a failed command is kept for the user.

use super::connect::client;
use super::{disk_fault, layer};
use crate::Layout;
use holm_core::exec::{ExecInput, ExecOutput, ExecRequest};
use holm_core::layer::LayerKey;
use holm_core::{Code, Fault, cut};
use holm_engine::progress::Progress;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::wire::EgressFrom;
use holm_secrets::mask::{Known, Masker};
use serde::Deserialize;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

/// The size limit of the log; after it only the end is kept.
const MOST_LOG: u64 = 64 << 20;
const TAIL: usize = 64 << 10;

/// How much of the output is shown when a command fails: enough for the whole complaint of a package
/// manager or a compiler.
const LAST_LINES: usize = 200;
const LONGEST_LINE: usize = 1000;
const MOST_TOLD: usize = 32 << 10;
/// How many lines of the egress record are searched for refusals, and how many of those are shown.
const MOST_RECORDED: usize = 1000;
const MOST_REFUSED: usize = 5;
/// How much of a command is shown once it has printed output.
const SHORT_COMMAND: usize = 24;

/// The interval of progress reports.
const TICK: Duration = Duration::from_millis(500);

/// What the commands belong to, in the words of the configuration.
#[derive(Clone, Copy)]
pub enum Of<'a> {
    Setup,
    /// The volume of this name.
    Seed(&'a str),
}

pub struct Commands<'a> {
    pub list: &'a [String],
    pub of: Of<'a>,
    pub made: Made<'a>,
    /// Values that the log must not contain.
    pub known: Known,
    /// Why they run again, for progress.
    pub because: Option<&'a str>,
}

/// What happens with the result.
#[derive(Clone, Copy)]
pub enum Made<'a> {
    /// It becomes this layer; the workspace is deleted.
    Layer(&'a LayerKey),
    /// It stays in the workspace, and so does the log.
    InPlace,
}

// === impl Of ===

impl Of<'_> {
    pub fn code(self) -> Code {
        match self {
            Of::Setup => Code::SetupFailed,
            Of::Seed(_) => Code::SeedFailed,
        }
    }

    fn advice(self) -> String {
        match self {
            Of::Setup => "look inside: `holm up LABEL --keep`\n\
                          go on without: `holm up LABEL --no-setup`"
                .to_owned(),
            Of::Seed(volume) => format!(
                "fix it or remove it from [volumes.{volume}] seed, then run the command again"
            ),
        }
    }
}

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Of::Setup => f.write_str("setup"),
            Of::Seed(volume) => write!(f, "seed of {volume}"),
        }
    }
}

// === impl Commands ===

impl Commands<'_> {
    /// Stops at the first command that fails.
    pub async fn run(
        &self,
        layout: &Layout,
        dirs: &WorkspaceDirs,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let mut log = Log::create(dirs, &self.known).map_err(|error| self.disk(error))?;
        for (position, command) in self.list.iter().enumerate() {
            let running = Running {
                command,
                position,
                all: self,
                progress,
            };
            let code = running.run(dirs, &mut log).await?;
            if code != 0 {
                let what = format!("`{command}` of `{}` ended with exit code {code}", self.of);
                log.refused = refused(dirs).await;
                return Err(self.failed(layout, &what, log));
            }
        }
        log.end().map_err(|error| self.disk(error))
    }

    fn failed(&self, layout: &Layout, what: &str, mut log: Log) -> Fault {
        let kept = log.end().and_then(|()| match self.made {
            Made::InPlace => Ok(log.path.clone()),
            Made::Layer(layer) => {
                let kept = layer::failed_log(&layer::directory(layout, layer));
                fs::create_dir_all(kept.parent().unwrap_or(&kept))?;
                fs::rename(&log.path, &kept)?;
                Ok(kept)
            }
        });
        let mut message = what.to_owned();
        for line in log.last_lines(LAST_LINES) {
            message.push_str("\n  ");
            message.push_str(&line);
        }
        for line in &log.refused {
            message.push_str("\n  the gateway refused ");
            message.push_str(line);
        }
        let advice = self.of.advice();
        let hint = match (kept, self.made) {
            // The code that moves the workspace adds the next step.
            (Ok(log), Made::InPlace) => format!("Its whole log is {}", log.display()),
            (Ok(log), Made::Layer(_)) => match self.of {
                Of::Setup => format!("{advice}\nwhole output: `less {}`", log.display()),
                Of::Seed(_) => format!("its whole log is {}; {advice}", log.display()),
            },
            (Err(_), _) => advice,
        };
        Fault::new(self.of.code(), message, hint)
    }

    fn disk(&self, error: io::Error) -> Fault {
        disk_fault(error, format!("cannot write the log of the {}", self.of))
    }
}

/// A line of the egress record, as far as it is needed here.
#[derive(Deserialize)]
struct Recorded {
    kind: String,
    name: Option<String>,
    address: Option<String>,
    port: Option<u16>,
    reason: Option<String>,
}

/// Destinations that the gateway refused, each once. Without a record the error only lacks these lines.
async fn refused(dirs: &WorkspaceDirs) -> Vec<String> {
    let record = client(dirs).egress(EgressFrom::Last(MOST_RECORDED)).await;
    let lines = record.map(|(lines, _)| lines).unwrap_or_default();
    refusals(&lines)
}

fn refusals(record: &[u8]) -> Vec<String> {
    let mut refused: Vec<String> = Vec::new();
    for line in record.split(|byte| *byte == b'\n') {
        let Ok(entry) = serde_json::from_slice::<Recorded>(line) else {
            continue;
        };
        if !["refuse", "resolve"].contains(&entry.kind.as_str()) {
            continue;
        }
        let target = entry.name.or(entry.address).unwrap_or_default();
        let port = entry.port.map_or(String::new(), |port| format!(":{port}"));
        let reason = entry
            .reason
            .map_or(String::new(), |reason| format!(": {reason}"));
        let line = format!("{target}{port}{reason}");
        if !refused.contains(&line) && refused.len() < MOST_REFUSED {
            refused.push(line);
        }
    }
    refused
}

/// Ends the command when its future is dropped.
struct EndOnDrop(mpsc::Sender<ExecInput>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // Fails only when the command has ended.
        let _ = self.0.try_send(ExecInput::Signal(libc::SIGTERM));
    }
}

struct Running<'a> {
    command: &'a str,
    position: usize,
    all: &'a Commands<'a>,
    progress: &'a Progress,
}

// === impl Running ===

impl Running<'_> {
    async fn run(&self, dirs: &WorkspaceDirs, log: &mut Log) -> Result<u8, Fault> {
        let disk = |error: io::Error| self.all.disk(error);
        log.begin(self.command).map_err(disk)?;
        let argv = ["sh", "-c", self.command];
        let request = ExecRequest {
            argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
            with_env: true,
            is_setup: matches!(self.all.of, Of::Setup),
            ..ExecRequest::default()
        };
        let mut stream = client(dirs).exec(request).await?;
        // It may have ended without reading its input.
        let _ = stream.input.send(ExecInput::StdinEof).await;
        let _end = EndOnDrop(stream.input.clone());
        let mut tick = tokio::time::interval(TICK);
        loop {
            let output = tokio::select! {
                output = stream.output.recv() => output,
                _ = tick.tick() => {
                    self.tell(log);
                    continue;
                }
            };
            match output {
                Some(ExecOutput::Stdout(bytes) | ExecOutput::Stderr(bytes)) => {
                    log.write(&bytes).map_err(disk)?;
                }
                Some(ExecOutput::Exit(code)) => {
                    log.release().map_err(disk)?;
                    return Ok(code);
                }
                Some(ExecOutput::Failed(fault)) => return Err(fault),
                Some(_) => {}
                None => {
                    let (of, command) = (self.all.of, self.command);
                    let message = format!("the {of} ended in the middle of `{command}`");
                    let hint = "type the command again; `holm doctor` checks this machine";
                    return Err(Fault::new(of.code(), message, hint));
                }
            }
        }
    }

    fn tell(&self, log: &Log) {
        let (of, at, count) = (self.all.of, self.position + 1, self.all.list.len());
        let last = log.last_lines(1).pop().unwrap_or_default();
        let step = step(&Step {
            place: format!("{of} {at}/{count}"),
            command: self.command,
            because: self.all.because,
            last: &last,
        });
        self.progress.report(&step, 0, 0);
    }
}

/// The bounded log of the commands' output.
struct Log {
    file: File,
    path: PathBuf,
    written: u64,
    left_out: u64,
    tail: Vec<u8>,
    masker: Masker,
    /// Destinations that the gateway refused meanwhile.
    refused: Vec<String>,
}

// === impl Log ===

impl Log {
    fn create(dirs: &WorkspaceDirs, known: &Known) -> io::Result<Self> {
        let path = dirs.setup_log();
        Ok(Self {
            file: File::create(&path)?,
            path,
            written: 0,
            left_out: 0,
            tail: Vec::new(),
            masker: Masker::new(known.clone()),
            refused: Vec::new(),
        })
    }

    /// Starts the section of a command.
    fn begin(&mut self, command: &str) -> io::Result<()> {
        let line = format!("$ {command}\n");
        self.write(line.as_bytes())?;
        self.release()?;
        self.tail.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let masked = self.masker.take(bytes);
        self.append(&masked)
    }

    /// Writes what was held back because it might begin a value.
    fn release(&mut self) -> io::Result<()> {
        let held = self.masker.finish();
        self.append(&held)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = MOST_LOG.saturating_sub(self.written);
        let taken = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.file.write_all(&bytes[..taken])?;
        self.written += taken as u64;
        self.left_out += (bytes.len() - taken) as u64;
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL {
            cut::keep_end(&mut self.tail, TAIL);
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.left_out == 0 {
            return Ok(());
        }
        let tail = cut::end(&self.tail, TAIL);
        let left_out = self.left_out.saturating_sub(tail.len() as u64);
        write!(self.file, "\n… {left_out} bytes are left out …\n")?;
        self.file.write_all(tail)
    }

    fn last_lines(&self, count: usize) -> Vec<String> {
        last_lines(&self.tail, count)
    }
}

fn last_lines(tail: &[u8], count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(cut::end(tail, MOST_TOLD));
    let lines = text.split(['\n', '\r']);
    let lines: Vec<_> = lines.filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    let short = |line: &&str| line.chars().take(LONGEST_LINE).collect();
    last.iter().map(short).collect()
}

/// What a progress report says.
struct Step<'a> {
    place: String,
    command: &'a str,
    because: Option<&'a str>,
    last: &'a str,
}

/// The progress line of a command. The last output is what changes, so a long command is shortened
/// to leave room for it within 80 columns.
fn step(step: &Step<'_>) -> String {
    let Step { place, last, .. } = step;
    let is_long = step.command.chars().count() > SHORT_COMMAND;
    let mut command = step.command.to_owned();
    if is_long && !last.is_empty() {
        let beginning: String = command.chars().take(SHORT_COMMAND - 1).collect();
        command = format!("{beginning}…");
    }
    if let Some(because) = step.because {
        command.push_str(", because ");
        command.push_str(because);
    }
    if last.is_empty() {
        format!("{place}: {command}")
    } else {
        format!("{place}: {command}  {last}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_what_was_said_begins_with_a_whole_character() {
        for shift in 0..3 {
            let said = format!("{}{}\nlast\n", "x".repeat(shift), "€".repeat(MOST_TOLD));
            let lines = last_lines(said.as_bytes(), LAST_LINES);
            assert_eq!(lines.len(), 2);
            assert!(!lines[0].contains('\u{fffd}'), "{}", lines[0]);
            assert_eq!(lines[1], "last");
        }
    }

    #[test]
    fn refusals_are_named_once() {
        let record = br#"{"kind":"connect","name":"example.org","port":443}
{"kind":"refuse","name":"npm.example.org","port":443,"reason":"not in the list"}
{"kind":"refuse","name":"npm.example.org","port":443,"reason":"not in the list"}
nonsense
{"kind":"resolve","name":"cdn.example.org","reason":"not in the list"}
"#;
        assert_eq!(
            refusals(record),
            [
                "npm.example.org:443: not in the list",
                "cdn.example.org: not in the list"
            ]
        );
    }

    #[test]
    fn what_a_command_said_last_is_seen_in_80_columns() {
        let shown = |command: &str, because: Option<&str>, last: &str| {
            step(&Step {
                place: "setup 1/2".to_owned(),
                command,
                because,
                last,
            })
        };
        assert_eq!(shown("npm ci", None, ""), "setup 1/2: npm ci");
        assert_eq!(shown("npm ci", None, "7 of 9"), "setup 1/2: npm ci  7 of 9");
        let because = Some("package-lock.json changed");
        let expect = "setup 1/2: npm ci, because package-lock.json changed";
        assert_eq!(shown("npm ci", because, ""), expect);
        assert_eq!(
            shown("npm ci", because, "7 of 9"),
            format!("{expect}  7 of 9")
        );
        let long = format!("npm ci {}", "--größe ".repeat(20));
        let shown = shown(&long, None, "7 of 9");
        assert!(shown.ends_with("…  7 of 9"), "{shown}");
        assert!(shown.chars().count() <= 60, "{shown}");
    }
}
