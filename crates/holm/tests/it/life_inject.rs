//! Kernel calls that fail while a workspace is created: it is reported, nothing is left, and the
//! daemon goes on (attack 158). `life_health.rs` makes writes fail with disks that are really full:
//! a tracer cannot tell a pipe from a file.

use crate::support::{Census, Island, Repository, eventually, follow, is_root, send, times};
use rustix::process::Signal;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A call, how it fails, and at which of its occurrences in one thread.
const FAILURES: [(&str, &str, &[u32]); 11] = [
    ("openat", "ENOSPC", &[2, 9, 25]),
    ("openat", "EMFILE", &[3, 14, 40]),
    ("openat", "ENOMEM", &[5, 20]),
    ("pipe,pipe2,socketpair", "EMFILE", &[1, 2]),
    ("mkdir,mkdirat", "ENOSPC", &[1, 4]),
    ("rename,renameat,renameat2", "EIO", &[1, 2]),
    ("link,linkat", "EIO", &[1]),
    ("clone,clone3,vfork", "EAGAIN", &[1, 2, 4]),
    ("pwrite64", "ENOSPC", &[1, 4]),
    ("fdatasync,fsync", "EIO", &[1, 2]),
    ("mount,move_mount,fsmount,fsconfig", "ENOMEM", &[1, 3]),
];

/// Whether the creation failed. Either way everything is as it should be afterwards.
fn try_with(
    island: &Island,
    repository: &Repository<'_>,
    before: &Census,
    (calls, error, when): (&str, &str, u32),
) -> Option<bool> {
    let what = format!("{calls} {error} {when}");
    // A separate commit, so that its base has to be built.
    repository.write("what", &what);
    repository.commit(&what);
    let pid = island.daemon_of_the_lock().expect("a daemon");
    let trace = format!("trace={calls}");
    let inject = format!("inject={calls}:error={error}:when={when}");
    let arguments = ["-e", &trace, "-e", &inject];
    let mut tracer = follow(&[pid], &arguments, Stdio::null())?;
    let (over, waiting) = mpsc::channel::<()>();
    let tracing = tracer.pid();
    // A stuck tracer would hold the daemon, which is not the subject here.
    let watch = std::thread::spawn(move || {
        if waiting.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            send(tracing, Signal::KILL);
        }
    });
    let ran = repository.holm(&["up", "x", "--json"]);
    tracer.signal(Signal::TERM);
    // It may wait forever for a process that begins at that moment. The kernel lets go of all when it is killed.
    let asked = Instant::now();
    while !tracer.has_ended() && asked.elapsed() < Duration::from_secs(2) {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    if !tracer.has_ended() {
        tracer.signal(Signal::KILL);
    }
    tracer.code();
    drop(over);
    watch.join().unwrap();
    let failed = ran.code != Some(0);
    if failed {
        assert!(ran.stderr.contains("\"code\":"), "{what}: {ran:?}");
        assert_ne!(ran.code, Some(5), "{what}: the daemon went away: {ran:?}");
        assert!(!island.states().contains_key("x"), "{what}");
        eventually(&format!("nothing is left after {what}"), || {
            island.census() == *before
        });
    }
    assert_eq!(
        island.daemon_of_the_lock(),
        Some(pid),
        "{what}: the daemon lives"
    );
    repository.up("x");
    assert_eq!(island.sh("x", "cat what").ok().out(), what);
    island.holm(&["rm", "x", "--force"]).ok();
    eventually(&format!("all of it goes after {what}"), || {
        island.census() == *before
    });
    Some(failed)
}

#[test]
fn attack_158_calls_that_fail_during_a_creation() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("first");
    island.holm(&["rm", "first"]).ok();
    let before = island.census();
    let (mut tried, mut failed) = (0, 0);
    for (calls, error, occurrences) in FAILURES {
        // Of each failure CI sees one occurrence.
        for when in &occurrences[..times(1, occurrences.len())] {
            let Some(one) = try_with(&island, &repository, &before, (calls, error, *when)) else {
                assert!(!is_root(), "root may follow");
                return;
            };
            tried += 1;
            failed += usize::from(one);
        }
    }
    println!("{failed} of {tried} creations failed");
    assert!(
        failed * 3 > tried,
        "{failed} of {tried}: the failures reach the daemon"
    );
}
