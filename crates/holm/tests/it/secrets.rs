//! Secrets while workspaces run: given only to the named services, runs and sessions, masked in
//! logs, and absent from everything that is stored (attacks 126, 128). `secrets_time` tests their
//! lifetime, `secrets_kept` their storage.

use crate::support::{Island, Ran, Repository, eventually};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

const CONFIG: &str = r#"
[ports]
backend = 8099

[services.api]
ready = { command = "true" }
run = "printf 'got %s\n' \"$FROM_ENV\"; printf '%s' \"$STORED\" | base64; exec sleep 1000"

[services.other]
run = "sleep 1000"

[secrets.FROM_ENV]
from = { env = "HOST_ENV" }
to = ["api"]

[secrets.FROM_FILE]
from = { file = "~/token.txt" }
inject = "file"
to = ["api"]

[secrets.FROM_COMMAND]
from = { command = ["/bin/cat", "command.txt"] }
to = ["api"]

[secrets.STORED]
to = ["api"]

[secrets.RUN_KEY]
to = ["runs"]

[secrets.RUN_FILE]
to = ["runs"]
inject = "file"

[secrets.SESSION_KEY]
to = ["sessions"]

[secrets.SESSION_FILE]
to = ["sessions"]
inject = "file"
"#;

/// Looks into every process of the workspace for a text, in every way that there is.
const SEARCH: &str = r#"
import os, sys
wanted = sys.stdin.readline().strip().swapcase().encode()
hits = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) in (os.getpid(), os.getppid()):
        continue
    for name in ("environ", "cmdline"):
        try:
            if wanted in open("/proc/%s/%s" % (pid, name), "rb").read():
                hits.append(name)
        except OSError:
            pass
    try:
        with open("/proc/%s/maps" % pid) as maps, open("/proc/%s/mem" % pid, "rb", 0) as memory:
            for line in maps:
                parts = line.split()
                if not parts[1].startswith("rw"):
                    continue
                first, last = (int(part, 16) for part in parts[0].split("-"))
                try:
                    memory.seek(first)
                    if wanted in memory.read(min(last - first, 1 << 24)):
                        hits.append("mem")
                except (OSError, OverflowError):
                    pass
    except OSError:
        pass
for directory, _, names in os.walk("/run/holm/secrets"):
    for name in names:
        try:
            if wanted in open(os.path.join(directory, name), "rb").read():
                hits.append("file")
        except OSError:
            pass
print("found:" + "".join(" " + hit for hit in sorted(set(hits))))
"#;

/// In every canary of this test, and in those of no other: tests run beside each other.
fn tag() -> String {
    format!("{:08x}c0de", std::process::id())
}

/// A value that may be nowhere but where it was given.
pub fn canary(word: &str) -> String {
    format!("canary-{word}-{}", tag())
}

pub fn has_canary(bytes: &[u8]) -> bool {
    // The copy of holm itself is large and contains no user data.
    if bytes.starts_with(b"\x7fELF") {
        return false;
    }
    String::from_utf8_lossy(bytes).contains(&tag())
}

pub fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository_of("shop", &[("holm.toml", CONFIG)]);
    repository.write("command.txt", format!("{}\n", canary("command")));
    island.write("home/token.txt", format!("{}\n", canary("file")));
    // The daemon is started by a command that has the value in its environment.
    with_env(&repository, &["trust", "--yes"]).ok();
    repository
}

pub fn with_env(repository: &Repository<'_>, arguments: &[&str]) -> Ran {
    let mut command = repository.island.holm_command(&repository.path, arguments);
    Ran::new(command.env("HOST_ENV", canary("env")))
}

/// Runs holm with something on its stdin.
pub fn piped(repository: &Repository<'_>, arguments: &[&str], input: impl AsRef<[u8]>) -> Ran {
    let file = repository.island.write("stdin", input);
    let opened = std::fs::File::open(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    let mut command = repository.island.holm_command(&repository.path, arguments);
    Ran::new(command.stdin(Stdio::from(opened)))
}

pub fn set(repository: &Repository<'_>, name: &str, value: &str) {
    piped(repository, &["secret", "set", name], value).ok();
}

/// Everything that is stored in [`shop`].
fn set_all(repository: &Repository<'_>) {
    for name in [
        "STORED",
        "RUN_KEY",
        "RUN_FILE",
        "SESSION_KEY",
        "SESSION_FILE",
    ] {
        set(repository, name, &canary(&name.to_lowercase()));
    }
}

fn up(repository: &Repository<'_>) -> String {
    let made = with_env(repository, &["up", "x", "--json"]).json();
    let notes = made["notes"].to_string();
    assert!(!notes.contains("is not given"), "{notes}");
    made["id"].as_str().unwrap().to_owned()
}

/// How a program without secrets searches for one. The text goes in through a pipe in the other
/// case, so that the search itself puts it into no memory.
fn search(repository: &Repository<'_>, workspace: &str, wanted: &str) -> String {
    let argv = ["exec", workspace, "--", "/usr/bin/python3", "-c", SEARCH];
    piped(repository, &argv, swapped(wanted)).ok().out()
}

fn swapped(text: &str) -> String {
    let swap = |letter: char| {
        if letter.is_ascii_lowercase() {
            letter.to_ascii_uppercase()
        } else {
            letter.to_ascii_lowercase()
        }
    };
    text.chars().map(swap).collect()
}

fn log(island: &Island) -> String {
    island.holm(&["logs", "x", "api"]).ok().out()
}

#[track_caller]
fn assert_api_runs(island: &Island) {
    eventually("the service is ready", || {
        let show = island.holm(&["show", "x", "--json"]).json();
        let mut services = show["services"].as_array().unwrap().iter();
        let api = services.find(|service| service["name"] == "api").unwrap();
        api["state"] == "ready"
    });
}

pub fn audit(island: &Island) -> Vec<Value> {
    let audit = island
        .holm(&["secret", "audit", "--verify", "--json"])
        .json();
    assert_eq!(audit["intact"], true);
    audit["audit"].as_array().unwrap().clone()
}

pub fn events<'a>(audit: &'a [Value], secret: &str) -> Vec<&'a str> {
    let lines = audit.iter().filter(|line| line["secret"] == secret);
    lines.map(|line| line["event"].as_str().unwrap()).collect()
}

/// How each declared secret of a workspace is.
pub fn declared(island: &Island, id: &str) -> Vec<Value> {
    let route = format!("/api/v1/workspaces/{id}/secrets");
    let declared: Value = serde_json::from_slice(&island.ask("GET", &route, b"").1).unwrap();
    declared["secrets"].as_array().unwrap().clone()
}

pub fn state(island: &Island, id: &str, name: &str) -> String {
    let declared = declared(island, id);
    let found = declared.iter().find(|secret| secret["name"] == name);
    found.unwrap()["state"].as_str().unwrap().to_owned()
}

/// Every file below a directory that has a canary in it.
pub fn sweep(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(sweep(&path)),
            Ok(kind) if kind.is_file() && has_canary(&std::fs::read(&path).unwrap_or_default()) => {
                found.push(path.display().to_string());
            }
            _ => {}
        }
    }
    found
}

/// Processes of the machine with a canary where the same user can see it, except for receivers.
fn processes_with_canaries() -> Vec<String> {
    const RECEIVERS: [&str; 3] = ["HOLM_SERVICE=api", "HOLM_RUN=", "SESSION_KEY="];
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let pid = entry.file_name().to_string_lossy().into_owned();
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let read = |name: &str| std::fs::read(path.join(name)).unwrap_or_default();
        let (environ, cmdline) = (read("environ"), read("cmdline"));
        let variables = String::from_utf8_lossy(&environ).into_owned();
        let is_receiver = RECEIVERS.iter().any(|mark| variables.contains(mark));
        let is_seen = has_canary(&cmdline) || has_canary(&read("cgroup"));
        if is_seen || (has_canary(&environ) && !is_receiver) {
            found.push(format!("{pid} {}", String::from_utf8_lossy(&cmdline)));
        }
    }
    found
}

/// Starts a run and a session from inside, each of which records what it finds.
const ASK: &str = r#"
import http.client, json, socket
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/holm/api.sock")
codes = []
for what in ("run", "session"):
    look = "{ env | grep _KEY=; cat /run/holm/secrets/*; echo end; } 2>/dev/null > ~/new-%s; mv ~/new-%s ~/of-%s" % (what, what, what)
    connection = Connection("holm.localhost", timeout=60)
    body = json.dumps({"command": ["sh", "-c", look]})
    connection.request("POST", "/api/v1/workspaces/WORKSPACE/%ss" % what, body=body, headers={"Content-Type": "application/json"})
    codes.append(str(connection.getresponse().status))
    connection.close()
print(" ".join(codes))
"#;

/// What a receiver finds, in capitals, which are not masked.
const RECEIVED: &str = "env | grep -E '^(RUN|SESSION)_KEY=|^STORED=|^FROM_' | cut -d= -f2 | tr a-z A-Z; \
     for f in /run/holm/secrets/*; do cat $f 2>/dev/null | tr a-z A-Z; done";

#[test]
fn a_variable_of_the_command_line_wins_over_a_secret() {
    let island = Island::new();
    let holm_toml = "[secrets.RUN_KEY]\nto = [\"runs\"]\n";
    let repository = island.repository_of("shop", &[("holm.toml", holm_toml)]);
    set(&repository, "RUN_KEY", "a secret of the project");
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("x");
    let is_typed = ["--", "sh", "-c", "test \"$RUN_KEY\" = typed"];
    let run = |more: &[&str]| {
        let command = [&["run", "x"], more, &is_typed].concat();
        island.holm(&command).code
    };
    assert_eq!(run(&[]), Some(1));
    assert_eq!(run(&["--env", "RUN_KEY=typed"]), Some(0));
}

#[test]
fn attack_126_a_secret_is_with_those_it_was_given_to_and_with_nobody_else() {
    let island = Island::new();
    let repository = shop(&island);
    set_all(&repository);
    let id = up(&repository);
    // The service has them, and its output of them is masked, in base64 too.
    eventually("it printed them", || log(&island).lines().count() >= 2);
    assert_api_runs(&island);
    let printed = log(&island);
    assert!(printed.contains("got [secret]"), "{printed}");
    let is_shown = printed.contains("canary") || printed.contains("Y2FuYXJ5");
    assert!(!is_shown, "{printed}");
    // So have a run and a session, each of theirs only: variables, and files.
    let all = format!("{RECEIVED}; echo; echo done; exec sleep 1000");
    let run = ["run", "--detach", "x", "--", "sleep", "1000"];
    let run = island.holm(&run).ok().out();
    let session = ["session", "new", "x", "--detach", "--", "sh", "-c", &all];
    let session = island.holm(&session).ok().out();
    let of_run = island
        .holm(&["run", "x", "--", "sh", "-c", RECEIVED])
        .ok()
        .out();
    let read = || island.holm(&["session", "read", &session]).ok().out();
    eventually("the session looked", || read().contains("done"));
    let of_session = read();
    let words = [
        "env",
        "file",
        "command",
        "stored",
        "run_key",
        "run_file",
        "session_key",
        "session_file",
    ];
    for (shown, beginning) in [(&of_run, "run_"), (&of_session, "session_")] {
        for word in words {
            let has = shown.contains(&canary(word).to_uppercase());
            assert_eq!(has, word.starts_with(beginning), "{word}: {shown}");
        }
    }
    // No other process has them: no other program inside, however it searches, and no other
    // workspace.
    let bare = island.repository("bare");
    bare.up("y");
    let seek = |workspace: &str, wanted: &str| search(&repository, workspace, wanted);
    for word in words {
        assert_eq!(seek("x", &canary(word)), "found:", "{word}");
    }
    assert_eq!(seek("y", &tag()), "found:");
    let variables = island.sh("x", "env").ok().out();
    assert!(
        !variables.contains(&tag()) && !variables.contains("STORED"),
        "{variables}"
    );
    // A receiver inspects the others: it finds only its own.
    for (word, expected) in [
        ("stored", "found:"),
        ("file", "found:"),
        ("run_key", "found:"),
        ("session_file", "found:"),
        ("run_file", "found: file"),
    ] {
        let message = swapped(&canary(word));
        let argv = ["run", "x", &message, "--", "/usr/bin/python3", "-c", SEARCH];
        let found = island.holm(&argv).ok().out();
        assert_eq!(found, expected, "{word}");
    }
    // A program inside can start runs and sessions, and these get no secrets.
    assert_eq!(
        island
            .python("x", &ASK.replace("WORKSPACE", &id))
            .ok()
            .out(),
        "201 201"
    );
    for place in ["~/of-run", "~/of-session"] {
        let read = || island.sh("x", &format!("cat {place}")).out();
        eventually("it looked", || read().contains("end"));
        assert_eq!(read(), "end", "{place}");
    }
    // Nor does anything of the host: processes, their groups, files.
    assert_eq!(processes_with_canaries(), Vec::<String>::new());
    assert_eq!(sweep(&island.holm_home()), Vec::<String>::new());
    // The record says which process was given what, and how.
    let audit = audit(&island);
    let given = |secret: &str| {
        let mut lines = audit.iter();
        let found = lines.find(|line| line["event"] == "given" && line["secret"] == secret);
        let found = found.unwrap_or_else(|| panic!("{secret} was given to nobody"));
        assert_eq!(found["workspace"], id.as_str());
        assert!(found["pid"].as_i64().unwrap() > 1, "{found}");
        let text = |key: &str| found[key].as_str().unwrap_or("-").to_owned();
        [text("form"), text("receiver"), text("which")]
    };
    assert_eq!(given("STORED"), ["env", "api", "-"]);
    assert_eq!(given("FROM_FILE"), ["file", "api", "-"]);
    assert_eq!(given("RUN_KEY"), ["env", "runs", &run]);
    assert_eq!(given("SESSION_FILE"), ["file", "sessions", &session]);
}

#[test]
fn attack_126_without_domains_of_their_own_other_programs_read_them() {
    let island = Island::without("own_domain");
    let repository = shop(&island);
    set_all(&repository);
    up(&repository);
    let run = ["run", "--detach", "x", "--", "sleep", "1000"];
    island.holm(&run).ok();
    island
        .holm(&["session", "new", "x", "--detach", "--", "sleep", "1000"])
        .ok();
    for word in ["env", "run_key", "session_key"] {
        eventually("everybody reads it", || {
            let found = search(&repository, "x", &canary(word));
            found.contains("environ") && found.contains("mem")
        });
    }
    for word in ["file", "run_file", "session_file"] {
        let found = search(&repository, "x", &canary(word));
        assert!(found.contains("file"), "{found}");
    }
    // Without Landlock no secret is given out unless the user allows it.
    let island = Island::without("landlock");
    let repository = shop(&island);
    let error = with_env(&repository, &["up", "x", "--json"]).error(4);
    assert_eq!(error["code"], "isolation_missing");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("--allow-degraded=landlock"), "{error}");
    let degraded = ["up", "x", "--allow-degraded=landlock", "--json"];
    let made = with_env(&repository, &degraded).json();
    let degraded = made["isolation"]["degraded"].to_string();
    assert!(degraded.contains("landlock"), "{degraded}");
}

#[test]
fn attack_128_files_are_in_memory_for_their_owner_and_in_nothing_that_is_kept() {
    let island = Island::new();
    let repository = shop(&island);
    set_all(&repository);
    let id = up(&repository);
    let looks = "cd /run/holm/secrets; stat -L -c '%a %F' FROM_FILE; stat -f -c %T .; ls";
    let shown = island.sh("x", looks).ok().out();
    assert_eq!(
        shown,
        "400 regular file\ntmpfs\nFROM_FILE\nRUN_FILE\nSESSION_FILE"
    );
    let tries = "cd /run/holm/secrets; cat FROM_FILE; chmod 644 FROM_FILE; rm -f FROM_FILE; \
         echo x > FROM_FILE; echo x > .FROM_FILE/FROM_FILE; touch a; ls";
    let shown = island.sh("x", tries).ok().out();
    assert_eq!(
        shown, "FROM_FILE\nRUN_FILE\nSESSION_FILE",
        "nobody changes them"
    );
    // The mover does not read for a caller either: files, parents, environments.
    let moves = r#"
import os
home = os.path.expanduser("~/")
places = ["/run/holm/secrets/.FROM_FILE", "/run/holm/secrets/.FROM_FILE/FROM_FILE", "/run/holm/secrets", "/run/holm"]
places += ["/proc/%s/environ" % pid for pid in os.listdir("/proc") if pid.isdigit()]
for number, place in enumerate(places):
    try:
        os.rename(place, home + "moved-%d" % number)
        print("moved", place)
    except OSError:
        pass
print(len([name for name in os.listdir(home) if name.startswith(("moved", ".holm-move"))]))
"#;
    assert_eq!(island.python("x", moves).ok().out(), "0");
    // What else works in a separate domain: moving between directories, and the shared /run.
    let works = "mkdir ~/a ~/b && touch ~/a/f && mv ~/a/f ~/b/f && cat ~/b/f /run/holm/id";
    island.sh("x", works).ok();
    let status = island.sh("x", "git status --porcelain").ok().out();
    assert!(
        !status.contains("secret") && !status.contains("FILE"),
        "{status}"
    );
    // A life with a killed daemon, a snapshot, a fork, a stop, a start, and the work brought back.
    let daemon = rustix::process::Pid::from_raw(island.daemon_pid()).unwrap();
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
    island.holm(&["snapshot", "x", "before"]).ok();
    repository.holm(&["fork", "x", "y"]).ok();
    let patch = island.holm(&["diff", "x"]).ok().out();
    assert!(!patch.contains(&tag()), "{patch}");
    repository.holm(&["fetch", "x"]).ok();
    island.holm(&["stop", "x"]).ok();
    island.holm(&["start", "x"]).ok();
    assert_eq!(
        state(&island, &id, "FROM_ENV"),
        "given",
        "what was read before stays"
    );
    assert_eq!(sweep(&island.holm_home()), Vec::<String>::new());
    assert_eq!(sweep(Path::new("/dev/shm")), Vec::<String>::new());
    // A receiver that copies its file has given it away; that is how the same look finds it.
    let copies = "cat /run/holm/secrets/RUN_FILE > copy.txt";
    island.holm(&["run", "x", "--", "sh", "-c", copies]).ok();
    let found = sweep(&island.holm_home());
    assert!(
        found.iter().any(|path| path.ends_with("copy.txt")),
        "{found:?}"
    );
    repository.holm(&["rm", "x", "y", "--force"]).ok();
    assert_eq!(
        events(&audit(&island), "FROM_ENV").last(),
        Some(&"withdrawn")
    );
}
