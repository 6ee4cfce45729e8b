//! Faults for failed file operations.

use crate::inside::{TIMED_OUT, complaints};
use holm_core::files::Failure;
use holm_core::{Code, Fault, TreePath};

const RESTART: &str =
    "try again; a workspace that an older holm started is renewed by `holm restart`";

/// The fault for a failure that the program inside reported.
pub fn of(path: &TreePath, failure: &Failure) -> Fault {
    let (code, hint) = match failure {
        Failure::NotFound => (Code::PathNotFound, "list the directory above it"),
        Failure::Link => (
            Code::NotAFile,
            "links are not followed; name the place that it leads to",
        ),
        Failure::NotADirectory => (Code::NotADirectory, "list the directory above it"),
        Failure::IsADirectory => (Code::NotAFile, "name a file in it, or list it"),
        Failure::Special => (Code::NotAFile, "`holm exec` reaches it from inside"),
        Failure::Unreadable(..) => (
            Code::PermissionDenied,
            "make them readable inside: `holm exec WS -- chmod -R u+rX .`; or name a directory \
             without them",
        ),
        Failure::Denied => (
            Code::PermissionDenied,
            "look at it inside: `holm exec WS -- ls -la`",
        ),
        Failure::ReadOnly => (
            Code::PermissionDenied,
            "it is a protected path; `protected_paths` of holm.toml names them",
        ),
        Failure::NotEmpty => (Code::NotEmpty, "say `recursive=true` to delete all of it"),
        Failure::NameTooLong => (Code::InvalidPath, "a name has at most 255 bytes"),
        Failure::DiskFull => (
            Code::DiskFull,
            "make room; `holm df` shows what could go, `holm gc` deletes it",
        ),
        Failure::TooLarge(_) => (Code::TooLarge, "ask for a part of it"),
        Failure::BadPattern(_) => (
            Code::BadRequest,
            "without `regex=true` it is taken as it is",
        ),
        Failure::BadArchive(_) => (
            Code::Refused,
            "an archive has files, directories and links below the directory, and nothing else",
        ),
        Failure::BadRequest(_) => (Code::ExecFailed, RESTART),
        Failure::System(_) => (
            Code::ExecFailed,
            "look at it inside: `holm exec WS -- ls -la`",
        ),
    };
    let why = match failure {
        Failure::System(number) => std::io::Error::from_raw_os_error(*number).to_string(),
        // It can be of any length and contain anything.
        other => harmless(&other.to_string()),
    };
    Fault::new(code, format!("`{path}`: {why}"), hint)
}

/// The program inside ended without a complete response.
pub fn ended(path: &TreePath, code: u8, stderr: &[u8]) -> Fault {
    let why = match code {
        TIMED_OUT => "it took too long".to_owned(),
        code => format!("exit code {code}: {}", complaints(stderr).join("; ")),
    };
    let message = format!("`{path}`: the program inside did not answer ({why})");
    Fault::new(Code::ExecFailed, message, RESTART)
}

pub fn vanished(path: &TreePath) -> Fault {
    let message = format!("`{path}`: the answer from inside ended in the middle");
    Fault::new(
        Code::ExecFailed,
        message,
        "`holm show` says whether it runs",
    )
}

pub fn cut_off(path: &TreePath) -> Fault {
    let message = format!("`{path}`: what was sent for it ended in the middle");
    Fault::new(Code::Cancelled, message, "send it again")
}

pub fn not_understood(path: &TreePath, error: &serde_json::Error) -> Fault {
    let why = harmless(&error.to_string());
    let message = format!("`{path}`: the answer from inside is not understood");
    // The error of serde may contain text from inside.
    Fault::new(Code::ExecFailed, message, RESTART).because(why)
}

pub fn too_long_answer(path: &TreePath) -> Fault {
    let message = format!("`{path}`: the answer from inside is too long");
    Fault::new(Code::TooLarge, message, "ask for less at a time")
}

/// One line without control characters.
fn harmless(text: &str) -> String {
    let short: String = text.chars().take(300).collect();
    short.escape_debug().to_string()
}
