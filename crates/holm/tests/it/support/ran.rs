//! What a command did.

use serde_json::Value;
use std::process::Command;

#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
    command: String,
}

// === impl Ran ===

impl Ran {
    pub fn new(command: &mut Command) -> Self {
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            command: format!("{command:?}"),
        }
    }

    /// It must have gone well.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// It must have ended with this code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{self:#?}", self.command);
        self
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout)
            .trim_end_matches('\n')
            .to_owned()
    }

    /// Stdout is one JSON document.
    #[track_caller]
    pub fn json(self) -> Value {
        let ran = self.ok();
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"))
    }

    /// The error body of a command that ran with `--json`, which exited with `code`.
    #[track_caller]
    pub fn error(self, code: i32) -> Value {
        let ran = self.exits(code);
        let body: Value = serde_json::from_str(ran.stderr.trim())
            .unwrap_or_else(|error| panic!("{error}: {ran:#?}"));
        for field in ["code", "message", "hint"] {
            assert!(body["error"][field].is_string(), "{field} in {body}");
        }
        body["error"].clone()
    }
}
