//! Commands whose daemon dies while they run: the client continues through the next daemon, with
//! every byte once, and with the command's own exit code (attack 149).

use crate::support::{Act, Island, Ran, Running, eventually, noise, play, send, state_of};
use rustix::process::Signal;
use std::fs;
use std::process::Stdio;

/// Waits for a file in the workspace's home, says something and ends with 7.
const WAITS: &str = "echo begun; until [ -e ~/go ]; do sleep 0.02; done; echo done; exit 7";

fn exec<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["exec", "x", "--"][..], arguments].concat()
}

#[test]
fn attack_149_the_client_hears_the_end_through_the_next_daemon() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let init = island.init_of(&id);
    let mut running =
        Running::new(&mut island.holm_command(&island.home(), &exec(&["sh", "-c", WAITS])));
    running.says("begun");
    // As often as it likes, and without another command that would start one.
    for _ in 0..3 {
        let daemon = island.daemon_of_the_lock().expect("a daemon");
        island.kill_daemon();
        eventually("the client has started another one", || {
            island.daemon_of_the_lock().is_some_and(|pid| pid != daemon)
        });
    }
    island.sh("x", "touch ~/go").ok();
    running.says("done");
    assert_eq!(running.code(), Some(7));
    assert_eq!(island.init_of(&id), init, "no second init");
    // As JSON Lines.
    island.sh("x", "rm ~/go").ok();
    let arguments = ["exec", "--json", "x", "--", "sh", "-c", WAITS];
    let mut running = Running::new(&mut island.holm_command(&island.home(), &arguments));
    running.says("{\"stdout\":\"begun\\n\"}");
    island.kill_daemon();
    island.sh("x", "touch ~/go").ok();
    running.says("{\"stdout\":\"done\\n\"}");
    running.says("{\"exit_code\":7}");
    assert_eq!(running.code(), Some(7));
}

#[test]
fn attack_149_what_ended_while_nobody_was_there_is_known() {
    let island = Island::new();
    island.repository("shop").up("x");
    let script = "echo begun; until [ -e ~/go ]; do sleep 0.02; done; \
                  seq 20000; echo oh >&2; echo $$ > ~/ended; exit 7";
    let mut command = island.holm_command(&island.home(), &exec(&["sh", "-c", script]));
    let said = island.write("said", b"");
    let stderr = fs::File::options().append(true).open(&said).unwrap();
    let mut running = Running::new(command.stderr(stderr));
    running.says("begun");
    // The client sleeps while its daemon dies and its command ends.
    running.signal(Signal::STOP);
    eventually("it stands still", || state_of(running.pid()) == "T");
    island.kill_daemon();
    let alone = island.sh("x", "touch ~/go; until [ -e ~/ended ]; do sleep 0.02; done");
    alone.ok();
    island
        .sh(
            "x",
            "while kill -0 $(cat ~/ended) 2>/dev/null; do sleep 0.02; done",
        )
        .ok();
    // The one that was just started dies, too.
    island.kill_daemon();
    running.signal(Signal::CONT);
    for number in 1..=20_000 {
        running.says(&number.to_string());
    }
    assert_eq!(running.code(), Some(7));
    assert_eq!(fs::read_to_string(said).unwrap(), "oh\n");
    // Nothing is kept for clients that have received everything.
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["state"], "running", "{shown}");
    island.holm(&["stop", "x"]).ok();
}

#[test]
fn attack_149_no_byte_is_lost_or_doubled_in_either_direction() {
    let island = Island::new();
    island.repository("shop").up("x");
    // Slow enough to be cut several times, and both outputs at once.
    let script = "tee ~/arrived | while head -c 65536 > ~/piece && [ -s ~/piece ]; do \
                  cat ~/piece; echo . >&2; sleep 0.01; done; exit 9";
    let bytes = noise(6_000_011);
    let input = island.write("input", &bytes);
    let mut command = island.holm_command(&island.home(), &exec(&["sh", "-c", script]));
    command.stdin(fs::File::open(input).unwrap());
    let cut = std::sync::atomic::AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut deaths = 0;
            while !cut.load(std::sync::atomic::Ordering::SeqCst) && deaths < 12 {
                let arrived = || island.data().join("workspaces");
                let before = size_below(&arrived());
                eventually("a piece more has passed", || {
                    size_below(&arrived()) > before + 200_000
                        || cut.load(std::sync::atomic::Ordering::SeqCst)
                });
                island.kill_daemon();
                deaths += 1;
            }
        });
        let ran = Ran::new(&mut command);
        cut.store(true, std::sync::atomic::Ordering::SeqCst);
        ran
    });
    assert_eq!(ran.code, Some(9), "{}", ran.stderr);
    assert!(
        ran.stdout == bytes,
        "{} of {}",
        ran.stdout.len(),
        bytes.len()
    );
    assert_eq!(
        ran.stderr.lines().filter(|line| *line == ".").count(),
        ran.stderr.lines().count()
    );
    // Again with much more output than is buffered for reconnecting clients.
    let script = "seq 1000000; exit 3";
    let mut running =
        Running::new(&mut island.holm_command(&island.home(), &exec(&["sh", "-c", script])));
    for number in 1..=1_000_000 {
        running.says(&number.to_string());
        if number % 150_000 == 1 {
            island.kill_daemon();
        }
    }
    assert_eq!((running.line(), running.code()), (String::new(), Some(3)));
}

/// How large the file is that the command writes its input to.
fn size_below(workspaces: &std::path::Path) -> u64 {
    let all = fs::read_dir(workspaces).into_iter().flatten().flatten();
    let sizes = all.map(|one| fs::metadata(one.path().join("home/arrived")).map_or(0, |m| m.len()));
    sizes.sum()
}

#[test]
fn attack_149_a_terminal_goes_on_with_the_next_daemon() {
    let island = Island::new();
    island.repository("shop").up("x");
    let command = island.holm_command(&island.home(), &["enter", "x"]);
    let played = std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_ready = || island.sh("x", "test -e ~/ready").code == Some(0);
            eventually("the shell is there", is_ready);
            island.kill_daemon();
            island.sh("x", "touch ~/killed").ok();
        });
        let acts = [
            Act::Type("touch ~/ready; until [ -e ~/killed ]; do sleep 0.02; done; echo ba''ck\r"),
            Act::See("back"),
            Act::Resize(30, 100),
            Act::Type("until stty size | grep '30 100'; do sleep 0.02; done; exit 6\r"),
        ];
        play(&command, &acts)
    });
    assert_eq!(played.code, 6, "{}", played.screen);
    assert!(played.is_restored);
}

#[test]
fn attack_149_signals_reach_the_command_through_the_next_daemon() {
    let island = Island::new();
    island.repository("shop").up("x");
    let script = "trap 'echo told; exit 8' TERM; echo begun; while :; do sleep 0.02; done";
    let mut running =
        Running::new(&mut island.holm_command(&island.home(), &exec(&["sh", "-c", script])));
    running.says("begun");
    let daemon = island.daemon_of_the_lock();
    island.kill_daemon();
    eventually("there is another one", || {
        island
            .daemon_of_the_lock()
            .is_some_and(|pid| Some(pid) != daemon)
    });
    running.signal(Signal::TERM);
    running.says("told");
    assert_eq!(running.code(), Some(8));
}

#[test]
fn attack_149_whoever_lost_daemon_and_workspace_is_told_so() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let start = || {
        let mut command = island.holm_command(&island.home(), &exec(&["sh", "-c", WAITS]));
        let mut running = Running::new(command.stderr(Stdio::null()));
        running.says("begun");
        running
    };
    // The workspace dies with the daemon.
    let mut running = start();
    running.signal(Signal::STOP);
    island.kill_daemon();
    send(island.keeper_of(&id).expect("a keeper"), Signal::KILL);
    running.signal(Signal::CONT);
    assert_eq!(running.code(), Some(5));
    // The client dies with the daemon: the command continues, and does not delay a stop.
    island.holm(&["start", "x"]).ok();
    let mut running = start();
    running.signal(Signal::STOP);
    island.kill_daemon();
    running.signal(Signal::KILL);
    running.code();
    island.sh("x", "pgrep -f 'until .* ~/go'").ok();
    let earlier = island.inhabitants();
    island.holm(&["stop", "x"]).ok();
    eventually("all of it is gone", || {
        earlier.iter().all(|one| crate::support::is_gone(*one))
    });
}

/// Starts a command, stops its daemon by `stop`, and waits until the client has said that it waits.
fn stopped_under_a_command(island: &Island, stop: impl Fn()) -> (Running, std::path::PathBuf) {
    let said = island.write("said", b"");
    let stderr = fs::File::options().append(true).open(&said).unwrap();
    let mut command = island.holm_command(&island.home(), &exec(&["sh", "-c", WAITS]));
    let mut running = Running::new(command.stderr(stderr));
    running.says("begun");
    stop();
    eventually("the client has noticed", || {
        let text = fs::read_to_string(&said).unwrap();
        text.contains("holm daemon start")
    });
    // It may still be ending; no client starts another one.
    eventually("there is none", || island.daemon_of_the_lock().is_none());
    island.holm(&["daemon", "status"]).exits(5);
    (running, said)
}

#[test]
fn a_daemon_that_was_stopped_is_not_brought_back_by_a_command_under_way() {
    let island = Island::new();
    island.repository("shop").up("x");
    let by_name = || {
        island.holm(&["daemon", "stop"]).ok();
    };
    // As systemd does it.
    let by_signal = || {
        let daemon = island.daemon_of_the_lock().expect("a daemon");
        send(daemon, Signal::TERM);
    };
    for stop in [&by_name as &dyn Fn(), &by_signal] {
        let (mut running, _) = stopped_under_a_command(&island, stop);
        // The client finds the next daemon that is started, and nothing was lost.
        island.holm(&["daemon", "start"]).ok();
        island.sh("x", "touch ~/go").ok();
        running.says("done");
        assert_eq!(running.code(), Some(7));
        island.sh("x", "rm ~/go").ok();
    }
    // A client that gives up ends; the command is not affected.
    let (mut running, _) = stopped_under_a_command(&island, by_name);
    running.signal(Signal::INT);
    assert_eq!(running.code(), Some(130));
    assert_eq!(island.daemon_of_the_lock(), None);
    island.sh("x", "pgrep -f 'until .* ~/go'").ok();
    // A daemon that was killed after another was stopped is brought back all the same.
    let script = exec(&["sh", "-c", WAITS]);
    let mut running = Running::new(&mut island.holm_command(&island.home(), &script));
    running.says("begun");
    let daemon = island.daemon_of_the_lock();
    island.kill_daemon();
    eventually("the client has started another one", || {
        let found = island.daemon_of_the_lock();
        found.is_some() && found != daemon
    });
    island.sh("x", "touch ~/go").ok();
    running.says("done");
    assert_eq!(running.code(), Some(7));
}

#[test]
fn whoever_waited_for_a_daemon_in_vain_is_told_so() {
    let island = Island::new();
    island.repository("shop").up("x");
    let (mut running, said) = stopped_under_a_command(&island, || {
        island.holm(&["daemon", "stop"]).ok();
    });
    assert_eq!(running.code(), Some(5));
    let text = fs::read_to_string(said).unwrap();
    assert!(text.contains("stopped while the command ran"), "{text}");
    assert_eq!(island.daemon_of_the_lock(), None);
    island.sh("x", "pgrep -f 'until .* ~/go'").ok();
}
