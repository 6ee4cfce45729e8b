//! What another user of the machine can do to the API: sockets, ports, the token's file (attacks 115,
//! 116). Another user takes root to become; the suite is run by root in CI.

use crate::support::{Door, Island, Ran, eventually, is_root};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The user `nobody` of every Linux.
const STRANGER: u32 = 65534;

/// `None` for a user who cannot become another user.
fn stranger(script: &str, arguments: &[&str]) -> Option<Ran> {
    if !is_root() {
        return None;
    }
    let mut command = Command::new("/usr/bin/python3");
    command
        .args(["-c", script])
        .args(arguments)
        .uid(STRANGER)
        .gid(STRANGER)
        .current_dir("/")
        .env_clear();
    Some(Ran::new(&mut command))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

fn open_up(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// What a socket answers, or why not; with a greeting of nonsense for the guests' one.
const TALK: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(60)
try:
    s.connect(sys.argv[1])
    s.sendall(b'GET /api/v1/ping HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' + b'x' * 200)
    print('heard', s.recv(12).decode())
except OSError as error: print(type(error).__name__)";

#[test]
fn attack_115_another_user_gets_nothing_from_the_sockets() {
    let island = Island::new();
    let _door = Door::of(&island);
    let run = island.holm_home().join("run");
    let sockets = ["daemon.sock", "guests.sock"].map(|name| run.join(name));
    assert_eq!(mode(&run), 0o700);
    for socket in &sockets {
        assert_eq!(mode(socket), 0o600, "{socket:?}");
        let path = socket.to_str().unwrap();
        let Some(said) = stranger(TALK, &[path]) else {
            return;
        };
        assert_eq!(said.ok().out(), "PermissionError");
    }
    // With all files open to everyone, the daemon itself checks the caller.
    open_up(island.holm_home().parent().unwrap(), 0o755);
    open_up(&island.holm_home(), 0o755);
    open_up(&run, 0o755);
    for socket in &sockets {
        open_up(socket, 0o666);
        let path = socket.to_str().unwrap();
        let said = stranger(TALK, &[path]).unwrap().ok().out();
        let nothing = ["heard", "ConnectionResetError", "BrokenPipeError"];
        assert!(nothing.contains(&said.as_str()), "{said}");
    }
    let own = island.run(
        &island.home(),
        "/usr/bin/python3",
        &["-c", TALK, sockets[0].to_str().unwrap()],
    );
    assert_eq!(own.ok().out(), "heard HTTP/1.1 200");
    island.holm(&["daemon", "stop"]).ok();

    // A directory that the stranger created first is not used, nor a symlink to theirs.
    std::fs::remove_dir_all(&run).unwrap();
    std::fs::create_dir(&run).unwrap();
    chown(&run, Some(STRANGER), Some(STRANGER)).unwrap();
    open_up(&run, 0o777);
    let error = island.holm(&["daemon", "start", "--json"]).error(4);
    assert_eq!(error["code"], "refused", "{error}");
    assert!(!run.join("daemon.sock").exists());
    // Without XDG_RUNTIME_DIR nothing is looked for in /tmp.
    let mut command = island.holm_command(&island.home(), &["daemon", "status", "--json"]);
    command.env_remove("HOLM_HOME").env("TMPDIR", "/tmp");
    let traced = Ran::new(&mut command);
    assert!(!traced.out().contains("\"/tmp/holm"), "{}", traced.out());
}

#[test]
fn attack_116_the_door_is_on_loopback_and_the_token_is_the_users() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let door = Door::of(&island);
    let daemon = island.daemon_pid();
    // Only loopback addresses, of both families.
    let listening = |table: &str| -> Vec<String> {
        let text = std::fs::read_to_string(table).unwrap();
        let port = format!(":{:04X}", door.port);
        let lines = text.lines().skip(1).filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next()?, fields.nth(1)?);
            (state == "0A").then(|| local.to_owned())
        });
        lines.filter(|local| local.ends_with(&port)).collect()
    };
    let four = listening("/proc/net/tcp");
    assert!(
        four.iter().all(|local| local.starts_with("0100007F:")),
        "{four:?}"
    );
    let six = listening("/proc/net/tcp6");
    let loopback = "00000000000000000000000001000000:";
    assert!(
        six.iter().all(|local| local.starts_with(loopback)),
        "{six:?}"
    );
    assert!(!four.is_empty() && !six.is_empty());
    // The token is in one file, of this user alone.
    let file = island.data().join("token");
    assert_eq!(mode(&file), 0o600);
    let made = island
        .holm(&["token", "new", "--name", "ci", "--json"])
        .json();
    let made = made["token"].as_str().unwrap();
    for token in [door.token.as_str(), made] {
        let secret = token.rsplit('_').next().unwrap();
        let place = island.holm_home().display().to_string();
        let search = ["-rlaF", secret, &place];
        let found = island.run(&island.home(), "grep", &search).out();
        let expect = if token == made {
            ""
        } else {
            file.to_str().unwrap()
        };
        assert_eq!(found, expect);
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            for name in ["cmdline", "environ"] {
                let text = std::fs::read(entry.path().join(name)).unwrap_or_default();
                // Those that search for it have it.
                let is_ours = entry.file_name().to_str() == Some(&std::process::id().to_string());
                let has_it = String::from_utf8_lossy(&text).contains(secret);
                assert!(is_ours || !has_it, "{:?}/{name}", entry.path());
            }
        }
    }
    let log = std::fs::read_to_string(island.data().join("daemon.log")).unwrap();
    assert!(!log.contains("holm_t"), "{log}");
    // Another user reaches the door, and that is all.
    let read = "import sys
try: print(open(sys.argv[1]).read())
except OSError as error: print(type(error).__name__)";
    open_up(island.holm_home().parent().unwrap(), 0o755);
    open_up(&island.holm_home(), 0o755);
    open_up(&island.data(), 0o755);
    let Some(said) = stranger(read, &[file.to_str().unwrap()]) else {
        return;
    };
    assert_eq!(said.ok().out(), "PermissionError");
    let ask = "import sys, urllib.request, urllib.error
request = urllib.request.Request(sys.argv[1])
if len(sys.argv) > 2: request.add_header('Authorization', 'Bearer ' + sys.argv[2])
try: print(urllib.request.urlopen(request).status)
except urllib.error.HTTPError as error: print(error.code)";
    let url = format!("http://localhost:{}/api/v1/workspaces", door.port);
    assert_eq!(stranger(ask, &[&url]).unwrap().ok().out(), "401");
    assert_eq!(
        stranger(ask, &[&url, &door.token]).unwrap().ok().out(),
        "200"
    );
    // A daemon whose file is gone writes another token; the old one is worth nothing.
    island.holm(&["daemon", "stop"]).ok();
    std::fs::remove_file(&file).unwrap();
    island.holm(&["daemon", "start"]).ok();
    eventually("another daemon", || island.daemon_pid() != daemon);
    let another = Door::of(&island);
    assert_ne!(another.token, door.token);
    assert_eq!(door.ask("GET", "/api/v1/workspaces", "").status, 401);
    assert_eq!(another.ask("GET", "/api/v1/workspaces", "").status, 200);
}
