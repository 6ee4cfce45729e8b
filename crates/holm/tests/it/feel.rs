//! How holm feels: progress, ctrl-C that undoes, colours for people and documents for machines,
//! readers that go away.

use crate::support::{Act, Island, Ran, Repository, Running, eventually, play};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

/// Many files: building the base takes long enough to see it, and to cancel. They are only in the
/// commit, because the checkout does not need them.
fn large(island: &Island, files: u32) -> Repository<'_> {
    let repository = island.repository("shop");
    let script = r#"python3 - "$0" <<'END' | git fast-import --quiet --force
import sys
print("commit refs/heads/main\ncommitter Tess <tess@example.org> 1700000000 +0000\ndata 4\nmany")
print("from refs/heads/main^0")
for number in range(int(sys.argv[1])):
    text = "file %d" % number
    print("M 100644 inline d%d/f%d\ndata %d\n%s" % (number // 100, number, len(text), text))
END"#;
    island
        .run(&repository.path, "sh", &["-c", script, &files.to_string()])
        .ok();
    repository
}

/// The entries of base directories, hidden or not.
fn bases(island: &Island) -> Vec<PathBuf> {
    let projects = std::fs::read_dir(island.data().join("projects"))
        .into_iter()
        .flatten();
    projects
        .flat_map(|project| std::fs::read_dir(project.unwrap().path().join("bases")))
        .flatten()
        .map(|base| base.unwrap().path())
        .collect()
}

/// The git that fills a base.
fn git_at_work(island: &Island) -> Option<Pid> {
    let place = island.data().display().to_string();
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pid = pids.find(|pid: &i32| {
        let has = |file: &str, word: &str| {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(word)
        };
        has("cmdline", "read-tree") && (has("cmdline", &place) || has("environ", &place))
    });
    pid.and_then(Pid::from_raw)
}

#[track_caller]
fn nothing_is_left(island: &Island) {
    assert_eq!(bases(island), Vec::<PathBuf>::new());
    for place in ["workspaces", "incoming"] {
        let left = std::fs::read_dir(island.data().join(place))
            .into_iter()
            .flatten();
        assert_eq!(left.count(), 0, "{place}");
    }
    let listed = island.holm(&["ls", "--json"]).json();
    assert_eq!(listed["workspaces"], serde_json::json!([]));
}

#[test]
fn a_signal_while_a_base_is_built_undoes_everything() {
    let island = Island::new();
    let repository = large(&island, 8000);
    let cases: [(&[&str], Signal); 3] = [
        (&["up", "x"], Signal::INT),
        (&["up", "x", "--json"], Signal::TERM),
        (&["up", "-n", "3", "x"], Signal::INT),
    ];
    for (arguments, signal) in cases {
        let stderr = island.write("stderr", "");
        let mut command = island.holm_command(&repository.path, arguments);
        command.stderr(File::create(&stderr).unwrap());
        let mut up = Running::new(&mut command);
        // Held there: a base that is whole before the signal comes would rightly stay.
        // git is at work for a moment only, so it is looked for almost without pauses.
        eventually("the base is being built, and stands still", || {
            (0..200).any(|_| {
                git_at_work(&island).is_some_and(|git| kill_process(git, Signal::STOP).is_ok())
            })
        });
        up.signal(signal);
        assert_eq!(up.code(), Some(130), "{arguments:?}");
        let said = std::fs::read_to_string(&stderr).unwrap();
        if arguments.contains(&"--json") {
            let error: serde_json::Value = serde_json::from_str(&said).unwrap();
            assert_eq!(error["error"]["code"], "cancelled");
        } else {
            // A slow step wrote a line when it began: `code: main 4e1f0c2`. It writes none about an end.
            let mut told = said.lines();
            let told = told.find(|line| !line.starts_with("code: ") || line.contains(','));
            let told = told.unwrap_or_default();
            assert!(
                told.starts_with("cancelled: nothing was left behind"),
                "{said}"
            );
        }
        nothing_is_left(&island);
    }
    // The same label works at once, and nothing of the git processes is left.
    let made = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(made["created"], true);
    assert_eq!(
        island
            .sh("x", "git status --porcelain; ls | wc -l")
            .ok()
            .out(),
        "81"
    );
}

#[test]
fn a_client_that_is_killed_leaves_nothing_half_made() {
    let island = Island::new();
    let repository = large(&island, 8000);
    let mut up = Running::new(&mut island.holm_command(&repository.path, &["up", "x"]));
    eventually("the base is being built", || !bases(&island).is_empty());
    up.signal(Signal::KILL);
    up.code();
    eventually("it was undone, or done", || {
        let listed = island.holm(&["ls", "--json"]).json();
        let listed = listed["workspaces"].as_array().unwrap().clone();
        listed
            .iter()
            .all(|workspace| workspace["state"] == "running")
            && bases(&island).iter().all(|base| base.join("tree").exists())
    });
    repository.up("x");
    assert_eq!(island.sh("x", "ls | wc -l").ok().out(), "81");
}

#[test]
fn on_a_terminal_progress_is_shown_and_ctrl_c_undoes() {
    let island = Island::new();
    let repository = large(&island, 16_000);
    let played = island.play(
        &repository.path,
        &["up", "x"],
        &[
            Act::See(" files "),
            Act::Type("\u{3}"),
            Act::See("nothing was left behind"),
        ],
    );
    assert_eq!(played.code, 130, "{played:?}");
    assert!(played.is_restored);
    nothing_is_left(&island);
    // The base may have been complete before the key was read; then it would exist at once.
    island.holm(&["gc", "--all"]).ok();
    // With files and seconds; and gone from the screen when it is done.
    let played = island.play(
        &repository.path,
        &["up", "x"],
        &[Act::See(" of 16 001 files")],
    );
    assert_eq!(played.code, 0);
    let last = played.screen.rsplit("\u{1b}[2K").next().unwrap();
    assert!(
        last.contains("ready in") && !last.contains("files"),
        "{played:?}"
    );
    assert!(!played.screen.contains("\u{1b}[?25l") || played.screen.contains("\u{1b}[?25h"));
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let commands: [&[&str]; 4] = [&["ls"], &["show", "x"], &["show", "nobody"], &["doctor"]];
    for arguments in commands {
        let piped = island.holm(arguments);
        assert!(!piped.out().contains('\u{1b}'), "{piped:?}");
        assert!(!piped.stderr.contains('\u{1b}'), "{piped:?}");
        let shown = island.play(&island.home(), arguments, &[]);
        assert!(shown.screen.contains("\u{1b}["), "{arguments:?} {shown:?}");
        for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let mut plain = island.holm_command(&island.home(), arguments);
            let shown = play(plain.env(name, value), &[]);
            assert!(
                !shown.screen.contains('\u{1b}'),
                "{name} {arguments:?} {shown:?}"
            );
        }
        let mut json = island.holm_command(&island.home(), arguments);
        let shown = play(json.arg("--json"), &[]);
        assert!(!shown.screen.contains('\u{1b}'), "{arguments:?} {shown:?}");
    }
}

#[test]
fn json_is_one_document_and_nothing_else() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(".env", "A=1");
    repository.write(".gitignore", ".env");
    repository.commit("ignored");
    let commands: [&[&str]; 19] = [
        &["up", "x"],
        &["up", "x"],
        &["up", "-n", "2", "y"],
        &["ls"],
        &["show", "x"],
        &["rename", "x", "z"],
        &["stop", "z"],
        &["start", "z"],
        &["restart", "z", "y-1"],
        &["rm", "z", "y-1"],
        &["project", "ls"],
        &["project", "add"],
        &["project", "find"],
        &["trust"],
        &["doctor"],
        &["schema"],
        &["completions", "bash"],
        &["daemon", "status"],
        &["daemon", "stop", "--all"],
    ];
    for arguments in commands {
        let ran = repository.holm(&[arguments, &["--json"]].concat()).ok();
        assert_eq!(ran.stderr, "", "{arguments:?}");
        assert_eq!(ran.stdout.last(), Some(&b'\n'), "{arguments:?}");
        let document = ran.json();
        assert!(document.is_object(), "{arguments:?}: {document}");
    }
    // Remarks for people are on stderr; stdout has only the result.
    let made = repository.holm(&["up", "x"]).ok();
    assert_eq!(made.out(), "");
    assert!(made.stderr.contains("✓ x  w"), "{made:?}");
    assert!(
        made.stderr.contains(".env"),
        "what was not brought is named: {made:?}"
    );
    let listed = repository.holm(&["ls"]).ok();
    assert_eq!(listed.stderr, "");
    assert!(listed.out().contains("shop"), "{listed:?}");
}

#[test]
fn readers_that_go_away_and_outputs_that_are_full() {
    let island = Island::new();
    island.repository("shop").up("x");
    let commands: [&[&str]; 5] = [
        &["ls"],
        &["ls", "--json"],
        &["--help"],
        &["schema"],
        &["exec", "x", "--", "echo", "hello"],
    ];
    for arguments in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = island.holm_command(&island.home(), arguments);
        let output = command
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr, "", "{arguments:?}");
        assert!(
            matches!(output.status.code(), Some(0 | 141)),
            "{arguments:?} {output:?}"
        );
        if arguments[0] == "--help" {
            continue;
        }
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = island.holm_command(&island.home(), arguments);
        let output = command
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?} {stderr}");
        assert!(stderr.contains("No space left"), "{arguments:?} {stderr}");
    }
    let program = crate::support::program();
    for script in [
        "\"$0\" ls >&-",
        "\"$0\" ls 2>&-",
        "\"$0\" ls <&- >&- 2>&-",
        "\"$0\" ls | head -0",
    ] {
        let mut command = island.command("sh", &island.home());
        let ran = Ran::new(command.args(["-c", script]).arg(program));
        assert!(!ran.stderr.contains("panic"), "{script}: {ran:?}");
        assert!(matches!(ran.code, Some(0 | 1)), "{script}: {ran:?}");
    }
}

#[test]
fn help_is_an_answer_and_nothing_at_all_is_an_overview() {
    let island = Island::new();
    for arguments in [
        &["--help"][..],
        &["help"],
        &["up", "--help"],
        &["daemon", "--help"],
        &["--version"],
    ] {
        let ran = island.holm(arguments).ok();
        assert_eq!(ran.stderr, "", "{arguments:?}");
        assert!(ran.out().contains("holm"), "{arguments:?}");
    }
    assert!(!island.holm_home().exists(), "no daemon was started");
    let bare = island.holm(&[]).ok();
    assert_eq!(bare.stderr, "");
    assert!(bare.out().contains("Not in a git repository"), "{bare:?}");
}
