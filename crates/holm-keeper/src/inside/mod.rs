//! Helpers that the keeper starts inside through init, without special rights: waiting until a
//! service answers, and ending all processes of a service.
//!
//! `holm __inside http PORT PATH | tcp PORT [ADDRESS] | command TEXT` ends with 0 when it succeeded once.
//! `holm __inside end NAME PID GRACE_MS` ends with 0 when nothing is left.
//! `holm __inside end-run RUN PID GRACE_MS` ends a run, the same as a service.
//! `holm __inside end-exec MARK PID GRACE_MS` ends a program that holm itself runs, the same as a service.
//! `holm __inside uses NAME PID PATH` ends with 0 when the service has files below the path open.
//! `holm __inside hold` says `still` when everything else stands still, until stdin ends.
//! `holm __inside release` lets everything go on that stands still.
//! `holm __inside follow RULES` follows files of the tree in the root of a service, and ends with its keeper.
//! `holm __inside end-all LIMIT_MS` asks every process to end, and ends with 0 when all did.

mod follow;
mod probe;
mod still;
mod subreaper;
mod tree;

pub use follow::Told;
pub use probe::ANSWER_WITHIN;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
pub use still::STILL;
pub use subreaper::HeldRun;
use tree::{Leader, Tree};

/// The hidden first argument of a helper of the keeper that runs inside.
pub const ROLE: &str = "__inside";

pub const HTTP: &str = "http";
pub const TCP: &str = "tcp";
pub const COMMAND: &str = "command";
pub const END: &str = "end";
pub const END_RUN: &str = "end-run";
pub const END_EXEC: &str = "end-exec";
pub const END_ALL: &str = "end-all";
pub const USES: &str = "uses";
pub const FOLLOW: &str = "follow";
pub const HOLD: &str = "hold";
pub const RELEASE: &str = "release";

/// A variable in the environment of a service's processes, unless they removed it.
pub const MARK: &str = "HOLM_SERVICE";
/// The same for a run.
pub const RUN_MARK: &str = "HOLM_RUN";
/// The same for a program that holm itself runs.
pub const EXEC_MARK: &str = "HOLM_EXEC";

/// The role.
pub fn main(arguments: &[OsString]) -> ! {
    let arguments: Option<Vec<&str>> = arguments.iter().map(|text| text.to_str()).collect();
    let done = match arguments.as_deref() {
        Some([HTTP, port, path]) => parsed(port).map(|port| probe::http(port, path)),
        Some([TCP, port]) => parsed(port).map(probe::tcp),
        Some([TCP, port, address]) => parsed(port)
            .zip(parsed::<IpAddr>(address))
            .map(|(port, address)| probe::tcp_at((address, port).into())),
        Some([COMMAND, text]) => Some(probe::command(text)),
        Some([END, name, pid, grace]) => parsed(pid)
            .zip(parsed(grace))
            .map(|(pid, grace)| tree::end(&marked(MARK, name, pid), Duration::from_millis(grace))),
        Some([END_EXEC, mark, pid, grace]) => parsed(pid).zip(parsed(grace)).map(|(pid, grace)| {
            let program = marked(EXEC_MARK, mark, pid);
            tree::end(&program, Duration::from_millis(grace))
        }),
        Some([END_RUN, run, pid, grace]) => parsed(pid).zip(parsed(grace)).map(|(pid, grace)| {
            let run = Tree {
                mark: format!("{RUN_MARK}={run}"),
                leader: pid,
                leader_is: Leader::Ours,
            };
            tree::end(&run, Duration::from_millis(grace))
        }),
        Some([END_ALL, limit]) => {
            parsed(limit).map(|limit| tree::end_all(Duration::from_millis(limit)))
        }
        Some([USES, name, pid, path]) => {
            parsed(pid).map(|pid| tree::uses(&marked(MARK, name, pid), Path::new(path)))
        }
        Some([FOLLOW, rules]) => Some(follow::follow(rules)),
        Some([HOLD]) => Some(still::hold()),
        Some([RELEASE]) => Some(still::release()),
        _ => None,
    };
    std::process::exit(match done {
        Some(true) => 0,
        Some(false) => 1,
        None => 2,
    })
}

fn marked(variable: &str, value: &str, leader: i32) -> Tree {
    Tree {
        mark: format!("{variable}={value}"),
        leader,
        leader_is: Leader::Theirs,
    }
}

fn parsed<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}
