//! Renames that overlayfs cannot do without root: directories of the base, and moves across the
//! mount points that hold protected paths.

use crate::support::{Island, Repository, Running, eventually, send, times};
use rustix::process::Signal;
use std::process::Stdio;

/// A repository with a directory of `files` files, of all kinds.
fn repository_with(island: &Island, files: usize) -> Repository<'_> {
    let repository = island.repository("shop");
    for number in 0..files {
        repository.write(&format!("lib/sub/file{number}"), format!("{number}\n"));
    }
    repository.write("lib/run", "#!/bin/sh\necho ran\n");
    repository.write("infra/prod", "protected\n");
    repository.write(
        "holm.toml",
        "[project]\nprotected_paths = [\"infra/prod\"]\n",
    );
    island
        .run(&repository.path, "chmod", &["755", "lib/run"])
        .ok();
    island
        .run(&repository.path, "ln", &["-s", "sub/file0", "lib/link"])
        .ok();
    repository.commit("a directory");
    repository
}

#[test]
fn directories_of_the_base_are_renamed_by_every_program() {
    let island = Island::new();
    let repository = repository_with(&island, 50);
    repository.up("a");
    let before = island
        .sh("a", "stat -c '%a %Y %s' lib/run lib/sub/file7")
        .ok()
        .out();
    island.sh("a", "git mv lib lib2").ok();
    let status = island.sh("a", "git status --porcelain").ok().out();
    assert_eq!(status.lines().count(), 52, "{status}");
    assert!(
        status.lines().all(|line| line.starts_with("R  lib/")),
        "{status}"
    );
    assert_eq!(
        island
            .sh("a", "stat -c '%a %Y %s' lib2/run lib2/sub/file7")
            .ok()
            .out(),
        before
    );
    island
        .python("a", "import os; os.rename('lib2', 'lib3')")
        .ok();
    island
        .inside(
            "a",
            &["node", "-e", "require('fs').renameSync('lib3', 'lib4')"],
        )
        .ok();
    island
        .sh(
            "a",
            "mv lib4 lib && test ! -e lib2 -a ! -e lib3 -a ! -e lib4",
        )
        .ok();
    assert_eq!(
        island
            .sh("a", "./lib/run; cat lib/link; ls -A")
            .ok()
            .out()
            .lines()
            .take(2)
            .collect::<Vec<_>>(),
        ["ran", "0"]
    );
    island
        .sh(
            "a",
            "git reset -q && git status --porcelain && test -z \"$(git status --porcelain)\"",
        )
        .ok();
}

#[test]
fn without_the_mover_such_a_rename_fails() {
    let island = Island::without("mover");
    let repository = repository_with(&island, 1);
    repository.up("a");
    let refused = island
        .python("a", "import os; os.rename('lib', 'lib2')")
        .exits(1);
    assert!(
        refused.stderr.contains("Invalid cross-device link"),
        "{}",
        refused.stderr
    );
}

#[test]
fn files_are_moved_across_the_pins_of_protected_paths() {
    let island = Island::new();
    let repository = repository_with(&island, 1);
    repository.up("a");
    island.python("a", "
import os
open('infra/new', 'w').write('text')
os.setxattr('infra/new', 'user.note', b'kept')
os.chmod('infra/new', 0o640)
os.utime('infra/new', ns=(1, 1_000_000_123))
os.rename('infra/new', 'moved')
state = os.stat('moved')
assert (state.st_mode & 0o777, state.st_mtime_ns) == (0o640, 1_000_000_123), state
assert os.getxattr('moved', 'user.note') == b'kept' and open('moved').read() == 'text'
os.mkdir('fresh'); open('fresh/a', 'w').close(); os.link('fresh/a', 'fresh/b'); os.mkfifo('fresh/pipe')
os.rename('fresh', 'infra/fresh')
assert sorted(os.listdir('infra/fresh')) == ['a', 'b', 'pipe']
assert os.stat('infra/fresh/a').st_ino == os.stat('infra/fresh/b').st_ino
").ok();
}

#[test]
fn what_the_kernel_refuses_stays_refused() {
    let island = Island::new();
    let repository = repository_with(&island, 2);
    repository.up("a");
    island.python("a", "
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def fails(expect, old, new, flags=0):
    ctypes.set_errno(0)
    result = libc.renameat2(-100, old.encode(), -100, new.encode(), flags)
    found = errno.errorcode.get(ctypes.get_errno(), 'ok') if result else 'ok'
    assert found == expect, (old, new, flags, found)
os.mkdir('full'); open('full/x', 'w').close(); open('plain', 'w').close()
fails('EINVAL', 'lib', 'lib/sub/deeper')
fails('EINVAL', 'lib', 'lib/below')
fails('ENOTEMPTY', 'lib', 'full')
fails('ENOTDIR', 'lib', 'plain')
fails('EISDIR', 'plain', 'lib')
fails('EEXIST', 'lib', 'full', 1)
fails('ENOENT', 'nothing', 'other')
fails('ENOENT', 'lib', 'nowhere/lib')
fails('EBUSY', 'infra', 'infra2')
fails('EBUSY', 'infra/prod', 'taken')
fails('EBUSY', 'plain', 'infra/prod')
fails('EXDEV', 'lib', 'full', 2)
assert libc.rename(None, b'x') == -1 and ctypes.get_errno() == errno.EFAULT
assert libc.renameat(77, b'x', -100, b'y') == -1 and ctypes.get_errno() == errno.EBADF
os.mkdir('empty'); os.rename('lib', 'empty'); assert os.path.isdir('empty/sub') and not os.path.exists('lib')
assert open('infra/prod').read() == 'protected\\n' and os.listdir('infra') == ['prod']
assert not os.path.exists('taken')
assert not [name for name in os.listdir('.') if name.startswith('.holm-move')]
").ok();
}

/// All files with their content, and what a move may have left anywhere.
const PICTURE: &str =
    "find . ~ /tmp -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 md5sum;
find . ~ /tmp -path ./.git -prune -o -print | sort";

#[test]
fn what_something_is_mounted_on_stays_where_it_is_and_no_copy_is_left() {
    let island = Island::new();
    let repository = repository_with(&island, 2);
    repository.write("deep/er/est", "protected\n");
    repository.write("deep/er/beside", "free\n");
    repository.write("data/set/README", "about the data\n");
    let toml = format!(
        "[project]\nprotected_paths = [\"infra/prod\", \"deep/er/est\", \"absent\"]\n\
         [volumes.rows]\npath = \"{}/data/set/rows\"\n",
        repository.path.display()
    );
    repository.write("holm.toml", toml);
    repository.commit("mounts");
    repository.up("a");
    let fill = "echo row > data/set/rows/1; mkdir /tmp/empty; echo free > infra/free";
    island.sh("a", fill).ok();
    let before = island.sh("a", PICTURE).ok().out();
    let moves = r#"
here = os.getcwd()
for old, new in [("infra", "/tmp/infra"), ("infra", "deep/er/infra"), ("deep/er", "elsewhere"),
                 ("deep/er", "/tmp/er"), ("infra/prod", "taken"), ("infra/prod", "/tmp/taken"),
                 (here, "/tmp/tree"), ("data", "data2"), ("data", "/tmp/data"), ("data/set", "set"),
                 ("data/set/rows", "rows"), ("data/set/rows", "/tmp/rows"), ("/tmp/empty", "absent")]:
    attempt(old + " to " + new, os.rename, old, new)
"#;
    island.attempts("a", moves).refused(&["EBUSY"]);
    // Programs that copy on EXDEV do not get it, and so copy nothing.
    for old in ["infra", "deep/er", "data", "$PWD"] {
        island.sh("a", &format!("! mv {old} /tmp/moved")).ok();
    }
    assert_eq!(island.sh("a", PICTURE).ok().out(), before);
}

#[test]
fn directories_and_descriptors_of_the_caller_count() {
    let island = Island::new();
    let repository = repository_with(&island, 2);
    repository.up("a");
    island
        .python(
            "a",
            "
import os
os.chdir('lib'); os.rename('sub', '../sub2'); os.chdir('..')
there = os.open('sub2', os.O_RDONLY); here = os.open('.', os.O_RDONLY)
os.rename('file0', 'out', src_dir_fd=there, dst_dir_fd=here)
assert open('out').read() == '0\\n'
os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')
try: os.rename('x', 'y'); raise SystemExit('renamed in a directory that is gone')
except FileNotFoundError: pass
",
        )
        .ok();
}

#[test]
fn signals_and_threads_do_not_repeat_or_lose_a_rename() {
    let island = Island::new();
    let repository = repository_with(&island, 20);
    repository.up("a");
    island
        .python(
            "a",
            "
import os, signal, threading
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
def turn(name):
    open(name, 'w').close()
    for _ in range(300):
        os.rename(name, name + '-moved'); os.rename(name + '-moved', name)
threads = [threading.Thread(target=turn, args=(f't{n}',)) for n in range(8)]
[thread.start() for thread in threads]
for number in range(4):
    os.rename('lib', 'lib2'); os.rename('lib2', 'lib')
turn('main')
[thread.join() for thread in threads]
signal.setitimer(signal.ITIMER_REAL, 0)
assert all(os.path.exists(f't{n}') for n in range(8)) and len(os.listdir('lib/sub')) == 20
",
        )
        .ok();
}

#[test]
fn nobody_inside_sees_or_ends_the_mover() {
    let island = Island::new();
    let repository = repository_with(&island, 1);
    repository.up("a");
    island
        .sh(
            "a",
            "mv README.md R && ! ps -eo args | grep -q '[_]_mover' && kill -9 -1",
        )
        .code
        .unwrap_or(137);
    island
        .sh("a", "mv R README.md && mv lib lib2 && ls lib2/sub")
        .ok();
}

/// The processes that can be killed during a move.
fn victim(island: &Island, id: &str, whom: &str) -> Option<i32> {
    let command = |pid: i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let has = |pid: i32, word: &str| {
        let command = command(pid);
        let mut words = command.split(|byte| *byte == 0);
        words.any(|one| one == word.as_bytes())
    };
    match whom {
        "keeper" => island.keeper_of(id),
        "init" => island.init_of(id),
        "mover" => find(island, |pid| has(pid, "__mover")),
        _ => find(island, |pid| has(pid, "moved") && has(pid, "mv")),
    }
}

fn find(island: &Island, is_it: impl Fn(i32) -> bool) -> Option<i32> {
    let all = island.inhabitants().into_iter().map(|(pid, _)| pid);
    all.into_iter().find(|pid| is_it(*pid))
}

/// Moves a directory of the base, kills a process at a moment, and returns what is there
/// afterwards: how many files under the old name, and how many under the new one.
fn move_and_kill(island: &Island, id: &str, whom: &str, moment: &str) -> (usize, usize) {
    let journal = island.data().join("workspaces").join(id).join("moves");
    let text = || std::fs::read_to_string(&journal).unwrap_or_default();
    let arguments = ["exec", "a", "--", "mv", "-T", "lib", "moved"];
    let mut command = island.holm_command(&island.home(), &arguments);
    let mut mv = Running::new(command.stderr(Stdio::null()));
    eventually("the move is under way", || {
        text().contains(moment) || mv.has_ended()
    });
    match victim(island, id, whom) {
        Some(pid) => send(pid, Signal::KILL),
        None => assert_eq!(
            (whom, moment),
            ("mv", "arrived"),
            "it may have ended by then"
        ),
    }
    // The caller never waits forever.
    mv.code();
    if matches!(whom, "keeper" | "init") {
        eventually("the workspace is noticed as failed", || {
            island.states()["a"] == "failed"
        });
        island.holm(&["start", "a"]).ok();
    }
    // A move whose caller is gone comes to its end.
    eventually("nothing is under way", || text().is_empty());
    let count = |name: &str| {
        let script = format!("find {name} -type f 2>/dev/null | wc -l");
        island.sh("a", &script).ok().out().parse().unwrap()
    };
    let left = island.sh("a", "find . -name '*holm-move*' | wc -l");
    assert_eq!(left.ok().out(), "0", "{whom} {moment}");
    (count("lib"), count("moved"))
}

#[test]
fn a_move_of_thousands_of_files_that_is_killed_is_old_or_new_never_mixed() {
    let files = times(4_000, 10_000);
    let island = Island::new();
    let repository = repository_with(&island, files);
    for whom in ["mover", "keeper", "init", "mv"] {
        // Once as soon as the copy begins, once when it is likely to be under removal.
        for moment in ["begin", "arrived"] {
            let id = repository.up("a");
            let counts = move_and_kill(&island, &id, whom, moment);
            assert!(
                counts == (files + 1, 0) || counts == (0, files + 1),
                "{whom} {moment}: {counts:?}"
            );
            // Every file is unchanged, under its one name.
            let name = if counts.0 == 0 { "moved" } else { "lib" };
            let sum = format!("cd {name} && cat sub/file* | sort -n | md5sum && ./run");
            let expect = format!("seq 0 {} | md5sum && echo ran", files - 1);
            assert_eq!(
                island.sh("a", &sum).ok().out(),
                island.sh("a", &expect).ok().out()
            );
            island.holm(&["rm", "a", "--force"]).ok();
        }
    }
}
