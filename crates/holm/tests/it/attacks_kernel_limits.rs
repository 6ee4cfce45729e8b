//! Attacks on what all of the machine shares: scheduling and memory (attack 64), cores of crashed
//! programs (65), keyrings (66).

use crate::support::{Island, Ran};

/// Taking more of the machine than one's share.
pub const GREED: &str = r#"
import resource, struct
libc.syscall.restype = ctypes.c_long
parameter = struct.pack("i", 10)
attempt("fifo", lambda: call(libc.sched_setscheduler, 0, 1, parameter))
attempt("round robin", lambda: call(libc.sched_setscheduler, 0, 2, parameter))
deadline = struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10000000, 20000000, 30000000)
attempt("deadline", lambda: call(libc.syscall, 314, 0, deadline, 0))
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
attempt("disk", lambda: call(libc.syscall, 251, 1, 0, 1 << 13))
attempt("out of memory", lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000"))
attempt("host name", lambda: call(libc.sethostname, b"owned", 5))
attempt("more", lambda: call(libc.setrlimit, resource.RLIMIT_RTPRIO, struct.pack("QQ", 99, 99)))
attempt("nicer", lambda: call(libc.setrlimit, resource.RLIMIT_NICE, struct.pack("QQ", 40, 40)))
"#;

/// What every program may do, to show that the same calls work.
const MODESTY: &str = r#"
import struct
libc.syscall.restype = ctypes.c_long
attempt("batch", lambda: call(libc.sched_setscheduler, 0, 3, struct.pack("i", 0)))
attempt("nice", lambda: os.nice(1))
attempt("disk", lambda: call(libc.syscall, 251, 1, 0, 3 << 13))
attempt("out of memory", lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"900"))
page = ctypes.create_string_buffer(4096)
attempt("lock a page", lambda: call(libc.mlock, page, 4096))
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn attack_64_a_workspace_cannot_take_more_than_its_share() {
    let island = Island::new();
    island.repository("shop").up("x");
    let name = island.sh("x", "hostname").ok().out();
    island
        .attempts("x", GREED)
        .refused(&["EPERM", "EACCES", "EINVAL"]);
    assert_eq!(island.sh("x", "hostname").ok().out(), name);
    island.attempts("x", MODESTY).succeeded();
    // A quarter of the memory is locked that the host allows its users; -1 is any amount.
    let limit = "import resource; print(resource.getrlimit(resource.RLIMIT_MEMLOCK)[1])";
    let number = |ran: Ran| -> i64 { ran.ok().out().parse().unwrap() };
    let outside = number(island.run(&island.home(), "/usr/bin/python3", &["-c", limit]));
    let share = if outside < 0 { outside } else { outside / 4 };
    assert_eq!(number(island.python("x", limit)), share);
    // The name of the host can be changed by root of a name space of one's own.
    let script = "attempt('host name', lambda: call(libc.sethostname, b'owned', 5))";
    let wrapped = format!("call(libc.unshare, 0x4000000)\n{script}");
    island
        .attempts_in_namespaces(&island.home(), &wrapped)
        .succeeded();
}

/// Crashes a program that holds a secret, in a directory where it could leave a core.
const CRASH: &str = r#"
mkdir -p crash && cd crash && ulimit -c unlimited 2>/dev/null
SECRET=canary-5150 python3 -c 'import ctypes; ctypes.string_at(0)'; echo $?; ls
"#;

#[test]
fn attack_65_a_crash_leaves_no_core() {
    let island = Island::new();
    island.repository("shop").up("x");
    // 139 is SIGSEGV: it did crash.
    assert_eq!(island.sh("x", CRASH).ok().out(), "139");
    // 1 is what keeps a crash handler of the host from being called, and nothing changes it.
    let keep = r#"
import resource
for wish in (0, 1, resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_CORE, (wish, wish))
    resource.prlimit(0, resource.RLIMIT_CORE, (wish, wish))
    resource.prlimit(0, resource.RLIMIT_CORE)
print(resource.getrlimit(resource.RLIMIT_CORE))
"#;
    assert_eq!(island.python("x", keep).ok().out(), "(1, 1)");
    // Other limits can be lowered as ever.
    assert_eq!(island.sh("x", "ulimit -n 64; ulimit -n").ok().out(), "64");
    let limits = island.sh(
        "x",
        "grep -h 'Max core file size' /proc/[0-9]*/limits | sort -u",
    );
    let limits = limits.ok().out();
    let fields: Vec<_> = limits.split_whitespace().skip(4).collect();
    assert_eq!(
        fields,
        ["1", "1", "bytes"],
        "every process has it: {limits}"
    );

    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let island = Island::without("core_limit,seccomp");
    island.repository("shop").up("x");
    let found = island.sh("x", CRASH).ok().out();
    // If the host has a handler, or a directory for cores, the core is there and not here.
    if !pattern.starts_with(['|', '/', '@']) {
        assert!(found.starts_with("139\ncore"), "{found}");
        // The core has the secret.
        island.sh("x", "grep -q canary-5150 crash/core*").ok();
    }
}

const KEYS: &str = r#"
libc.syscall.restype = ctypes.c_long
session, user, user_session = -3, -4, -5
attempt("search", lambda: call(libc.syscall, 250, 10, session, b"user", b"holm-it", 0))
attempt("search user", lambda: call(libc.syscall, 250, 10, user, b"user", b"holm-it", 0))
attempt("request", lambda: call(libc.syscall, 249, b"user", b"holm-it", None, session))
attempt("describe", lambda: call(libc.syscall, 250, 6, session, ctypes.create_string_buffer(200), 200))
attempt("add", lambda: call(libc.syscall, 248, b"user", b"own", b"x", 1, session))
attempt("link", lambda: call(libc.syscall, 250, 8, user, session))
"#;

/// Starts the daemon from a session whose keyring holds a key, and looks for it inside.
fn keys_inside(island: &Island) -> String {
    let repository = island.repository("shop");
    let with_key = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
assert libc.syscall(250, 1, None) > 0
assert libc.syscall(248, b"user", b"holm-it", b"secret", 6, -3) > 0
# Everybody who has the session may look.
key = libc.syscall(250, 10, -3, b"user", b"holm-it", 0)
assert libc.syscall(250, 5, key, 0x3f3f3f3f) == 0 and libc.syscall(250, 5, -3, 0x3f3f3f3f) == 0
os.execv(sys.argv[1], sys.argv[1:])
"#;
    let holm = island.holm_command(&repository.path, &["up", "x"]);
    let mut command = island.command("/usr/bin/python3", &repository.path);
    command
        .args(["-c", with_key])
        .arg(holm.get_program())
        .args(holm.get_args());
    Ran::new(&mut command).ok();
    let found = island.attempts("x", KEYS);
    format!("{} {}", found.0["search"], found.0["describe"])
}

#[cfg(target_arch = "x86_64")]
#[test]
fn attack_66_keys_of_the_users_session_are_out_of_reach() {
    let island = Island::new();
    assert_eq!(keys_inside(&island), "EPERM EPERM");
    island.attempts("x", KEYS).refused(&["EPERM"]);
    // The session's keyring stays behind even where the calls are allowed…
    assert_eq!(keys_inside(&Island::without("seccomp")), "ENOKEY ok");
    // … and without that, the key is found.
    assert_eq!(keys_inside(&Island::without("seccomp,keyring")), "ok ok");
}
