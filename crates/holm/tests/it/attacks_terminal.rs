//! What a program in a session can do to the terminals that look at it, to the keeper, and to others:
//! attacks 143 and 183, and sequences that type, retitle, copy or stay. The user's terminal is tmux,
//! which tells what happened to it.

use crate::support::{Act, Island, Ran, eventually, play, times};
use serde_json::Value;
use std::path::PathBuf;

/// What a hostile program prints: names, clipboards, questions that are answered by typing, character
/// sets, modes and strings of all kinds.
const HOSTILE: &[&str] = &[
    "\u{1b}_Gi=1,a=q;AAAA\u{1b}\\\u{1b}^pm\u{1b}\\\u{1b}Xsos\u{1b}\\",
    "\u{1b}]0;pwned\u{7}",
    "\u{1b}]2;pwned\u{1b}\\",
    "\u{1b}kpwned\u{1b}\\",
    "\u{1b}[22;0t\u{1b}[21t",
    "\u{1b}]52;c;cHduZWQ=\u{7}",
    "\u{1b}]52;c;?\u{7}",
    "\u{1b}[c\u{1b}[>c\u{1b}[=c\u{1b}Z\u{5}",
    "\u{1b}[5n\u{1b}[6n\u{1b}[?6n",
    "\u{1b}]10;?\u{7}\u{1b}]11;?\u{1b}\\",
    "\u{1b}[18t\u{1b}[14t",
    "\u{1b}P$qm\u{1b}\\\u{1b}P+q544e\u{1b}\\",
    "\u{1b}Ptmux;\u{1b}\u{1b}]0;pwned\u{7}\u{1b}\\",
    "\u{1b}[?1000h\u{1b}[?1003h\u{1b}[?1006h\u{1b}[?1004h\u{1b}[?2004h\u{1b}[?1h\u{1b}=",
    "\u{1b}[4h\u{1b}[20h\u{1b}[?5h\u{1b}[?6h\u{1b}[?7l\u{1b}[2;3r\u{1b}[?25l\u{1b}[5 q",
    "\u{1b}(0\u{e}\u{1b})0",
    "\u{1b}[200~typed\r\u{1b}[201~",
    "\u{9b}6n\u{9d}0;pwned\u{9c}",
    "\u{1b}]8;;http://example.org/\u{1b}\\link\u{1b}]8;;\u{1b}\\",
];

/// A terminal that can be asked.
struct Tmux<'a> {
    island: &'a Island,
    socket: PathBuf,
}

impl<'a> Tmux<'a> {
    fn new(island: &'a Island, name: &str, script: &str) -> Self {
        let socket = island.make_dir("tmux").join(name);
        let tmux = Self { island, socket };
        let program = crate::support::program().display().to_string();
        let script = script.replace("HOLM", &program);
        tmux.run(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "30",
            "sh",
            "-c",
            "sleep 1000",
        ]);
        for option in [
            "set-clipboard on",
            "allow-rename on",
            "allow-passthrough on",
            "remain-on-exit on",
        ] {
            let words: Vec<_> = option.split(' ').collect();
            tmux.run(&[&["set", "-g"], words.as_slice()].concat());
        }
        tmux.run(&["respawn-pane", "-k", "sh", "-c", &script]);
        tmux
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.island.command("tmux", &self.island.home());
        command.arg("-S").arg(&self.socket).args(arguments);
        command.env("TERM", "xterm-256color");
        Ran::new(&mut command)
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"]).out()
    }

    #[track_caller]
    fn sees(&self, text: &str) {
        eventually(&format!("{text} is seen: {}", self.screen()), || {
            self.screen().contains(text)
        });
    }

    /// What differs from the terminal's initial state.
    fn is_changed(&self) -> Vec<(&'static str, String)> {
        let expected = [
            ("alternate_on", "0"),
            ("cursor_flag", "1"),
            ("insert_flag", "0"),
            ("keypad_cursor_flag", "0"),
            ("keypad_flag", "0"),
            ("mouse_any_flag", "0"),
            ("mouse_sgr_flag", "0"),
            ("origin_flag", "0"),
            ("wrap_flag", "1"),
            ("scroll_region_upper", "0"),
            ("scroll_region_lower", "29"),
        ];
        let mut changed = Vec::new();
        for (name, value) in expected {
            let found = self
                .run(&["display-message", "-p", &format!("#{{{name}}}")])
                .out();
            if found != value {
                changed.push((name, found));
            }
        }
        if self
            .run(&["display-message", "-p", "#{pane_title}"])
            .out()
            .contains("pwned")
        {
            changed.push(("title", "pwned".to_owned()));
        }
        if self.run(&["list-buffers"]).out().contains("pwned") {
            changed.push(("clipboard", "pwned".to_owned()));
        }
        changed
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

/// Afterwards: input in this terminal that the user did not type, and whether letters are still
/// letters.
const AFTERWARDS: &str =
    "stty -echo -icanon min 0 time 10; cat > typed-NAME; printf '\\nlqk-over\\n'; sleep 1000";

#[test]
fn output_cannot_type_retitle_copy_or_stay() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("hostile", HOSTILE.concat());
    repository.commit("hostile");
    repository.up("x");
    // Without holm in between it works: the same bytes, the same terminal. Its typed answer is
    // waited for as long as the terminal needs.
    let afterwards = AFTERWARDS.replace("NAME", "plain");
    let script = format!(
        "stty raw -echo; cat {}; {}",
        repository.path.join("hostile").display(),
        afterwards.replace("time 10", "time 255")
    );
    let plain = Tmux::new(&island, "plain", &script);
    let typed = island.home().join("typed-plain");
    eventually("it was typed", || {
        std::fs::read(&typed).is_ok_and(|typed| typed.len() > 20)
    });
    for expected in [
        "title",
        "clipboard",
        "mouse_any_flag",
        "cursor_flag",
        "insert_flag",
    ] {
        eventually(expected, || {
            let changed = plain.is_changed();
            changed.iter().any(|(name, _)| *name == expected)
        });
    }
    drop(plain);
    // In a session the program gets its answers, and the terminal gets none of it.
    let inside = "stty raw -echo; printf 'begun\\r\\n'; until [ -e ~/go ]; do sleep 0.02; done; \
                  cat hostile; printf '\\033[r\\033[?6l\\033[4l\\033(B\\017\\033[?25h\\033[9;1HEND\\r\\n'; dd bs=1 count=60 of=replies 2>/dev/null; \
                  printf 'HEARD\\r\\n'; exec sleep 1000";
    let id = island
        .holm(&["session", "new", "x", "--detach", "--", "sh", "-c", inside])
        .ok()
        .out();
    let script = format!(
        "HOLM session attach {id}; {}",
        AFTERWARDS.replace("NAME", "held")
    );
    let held = Tmux::new(&island, "held", &script);
    held.sees("begun");
    island.sh("x", "touch ~/go").ok();
    held.sees("END");
    held.sees("HEARD");
    let replies = island.sh("x", "cat replies").ok().out();
    for expected in ["\u{1b}[?62;22c", "\u{1b}[>1;10;0c", "\u{1b}[0n"] {
        assert!(replies.contains(expected), "{replies:?}");
    }
    let names = |changed: Vec<(&'static str, String)>| changed.into_iter().map(|(name, _)| name);
    let while_attached: Vec<_> = names(held.is_changed()).collect();
    for never in [
        "title",
        "clipboard",
        "insert_flag",
        "origin_flag",
        "wrap_flag",
        "scroll_region_upper",
    ] {
        assert!(!while_attached.contains(&never), "{while_attached:?}");
    }
    // A later client gets no more than that.
    let late = Tmux::new(
        &island,
        "late",
        &format!("HOLM session attach --read-only {id}; sleep 1000"),
    );
    late.sees("END");
    let seen: Vec<_> = names(late.is_changed()).collect();
    assert_eq!(
        seen,
        ["alternate_on"],
        "of who only looks nothing else is asked"
    );
    // Detached, nothing is left: no mode, no character set, nothing typed.
    held.run(&["send-keys", "C-\\"]);
    held.sees("lqk-over");
    assert_eq!(held.is_changed(), []);
    assert_eq!(
        std::fs::read_to_string(island.home().join("typed-held")).unwrap(),
        ""
    );
    // Ended by a signal as well.
    drop(held);
    let played = play(
        &island.holm_command(&island.home(), &["session", "attach", "--take", &id]),
        &[Act::See("END"), Act::Signal(15)],
    );
    assert_eq!(played.code, 143);
    assert!(played.is_restored);
    let end = &played.screen[played.screen.rfind("END").unwrap()..];
    for reset in [
        "\u{1b}[?1003l",
        "\u{1b}[?2004l",
        "\u{1b}[?25h",
        "\u{1b}[?1049l",
        "\u{1b}(B",
    ] {
        assert!(end.contains(reset), "{reset:?} in {end:?}");
    }
    // As text there is nothing of it either.
    let text = island
        .holm(&["session", "read", &id, "--since", "0", "--json"])
        .json();
    let text = text["text"].as_str().unwrap();
    assert!(
        text.chars()
            .all(|one| !one.is_control() || one == '\n' || one == '\t'),
        "{text:?}"
    );
    let listed = island.holm(&["session", "ls"]).ok().out();
    assert!(!listed.contains('\u{1b}'), "{listed:?}");
}

fn resident(pid: i32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn attack_143_much_output_costs_no_memory_and_holds_up_nobody() {
    let island = Island::new();
    let workspace = island.repository("shop").up("x");
    let keeper = island.keeper_of(&workspace).unwrap();
    // One line without an end, a string without an end, and sequences that repeat, with no reader.
    let (length, sessions) = (times(8_000_000, 24_000_000), times(100, 200));
    let script = format!(
        "head -c {length} /dev/zero | tr '\\0' x; printf '\\033]0;'; head -c 24000000 /dev/zero | tr '\\0' y; \
         printf '\\007\\033P'; head -c 8000000 /dev/zero | tr '\\0' z; printf '\\033\\\\'; \
         for i in $(seq 2000); do printf 'q\\033[65535b'; done; printf '\\nEND\\n'; exec sleep 1000"
    );
    let before = resident(keeper, "VmRSS");
    let id = island
        .holm(&["session", "new", "x", "--detach", "--", "sh", "-c", &script])
        .ok()
        .out();
    // A client that is attached and does not read is not waited for either.
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let command = island.holm_command(&island.home(), &["session", "attach", &id]);
            play(
                &command,
                &[
                    Act::See("xxxx"),
                    Act::Signal(19),
                    Act::Meanwhile("true"),
                    Act::Signal(18),
                    Act::See("END"),
                    Act::Type("\u{1c}"),
                ],
            )
        });
        island
            .holm(&[
                "session",
                "wait",
                &id,
                "--for",
                "^END$",
                "--timeout",
                "100s",
            ])
            .ok();
        let slow = slow.join().unwrap();
        assert_eq!(slow.code, 0, "{slow:?}");
        assert!(
            slow.screen.len() < 8_000_000,
            "pictures, not everything: {}",
            slow.screen.len()
        );
    });
    let peak = resident(keeper, "VmHWM");
    assert!(peak < before + 32 * 1024, "{before} kB became {peak} kB");
    let text = island
        .holm(&["session", "read", &id, "--since", "0", "--json"])
        .json();
    assert!(
        text["missed"].as_u64().unwrap() > length - 4_000_000,
        "{}",
        text["missed"]
    );
    assert!(text["text"].as_str().unwrap().len() < 1 << 20);
    // Many at once, each of which answers.
    island.api(async |client| {
        let id = holm_core::WorkspaceId::parse(&workspace).unwrap();
        for number in 1..sessions {
            let command = ["sh", "-c", &format!("echo number {number}; exec cat")];
            let new = holm_api::session::NewSession {
                command: command
                    .map(|word| holm_api::exec::Bytes::Text(word.to_owned()))
                    .to_vec(),
                ..Default::default()
            };
            client.new_session(&id, &new).await.unwrap();
        }
        let all = client.sessions(&id).await.unwrap().sessions;
        let live: Vec<_> = all.iter().filter(|one| one.exit_code.is_none()).collect();
        assert_eq!(live.len(), sessions);
        for (number, session) in live.iter().enumerate().skip(1) {
            let session = holm_core::SessionId::parse(&session.id).unwrap();
            let wait = holm_api::session::Wait {
                pattern: Some(format!("^number {number}$")),
                since: Some(0),
                timeout_ms: Some(60_000),
                ..Default::default()
            };
            let waited = client.wait_for_session(&id, &session, wait).await.unwrap();
            assert_eq!(
                waited.reason,
                holm_core::session::protocol::WaitEnd::Matched,
                "{number}"
            );
        }
    });
    let full = resident(keeper, "VmRSS");
    let most = before + sessions as u64 * 800;
    assert!(full < most, "{before} kB became {full} kB");
    let use_of = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(use_of["state"], "running");
    island.holm(&["stop", "x"]).ok();
    let list = island.holm(&["session", "ls", "x", "--json"]).json();
    let list = list["sessions"].as_array().unwrap().clone();
    assert!(
        list.len() <= holm_core::session::MOST_ENDED,
        "{}",
        list.len()
    );
    assert!(list.iter().all(|one| one["state"] == "exited"));
}

#[test]
fn attack_183_whatever_the_command_line_is_there_is_a_sane_answer() {
    use std::os::unix::ffi::OsStrExt;
    let island = Island::new();
    island.repository("shop").up("x");
    let id = island
        .holm(&[
            "session",
            "new",
            "x",
            "--detach",
            "--",
            "sh",
            "-c",
            "stty raw -echo; echo ready; cat > ~/typed",
        ])
        .ok()
        .out();
    island
        .holm(&["session", "wait", &id, "--for", "ready"])
        .ok();
    // Bytes that are no text are typed as they are, and are no names.
    let bytes = std::ffi::OsStr::from_bytes(b"a\xff\xfeb");
    let run = |arguments: &[&std::ffi::OsStr]| {
        let mut command = island.command(crate::support::program(), &island.home());
        Ran::new(command.args(arguments))
    };
    let words = |words: &[&'static str]| {
        words
            .iter()
            .map(|word| std::ffi::OsStr::new(*word))
            .collect::<Vec<_>>()
    };
    run(&[
        words(&["session", "send"]),
        vec![std::ffi::OsStr::new(&id), bytes],
    ]
    .concat())
    .ok();
    eventually("it was typed", || {
        island.sh("x", "cat ~/typed").stdout == b"a\xff\xfeb"
    });
    for verb in ["attach", "read", "kill", "wait"] {
        let ran = run(&[words(&["session", verb]), vec![bytes]].concat());
        assert!(matches!(ran.code, Some(2 | 3)), "{verb}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    }
    // Ten thousand words.
    let many: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let script = [
        "session",
        "new",
        "x",
        "--detach",
        "--",
        "sh",
        "-c",
        "echo got $#",
        "name",
    ];
    let counted = island.holm(&[&script, many.as_slice()].concat()).ok().out();
    island
        .holm(&[
            "session",
            "wait",
            &counted,
            "--for",
            "^got 10000$",
            "--since",
            "0",
        ])
        .ok();
    // Closed descriptors and readers that went away.
    let program = crate::support::program().display().to_string();
    for (ends, codes) in [
        ("<&-", &[0][..]),
        (">&-", &[0, 1, 141]),
        ("2>&-", &[0]),
        ("<&- >&- 2>&-", &[0, 1, 141]),
        ("| true", &[0]),
    ] {
        let script = format!("{program} session ls x {ends}");
        let ran = island.run(&island.home(), "sh", &["-c", &script]);
        assert!(codes.contains(&ran.code.unwrap()), "{ends}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{ends}: {ran:?}");
    }
    let script = format!("{program} session attach {id} <&- >&- 2>&-");
    assert_eq!(
        island.run(&island.home(), "sh", &["-c", &script]).code,
        Some(2)
    );
    // A storm of new sizes: the last one counts.
    let shell = island.holm(&["session", "new", "x", "--detach"]).ok().out();
    let mut acts = vec![Act::See("(x) ")];
    for number in 0..300u16 {
        acts.push(Act::Resize(20 + number % 30, 60 + number % 50));
    }
    acts.push(Act::Resize(33, 99));
    acts.push(Act::Type(
        "until stty size | grep '33 99'; do sleep 0.02; done; exit 3\r",
    ));
    let command = island.holm_command(&island.home(), &["session", "attach", &shell]);
    let played = play(&command, &acts);
    assert_eq!(played.code, 3, "{played:?}");
    // Every wrong request is refused.
    let workspace = island.holm(&["show", "x", "--json"]).json();
    let workspace = workspace["id"].as_str().unwrap().to_owned();
    let base = format!("/api/v1/workspaces/{workspace}/sessions");
    for (method, path, body, status) in [
        ("POST", String::new(), "{\"command\":[\"a\\u0000b\"]}", 400),
        ("POST", String::new(), "{\"command\":[\"\"]}", 400),
        ("POST", String::new(), "{\"env\":[[\"\",\"x\"]]}", 400),
        ("POST", String::new(), "{\"what\":1}", 400),
        ("POST", String::new(), "{\"parent\":\"../x\"}", 404),
        ("GET", "/..%2f..".to_owned(), "", 404),
        ("GET", format!("/{id}/read?since=-1"), "", 400),
        ("GET", format!("/{id}/attach"), "", 400),
        ("POST", format!("/{id}/send"), "{\"keys\":[\"x\\ny\"]}", 400),
        (
            "POST",
            format!("/{id}/wait"),
            "{\"for\":\"(((((((\",\"timeout_ms\":1}",
            400,
        ),
        (
            "POST",
            format!("/{id}/wait"),
            "{\"for\":\"(a{1000}){1000}\",\"timeout_ms\":1}",
            400,
        ),
    ] {
        let (found, answer) = island.ask(method, &format!("{base}{path}"), body.as_bytes());
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(found, status, "{method} {path} {body}: {answer}");
        assert!(answer["error"]["code"].is_string());
    }
}
