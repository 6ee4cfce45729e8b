//! Keepers and inits that are killed or stopped, a machine that was rebooted, a daemon that is
//! replaced, a damaged store: the shown state is true, and nothing stays behind or is lost.

use crate::secrets::{piped, set};
use crate::support::{
    Island, Process, Ran, Running, eventually, is_gone, noise, program, send, state_of,
};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

const NEEDS_A_SECRET: &str = "[secrets.STORED]\nfrom = { stored = true }\nto = [\"app\"]\n\
    [services.app]\nrun = \"test -n \\\"$STORED\\\" && exec sleep 1000\"\n";

fn show(island: &Island, label: &str) -> Value {
    island.holm(&["show", label, "--json"]).json()
}

/// A workspace with work in it and a process in the background.
fn at_work(island: &Island) -> String {
    let id = island.repository("shop").up("x");
    island
        .sh("x", "echo work > file; echo more > ~/note; sleep 1000 &")
        .ok();
    id
}

#[track_caller]
fn work_is_there(island: &Island) {
    let read = island.sh("x", "cat README.md file ~/note").ok();
    assert_eq!(read.out(), "# hello\nwork\nmore");
}

#[track_caller]
fn all_gone(processes: &[Process]) {
    eventually("nothing of it lives", || {
        processes.iter().all(|one| is_gone(*one))
    });
}

/// Stops a process, and waits until it is stopped.
fn halt(pid: i32) {
    send(pid, Signal::STOP);
    eventually("it stands still", || state_of(pid) == "T");
}

#[test]
fn attack_160_a_killed_keeper_or_init_is_noticed_and_replaced() {
    // The daemon would start it again within a second, and a busy machine might not see it failed.
    let island = Island::without("revival");
    let id = at_work(&island);
    for (whom, reason) in [
        ("keeper", "keeper was killed"),
        ("init", "init was killed by signal 9"),
    ] {
        for verb in ["start", "restart", "stop"] {
            let earlier = island.inhabitants();
            assert!(earlier.len() >= 3, "keeper, init, sleep: {earlier:?}");
            let victim = match whom {
                "keeper" => island.keeper_of(&id),
                _ => island.init_of(&id),
            };
            send(victim.expect("a process"), Signal::KILL);
            // The kernel may need a moment to have ended it.
            let mut shown = Value::Null;
            eventually("it is shown as failed", || {
                shown = show(&island, "x");
                shown["state"] == "failed"
            });
            assert!(
                shown["reason"].as_str().unwrap().contains(reason),
                "{shown}"
            );
            island.holm(&[verb, "x"]).ok();
            all_gone(&earlier);
            let state = if verb == "stop" { "stopped" } else { "running" };
            assert_eq!(show(&island, "x")["state"], state);
            work_is_there(&island);
            island.sh("x", "sleep 1000 &").ok();
        }
    }
    // What a keeper said last is kept over its successors, line by line.
    let log = island
        .data()
        .join("workspaces")
        .join(&id)
        .join("keeper.log");
    let log = fs::read_to_string(log).unwrap();
    let told = log
        .lines()
        .filter(|line| *line == "ended: init was killed by signal 9");
    assert_eq!(told.count(), 3, "{log}");
}

#[test]
fn a_number_that_a_killed_process_left_in_a_file_names_nobody_later() {
    let island = Island::without("revival");
    let id = at_work(&island);
    let some = |count: u32| format!("for n in $(seq {count}); do sleep 1000 & echo $!; done");
    let earlier = island.sh("x", &some(3)).ok().out();
    send(island.keeper_of(&id).expect("a keeper"), Signal::KILL);
    eventually("it is noticed", || show(&island, "x")["state"] == "failed");
    island.holm(&["start", "x"]).ok();
    let later = island.sh("x", &some(12)).ok().out();
    assert_eq!((earlier.lines().count(), later.lines().count()), (3, 12));
    let alive = format!(
        "for n in {}; do kill -0 $n 2>/dev/null && echo $n; done; true",
        earlier.replace('\n', " ")
    );
    assert_eq!(island.sh("x", &alive).ok().out(), "");
}

#[test]
fn attack_160_what_stands_still_is_said_and_stopped_in_time() {
    let island = Island::new();
    let id = at_work(&island);
    for whom in ["keeper", "init"] {
        for verb in ["stop", "start", "restart"] {
            let earlier = island.inhabitants();
            let victim = match whom {
                "keeper" => island.keeper_of(&id),
                _ => island.init_of(&id),
            };
            halt(victim.expect("a process"));
            let begun = Instant::now();
            let shown = show(&island, "x");
            assert_eq!(shown["state"], "failed", "{shown}");
            let reason = shown["reason"].as_str().unwrap();
            assert!(reason.contains(&format!("{whom} is stopped")), "{reason}");
            island.holm(&[verb, "x"]).ok();
            // Not how fast it is, but that nothing is waited for without an end.
            let taken = begun.elapsed();
            assert!(taken < Duration::from_secs(60), "{taken:?}");
            all_gone(&earlier);
            work_is_there(&island);
            island.sh("x", "sleep 1000 &").ok();
        }
    }
    // Continued in time nothing has happened.
    let keeper = island.keeper_of(&id).expect("a keeper");
    halt(keeper);
    assert_eq!(show(&island, "x")["state"], "failed");
    send(keeper, Signal::CONT);
    eventually("it runs", || show(&island, "x")["state"] == "running");
    assert_eq!(island.keeper_of(&id), Some(keeper));
}

#[test]
fn many_that_stand_still_do_not_hold_up_the_list() {
    let island = Island::new();
    let repository = island.repository("shop");
    let ids: Vec<_> = (0..16)
        .map(|number| repository.up(&format!("w{number}")))
        .collect();
    let stopped: Vec<_> = ids
        .iter()
        .step_by(2)
        .map(|id| island.keeper_of(id).unwrap())
        .collect();
    for keeper in &stopped {
        halt(*keeper);
    }
    let begun = Instant::now();
    let states = island.states();
    let taken = begun.elapsed();
    assert_eq!(
        states.values().filter(|state| *state == "failed").count(),
        8
    );
    assert_eq!(
        states.values().filter(|state| *state == "running").count(),
        8
    );
    // With the patience for each, one after the other, it would take twice as long.
    assert!(taken < Duration::from_secs(8), "{taken:?}");
    for keeper in stopped {
        send(keeper, Signal::CONT);
    }
}

#[test]
fn what_was_running_comes_back_after_a_reboot_and_what_was_killed_is_started_again() {
    let island = Island::new();
    let id = at_work(&island);
    let stopped = island.repository("other").up("y");
    island.holm(&["stop", "y"]).ok();
    // Killed: it is started again, without a command; `resume` is about reboots only.
    island.make_dir("holm/config");
    let settings = island.write("holm/config/config.toml", "[daemon]\nresume = false\n");
    send(island.keeper_of(&id).expect("a keeper"), Signal::KILL);
    eventually("it runs again", || {
        show(&island, "x")["state"] == "running" && island.keeper_of(&id).is_some()
    });
    work_is_there(&island);
    fs::remove_file(settings).unwrap();
    // The next daemon finds a reboot.
    island.kill_daemon();
    let everything = island.inhabitants();
    send(island.keeper_of(&id).expect("a keeper"), Signal::KILL);
    all_gone(&everything);
    forge(&island, &id, |last| {
        last["boot_id"] = "11111111-2222-4333-8444-555555555555".into();
    });
    island.holm(&["daemon", "start"]).ok();
    eventually("it came back", || show(&island, "x")["state"] == "running");
    work_is_there(&island);
    assert_eq!(show(&island, "y")["state"], "stopped", "stopped by hand");
    assert_eq!(island.keeper_of(&stopped), None);
}

#[test]
fn a_workspace_that_keeps_dying_is_started_five_times_and_has_failed_then() {
    let island = Island::without("revival_pause");
    let id = at_work(&island);
    let kill = || {
        let keeper = island.keeper_of(&id).expect("a keeper");
        send(keeper, Signal::KILL);
        keeper
    };
    for _ in 0..5 {
        let earlier = kill();
        eventually("it runs again", || {
            let keeper = island.keeper_of(&id);
            keeper.is_some_and(|keeper| keeper != earlier)
                && show(&island, "x")["state"] == "running"
        });
    }
    kill();
    let note = "it was started again 5 times, and died each time";
    eventually("the daemon gives up", || {
        show(&island, "x")["notes"].to_string().contains(note)
    });
    let shown = show(&island, "x");
    assert_eq!(shown["state"], "failed", "{shown}");
    assert!(shown["reason"].is_string(), "{shown}");
    assert!(island.holm(&["show", "x"]).ok().out().contains(note));
    assert_eq!(island.keeper_of(&id), None);
    // The user may start it all the same.
    island.holm(&["start", "x"]).ok();
    work_is_there(&island);
    a_start_that_fails_is_tried_again(&island, &id);
}

fn a_start_that_fails_is_tried_again(island: &Island, id: &str) {
    island.kill_daemon();
    send(island.keeper_of(id).expect("a keeper"), Signal::KILL);
    // The first start of the next daemon fails.
    let at = "launch:before:fail";
    island
        .holm_at(&island.home(), at, &["daemon", "start"])
        .ok();
    eventually("it runs again", || show(island, "x")["state"] == "running");
    work_is_there(island);
}

#[test]
fn with_locked_secrets_a_workspace_waits_and_holds_up_no_other() {
    let island = Island::without("revival_pause");
    let repository = island.repository_of("shop", &[("holm.toml", NEEDS_A_SECRET)]);
    repository.holm(&["trust", "--yes"]).ok();
    set(&repository, "STORED", "a value");
    let rotate = ["secret", "rotate-key", "--passphrase"];
    piped(&repository, &rotate, "open sesame\n").ok();
    // More than are started at the same time.
    let labels = ["x-1", "x-2", "x-3", "x-4", "x-5"];
    repository.holm(&["up", "-n", "5", "x"]).ok();
    let plain = island.repository("other").up("plain");
    let keepers = labels.map(|label| {
        let id = show(&island, label)["id"].as_str().unwrap().to_owned();
        island.keeper_of(&id).expect("a keeper")
    });
    island.kill_daemon();
    for keeper in keepers {
        send(keeper, Signal::KILL);
    }
    island.holm(&["daemon", "start"]).ok();
    for label in labels {
        eventually(&format!("{label} waits, and says so"), || {
            let notes = show(&island, label)["notes"].to_string();
            notes.contains("`holm secret unlock`")
        });
    }
    let earlier = island.keeper_of(&plain).expect("a keeper");
    send(earlier, Signal::KILL);
    eventually("the workspace without secrets runs again", || {
        let keeper = island.keeper_of(&plain);
        keeper.is_some_and(|keeper| keeper != earlier)
            && show(&island, "plain")["state"] == "running"
    });
    assert_ne!(show(&island, "x-5")["state"], "running");
    piped(&repository, &["secret", "unlock"], "open sesame\n").ok();
    for label in labels {
        eventually("it runs again", || {
            show(&island, label)["state"] == "running"
        });
    }
    assert_eq!(show(&island, "x-5")["notes"], Value::Null);
}

/// Changes what the last run wrote down.
fn forge(island: &Island, id: &str, change: impl FnOnce(&mut Value)) {
    let path = island.data().join("workspaces").join(id).join("last.json");
    let mut last: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut last);
    fs::write(path, last.to_string()).unwrap();
}

#[test]
fn attack_156_after_a_reboot_nothing_is_signalled_and_start_brings_it_back() {
    let island = Island::new();
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "[daemon]\nresume = false\n");
    let id = at_work(&island);
    island.holm(&["stop", "x"]).ok();
    island.holm(&["start", "x"]).ok();
    island.kill_daemon();
    let everything = island.inhabitants();
    send(island.keeper_of(&id).expect("a keeper"), Signal::KILL);
    all_gone(&everything);
    // Another process has the pids now, even with the same start time, counted from boot.
    let mut decoy = Running::new(island.command("sleep", &island.home()).arg("1000"));
    let stat = fs::read_to_string(format!("/proc/{}/stat", decoy.pid())).unwrap();
    let fields: Vec<_> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let started: u64 = fields[19].parse().unwrap();
    forge(&island, &id, |last| {
        assert!(last["init"]["pid"].is_i64(), "{last}");
        last["boot_id"] = "11111111-2222-4333-8444-555555555555".into();
        last["init"] = serde_json::json!({"pid": decoy.pid(), "started": started});
    });
    let lock = island.data().join("lock");
    fs::write(&lock, format!("{}\n", decoy.pid())).unwrap();
    let shown = show(&island, "x");
    assert_eq!(
        (&shown["state"], &shown["reason"]),
        (&"stopped".into(), &"reboot".into())
    );
    island.holm(&["stop", "x"]).ok();
    island.holm(&["start", "x"]).ok();
    work_is_there(&island);
    assert!(!is_gone((decoy.pid(), started)), "the decoy lives");
    // The same within one boot: the number is right and the time is not.
    send(island.keeper_of(&id).expect("a keeper"), Signal::KILL);
    eventually("it has failed", || show(&island, "x")["state"] == "failed");
    forge(&island, &id, |last| {
        last["init"] = serde_json::json!({"pid": decoy.pid(), "started": started - 1});
    });
    for verb in ["stop", "start"] {
        island.holm(&[verb, "x"]).ok();
    }
    assert!(!is_gone((decoy.pid(), started)), "the decoy lives");
    work_is_there(&island);
    decoy.signal(Signal::KILL);
    decoy.code();
}

#[test]
fn attack_150_the_daemon_is_replaced_and_replaced_back() {
    let island = Island::new();
    let id = at_work(&island);
    let init = island.init_of(&id);
    // Another file with other content, as a new version is.
    let directory = island.make_dir("newer");
    let newer = directory.join("holm");
    fs::copy(program(), &newer).unwrap();
    let mut file = fs::File::options().append(true).open(&newer).unwrap();
    std::io::Write::write_all(&mut file, b"newer").unwrap();
    drop(file);
    for program in [newer.as_path(), program(), newer.as_path()] {
        island.kill_daemon();
        let holm =
            |arguments: &[&str]| Ran::new(island.command(program, &island.home()).args(arguments));
        holm(&["exec", "x", "--no-start", "--", "test", "-e", "file"]).ok();
        let pid = island.daemon_of_the_lock().expect("a daemon");
        assert_eq!(fs::read_link(format!("/proc/{pid}/exe")).unwrap(), program);
        assert_eq!(island.init_of(&id), init, "no second init");
        holm(&["rename", "x", "y"]).ok();
        holm(&["rename", "y", "x"]).ok();
    }
    island.holm(&["restart", "x"]).ok();
    work_is_there(&island);
    // A store of a later version is refused, and not touched.
    island.kill_daemon();
    let set = |version: &str| {
        let script = format!(
            "import sqlite3, sys; s = sqlite3.connect(sys.argv[1]); \
             print(s.execute('pragma user_version').fetchone()[0]); \
             s.execute('pragma user_version = {version}'); s.commit(); \
             s.execute('pragma wal_checkpoint(truncate)')"
        );
        let database = island.data().join("holm.db");
        let arguments = ["-c", &script, database.to_str().unwrap()];
        let ran = island.run(&island.home(), "/usr/bin/python3", &arguments);
        ran.ok().out()
    };
    let version = set("99");
    let everything = island.inhabitants();
    let bytes = fs::read(island.data().join("holm.db")).unwrap();
    let refused = island.holm(&["ls", "--json"]);
    assert!(refused.stderr.contains("newer_state"), "{refused:?}");
    assert_ne!(refused.code, Some(0));
    assert_eq!(fs::read(island.data().join("holm.db")).unwrap(), bytes);
    assert_eq!(island.inhabitants(), everything);
    set(&version);
    work_is_there(&island);
}

/// holm of a version that speaks another protocol with keepers.
fn speaking(island: &Island, version: &str, arguments: &[&str]) -> Ran {
    let mut command = island.holm_command(&island.home().join("src/shop"), arguments);
    Ran::new(command.env("HOLM_TEST_WIRE", version))
}

#[test]
fn attack_150_another_protocol_old_new_old_with_workspaces_running() {
    let island = Island::new();
    let old = at_work(&island);
    let (mut inits, mut ids) = (vec![island.init_of(&old)], vec![old]);
    for (version, label) in [("2", "newer"), ("0", "older")] {
        island.kill_daemon();
        let holm = |arguments: &[&str]| speaking(&island, version, arguments);
        // Workspaces of another version are shown and run on.
        let shown = holm(&["show", "x", "--json"]).json();
        assert_eq!(shown["state"], "running", "{shown}");
        let refused = holm(&["exec", "x", "--json", "--", "true"]).error(1);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("another version of holm"), "{refused}");
        assert!(refused["hint"].as_str().unwrap().contains("holm restart"));
        holm(&["rename", "x", "y"]).ok();
        holm(&["rename", "y", "x"]).ok();
        // Its own go as ever.
        let made = holm(&["up", label, "--json"]).json();
        holm(&[
            "exec",
            label,
            "--",
            "sh",
            "-c",
            "echo work > file; sleep 1000 &",
        ])
        .ok();
        ids.push(made["id"].as_str().unwrap().to_owned());
        inits.push(island.init_of(ids.last().unwrap()));
    }
    // Back to the first one: nothing was ended, and a restart makes it our own, with its work.
    island.kill_daemon();
    work_is_there(&island);
    let states = island.states();
    assert_eq!(states.len(), 3);
    assert!(
        states.values().all(|state| state == "running"),
        "{states:?}"
    );
    let now: Vec<_> = ids.iter().map(|id| island.init_of(id)).collect();
    assert_eq!(now, inits, "no second init");
    island.sh("older", "true").exits(1);
    for (label, verb) in [("newer", "restart"), ("older", "stop")] {
        island.holm(&[verb, label]).ok();
        assert_eq!(island.sh(label, "cat file").ok().out(), "work");
        island.holm(&["rm", label, "--force"]).ok();
    }
}

#[test]
fn attack_152_a_damaged_store_loses_no_files_and_ends_no_process() {
    let island = Island::new();
    let id = at_work(&island);
    let tree = island.data().join("workspaces").join(&id);
    let wal = island.data().join("holm.db-wal");
    let everything = island.inhabitants();
    // Everything that was acknowledged is in the file proper when a daemon ends in peace.
    island.holm(&["daemon", "stop"]).ok();
    island.holm(&["daemon", "start"]).ok();
    for seed in 0..4_u64 {
        // Not acknowledged by anything that must stay: only a time of use is in the log.
        island.holm(&["exec", "x", "--", "true"]).ok();
        island.kill_daemon();
        let Ok(mut bytes) = fs::read(&wal) else {
            panic!("no log to damage");
        };
        if seed % 2 == 0 {
            bytes.truncate(bytes.len() * (seed as usize + 1) / 5);
        } else {
            let half = bytes.len() / 2;
            bytes[half..].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        fs::write(&wal, bytes).unwrap();
        assert_eq!(show(&island, "x")["state"], "running");
        work_is_there(&island);
        assert!(tree.exists());
        assert!(everything.iter().all(|one| !is_gone(*one)));
    }
    // A file that cannot be written: said, and nothing changed.
    island.kill_daemon();
    let database = island.data().join("holm.db");
    let writable = fs::metadata(&database).unwrap().permissions();
    let mut readonly = writable.clone();
    readonly.set_readonly(true);
    fs::set_permissions(&database, readonly).unwrap();
    let refused = island.holm(&["ls", "--json"]);
    assert!(refused.stderr.contains("read_only"), "{refused:?}");
    fs::set_permissions(&database, writable).unwrap();
    work_is_there(&island);
    assert!(everything.iter().all(|one| !is_gone(*one)));
}

#[test]
fn attack_152_and_158_a_full_disk_is_said_and_nothing_is_left() {
    let island = Island::new();
    let repository = island.repository("shop");
    for number in 0..40 {
        repository.write(&format!("large/{number}"), noise(100_000));
    }
    repository.commit("several megabytes");
    // The disk is as large as the program, which is kept beside the data, and a little more.
    let size = fs::metadata(program()).unwrap().len() / 1024 + 40 * 1024;
    // Full at once, or somewhere on the way: each time another write is the first that fails. Each
    // time another commit, so that the whole tree has to be written.
    let script = format!(
        r#"mkdir -p "$HOLM_HOME" && mount -t tmpfs -o size={size}k none "$HOLM_HOME" || exit 99
        holm up a >/dev/null || exit 98
        holm exec a -- sh -c 'echo work > file' || exit 97
        for room in 0 4 8 12 16 24 32 64; do
            git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m $room
            head -c 1000000000 /dev/zero > "$HOLM_HOME/fill" 2>/dev/null
            truncate -s "-${{room}}K" "$HOLM_HOME/fill"
            holm up b --json >/dev/null; echo "up $?" >&2
            ls "$HOLM_HOME/data/workspaces" | wc -l
            rm "$HOLM_HOME/fill"
            holm ls --json | grep -c '"label"'
        done
        holm exec a -- cat file
        holm up b >/dev/null && holm exec b -- cat README.md
        holm daemon stop --all >/dev/null"#
    );
    let ran = island.elsewhere(&repository.path, &script).ok();
    let expect = format!("{}work\n# hello", "1\n1\n".repeat(8));
    assert_eq!(ran.out(), expect, "{ran:?}");
    assert!(!ran.stderr.contains("up 0"), "{ran:?}");
    // Of a ref git says only that it could not be written.
    let told = |line: &&str| line.contains("disk_full") || line.contains("couldn't write");
    assert_eq!(ran.stderr.lines().filter(told).count(), 8, "{ran:?}");
    assert!(ran.stderr.matches("disk_full").count() > 5, "{ran:?}");
}
