//! Known agents: a scripted stand-in says what it was given. The table, the hosts and the sign-in are
//! the test's own; no public host is named or reached.

use crate::support::{Act, Island, Ran, World};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const TABLE: &str = r#"
[services.api]
hosts = ["api.test"]
paths = ["/v1/messages*"]
token = { host = "other.test", path = "/token" }

[agents.robot]
title = "Robot"
run = ["sh", "robot"]
session = ["sh", "robot"]
keys = { ROBOT_KEY = "api" }
variables = { ROBOT_HOME = "yes" }
copies = [".robot/commands"]
instructions = { file = ".robot/AGENTS.md" }

[[agents.robot.sign_ins]]
service = "api"
file = ".robot/auth.json"
access = "/oauth/access"
refresh = "/oauth/refresh"
expires_ms = "/oauth/expires"
keep = ["/oauth/plan"]

[[agents.robot.settings]]
file = ".robot/settings.json"
keep = ["/model"]
set = { "/projects/{root}/trusted" = true }
"#;

/// An agent whose connections the gateway cannot inspect.
const PINNED: &str = r#"
[agents.pinned]
title = "Pinned"
run = ["sh", "robot"]
session = ["sh", "robot"]
keys = { PINNED_KEY = "api" }
direct = true
refresh = ["sh", "refresh-pinned"]

[[agents.pinned.sign_ins]]
service = "api"
file = ".pinned/auth.json"
access = "/oauth/access"
refresh = "/oauth/refresh"
expires_ms = "/oauth/expires"
"#;

/// A known agent that is not installed, whatever this machine has.
const ABSENT: &str = r#"
[agents.absent]
title = "Absent"
run = ["no-such-agent-of-the-table"]
session = ["no-such-agent-of-the-table"]
install = "npm install -g absent"
"#;

const ACCESS: &str = "at-CANARY-access-0001";
const REFRESH: &str = "rt-CANARY-refresh-0001";

const HOLM: &str = "[egress]\nmode = \"allow\"\nallow = [\"api.test\", \"other.test\"]\n";

/// Obeys its message: it is the hostile program, too.
const ROBOT: &str = "sh -c \"$(cat)\"\n";

/// A user who is signed in, and a workspace `x`.
fn sign_in(island: &Island) {
    island.write("agents.toml", format!("{TABLE}{PINNED}{ABSENT}"));
    island.make_dir("home/.robot");
    island.make_dir("home/.robot/commands");
    island.write("home/.robot/auth.json", auth(ACCESS, REFRESH).to_string());
    let settings = json!({
        "model": "fast", "env": { "A": "CANARY" }, "hooks": { "x": "CANARY" },
        "mcpServers": { "x": "CANARY" }, "projects": { "/other": { "history": ["CANARY"] } },
    });
    island.write("home/.robot/settings.json", settings.to_string());
    island.write("home/.robot/commands/fix.md", "how to fix\n");
    island.write("home/.robot/AGENTS.md", "be kind\n");
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM);
    repository.write("robot", ROBOT);
    repository.commit("a robot");
    repository.holm(&["trust", "--yes"]).ok();
    repository.holm(&["up", "x"]).ok();
}

fn auth(access: &str, refresh: &str) -> Value {
    json!({ "oauth": { "access": access, "refresh": refresh, "expires": 1, "plan": "max" },
        "other": { "access": "CANARY" } })
}

/// What the robot says when it does this.
#[track_caller]
fn robot(island: &Island, script: &str) -> String {
    let ran = island.holm(&["run", "x", "--agent", "robot", script]).ok();
    String::from_utf8(ran.stdout).unwrap()
}

fn allow(island: &Island) {
    let repository = island.home().join("src/shop");
    Ran::new(&mut island.holm_command(&repository, &["trust", "--agent", "robot", "--yes"])).ok();
}

fn copy(island: &Island) -> Value {
    let text = std::fs::read_to_string(island.home().join(".robot/auth.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_sign_in_is_used_after_one_question_and_brings_what_is_listed() {
    let island = Island::new();
    sign_in(&island);
    let refused = island.holm(&["run", "x", "--agent", "robot", "true"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    let words = refused.stderr.clone();
    assert!(words.contains("Robot's sign-in"), "{words}");
    assert!(words.contains("holm trust --agent robot --yes"), "{words}");
    // The workspace of --new stays, and the command says so.
    let repository = island.home().join("src/shop");
    let words = ["run", "--new", "y", "--agent", "robot", "true"];
    let refused = Ran::new(&mut island.holm_command(&repository, &words)).exits(4);
    assert!(refused.stderr.contains("y stays"), "{}", refused.stderr);
    let refused = island.holm(&["session", "new", "x", "--agent", "robot", "--detach"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    allow(&island);
    let root = island.home().join("src/shop").display().to_string();
    let settings = robot(&island, "cat ~/.robot/settings.json");
    let settings: Value = serde_json::from_str(&settings).unwrap();
    let expected = json!({ "model": "fast", "projects": { &root: { "trusted": true } } });
    assert_eq!(settings, expected);
    let auth: Value = serde_json::from_str(&robot(&island, "cat ~/.robot/auth.json")).unwrap();
    assert_eq!(auth["oauth"]["plan"], "max");
    assert_eq!(auth["other"], Value::Null);
    let token = auth["oauth"]["access"].as_str().unwrap();
    assert!(token != ACCESS && token.len() == ACCESS.len(), "{token}");
    let said = robot(
        &island,
        "cat ~/.robot/commands/fix.md ~/.robot/AGENTS.md; echo $ROBOT_HOME",
    );
    assert!(said.starts_with("how to fix\nbe kind\n"), "{said}");
    assert!(
        said.contains("# Workspace `x`") && said.ends_with("yes\n"),
        "{said}"
    );
    // Nothing of it is in the project's files.
    assert_eq!(island.sh("x", "git status --porcelain").ok().out(), "");
    // A known agent that is missing is reported with the command that installs it.
    let absent = island.holm(&["run", "x", "--agent", "absent", "m"]);
    let absent = absent.exits(127).stderr;
    assert!(absent.contains("npm install -g absent"), "{absent}");
    // The user takes it back: what is started from now on has no sign-in.
    let repository = island.home().join("src/shop");
    Ran::new(&mut island.holm_command(&repository, &["trust", "--agent", "robot", "--no"])).ok();
    let ran = island.holm(&["run", "x", "--agent", "robot", "true"]).ok();
    let words = ran.stderr.clone();
    assert!(words.contains("as you decided"), "{words}");
}

/// A further project with the robot, and a workspace of it.
fn another(island: &Island, name: &str) {
    let repository = island.repository(name);
    repository.write("robot", ROBOT);
    repository.commit("a robot");
    repository.holm(&["up", name]).ok();
}

/// The robot prints its sign-in.
fn run_in(workspace: &str) -> [&str; 5] {
    let prompt = "cat ~/.robot/auth.json";
    ["run", workspace, "--agent", "robot", prompt]
}

#[test]
fn the_question_on_a_terminal_takes_no_for_a_project_and_always_for_all() {
    let island = Island::new();
    sign_in(&island);
    another(&island, "other");
    let home = island.home();
    let question = "Let Robot's sign-in be used in workspaces of this project? [Y/n/always] ";
    let play = |workspace: &str, answer: &str, seen: &str| {
        let acts = [Act::See(question), Act::Type(answer), Act::See(seen)];
        island.play(&home, &run_in(workspace), &acts).screen
    };
    let screen = play("other", "n\r", "Robot gets no sign-in");
    assert!(!screen.contains("\"access\""), "{screen}");
    let screen = play("x", "always\r", "\"access\"");
    assert!(!screen.contains("CANARY"), "{screen}");
    // The answer is in the settings, which were absent before.
    let settings = std::fs::read_to_string(island.holm_home().join("config/config.toml")).unwrap();
    assert_eq!(settings, "[agents.robot]\nsign_in = \"always\"\n");
    // From now on nothing is asked: not again, and not in a project that is new.
    another(&island, "third");
    for workspace in ["x", "third"] {
        let said = island.holm(&run_in(workspace)).ok().out();
        assert!(said.contains("\"access\""), "{workspace}: {said}");
    }
}

/// The program of each known agent, and where it reads instructions, as a word of a shell.
const READS: [(&str, &str); 5] = [
    ("claude", "~/.claude/CLAUDE.md"),
    ("codex", "~/.codex/AGENTS.md"),
    ("gemini", "~/.gemini/GEMINI.md"),
    ("opencode", "~/.config/opencode/AGENTS.md"),
    ("aider", "\"$AIDER_READ\""),
];

#[test]
fn instructions_reach_each_known_agent_where_it_reads_them() {
    // The table is the program's own; the agents are stand-ins.
    let island = Island::new();
    let bin = island.make_dir("home/bin");
    for (name, file) in READS {
        // As Claude Code does, it follows a line that names another file.
        let script = format!("#!/bin/sh\ncat {file}\nsed -n 's/^@//p' {file} | xargs -r cat\n");
        let path = island.write(format!("home/bin/{name}"), script);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let repository = island.repository("shop");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let mut up = island.holm_command(&repository.path, &["up", "x"]);
    Ran::new(up.env("PATH", path)).ok();
    for (name, _) in READS {
        let ran = island.holm(&["run", "x", "--agent", name, "m"]).ok();
        let said = String::from_utf8(ran.stdout).unwrap();
        assert!(said.contains("# Workspace `x`"), "{name}: {said}");
    }
    assert_eq!(island.sh("x", "git status --porcelain").ok().out(), "");
}

#[test]
fn attack_195_no_program_inside_reads_a_sign_in_unless_the_settings_name_its_file() {
    let island = Island::new();
    sign_in(&island);
    allow(&island);
    let search = "grep -rl CANARY ~/.robot ~/.cache /dev/shm /proc/self/environ 2>/dev/null; env | grep CANARY; true";
    assert_eq!(robot(&island, search), "");
    // A key of the user's environment is a token inside, too.
    let arguments = ["run", "x", "--agent", "robot", "env | grep ROBOT_KEY"];
    let mut command = island.holm_command(&island.home(), &arguments);
    let ran = Ran::new(command.env("ROBOT_KEY", "key-CANARY-000012")).ok();
    let said = ran.out();
    assert!(
        said.starts_with("ROBOT_KEY=") && !has_value(&said),
        "{said}"
    );
    // The counterpart: settings that name the file give it as it is.
    island.make_dir("holm/config");
    let settings = "[agents.robot]\nfiles = [\"~/.robot/auth.json\"]\n";
    island.write("holm/config/config.toml", settings);
    island.sh("x", "rm -f ~/.robot/auth.json").ok();
    // Backwards, because holm masks the value in what it shows.
    let said = robot(&island, "rev ~/.robot/auth.json");
    let backwards: String = ACCESS.chars().rev().collect();
    assert!(said.contains(&backwards), "{said}");
}

#[test]
fn attacks_196_and_197_the_gateway_uses_and_refreshes_a_sign_in_that_is_not_inside() {
    let Some(world) = World::with_tls() else {
        return;
    };
    let island = world.island();
    sign_in(island);
    allow(island);
    let auth: Value = serde_json::from_str(&robot(island, "cat ~/.robot/auth.json")).unwrap();
    let [access, refresh] = ["access", "refresh"].map(|key| auth["oauth"][key].as_str().unwrap());
    let ask = |path: &str| {
        robot(
            island,
            &format!("curl -sS -H 'Authorization: Bearer {access}' https://api.test{path}"),
        )
    };
    let said = ask("/v1/messages");
    assert!(said.contains(access) && !has_value(&said), "{said}");
    let seen = |part: &str| {
        world
            .seen()
            .into_iter()
            .rfind(|line| line.contains(part))
            .unwrap()
    };
    assert!(seen("/v1/messages").contains(ACCESS));
    // Attack: a path that is not listed, which might create another key, gets the token.
    ask("/v1/keys");
    assert!(!seen("/v1/keys").contains(ACCESS));
    ask("/v1/messages/../keys?x --path-as-is");
    assert!(!seen("keys?x").contains(ACCESS));

    let renew = |token: &str| {
        let body =
            json!({ "grant_type": "refresh_token", "refresh_token": token, "scope": "less" });
        robot(
            island,
            &format!(
                "curl -sS https://other.test/token -H 'Content-Type: application/json' -d '{body}'"
            ),
        )
    };
    // Attack: another account's refresh token does not reach the user's copy.
    renew("rt-ATTACK-refresh-0001");
    assert_eq!(copy(island), auth_of(1));
    // Attack: neither does a file that a program inside writes.
    robot(
        island,
        "chmod u+w ~/.robot/auth.json; echo '{\"oauth\":{\"access\":\"attack\"}}' > ~/.robot/auth.json",
    );
    assert_eq!(copy(island), auth_of(1));

    let told: Value = serde_json::from_str(&renew(refresh)).unwrap();
    assert!(!has_value(&told.to_string()), "{told}");
    assert_eq!(
        told["expires_in"].as_u64().map(|it| it > 3500),
        Some(true),
        "{told}"
    );
    let sent = seen("/token");
    assert!(sent.contains(REFRESH) && !sent.contains("less"), "{sent}");
    let now = copy(island);
    assert_eq!(now["oauth"]["access"], "at-CANARY-access-0002");
    assert_eq!(now["oauth"]["refresh"], "rt-CANARY-refresh-0002");
    assert_eq!(now["other"], json!({ "access": "CANARY" }));
    let before = std::fs::read_to_string(island.home().join(".robot/auth.json.holm-previous"));
    assert!(before.unwrap().contains(REFRESH));
    let audit = island.holm(&["secret", "audit", "--json"]).ok().out();
    assert!(
        audit.contains("robot/api") && audit.contains("refreshed"),
        "{audit}"
    );
    // The new access token is used at once, for the token that the robot was told.
    let access = told["access_token"].as_str().unwrap();
    robot(
        island,
        &format!("curl -sS -H 'Authorization: Bearer {access}' https://api.test/v1/messages?again"),
    );
    assert!(seen("messages?again").contains("at-CANARY-access-0002"));

    // The user's own agent refreshed meanwhile: that copy counts, and the host is not asked.
    let session = [
        "session", "new", "x", "--agent", "robot", "--detach", "--json",
    ];
    let session = island.holm(&session).json();
    let count = world.count("\"/token\"");
    island.write("home/.robot/auth.json", auth_of(7).to_string());
    // Not by a run, which would bring the new copy itself.
    let body = json!({ "grant_type": "refresh_token", "refresh_token": refresh });
    let ask = format!(
        "curl -sS --cacert ~/.cache/holm/ca-bundle.pem https://other.test/token -d '{body}'"
    );
    let told = island.sh("x", &ask).json();
    assert!(told["access_token"].is_string(), "{told}");
    assert_eq!(world.count("\"/token\""), count);
    tokens_end_with_their_holders(&world, session["id"].as_str().unwrap());
}

/// Attack: a program that keeps a token uses it after the run or session that got it.
fn tokens_end_with_their_holders(world: &World, session: &str) {
    let island = world.island();
    let auth: Value = island.sh("x", "cat ~/.robot/auth.json").json();
    let token = auth["oauth"]["access"].as_str().unwrap();
    let use_it = |path: &str| {
        let ask = format!(
            "curl -sS --cacert ~/.cache/holm/ca-bundle.pem -H 'Authorization: Bearer {token}' \
             https://api.test/v1/messages?{path}"
        );
        // Without a sign-in the gateway does not inspect the connection, so the host's own certificate counts.
        let or = ask.replace("--cacert ~/.cache/holm/ca-bundle.pem ", "");
        island.sh("x", &format!("{ask} || {or}")).ok();
        let seen = world.seen().into_iter().rfind(|line| line.contains(path));
        seen.unwrap().contains("CANARY")
    };
    // The counterpart: while the session lives, every program inside can use it.
    assert!(use_it("during"));
    island.holm(&["session", "kill", session]).ok();
    assert!(!use_it("after"));
    // The user takes the sign-in back: a session that runs has it no longer.
    island
        .holm(&["session", "new", "x", "--agent", "robot", "--detach"])
        .ok();
    assert!(use_it("again"));
    let repository = island.home().join("src/shop");
    Ran::new(&mut island.holm_command(&repository, &["trust", "--agent", "robot", "--no"])).ok();
    assert!(!use_it("withdrawn"));
}

#[test]
fn an_agent_that_cannot_be_inspected_gets_a_refreshed_sign_in_as_it_is_and_the_user_is_told() {
    let island = Island::new();
    sign_in(&island);
    island.make_dir("home/.pinned");
    let path = "home/.pinned/auth.json";
    island.write(path, auth(ACCESS, REFRESH).to_string());
    // As the agent's own program would: it has ended, and what refreshes it is used once.
    let mut fresh = auth("at-CANARY-access-0002", "rt-CANARY-refresh-0002");
    fresh["oauth"]["expires"] = 4_102_444_800_000_u64.into();
    let refresh = format!("echo ran >> refreshed; echo '{fresh}' > .pinned/auth.json\n");
    island.write("home/refresh-pinned", refresh);
    let repository = island.home().join("src/shop");
    let trust = ["trust", "--agent", "pinned", "--yes"];
    Ran::new(&mut island.holm_command(&repository, &trust)).ok();
    let run = |script: &str| {
        let arguments = ["run", "x", "--agent", "pinned", script];
        let mut command = island.holm_command(&island.home(), &arguments);
        Ran::new(command.env("PINNED_KEY", "key-CANARY-000012")).ok()
    };
    let ran = run("rev ~/.pinned/auth.json; echo $PINNED_KEY | rev");
    let said: String = ran.out().chars().rev().collect();
    assert!(said.contains("at-CANARY-access-0002"), "{said}");
    assert!(said.contains("key-CANARY-000012"), "{said}");
    assert!(
        !said.contains("rt-CANARY") && !said.contains("max"),
        "{said}"
    );
    let words = ran.stderr.clone();
    for part in [
        "Pinned can read your sign-in",
        "PINNED_KEY, the access token of ~/.pinned/auth.json, valid until 2100-01-01",
        "what refreshes it stays outside",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    // It goes with the run, and a sign-in that lasts is not refreshed again.
    island.sh("x", "test ! -e ~/.pinned/auth.json").ok();
    run("true");
    let count = std::fs::read_to_string(island.home().join("refreshed")).unwrap();
    assert_eq!(count, "ran\n");
    // One that cannot be refreshed is told, and the agent starts with what there is.
    island.write(path, auth(ACCESS, REFRESH).to_string());
    island.write("home/refresh-pinned", "echo no network >&2; exit 3\n");
    let words = run("true").stderr;
    assert!(
        words.contains("did not refresh Pinned's sign-in"),
        "{words}"
    );
    assert!(words.contains("no network"), "{words}");
}

/// Whether a value was there, also one that holm masked.
fn has_value(said: &str) -> bool {
    said.contains("CANARY") || said.contains("[secret]")
}

fn auth_of(number: u32) -> Value {
    auth(
        &format!("at-CANARY-access-000{number}"),
        &format!("rt-CANARY-refresh-000{number}"),
    )
}
