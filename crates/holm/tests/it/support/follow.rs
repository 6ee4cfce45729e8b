//! `strace`, attached to processes that run already.

use super::Running;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Attaches `strace` with these arguments to every thread of the processes; `output` gets its lines.
/// `None`: this user may not do that here.
///
/// A caller that needs the lines ends it with SIGKILL: each is written at once, and at SIGTERM it may wait
/// forever for a process that begins at that moment.
pub fn follow(pids: &[i32], arguments: &[&str], output: Stdio) -> Option<Running> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]).args(arguments);
    for pid in pids {
        command.args(["-p", &pid.to_string()]);
    }
    let mut tracer = Running::new(command.stderr(output));
    let begun = Instant::now();
    while !pids.iter().all(|pid| is_followed(*pid)) {
        if tracer.has_ended() {
            return None;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "strace does not follow"
        );
        std::thread::park_timeout(Duration::from_millis(2));
    }
    Some(tracer)
}

fn is_followed(pid: i32) -> bool {
    // A process that has ended has no thread left to follow.
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let mut followed = tasks.flatten().map(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    });
    followed.all(|followed| followed)
}
