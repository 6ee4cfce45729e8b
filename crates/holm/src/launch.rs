//! Starts this program again as the daemon: in the background, or in place of this process when
//! root typed `daemon run`.
//!
//! A daemon in the background prints one line on its stdout, `ready` or an error body, and has its
//! own session by then.

use crate::wiring::{as_inherited, keep_from_children, prepare_groups};
use holm_api::ErrorBody;
use holm_config::daemon_user::{DaemonUser, is_for_everybody};
use holm_core::{Code, Fault};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

/// Printed by a daemon that serves.
pub const READY: &str = "ready";

/// Variables for paths, user and locale.
const KEPT: [&str; 18] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "NOTIFY_SOCKET",
    "PATH",
    "PGPASSFILE",
    "RUST_BACKTRACE",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];
const KEPT_BEGINNINGS: [&str; 4] = ["HOLM_", "LC_", "LLVM_", "XDG_"];

/// Starts a daemon and returns when it is ready.
pub async fn background(user: &DaemonUser, limit: Duration) -> Result<(), Fault> {
    user.prepare_home()?;
    let groups = prepare_groups(user);
    // A pipe inherited from this command would stay open for as long as the daemon lives.
    keep_from_children(3)
        .map_err(|error| not_started("descriptors cannot be kept from it").because(error))?;
    let mut command = daemon_command(user);
    command
        .args(["daemon", "run", "--background"])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = tokio::process::Command::from(command)
        .spawn()
        .map_err(|error| not_started("it cannot be run").because(error))?;
    drop(groups);
    let stdout = child
        .stdout
        .take()
        .ok_or_else(|| not_started("its output cannot be read"))?;
    let mut line = String::new();
    let mut reader = BufReader::new(stdout);
    match tokio::time::timeout(limit, reader.read_line(&mut line)).await {
        Ok(Ok(_)) => understand(&line),
        Ok(Err(error)) => Err(not_started("its output cannot be read").because(error)),
        Err(_) => {
            let seconds = limit.as_secs();
            Err(not_started(&format!("it was not ready after {seconds} s")))
        }
    }
}

/// Replaces this process by a daemon of the service user. Returns only on failure.
pub fn replace(user: &DaemonUser, arguments: &[&str]) -> Fault {
    if let Err(fault) = user.prepare_home() {
        return fault;
    }
    let _groups = prepare_groups(user);
    let error = daemon_command(user).args(arguments).exec();
    not_started("it cannot be run").because(error)
}

/// This program, to be run as `user` with that user's environment.
fn daemon_command(user: &DaemonUser) -> Command {
    let mut command = Command::new(program(user));
    command.arg0("holm");
    // The daemon starts workspaces with this limit, and raises it for itself.
    as_inherited(&mut command);
    match user {
        DaemonUser::Service(account) => {
            command
                .uid(account.uid)
                .gid(account.gid)
                .env_clear()
                .envs(user.environment());
        }
        DaemonUser::Caller => {
            command.env_clear().envs(kept_variables(user));
        }
    }
    command
}

/// The variables that the daemon inherits. All others may be secrets, which every program of the
/// user could read for as long as the daemon lives.
fn kept_variables(user: &DaemonUser) -> impl Iterator<Item = (OsString, OsString)> {
    let agents = agent_variables(user).unwrap_or_default();
    let is_kept = move |name: &OsString| {
        let name = name.to_str().unwrap_or_default();
        KEPT.contains(&name)
            || KEPT_BEGINNINGS.iter().any(|begin| name.starts_with(begin))
            || agents.iter().any(|agent| agent == name)
    };
    std::env::vars_os().filter(move |(name, _)| is_kept(name))
}

/// Variables that the user's own settings give to agents.
fn agent_variables(user: &DaemonUser) -> Option<Vec<String>> {
    let (paths, home) = (user.paths().ok()?, user.home().ok()?);
    // Errors in the settings are reported by the commands that need them.
    let settings = holm_config::user::load(&paths.config_file, &home).ok()?;
    let agents = settings.agents.values();
    let names = agents.flat_map(|agent| agent.env.iter().map(ToString::to_string));
    Some(names.collect())
}

/// The path of this program. The kernel's own link is used where the user cannot reach the path:
/// below root's home, or when the file was replaced since.
fn program(user: &DaemonUser) -> PathBuf {
    let link = Path::new("/proc/self/exe");
    match std::env::current_exe() {
        Ok(path) if *user == DaemonUser::Caller && path.exists() => path,
        Ok(path) if is_for_everybody(&path) => path,
        _ => link.to_owned(),
    }
}

/// Parses the line that a starting daemon prints.
fn understand(line: &str) -> Result<(), Fault> {
    let line = line.trim();
    if line == READY {
        return Ok(());
    }
    match serde_json::from_str::<ErrorBody>(line) {
        Ok(body) => Err(body.into()),
        Err(_) => Err(not_started("it ended without saying why")),
    }
}

fn not_started(why: &str) -> Fault {
    Fault::new(
        Code::DaemonUnreachable,
        format!("the daemon could not be started: {why}"),
        "`holm daemon run` starts it in the foreground and shows what happens",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_starting_daemon_says() {
        assert_eq!(understand("ready\n"), Ok(()));
        let body = r#"{"error":{"code":"disk_full","message":"no room","hint":"make room"}}"#;
        let expect = Fault::new(Code::DiskFull, "no room", "make room");
        assert_eq!(understand(body), Err(expect));
        assert_eq!(understand("").unwrap_err().code, Code::DaemonUnreachable);
    }
}
