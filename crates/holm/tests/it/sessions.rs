//! Sessions as people and programs use them: started, listed, typed to, read, waited for, attached to
//! from several terminals, and ended.

use crate::support::{Act, Island, eventually, play};
use holm_api::client::AttachEvent;
use holm_api::session::Attach;
use holm_core::session::protocol::AttachMessage;
use holm_core::{SessionId, WorkspaceId};
use serde_json::Value;

fn new(island: &Island, arguments: &[&str]) -> String {
    island
        .holm(&[&["session", "new"], arguments].concat())
        .ok()
        .out()
}

fn list(island: &Island) -> Vec<Value> {
    let list = island.holm(&["session", "ls", "--json"]).json();
    list["sessions"].as_array().unwrap().clone()
}

fn session(island: &Island, id: &str) -> Value {
    let found = list(island).into_iter().find(|one| one["id"] == id);
    found.unwrap_or_else(|| panic!("no session {id}"))
}

/// The groups of the workspaces in `ls`.
fn groups(island: &Island) -> Vec<String> {
    let listed = island.holm(&["ls"]).ok().out();
    let groups = listed.lines().map(|line| line.split("  ").next().unwrap());
    groups.map(str::to_owned).collect()
}

fn read(island: &Island, id: &str) -> String {
    island.holm(&["session", "read", id]).ok().out()
}

fn kinds(island: &Island, kind: &str) -> Vec<Value> {
    let ran = island.holm(&["events", "--json"]).ok();
    let text = String::from_utf8(ran.stdout).unwrap();
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == kind).collect()
}

#[test]
fn a_session_is_started_typed_to_read_waited_for_and_ended() {
    let island = Island::new();
    island.repository("shop").up("x");
    island.holm(&["stop", "x"]).ok();
    // Started with it; a shell in the project's root.
    let refused = island.holm(&["session", "new", "x", "--no-start", "--json"]);
    assert_eq!(refused.error(4)["code"], "not_running");
    let id = new(&island, &["x", "--name", "review", "--size", "100x30"]);
    assert!(SessionId::parse(&id).is_ok(), "{id}");
    let found = session(&island, &id);
    assert_eq!(found["state"], "running");
    assert_eq!(groups(&island), ["working"]);
    assert_eq!(
        (&found["name"], &found["cols"]),
        (&"review".into(), &100.into())
    );
    let sent = island.holm(&[
        "session",
        "send",
        "review",
        "--enter",
        "--json",
        "echo $((40 + 2))-$TERM; stty size; printf '\\033[1;31mred\\033[m\\n'",
    ]);
    let cursor = sent.json()["cursor"].as_u64().unwrap();
    let waited = island
        .holm(&["session", "wait", &id, "--for", "^red$", "--json"])
        .json();
    assert_eq!(
        (&waited["reason"], &waited["matched"]),
        (&"matched".into(), &"red".into())
    );
    // The screen and the output are text, without a single escape.
    let screen = read(&island, &id[..6]);
    for expected in ["42-xterm-256color", "30 100", "red", "(x) "] {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    let since = cursor.to_string();
    let text = island
        .holm(&["session", "read", "x/review", "--since", &since, "--json"])
        .json();
    let output = text["text"].as_str().unwrap();
    assert!(
        output.contains("42-xterm-256color\n30 100\nred\n"),
        "{output:?}"
    );
    assert!(!output.contains(['\u{1b}', '\r', '\u{7}']), "{output:?}");
    assert_eq!(text["missed"], 0);
    let end = text["cursor"].as_u64().unwrap().to_string();
    assert_eq!(
        island
            .holm(&["session", "read", &id, "--since", &end])
            .ok()
            .out(),
        ""
    );
    // Named keys, text on stdin, waiting for quiet and for too long.
    island
        .holm(&[
            "session",
            "send",
            &id,
            "echo be''gun; cat > ~/typed",
            "--enter",
        ])
        .ok();
    // From now on lines are the terminal's, not the shell's.
    island
        .holm(&["session", "wait", &id, "--for", "^begun$"])
        .ok();
    let mut piped = island.holm_command(&island.home(), &["session", "send", &id]);
    let file = island.write("message", "größe from a file\n");
    piped.stdin(std::fs::File::open(file).unwrap());
    crate::support::Ran::new(&mut piped).ok();
    island
        .holm(&["session", "send", &id, "--keys", "C-d", "Space", "Enter"])
        .ok();
    island
        .holm(&["session", "wait", &id, "--idle", "300ms"])
        .ok();
    eventually("it was typed", || {
        island.sh("x", "cat ~/typed").out() == "größe from a file"
    });
    island
        .holm(&[
            "session",
            "wait",
            &id,
            "--for",
            "never",
            "--timeout",
            "200ms",
        ])
        .exits(124);
    // Wrong input is refused with a hint.
    let usage = |arguments: &[&str], code: i32, expected: &str| {
        let error = island
            .holm(&[&["--json", "session"], arguments].concat())
            .error(code);
        assert_eq!(error["code"], expected, "{arguments:?}: {error}");
    };
    usage(
        &["new", "x", "--name", "review", "--detach"],
        4,
        "already_exists",
    );
    usage(&["new", "x", "--name", "Not A Name"], 2, "invalid_label");
    usage(
        &["new", "x", "--parent", "nobody", "--detach"],
        3,
        "session_not_found",
    );
    usage(&["read", "nobody"], 3, "session_not_found");
    usage(&["send", &id, "--keys", "Nokey"], 2, "usage");
    usage(&["send", &id], 2, "usage");
    usage(&["wait", &id, "--for", "("], 2, "bad_request");
    usage(&["attach", &id], 2, "usage");
    usage(&["new", "x", "--", "no-such-program"], 1, "exec_failed");
    // It ends by itself, and stays listed with its code and its last screen.
    island
        .holm(&["session", "send", &id, "exit 7", "--enter"])
        .ok();
    let waited = island.holm(&["session", "wait", &id, "--json"]).json();
    assert_eq!(
        (&waited["reason"], &waited["exit_code"]),
        (&"exited".into(), &7.into())
    );
    assert_eq!(groups(&island), ["idle"]);
    let found = session(&island, &id);
    assert_eq!(
        (&found["state"], &found["exit_code"]),
        (&"exited".into(), &7.into())
    );
    assert!(
        found["ended_at"].is_string() && found["pid"].is_null(),
        "{found}"
    );
    assert!(read(&island, "review").contains("exit 7"));
    usage(&["send", &id, "more"], 4, "session_ended");
    usage(&["kill", &id], 4, "session_ended");
    // The name is free again.
    let next = new(&island, &["x", "--name", "review", "--", "sleep", "1000"]);
    assert_eq!(
        session(&island, &next)["command"],
        serde_json::json!(["sleep", "1000"])
    );
    // Events tell of it all.
    eventually("it is told", || {
        let count = |kind: &str| kinds(&island, kind).len();
        (count("session.started"), count("session.exited")) == (2, 1)
    });
    let exited = &kinds(&island, "session.exited")[0];
    assert_eq!(
        (&exited["session"], &exited["exit_code"]),
        (&id.as_str().into(), &7.into())
    );
    // A stopped workspace has ended its sessions, and lists them, also after a new start.
    island.holm(&["stop", "x"]).ok();
    for _ in 0..2 {
        let found = session(&island, &next);
        assert_eq!(found["state"], "exited", "{found}");
        assert_eq!(found["reason"], "the workspace was stopped");
        island.holm(&["start", "x"]).ok();
    }
    assert_eq!(session(&island, &id)["exit_code"], 7);
    usage(&["read", &next], 4, "session_ended");
    // The same for one that is killed from outside.
    let last = new(&island, &["x", "--", "sleep", "1000"]);
    let workspace = session(&island, &last)["workspace"]
        .as_str()
        .unwrap()
        .to_owned();
    let keeper = island.keeper_of(&workspace).unwrap();
    crate::support::send(keeper, rustix::process::Signal::KILL);
    eventually("it has ended", || {
        session(&island, &last)["state"] == "exited"
    });
    assert_eq!(session(&island, &last)["exit_code"], 137);
    island.holm(&["rm", "x", "--force"]).ok();
    assert_eq!(list(&island), Vec::<Value>::new());
}

#[test]
fn children_end_with_their_parent_and_who_rings_is_heard() {
    let island = Island::new();
    island.repository("shop").up("x");
    let stubborn = "trap '' TERM HUP; echo ready; while :; do sleep 0.1; done";
    let parent = new(&island, &["x", "--name", "top", "--", "sh", "-c", stubborn]);
    let child = new(&island, &["x", "--parent", "top", "--", "sleep", "1000"]);
    let grandchild = new(&island, &["x", "--parent", &child, "--", "sleep", "1000"]);
    let other = new(&island, &["x", "--", "sleep", "1000"]);
    let shown = island.holm(&["session", "ls"]).ok().out();
    let place = |id: &str| shown.lines().position(|line| line.contains(id)).unwrap();
    assert_eq!(
        [&parent, &child, &grandchild].map(|id| place(id)),
        [0, 1, 2],
        "{shown}"
    );
    // A child that ends by itself does not affect the others.
    island
        .holm(&["session", "wait", "top", "--for", "ready"])
        .ok();
    let ended = island.holm(&["session", "kill", "top", "--json"]).json();
    let ended: Vec<_> = ended["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(
        ended,
        [&parent, &child, &grandchild].map(|id| Value::from(id.as_str()))
    );
    assert_eq!(
        session(&island, &parent)["exit_code"],
        137,
        "it was killed in the end"
    );
    assert_eq!(session(&island, &child)["reason"], "killed");
    assert_eq!(session(&island, &other)["state"], "running");
    // The bell, and words; as often as it likes, and told only now and then.
    let script = "printf '\\033]9;needs \\033[31myou\\007'; printf '\\033]777;notify;Agent;look here\\007'; \
                  for i in $(seq 300); do printf '\\007'; done; echo rung; exec sleep 1000";
    let rings = new(&island, &["x", "--name", "rings", "--", "sh", "-c", script]);
    island
        .holm(&["session", "wait", "rings", "--for", "rung"])
        .ok();
    eventually("it is heard", || {
        let told = kinds(&island, "session.attention");
        let is_told = |text: Value| told.iter().any(|event| event["text"] == text);
        is_told("Agent;look here".into()) && is_told(Value::Null)
    });
    let told = kinds(&island, "session.attention");
    assert!(told.len() <= 12, "{told:?}");
    let all = serde_json::to_string(&told).unwrap();
    assert!(!all.contains("\\u001b"), "{all}");
    assert!(session(&island, &rings)["attention"].is_object());
    assert_eq!(groups(&island), ["needs-you"]);
    island.holm(&["session", "send", "rings", "seen"]).ok();
    assert!(session(&island, &rings)["attention"].is_null());
    assert_eq!(groups(&island), ["working"]);
    // An agent of the settings, with its credentials while it runs.
    island.make_dir("holm/config");
    let settings = "[agents.mine]\ncommand = [\"sh\", \"-c\", \"echo key-$MY_KEY-$(cat ~/.mine); sleep 1000\"]\n\
                    env = [\"MY_KEY\"]\nfiles = [\"~/.mine\"]\n";
    island.write("holm/config/config.toml", settings);
    island.write("home/.mine", "file");
    let arguments = ["session", "new", "x", "--agent", "mine"];
    let mut command = island.holm_command(&island.home(), &arguments);
    let agent = crate::support::Ran::new(command.env("MY_KEY", "value"))
        .ok()
        .out();
    island
        .holm(&[
            "session",
            "wait",
            &agent,
            "--for",
            "^key-value-file$",
            "--timeout",
            "60s",
        ])
        .ok();
    assert_eq!(session(&island, &agent)["agent"], "mine");
    let stored = std::fs::read_to_string(island.data().join(format!(
        "workspaces/{}/sessions.json",
        session(&island, &agent)["workspace"].as_str().unwrap()
    )));
    assert!(
        !stored.unwrap().contains("value"),
        "values are not written down"
    );
    island.holm(&["session", "kill", &agent]).ok();
    eventually("what it was given is gone", || {
        island.sh("x", "test -e ~/.mine").code == Some(1)
    });
    let missing = island.holm(&["session", "new", "x", "--agent", "nobody", "--json"]);
    assert_eq!(missing.error(3)["code"], "agent_not_found");
}

/// As interactive shells do: SIGTERM means nothing to it.
const LIKE_A_SHELL: &str = "trap '' TERM; trap 'echo closed > ~/mark; exit' HUP; echo begun > ~/mark; while :; do sleep 0.1; done";

#[test]
fn a_shell_on_a_terminal_ends_as_if_its_terminal_was_closed() {
    let island = Island::new();
    island.repository("shop").up("x");
    new(&island, &["x", "--", "sh", "-c", LIKE_A_SHELL]);
    let mark = || island.sh("x", "cat ~/mark").out();
    eventually("the session traps its signals", || mark() == "begun");
    island.holm(&["stop", "x"]).ok();
    assert_eq!(mark(), "closed");
}

#[test]
fn terminals_come_and_go_and_see_the_same_screen() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "long",
        (1..200).map(|n| format!("line {n}\n")).collect::<String>(),
    );
    repository.commit("long");
    repository.up("x");
    let attach = |id: &str, more: &[&str]| {
        let arguments = [&["session", "attach", id], more].concat();
        island.holm_command(&island.home(), &arguments)
    };
    // On a terminal it attaches at once, with the terminal's own size; ctrl-\ leaves it running.
    let command = island.holm_command(&island.home(), &["session", "new", "x", "--name", "sh"]);
    let played = play(
        &command,
        &[
            Act::See("(x) "),
            Act::Type("stty size\r"),
            Act::See("24 80"),
            Act::Type("vi -u NONE long\r"),
            Act::See("line 20"),
            Act::Type("ofrom the first\u{1b}"),
            Act::See("from the first"),
            Act::Type("\u{1c}"),
        ],
    );
    assert_eq!(played.code, 0, "{played:?}");
    assert!(played.is_restored, "{played:?}");
    assert!(played.screen.contains("detached"), "{played:?}");
    let end = played
        .screen
        .rfind("\u{1b}[?1049l")
        .expect("back on the first screen");
    assert!(!played.screen[end..].contains("from the first"));
    eventually("nobody looks any more", || {
        session(&island, &session_id(&island, "sh"))["viewers"] == 0
    });
    // A late one sees what the editor shows; another one beside it only looks, until it takes over.
    let second = std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            play(
                &attach("sh", &[]),
                &[
                    Act::See("from the first"),
                    Act::Type("oalone\u{1b}"),
                    Act::See("alone"),
                    // The editor has the size of the writer's terminal.
                    Act::Resize(40, 100),
                    Act::See("line 36"),
                    Act::See("writes; attach --take"),
                    Act::Type("onothing\u{1b}"),
                    Act::Type("\u{1c}"),
                ],
            )
        });
        eventually("the first writes", || {
            session(&island, &session_id(&island, "sh"))["rows"] == 40
        });
        let second = play(
            &attach("sh", &[]),
            &[
                Act::See("alone"),
                Act::See("writes; attach --take"),
                Act::Type("olost\u{1b}"),
                Act::See("writes; attach --take"),
                Act::Type("\u{1c}"),
            ],
        );
        let third = play(
            &attach("sh", &["--take"]),
            &[
                Act::See("from the first"),
                Act::Type("othird\u{1b}"),
                Act::See("third"),
                Act::Type(":wq\r"),
                Act::See("(x) "),
                Act::Type("exit 5\r"),
            ],
        );
        assert_eq!(third.code, 5, "{third:?}");
        assert!(third.is_restored, "{third:?}");
        // The first client was informed, detached or not when the program ended.
        let first = first.join().unwrap();
        assert!(first.is_restored, "{first:?}");
        assert!(matches!(first.code, 0 | 5), "{first:?}");
        second
    });
    assert_eq!(second.code, 0, "{second:?}");
    let text = island.sh("x", "head -5 long").ok().out();
    assert_eq!(text, "line 1\nfrom the first\nalone\nthird\nline 2");
    // Full-screen programs are read as text, and less is ended by a key.
    let id = new(&island, &["x", "--", "less", "long"]);
    island
        .holm(&[
            "session",
            "wait",
            &id,
            "--for",
            "line 19",
            "--timeout",
            "60s",
        ])
        .ok();
    island.holm(&["session", "send", &id, "--keys", "End"]).ok();
    island.holm(&["session", "send", &id, "G"]).ok();
    eventually("the end is shown", || {
        read(&island, &id).contains("line 199")
    });
    assert!(!read(&island, &id).contains("line 20\n"));
    island.holm(&["session", "send", &id, "q"]).ok();
    island
        .holm(&["session", "wait", &id, "--timeout", "60s"])
        .ok();
    let id = new(&island, &["x", "--size", "120x50", "--", "top"]);
    eventually("top shows its table", || {
        read(&island, &id).contains("PID USER")
    });
    island.holm(&["session", "kill", &id]).ok();
}

fn session_id(island: &Island, name: &str) -> String {
    let all = list(island);
    let found = all.iter().find(|one| one["name"] == name).unwrap();
    found["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_survives_the_daemon_and_its_client_goes_on_by_itself() {
    let island = Island::new();
    let workspace = island.repository("shop").up("x");
    let id = new(&island, &["x", "--name", "shell"]);
    let command = island.holm_command(&island.home(), &["session", "attach", "shell"]);
    let played = std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_there =
                |file: &str| island.sh("x", &format!("test -e ~/{file}")).code == Some(0);
            eventually("the shell is there", || is_there("ready"));
            island.kill_daemon();
            island.sh("x", "touch ~/killed").ok();
        });
        let acts = [
            Act::Type("touch ~/ready; until [ -e ~/killed ]; do sleep 0.02; done; echo ba''ck\r"),
            Act::See("back"),
            Act::Resize(30, 100),
            Act::Type(
                "until stty size | grep '30 100'; do sleep 0.02; done; printf '\\007'; exit 6\r",
            ),
        ];
        play(&command, &acts)
    });
    assert_eq!(played.code, 6, "{}", played.screen);
    assert!(played.is_restored);
    assert_eq!(session(&island, &id)["exit_code"], 6);
    // The next daemon reports what happened without a daemon.
    let script = "until [ -e ~/go ]; do sleep 0.02; done; printf '\\033]9;alone\\007'; exit 9";
    let id = new(&island, &["x", "--", "sh", "-c", script]);
    island.kill_daemon();
    let home = island
        .data()
        .join("workspaces")
        .join(&workspace)
        .join("home");
    std::fs::write(home.join("go"), "").unwrap();
    let file = island
        .data()
        .join("workspaces")
        .join(&workspace)
        .join("sessions.json");
    eventually("it has ended", || {
        let text = std::fs::read_to_string(&file).unwrap();
        let all: Vec<Value> = serde_json::from_str(&text).unwrap();
        all.iter()
            .any(|one| one["id"] == id && one["exit_code"] == 9)
    });
    eventually("it is told", || {
        kinds(&island, "session.exited")
            .iter()
            .any(|event| event["session"] == id)
    });
    eventually("the bell, too", || {
        let rung = kinds(&island, "session.attention");
        rung.iter().any(|event| event["text"] == "alone")
    });
    // A WebSocket client that reconnects misses nothing and gets nothing twice. The program
    // continues when the client has dropped, so that there is something to miss.
    let script = "for n in 1 2 3 4; do for i in $(seq $((n * 500 - 499)) $((n * 500))); do echo number $i; done; \
                  until [ -e ~/dropped$n ]; do sleep 0.02; done; done; exec sleep 1000";
    let id = new(&island, &["x", "--", "sh", "-c", script]);
    let (workspace, session) = (
        WorkspaceId::parse(&workspace).unwrap(),
        SessionId::parse(&id).unwrap(),
    );
    let (mut text, mut cursor, mut part) = (String::new(), 0, 1);
    while part <= 4 {
        let last = format!("number {}\n", part * 500);
        island.api(async |client| {
            let attach = Attach {
                since: Some(cursor),
                ..Attach::default()
            };
            let mut socket = client
                .attach_session(&workspace, &session, &attach)
                .await
                .unwrap();
            let mut heard = 0;
            loop {
                match socket.receiver.next().await.unwrap() {
                    AttachEvent::Output(bytes) => {
                        text.push_str(std::str::from_utf8(&bytes).unwrap())
                    }
                    AttachEvent::Control(AttachMessage::Cursor(at)) => {
                        cursor = at;
                        heard += 1;
                        if heard == 5 || text.ends_with(&last) {
                            break;
                        }
                    }
                    AttachEvent::Control(_) => {}
                }
            }
        });
        if text.ends_with(&last) {
            island.sh("x", &format!("touch ~/dropped{part}")).ok();
            part += 1;
        }
    }
    let expected: String = (1..=2000)
        .map(|number| format!("number {number}\n"))
        .collect();
    assert_eq!(text, expected);
    // A live session counts as use, and a stopped workspace is not started by looking.
    island.holm(&["stop", "x"]).ok();
    assert_eq!(
        island.holm(&["show", "x", "--json"]).json()["state"],
        "stopped"
    );
    list(&island);
    assert_eq!(
        island.holm(&["show", "x", "--json"]).json()["state"],
        "stopped"
    );
}
