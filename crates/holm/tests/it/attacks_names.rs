//! Attacks by names and by size: what no terminal should print, and trees that no path can name
//! (attacks 25 and 27).

use crate::support::{Island, Repository};
use std::path::Path;
use std::time::{Duration, Instant};

/// Nothing in it moves a cursor, turns the reading order or rings a bell.
#[track_caller]
fn assert_harmless(text: &[u8]) {
    let text = String::from_utf8(text.to_vec()).expect("UTF-8");
    let steers = |c: &char| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found = text.chars().find(steers);
    assert_eq!(found, None, "{}", text.escape_debug());
}

const NAMES: &str = r#"
import os, unicodedata
names = [b"new\nline", b"\x1b]0;owned\x07\x1b[2J", b"not-utf8-\xff\xfe", b"n" * 255, b"-rf", b"--help",
         b"dot.", b"space ", b" ", b"tab\t", b"back\\slash", b"quote'\"", b"$(touch x)", b"\xe2\x80\xaerl",
         b"\xc2\x9b31m", unicodedata.normalize("NFC", "\u00e9").encode(), unicodedata.normalize("NFD", "\u00e9").encode(),
         b"case", b"CASE", b"%n%s", b"*", b"?"]
"#;

#[test]
fn attack_25_odd_names_are_kept_exactly_and_never_printed_raw() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let make = format!(
        r#"{NAMES}
for name in names:
    open(name, "wb").close()
    os.mkdir(b"dir-" + name[:200])
    open(b"dir-" + name[:200] + b"/" + name, "wb").close()
"#
    );
    island.python("x", &make).ok();
    let check = format!(
        r#"{NAMES}
found = set(os.listdir(b"."))
missing = [name for name in names if name not in found]
print(missing)
"#
    );
    assert_eq!(island.python("x", &check).ok().out(), "[]");
    island.holm(&["restart", "x"]).ok();
    assert_eq!(island.python("x", &check).ok().out(), "[]");
    let raw = island.sh("x", "ls --show-control-chars --literal").ok();
    assert!(
        raw.stdout.contains(&0x1b),
        "the names are as bad as they look"
    );

    // Their names are shown when they are in the way.
    let refused = island.holm(&["rm", "x"]).exits(4);
    assert!(
        refused.stderr.contains("\\n") || refused.stderr.contains("\\u{1b}"),
        "{refused:?}"
    );
    assert_harmless(refused.stderr.as_bytes());
    island
        .sh(
            "x",
            "git add -A && git commit -qm odd && test -z \"$(git status --porcelain)\"",
        )
        .ok();
    for line in [
        &["ls", "--long"][..],
        &["show", "x"],
        &["rm", "x", "--force"],
        &["ls"],
    ] {
        let ran = island.holm(line).ok();
        assert_harmless(&ran.stdout);
        assert_harmless(ran.stderr.as_bytes());
    }
}

#[test]
fn attack_25_names_of_branches_directories_and_people_are_never_printed_raw() {
    let island = Island::new();
    // A right-to-left override is no control character, so git and Linux both take it.
    let repository = Repository::new(&island, island.home().join("src/a\u{202e}b"));
    let branch = "bad\u{9b}31m\u{202e}name";
    repository.git(&["config", "user.name", "E\u{1b}[2Jve"]);
    repository.git(&["checkout", "-q", "-b", branch]);
    let raw = repository.git(&["branch", "--show-current"]);
    assert!(raw.contains('\u{9b}'), "git itself prints it raw: {raw:?}");
    let mut outputs = vec![repository.holm(&["up", "x"]).ok()];
    for line in [
        &["ls", "--long"][..],
        &["show", "x"],
        &["stop", "x"],
        &["start", "x"],
        &["project", "ls"],
    ] {
        outputs.push(repository.holm(line).ok());
    }
    outputs.push(
        repository
            .holm(&["up", "y", "--from", "no\u{1b}[2Jsuch"])
            .exits(3),
    );
    outputs.push(repository.holm(&["show", "no\u{1b}]0;such\u{7}"]));
    outputs.push(repository.holm(&["up", "la\u{1b}bel"]));
    for ran in &outputs {
        assert_harmless(&ran.stdout);
        assert_harmless(ran.stderr.as_bytes());
    }
    let listed = &outputs[1];
    assert!(listed.out().contains("\\u{9b}"), "{listed:?}");
    // A directory whose name steers a terminal is no place for code, and is named harmlessly.
    let steering = Repository::new(&island, island.home().join("src/a\u{1b}[2Jb"));
    let refused = steering.holm(&["up", "z"]).exits(2);
    assert_harmless(refused.stderr.as_bytes());
}

#[test]
fn attack_27_a_tree_deeper_than_any_path_and_full_of_files_is_removed_in_time() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    let script = r#"
import os
for place in [".", os.path.expanduser("~"), "/tmp"]:
    os.chdir(place)
    for _ in range(90):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    open("bottom", "w").close()
    os.chmod(".", 0)
os.chdir(os.environ["HOLM_ROOT"])
os.mkdir("many")
for number in range(20000):
    os.mknod("many/%d" % number, 0o100644)
with open("sparse", "wb") as file:
    size = 1 << 62
    while True:
        try:
            file.truncate(size)
            break
        except OSError:
            size >>= 1
print(size)
"#;
    let size: u64 = island.python("x", script).ok().out().parse().unwrap();
    assert!(size > 1 << 40, "the sparse file has {size} bytes");
    let directory = island.data().join("workspaces").join(&id);
    let whole = vec!["d".repeat(200); 90].join("/");
    let bottom = directory.join("tmp").join(&whole);
    let error = std::fs::metadata(bottom).unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(rustix::io::Errno::NAMETOOLONG.raw_os_error())
    );

    let pid = island.daemon_pid();
    let begun = Instant::now();
    island.holm(&["restart", "x"]).ok();
    island.holm(&["rm", "x", "--json"]).error(4);
    island.holm(&["rm", "x", "--force"]).ok();
    assert!(
        begun.elapsed() < Duration::from_secs(90),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(island.daemon_pid(), pid);
    assert!(memory_of(pid) < 512 << 20, "{} bytes", memory_of(pid));
    repository.up("next");
    assert!(!directory.exists());
}

/// The most memory that a process ever had, in bytes.
fn memory_of(pid: i32) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
    let status = status.unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes << 10
}
