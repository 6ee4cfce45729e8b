//! Secrets: given to the services that are named and to nobody else, sealed on the disk, masked in
//! logs, withdrawn in time, and all of it in a record that shows when it was changed (attacks 126 to
//! 129, 131 to 134, 136).

use crate::support::{Island, Ran, Repository, eventually};
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

const ENV: &str = "canary-env-71b0c2f4";
const FILE: &str = "canary-file-90aa13de";
const STORED: &str = "canary-stored-55e8d1c7";
const SECOND: &str = "canary-second-0f3e9a62";
const COMMAND: &str = "canary-command-3d77b1e0";
const SOON: &str = "canary-soon-c4e2a9d8";

/// What no file, answer or process of ours may have.
const CANARIES: [&str; 6] = [ENV, FILE, STORED, SECOND, COMMAND, SOON];

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
"#;

/// Looks into every process of the workspace for a text, in every way that there is.
const SEARCH: &str = r#"
import os, sys
wanted = sys.argv[1].encode()
hits = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid():
        continue
    try:
        if wanted in open("/proc/%s/environ" % pid, "rb").read():
            hits.append("environ")
    except OSError:
        pass
    try:
        if wanted in open("/proc/%s/cmdline" % pid, "rb").read():
            hits.append("cmdline")
    except OSError:
        pass
    try:
        with open("/proc/%s/maps" % pid) as maps, open("/proc/%s/mem" % pid, "rb", 0) as memory:
            for line in maps:
                if "[stack]" in line:
                    first, last = (int(part, 16) for part in line.split()[0].split("-"))
                    memory.seek(first)
                    if wanted in memory.read(last - first):
                        hits.append("mem")
    except OSError:
        pass
try:
    for name in os.listdir("/run/holm/secrets"):
        try:
            if wanted in open("/run/holm/secrets/" + name, "rb").read():
                hits.append("file")
        except OSError:
            pass
except OSError:
    pass
print(" ".join(sorted(set(hits))))
"#;

fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", CONFIG);
    repository.commit("secrets");
    repository.write("command.txt", format!("{COMMAND}\n"));
    island.write("home/token.txt", format!("{FILE}\n"));
    // The daemon is started by a command that has the value in its environment.
    with_env(&repository, &["trust", "--yes"]).ok();
    repository
}

fn with_env(repository: &Repository<'_>, arguments: &[&str]) -> Ran {
    let mut command = repository.island.holm_command(&repository.path, arguments);
    Ran::new(command.env("HOST_ENV", ENV))
}

/// Runs holm with something on its stdin.
fn piped(repository: &Repository<'_>, arguments: &[&str], input: &[u8]) -> Ran {
    let file = repository.island.write("stdin", input);
    let file = std::fs::File::open(file).unwrap();
    let mut command = repository.island.holm_command(&repository.path, arguments);
    Ran::new(command.stdin(Stdio::from(file)))
}

fn search(island: &Island, wanted: &str) -> String {
    let argv = ["/usr/bin/python3", "-c", SEARCH, wanted];
    island.inside("x", &argv).ok().out()
}

fn log(island: &Island) -> String {
    island.holm(&["logs", "x", "api"]).ok().out()
}

#[track_caller]
fn assert_api_runs(island: &Island) {
    let show = island.holm(&["show", "x", "--json"]).json();
    let mut services = show["services"].as_array().unwrap().iter();
    let api = services.find(|service| service["name"] == "api").unwrap();
    assert_eq!(api["state"], "ready", "{show}");
}

fn events<'a>(audit: &'a Value, secret: &str) -> Vec<&'a str> {
    let lines = audit["audit"].as_array().unwrap().iter();
    lines
        .filter(|line| line["secret"] == secret)
        .map(|line| line["event"].as_str().unwrap())
        .collect()
}

/// Every file below a directory that has one of the canaries in it.
fn sweep(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            sweep(&path, found);
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if has_canary(&bytes) {
                found.push(path.display().to_string());
            }
        }
    }
}

fn has_canary(bytes: &[u8]) -> bool {
    // The copy of holm itself is large and has nothing of a user's in it.
    if bytes.starts_with(b"\x7fELF") {
        return false;
    }
    let text = String::from_utf8_lossy(bytes);
    CANARIES.iter().any(|canary| text.contains(canary))
}

/// Environments and arguments of every process of the machine that are ours to read, but for those of
/// the receiver's own processes.
fn processes_with_canaries(receivers: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let environ = std::fs::read(path.join("environ")).unwrap_or_default();
        let is_receiver = environ
            .windows(receivers.len())
            .any(|part| part == receivers.as_bytes());
        let cmdline = std::fs::read(path.join("cmdline")).unwrap_or_default();
        if has_canary(&cmdline) || (has_canary(&environ) && !is_receiver) {
            let cmdline = String::from_utf8_lossy(&cmdline).into_owned();
            found.push(format!("{name} {cmdline}"));
        }
    }
    found
}

#[test]
fn attacks_126_to_129_a_secret_is_where_it_was_given_and_nowhere_else() {
    let island = Island::new();
    let repository = shop(&island);
    piped(
        &repository,
        &["secret", "set", "STORED", "--stdin"],
        format!("{STORED}\n").as_bytes(),
    )
    .ok();
    let made = with_env(&repository, &["up", "x", "--json"]).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let notes = made["notes"].to_string();
    assert!(!notes.contains("is not given"), "{notes}");

    // The service has them, and what it prints of them is masked, in base64 too.
    eventually("it printed them", || log(&island).lines().count() >= 2);
    assert_api_runs(&island);
    let printed = log(&island);
    assert!(printed.contains("got [secret]"), "{printed}");
    assert!(
        !printed.contains("canary") && !printed.contains("Y2FuYXJ5"),
        "{printed}"
    );

    // Nobody else has them: no other program inside, however it looks.
    for canary in [ENV, STORED, COMMAND, FILE] {
        assert_eq!(search(&island, canary), "", "{canary}");
    }
    let variables = island.sh("x", "env").ok().out();
    assert!(
        !variables.contains("canary") && !variables.contains("STORED"),
        "{variables}"
    );
    // The file is there, for its receiver only.
    let shown = island
        .sh(
            "x",
            "stat -c '%a %F' /run/holm/secrets/FROM_FILE; stat -f -c %T /run/holm/secrets",
        )
        .ok()
        .out();
    assert_eq!(shown, "400 regular file\ntmpfs");
    island.sh("x", "cat /run/holm/secrets/FROM_FILE").exits(1);
    island
        .sh(
            "x",
            "chmod 644 /run/holm/secrets/FROM_FILE || rm -f /run/holm/secrets/FROM_FILE",
        )
        .exits(1);
    // What else works in a domain of its own: moving between directories, and the shared /run.
    island.sh("x", "mkdir ~/a ~/b && touch ~/a/f && mv ~/a/f ~/b/f && cat ~/b/f && cat /run/holm/id >/dev/null").ok();
    let status = island.sh("x", "git status --porcelain").ok().out();
    assert!(!status.contains("secret"), "{status}");

    // Nor does anything of the host: files, processes, answers.
    let given = "HOLM_SERVICE=api";
    assert_eq!(processes_with_canaries(given), Vec::<String>::new());
    let mut found = Vec::new();
    sweep(&island.holm_home(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    for route in [
        "/secrets",
        "/secrets/audit",
        "/workspaces",
        &format!("/workspaces/{id}/secrets"),
        &format!("/workspaces/{id}"),
    ] {
        let (code, body) = island.ask("GET", &format!("/api/v1{route}"), b"");
        assert_eq!(code, 200, "{route}");
        assert!(!has_canary(&body), "{route}");
    }
    let list = repository.holm(&["secret", "ls", "--json"]).json();
    assert_eq!(list["secrets"][0]["name"], "STORED");

    // Another value: new processes have it, old ones and the record do not show it.
    piped(&repository, &["secret", "set", "STORED"], SECOND.as_bytes()).ok();
    let before = log(&island).lines().count();
    island.holm(&["service", "x", "restart", "api"]).ok();
    eventually("it printed the new one", || {
        log(&island).lines().count() > before + 1
    });
    let audit = island
        .holm(&["secret", "audit", "--verify", "--json"])
        .json();
    assert_eq!(audit["intact"], true);
    let stored = events(&audit, "STORED");
    assert_eq!(
        stored.iter().filter(|event| **event == "set").count(),
        2,
        "{stored:?}"
    );
    assert!(
        stored.iter().filter(|event| **event == "given").count() >= 2,
        "{stored:?}"
    );
    let given = audit["audit"]
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["event"] == "given")
        .unwrap();
    assert_eq!(
        (&given["receiver"], &given["workspace"]),
        (&"api".into(), &id.as_str().into())
    );
    assert!(!log(&island).contains("canary"));

    // Revoked: what is started from now on goes without.
    repository.holm(&["secret", "rm", "STORED"]).ok();
    let declared = island
        .ask("GET", &format!("/api/v1/workspaces/{id}/secrets"), b"")
        .1;
    let declared: Value = serde_json::from_slice(&declared).unwrap();
    let state = |name: &str| {
        let secrets = declared["secrets"].as_array().unwrap().iter();
        secrets
            .filter(|secret| secret["name"] == name)
            .map(|secret| secret["state"].clone())
            .next()
            .unwrap()
    };
    assert_eq!(
        (state("STORED"), state("FROM_ENV")),
        ("missing".into(), "given".into())
    );

    // A life with a killed daemon, a stop, a start without the variable, a snapshot and a fork.
    let daemon = rustix::process::Pid::from_raw(island.daemon_pid()).unwrap();
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
    island.holm(&["snapshot", "x", "before"]).ok();
    island.holm(&["stop", "x"]).ok();
    island.holm(&["start", "x"]).ok();
    let started = island.holm(&["exec", "x", "--", "true"]);
    started.ok();
    repository.holm(&["fork", "x", "y"]).ok();
    repository.holm(&["rm", "x", "y", "--force"]).ok();
    let mut found = Vec::new();
    sweep(&island.holm_home(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    let memory = Path::new("/dev/shm");
    sweep(memory, &mut found);
    assert_eq!(found, Vec::<String>::new());
    let audit = island
        .holm(&["secret", "audit", "--verify", "--json"])
        .json();
    assert_eq!(events(&audit, "FROM_ENV").last(), Some(&"withdrawn"));
}

#[test]
fn attack_126_without_domains_of_their_own_other_programs_read_them() {
    let island = Island::without("own_domain");
    let repository = shop(&island);
    with_env(&repository, &["up", "x"]).ok();
    let found = search(&island, ENV);
    for way in ["environ", "mem"] {
        assert!(found.contains(way), "{found}");
    }
    assert_eq!(search(&island, FILE), "file");
    // Where the kernel has no Landlock, nothing is given unless the user says so.
    let island = Island::without("landlock");
    let repository = shop(&island);
    let error = with_env(&repository, &["up", "x", "--json"]).error(4);
    assert_eq!(error["code"], "isolation_missing");
    assert!(
        error["hint"]
            .as_str()
            .unwrap()
            .contains("--allow-degraded=landlock"),
        "{error}"
    );
    let made = with_env(
        &repository,
        &["up", "x", "--allow-degraded=landlock", "--json"],
    )
    .json();
    assert!(
        made["isolation"]["degraded"]
            .to_string()
            .contains("landlock")
    );
}

#[test]
fn attack_129_files_are_replaced_whole_and_vanish_in_time() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[services.reader]\nrun = \"while :; do cat /run/holm/secrets/* 2>/dev/null | tr -d '\\\\n' | wc -c > ~/seen.new; mv ~/seen.new ~/seen; sleep 0.02; done\"\n\
         [secrets.LONG]\nfrom = { file = \"~/long\" }\ninject = \"file\"\nto = [\"reader\"]\n\
         [secrets.SOON]\ninject = \"file\"\nto = [\"reader\"]\nttl = \"4s\"\n",
    );
    repository.commit("a reader");
    island.write("home/long", "a".repeat(1000));
    repository.holm(&["trust", "--yes"]).ok();
    piped(
        &repository,
        &["secret", "set", "SOON", "--user"],
        SOON.as_bytes(),
    )
    .ok();
    let id = repository.up("x");
    let seen = |island: &Island| island.sh("x", "cat ~/seen").out().trim().to_owned();
    eventually("both are read", || {
        seen(&island) == (1000 + SOON.len()).to_string()
    });
    // Its time is up: the file vanishes by itself, and the record says so.
    eventually("one of them vanished", || seen(&island) == "1000");
    let audit = island.holm(&["secret", "audit", "--json"]).json();
    assert_eq!(
        events(&audit, "SOON"),
        ["set", "received", "shown", "expired"]
    );
    island.sh("x", "test -e /run/holm/secrets/SOON").exits(1);
    let declared: Value = serde_json::from_slice(
        &island
            .ask("GET", &format!("/api/v1/workspaces/{id}/secrets"), b"")
            .1,
    )
    .unwrap();
    assert_eq!(declared["secrets"][1]["state"], "expired");
    // Read again: another length, never a part of it.
    island.write("home/long", "b".repeat(20_000));
    repository.holm(&["secret", "refresh", "x"]).ok();
    eventually("the new ones are read", || {
        seen(&island) == (20_000 + SOON.len()).to_string()
    });
    // What is not there any more is withdrawn.
    std::fs::remove_file(island.home().join("long")).unwrap();
    let refreshed = repository
        .holm(&["secret", "refresh", "x", "--json"])
        .json();
    assert!(
        refreshed["notes"][0]
            .as_str()
            .unwrap()
            .contains("LONG is not given"),
        "{refreshed}"
    );
    island.sh("x", "test -e /run/holm/secrets/LONG").exits(1);
}

#[test]
fn attack_131_and_132_odd_names_and_values_are_refused_without_being_shown() {
    let island = Island::new();
    let repository = island.repository("shop");
    let refused = |name: &str, value: &[u8]| {
        let ran = piped(&repository, &["secret", "set", name, "--json"], value);
        let shown = format!("{}{}", ran.stderr, ran.out());
        assert!(!shown.contains("canary"), "{shown}");
        assert_eq!(ran.error(2)["code"], "invalid_secret");
    };
    for name in ["A=B", "", "A\nB", "A B", "1A", "ä"] {
        refused(name, b"canary-value");
    }
    refused("A", b"");
    refused("A", b"canary\0value");
    refused("A", b"canary\xff\xfe");
    refused("A", &[b"canary".as_slice(), &vec![b'x'; 1 << 20]].concat());
    piped(
        &repository,
        &["secret", "set", "MANY"],
        b"two lines\nand = signs\n",
    )
    .ok();
    // Not even a request of the wrong form has its value in the answer, or in the log.
    let project = repository.git(&["config", "holm.projectId"]);
    for body in [
        format!("{{\"name\":\"A\",\"scope\":\"user\",\"value\":[\"{ENV}\"]}}"),
        format!("{{\"name\":\"A\",\"scope\":\"user\",\"value\":\"{ENV}\\u0000\"}}"),
        format!("{{\"name\":\"A\",\"scope\":\"user\",\"value\":\"{ENV}\",\"{ENV}\":1}}"),
        format!("{{\"name\":\"A\",\"scope\":\"{ENV}\",\"value\":\"{ENV}\"}}"),
        format!("{{\"name\":\"A\",\"scope\":{{\"project\":\"{project}\"}},\"value\":7{ENV}}}"),
    ] {
        let (code, answer) = island.ask("PUT", "/api/v1/secrets", body.as_bytes());
        assert_eq!(code, 400, "{}", String::from_utf8_lossy(&answer));
        assert!(!has_canary(&answer), "{}", String::from_utf8_lossy(&answer));
    }
    let mut found = Vec::new();
    sweep(&island.holm_home(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    // What cannot be done yet is said.
    repository.write(
        "holm.toml",
        "[secrets.A]\nto = [\"runs\"]\ninject = \"placeholder\"\nhosts = [\"example.org\"]\n",
    );
    repository.commit("a placeholder");
    repository.holm(&["trust", "--yes"]).ok();
    let error = repository.holm(&["up", "--json"]).error(2);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("does not work yet"),
        "{error}"
    );
    // What a reload adds to a workspace that had none is given from the next start on.
    repository.write("holm.toml", "");
    repository.commit("nothing");
    repository.up("y");
    island
        .sh(
            "y",
            "printf '[services.a]\\nrun = \"echo got $KEY; sleep 1000\"\\n[secrets.KEY]\\nto = [\"a\"]\\n' > holm.toml",
        )
        .ok();
    let reloaded = repository.holm(&["reload", "y", "--json"]).error(4);
    assert_eq!(reloaded["code"], "not_trusted");
    repository.holm(&["reload", "y", "--yes"]).ok();
    let set = ["secret", "set", "KEY", "--workspace", "y", "--json"];
    let set = piped(&repository, &set, ENV.as_bytes()).json();
    assert!(
        set["notes"][0].as_str().unwrap().contains("holm restart"),
        "{set}"
    );
    repository.holm(&["restart", "y"]).ok();
    eventually("it is given", || {
        let log = repository.holm(&["logs", "y", "a"]).ok().out();
        log.contains("got [secret]")
    });
}

#[test]
fn attack_134_many_at_once_do_not_mix_and_keys_scopes_and_parcels_hold() {
    let island = Island::new();
    let repository = shop(&island);
    let other = island.repository("other");
    other.holm(&["project", "add"]).ok();
    // The same name, set and deleted in two projects at the same time.
    let ids = [&repository, &other].map(|repository| repository.git(&["config", "holm.projectId"]));
    std::thread::scope(|scope| {
        for (number, id) in ids.iter().enumerate() {
            let island = &island;
            scope.spawn(move || {
                for turn in 0..50 {
                    let body = format!("{{\"name\":\"KEY\",\"scope\":{{\"project\":\"{id}\"}},\"value\":\"value {number} {turn}\"}}");
                    let set = island.ask("PUT", "/api/v1/secrets", body.as_bytes());
                    assert_eq!(set.0, 200, "{set:?}");
                    if turn % 2 == 0 {
                        let body = format!("{{\"name\":\"KEY\",\"scope\":{{\"project\":\"{id}\"}}}}");
                        assert_eq!(island.ask("DELETE", "/api/v1/secrets", body.as_bytes()).0, 200);
                    }
                }
            });
        }
    });
    let list = repository.holm(&["secret", "ls", "--json"]).json();
    assert_eq!(list["secrets"].as_array().unwrap().len(), 2, "{list}");
    // The workspace's own value counts before the project's, and that before the user's.
    piped(
        &repository,
        &["secret", "set", "STORED", "--user"],
        b"of the user",
    )
    .ok();
    let key = island.data().join("secrets/key.json");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let first = std::fs::read(&key).unwrap();
    repository.holm(&["secret", "rotate-key"]).ok();
    assert_ne!(std::fs::read(&key).unwrap(), first);
    let parcel = island.home().join("parcel");
    let parcel = parcel.to_str().unwrap();
    piped(&repository, &["secret", "export", parcel], b"open sesame\n").ok();
    assert!(
        !std::fs::read_to_string(parcel)
            .unwrap()
            .contains("of the user")
    );
    repository.holm(&["secret", "rm", "STORED", "--user"]).ok();
    repository
        .holm(&["secret", "rm", "STORED", "--user"])
        .exits(3);
    let wrong = piped(
        &repository,
        &["secret", "import", parcel, "--json"],
        b"open barley\n",
    );
    assert_eq!(wrong.error(4)["code"], "wrong_passphrase");
    piped(&repository, &["secret", "import", parcel], b"open sesame\n").ok();
    // Behind a passphrase: a new daemon gives nothing before it is unlocked.
    piped(
        &repository,
        &["secret", "rotate-key", "--passphrase"],
        b"open sesame\n",
    )
    .ok();
    assert_eq!(
        repository
            .holm(&["secret", "rotate-key", "--json"])
            .error(4)["code"],
        "refused"
    );
    island.holm(&["daemon", "stop"]).ok();
    let locked = with_env(&repository, &["up", "x", "--json"]).error(4);
    assert_eq!(locked["code"], "secrets_locked");
    let wrong = piped(
        &repository,
        &["secret", "unlock", "--json"],
        b"open barley\n",
    );
    assert_eq!(wrong.error(4)["code"], "wrong_passphrase");
    piped(&repository, &["secret", "unlock"], b"open sesame\n").ok();
    with_env(&repository, &["up", "x"]).ok();
    // A line of the record that somebody changed is found.
    let record = island.data().join("secrets/audit.jsonl");
    island.holm(&["secret", "audit", "--verify"]).ok();
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&record)
        .unwrap();
    file.write_all(b"{}\n").unwrap();
    let broken = island.holm(&["secret", "audit", "--verify"]).exits(1);
    assert!(
        broken.stderr.contains("the record was changed"),
        "{broken:?}"
    );
}
