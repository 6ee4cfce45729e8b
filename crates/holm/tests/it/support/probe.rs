//! Attempts written in Python that run both inside a workspace and outside, so that a refusal can
//! be compared with what the same attempt does without the defence.

use super::{Island, Ran};
use std::collections::BTreeMap;
use std::path::Path;

/// The name of each attempt, with `ok` or the name of the error (`EROFS`).
#[derive(Debug)]
pub struct Attempts(pub BTreeMap<String, String>);

/// `attempt(name, function, …)` notes how it ended; `call(function, …)` raises what libc says.
const PRELUDE: &str = r#"
import ctypes, errno, json, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
results = {}
def attempt(name, function, *arguments):
    try:
        function(*arguments)
        results[name] = "ok"
    except OSError as error:
        results[name] = errno.errorcode.get(error.errno, str(error.errno))
def call(function, *arguments):
    answer = function(*arguments)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
def write(path):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, b"changed")
    os.close(descriptor)
def read(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.read(descriptor, 1)
    os.close(descriptor)
"#;

const END: &str = "\nprint(json.dumps(results))\n";

// === impl Island ===

impl Island {
    /// Inside, in the root of the tree.
    #[track_caller]
    pub fn attempts(&self, workspace: &str, script: &str) -> Attempts {
        let script = Attempts::script(script);
        Attempts::from(self.python(workspace, &script))
    }

    /// On the host as the user, in a directory.
    #[track_caller]
    pub fn attempts_outside(&self, directory: &Path, script: &str) -> Attempts {
        let script = Attempts::script(script);
        Attempts::from(self.run(directory, "/usr/bin/python3", &["-c", &script]))
    }

    /// On the host, as root of new namespaces that every user can make.
    #[track_caller]
    pub fn attempts_in_namespaces(&self, directory: &Path, script: &str) -> Attempts {
        let script = Attempts::script(script);
        let arguments = ["-Urmnpf", "/usr/bin/python3", "-c", &script];
        Attempts::from(self.run(directory, "unshare", &arguments))
    }
}

// === impl Attempts ===

impl Attempts {
    /// The whole program, for wherever it is to run.
    pub fn script(attempts: &str) -> String {
        format!("{PRELUDE}{attempts}{END}")
    }

    /// What such a program said.
    #[track_caller]
    pub fn from(ran: Ran) -> Self {
        let results = ran.json();
        Self(serde_json::from_value(results).unwrap())
    }

    /// Every attempt worked.
    #[track_caller]
    pub fn succeeded(&self) {
        let failed: Vec<_> = self.0.iter().filter(|(_, how)| *how != "ok").collect();
        assert!(failed.is_empty() && !self.0.is_empty(), "{failed:?}");
    }

    /// Every attempt was refused, with one of these errors.
    #[track_caller]
    pub fn refused(&self, with: &[&str]) {
        let other: Vec<_> = self
            .0
            .iter()
            .filter(|(_, how)| !with.contains(&how.as_str()))
            .collect();
        assert!(other.is_empty() && !self.0.is_empty(), "{other:?}");
    }
}
