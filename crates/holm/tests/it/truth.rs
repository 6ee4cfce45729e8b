//! `doctor` and `up` on machines that lack something: the missing part is found by trying, named,
//! and comes with a way to get it; nothing runs without it.

use crate::support::{Island, Ran};
use serde_json::Value;

/// What `doctor` says, and with which exit code.
fn doctor(ran: Ran) -> (Option<i32>, Value) {
    let document = serde_json::from_slice(&ran.stdout);
    (
        ran.code,
        document.unwrap_or_else(|error| panic!("{error}: {ran:?}")),
    )
}

fn missing(document: &Value) -> Vec<&Value> {
    let checks = document["checks"].as_array().unwrap();
    let missing = checks.iter().filter(|check| check["status"] == "missing");
    missing.collect()
}

#[test]
fn a_fit_machine_is_called_fit() {
    let island = Island::new();
    let (code, document) = doctor(island.holm(&["doctor", "--json"]));
    assert_eq!(
        (code, &document["ok"]),
        (Some(0), &true.into()),
        "{document}"
    );
    let checks = document["checks"].as_array().unwrap();
    for check in checks {
        for field in ["name", "status", "detail"] {
            assert!(check[field].is_string(), "{check}");
        }
        assert!(check["required"].is_boolean(), "{check}");
        assert!(
            check["fix"].is_string() || check["fix"].is_null(),
            "{check}"
        );
        let status = check["status"].as_str().unwrap();
        assert!(["ok", "warning", "missing"].contains(&status), "{check}");
    }
    for name in [
        "user namespace",
        "overlayfs",
        "seccomp",
        "no_new_privs",
        "git",
        "kernel",
    ] {
        let check = checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("{name} in {document}"));
        assert_eq!(
            (&check["status"], &check["required"]),
            (&"ok".into(), &true.into())
        );
    }
    let text = island.holm(&["doctor"]).ok();
    assert_eq!(text.stderr, "");
    assert!(
        text.out().contains("this machine can isolate workspaces"),
        "{text:?}"
    );
    // It needs no daemon, starts none and leaves nothing of its trial.
    island.holm(&["daemon", "status"]).exits(5);
    assert!(!island.data().exists(), "the trial is gone");
}

#[test]
fn the_daemon_that_runs_is_asked_because_it_makes_the_workspaces() {
    let island = Island::new();
    let repository = island.repository("shop");
    let pid = island.holm(&["daemon", "start", "--json"]).json()["pid"].clone();
    // Typed where no workspace could be made: what counts is what the daemon can do.
    let here = |command: &str| {
        let script = format!("echo 0 > /proc/sys/user/max_user_namespaces || exit 99\n{command}");
        island.elsewhere(&repository.path, &script)
    };
    let (code, document) = doctor(here("holm doctor --json"));
    assert_eq!(
        (code, &document["ok"], &document["daemon"]),
        (Some(0), &true.into(), &pid),
        "{document}"
    );
    let text = here("holm doctor").ok();
    let says_who = format!("Tested by the running daemon (pid {pid}).");
    assert!(text.out().contains(&says_who), "{text:?}");
    assert!(
        !island.data().read_dir().unwrap().any(|entry| {
            let name = entry.unwrap().file_name();
            name.to_string_lossy().starts_with("trial-")
        }),
        "its trial leaves nothing"
    );
    // What the client needs itself counts, too.
    let mut command = island.holm_command(&repository.path, &["doctor", "--json"]);
    let (code, document) = doctor(Ran::new(command.env("PATH", "/nowhere")));
    assert_eq!(code, Some(1), "{document}");
    assert_eq!(missing(&document)[0]["name"], "git", "{document}");
    island.holm(&["daemon", "stop"]).ok();
    let (code, document) = doctor(here("holm doctor --json"));
    assert_eq!((code, &document["daemon"]), (Some(1), &Value::Null));
    assert_eq!(
        missing(&document)[0]["name"],
        "user namespace",
        "{document}"
    );
}

/// On a machine that `script` makes unfit: `doctor` names the part and the fix, `up` refuses.
#[track_caller]
fn is_refused(island: &Island, script: &str, part: &str, fixes: &[&str]) {
    let repository = island.home().join("src/shop");
    let on =
        |command: &str| island.elsewhere(&repository, &format!("{script} || exit 99\n{command}"));
    let (code, document) = doctor(on("holm doctor --json"));
    assert_eq!(
        (code, &document["ok"]),
        (Some(1), &false.into()),
        "{document}"
    );
    let missing = missing(&document);
    assert_eq!(missing.len(), 1, "{document}");
    assert_eq!(missing[0]["name"], part, "{document}");
    assert_eq!(missing[0]["required"], true);
    let fix = missing[0]["fix"].as_str().unwrap();
    assert!(fixes.iter().any(|word| fix.contains(word)), "{document}");
    let text = on("holm doctor").exits(1);
    assert!(text.out().contains(&format!("✗ {part}")), "{text:?}");
    let refused =
        on("holm up x --json; code=$?; holm daemon stop >/dev/null 2>&1; exit $code").error(4);
    assert_eq!(refused["code"], "isolation_missing", "{refused}");
    assert!(
        refused["hint"].as_str().unwrap().contains("holm doctor"),
        "{refused}"
    );
    // Nothing was left of it; elsewhere the same works.
    let listed = island.holm(&["ls", "--json"]).json();
    assert_eq!(listed["workspaces"], serde_json::json!([]));
    island.holm(&["daemon", "stop"]).ok();
}

#[test]
fn without_user_namespaces() {
    let island = Island::new();
    let repository = island.repository("shop");
    let script = "echo 0 > /proc/sys/user/max_user_namespaces";
    is_refused(
        &island,
        script,
        "user namespace",
        &["sysctl -w user.max_user_namespaces"],
    );
    repository.up("x");
    // An existing workspace is not started without its isolation either, and is not lost.
    island.holm(&["daemon", "stop", "--all"]).ok();
    let started = island.elsewhere(
        &repository.path,
        &format!(
            "{script}; holm exec x --json -- true; code=$?; holm daemon stop >/dev/null 2>&1; exit $code"
        ),
    );
    assert_eq!(started.error(4)["code"], "isolation_missing");
    island.sh("x", "cat README.md").ok();
}

#[test]
fn without_network_namespaces() {
    let island = Island::new();
    island.repository("shop");
    let script = "echo 0 > /proc/sys/user/max_net_namespaces";
    // The namespaces are made in one go, so it is the switch that names the one.
    is_refused(
        &island,
        script,
        "user namespace",
        &["user.max_net_namespaces"],
    );
}

#[test]
fn where_an_overlay_cannot_have_its_upper_layer() {
    let island = Island::new();
    island.repository("shop");
    for part in ["layers", "layers/lower", "layers/upper", "layers/work"] {
        island.make_dir(part);
    }
    // As in a container, whose own root is an overlay.
    let script = "mkdir -p \"$HOLM_HOME\" && cd \"$HOLM_HOME/../layers\" &&
        mount -t overlay o -o lowerdir=lower,upperdir=upper,workdir=work,userxattr \"$HOLM_HOME\" &&
        cd \"$OLDPWD\"";
    is_refused(&island, script, "overlayfs", &["HOLM_HOME"]);
}

#[test]
fn where_parts_of_proc_are_covered() {
    let island = Island::new();
    let repository = island.repository("shop");
    // As in a container with masked paths: the kernel gives no fresh /proc then.
    let script = "mount -t tmpfs none /proc/tty";
    is_refused(
        &island,
        script,
        "fresh /proc",
        &["over parts of /proc", "systempaths"],
    );
    repository.up("x");
}

#[test]
fn what_is_degraded_is_said_everywhere() {
    let island = Island::without("landlock");
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "x", "--json"]).json();
    let degraded = &made["isolation"]["degraded"];
    assert!(
        degraded.as_array().unwrap().contains(&"landlock".into()),
        "{made}"
    );
    let shown = island.holm(&["show", "x"]).ok().out();
    assert!(shown.contains("landlock"), "{shown}");
    let here = island.inside("x", &["holm", "here", "--json"]).json();
    assert_eq!(&here["isolation"]["degraded"], degraded);
    // A limit of the project that cannot be enforced is refused, unless the user allows it.
    repository.write("holm.toml", "[limits]\nmemory = \"1GiB\"\n");
    repository.commit("limit");
    let refused = repository.holm(&["up", "y", "--json"]).error(4);
    assert_eq!(refused["code"], "limit_unavailable");
    assert!(
        refused["hint"]
            .as_str()
            .unwrap()
            .contains("--allow-degraded=memory"),
        "{refused}"
    );
    let made = repository
        .holm(&["up", "y", "--allow-degraded=memory", "--json"])
        .json();
    let limits = &made["isolation"]["limits"];
    assert!(limits["memory"].is_null(), "{made}");
    let shown = island.holm(&["show", "y", "--json"]).json();
    assert!(
        shown["isolation"]["degraded"]
            .to_string()
            .contains("memory"),
        "{shown}"
    );
}

/// Runs a command on a kernel that has not got some system calls: they fail with an error. Takes
/// their numbers, the error, `--` and the command.
const LACKING: &str = r#"
import ctypes, os, struct, sys
numbers, error = [int(n) for n in sys.argv[1].split(",")], int(sys.argv[2])
def op(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)
program = op(0x20, 0, 0, 0)
for number in numbers:
    program += op(0x15, 0, 1, number) + op(0x06, 0, 0, 0x50000 | error)
program += op(0x06, 0, 0, 0x7fff0000)
memory = ctypes.create_string_buffer(program)
filter = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(memory))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(filter), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[4], sys.argv[4:])
"#;

/// What a script does on such a kernel; the daemon in it is ended afterwards.
fn lacking(island: &Island, calls: &[i64], error: i32, script: &str) -> Ran {
    let numbers: Vec<_> = calls.iter().map(i64::to_string).collect();
    let script = format!(
        "holm() {{ \"$HOLM_PROGRAM\" \"$@\"; }}\n{script}\ncode=$?; \
         holm daemon stop --all >/dev/null 2>&1; exit $code"
    );
    let mut command = island.command("/usr/bin/python3", &island.home().join("src/shop"));
    command.args(["-c", LACKING, &numbers.join(","), &error.to_string()]);
    command.args(["--", "sh", "-c", &script]);
    Ran::new(command.env("HOLM_PROGRAM", crate::support::program()))
}

#[test]
#[cfg(target_arch = "x86_64")]
fn attack_159_without_seccomp_nothing_runs() {
    let island = Island::new();
    let repository = island.repository("shop");
    // The call and its older form.
    let without = |script: &str| {
        let (seccomp, unknown) = ([317], 38);
        lacking(&island, &seccomp, unknown, script)
    };
    let (code, document) = doctor(without("holm doctor --json"));
    assert_eq!(code, Some(1), "{document}");
    let missing = missing(&document);
    assert_eq!(missing[0]["name"], "seccomp", "{document}");
    assert!(missing[0]["fix"].is_string(), "{document}");
    let refused = without("holm up x --json").error(4);
    assert_eq!(refused["code"], "isolation_missing", "{refused}");
    assert!(
        refused["message"].to_string().contains("seccomp"),
        "{refused}"
    );
    assert!(island.states().is_empty());
    island.holm(&["daemon", "stop"]).ok();
    // With the call it runs, so it was the call that was missing.
    lacking(&island, &[9999], 38, "holm up x").ok();
    assert_eq!(
        repository.holm(&["show", "x", "--json"]).json()["state"],
        "stopped"
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn attack_159_without_landlock_it_is_said_and_the_other_walls_stand() {
    let island = Island::new();
    let _repository = island.repository("shop");
    let landlock = [444, 445, 446];
    let ran = lacking(
        &island,
        &landlock,
        38,
        "holm up x --json && holm show x --json >&2",
    );
    assert!(ran.stderr.contains("landlock"), "{ran:?}");
    let made = ran.json();
    let degraded = made["isolation"]["degraded"].to_string();
    assert!(degraded.contains("landlock"), "{made}");
    assert_eq!(made["isolation"]["seccomp"], true, "{made}");
    let with = lacking(&island, &[9999], 38, "holm start x --json").json();
    let degraded = with["isolation"]["degraded"].to_string();
    assert!(!degraded.contains("landlock"), "{with}");
}

#[test]
fn attack_159_a_run_directory_that_cannot_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    island.holm(&["daemon", "stop", "--all"]).ok();
    let run = island.holm_home().join("run");
    let mode = |bits| std::fs::set_permissions(&run, PermissionsExt::from_mode(bits)).unwrap();
    std::fs::remove_dir_all(&run).unwrap();
    // Something else is in its place: also for a user who may write everywhere.
    std::fs::write(&run, "").unwrap();
    let refused = repository.holm(&["up", "y", "--json"]);
    assert_ne!(refused.code, Some(0));
    let place = run.display().to_string();
    assert!(refused.stderr.contains(&place), "{refused:?}");
    assert!(refused.stderr.contains("\"hint\""), "{refused:?}");
    std::fs::remove_file(&run).unwrap();
    island.make_dir("holm/run");
    mode(0o500);
    let refused = repository.holm(&["up", "y", "--json"]);
    assert!(refused.stderr.contains(&place), "{refused:?}");
    mode(0o700);
    assert_eq!(island.sh("x", "cat README.md").ok().out(), "# hello");
    repository.up("y");
}

#[test]
fn a_start_that_failed_is_told_by_its_own_reason() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    crate::support::send(
        island.keeper_of(&id).unwrap(),
        rustix::process::Signal::KILL,
    );
    let reason = || {
        let shown = island.holm(&["show", "x", "--json"]).json();
        shown["reason"].as_str().unwrap_or_default().to_owned()
    };
    crate::support::eventually("it has failed", || reason() == "its keeper was killed");
    island.holm(&["daemon", "stop"]).ok();
    let script = "echo 0 > /proc/sys/user/max_user_namespaces
        holm start x >/dev/null 2>&1; holm show x --json; holm daemon stop >/dev/null";
    let shown = island.elsewhere(&repository.path, script).json();
    assert_eq!(shown["state"], "failed", "{shown}");
    let told = shown["reason"].as_str().unwrap();
    assert!(told.starts_with("could not be started: "), "{told}");
    assert!(reason().starts_with("could not be started: "));
    island.holm(&["start", "x"]).ok();
    assert_eq!(reason(), "");
}
