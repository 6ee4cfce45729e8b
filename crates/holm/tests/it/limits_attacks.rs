//! Attacks on limits, from inside: getting around the control group, and taking all there is of
//! processes, memory and processors. Only the workspace that does it feels it.
//!
//! Preparing control groups takes root. The suite is run by root in CI; for others there is nothing
//! to see here.

use crate::limits::groups;
use crate::support::{Place, Ran, Running, eventually};
use std::path::Path;
use std::process::Command;

/// Takes and touches memory.
const HOG: &str = "import sys; x = bytearray(int(sys.argv[1]) << 20); print(len(x) >> 20)";

fn hog(place: &Place, workspace: &str, mebibytes: &str) -> Ran {
    let argv = [
        "exec",
        workspace,
        "--",
        "/usr/bin/python3",
        "-c",
        HOG,
        mebibytes,
    ];
    place.holm(&place.home(), &argv)
}

/// Mounts every kind of control groups and tries to escape from its own.
const ESCAPE: &str = r#"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
found = []
os.makedirs("/tmp/groups", exist_ok=True)
for kind, options in [(b"cgroup2", None), (b"cgroup", b"memory"), (b"cgroup", b"pids"),
                      (b"cgroup", b"cpu"), (b"cgroup", b"none,name=mine")]:
    if libc.mount(b"none", b"/tmp/groups", kind, 0, options) == 0:
        found.append((kind + b" " + (options or b"")).decode())
        for name in ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max",
                     "pids.max", "cpu.cfs_quota_us", "cpu.max", "release_agent"]:
            try:
                value = "/tmp/agent" if name == "release_agent" else "max" if name in (
                    "memory.max", "pids.max", "cpu.max") else "-1"
                open("/tmp/groups/" + name, "w").write(value)
                print("wrote", name)
            except OSError as error:
                print("refused", name, errno.errorcode[error.errno])
        for above in ["/tmp/groups/../cgroup.procs", "/tmp/groups/../tasks"]:
            try:
                os.write(os.open(above, os.O_WRONLY), b"0")
                print("left")
            except OSError:
                pass
        libc.umount2(b"/tmp/groups", 2)
    else:
        print("not mounted", kind.decode(), errno.errorcode[ctypes.get_errno()])
for path in ["/sys/fs/cgroup", "/proc/1/cgroup", "/proc/self/cgroup"]:
    try:
        os.open(path, os.O_WRONLY)
        print("opened", path)
    except OSError:
        pass
print("mounted:", ",".join(found))
"#;

#[test]
fn attack_21_a_workspace_cannot_change_or_leave_its_control_group() {
    let Some(place) = Place::new() else { return };
    let repository = place.configured("[limits]\nmemory = \"96MiB\"\n");
    let made = place.holm(&repository, &["up", "x", "--json"]).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let tried = place.python("x", ESCAPE).ok().out();
    assert!(tried.ends_with("mounted: "), "{tried}");
    for word in ["wrote", "opened", "left"] {
        assert!(!tried.contains(word), "{tried}");
    }

    // The same user outside, who can name the group, can do all that.
    let memory = groups(&id).into_iter().find_map(|group| {
        let names = ["memory.limit_in_bytes", "memory.max"];
        names
            .map(|name| group.join(name))
            .into_iter()
            .find(|f| f.exists())
    });
    let memory = memory.expect("a limit of memory");
    let outside = |path: &Path, value: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=holm", "--regid=holm", "--clear-groups", "sh", "-c"]);
        command.arg(format!("echo {value} > {}", path.display()));
        Ran::new(&mut command)
    };
    outside(&memory, "100663296").ok();
}

#[test]
fn attack_21_where_programs_may_mount_control_groups_the_limit_still_holds() {
    let Some(place) = Place::new() else { return };
    let toml = "[project]\nnested = true\n[limits]\nmemory = \"96MiB\"\nprocesses = 64\n";
    let repository = place.configured(toml);
    place.holm(&repository, &["up", "x", "--json"]).json();
    let nested = format!(
        "unshare --user --map-root-user --mount --cgroup /usr/bin/python3 -c '{}'",
        ESCAPE.replace('\'', "\"")
    );
    let tried = place.sh("x", &nested).ok().out();
    // It sees its own group and may do what it likes with that. The limits are above.
    assert!(!tried.ends_with("mounted: "), "{tried}");
    assert!(tried.contains("wrote"), "{tried}");
    assert!(!tried.contains("left"), "{tried}");
    assert!(!tried.contains("wrote release_agent"), "{tried}");
    hog(&place, "x", "32").ok();
    hog(&place, "x", "160").exits(137);
}

#[test]
fn attack_137_a_fork_bomb_stays_in_its_workspace() {
    let Some(place) = Place::new() else { return };
    let repository = place.configured("[limits]\nprocesses = 64\n");
    let made = place.holm(&repository, &["up", "x", "--json"]).json();
    assert_eq!(made["isolation"]["limits"]["processes"], "cgroup");
    place.holm(&repository, &["up", "sibling"]).ok();
    let bomb = r#"
import errno, os, time
print("begins", flush=True)
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    try:
        os.fork()
    except OSError as error:
        # As many as there may be; they go on trying.
        assert error.errno == errno.EAGAIN
        time.sleep(0.01)
"#;
    let argv = ["exec", "x", "--", "/usr/bin/python3", "-c", bomb];
    let mut bomb = Running::new(
        place
            .command(crate::support::program(), &place.home())
            .args(argv),
    );
    bomb.says("begins");
    let id = made["id"].as_str().unwrap();
    let counts: Vec<_> = groups(id)
        .into_iter()
        .map(|group| group.join("pids.current"))
        .filter(|path| path.exists())
        .collect();
    let count = || -> u64 {
        let text = std::fs::read_to_string(&counts[0]).unwrap();
        text.trim().parse().unwrap()
    };
    eventually("the workspace is full", || count() == 64);
    // The daemon answers, and the sibling has as many processes as it likes.
    assert_eq!(place.show("x")["state"], "running");
    let many = "for i in $(seq 40); do sleep 100 & done; echo all";
    assert_eq!(place.sh("sibling", many).ok().out(), "all");
    assert!(count() <= 64);
    place.holm(&repository, &["stop", "x"]).ok();
    bomb.code();
    assert!(groups(id).is_empty());
    place.holm(&repository, &["start", "x"]).ok();
    place.sh("x", "true").ok();
}

#[test]
fn attack_138_memory_without_end_kills_in_that_workspace_only_and_is_told() {
    let Some(place) = Place::new() else { return };
    let repository = place.configured("[limits]\nmemory = \"96MiB\"\n");
    place.holm(&repository, &["up", "x"]).ok();
    place.holm(&repository, &["up", "sibling"]).ok();
    place.sh("sibling", "sleep 1000 & echo $! > /tmp/pid").ok();
    place.sh("x", "sleep 1000 & echo $! > /tmp/pid").ok();

    assert_eq!(hog(&place, "x", "32").ok().out(), "32");
    assert_eq!(place.show("x")["isolation"]["oom_kills"], 0);
    let killed = hog(&place, "x", "160").exits(137);
    assert!(killed.stderr.contains("limit of memory"), "{killed:?}");
    let shown = place.show("x");
    assert_eq!(shown["state"], "running", "{shown}");
    assert_eq!(shown["reason"], "memory_limit", "{shown}");
    assert!(
        shown["isolation"]["oom_kills"].as_u64() >= Some(1),
        "{shown}"
    );
    place.sh("x", "kill -0 $(cat /tmp/pid)").ok();

    // Files in memory belong to no process that could be killed for them, so in the end init is
    // killed.
    let fill = "head -c 160M /dev/zero > /dev/shm/full; sleep 1000";
    place.sh("x", fill).exits(137);
    eventually("it is told", || place.show("x")["state"] == "failed");
    assert_eq!(place.show("x")["reason"], "memory_limit");
    let id = place.show("x")["id"].as_str().unwrap().to_owned();
    let log = place.holm_home().join("data/workspaces").join(&id);
    let log = std::fs::read_to_string(log.join("keeper.log")).unwrap();
    assert!(log.contains("the memory limit was reached"), "{log}");

    // No other workspace noticed, and it comes back with its files.
    place.sh("sibling", "kill -0 $(cat /tmp/pid)").ok();
    let sibling = place.show("sibling");
    assert_eq!(sibling["isolation"]["oom_kills"], 0);
    assert!(sibling["reason"].is_null());
    place.holm(&repository, &["start", "x"]).ok();
    place
        .sh("x", "test -e /tmp/pid && test ! -e /dev/shm/full")
        .ok();
    assert!(place.show("x")["reason"].is_null());

    // Without the limit the same is nothing special.
    place.configure(&repository, "");
    place.holm(&repository, &["up", "free"]).ok();
    assert_eq!(hog(&place, "free", "160").ok().out(), "160");
    place
        .sh(
            "free",
            "head -c 160M /dev/zero > /dev/shm/full; rm /dev/shm/full",
        )
        .ok();
}

#[test]
fn attack_142_spinning_on_every_processor_gets_its_share_only() {
    let Some(place) = Place::new() else { return };
    let repository = place.configured("[limits]\ncpus = 0.2\n");
    let made = place.holm(&repository, &["up", "x", "--json"]).json();
    assert_eq!(made["isolation"]["limits"]["cpus"], "cgroup");
    place.configure(&repository, "");
    place.holm(&repository, &["up", "free"]).ok();
    // Two processes that spin for a while; their share, in hundredths.
    let spin = r#"
import os, time
begin = time.monotonic()
children = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        while time.monotonic() < begin + 1.5:
            pass
        os._exit(0)
for _ in range(2):
    os.wait()
used = os.times()
print(int(100 * (used.children_user + used.children_system) / (time.monotonic() - begin)))
"#;
    let share =
        |workspace: &str| -> u64 { place.python(workspace, spin).ok().out().parse().unwrap() };
    let limited = share("x");
    // A fifth of a processor, with what a period more or less makes.
    assert!(limited <= 40, "{limited}");
    // Others on the machine take their share, too; sooner or later it gets more than that.
    eventually("without the limit it is more", || share("free") > limited);
    assert_eq!(place.show("x")["state"], "running");
}
