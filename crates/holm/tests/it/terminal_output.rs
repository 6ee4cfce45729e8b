//! What commands write to the user's terminal of what a guest chose: text and colours, never what a
//! terminal would obey. On real pseudo terminals.

use crate::support::{Act, Island, play, program};
use std::os::unix::fs::PermissionsExt;

/// Sets the clipboard, the title and a mode, asks for answers, and writes colours between.
const HOSTILE: &str = "printf 'one\\033]52;c;aGk=\\007 \\033[31mred\\033[m\\ttab \\033]0;title\\007\\033P$qm\\033\\\\\\033[6n\\033[?25ltwo\\n'";

/// Goes back to the first column, and writes a line as holm would.
const FAKE: &str = "printf '\\r\\033[2K\\033[G✓ claude ended after 1 s\\n'";

const CLIPBOARD: &str = "\u{1b}]52;c;aGk=\u{7}";

/// Shows what a terminal obeyed, apart from colours and where the cursor is.
fn obeyed(screen: &str) -> Option<String> {
    let starts = [
        "\u{1b}]",
        "\u{1b}P",
        "\u{1b}[6n",
        "\u{7}",
        "\u{9b}",
        "\u{9d}",
        "\u{1b}_",
    ];
    let found = starts.iter().find(|start| screen.contains(**start));
    found.map(|start| format!("{start:?} in {screen:?}"))
}

#[test]
fn a_run_is_drawn_safely_on_a_terminal_and_exact_elsewhere() {
    let island = Island::new();
    island.repository("shop").up("x");
    let both = format!("{HOSTILE}; {HOSTILE} >&2; {FAKE} >&2");
    let home = island.home();
    let on_terminal = |arguments: &[&str]| island.play(&home, arguments, &[]).screen;
    let screen = on_terminal(&["run", "x", "--", "sh", "-c", &both]);
    assert_eq!(obeyed(&screen), None);
    assert_eq!(
        screen
            .matches("│\u{1b}[m one \u{1b}[31mred\u{1b}[m tab two")
            .count(),
        2,
        "{screen:?}"
    );
    // A line that imitates holm stands behind the gutter.
    assert!(
        screen.contains("│\u{1b}[m ✓ claude ended after 1 s"),
        "{screen:?}"
    );
    // The program wrote its line to both streams, and the heading is holm's own.
    assert!(screen.contains(" in x: \u{1b}[2mr"), "{screen:?}");
    // The program did write all of it: with `--raw`, and through pipes, it is there.
    let raw = on_terminal(&["run", "x", "--raw", "--", "sh", "-c", &both]);
    assert_eq!(raw.matches(CLIPBOARD).count(), 2, "{raw:?}");
    assert!(raw.contains("\u{1b}[G✓ claude ended after 1 s"), "{raw:?}");
    let piped = island.holm(&["run", "x", "--", "sh", "-c", &both]).ok();
    let exact = island.sh("x", HOSTILE).ok().stdout;
    assert_eq!(piped.stdout, exact);
    assert!(String::from_utf8_lossy(&exact).contains(CLIPBOARD));
    // stdout is a file, stderr the terminal.
    let file = home.join("out");
    let mut command = island.command("sh", &home);
    let program = crate::support::program();
    command.args(["-c", "\"$0\" run x -- sh -c \"$1\" > \"$2\""]);
    command.arg(program).arg(&both).arg(&file);
    let screen = play(&command, &[]).screen;
    assert_eq!(obeyed(&screen), None);
    assert!(screen.contains("\u{1b}[31mred"), "{screen:?}");
    assert_eq!(std::fs::read(&file).unwrap(), exact);
    // The record is shown in the same way.
    let list = island.holm(&["runs", "ls", "x", "--json"]).json();
    let run = list["runs"][0]["id"].as_str().unwrap();
    let screen = on_terminal(&["runs", "show", run, "--output"]);
    assert_eq!(obeyed(&screen), None);
    assert!(screen.contains("\u{1b}[31mred"), "{screen:?}");
    let raw = on_terminal(&["runs", "show", run, "--output", "--raw"]);
    assert_eq!(raw.matches(CLIPBOARD).count(), 2, "{raw:?}");
    // `exec` is the user's own program in another place: every byte arrives.
    let exec = on_terminal(&["exec", "x", "--", "sh", "-c", HOSTILE]);
    assert!(exec.contains(CLIPBOARD), "{exec:?}");
}

/// Names of files, logs, messages, reasons: a guest can choose them all.
#[test]
fn no_command_has_a_terminal_obey_a_guest() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[services.api]\nrun = '''printf 'log\\033]0;title\\007\\302\\233\\n'; exec sleep 1000'''\n\
         [services.bad]\nrun = '''printf 'bad\\033]0;title\\007\\n'; exit 1'''\nrestart = \"no\"\n",
    );
    repository.commit("services");
    let home = island.home();
    let failing = island.play(&repository.path, &["up", "x"], &[]);
    assert_eq!(obeyed(&failing.screen), None);
    assert!(
        failing.screen.contains("bad\\u{1b}]0;title"),
        "{:?}",
        failing.screen
    );
    let script = "name=$(printf 'f\\033]0;title\\007\\302\\233'); echo \"$name\" > \"$name\"; git add .; \
        git -c user.name=\"$name\" -c user.email=a@example.org commit -qm \"$name\"; echo \"$name\" > new";
    island.sh("x", script).ok();
    island.holm(&["run", "x", "--", "sh", "-c", script]);
    let session = [
        "session", "new", "x", "--name", "s", "--detach", "--", "sh", "-c",
    ];
    let hostile = format!("{HOSTILE}; exec sleep 1000");
    island.holm(&[&session[..], &[&hostile]].concat()).ok();
    crate::support::eventually("the session has written", || {
        island
            .holm(&["session", "read", "s", "--since", "0"])
            .ok()
            .out()
            .contains("two")
    });
    let list = island.holm(&["runs", "ls", "x", "--json"]).json();
    let run = list["runs"][0]["id"].as_str().unwrap();
    for arguments in [
        &["logs", "x"][..],
        &["diff", "x"],
        &["diff", "x", "--json"],
        &["changes", "x"],
        &["changes", "x", "--json"],
        &["runs", "ls", "x"],
        &["runs", "show", run],
        &["runs", "show", run, "--json"],
        &["session", "read", "s", "--since", "0"],
        &["session", "read", "s"],
        &["session", "ls"],
        &["show", "x"],
        &["ls"],
        &["egress", "x"],
        &["events"],
        &["rm", "x"],
        &["fetch", "x"],
    ] {
        let screen = island.play(&home, arguments, &[]).screen;
        assert_eq!(obeyed(&screen), None, "{arguments:?}");
    }
    let following = island.play(
        &home,
        &["logs", "x", "api", "-f"],
        &[Act::See("log\\u{1b}]0;title"), Act::Type("\u{3}")],
    );
    assert_eq!(obeyed(&following.screen), None);
}

#[test]
fn progress_has_no_colour_where_none_is_wanted() {
    let island = Island::new();
    let repository = island.repository("shop");
    let service = "until [ -e /tmp/go ]; do sleep 0.05; done; exec python3 -m http.server 8000";
    let holm_toml = format!(
        "[ports]\nweb = 8000\n[services.web]\nrun = \"{service}\"\nready = {{ tcp = \"web\" }}\n"
    );
    repository.write("holm.toml", holm_toml);
    repository.commit("a service");
    for (label, is_plain) in [("a", true), ("b", false)] {
        let mut up = island.holm_command(&repository.path, &["up", label]);
        if is_plain {
            up.env("NO_COLOR", "1");
        }
        let go = format!("{} exec {label} -- touch /tmp/go", program().display());
        let acts = [
            Act::See("starting"),
            Act::Meanwhile(&go),
            Act::See("ready in"),
        ];
        let screen = play(&up, &acts).screen;
        let is_coloured = screen.contains("\u{1b}[36m") || screen.contains("\u{1b}[1m");
        assert_eq!(is_coloured, !is_plain, "{screen:?}");
    }
}

#[test]
fn an_error_is_not_drawn_into_a_pager() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let pager = island.write("pager", "#!/bin/sh\necho paged\ncat\n");
    std::fs::set_permissions(&pager, std::fs::Permissions::from_mode(0o755)).unwrap();
    let diff = |workspace: &str| {
        let mut diff = island.holm_command(&repository.path, &["diff", workspace]);
        play(diff.env("PAGER", &pager), &[]).screen
    };
    let missing = diff("nope");
    assert!(
        missing.contains("no workspace nope") && !missing.contains("paged"),
        "{missing:?}"
    );
    assert!(!diff("x").contains("paged"), "nothing changed");
    island.sh("x", "echo new > new").ok();
    let changed = diff("x");
    assert!(
        changed.contains("paged") && changed.contains("+new"),
        "{changed:?}"
    );
    // A review shows its difference in the pager, unless only the numbers are wanted.
    let review = |more: &[&str], variable: Option<&str>| {
        let words = [&["review", "x"], more].concat();
        let mut review = island.holm_command(&repository.path, &words);
        review.env("PAGER", &pager);
        review.envs(variable.map(|name| (name, "1")));
        play(&review, &[]).screen
    };
    let whole = review(&[], None);
    assert!(
        whole.contains("Evidence") && whole.contains("paged") && whole.contains("+new"),
        "{whole:?}"
    );
    assert!(whole.contains("\u{1b}[1m"), "{whole:?}");
    let short = review(&["--stat"], Some("NO_COLOR"));
    assert!(
        short.contains("Evidence") && !short.contains("paged") && !short.contains("\u{1b}[1m"),
        "{short:?}"
    );
}
