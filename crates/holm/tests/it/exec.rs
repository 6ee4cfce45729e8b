//! `holm exec` without a terminal: bytes, exit codes, options, signals, and what continues without
//! the client or the daemon.

use crate::support::{Island, Ran, Running, eventually, noise, send};
use rustix::process::Signal;
use std::process::Stdio;

/// Runs a command inside with these bytes on stdin.
fn with_input(island: &Island, arguments: &[&str], input: &[u8]) -> Ran {
    let file = island.write("input", input);
    let mut command = island.holm_command(&island.home(), arguments);
    command.stdin(std::fs::File::open(file).unwrap());
    Ran::new(&mut command)
}

#[test]
fn exact_bytes_pass_in_both_directions() {
    let island = Island::new();
    island.repository("shop").up("x");
    let bytes = noise(5_000_003);
    let through = with_input(&island, &["exec", "x", "--", "cat"], &bytes).ok();
    assert!(through.stdout == bytes, "stdout is not what stdin was");
    assert_eq!(through.stderr, "");
    // Both outputs at once, each whole and apart from the other.
    let script = "head -c 3000000 /dev/zero | tr '\\0' e >&2 & cat; wait";
    let both = with_input(&island, &["exec", "x", "--", "sh", "-c", script], &bytes).ok();
    assert!(both.stdout == bytes, "stdout is not what stdin was");
    assert!(both.stderr == "e".repeat(3_000_000), "stderr is not whole");
    // No end of line is added, no character is translated, none is needed.
    assert_eq!(
        island.sh("x", "printf 'a\\r\\n\\033[0m\\377'").ok().stdout,
        b"a\r\n\x1b[0m\xff"
    );
    assert_eq!(island.sh("x", "true").ok().stdout, b"");
}

#[test]
fn stdin_that_is_closed_or_unread_holds_nothing_up() {
    let island = Island::new();
    island.repository("shop").up("x");
    let counted = with_input(&island, &["exec", "x", "--", "wc", "-c"], b"").ok();
    assert_eq!(counted.out(), "0");
    // A command that does not read its large input, and one that stops reading it.
    let bytes = noise(3_000_000);
    with_input(&island, &["exec", "x", "--", "true"], &bytes).ok();
    let head = with_input(&island, &["exec", "x", "--", "head", "-c", "5"], &bytes).ok();
    assert_eq!(head.stdout, &bytes[..5]);
    // stdin that was closed before the start.
    let mut closed = island.command("sh", &island.home());
    let program = island.holm_command(&island.home(), &[]);
    closed.arg("-c").arg("exec \"$0\" exec x -- cat <&-");
    closed.arg(program.get_program());
    assert_eq!(Ran::new(&mut closed).ok().out(), "");
    // A conversation: an answer comes before the input ends.
    let mut command = island.holm_command(&island.home(), &["exec", "x", "--", "cat"]);
    let mut cat = Running::new(&mut command);
    for line in ["one", "two"] {
        cat.write(&format!("{line}\n"));
        cat.says(line);
    }
    cat.close_stdin();
    assert_eq!(cat.code(), Some(0));
}

#[test]
fn the_exit_code_is_the_commands() {
    let island = Island::new();
    island.repository("shop").up("x");
    for code in [0, 1, 2, 3, 42, 124, 126, 255] {
        island.sh("x", &format!("exit {code}")).exits(code);
    }
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139), ("INT", 130)] {
        island.sh("x", &format!("kill -{signal} $$")).exits(code);
    }
    let missing = island.inside("x", &["no-such-program"]).exits(127);
    assert!(missing.stderr.contains("no-such-program"), "{missing:?}");
    island.inside("x", &["./README.md"]).exits(126);
    island.inside("x", &["/usr"]).exits(126);
    island.inside("x", &["/no/such"]).exits(127);
    // A script without a first line runs, as from a shell.
    island.sh("x", "echo 'exit 7' > plain; chmod +x plain").ok();
    island.sh("x", "./plain").exits(7);
    // Nothing on stdout but what the command wrote, however it ends.
    assert_eq!(missing.stdout, b"");
    // JSON Lines carry the same.
    let lines = island
        .holm(&["exec", "x", "--json", "--", "sh", "-c", "echo a; exit 42"])
        .exits(42);
    assert_eq!(lines.out(), "{\"stdout\":\"a\\n\"}\n{\"exit_code\":42}");
}

#[test]
fn directory_variables_and_time_limit() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("deep/er/file", "x");
    repository.commit("deep");
    repository.up("x");
    let root = repository.path.display().to_string();
    let at = |cwd: &str| island.holm(&["exec", "x", "--cwd", cwd, "--", "pwd"]);
    assert_eq!(at("deep/er").ok().out(), format!("{root}/deep/er"));
    assert_eq!(at("/usr").ok().out(), "/usr");
    assert_eq!(at(".").ok().out(), root);
    let missing = at("nowhere");
    assert!(missing.stderr.contains("nowhere"), "{missing:?}");
    assert_eq!(missing.code, Some(126));

    let script = "printf '%s|' \"$A\" \"$B\" \"$PATH\"";
    let mut command = vec!["exec", "x", "--env", "A=b=c d", "--env", "B=", "--env"];
    command.extend(["PATH=/usr/bin", "--", "/bin/sh", "-c", script]);
    assert_eq!(island.holm(&command).ok().out(), "b=c d||/usr/bin|");
    let typed = island.holm(&["exec", "x", "--env", "A", "--json", "--", "true"]);
    assert_eq!(typed.error(2)["code"], "usage");

    let late = "trap 'echo term; exit 3' TERM; echo on; while :; do sleep 0.05; done";
    let timeout = |limit: &str, script: &str| {
        island.holm(&["exec", "x", "--timeout", limit, "--", "sh", "-c", script])
    };
    // Long enough for a shell to begin on a machine that has much to do.
    assert_eq!(timeout("3s", late).exits(124).out(), "on\nterm");
    timeout("300ms", "trap '' TERM; while :; do sleep 0.05; done").exits(124);
    timeout("60s", "exit 5").exits(5);
    island
        .holm(&["exec", "x", "--timeout", "soon", "--", "true"])
        .exits(2);
}

#[test]
fn a_stopped_workspace_is_started_unless_that_is_forbidden() {
    let island = Island::new();
    island.repository("shop").up("x");
    island.holm(&["stop", "x"]).ok();
    let refused = island
        .holm(&["exec", "x", "--no-start", "--json", "--", "true"])
        .error(4);
    assert_eq!(refused["code"], "not_running");
    let state = || island.holm(&["show", "x", "--json"]).json()["state"].clone();
    assert_eq!(state(), "stopped");
    island.sh("x", "exit 9").exits(9);
    assert_eq!(state(), "running");
    island.holm(&["exec", "x", "--no-start", "--", "true"]).ok();
}

#[test]
fn signals_reach_the_command() {
    let island = Island::new();
    island.repository("shop").up("x");
    let start = |script: &str| {
        let arguments = ["exec", "x", "--", "sh", "-c", script];
        let mut running = Running::new(&mut island.holm_command(&island.home(), &arguments));
        running.says("ready");
        running
    };
    for (signal, code) in [
        (Signal::TERM, 143),
        (Signal::INT, 130),
        (Signal::HUP, 129),
        (Signal::QUIT, 131),
    ] {
        let mut plain = start("echo ready; exec sleep 1000");
        plain.signal(signal);
        assert_eq!(plain.code(), Some(code), "{signal:?}");
    }
    // A command that has its own answer to the signal keeps it.
    let mut handled =
        start("trap 'echo got; exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    handled.signal(Signal::TERM);
    handled.says("got");
    assert_eq!(handled.code(), Some(7));
    // The children of the command get it too, as from a terminal.
    let mut family = start(
        "trap 'wait; exit 8' TERM
         (trap 'echo told > ~/child; exit' TERM; echo ready; while :; do sleep 0.05; done) &
         wait; wait",
    );
    family.signal(Signal::TERM);
    assert_eq!(family.code(), Some(8));
    assert_eq!(island.sh("x", "cat ~/child").ok().out(), "told");
}

#[test]
fn what_is_left_in_the_background_lives_until_stop() {
    let island = Island::new();
    island.repository("shop").up("x");
    // It neither holds up the command nor dies with it, and its open stdout is not waited for.
    island.sh("x", "sleep 1000 & echo $! > ~/first").ok();
    island
        .sh("x", "nohup sleep 1000 >/dev/null 2>&1 & echo $! > ~/second")
        .ok();
    let alive = "for pid in $(cat ~/first ~/second); do kill -0 $pid || exit 1; done";
    island.sh("x", alive).ok();
    island.holm(&["daemon", "stop"]).ok();
    island.sh("x", alive).ok();
    island.holm(&["restart", "x"]).ok();
    island.sh("x", "pgrep sleep").exits(1);
}

#[test]
fn a_killed_client_hangs_up_its_command() {
    let island = Island::new();
    island.repository("shop").up("x");
    let script = "trap 'echo hangup > ~/how; exit' HUP; echo ready; while :; do sleep 0.05; done";
    let arguments = ["exec", "x", "--", "sh", "-c", script];
    let mut client = Running::new(&mut island.holm_command(&island.home(), &arguments));
    client.says("ready");
    client.signal(Signal::KILL);
    assert_eq!(client.code(), None);
    eventually("the command is told", || {
        island.sh("x", "cat ~/how").out() == "hangup"
    });
    // A reader that goes away ends the client, and with it the command.
    let arguments = ["exec", "x", "--", "yes"];
    let mut command = island.holm_command(&island.home(), &arguments);
    let mut yes = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(yes.stdout.take());
    assert_eq!(yes.wait().unwrap().code(), Some(141));
    eventually("yes is gone", || {
        island.sh("x", "pgrep -x yes").code == Some(1)
    });
}

#[test]
fn a_killed_daemon_takes_no_command_with_it() {
    let island = Island::new();
    island.repository("shop").up("x");
    let script = "trap 'echo hangup > ~/how' HUP; echo ready; \
                  while [ ! -e ~/go ]; do sleep 0.05; done; echo done > ~/result";
    let arguments = ["exec", "x", "--", "sh", "-c", script];
    let mut command = island.holm_command(&island.home(), &arguments);
    let mut client = Running::new(command.stderr(Stdio::null()));
    client.says("ready");
    send(island.daemon_pid(), Signal::KILL);
    // The next command finds a daemon, which finds the workspace.
    island
        .holm(&["exec", "x", "--no-start", "--", "touch", ".go"])
        .ok();
    island.sh("x", "touch ~/go").ok();
    eventually("the command goes on", || {
        island.sh("x", "cat ~/result").out() == "done"
    });
    assert_eq!(client.code(), Some(0), "its client went on, too");
    island.sh("x", "test ! -e ~/how").ok();
}

#[test]
fn arguments_of_any_number_and_any_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let island = Island::new();
    island.repository("shop").up("x");
    let many: Vec<String> = (0..10_000)
        .map(|number| format!("argument-{number}"))
        .collect();
    let mut arguments = vec![
        "exec",
        "x",
        "--",
        "sh",
        "-c",
        "echo $#; shift 9998; echo $1",
        "sh",
    ];
    arguments.extend(many.iter().map(String::as_str));
    assert_eq!(island.holm(&arguments).ok().out(), "10000\nargument-9998");
    let mut command = island.holm_command(&island.home(), &["exec", "x", "--env"]);
    command
        .arg(std::ffi::OsStr::from_bytes(b"V=\xfe"))
        .args(["--", "sh", "-c", "printf %s \"$1$V\"", "sh"])
        .arg(std::ffi::OsStr::from_bytes(b"\xff\n\x01"));
    assert_eq!(Ran::new(&mut command).ok().stdout, b"\xff\n\x01\xfe");
}
