//! Processes that do not end: some left their session and parents (attack 51); keepers and inits
//! that the kernel blocks, in an uninterruptible wait (state D) or in a frozen control group
//! (attack 160). holm reports it, and what must end ends.
//!
//! Making a process hang takes root. The suite is run by root in CI; for others that part is not
//! tested.

use crate::support::{Island, Running, eventually, is_gone, is_root, skipped, state_of};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Makes a process call vfork, whose child is stopped while this program lives: until the child
/// continues, the parent is in a wait that only a fatal signal interrupts.
const STICK: &str = r#"
import ctypes, os, select, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
ATTACH, DETACH, CONT, GETREGS, SETREGS, SETOPTIONS = 16, 17, 7, 12, 13, 0x4200
TRACEVFORK, EXITKILL, VFORK = 0x4, 0x100000, 58
RAX, ORIG_RAX, RIP = 10, 15, 16
pid = int(sys.argv[1])
def ptrace(request, address=0, data=0):
    if libc.ptrace(request, pid, address, data) < 0:
        raise OSError(ctypes.get_errno(), "ptrace %d" % request)
ptrace(ATTACH)
os.waitpid(pid, 0x40000000)
ptrace(SETOPTIONS, 0, TRACEVFORK | EXITKILL)
registers = (ctypes.c_ulonglong * 27)()
ptrace(GETREGS, 0, ctypes.addressof(registers))
# It waits in a system call, so the instruction before is the one that makes system calls.
registers[RAX], registers[ORIG_RAX] = VFORK, 0xffffffffffffffff
registers[RIP] -= 2
ptrace(SETREGS, 0, ctypes.addressof(registers))
ptrace(CONT)
_, status = os.waitpid(pid, 0x40000000)
assert status >> 8 == 5 | 2 << 8, hex(status)
ptrace(DETACH)
print("stuck", flush=True)
# Whoever traces has to bury what it traced, or the namespace it was in would not end.
while not select.select([sys.stdin], [], [], 0.02)[0]:
    try:
        os.waitpid(-1, 0x40000000 | os.WNOHANG)
    except ChildProcessError:
        break
"#;

fn stick(pid: i32) -> Running {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", STICK, &pid.to_string()]);
    let mut running = Running::new(command.stderr(Stdio::inherit()));
    running.says("stuck");
    eventually("it is in state D", || state_of(pid) == "D");
    running
}

#[track_caller]
fn has_failed(island: &Island, reason: &str) {
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["state"], "failed", "{shown}");
    let told = shown["reason"].as_str().unwrap();
    assert!(told.contains(reason), "{told}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn attack_160_what_hangs_in_the_kernel_is_said_and_stopped() {
    if !is_root() {
        return;
    }
    let island = Island::new();
    let id = island.repository("shop").up("x");
    for whom in ["keeper", "init"] {
        for verb in ["stop", "start", "restart"] {
            island.holm(&["start", "x"]).ok();
            island.sh("x", "echo work > file; sleep 1000 &").ok();
            let earlier = island.inhabitants();
            let victim = match whom {
                "keeper" => island.keeper_of(&id),
                _ => island.init_of(&id),
            };
            let stuck = stick(victim.expect("a process"));
            has_failed(&island, &format!("{whom} hangs in the kernel"));
            island.holm(&[verb, "x"]).ok();
            eventually("nothing of it lives", || {
                earlier.iter().all(|one| is_gone(*one))
            });
            drop(stuck);
            assert_eq!(island.sh("x", "cat file").ok().out(), "work");
        }
    }
}

/// A control group of v2 that holds one process still.
struct Freezer(PathBuf);

// === impl Freezer ===

impl Freezer {
    /// `None`: there is no v2 here.
    fn around(pid: i32) -> Option<Self> {
        let places = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let v2 = places
            .map(PathBuf::from)
            .into_iter()
            .find(|place| place.join("cgroup.procs").exists() && !place.join("tasks").exists())?;
        let group = v2.join(format!("holm-frozen-{pid}"));
        fs::create_dir(&group).ok()?;
        let freezer = Self(group);
        fs::write(freezer.0.join("cgroup.procs"), pid.to_string()).unwrap();
        fs::write(freezer.0.join("cgroup.freeze"), "1").unwrap();
        eventually("it is frozen", || {
            let events = fs::read_to_string(freezer.0.join("cgroup.events")).unwrap();
            events.contains("frozen 1")
        });
        Some(freezer)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.freeze"), "0");
        if !std::thread::panicking() {
            eventually("the group is empty", || fs::remove_dir(&self.0).is_ok());
        }
    }
}

#[test]
fn attack_160_what_a_group_of_v2_holds_still_is_said_and_stopped() {
    if !is_root() {
        return;
    }
    let island = Island::new();
    let id = island.repository("shop").up("x");
    for whom in ["keeper", "init"] {
        let victim = match whom {
            "keeper" => island.keeper_of(&id),
            _ => island.init_of(&id),
        };
        let Some(freezer) = Freezer::around(victim.expect("a process")) else {
            return skipped("there are no control groups of v2");
        };
        // The kernel itself shows nothing of it.
        assert_eq!(state_of(victim.unwrap()), "S");
        has_failed(&island, &format!("{whom} is frozen"));
        island.holm(&["stop", "x"]).ok();
        drop(freezer);
        island.holm(&["start", "x"]).ok();
        assert_eq!(island.sh("x", "echo again").ok().out(), "again");
    }
}

/// Leaves its parents, its session and its signals behind and listens on a port.
const ESCAPE: &str = r#"
import os, signal, socket, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
listener = socket.create_server(("127.0.0.1", 4567))
open(os.path.expanduser("~/listens"), "w").close()
time.sleep(1000)
"#;

const BIND: &str = "import socket; socket.create_server(('127.0.0.1', 4567))";

#[test]
fn attack_51_what_left_its_session_dies_with_the_workspace_and_its_port_is_free() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    for end in ["stop", "restart", "rm", "init"] {
        island.holm(&["start", "x"]).ok();
        island.python("x", ESCAPE).ok();
        eventually("it listens", || {
            island.sh("x", "test -e ~/listens").code == Some(0)
        });
        // While it lives no other program has the port, and its command is long gone.
        let taken = island.python("x", BIND);
        assert!(taken.stderr.contains("Address already in use"), "{taken:?}");
        // The helper that measures the disk may run for a moment.
        let mut earlier = Vec::new();
        eventually("keeper, init and the one are left", || {
            earlier = island.inhabitants();
            earlier.len() == 3
        });
        match end {
            "init" => crate::support::send(
                island.init_of(&id).expect("an init"),
                rustix::process::Signal::KILL,
            ),
            "rm" => {
                island.holm(&["rm", "x", "--force"]).ok();
                island.holm(&["restore", "x"]).ok();
            }
            verb => {
                island.holm(&[verb, "x"]).ok();
            }
        }
        eventually("nothing of it lives", || {
            earlier.iter().all(|one| is_gone(*one))
        });
        island.holm(&["start", "x"]).ok();
        island.python("x", BIND).ok();
        island.sh("x", "rm ~/listens").ok();
    }
}
