//! Runs this same program for work that needs the user's repository. Its output with `--json` is
//! the answer.
//!
//! Text of a caller is only ever the value of an option or after `--`.

use super::wrong;
use holm_api::{ERRAND, ErrorBody};
use holm_core::{Code, Fault};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// The size limit of an answer.
const LONGEST: u64 = 64 << 20;

/// Interrupted when dropped, so that it undoes its work.
struct Running(Child);

// === impl Running ===

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.0.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::INT);
        }
    }
}

/// Runs `holm --json` with these arguments in a directory of the user, for `errand` if given.
pub async fn holm<T: DeserializeOwned>(
    directory: &Path,
    arguments: &[&str],
    errand: Option<&str>,
) -> Result<T, Fault> {
    if arguments.iter().any(|argument| argument.contains('\0')) {
        return Err(wrong("no text has a NUL in it"));
    }
    let failed = |error: std::io::Error| {
        let message = format!("cannot run holm in {}", directory.display());
        Fault::new(
            Code::Internal,
            message,
            "is the directory there, and readable?",
        )
        .because(error)
    };
    let child = Command::new(program())
        .env_remove(ERRAND)
        .envs(errand.map(|errand| (ERRAND, errand)))
        .arg("--json")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let mut running = Running(child);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (out, errors) = (running.0.stdout.take(), running.0.stderr.take());
    let reading = async {
        let said = async {
            match out {
                Some(out) => out.take(LONGEST).read_to_end(&mut stdout).await,
                None => Ok(0),
            }
        };
        let complained = async {
            match errors {
                Some(errors) => errors.take(LONGEST).read_to_end(&mut stderr).await,
                None => Ok(0),
            }
        };
        tokio::try_join!(said, complained)
    };
    reading.await.map_err(failed)?;
    let status = running.0.wait().await.map_err(failed)?;
    let document = understand(&stdout, &stderr, status.success())?;
    serde_json::from_value(document).map_err(|error| unclear(&error.to_string()))
}

/// A problem of a workspace that was created anyway is part of its answer.
fn understand(stdout: &[u8], stderr: &[u8], is_good: bool) -> Result<Value, Fault> {
    let document = serde_json::from_slice::<Value>(stdout).ok();
    if let (Some(document), true) = (&document, is_good) {
        return Ok(document.clone());
    }
    let complaint = String::from_utf8_lossy(stderr);
    let last = complaint.lines().last().unwrap_or_default();
    let error = serde_json::from_str::<ErrorBody>(last);
    match (document, error) {
        (Some(mut document), Ok(body)) if document.is_object() => {
            document["trouble"] = serde_json::to_value(body.error).unwrap_or_default();
            Ok(document)
        }
        (_, Ok(body)) => Err(body.into()),
        (_, Err(_)) => Err(unclear(last)),
    }
}

fn unclear(said: &str) -> Fault {
    let message = format!("holm did not say what it did: {}", said.escape_debug());
    Fault::new(Code::Internal, message, "see `holm daemon status`")
}

/// An upgrade may have replaced the file that this process was started from.
fn program() -> PathBuf {
    let own = std::env::current_exe().ok().filter(|own| own.exists());
    own.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_errors_are_told_apart() {
        let error = br#"{"error":{"code":"not_trusted","message":"m","hint":"h"}}"#;
        let good = understand(b"{\"id\":1}", b"", true).unwrap();
        assert_eq!(good["id"], 1);
        let made = understand(b"{\"id\":1}", error, false).unwrap();
        assert_eq!(made["trouble"]["code"], "not_trusted");
        let fault = understand(b"", error, false).unwrap_err();
        assert_eq!(fault.code, Code::NotTrusted);
        let fault = understand(b"", b"killed", false).unwrap_err();
        assert_eq!(fault.code, Code::Internal);
    }
}
