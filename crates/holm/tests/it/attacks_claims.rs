//! Claims on files that block others (attack 188): a workspace shares inodes with the user's
//! repository, with the daemon and with the system, and a program with a claim on one must not
//! block the others.

use crate::attacks_mounts::bases;
use crate::support::{Island, Repository, Running};
use std::path::PathBuf;

/// The file of the first commit: where git of the user has it, and where the workspace sees it.
fn shared_object(repository: &Repository<'_>) -> (PathBuf, String) {
    let commit = repository.git(&["rev-parse", "HEAD"]);
    let name = format!("{}/{}", &commit[..2], &commit[2..]);
    let outside = repository.path.join(".git/objects").join(&name);
    (outside, format!("/run/holm/objects/{name}"))
}

/// Leases of files, delegations of directories, and signals about directories.
fn leases(object: &str) -> String {
    format!(
        r#"
import fcntl
own = ["own", os.path.expanduser("~/own"), "/tmp/own"]
for path in own:
    open(path, "w").close()
for path in ["{object}", "/run/holm/bin/holm", "README.md", *own]:
    descriptor = os.open(path, os.O_RDONLY)
    for name, kind in [("read", fcntl.F_RDLCK), ("write", fcntl.F_WRLCK)]:
        attempt(f"lease to {{name}} {{path}}", fcntl.fcntl, descriptor, fcntl.F_SETLEASE, kind)
for path in [".", "/tmp", "/run/holm/objects"]:
    descriptor = os.open(path, os.O_RDONLY)
    delegation = (ctypes.c_uint16 * 4)()
    attempt("delegation of " + path, fcntl.fcntl, descriptor, 1040, bytes(delegation))
    attempt("signals about " + path, fcntl.fcntl, descriptor, fcntl.F_NOTIFY, fcntl.DN_CREATE)
"#
    )
}

/// Holds every lease it gets on its arguments until its input ends, even when another process
/// waits.
const HOLD_LEASES: &str = r#"
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
for path in map(os.path.expanduser, sys.argv[1:]):
    fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("ready", flush=True)
sys.stdin.read()
"#;

fn inside(island: &Island, workspace: &str, script: &str, arguments: &[&str]) -> Running {
    let command = ["exec", workspace, "--", "/usr/bin/python3", "-c", script];
    let mut running =
        Running::new(&mut island.holm_command(&island.home(), &[&command, arguments].concat()));
    running.says("ready");
    running
}

fn nested<'a>(island: &'a Island, label: &str) -> Repository<'a> {
    let repository = island.repository("deep");
    repository.write("holm.toml", "[project]\nnested = true\n");
    repository.commit("nested");
    repository.holm(&["trust", "--yes"]).ok();
    repository.up(label);
    repository
}

#[test]
fn attack_188_no_lease_is_had_inside() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let (_, object) = shared_object(&repository);
    let script = leases(&object);
    island.attempts("x", &script).refused(&["EPERM"]);
    let repository = nested(&island, "n");
    let (_, object) = shared_object(&repository);
    let as_root = format!("call(libc.unshare, 0x10000000)\n{}", leases(&object));
    island.attempts("n", &as_root).refused(&["EPERM"]);
}

#[test]
fn attack_188_with_leases_the_users_git_waits_and_holm_does_not() {
    let island = Island::without("seccomp");
    let repository = island.repository("shop");
    repository.up("x");
    let (outside, object) = shared_object(&repository);
    island.sh("x", "echo text > ~/leased").ok();
    let _holder = inside(&island, "x", HOLD_LEASES, &[&object, "~/leased"]);
    // Opened without this flag the file makes git wait for as long as the kernel lets the holder take.
    let open = format!("attempt('open', os.open, {outside:?}, os.O_RDONLY | os.O_NONBLOCK)");
    island
        .attempts_outside(&island.home(), &open)
        .refused(&["EAGAIN"]);
    // A copy that waited would be whole after that time.
    let refused = island.holm(&["snapshot", "x", "one"]).exits(1);
    assert!(
        refused.stderr.contains("temporarily unavailable"),
        "{}",
        refused.stderr
    );
    // Everything inside continues afterwards.
    island.sh("x", "cat README.md").ok();
}

/// Takes every lock that there is on files that others have too, reads past the page cache, throws it away,
/// and watches.
const HOLD_ALL: &str = r#"
import ctypes, fcntl, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
held = 0
def lock(path):
    global held
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    other = os.open(path, os.O_RDONLY)
    whole = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(other, fcntl.F_OFD_SETLK, whole)
    fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_SETLK, whole)
    held += 1
    if not os.path.isdir(path):
        room = mmap.mmap(-1, 4096)
        for flags in (0, os.RWF_HIPRI, os.RWF_NOWAIT):
            try:
                os.preadv(os.open(path, os.O_RDONLY | os.O_DIRECT), [room], 0, flags)
            except OSError:
                pass
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
watch = libc.inotify_init()
for top in sys.argv[1:]:
    if not os.path.isdir(top):
        lock(top)
    for directory, _, files in os.walk(top):
        lock(directory)
        libc.inotify_add_watch(watch, directory.encode(), 0xfff)
        for name in files:
            lock(os.path.join(directory, name))
assert held > 10
print("ready", flush=True)
sys.stdin.read()
"#;

#[test]
fn attack_188_locks_inside_hold_up_neither_git_nor_holm() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let places = [
        "/run/holm/objects",
        "/run/holm/bin/holm",
        "/run/holm/id",
        ".git",
        "README.md",
        "/usr/bin/env",
    ];
    let mut holder = inside(&island, "x", HOLD_ALL, &places);
    repository.write("new", "new\n");
    repository.commit("second");
    repository.git(&["log", "--stat"]);
    repository.git(&["gc", "-q", "--prune=now"]);
    repository.git(&["fsck", "--strict"]);
    repository.up("y");
    island.holm(&["snapshot", "x", "one"]).ok();
    island.holm(&["changes", "x"]).ok();
    // Files of the system and of the base have separate locks inside.
    let base = bases(&island)[0].join("README.md");
    let lock = format!(
        r#"
import fcntl
def lock(path):
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
attempt("system", lock, "/usr/bin/env")
attempt("base", lock, {base:?})
"#
    );
    island.attempts_outside(&island.home(), &lock).succeeded();
    holder.close_stdin();
    assert_eq!(holder.code(), Some(0));
    // Among programs of the workspace a lock is a lock.
    let own = r#"
import fcntl
for path in ["own", os.path.expanduser("~/own"), "/tmp/own"]:
    first, second = os.open(path, os.O_RDWR | os.O_CREAT), os.open(path, os.O_RDWR)
    fcntl.flock(first, fcntl.LOCK_EX)
    attempt("second " + path, fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
"#;
    island.attempts("x", own).refused(&["EAGAIN"]);
}

#[test]
fn attack_188_locks_reach_the_system_where_directories_are_shown_as_they_are() {
    let island = Island::without("no_host_sockets");
    island.repository("shop").up("x");
    let places = ["/run/holm/objects", ".git", "/usr/bin/nice"];
    let _holder = inside(&island, "x", HOLD_ALL, &places);
    let lock = r#"
import fcntl
attempt("system", fcntl.flock, os.open("/usr/bin/nice", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
"#;
    island
        .attempts_outside(&island.home(), lock)
        .refused(&["EAGAIN"]);
}

/// Freezing a file system, flags that keep a file from being removed, signals to processes of the host, and
/// devices by which a program serves the files or the memory of others. `hosts` are numbers of processes.
fn other_claims(hosts: &[i32]) -> String {
    format!(
        r#"
import fcntl
FREEZE, SET_FLAGS, ADD_SEALS = 0xC0045877, 0x40086602, 1033
home = os.path.expanduser("~")
for path in [".", home, "/tmp", "/run/holm/objects", "/usr", "/etc"]:
    attempt("freeze " + path, fcntl.ioctl, os.open(path, os.O_RDONLY), FREEZE, 0)
for path in ["flagged", home + "/flagged", "/tmp/flagged"]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    for name, flag in [("immutable ", 0x10), ("append ", 0x20)]:
        attempt(name + path, fcntl.ioctl, descriptor, SET_FLAGS, flag.to_bytes(8, "little"))
    attempt("seal " + path, fcntl.fcntl, descriptor, ADD_SEALS, 8)
    os.unlink(path)
for path in ["/run/holm/bin/holm", "/usr/bin/env"]:
    attempt("allocate " + path, os.posix_fallocate, os.open(path, os.O_RDONLY), 0, 4096)
absent = [number for number in {hosts:?} if not os.path.exists("/proc/%d" % number)]
assert absent
for number in absent:
    attempt("signals to %d" % number, fcntl.fcntl, os.pipe()[0], fcntl.F_SETOWN, number)
for device in ["/dev/fuse", "/dev/userfaultfd", "/dev/loop-control", "/dev/cuse"]:
    attempt(device, os.open, device, os.O_RDWR)
"#
    )
}

#[test]
fn attack_188_the_kernel_refuses_what_else_would_hold_up_others() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    nested(&island, "n");
    let hosts = [island.daemon_pid(), island.keeper_of(&id).unwrap()];
    let script = other_claims(&hosts);
    let refused = [
        "EPERM",
        "ENOENT",
        "ESRCH",
        "EBADF",
        "EINVAL",
        "EOPNOTSUPP",
        "ENOTTY",
    ];
    island.attempts("x", &script).refused(&refused);
    // Root of a namespace inside has no right over file systems of the host and of the workspace.
    let as_root = format!("call(libc.unshare, 0x10000000)\n{script}");
    island.attempts("n", &as_root).refused(&refused);
    // Outside, the user signals those processes, so it is the namespace that refuses.
    let [daemon, _] = hosts;
    let own = format!(
        "import fcntl\nattempt('signals', fcntl.fcntl, os.pipe()[0], fcntl.F_SETOWN, {daemon})"
    );
    island.attempts_outside(&island.home(), &own).succeeded();
}
