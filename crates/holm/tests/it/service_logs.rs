//! Logs of services: complete, in order, bounded for any output, and readable when nothing runs
//! (attacks 139, 143, 145, 164).

use crate::services::{service, with_services};
use crate::support::{Island, Running, eventually, program, times};
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;

/// The lines of `holm logs --json`.
#[track_caller]
fn lines(island: &Island, more: &[&str]) -> Vec<Value> {
    let out = island
        .holm(&[&["logs", "x", "--json"], more].concat())
        .ok()
        .out();
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn texts(lines: &[Value]) -> Vec<String> {
    lines
        .iter()
        .map(|line| line["text"].as_str().unwrap().to_owned())
        .collect()
}

fn logs(island: &Island, id: &str) -> PathBuf {
    island.data().join("workspaces").join(id).join("logs")
}

fn size(logs: &PathBuf) -> u64 {
    let entries = std::fs::read_dir(logs).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum()
}

/// The most memory that a process ever had, in KiB.
fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn lines_of_several_services_by_time_with_their_streams() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.one]\nrun = \"printf 'a\\\\nhalf'; printf 'e\\\\n' >&2; until test -e ~/go; do sleep 0.01; done; printf ' whole\\\\nno end'; sleep 1000\"\n\
         [services.two]\nrun = \"until test -e ~/said; do sleep 0.01; done; printf '\\\\033[31m\\\\377\\\\n'; sleep 1000\"\n",
    );
    let made = repository.holm(&["up", "x", "--json"]).json();
    // Between two streams there is no order but that of reading them.
    eventually("it is half said", || lines(&island, &[]).len() == 2);
    island.sh("x", "touch ~/go").ok();
    eventually("the line is whole", || lines(&island, &[]).len() == 3);
    island.sh("x", "touch ~/said").ok();
    eventually("all is said", || lines(&island, &[]).len() == 4);
    let found = lines(&island, &[]);
    let one: Vec<_> = found
        .iter()
        .filter(|line| line["service"] == "one")
        .cloned()
        .collect();
    assert_eq!(texts(&one), ["a", "e", "half whole"]);
    assert_eq!(one[1]["stream"], "stderr");
    assert_eq!(one[2]["stream"], "stdout");
    assert_eq!(found[3]["service"], "two", "merged by time");
    assert_eq!(found[3]["text"], "\u{1b}[31m\u{fffd}");
    let times: Vec<&str> = found
        .iter()
        .map(|line| line["time"].as_str().unwrap())
        .collect();
    assert!(times.is_sorted() && times[0].ends_with('Z'), "{times:?}");
    let raw = std::fs::read(logs(&island, made["id"].as_str().unwrap()).join("two.log")).unwrap();
    assert!(raw.ends_with(b"o \x1b[31m\xff\n"), "as it came");
    assert_eq!(texts(&lines(&island, &["-n", "1", "one"])), ["half whole"]);
    // Of all services together, also when more follows.
    assert_eq!(lines(&island, &["-n", "1"]), found[3..]);
    assert_eq!(lines(&island, &["--tail", "2"]), found[2..]);
    let follow = ["logs", "x", "-f", "-n", "2", "--json"];
    let mut follow = Running::new(&mut island.holm_command(&island.home(), &follow));
    for line in &found[2..] {
        let read: Value = serde_json::from_str(&follow.line()).unwrap();
        assert_eq!(read, *line);
    }
    assert_eq!(lines(&island, &["--since", times[3]]).len(), 1);
    assert!(lines(&island, &["--since", "2200-01-01T00:00:00Z"]).is_empty());
    island.holm(&["logs", "x", "--since", "yesterday"]).exits(2);
    // An incomplete line is written when the service ends, and everything is readable when nothing
    // runs.
    island.holm(&["stop", "x"]).ok();
    assert_eq!(texts(&lines(&island, &["one"])).last().unwrap(), "no end");
    let next: Value = serde_json::from_str(&follow.line()).unwrap();
    assert_eq!(next["text"], "no end");
    let human = island.holm(&["logs", "x", "one"]).ok().out();
    assert!(
        human.lines().next().unwrap().ends_with("Z one  a"),
        "{human}"
    );
    assert!(human.contains(" one  e\n"), "{human}");
}

#[test]
fn following_goes_on_until_the_workspace_stops() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"echo first; until test -e ~/go; do sleep 0.01; done; echo second; sleep 1000\"\n",
    );
    repository.up("x");
    let mut follow =
        Running::new(&mut island.holm_command(&island.home(), &["logs", "x", "-f", "--json"]));
    let text = |line: &str| serde_json::from_str::<Value>(line).unwrap()["text"].clone();
    assert_eq!(text(&follow.line()), "first");
    // Daemons come and go, and nothing is lost or told twice.
    island.kill_daemon();
    island.sh("x", "touch ~/go").ok();
    assert_eq!(text(&follow.line()), "second");
    island.holm(&["stop", "x"]).ok();
    assert_eq!(follow.code(), Some(0));
}

#[test]
fn attack_164_the_last_lines_before_a_crash_are_kept_and_whole() {
    let island = Island::new();
    let script = "import os, sys\n\
        for i in range(20000):\n    os.write(1, b'out %d\\n' % i); os.write(2, b'err %d\\n' % i)\n\
        os.write(1, b'the very last'); os.kill(os.getpid(), 9)\n";
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"exec python3 crash.py\"\nrestart = \"no\"\n",
    );
    repository.write("crash.py", script);
    repository.commit("crash");
    repository.holm(&["up", "x", "--no-wait"]).ok();
    eventually("it ended", || {
        let shown = island.holm(&["show", "x", "--json"]).json();
        service(&shown, "web")["state"] == "exited"
    });
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(
        service(&shown, "web")["reason"],
        "exited with 137 (SIGKILL)"
    );
    let found = lines(&island, &[]);
    for stream in ["stdout", "stderr"] {
        let word = &stream[3..];
        let of: Vec<_> = found
            .iter()
            .filter(|line| line["stream"] == stream)
            .cloned()
            .collect();
        let expect = (0..20000)
            .map(|i| format!("{word} {i}"))
            .collect::<Vec<_>>();
        assert_eq!(texts(&of)[..20000], expect[..], "none is lost or mixed");
    }
    // holm adds how it ended, and nothing else.
    let end = ["the very last", "[exited with 137 (SIGKILL)]"];
    assert_eq!(texts(&found)[found.len() - 2..], end);
    assert_eq!(found[found.len() - 1]["stream"], "holm");
}

#[test]
fn attack_164_turning_files_under_load_loses_and_mixes_nothing() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"exec python3 load.py\"\nrestart = \"no\"\n",
    );
    // A pipe as large as they get, so that much is in it when the end comes.
    // In CI two files are turned, in `make soak` the oldest is deleted, too.
    let rounds = times(250, 600);
    let script = format!(
        "import fcntl, os\nfcntl.fcntl(1, 1031, 1 << 20)\nfor i in range({rounds}):\n    \
         os.write(1, b''.join(b'%d %d \\n' % (i, j) + b'x' * 1000 + b'\\n' for j in range(100)))\n\
         os.kill(os.getpid(), 9)\n"
    );
    repository.write("load.py", script);
    repository.commit("load");
    repository.holm(&["up", "x", "--no-wait"]).ok();
    eventually("it ended", || {
        let shown = island.holm(&["show", "x", "--json"]).json();
        service(&shown, "web")["state"] == "exited"
    });
    // All output is in the log when the exit is reported.
    let mut texts = texts(&lines(&island, &[]));
    // The only line of holm: no line was lost.
    assert_eq!(texts.pop().unwrap(), "[exited with 137 (SIGKILL)]");
    let numbers: Vec<&String> = texts.iter().filter(|text| !text.starts_with('x')).collect();
    let expect = (0..rounds).flat_map(|i| (0..100).map(move |j| format!("{i} {j} ")));
    let expect: Vec<String> = expect.collect();
    let kept = &expect[expect.len() - numbers.len()..];
    assert!(
        numbers.len() >= expect.len().min(30_000),
        "{}",
        numbers.len()
    );
    assert!(numbers.iter().copied().eq(kept), "the end is whole");
    let noise = texts.iter().filter(|text| text.starts_with('x'));
    assert!(
        noise.clone().all(|text| text.len() == 1000),
        "no line is mixed"
    );
}

#[test]
fn attack_143_printing_without_end_hurts_nobody() {
    let island = Island::new();
    let length = times(256 << 20, 1 << 30);
    let repository = with_services(
        &island,
        &format!(
            "[services.loud]\nrun = \"yes this is a line of a program that does not stop\"\n\
             [services.long]\nrun = \"head -c {length} /dev/zero | tr '\\\\0' x; echo; echo after; sleep 1000\"\n\
             ready = {{ log = \"after\" }}\n"
        ),
    );
    let id = repository.up("x");
    let (keeper, logs) = (island.keeper_of(&id).unwrap(), logs(&island, &id));
    eventually("files were turned", || logs.join("loud.log.4").exists());
    assert_eq!(island.sh("x", "echo well").ok().out(), "well");
    let long = lines(&island, &["long"]);
    assert_eq!(long.len(), 2);
    let text = long[0]["text"].as_str().unwrap();
    assert!(
        text.ends_with("[cut by holm: the line is longer than 64 KiB]"),
        "{}",
        text.len()
    );
    assert!(text.len() < 70_000);
    assert!(size(&logs) <= (5 * 10 + 1) << 20, "{}", size(&logs));
    let memory = peak(keeper);
    assert!(memory < 64 << 10, "{memory} KiB");
    let tail = lines(&island, &["loud", "-n", "3"]);
    assert_eq!(
        texts(&tail),
        ["this is a line of a program that does not stop"; 3]
    );
    island.holm(&["stop", "x"]).ok();
    assert!(size(&logs) <= (5 * 10 + 1) << 20);
}

#[test]
fn attack_145_a_follower_that_does_not_read_holds_up_nobody_and_is_told() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.loud]\nrun = \"yes 0123456789012345678901234567890123456789012345678901234567890123456789\"\n",
    );
    let id = repository.up("x");
    let logs = logs(&island, &id);
    let mut follow = Running::new(
        &mut island.holm_command(&island.home(), &["logs", "x", "-f", "-n", "1", "--json"]),
    );
    assert!(follow.line().contains("0123456789"));
    // It may have read a little into the file after this one before nothing went any more.
    let begun = |name: &str| {
        let mut time = String::new();
        let file = std::fs::File::open(logs.join(name)).into_iter();
        file.for_each(|file| drop(file.take(17).read_to_string(&mut time)));
        time
    };
    let (first, mut last) = (begun("loud.log"), String::new());
    eventually("the file was turned", || {
        last = begun("loud.log");
        last > first
    });
    eventually("both are gone", || begun("loud.log.4") > last);
    // It continues to the end of the log, and ends.
    island.holm(&["stop", "x"]).ok();
    let mut is_told = false;
    loop {
        let line = follow.line();
        if line.contains("lines were left out") {
            is_told = true;
            break;
        }
        if line.is_empty() {
            break;
        }
    }
    assert!(is_told);
}

#[test]
fn attack_139_lines_that_a_full_disk_has_no_room_for_are_counted_and_said() {
    let island = Island::new();
    let repository = with_services(&island, "[services.web]\nrun = \"python3 count.py\"\n");
    repository.write("count.py", COUNT);
    repository.commit("count");
    let size = std::fs::metadata(program()).unwrap().len() / 1024 + 40 * 1024;
    let script = format!(
        r#"mkdir -p "$HOLM_HOME" && mount -t tmpfs -o size={size}k none "$HOLM_HOME" || exit 99
        holm up a >/dev/null || exit 98
        count() {{ holm exec a -- cat /dev/shm/count; }}
        holm exec a -- sh -c 'head -c 1000000000 /dev/zero > ~/fill' 2>/dev/null
        before=$(count); until [ "$(count)" -gt $((before + 50)) ]; do :; done
        holm service a ls --json
        holm exec a -- sh -c 'rm ~/fill'
        until holm logs a --json | grep -q 'lines were lost'; do :; done
        holm logs a --json
        holm daemon stop --all >/dev/null"#
    );
    let ran = island.elsewhere(&repository.path, &script).ok();
    let out = ran.out();
    let mut documents = out.lines().map(|line| serde_json::from_str(line).unwrap());
    let services: Value = documents.next().unwrap();
    assert_eq!(service(&services, "web")["state"], "ready", "it goes on");
    let (mut next, mut lost) = (0, 0);
    for line in documents {
        let text = line["text"].as_str().unwrap();
        if line["stream"] == "holm" {
            let count: u64 = text[1..].split(' ').next().unwrap().parse().unwrap();
            assert!(text.contains("lines were lost: No space left"), "{text}");
            (next, lost) = (next + count, lost + count);
            continue;
        }
        assert_eq!(
            text,
            format!("{next:05000}"),
            "every line is there or counted"
        );
        next += 1;
    }
    assert!(lost > 10, "{lost}");
}

/// Prints numbers of a page's length, and notes the last where no disk is needed.
const COUNT: &str = r#"
import time
number = 0
while True:
    print("%05000d" % number, flush=True)
    number += 1
    with open("/dev/shm/count", "w") as note:
        note.write(str(number))
    time.sleep(0.005)
"#;
