//! The user's ranges of subordinate ids, and user namespaces with them. The kernel lets only root map ids of
//! others, so the set-user-id programs `newuidmap` and `newgidmap` do it, as `/etc/subuid` and `/etc/subgid` allow.

use crate::programs::OWN_PROGRAM;
use crate::sys;
use holm_core::sub_ids::{self, OwnIds, SubIds, WANTED};
use rustix::process::{DumpableBehavior, getgid, getpid, getuid, set_dumpable_behavior};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const USERS: &str = "/etc/subuid";
const GROUPS: &str = "/etc/subgid";

/// The hidden first argument of a process that only waits in a user namespace.
pub const ROLE: &str = "__map";

/// The programs that map, for groups and for users.
const TOOLS: [&str; 2] = ["newgidmap", "newuidmap"];

/// Where distributions have them.
const PLACES: [&str; 4] = ["/usr/bin", "/run/wrappers/bin", "/usr/local/bin", "/bin"];

/// Why services of images have one user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    #[error("{file} has no range of at least 1000 ids for {name}")]
    Range { file: &'static str, name: String },
    #[error("{0} is missing, or is not set-user-id")]
    Tool(&'static str),
    #[error("the ranges of ids cannot be mapped: {0}")]
    Refused(String),
}

/// The ranges that this process's user may use.
pub fn find() -> Result<SubIds, Missing> {
    let number = getuid().as_raw();
    let name = name_of(number).unwrap_or_else(|| number.to_string());
    let range = |file: &'static str| {
        // Without the file there are no ranges.
        let text = fs::read_to_string(file).unwrap_or_default();
        let missing = || Missing::Range {
            file,
            name: name.clone(),
        };
        sub_ids::find(&text, &name, number).ok_or_else(missing)
    };
    let ids = SubIds {
        users: range(USERS)?,
        groups: range(GROUPS)?,
    };
    for tool in TOOLS {
        self::tool(tool).ok_or(Missing::Tool(tool))?;
    }
    Ok(ids)
}

/// The same, tried out: a machine may have ranges and not let anything map them. Tried once, if it works.
pub fn usable() -> Result<SubIds, Missing> {
    static TRIED: OnceLock<SubIds> = OnceLock::new();
    let ids = find()?;
    if TRIED.get() == Some(&ids) {
        return Ok(ids);
    }
    try_to_map(&ids).map_err(|error| Missing::Refused(error.to_string()))?;
    Ok(*TRIED.get_or_init(|| ids))
}

/// How to get what is missing.
pub fn fix(missing: &Missing) -> String {
    match missing {
        Missing::Range { name, .. } => {
            let last = 100_000 + WANTED - 1;
            format!(
                "as root: `usermod --add-subuids 100000-{last} --add-subgids 100000-{last} {name}`, with numbers that no other line has"
            )
        }
        Missing::Refused(_) => {
            "correct /etc/subuid and /etc/subgid; inside of a container, its own ranges count"
                .to_owned()
        }
        Missing::Tool(_) => {
            "install `uidmap` (Debian, Ubuntu) or `shadow-utils` (Fedora)".to_owned()
        }
    }
}

/// Maps the user and the ranges to themselves in the user namespace of a process, which belongs to this user and is not
/// mapped yet.
pub fn map(pid: i32, ids: &SubIds, own: OwnIds) -> io::Result<()> {
    for (tool, arguments) in calls(pid, ids, own) {
        let output = Command::new(program(tool)?)
            .args(arguments)
            .env_clear()
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(said.trim().to_owned()));
        }
    }
    Ok(())
}

/// Maps the ranges in a user namespace of a process that only waits.
fn try_to_map(ids: &SubIds) -> io::Result<()> {
    let mut waiting = Command::new(OWN_PROGRAM);
    waiting.arg(ROLE).env_clear().stdin(Stdio::piped());
    let mut waiting = waiting.stdout(Stdio::piped()).spawn()?;
    let mut told = Vec::new();
    let mapped = match &mut waiting.stdout {
        Some(stdout) => stdout.read_to_end(&mut told).and_then(|_| {
            let pid = i32::try_from(waiting.id()).map_err(io::Error::other)?;
            map(pid, ids, own())
        }),
        None => Ok(()),
    };
    // It ends when its input does.
    drop(waiting.stdin.take());
    waiting.wait()?;
    mapped
}

/// The role of that process: it makes the namespace, closes its output, and waits for the end of its input.
pub fn main() -> ! {
    let made = sys::process::own_user_namespace();
    let prepared = made.and_then(|()| Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?));
    let null = File::options().write(true).open("/dev/null");
    let closed = null.and_then(|null| Ok(rustix::stdio::dup2_stdout(&null)?));
    let waited = io::stdin().read_to_end(&mut Vec::new());
    let code = prepared.and(closed).and(waited.map(drop)).is_err();
    std::process::exit(code.into())
}

/// Enters a user namespace in which this process may do everything with files of the user and of the ranges. The caller
/// must have one thread only.
pub fn enter(ids: &SubIds) -> io::Result<()> {
    let mut line = Vec::new();
    for (tool, arguments) in calls(getpid().as_raw_nonzero().get(), ids, own()) {
        line.push(program(tool)?.display().to_string());
        line.push(arguments.join(" "));
    }
    // Programs that this process starts afterwards would be in the new user namespace, where no set-user-id counts. So the
    // one that maps starts before, and waits.
    let mut mapper = Command::new("/bin/sh")
        .args(["-c", "read -r go && \"$1\" $2 && \"$3\" $4", "holm-map"])
        .args(line)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let entered = sys::process::own_user_namespace()
        .and_then(|()| Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?));
    if let (Ok(()), Some(mut stdin)) = (&entered, mapper.stdin.take()) {
        stdin.write_all(b"go\n")?;
    }
    // Its input has ended; without the word it does nothing.
    let output = mapper.wait_with_output()?;
    entered?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(said.trim().to_owned()))
}

fn calls(pid: i32, ids: &SubIds, own: OwnIds) -> [(&'static str, Vec<String>); 2] {
    let arguments = |own: u32, range: sub_ids::IdRange| {
        let numbers = [own, own, 1, range.first, range.first, range.count];
        let numbers = numbers.iter().map(u32::to_string);
        std::iter::once(pid.to_string()).chain(numbers).collect()
    };
    let [groups, users] = TOOLS;
    [
        (groups, arguments(own.group, ids.groups)),
        (users, arguments(own.user, ids.users)),
    ]
}

fn program(name: &'static str) -> io::Result<PathBuf> {
    let missing = || io::Error::other(Missing::Tool(name).to_string());
    tool(name).ok_or_else(missing)
}

/// A program of root's that may map ids: by its mode, or by a capability of the file.
fn tool(name: &str) -> Option<PathBuf> {
    let mut found = PLACES.iter().map(|place| Path::new(place).join(name));
    found.find(|path| {
        let Ok(metadata) = fs::metadata(path) else {
            return false;
        };
        let mut capability = [0_u8; 64];
        let is_privileged = metadata.permissions().mode() & 0o4000 != 0
            || rustix::fs::getxattr(path, "security.capability", &mut capability).is_ok();
        metadata.uid() == 0 && is_privileged
    })
}

fn name_of(number: u32) -> Option<String> {
    let known = fs::read_to_string("/etc/passwd").ok()?;
    known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, user) = (fields.next()?, fields.next()?, fields.next()?);
        (user.parse() == Ok(number)).then(|| name.to_owned())
    })
}

/// The ids of this process.
pub fn own() -> OwnIds {
    OwnIds {
        user: getuid().as_raw(),
        group: getgid().as_raw(),
    }
}
