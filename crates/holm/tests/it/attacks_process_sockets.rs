//! Attacks by sockets and shared memory: services of the host (attacks 54 and 190), abstract names
//! (55), messages and memory across workspaces (63), and abuse of the only socket inside, the guest
//! socket.

use crate::support::{Attempts, Island, Running, is_root};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Services of the host: at a path, or with an abstract name (`@…`).
const LISTEN: &str = r#"
import os, socket, sys
kept = []
for name in sys.argv[1:]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + name[1:] if name.startswith("@") else name)
    listener.listen(8)
    kept.append(listener)
print("ready", flush=True)
sys.stdin.read()
"#;

fn listen(island: &Island, names: &[&str]) -> Running {
    let mut command = island.command("/usr/bin/python3", &island.home());
    command.args(["-c", LISTEN]).args(names);
    let mut running = Running::new(&mut command);
    running.says("ready");
    running
}

/// Connects to each, as a stream and by a datagram, by its name and by aliases of it.
fn connect(names: &[&str]) -> String {
    format!(
        r#"
import socket
def reach(name, kind):
    client = socket.socket(socket.AF_UNIX, kind)
    client.settimeout(60)
    client.connect("\0" + name[1:] if name.startswith("@") else name)
for name in json.loads({:?}):
    attempt(name, reach, name, socket.SOCK_STREAM)
    if name.startswith("/"):
        attempt("root of init: " + name, reach, "/proc/1/root" + name, socket.SOCK_STREAM)
        attempt("own root: " + name, reach, "/proc/self/root" + name, socket.SOCK_STREAM)
"#,
        json!(names).to_string()
    )
}

#[test]
fn attack_54_services_of_the_host_cannot_be_reached_by_their_paths() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    let home = island.home();
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    let shared = tempfile::Builder::new()
        .prefix("holm-it-")
        .tempdir()
        .unwrap();
    std::os::unix::fs::chown(shared.path(), None, None).unwrap();
    std::fs::set_permissions(
        shared.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let ours = [
        name(&home.join("agent.sock")),
        name(&home.join("src/shop/dev.sock")),
        name(&shared.path().join("tmux.sock")),
    ];
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    let _services = listen(&island, &ours);
    let keeper = name(&island.holm_home().join("run/w").join(format!("{id}.sock")));
    let daemon = name(&island.holm_home().join("run/daemon.sock"));
    let all = [ours.as_slice(), &[&keeper, &daemon]].concat();
    let outside = island.attempts_outside(&home, &connect(&all));
    let inside = island.attempts("x", &connect(&all));
    for name in &all {
        assert_eq!(
            (&*outside.0[*name], &*inside.0[*name]),
            ("ok", "ENOENT"),
            "{name}"
        );
    }
    inside.refused(&["ENOENT", "EACCES"]);

    let known = [
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/run/systemd/journal/socket",
        "/run/user/1000/bus",
        "/tmp/.X11-unix/X0",
        "/run/containerd/containerd.sock",
        "/nix/var/nix/daemon-socket/socket",
    ];
    island
        .attempts("x", &connect(&known))
        .refused(&["ENOENT", "EACCES"]);
}

/// A service that has its socket in a directory of PATH, which every workspace sees.
fn reach_toolchain(island: &Island) -> (String, String) {
    let tools = island.make_dir("home/tools");
    let repository = island.repository("shop");
    let socket = tools.join("server.sock");
    let socket = socket.to_str().unwrap();
    let _service = listen(island, &[socket]);
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let mut up = island.holm_command(&repository.path, &["up", "x"]);
    assert!(up.env("PATH", path).output().unwrap().status.success());
    let seen = island
        .sh("x", &format!("ls {}", tools.display()))
        .ok()
        .out();
    assert_eq!(seen, "server.sock", "the directory is shown");
    let script = connect(&[socket]);
    let inside = island.attempts("x", &script).0[socket].clone();
    let outside = island.attempts_outside(&island.home(), &script).0[socket].clone();
    (inside, outside)
}

#[test]
fn attack_54_services_in_directories_that_are_shown_do_not_answer() {
    let (inside, outside) = reach_toolchain(&Island::new());
    assert_eq!((inside.as_str(), outside.as_str()), ("ECONNREFUSED", "ok"));
}

#[test]
fn attack_54_works_where_directories_are_shown_as_they_are() {
    let (inside, _) = reach_toolchain(&Island::without("no_host_sockets"));
    assert_eq!(inside, "ok", "read-only does not stop it");
}

/// Connects to sockets of the host and reads from its pipes, in each of these directories.
fn reach_system(places: &[&str]) -> String {
    let in_each = |name: &str| -> Vec<String> {
        let places = places.iter();
        places.map(|place| format!("{place}/{name}")).collect()
    };
    let (sockets, pipes) = (in_each("x.sock"), in_each("pipe"));
    let sockets: Vec<&str> = sockets.iter().map(String::as_str).collect();
    format!(
        r#"{}
def listen_in(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if os.read(descriptor, 20) != b"said on the host":
        raise OSError(errno.ENODATA, "an empty pipe")
for path in {pipes:?}:
    attempt(path, listen_in, path)
"#,
        connect(&sockets)
    )
}

/// In each directory: a socket that is listened at, and a pipe that has something in it.
const SERVE_BOTH: &str = r#"
import os, signal, socket, sys
kept = []
for place in sys.argv[1:]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place + "/x.sock")
    listener.listen(8)
    os.mkfifo(place + "/pipe")
    pipe = os.open(place + "/pipe", os.O_RDWR)
    os.write(pipe, b"said on the host")
    kept.append(listener)
print("ready", flush=True)
signal.pause()
"#;

/// A directory below `/usr`, which goes with this.
struct OfSystem(PathBuf);

impl Drop for OfSystem {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The root of init is closed to all programs inside.
fn by_plain_names(mut found: Attempts, places: usize) -> Attempts {
    found.0.retain(|name, _| !name.starts_with("root of init"));
    assert_eq!(found.0.len(), 3 * places, "{found:?}");
    found
}

/// What a workspace reaches of a service that has its socket below `/usr`. `None`: only root can put
/// one there.
fn reach_usr(island: &Island) -> Option<Attempts> {
    if !is_root() {
        return None;
    }
    let place = Path::new("/usr/local/lib").join(format!("holm-it-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let place = OfSystem(place);
    let user = rustix::fs::stat(island.home()).unwrap();
    std::os::unix::fs::chown(&place.0, Some(user.st_uid), Some(user.st_gid)).unwrap();
    island.repository("shop").up("x");
    let mut command = island.command("/usr/bin/python3", &island.home());
    command.args(["-c", SERVE_BOTH]).arg(&place.0);
    let mut service = Running::new(&mut command);
    service.says("ready");
    let found = island.attempts("x", &reach_system(&[place.0.to_str().unwrap()]));
    Some(by_plain_names(found, 1))
}

#[test]
fn attack_190_services_below_usr_do_not_answer() {
    if let Some(found) = reach_usr(&Island::new()) {
        found.refused(&["ECONNREFUSED", "ENODATA"]);
    }
}

#[test]
fn attack_190_works_where_the_system_is_shown_as_it_is() {
    if let Some(found) = reach_usr(&Island::without("no_host_sockets")) {
        found.succeeded();
    }
}

/// A machine where file systems are mounted below `/usr`, `/etc` and a directory of PATH, one in another: no
/// directory above them can be a layer. Each has a service.
const MOUNTED_BELOW: &str = r#"
mount -t tmpfs none /usr/local && mkdir -p /usr/local/bin /usr/local/lib/deep/er || exit 99
echo covered > /usr/local/lib/deep/er/file
ln -s ../lib/deep /usr/local/bin/link
mount -t tmpfs none /usr/local/lib/deep/er && echo on top > /usr/local/lib/deep/er/file || exit 99
mount -t tmpfs none /etc/skel || exit 99
mkdir -p "$HOME/tools/share" && mount -t tmpfs none "$HOME/tools/share" || exit 99
printf '#!/bin/sh\necho tool\n' > "$HOME/tools/tool" && chmod +x "$HOME/tools/tool"
export PATH="$HOME/tools:$PATH"
mkfifo "$HOME/ready"
python3 "$HOME/serve.py" $PLACES > "$HOME/ready" &
service=$!
read -r ready < "$HOME/ready"
holm up x >&2 && holm exec x -- python3 -c "$(cat "$HOME/reach.py")"
code=$?
holm exec x -- sh -c 'tool; cat /usr/local/bin/link/er/file; ls /usr/local; touch /usr/local/new' > "$HOME/seen" 2>&1
kill $service
holm daemon stop --all > /dev/null 2>&1
exit $code
"#;

fn reach_mounted(island: &Island) -> Attempts {
    let repository = island.repository("shop");
    let tools = island.home().join("tools").to_str().unwrap().to_owned();
    let places = [
        "/usr/local",
        "/usr/local/lib/deep/er",
        "/usr/local/bin",
        "/etc/skel",
        &tools,
        &format!("{tools}/share"),
    ];
    island.write("home/serve.py", SERVE_BOTH);
    island.write("home/reach.py", Attempts::script(&reach_system(&places)));
    let script = format!("PLACES='{}'\n{MOUNTED_BELOW}", places.join(" "));
    let found = Attempts::from(island.elsewhere(&repository.path, &script));
    by_plain_names(found, places.len())
}

#[test]
fn attack_190_services_on_mounts_below_system_directories_do_not_answer() {
    let island = Island::new();
    let found = reach_mounted(&island);
    found.refused(&["ENOENT", "ECONNREFUSED", "ENODATA"]);
    let seen = std::fs::read_to_string(island.home().join("seen")).unwrap();
    let expect =
        "tool\non top\nbin\nlib\ntouch: cannot touch '/usr/local/new': Read-only file system\n";
    assert_eq!(seen, expect);
}

#[test]
fn attack_190_works_on_mounts_that_are_shown_as_they_are() {
    reach_mounted(&Island::without("no_host_sockets")).succeeded();
}

#[test]
fn attack_55_abstract_names_of_the_host_and_of_siblings_do_not_answer() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    repository.up("sibling");
    let unique = format!("@holm-it-{}", std::process::id());
    let of_sibling = format!("{unique}-sibling");
    let _service = listen(&island, &[&unique]);
    let mut sibling = Running::new(&mut island.holm_command(
        &island.home(),
        &[
            "exec",
            "sibling",
            "--",
            "/usr/bin/python3",
            "-c",
            LISTEN,
            &of_sibling,
        ],
    ));
    sibling.says("ready");
    let script = connect(&[&unique, &of_sibling]);
    island.attempts("x", &script).refused(&["ECONNREFUSED"]);
    let outside = island.attempts_outside(&island.home(), &connect(&[&unique]));
    outside.succeeded();
    island
        .attempts("sibling", &connect(&[&of_sibling]))
        .succeeded();
    // The namespace is sufficient alone.
    let island = Island::without("seccomp,landlock");
    island.repository("shop").up("x");
    island
        .attempts("x", &connect(&[&unique]))
        .refused(&["ECONNREFUSED"]);
}

/// Creates, or looks for, one of everything that processes share by name.
fn shared_memory(flags: &str) -> String {
    format!(
        r#"
flags = {flags}
key = 0x484f4c4d
real_time = ctypes.CDLL("librt.so.1", use_errno=True)
attempt("memory", lambda: call(libc.shmget, key, 4096, flags and 0o1600))
attempt("semaphore", lambda: call(libc.semget, key, 1, flags and 0o1600))
attempt("messages", lambda: call(libc.msgget, key, flags and 0o1600))
attempt("queue", lambda: call(real_time.mq_open, b"/holm-it", os.O_RDWR | (flags and os.O_CREAT), 0o600, None))
attempt("file", lambda: os.open("/dev/shm/holm-it", os.O_RDWR | (flags and os.O_CREAT), 0o600))
"#
    )
}

#[test]
fn attack_63_shared_memory_is_private_and_gone_after_a_stop() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    repository.up("sibling");
    let (make, look) = (shared_memory("1"), shared_memory("0"));
    island.attempts("x", &look).refused(&["ENOENT"]);
    island.attempts("x", &make).succeeded();
    // Another process of the same workspace finds all of it.
    island.attempts("x", &look).succeeded();
    island.attempts("sibling", &look).refused(&["ENOENT"]);
    island
        .attempts_outside(&island.home(), &look)
        .refused(&["ENOENT"]);
    island.holm(&["restart", "x"]).ok();
    island.attempts("x", &look).refused(&["ENOENT"]);
}

/// Everything that should not be said to the keeper.
const ABUSE: &str = r#"
import array, os, socket
def connect():
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    client.connect("/run/holm/guest.sock")
    return client
def said(payload):
    client = connect()
    try:
        client.sendall(payload)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            piece = client.recv(65536)
            if not piece:
                return answer
            answer += piece
    except OSError:
        return b""
for payload in [b"", b"\n", b"\0" * 100, b"\xff\xfe\n", b"here 2\n", b"exec sh\n", b"here 1" + b"x" * 10000 + b"\n",
                b"x" * 5000000, b"{\"version\":1,\"op\":\"stop\"}\n", b"\x20\0\0\0\0{\"version\":1,\"op\":{\"stop\":{\"grace_ms\":0}}}",
                b"GET / HTTP/1.1\r\n\r\n"]:
    answer = said(payload)
    assert answer == b"" or b"bad_request" in answer, (payload[:50], answer)
# Descriptors that nobody asked for.
for _ in range(50):
    client = connect()
    rights = array.array("i", [client.fileno()] * 20)
    try:
        client.sendmsg([b"here 1\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    except OSError:
        pass
    client.close()
# Connections that say nothing, or one byte, and stay.
kept = []
for number in range(2000):
    try:
        client = connect()
        if number % 2:
            client.send(b"h")
        kept.append(client)
    except OSError:
        pass
print("abused", flush=True)
import sys
sys.stdin.read()
"#;

#[test]
fn abuse_of_the_guest_socket_leaves_the_keeper_well() {
    let island = Island::new();
    island.repository("shop").up("x");
    let mut abuser = Running::new(&mut island.holm_command(
        &island.home(),
        &[
            "exec",
            "x",
            "--",
            "sh",
            "-c",
            "ulimit -n 4096 && exec /usr/bin/python3 -c \"$1\"",
            "sh",
            ABUSE,
        ],
    ));
    abuser.says("abused");
    // While all of them are still open.
    assert_eq!(island.sh("x", "echo well").ok().out(), "well");
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["state"], "running");
    assert_eq!(abuser.code(), Some(0));
    let here = island.inside("x", &["holm", "here", "--json"]).json();
    assert_eq!(here["id"], shown["id"]);
    // It does not delay the end either.
    island.holm(&["stop", "x"]).ok();
}
