//! `holm exec` and `holm enter` on a terminal: keys, sizes, raw programs, and a terminal that is
//! left as it was.

use crate::support::{Act, Island};

#[test]
fn a_command_on_a_terminal_has_one_inside() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let script = "tty; test -t 0 && test -t 1 && test -t 2 && stty size; echo $TERM; \
                  ps -o tty= -p $$; printf '\\033[1mbold\\n'; exit 42";
    let played = island.play(
        &island.home(),
        &["exec", "x", "--", "sh", "-c", script],
        &[],
    );
    assert_eq!(played.code, 42);
    assert!(played.is_restored);
    let lines: Vec<_> = played.screen.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "/dev/pts/0",
            "24 80",
            "xterm-256color",
            "pts/0",
            "\u{1b}[1mbold"
        ]
    );
    // Without a terminal on both ends there is none.
    let ran = island.sh("x", "tty; test -t 1").exits(1);
    assert_eq!(ran.out(), "not a tty");
}

#[test]
fn keys_and_sizes_reach_the_command() {
    let island = Island::new();
    island.repository("shop").up("x");
    // ctrl-C is a key of the terminal inside: the whole foreground gets it, not holm. A shell with
    // a child in the foreground handles it when the child ends.
    let script = "trap 'got=1' INT; echo ready; until [ \"$got\" ]; do sleep 0.05; done
        echo interrupted; read line; echo \"<$line>\"";
    let played = island.play(
        &island.home(),
        &["exec", "x", "--", "sh", "-c", script],
        &[
            Act::See("ready"),
            Act::Type("\u{3}"),
            Act::See("interrupted"),
            Act::Type("again\r"),
            Act::See("<again>"),
        ],
    );
    assert_eq!(played.code, 0);
    assert!(played.is_restored);
    // ctrl-\ is a key too, and ctrl-D is the end of the input.
    let script = "trap 'got=1' QUIT; echo ready; until [ \"$got\" ]; do sleep 0.05; done
        echo quit; cat; echo after";
    let played = island.play(
        &island.home(),
        &["exec", "x", "--", "sh", "-c", script],
        &[
            Act::See("ready"),
            Act::Type("\u{1c}"),
            Act::See("quit"),
            Act::Type("\u{4}"),
            Act::See("after"),
        ],
    );
    assert_eq!(played.code, 0);
    // A new size is passed on, and the command gets SIGWINCH.
    let script = "trap 'stty size; exit 5' WINCH; stty size; while :; do sleep 0.05; done";
    let played = island.play(
        &island.home(),
        &["exec", "x", "--", "sh", "-c", script],
        &[Act::See("24 80"), Act::Resize(50, 132), Act::See("50 132")],
    );
    assert_eq!(played.code, 5);
    // An interrupted command ends as one.
    let played = island.play(
        &island.home(),
        &["exec", "x", "--", "sh", "-c", "echo ready; exec sleep 1000"],
        &[Act::See("ready"), Act::Type("\u{3}")],
    );
    assert_eq!(played.code, 130);
    assert!(played.is_restored);
}

#[test]
fn raw_programs_work_and_the_terminal_comes_back() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    // Every key unchanged, without line buffering or echo.
    let raw = "import sys, tty, os
tty.setraw(0)
print('ready', end='', flush=True)
keys = b''
while len(keys) < 7: keys += os.read(0, 1)
print(repr(keys), end='', flush=True)
os._exit(3)";
    let played = island.play(
        &island.home(),
        &["exec", "x", "--", "python3", "-c", raw],
        &[Act::See("ready"), Act::Type("\u{3}\u{4}\u{1a}\r\u{1b}[A")],
    );
    assert_eq!(played.code, 3);
    assert!(
        played.screen.ends_with(r"b'\x03\x04\x1a\r\x1b[A'"),
        "{played:?}"
    );
    assert!(played.is_restored);
    // An editor that draws on the whole screen.
    let played = island.play(
        &island.home(),
        &["exec", "x", "--", "vi", "-u", "NONE", "README.md"],
        &[
            Act::See("# hello"),
            Act::Type("onew line\u{1b}"),
            Act::See("new line"),
            Act::Type(":wq\r"),
        ],
    );
    assert_eq!(played.code, 0, "{played:?}");
    assert!(played.is_restored);
    assert_eq!(
        island.sh("x", "cat README.md").ok().out(),
        "# hello\nnew line"
    );
}

#[test]
fn enter_is_a_shell_with_jobs_in_the_projects_root() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("fix-login");
    island.holm(&["stop", "fix-login"]).ok();
    let root = repository.path.to_str().unwrap();
    let played = island.play(
        &island.home(),
        &["enter", "fix-login"],
        &[
            Act::See("(fix-login) "),
            Act::Type("pwd; echo $HOLM_WORKSPACE_LABEL-$((40 + 2))\r"),
            Act::See(root),
            Act::See("fix-login-42"),
            Act::Type("sh -c 'echo begun; exec sleep 1000'\r"),
            Act::See("begun\r"),
            Act::Type("\u{1a}"),
            Act::See("Stopped"),
            Act::Type("bg; kill %1; wait; exit 9\r"),
        ],
    );
    assert_eq!(played.code, 9);
    assert!(played.is_restored);
    assert!(!played.screen.contains("no job control"), "{played:?}");
    // Without a terminal there is nothing to enter.
    let refused = island.holm(&["enter", "fix-login", "--json"]).error(2);
    assert!(refused["hint"].as_str().unwrap().contains("holm exec"));
    // Ended by a signal, the client puts the terminal back, and the shell inside is hung up.
    let played = island.play(
        &island.home(),
        &["enter", "fix-login"],
        &[
            Act::See("(fix-login) "),
            Act::Type("echo up\r"),
            Act::See("up"),
            Act::Signal(15),
        ],
    );
    assert_eq!(played.code, 143);
    assert!(played.is_restored);
    crate::support::eventually("the shell is gone", || {
        island.sh("fix-login", "pgrep -x bash").code == Some(1)
    });
}
