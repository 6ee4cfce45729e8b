//! Programs that take all they can get: output without end, a client that does not read, processes
//! without number. The command that asked ends, and the next one works.

use crate::support::{Island, Running, eventually, send};
use rustix::process::Signal;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn what_a_command_left_writing_does_not_keep_it_from_returning() {
    let island = Island::new();
    island.repository("shop").up("x");
    let script = "yes & yes >&2 & \
        until [ \"$(sed -n 's/^wchar: //p' /proc/$!/io)\" -gt 4000000 ]; do :; done; exit 3";
    let mut child = island
        .holm_command(&island.home(), &["exec", "x", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Slower than the output, so that there is always more.
    let mut stdout = child.stdout.take().unwrap();
    let deadline = Instant::now() + Duration::from_secs(90);
    let mut piece = [0; 4096];
    while stdout.read(&mut piece).unwrap() > 0 {
        assert!(Instant::now() < deadline, "the command has long ended");
        std::thread::park_timeout(Duration::from_micros(200));
    }
    assert_eq!(child.wait().unwrap().code(), Some(3));
    // They continue, except for those that wrote to a pipe without a reader.
    island.sh("x", "true").ok();
}

fn memory_of(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

/// What the command has written so far, in bytes, as the kernel counts it.
fn written(island: &Island) -> u64 {
    let count = "cat /proc/$(pgrep -xo yes)/io | grep wchar | cut -d' ' -f2";
    island.sh("x", count).ok().out().parse().unwrap_or(0)
}

#[test]
fn output_without_end_waits_for_a_client_that_is_stopped() {
    let island = Island::new();
    island.repository("shop").up("x");
    let mut client = Running::new(
        &mut island.holm_command(&island.home(), &["exec", "x", "--", "yes", "flood"]),
    );
    client.says("flood");
    client.signal(Signal::STOP);
    // The flood blocks once the bounded buffers on the way are full.
    let mut last = 0;
    eventually("the command waits", || {
        let now = written(&island);
        let still = now == last && now > 0;
        last = now;
        still
    });
    assert!(last < 64 * 1024 * 1024, "{last} bytes are somewhere");
    assert!(memory_of(island.daemon_pid()) < 200 * 1024, "KiB");
    // Others are served meanwhile, and the flood continues when the client reads.
    assert_eq!(island.sh("x", "echo well").ok().out(), "well");
    client.signal(Signal::CONT);
    for _ in 0..100_000 {
        client.says("flood");
    }
    assert!(written(&island) > last);
    send(client.pid(), Signal::INT);
    assert_eq!(client.code(), Some(130));
}

#[test]
fn processes_without_number_end_at_the_limit() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[limits]\nprocesses = 60\n");
    repository.commit("limits");
    repository.up("x");
    repository.up("sibling");
    let storm = r#"
import errno, os, signal, sys
children = 0
try:
    while children < 500:
        if os.fork() == 0:
            signal.pause()
        children += 1
except OSError as error:
    print(errno.errorcode[error.errno], children < 60, flush=True)
sys.stdin.read()
"#;
    let mut bomb = Running::new(&mut island.holm_command(
        &island.home(),
        &["exec", "x", "--", "/usr/bin/python3", "-c", storm],
    ));
    bomb.says("EAGAIN True");
    // Only this workspace is full, and says so; it can still be stopped and started.
    let refused = island.sh("x", "true").exits(126);
    assert!(refused.stderr.contains("unavailable"), "{}", refused.stderr);
    island.sh("sibling", "true").ok();
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["state"], "running");
    island.holm(&["restart", "x"]).ok();
    assert_eq!(bomb.code(), Some(143));
    island.sh("x", "true").ok();

    // Without a limit of that size the same storm goes through.
    let island = Island::new();
    island.repository("shop").up("x");
    let whole = storm.replace("sys.stdin.read()", "print(children)\nos.kill(-1, 9)");
    let ran = island.python("x", &whole);
    assert_eq!((ran.out().as_str(), ran.code), ("500", Some(0)), "{ran:?}");
}
