//! `holm run` and `holm runs`: what an agent or command gets, prints, changes and leaves behind,
//! whichever process dies and however often it is requested.

use crate::support::{Island, Ran, Running, eventually, is_gone};
use holm_api::run::{CreateRun, RunEvent};
use holm_core::WorkspaceId;
use rustix::process::Signal;
use serde_json::Value;

/// Processes inside whose command line has this text.
fn count(island: &Island, text: &str) -> usize {
    let script = format!(
        "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f 2> /dev/null; echo; done | \
         grep -c '[s]leep {text}' || true"
    );
    island.sh("x", &script).ok().out().parse().unwrap()
}

fn show(island: &Island, run: &str) -> Value {
    island.holm(&["runs", "show", run, "--json"]).json()
}

fn newest(island: &Island) -> Value {
    let list = island.holm(&["runs", "ls", "x", "--json"]).json();
    let run = list["runs"][0]["id"].as_str().unwrap().to_owned();
    show(island, &run)
}

fn lines(ran: &Ran) -> Vec<Value> {
    let text = String::from_utf8(ran.stdout.clone()).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A run that was begun and not waited for.
fn begun(island: &Island, arguments: &[&str]) -> String {
    let arguments = [&["run", "--detach"], arguments].concat();
    island.holm(&arguments).ok().out()
}

fn ends_as(island: &Island, run: &str, state: &str) -> Value {
    eventually(&format!("{run} is {state}"), || {
        let seen = show(island, run);
        let now = seen["state"].as_str().unwrap();
        assert!(
            matches!(now, "queued" | "running") || now == state,
            "{seen:#}"
        );
        now == state
    });
    show(island, run)
}

#[test]
fn what_a_run_gets_says_changes_and_leaves_in_the_record() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("old.txt", "old\n");
    repository.write("moved.txt", "a line that stays\nanother\n");
    repository.commit("files");
    repository.up("x");
    let script = "cat; echo \"$A $HOLM_RUN\" >&2; echo new > new.txt; rm old.txt; echo more >> README.md; \
         git mv moved.txt there.txt; printf 'a\\0b' > b.bin; mkdir -p ignored; exit 3";
    let task = island.write("task.sh", "#!/bin/sh\n");
    std::fs::set_permissions(&task, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let file = format!("docs/deep/task.sh={}", task.display());
    let given = [
        "run",
        "x",
        "--env",
        "A=b=c",
        "--file",
        &file,
        "two\nlines",
        "--",
        "sh",
        "-c",
        script,
    ];
    let ran = island.holm(&given).exits(3);
    assert_eq!(
        ran.stdout, b"two\nlines",
        "exactly the message, and nothing else"
    );
    let run = newest(&island);
    let id = run["id"].as_str().unwrap();
    let said: Vec<&str> = ran.stderr.lines().collect();
    let heading = format!(" in x: {id}, at most 5 min, ctrl-C cancels");
    assert!(
        said[0].starts_with("◐ sh -c ") && said[0].ends_with(&heading),
        "{ran:?}"
    );
    assert_eq!(said[1], format!("b=c {id}"), "{ran:?}");
    assert!(
        said[2].starts_with("✗ sh -c ") && said[2].ends_with(&format!(", exit 3: {id}, turn @1")),
        "{ran:?}"
    );
    assert_eq!(
        (&run["state"], &run["exit_code"]),
        (&"failed".into(), &3.into())
    );
    assert_eq!(
        (&run["message"], &run["timeout_ms"]),
        (&"two\nlines".into(), &300_000.into())
    );
    assert!(
        run["duration_ms"].is_u64() && run["ended_at"].is_string(),
        "{run:#}"
    );
    let changes = run["changes"].as_array().unwrap();
    let told: Vec<_> = changes
        .iter()
        .map(|change| {
            let text = |key: &str| change[key].as_str().unwrap_or("-").to_owned();
            let binary = change["binary"].as_bool().unwrap();
            (
                text("path"),
                text("operation"),
                text("from"),
                binary,
                text("content"),
            )
        })
        .collect();
    let row = |path: &str, operation: &str, from: &str, binary, content: &str| {
        let owned = |text: &str| text.to_owned();
        (
            owned(path),
            owned(operation),
            owned(from),
            binary,
            owned(content),
        )
    };
    let readme = told.iter().find(|change| change.0 == "README.md").unwrap();
    assert!(
        readme.1 == "update" && readme.4.ends_with("more\n"),
        "{told:?}"
    );
    for expected in [
        row("new.txt", "create", "-", false, "new\n"),
        row("old.txt", "delete", "-", false, "-"),
        row(
            "there.txt",
            "rename",
            "moved.txt",
            false,
            "a line that stays\nanother\n",
        ),
        row("b.bin", "create", "-", true, "-"),
    ] {
        assert!(told.contains(&expected), "{expected:?} in {told:#?}");
    }
    // Files that were copied before it started are not its changes.
    assert_eq!(told.len(), 5, "{told:#?}");
    assert_eq!(
        island.sh("x", "stat -c %a docs/deep/task.sh").ok().out(),
        "755"
    );
    // The record has the same bytes, each where it belongs.
    let again = island.holm(&["runs", "show", id, "--output"]).ok();
    assert_eq!(again.stdout, b"two\nlines");
    assert_eq!(again.stderr, format!("b=c {id}\n"));
    let shown = island.holm(&["runs", "show", &id[..8]]).ok().out();
    assert!(
        shown.contains("there.txt") && shown.contains("> two"),
        "{shown}"
    );
    // For machines: a line for each piece, with its time.
    let ran = island.holm(&[
        "run",
        "x",
        "hi",
        "--json",
        "--",
        "sh",
        "-c",
        "cat; printf '\\377' >&2",
    ]);
    let told = lines(&ran.ok());
    assert_eq!(told[0]["run"]["state"], "running");
    let pieces = &told[1..told.len() - 1];
    let out = pieces.iter().find(|piece| piece["stdout"] == "hi").unwrap();
    assert!(out["time"].as_str().unwrap().ends_with('Z'), "{out}");
    assert!(
        pieces
            .iter()
            .any(|piece| piece["stderr"] == serde_json::json!([255]))
    );
    let last = told.last().unwrap();
    assert_eq!(
        (&last["exit_code"], &last["run"]["changed"]),
        (&0.into(), &0.into())
    );
    // The list is the newest first, in pages.
    let first = island
        .holm(&["runs", "ls", "--limit", "1", "--json"])
        .json();
    let next = first["next"].as_str().unwrap();
    let second = island
        .holm(&["runs", "ls", "--limit", "1", "--after", next, "--json"])
        .json();
    assert_eq!(second["runs"][0]["id"], id);
    assert_eq!(second["next"], Value::Null);
    let failed = island
        .holm(&["runs", "ls", "x", "--state", "failed", "--json"])
        .json();
    assert_eq!(failed["runs"].as_array().unwrap().len(), 1);
    eventually("its events are told", || {
        let events = island.holm(&["events", "--json"]).ok().out();
        events.contains("\"run.started\"") && events.contains("\"run.ended\"")
    });
    // Long files are reported only by size, and the total is limited, too.
    let script = "head -c 65536 /dev/zero | tr '\\0' x > fits; head -c 65537 /dev/zero | tr '\\0' y > long; \
         for n in $(seq 20); do head -c 60000 /dev/zero | tr '\\0' z > many$n; echo $n >> many$n; done";
    island.holm(&["run", "x", "--", "sh", "-c", script]).ok();
    let run = newest(&island);
    let changes = run["changes"].as_array().unwrap();
    let of = |path: &str| {
        let found = changes.iter().find(|change| change["path"] == path);
        let found = found.unwrap_or_else(|| panic!("{path}: {run:#}"));
        let length = found["content"].as_str().map(str::len);
        (found["size"].as_u64(), length)
    };
    assert_eq!(of("fits"), (Some(65_536), Some(65_536)));
    assert_eq!(of("long"), (Some(65_537), None));
    let contents = changes
        .iter()
        .filter_map(|change| change["content"].as_str());
    let all: usize = contents.map(str::len).sum();
    assert!((900_000..=1 << 20).contains(&all), "{all}");
}

#[test]
fn agents_are_configuration_and_get_what_is_theirs_only() {
    let island = Island::new();
    let home = island.home();
    island.write(home.join(".secret-file"), "content of the file");
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write(
        "holm/config/config.toml",
        "default_agent = \"mine\"\n\
         [agents.mine]\ncommand = [\"sh\", \"-c\", \"cat; echo; cat ~/.secret-file; stat -Lc %a ~/.secret-file; echo $A_TOKEN\"]\n\
         env = [\"A_TOKEN\"]\nfiles = [\"~/.secret-file\", \"~/.not-there\"]\n\
         [agents.theirs]\nenv = [\"A_TOKEN\"]\n\
         [agents.ghost]\ncommand = [\"no-such-agent\"]\n",
    );
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[agents.quick]\ncommand = [\"cat\"]\ntimeout = \"7s\"\n\
         [agents.theirs]\ncommand = [\"sh\", \"-c\", \"echo got $A_TOKEN\"]\n",
    );
    repository.commit("agents");
    // The repository defines the command that gets the user's credentials: that needs approval.
    let refused = repository.holm(&["up", "x", "--json"]).error(4);
    assert_eq!(refused["code"], "not_trusted");
    repository.holm(&["up", "x", "--untrusted"]).ok();
    let mut command = island.holm_command(&home, &["run", "x", "the message"]);
    let ran = Ran::new(command.env("A_TOKEN", "s3cr3t-value")).ok();
    assert_eq!(
        ran.out(),
        "the message\ncontent of the file400\ns3cr3t-value"
    );
    assert!(ran.stderr.contains(".not-there is not given"), "{ran:?}");
    // Gone with it, and nowhere written down.
    let rest =
        "cat ~/.secret-file; ls -A ~ | grep secret; ls -A /dev/shm/.holm-agents; env | grep TOKEN";
    assert_eq!(
        island
            .sh("x", &format!("({rest}) 2> /dev/null; true"))
            .ok()
            .out(),
        ""
    );
    let kept = island.run(
        &island.holm_home(),
        "grep",
        &["-rla", "s3cr3t-value\\|content of the file", "."],
    );
    assert!(
        !kept.out().lines().any(|file| !file.contains("/runs/")),
        "{kept:?}"
    );
    // Another agent gets nothing of it.
    let mut command = island.holm_command(
        &home,
        &["run", "x", "--agent", "shell", "echo \"$A_TOKEN\"; ls -A ~"],
    );
    let other = Ran::new(command.env("A_TOKEN", "s3cr3t-value")).ok();
    assert!(
        !other.out().contains("s3cr3t") && !other.out().contains(".secret-file"),
        "{other:?}"
    );
    let quick = island
        .holm(&["run", "x", "--agent", "quick", "--json", "quickly"])
        .ok();
    assert_eq!(lines(&quick).last().unwrap()["run"]["timeout_ms"], 7000);
    // The untrusted command was left out, so there is no such agent; approved it gets the value.
    island
        .holm(&["run", "x", "--agent", "theirs", "m", "--json"])
        .error(3);
    island.holm(&["reload", "x", "--inside", "--json"]).error(4);
    island.holm(&["reload", "x", "--inside", "--yes"]).ok();
    let mut command = island.holm_command(&home, &["run", "x", "--agent", "theirs", "m"]);
    assert_eq!(
        Ran::new(command.env("A_TOKEN", "value")).ok().out(),
        "got value"
    );
    // A caller inside could read the credentials, so the run gets none.
    let asked = "curl -s --unix-socket /run/holm/api.sock -H 'content-type: application/json' \
         -d '{\"agent\":\"mine\",\"message\":\"m\"}' \
         http://holm.localhost/api/v1/workspaces/$HOLM_WORKSPACE_ID/runs";
    let own = island.sh("x", asked).json();
    let ended = ends_as(&island, own["id"].as_str().unwrap(), "succeeded");
    assert!(
        ended["notes"]
            .to_string()
            .contains("is given no credentials"),
        "{ended:#}"
    );
    let said = island.holm(&["runs", "show", own["id"].as_str().unwrap(), "--output"]);
    assert_eq!(said.ok().out(), "m");
    // A missing program is reported with the command that adds it.
    let ghost = island
        .holm(&["run", "x", "--agent", "ghost", "m"])
        .exits(127);
    assert!(
        ghost
            .stderr
            .contains("`no-such-agent` of the agent `ghost` is not found inside"),
        "{ghost:?}"
    );
    // The shell exists, so 127 from its command is not reported as a missing agent.
    let shell = ["run", "x", "--agent", "shell", "no-such-command"];
    let shell = island.holm(&shell).exits(127);
    assert!(!shell.stderr.contains("is not found inside"), "{shell:?}");
    let nobody = island
        .holm(&["run", "x", "--agent", "nobody", "m", "--json"])
        .error(3);
    assert_eq!(nobody["code"], "agent_not_found");
    assert!(
        nobody["message"]
            .as_str()
            .unwrap()
            .contains("claude, codex"),
        "{nobody}"
    );
    assert!(
        nobody["hint"].as_str().unwrap().contains("[agents.nobody]"),
        "{nobody}"
    );
}

#[test]
fn a_run_that_is_ended_takes_all_of_its_processes_along() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    // Detached in every way: another session, no parent, no environment, deaf to SIGTERM.
    let lurkers = "env -i setsid sh -c 'setsid sleep 4242 & exec sleep 4242' & \
         env -i setsid sh -c 'trap \"\" TERM; (setsid sleep 4242 &) ; sleep 4242' & \
         sleep 4242 & echo ready; ";
    // A run that ends by itself leaves them, as `exec` does.
    let script = format!("{} sleep 0.2", lurkers.replace("4242", "4343"));
    island.holm(&["run", "x", "--", "sh", "-c", &script]).ok();
    eventually("they live on", || count(&island, "4343") >= 3);
    let script = format!("{lurkers} wait");
    let late = island
        .holm(&["run", "x", "--timeout", "2s", "--", "sh", "-c", &script])
        .exits(124);
    assert!(
        late.stderr.contains("hit its time limit of 2 s"),
        "{late:?}"
    );
    assert_eq!(count(&island, "4242"), 0);
    assert!(count(&island, "4343") >= 3, "others are left alone");
    assert_eq!(newest(&island)["state"], "timed_out");
    // Ctrl-C.
    let mut running = Running::new(
        &mut island.holm_command(&island.home(), &["run", "x", "--", "sh", "-c", &script]),
    );
    running.says("ready");
    running.signal(Signal::INT);
    assert_eq!(running.code(), Some(130));
    assert_eq!(count(&island, "4242"), 0);
    assert_eq!(newest(&island)["state"], "cancelled");
    // By another client, also for one that an earlier daemon started.
    let run = begun(&island, &["x", "--", "sh", "-c", &script]);
    eventually("it runs", || count(&island, "4242") >= 3);
    island.kill_daemon();
    let cancelled = island.holm(&["runs", "cancel", &run, "--json"]).json();
    assert_eq!(
        (&cancelled["state"], &cancelled["exit_code"]),
        (&"cancelled".into(), &130.into())
    );
    assert_eq!(count(&island, "4242"), 0);
    // With the workspace, stopped or killed: that is what the record says.
    let run = begun(&island, &["x", "--", "sleep", "4242"]);
    island.holm(&["stop", "x"]).ok();
    let stopped = ends_as(&island, &run, "cancelled");
    assert_eq!(stopped["reason"], "the workspace was stopped");
    island
        .holm(&["run", "x", "--no-start", "--json", "--", "true"])
        .error(4);
    let run = begun(&island, &["x", "--", "sleep", "4242"]);
    let keeper = island.keeper_of(&id).unwrap();
    crate::support::send(keeper, Signal::KILL);
    let lost = ends_as(&island, &run, "lost");
    assert_eq!(lost["reason"], "the workspace ended under it");
    // The run of a removed workspace can still be read.
    let run = begun(&island, &["x", "--", "sh", "-c", "echo said; sleep 4242"]);
    eventually("it said so", || {
        let record = island
            .data()
            .join("workspaces")
            .join(&id)
            .join("runs")
            .join(&run);
        std::fs::read(record.join(format!("out.{:020}", 0))).is_ok_and(|bytes| !bytes.is_empty())
    });
    island.holm(&["rm", "x", "--force"]).ok();
    ends_as(&island, &run, "cancelled");
    let output = island.holm(&["runs", "show", &run, "--output"]).ok();
    assert_eq!(output.out(), "said");
    assert!(island.inhabitants().into_iter().all(is_gone) || island.keeper_of(&id).is_none());
}

#[test]
fn a_run_does_not_notice_that_the_daemon_was_killed() {
    let island = Island::new();
    island.repository("shop").up("x");
    let script = "for n in 1 2 3; do echo line $n; until [ -e /tmp/go$n ]; do sleep 0.05; done; done; echo done > made.txt; exit 7";
    let mut running = Running::new(
        &mut island.holm_command(&island.home(), &["run", "x", "--", "sh", "-c", script]),
    );
    let detached = begun(
        &island,
        &[
            "x",
            "--",
            "sh",
            "-c",
            "until [ -e /tmp/go3 ]; do sleep 0.05; done; echo all",
        ],
    );
    for number in 1..=3 {
        running.says(&format!("line {number}"));
        island.kill_daemon();
        island.sh("x", &format!("touch /tmp/go{number}")).ok();
    }
    assert_eq!(running.code(), Some(7));
    let ended = ends_as(&island, &detached, "succeeded");
    assert_eq!(ended["exit_code"], 0);
    assert_eq!(
        island
            .holm(&["runs", "show", &detached, "--output"])
            .ok()
            .out(),
        "all"
    );
    let list = island.holm(&["runs", "ls", "x", "--json"]).json();
    let list = list["runs"].as_array().unwrap();
    let first = list.iter().find(|run| run["exit_code"] == 7).unwrap();
    let first = show(&island, first["id"].as_str().unwrap());
    assert_eq!(first["changes"][0]["path"], "made.txt", "{first:#}");
    let output = island
        .holm(&["runs", "show", first["id"].as_str().unwrap(), "--output"])
        .ok();
    assert_eq!(output.out(), "line 1\nline 2\nline 3", "each once");
    assert_eq!(list.len(), 2, "{list:#?}");
}

#[test]
fn a_request_with_the_same_key_runs_once() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let script = "echo once >> /tmp/count; cat";
    let request = |message| {
        [
            "run", "x", "--key", "order-66", message, "--", "sh", "-c", script,
        ]
    };
    let times = || island.sh("x", "wc -l < /tmp/count").ok().out();
    // At the same time, from many.
    let mut all: Vec<Running> = (0..6)
        .map(|_| Running::new(&mut island.holm_command(&island.home(), &request("m"))))
        .collect();
    for one in &mut all {
        one.says("m");
        assert_eq!(one.code(), Some(0));
    }
    assert_eq!(times(), "1");
    // Later, and after the daemon was killed.
    assert_eq!(island.holm(&request("m")).ok().stdout, b"m");
    island.kill_daemon();
    assert_eq!(island.holm(&request("m")).ok().stdout, b"m");
    assert_eq!(times(), "1");
    // Another request is not meant by it; another key is another run.
    let mut words = request("other").to_vec();
    words.insert(1, "--json");
    let refused = island.holm(&words).error(4);
    assert_eq!(refused["code"], "key_reused");
    island
        .holm(&[
            "run", "x", "--key", "order-67", "m", "--", "sh", "-c", script,
        ])
        .ok();
    assert_eq!(times(), "2");
    let list = island.holm(&["runs", "ls", "--json"]).json();
    assert_eq!(list["runs"].as_array().unwrap().len(), 2);
    // Its daemon dies before anything runs, or when it runs and was not acknowledged.
    let mut earlier = 2;
    for at in ["run:before:kill", "run:after:kill"] {
        let script = format!("{script}; until [ -e /tmp/go ]; do sleep 0.02; done");
        let body = serde_json::json!({"command": ["sh", "-c", script], "message": "m"}).to_string();
        let header = format!("idempotency-key: {at}\r\n");
        let path = format!("/api/v1/workspaces/{id}/runs");
        let send = || {
            let (status, body) = island.try_ask("POST", &path, &header, body.as_bytes())?;
            Some((status, serde_json::from_slice::<Value>(&body).unwrap()))
        };
        island
            .holm_at(&island.home(), at, &["daemon", "start"])
            .ok();
        assert!(send().is_none(), "{at}: it died");
        // At once, while the next daemon cannot find out yet what became of it.
        let keeper = island.keeper_of(&id).unwrap();
        crate::support::send(keeper, Signal::STOP);
        island.holm(&["daemon", "start"]).ok();
        let (status, answer) = std::thread::scope(|scope| {
            scope.spawn(|| {
                island.holm(&["daemon", "status"]).ok();
                crate::support::send(keeper, Signal::CONT);
            });
            send().unwrap()
        });
        let expected = if at.contains("before") { 201 } else { 200 };
        assert_eq!(status, expected, "{at}: {answer}");
        assert_eq!(answer["state"], "running", "{at}: {answer}");
        island.sh("x", "touch /tmp/go").ok();
        let first = answer["id"].clone();
        ends_as(&island, first.as_str().unwrap(), "succeeded");
        let (status, answer) = send().unwrap();
        assert_eq!((status, &answer["id"]), (200, &first), "{at}: {answer}");
        island.sh("x", "rm /tmp/go").ok();
        earlier += 1;
        assert_eq!(times(), earlier.to_string(), "{at}");
        let list = island.holm(&["runs", "ls", "--json"]).json();
        assert_eq!(list["runs"].as_array().unwrap().len(), earlier, "{at}");
    }
}

#[test]
fn a_client_gets_the_output_of_a_run_that_it_asks_for_at_the_same_time() {
    let island = Island::new();
    let id = WorkspaceId::parse(&island.repository("shop").up("x")).unwrap();
    let words = ["sh", "-c", "echo first; cat > /dev/null; echo last"];
    let words = words.map(|word| word.as_bytes().to_vec().into());
    let request = CreateRun {
        command: Some(words.to_vec()),
        ..CreateRun::default()
    };
    island.api(async |client| {
        // It waits for the request, so it may come first.
        let (output, created) = tokio::join!(
            client.new_run_output(&id, "key-1"),
            client.create_run(&id, &request, Some("key-1")),
        );
        let (created, (begun, mut output)) = (created.unwrap(), output.unwrap());
        assert_eq!(begun.id, created.id);
        let mut said = Vec::new();
        let ended = loop {
            match output.next().await.unwrap() {
                RunEvent::Output(piece) => said.extend(Vec::<u8>::from(piece.data)),
                RunEvent::Ended(run) => break run,
                event => panic!("{event:?}"),
            }
        };
        assert_eq!(String::from_utf8_lossy(&said), "first\nlast\n");
        assert_eq!(ended.id, created.id);
    });
    let (status, _) = island.ask(
        "GET",
        &format!("/api/v1/workspaces/{id}/runs/output?key="),
        b"",
    );
    assert_eq!(status, 400);
}
