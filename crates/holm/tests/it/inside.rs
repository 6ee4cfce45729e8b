//! The inside of a workspace: its environment, its network, its names, `holm here`.

use crate::support::{Island, Ran};
use serde_json::Value;
use std::collections::BTreeSet;

/// What a developer's shell is full of, none of which may come along.
const CANARIES: [(&str, &str); 14] = [
    ("SSH_AUTH_SOCK", "/tmp/canary-agent"),
    ("GITHUB_TOKEN", "canary"),
    ("NPM_TOKEN", "canary"),
    ("AWS_ACCESS_KEY_ID", "canary"),
    ("AWS_SECRET_ACCESS_KEY", "canary"),
    ("GIT_AUTHOR_NAME", "canary"),
    ("GIT_SSH_COMMAND", "canary"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/canary"),
    ("XDG_RUNTIME_DIR", "/run/user/canary"),
    ("DISPLAY", ":canary"),
    ("LD_PRELOAD", "canary.so"),
    ("PYTHONPATH", "/canary"),
    ("http_proxy", "http://canary.test"),
    ("EDITOR", "canary"),
];

/// Runs holm with the canaries in its environment; the daemon that it starts has them too.
fn with_canaries(island: &Island, directory: &std::path::Path, arguments: &[&str]) -> Ran {
    let mut command = island.holm_command(directory, arguments);
    command.envs(CANARIES).env("TZ", "Europe/Paris");
    // The loader would complain about the library on stderr.
    command.env_remove("LD_PRELOAD");
    Ran::new(&mut command)
}

#[test]
fn the_environment_is_built_from_nothing() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = with_canaries(&island, &repository.path, &["up", "x", "--json"]).json();
    let daemon = std::fs::read(format!("/proc/{}/environ", island.daemon_pid())).unwrap();
    let daemon = String::from_utf8_lossy(&daemon).into_owned();
    assert!(
        daemon.contains("canary"),
        "the daemon has canaries: {daemon}"
    );
    let home = island.home();
    let env = with_canaries(&island, &home, &["exec", "x", "--", "env", "-0"]).ok();
    let env = String::from_utf8(env.stdout).unwrap();
    let mut found: Vec<_> = env.split_terminator('\0').collect();
    found.sort_unstable();
    let id = made["id"].as_str().unwrap();
    let expected = [
        format!("HOLM_ROOT={}", repository.path.display()),
        format!("HOLM_WORKSPACE_ID={id}"),
        "HOLM_WORKSPACE_LABEL=x".to_owned(),
        format!("HOME={}", home.display()),
        "LANG=C.UTF-8".to_owned(),
        "PATH=/run/holm/bin:/usr/local/bin:/usr/bin:/bin".to_owned(),
        "TERM=dumb".to_owned(),
        "TZ=Europe/Paris".to_owned(),
    ];
    assert_eq!(found, expected);
    // A shell adds its own words and nothing of the user's.
    let names = |script: &str| -> BTreeSet<String> {
        let ran = with_canaries(&island, &home, &["exec", "x", "--", "bash", "-c", script]);
        ran.ok().out().lines().map(str::to_owned).collect()
    };
    let exported = names("compgen -e");
    let shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    let all: BTreeSet<String> = expected
        .iter()
        .map(|line| line.split('=').next().unwrap().to_owned())
        .chain(shell.map(str::to_owned))
        .collect();
    assert!(exported.is_subset(&all), "{exported:?}");
    // No process inside has a canary either: not init, not in its arguments.
    let script = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c 'canar[y]'";
    assert_eq!(island.sh("x", script).exits(1).out(), "0");
    // The clock follows TZ.
    assert!(island.sh("x", "date +%Z").ok().out().starts_with("CE"));
}

#[test]
fn every_workspace_has_its_own_loopback() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("one");
    repository.up("two");
    let server = |label: &str| {
        format!(
            "import socket, os
listeners = []
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    for port in (3000, 5432):
        listener = socket.create_server((address, port), family=family)
        listeners.append(listener)
if os.fork(): os._exit(0)
import select
os.setsid()
os.close(1); os.close(2)
while True:
    for listener in select.select(listeners, [], [])[0]:
        connection = listener.accept()[0]
        connection.sendall(b'{label}')
        connection.close()"
        )
    };
    for label in ["one", "two"] {
        island.python(label, &server(label)).ok();
    }
    let ask = "import socket
for address in ('127.0.0.1', '::1', 'localhost'):
    for port in (3000, 5432):
        print(socket.create_connection((address, port), 5).recv(9).decode())";
    for label in ["one", "two"] {
        let answers = island.python(label, ask).ok().out();
        assert_eq!(answers, [label; 6].join("\n"));
    }
    // The host's loopback is another one, in both directions.
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let reach = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 5)");
    let refused = island.python("one", &reach).exits(1);
    assert!(refused.stderr.contains("ConnectionRefused"), "{refused:?}");
    island
        .run(&island.home(), "/usr/bin/python3", &["-c", &reach])
        .ok();
    // Only loopback exists.
    let interfaces = island
        .sh("one", "tail -n +3 /proc/net/dev | cut -d: -f1")
        .ok();
    assert_eq!(interfaces.out().trim(), "lo");
}

#[test]
fn nothing_goes_out_and_trying_fails_at_once() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[egress]\nmode = \"none\"\n");
    repository.commit("nothing leaves");
    repository.up("x");
    let script = "import errno, socket, time
begun = time.monotonic()
for family, address in ((socket.AF_INET, '192.0.2.1'), (socket.AF_INET6, '2001:db8::1'),
                        (socket.AF_INET, '169.254.169.254'), (socket.AF_INET, '10.0.0.1')):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        attempt = socket.socket(family, kind)
        attempt.settimeout(60)
        try: attempt.connect((address, 80)); attempt.send(b'x'); print('sent')
        except OSError as error: print(errno.errorcode[error.errno])
for name in ('example.org', 'www.example.test'):
    try: print(socket.getaddrinfo(name, 80))
    except socket.gaierror: print('no name')
print(time.monotonic() - begun < 4.5)";
    let mut expected = ["ECONNREFUSED", "EPERM"].repeat(4);
    expected.extend(["no name", "no name", "True"]);
    assert_eq!(island.python("x", script).ok().out(), expected.join("\n"));
    // Its own names resolve without a name server.
    let own = "import socket
print(socket.getaddrinfo(socket.gethostname(), 80)[0][4][0])
print(sorted({entry[4][0] for entry in socket.getaddrinfo('localhost', 80)}))";
    assert_eq!(
        island.python("x", own).ok().out(),
        "127.0.0.1\n['127.0.0.1', '::1']"
    );
}

#[test]
fn the_user_has_a_name_a_home_and_a_host() {
    let island = Island::new();
    island.repository("shop").up("fix-login");
    let user = island.run(&island.home(), "id", &["-un"]).ok().out();
    let inside = |script: &str| island.sh("fix-login", script).ok().out();
    assert_eq!(inside("whoami; id -gn"), format!("{user}\n{user}"));
    assert_eq!(inside("getent passwd $(id -u) | cut -d: -f6; echo ~"), {
        let home = island.home().display().to_string();
        format!("{home}\n{home}")
    });
    assert_eq!(
        inside("hostname; getent hosts $(hostname) | wc -l"),
        "fix-login\n1"
    );
    assert_eq!(inside("umask; ulimit -c"), "0022\n0");
    // Home is writable, its own, and empty of the user's files.
    island.write("home/.bash_history", "secret");
    assert_eq!(inside("ls -A ~ | grep -v '^src$'; true"), "");
    inside("echo mine > ~/.profile; mkdir -p ~/.config ~/.cache; touch ~/.config/x");
    assert!(!island.home().join(".profile").exists());
    // Temporary directories exist, private and writable.
    inside("for d in /tmp /var/tmp /dev/shm; do echo x > $d/canary || exit 1; done; mktemp -d");
    for place in ["/tmp", "/var/tmp", "/dev/shm"] {
        let canary = std::path::Path::new(place).join("canary");
        assert!(!canary.exists(), "{canary:?}");
    }
    // The usual devices work, and there are no others.
    inside(
        "echo x > /dev/null; head -c 4 /dev/zero /dev/urandom /dev/random > /dev/full && exit 1; test -c /dev/tty",
    );
    assert_eq!(
        inside("ls /dev | grep -E '^(sd|vd|nvme|loop|kvm|mem|kmsg)'; true"),
        ""
    );
}

#[test]
fn here_tells_who_and_where_and_nothing_else_works() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "fix-login", "--json"]).json();
    assert_eq!(
        island.sh("fix-login", "command -v holm").ok().out(),
        "/run/holm/bin/holm"
    );
    let here = island
        .inside("fix-login", &["holm", "here", "--json"])
        .json();
    for field in [
        "id",
        "label",
        "project_id",
        "root",
        "commit",
        "ref",
        "driver",
    ] {
        assert_eq!(here[field], made[field], "{field}");
    }
    assert_eq!(here["isolation"], made["isolation"]);
    let home = island.home();
    assert_eq!(here["home"], home.to_str().unwrap());
    let text = island.inside("fix-login", &["holm", "here"]).ok();
    assert_eq!(text.stderr, "");
    for part in [
        "fix-login",
        made["id"].as_str().unwrap(),
        here["root"].as_str().unwrap(),
    ] {
        assert!(text.out().contains(part), "{part} in {}", text.out());
    }
    // It works from anywhere and without the environment.
    let bare = "cd / && env -i /run/holm/bin/holm here --json";
    assert_eq!(island.sh("fix-login", bare).json()["id"], made["id"]);
    let others: [&[&str]; 12] = [
        &["ls"],
        &["up"],
        &["reload", "."],
        &["rm", ".", "--force"],
        &["exec", "fix-login", "--", "true"],
        &["enter", "."],
        &["stop", "."],
        &["project", "ls"],
        &["trust", "--yes"],
        &["doctor"],
        &["daemon", "start"],
        &["rename", ".", "other"],
    ];
    for other in others {
        let arguments = [&["holm", "--json"], other].concat();
        let refused = island.inside("fix-login", &arguments).error(4);
        assert_eq!(refused["code"], "inside_workspace", "{other:?}");
    }
    let help = island.inside("fix-login", &["holm", "help", "--all"]).ok();
    assert!(help.out().contains("here"));
    // Outside `here` is refused, and so is the workspace that this is not in.
    assert_eq!(island.holm(&["here", "--json"]).error(4)["code"], "refused");
    island.holm(&["show", ".", "--json"]).error(3);
}

#[test]
fn a_new_label_changes_the_label_and_nothing_else() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "before", "--json"]).json();
    island
        .sh(
            "before",
            "sleep 1000 & echo $! > ~/pid; git commit -q --allow-empty -m x",
        )
        .ok();
    let head = island.sh("before", "git rev-parse HEAD").ok().out();
    let renamed = island.holm(&["rename", "before", "after", "--json"]).json();
    let without = |value: &Value| {
        let mut value = value.clone();
        let fields = value.as_object_mut().unwrap();
        for changing in [
            "label",
            "last_used_at",
            "created",
            "ms",
            "dirty",
            "head",
            "notes",
        ] {
            fields.remove(changing);
        }
        value
    };
    assert_eq!(renamed["label"], "after");
    assert_eq!(without(&renamed), without(&made));
    island.holm(&["show", "before", "--json"]).error(3);
    let new = island.sh(
        "after",
        "echo $HOLM_WORKSPACE_LABEL $HOLM_WORKSPACE_ID; git branch --show-current; \
         git rev-parse HEAD; kill -0 $(cat ~/pid) && echo alive",
    );
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        new.ok().out(),
        format!("after {id}\nholm/before\n{head}\nalive")
    );
    let here = || island.inside("after", &["holm", "here", "--json"]).json();
    assert_eq!(here()["label"], "after");
    // It is still so after the processes were new.
    island.holm(&["restart", "after"]).ok();
    assert_eq!(here()["label"], "after");
    assert_eq!(
        island
            .sh(
                "after",
                "echo $HOLM_WORKSPACE_LABEL; git branch --show-current"
            )
            .ok()
            .out(),
        "after\nholm/before"
    );
    assert_eq!(
        island
            .sh("after", "hostname; getent hosts $(hostname) | wc -l")
            .ok()
            .out(),
        "after\n1"
    );
    // The old label is free, and means only the new workspace.
    let second = repository.up("before");
    assert_ne!(second, id);
    assert_eq!(
        island.sh("before", "git log -1 --format=%s").ok().out(),
        "first"
    );
}

#[test]
fn show_says_what_the_kernel_says() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let isolation = island.holm(&["show", "x", "--json"]).json()["isolation"].clone();
    let status = island.sh("x", "cat /proc/self/status").ok().out();
    let field = |name: &str| -> String {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(isolation["no_new_privs"], field("NoNewPrivs:") == "1");
    assert_eq!(isolation["seccomp"], field("Seccomp:") == "2");
    assert_eq!(field("CapEff:"), "0000000000000000");
    assert_eq!(field("CapBnd:"), "0000000000000000");
    for (name, link) in [
        ("user", "user"),
        ("mount", "mnt"),
        ("pid", "pid"),
        ("net", "net"),
        ("ipc", "ipc"),
    ] {
        let script = format!("readlink /proc/self/ns/{link}");
        let inside = island.sh("x", &script).ok().out();
        let outside = std::fs::read_link(format!("/proc/self/ns/{link}")).unwrap();
        let is_apart = inside != outside.to_str().unwrap();
        assert_eq!(isolation[name], is_apart, "{name}");
    }
    // Landlock: a rule forbids this, whatever the mounts allow.
    let degraded = isolation["degraded"].as_array().unwrap();
    assert_eq!(
        isolation["landlock"] == false,
        degraded.contains(&"landlock".into())
    );
    // Disabled parts are reported as disabled.
    let weaker = Island::without("seccomp,mover,landlock");
    weaker.repository("shop").up("x");
    let isolation = weaker.holm(&["show", "x", "--json"]).json()["isolation"].clone();
    assert_eq!(isolation["seccomp"], false, "{isolation}");
    assert_eq!(isolation["landlock"], false, "{isolation}");
    let status = weaker.sh("x", "grep Seccomp: /proc/self/status").ok().out();
    assert_eq!(status.split_whitespace().nth(1), Some("0"));
}
