//! Attacks of one process on another: privileges (attack 47), processes of the host and of siblings
//! (48, 49), init (50), the terminal (52), process groups (67).

use crate::support::{Act, Island, Repository, Running, eventually};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The privileges of every process inside, and of a grandchild.
const PRIVILEGES: &str = r#"
import json, os
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.execv("/bin/sleep", ["sleep", "1000"])
    os._exit(0)
os.wait()
while not any(open("/proc/%s/comm" % pid).read() == "sleep\n" for pid in os.listdir("/proc") if pid.isdigit()):
    pass
found = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    fields = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/%s/status" % pid) if ":\t" in line)
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    found.append([fields["Name"]] + [int(fields[name], 16) for name in names])
print(json.dumps(found))
"#;

fn assert_unprivileged(found: &Value, seccomp: i32) {
    let found = found.as_array().unwrap();
    for process in found {
        let [_, rest @ ..] = process.as_array().unwrap().as_slice() else {
            panic!("{process}");
        };
        assert_eq!(json!(rest), json!([0, 0, 0, 0, 0, 1, seccomp]), "{process}");
    }
    let names: Vec<_> = found.iter().map(|process| &process[0]).collect();
    for expected in ["sleep", "python3"] {
        assert!(
            names
                .iter()
                .any(|name| name.as_str().unwrap().starts_with(expected)),
            "{names:?}"
        );
    }
    assert!(found.len() >= 3, "init is among them: {names:?}");
}

/// Runs a setuid program of the system, blocked at writing its help, and a copy of it with the bit;
/// reports whether each runs as another user.
const ELEVATION: &str = r#"
import os, shutil, subprocess
def elevated(program):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    process = subprocess.Popen([program, "--help"], stdout=writer)
    name = os.path.basename(program) + "\n"
    while open("/proc/%d/comm" % process.pid).read() != name or "State:\tS" not in open("/proc/%d/status" % process.pid).read():
        assert process.poll() is None
    fields = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/%d/status" % process.pid) if ":\t" in line)
    process.kill()
    return fields["Uid"].split("\t")[1] == "0" or int(fields["CapEff"], 16) != 0
shutil.copy("/usr/bin/su", "copied")
os.chmod("copied", 0o6755)
print(elevated("/usr/bin/su"), elevated("./copied"))
"#;

#[test]
fn attack_47_no_process_has_privileges_and_none_gets_any() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    assert_unprivileged(&island.python("x", PRIVILEGES).json(), 2);
    let elevated = |island: &Island| island.python("x", ELEVATION).ok().out();
    assert_eq!(elevated(&island), "False False");
    // Also for programs on a terminal.
    let on_terminal =
        "grep -E '^(NoNewPrivs|Seccomp|CapBnd):' /proc/self/status | tr -s '\\t\\n' ' '";
    let played = island.play(
        &island.home(),
        &["exec", "x", "--", "sh", "-c", on_terminal],
        &[Act::See(
            "CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2",
        )],
    );
    assert_eq!(played.code, 0);

    // It does not hang on the other layers.
    let island = Island::without("landlock,seccomp,mover,read_only_system");
    island.repository("shop").up("x");
    assert_unprivileged(&island.python("x", PRIVILEGES).json(), 0);
    assert_eq!(elevated(&island), "False False");
}

#[test]
fn attack_47_the_same_probe_finds_privileges_outside() {
    let island = Island::new();
    let script = format!("{PRIVILEGES}\nos.kill(-1, 9)");
    let arguments = ["-Urpf", "--mount-proc", "/usr/bin/python3", "-c", &script];
    let ran = island.run(&island.home(), "unshare", &arguments);
    let line = ran.out();
    let found: Value = serde_json::from_str(line.lines().next().expect("a line")).unwrap();
    let capable = found
        .as_array()
        .unwrap()
        .iter()
        .any(|process| process[3] != 0);
    assert!(capable, "{found}");
    let elevated = island.run(&island.home(), "/usr/bin/python3", &["-c", ELEVATION]);
    assert_eq!(elevated.ok().out(), "True False", "su works on the host");
}

/// A process of the host with a secret in its environment.
fn host_process(island: &Island) -> Running {
    let mut command = island.command("/bin/sh", &island.home());
    command
        .env("CANARY", "host-secret-7f3a")
        .args(["-c", "echo ready; exec sleep 1000"]);
    let mut process = Running::new(&mut command);
    process.says("ready");
    process
}

const REACH: &str = r#"
pid = PID
libc.syscall.restype = ctypes.c_long
attempt("kill", os.kill, pid, 0)
attempt("pidfd", lambda: os.close(os.pidfd_open(pid)))
attempt("priority", lambda: os.getpriority(os.PRIO_PROCESS, pid))
attempt("affinity", lambda: os.sched_getaffinity(pid))
attempt("group", lambda: os.getpgid(pid))
for name in ("environ", "cmdline", "maps", "status", "root", "cwd", "fd", "exe", "mem"):
    attempt(name, os.stat, "/proc/%d/%s" % (pid, name))
attempt("environ through init", os.stat, "/proc/1/root/proc/%d/environ" % pid)
"#;

#[test]
fn attacks_48_and_49_processes_of_the_host_and_of_siblings_do_not_exist() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    repository.up("sibling");
    let host = host_process(&island);
    island
        .sh("sibling", "CANARY=sibling-secret-91 sleep 1000 & echo")
        .ok();

    // Pids far beyond those inside: pids start at another number in every workspace.
    let reach = REACH.replace("PID", &host.pid().to_string());
    let mut inside = island.attempts("x", &reach);
    let through_init = inside.0.remove("environ through init");
    assert_eq!(through_init.as_deref(), Some("EACCES"));
    inside.refused(&["ESRCH", "ENOENT"]);
    let mut outside = island.attempts_outside(&island.home(), &reach);
    outside.0.remove("environ through init");
    outside.succeeded();

    let look = r#"
import os
seen = b""
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            seen += open("/proc/%s/%s" % (pid, name), "rb").read()
        except OSError:
            pass
def has(*pieces):
    return "".join(pieces).encode() in seen
print(has("host-sec", "ret-7f3a"), has("sibling-sec", "ret-91"), has("dae", "mon"), has("python3"))
"#;
    assert_eq!(
        island.python("x", look).ok().out(),
        "False False False True"
    );
    let outside = island.run(&island.home(), "/usr/bin/python3", &["-c", look]);
    assert!(outside.ok().out().starts_with("True"), "the host sees it");

    // Every pid that can be tried.
    let daemon = island.daemon_pid();
    let shoot = "import os\nfor pid in range(2, 70000):\n  try:\n    if pid != os.getpid(): os.kill(pid, 9)\n  except OSError: pass";
    island.python("x", shoot).ok();
    assert_eq!(island.daemon_pid(), daemon);
    let alive = |pid: i32| PathBuf::from(format!("/proc/{pid}/environ")).exists();
    assert!(alive(host.pid()) && alive(daemon));
    let sibling = island.sh("sibling", "grep -c sleep /proc/[0-9]*/comm | grep -c ':1'");
    assert_eq!(sibling.ok().out(), "1");
}

fn children_of_init(island: &Island) -> usize {
    let count = "grep -l '^PPid:.1$' /proc/[0-9]*/status | wc -l";
    // The counting shell and its children are not counted.
    let text = island.sh("x", count).ok().out();
    text.parse::<usize>().unwrap() - 1
}

#[test]
fn attack_50_init_cannot_be_killed_and_buries_the_dead() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    // No signal ends it, stops it, or is even noticed.
    let shoot = "for round in 1 2 3; do for signal in $(seq 1 64); do kill -$signal 1 2>/dev/null; done; done; grep State /proc/1/status";
    let state = island.sh("x", shoot).ok().out();
    assert!(
        state.contains("sleeping") || state.contains("running"),
        "{state}"
    );

    // All but init: the shooter too, whose end is reported correctly.
    let mut bystander = Running::new(&mut island.holm_command(
        &island.home(),
        &["exec", "x", "--", "sh", "-c", "echo ready; exec sleep 1000"],
    ));
    bystander.says("ready");
    let massacre = island.python("x", "import os; os.kill(-1, 9); os.kill(os.getpid(), 9)");
    assert_eq!(massacre.code, Some(137));
    assert_eq!(bystander.code(), Some(137));
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(
        (&shown["state"], &shown["id"]),
        (&json!("running"), &json!(id))
    );
    island.sh("x", "true").ok();

    // Orphans by the thousand, that end before or after their parent.
    let orphans = r#"
import os, sys
for wave in range(20):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(writer)
        for number in range(200):
            if os.fork() == 0:
                if number % 2:
                    os.read(reader, 1)
                os._exit(0)
        os._exit(0)
    os.close(reader)
    os.close(writer)
    os.wait()
"#;
    island.python("x", orphans).ok();
    eventually("the dead are buried", || children_of_init(&island) == 0);
    let zombies = island.sh("x", "grep -l '^State:.Z' /proc/[0-9]*/status | wc -l");
    assert_eq!(zombies.ok().out(), "0");

    // The same outside leaves zombies where no process reaps: the probe can detect them.
    let unburied = r#"
import os
if os.fork() == 0: os._exit(0)
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
print(open("/proc/self/task/%d/children" % os.getpid()).read().strip() != "")
"#;
    assert_eq!(island.python("x", unburied).ok().out(), "True");
}

#[test]
fn attack_50_init_cannot_be_read_or_traced() {
    let secrets = r#"
libc.syscall.restype = ctypes.c_long
target = TARGET
for name in ("mem", "environ", "maps", "auxv", "stack", "syscall", "io", "exe"):
    attempt(name, lambda: os.read(os.open("/proc/%d/%s" % (target, name), os.O_RDONLY), 1))
for name in ("fd", "fdinfo", "map_files"):
    attempt(name, os.listdir, "/proc/%d/%s" % (target, name))
for name in ("root", "cwd", "exe", "ns/mnt"):
    attempt("link " + name, os.readlink, "/proc/%d/%s" % (target, name))
attempt("adjust", lambda: os.open("/proc/%d/oom_score_adj" % target, os.O_WRONLY))
"#;
    // The filter is not what hides it.
    for island in [Island::new(), Island::without("seccomp,landlock")] {
        island.repository("shop").up("x");
        let of_init = secrets.replace("TARGET", "1");
        island.attempts("x", &of_init).refused(&["EACCES", "EPERM"]);
        // A process of the same user that does not hide is an open book.
        let of_other = format!(
            "import subprocess, time\nother = subprocess.Popen(['sleep', '1000'])\n\
             while open('/proc/%d/comm' % other.pid).read() != 'sleep\\n': pass\n{}\nother.kill()",
            secrets.replace("TARGET", "other.pid")
        );
        let other = island.attempts("x", &of_other);
        for name in ["environ", "maps", "fd", "link root", "link cwd"] {
            assert_eq!(other.0[name], "ok", "{name}: {other:?}");
        }
    }
}

/// The kernel lets every process of a user lower the limits of every other one. Doing that to init
/// breaks only the own workspace.
#[test]
fn attack_50_limits_of_init_that_were_lowered_harm_only_this_workspace() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    repository.up("sibling");
    let lower =
        "attempt('files', lambda: call(libc.prlimit, 1, 7, ctypes.create_string_buffer(16), None))";
    island.attempts("x", lower).succeeded();
    eventually("init ends, and that is told", || {
        let shown = island.holm(&["show", "x", "--json"]).json();
        shown["state"] == "failed" && shown["reason"].as_str().unwrap().contains("init ended")
    });
    island.sh("sibling", "true").ok();
    island.holm(&["restart", "x"]).ok();
    island.sh("x", "true").ok();
}

/// Typing into the own terminal, in ways that a filter might not see.
const TYPING: &str = r#"
import fcntl, termios
libc.syscall.restype = ctypes.c_long
character = ctypes.c_char(b"\n")
for name, request in [("TIOCSTI", 0x5412), ("TIOCSTI high", 0x5412 | 0x7eed << 32), ("TIOCSTI sign", -0x100000000 + 0x5412),
                      ("TIOCLINUX", 0x541c), ("TIOCLINUX high", 0x541c | 1 << 32)]:
    attempt(name, lambda: call(libc.syscall, ctypes.c_long(16), ctypes.c_long(0), ctypes.c_long(request), ctypes.byref(character)))
attempt("size", lambda: fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))
results["device"] = os.ttyname(0) if os.isatty(0) else "none"
results["names"] = " ".join(sorted(os.listdir("/dev/pts")))
"#;

/// Runs the attempts on a terminal; the result is the last line of the screen.
fn typed(island: &Island, name: &str) -> Value {
    let script = format!(
        "import ctypes, errno, json, os\nlibc = ctypes.CDLL(None, use_errno=True)\nresults = {{}}\n\
         def attempt(name, function, *arguments):\n  try:\n    function(*arguments); results[name] = 'ok'\n  \
         except OSError as error: results[name] = errno.errorcode[error.errno]\n\
         def call(function, *arguments):\n  if function(*arguments) < 0: raise OSError(ctypes.get_errno(), '')\n\
         {TYPING}\nopen('typed-{name}', 'w').write(json.dumps(results))\nprint('done' + 'now')"
    );
    island.play(
        &island.home(),
        &["exec", "x", "--", "/usr/bin/python3", "-c", &script],
        &[Act::See("donenow")],
    );
    let text = island.sh("x", &format!("cat typed-{name}")).ok().out();
    serde_json::from_str(&text).unwrap()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn attack_52_nothing_is_typed_into_a_terminal() {
    let island = Island::new();
    island.repository("shop").up("x");
    let found = typed(&island, "with");
    for name in [
        "TIOCSTI",
        "TIOCSTI high",
        "TIOCSTI sign",
        "TIOCLINUX",
        "TIOCLINUX high",
    ] {
        assert_eq!(found[name], "EPERM", "{name}: {found}");
    }
    assert_eq!(found["size"], "ok");
    // And it is a terminal of the workspace's own, not the user's.
    assert_eq!(found["device"], "/dev/pts/0");
    assert_eq!(found["names"], "0 ptmx");

    let legacy = std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").unwrap_or_default();
    let island = Island::without("seccomp");
    island.repository("shop").up("x");
    let found = typed(&island, "without");
    // If the host did not disable it for all, only the filter prevents it.
    let expect = if legacy.trim() == "0" { "EIO" } else { "ok" };
    for name in ["TIOCSTI", "TIOCSTI high", "TIOCSTI sign"] {
        assert_eq!(found[name], expect, "{name}: {found}");
    }
    assert_ne!(found["TIOCLINUX"], "EPERM", "{found}");
}

#[test]
fn a_command_that_leaves_its_terminal_and_comes_back_still_ends_properly() {
    let island = Island::new();
    island.repository("shop").up("x");
    let script = r#"
import os, sys
print("be" + "fore", flush=True)
for descriptor in range(3):
    os.close(descriptor)
again = os.open("/dev/tty", os.O_RDWR)
os.write(again, b"x" * 100)
sys.exit(0) if again == 0 else os._exit(9)
"#;
    let argv = ["exec", "x", "--", "/usr/bin/python3", "-c", script];
    let played = island.play(&island.home(), &argv, &[Act::See("before")]);
    assert_eq!(played.code, 0, "{}", played.screen);
    assert!(played.is_restored);
}

/// Signals to groups, towards everything that is not the workspace's own.
const GROUPS: &str = r#"
import signal
outer = OUTER
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt("own group", os.kill, 0, signal.SIGTERM)
for number in outer:
    attempt("group %d" % number, os.killpg, number, signal.SIGKILL)
    attempt("terminal %d" % number, lambda: os.tcsetpgrp(os.open("/dev/tty", os.O_RDWR), number))
    attempt("join %d" % number, os.setpgid, 0, number)
    attempt("session %d" % number, os.getsid, number)
"#;

fn pids_of_holm(repository: &Repository<'_>, client: &Running) -> Vec<i32> {
    let island = repository.island;
    let daemon = island.daemon_pid();
    let status = std::fs::read_to_string(format!("/proc/{}/stat", client.pid())).unwrap();
    let after = status.rsplit(") ").next().unwrap();
    let group = after.split(' ').nth(2).unwrap().parse().unwrap();
    vec![daemon, client.pid(), group]
}

#[test]
fn attack_67_signals_to_groups_reach_the_workspace_only() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let mut client = Running::new(&mut island.holm_command(
        &island.home(),
        &[
            "exec",
            "x",
            "--",
            "sh",
            "-c",
            "echo ready; read line; echo $line",
        ],
    ));
    client.says("ready");
    let outer = pids_of_holm(&repository, &client);
    let groups = GROUPS.replace("OUTER", &format!("{outer:?}"));
    let mut found = island.attempts("x", &groups);
    assert_eq!(found.0.remove("own group").as_deref(), Some("ok"));
    found.refused(&["ESRCH", "EPERM", "ENXIO", "ENOTTY"]);
    // Neither the daemon nor the other client noticed.
    assert_eq!(island.daemon_pid(), outer[0]);
    client.write("still here\n");
    client.says("still here");
    assert_eq!(client.code(), Some(0));

    // Outside the same numbers are within reach.
    let sleeper = host_process(&island);
    let pid = sleeper.pid();
    let reach = format!("attempt('session', os.getsid, {pid})\nattempt('kill', os.kill, {pid}, 0)");
    island.attempts_outside(&island.home(), &reach).succeeded();
    island.attempts("x", &reach).refused(&["ESRCH"]);
}
