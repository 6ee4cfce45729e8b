//! The log of a check: lines of JSON in a file outside of every workspace, which goes with the turns of the checked
//! one. `holm logs WS check/NAME` reads it.

use crate::App;
use crate::failure::{Failure, bad_request};
use crate::jsonl;
use axum::body::Body as HttpBody;
use bytes::Bytes;
use futures_util::stream;
use holm_api::service::{LogLine, LogQuery};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::{CheckOutput, try_blocking};
use holm_keeper::runs::Stream;
use holm_keeper::runs::read::Piece;
use jiff::Timestamp;
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

/// How the log of a check is named where services are named.
pub const PREFIX: &str = "check/";

/// Later output is not kept.
const MOST: u64 = 16 << 20;

/// A longer line is cut into several.
const LONGEST_LINE: usize = 16 << 10;

/// How often a followed log is polled.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub struct CheckLog {
    file: File,
    service: String,
    /// Of stdout and stderr: what follows the last line end.
    partial: [Vec<u8>; 2],
    written: u64,
}

// === impl CheckLog ===

impl CheckLog {
    /// Replaces the log of the check before.
    pub async fn create(path: &Path, name: &str) -> io::Result<Self> {
        let parent = path.parent().unwrap_or(path);
        tokio::fs::create_dir_all(parent).await?;
        let fresh = path.with_extension("new");
        let file = File::create(&fresh).await?;
        tokio::fs::rename(&fresh, path).await?;
        Ok(Self {
            file,
            service: format!("{PREFIX}{name}"),
            partial: [Vec::new(), Vec::new()],
            written: 0,
        })
    }

    pub async fn add(&mut self, output: CheckOutput) -> io::Result<()> {
        let mut lines = Vec::new();
        match output {
            CheckOutput::Note(text) => self.line(&mut lines, Timestamp::now(), "holm", &text),
            CheckOutput::Piece(Piece::Missed { bytes, .. }) => {
                let text = format!("[{bytes} bytes of output are left out here]");
                self.line(&mut lines, Timestamp::now(), "holm", &text);
            }
            CheckOutput::Piece(Piece::Output {
                time_ms,
                stream,
                bytes,
                ..
            }) => {
                let at = Timestamp::from_millisecond(time_ms).unwrap_or_default();
                self.take(&mut lines, at, stream, &bytes);
            }
        }
        self.write(&lines).await
    }

    /// Writes what has no line end, and a last line of holm.
    pub async fn finish(&mut self, last: Option<&str>) -> io::Result<()> {
        let (now, mut lines) = (Timestamp::now(), Vec::new());
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = std::mem::take(&mut self.partial[place(stream)]);
            if !rest.is_empty() {
                let text = String::from_utf8_lossy(&rest);
                self.line(&mut lines, now, word(stream), &text);
            }
        }
        if let Some(text) = last {
            self.line(&mut lines, now, "holm", text);
        }
        self.write(&lines).await
    }

    fn take(&mut self, lines: &mut Vec<u8>, at: Timestamp, stream: Stream, bytes: &[u8]) {
        let mut partial = std::mem::take(&mut self.partial[place(stream)]);
        partial.extend_from_slice(bytes);
        let mut rest = partial.as_slice();
        while let Some(end) = line_end(rest) {
            let text = String::from_utf8_lossy(&rest[..end]);
            self.line(lines, at, word(stream), &text);
            let is_ended = rest.get(end) == Some(&b'\n');
            rest = &rest[end + usize::from(is_ended)..];
        }
        self.partial[place(stream)] = rest.to_vec();
    }

    fn line(&self, lines: &mut Vec<u8>, at: Timestamp, stream: &str, text: &str) {
        lines.extend(jsonl::line(&LogLine {
            time: format!("{at:.6}"),
            service: self.service.clone(),
            stream: stream.to_owned(),
            text: text.to_owned(),
        }));
    }

    async fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.written > MOST || lines.is_empty() {
            return Ok(());
        }
        self.written += lines.len() as u64;
        self.file.write_all(lines).await?;
        if self.written > MOST {
            let mut note = Vec::new();
            let text = format!("[output behind the first {} MiB is not kept]", MOST >> 20);
            self.line(&mut note, Timestamp::now(), "holm", &text);
            self.file.write_all(&note).await?;
        }
        self.file.flush().await
    }
}

/// Where the first line ends: at its line end, or where it is too long.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let end = bytes
        .iter()
        .take(LONGEST_LINE)
        .position(|byte| *byte == b'\n');
    end.or((bytes.len() >= LONGEST_LINE).then_some(LONGEST_LINE))
}

fn place(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

fn word(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    }
}

// === impl App ===

impl App {
    /// The log of the last run of a check as JSON Lines.
    pub async fn check_log(
        self: &Arc<Self>,
        id: &WorkspaceId,
        name: &str,
        query: &LogQuery,
    ) -> Result<HttpBody, Failure> {
        self.engine.project_of(id).await?;
        let since: Option<Timestamp> = match query.since.as_deref().map(str::parse) {
            Some(Ok(since)) => Some(since),
            Some(Err(_)) => return Err(bad_request("`since` is not a time")),
            None => None,
        };
        let path = self.turns.check_log(id, name);
        let mut file = match File::open(&path).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.no_log(id, name).await.into());
            }
            Err(error) => return Err(crate::startup::unusable("read", &path, error).into()),
        };
        let mut text = Vec::new();
        let is_read = file.read_to_end(&mut text).await;
        is_read.map_err(|error| crate::startup::unusable("read", &path, error))?;
        let end = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let first = chosen(&text[..end], since, query.last);
        if !query.follow {
            return Ok(HttpBody::from(first));
        }
        let following = Following {
            app: Arc::clone(self),
            id: id.clone(),
            name: name.to_owned(),
            file,
            at: end as u64,
            first: Some(first.into()),
            is_over: false,
        };
        let pieces = stream::try_unfold(following, |mut following| async move {
            let piece = following.next().await?;
            Ok::<_, io::Error>(piece.map(|piece| (piece, following)))
        });
        Ok(HttpBody::from_stream(pieces))
    }

    async fn no_log(&self, id: &WorkspaceId, name: &str) -> Fault {
        let directory = self.turns.check_logs(id);
        let known = try_blocking(move || Ok(logged(&directory))).await;
        let known = known.unwrap_or_default();
        let hint = match known.as_slice() {
            [] => format!("no check ran yet; `holm check {id}` runs them"),
            names => format!("there are logs of {}", names.join(", ")),
        };
        let message = format!("there is no log of a check `{}`", name.escape_debug());
        Fault::new(Code::CheckNotFound, message, hint)
    }
}

/// The names of checks with a log.
fn logged(directory: &PathBuf) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_suffix(".log")?.to_owned())
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// The lines after a time, and the last of them.
fn chosen(text: &[u8], since: Option<Timestamp>, last: Option<usize>) -> Vec<u8> {
    let is_wanted = |line: &&[u8]| {
        let Some(since) = since else { return true };
        let line: Option<LogLine> = serde_json::from_slice(line).ok();
        let at: Option<Timestamp> = line.and_then(|line| line.time.parse().ok());
        at.is_some_and(|at| at >= since)
    };
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let lines: Vec<&[u8]> = lines.filter(is_wanted).collect();
    let first = lines.len().saturating_sub(last.unwrap_or(usize::MAX));
    lines[first..].concat()
}

/// A client that follows a log.
struct Following {
    app: Arc<App>,
    id: WorkspaceId,
    name: String,
    file: File,
    /// How much was read.
    at: u64,
    first: Option<Bytes>,
    is_over: bool,
}

// === impl Following ===

impl Following {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        loop {
            if self.is_over {
                return Ok(None);
            }
            // Checked before reading, so that the last lines are sent.
            self.is_over = !self.app.checks.is_under_way(&self.id, &self.name);
            let mut text = Vec::new();
            self.file.seek(SeekFrom::Start(self.at)).await?;
            self.file.read_to_end(&mut text).await?;
            let end = text.iter().rposition(|byte| *byte == b'\n');
            if let Some(end) = end {
                text.truncate(end + 1);
                self.at += text.len() as u64;
                return Ok(Some(text.into()));
            }
            let mut stop = self.app.stop.subscribe();
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                _ = stop.wait_for(|is_stopping| *is_stopping) => {
                    return Err(io::Error::other("the daemon ends"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(stream: Stream, bytes: &[u8]) -> CheckOutput {
        CheckOutput::Piece(Piece::Output {
            cursor: 0,
            time_ms: 1_800_000_000_123,
            stream,
            bytes: bytes.to_vec(),
        })
    }

    #[tokio::test]
    async fn lines_are_put_together_by_stream_and_bounded() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("checks/test.log");
        let mut log = CheckLog::create(&path, "test").await.unwrap();
        log.add(piece(Stream::Stdout, b"one\ntw")).await.unwrap();
        log.add(piece(Stream::Stderr, b"bad\n")).await.unwrap();
        log.add(piece(Stream::Stdout, b"o\n")).await.unwrap();
        let long = vec![b'x'; LONGEST_LINE + 3];
        log.add(piece(Stream::Stdout, &long)).await.unwrap();
        log.finish(Some("[failed]")).await.unwrap();
        let text = std::fs::read(&path).unwrap();
        let lines: Vec<LogLine> = text
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let read: Vec<_> = lines
            .iter()
            .map(|line| (line.stream.as_str(), line.text.len()))
            .collect();
        let expected = [
            ("stdout", 3),
            ("stderr", 3),
            ("stdout", 3),
            ("stdout", LONGEST_LINE),
            ("stdout", 3),
            ("holm", 8),
        ];
        assert_eq!(read, expected);
        assert_eq!(lines[2].text, "two");
        assert_eq!(lines[0].service, "check/test");
        assert_eq!(lines[0].time, "2027-01-15T08:00:00.123000Z");
        assert_eq!(
            chosen(&text, None, Some(2))
                .iter()
                .filter(|b| **b == b'\n')
                .count(),
            2
        );
        let late = "2027-01-15T08:00:01Z".parse().unwrap();
        let read = chosen(&text, Some(late), None);
        assert_eq!(read.iter().filter(|byte| **byte == b'\n').count(), 0);
        // A second run replaces the log.
        let mut again = CheckLog::create(&path, "test").await.unwrap();
        for _ in 0..=(MOST / LONGEST_LINE as u64) {
            again.add(piece(Stream::Stdout, &long)).await.unwrap();
        }
        again.add(piece(Stream::Stdout, b"late\n")).await.unwrap();
        again.finish(None).await.unwrap();
        let kept = std::fs::read(&path).unwrap();
        assert!(kept.len() as u64 <= MOST + (1 << 16), "{}", kept.len());
        assert!(String::from_utf8_lossy(&kept).contains("is not kept]"));
    }
}
