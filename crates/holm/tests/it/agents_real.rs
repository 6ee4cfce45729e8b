//! The real agents with a sign-in of the user, against stand-ins for their APIs: the names of the
//! table lead to servers of the test, in namespaces without any other network. `make agents-test`
//! runs this; `.config/nextest.toml` leaves it out of the suite.

use crate::support::{Ran, World, eventually, eventually_within};
use serde_json::json;
use std::time::Duration;

const TABLE: &str = include_str!("../../../holm-config/assets/agents.toml");
const KEY: &str = "sk-ant-api03-CANARYcanaryCANARYcanary0123456789";
const OPENAI: &str = "sk-proj-CANARYcanaryCANARYcanary0123456789";
const GEMINI: &str = "AIzaCANARYcanaryCANARYcanary0123456789ab";
const ACCESS: &str = "sk-ant-oat01-CANARYcanaryCANARYcanary0123456789";

/// Every host that the table names.
fn hosts() -> Vec<String> {
    let table: toml::Table = toml::from_str(TABLE).unwrap();
    let services = table["services"].as_table().unwrap().values();
    let mut hosts: Vec<String> = services
        .flat_map(|service| {
            let own = service["hosts"].as_array().unwrap().iter().cloned();
            let token = service.get("token").map(|token| token["host"].clone());
            own.chain(token)
                .map(|host| host.as_str().unwrap().to_owned())
        })
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// A machine of a user who is signed in, and a workspace `x` with consent for all agents.
fn world() -> Option<World> {
    let world = World::with_names(&hosts())?;
    let island = world.island();
    for place in [".claude", ".codex", ".gemini", ".local/share/opencode"] {
        island.make_dir(island.home().join(place));
    }
    let expires = (jiff::Timestamp::now().as_second() + 7200) * 1000;
    let claude = json!({ "claudeAiOauth": { "accessToken": ACCESS, "refreshToken": "sk-ant-ort01-CANARYcanaryCANARY",
        "expiresAt": expires, "scopes": ["user:inference", "user:profile"], "subscriptionType": "max" } });
    let write = |path: &str, text: String| island.write(island.home().join(path), text);
    write(".claude/.credentials.json", claude.to_string());
    write(
        ".claude.json",
        json!({ "theme": "dark", "mcpServers": { "x": { "command": "CANARY" } } }).to_string(),
    );
    write(
        ".codex/auth.json",
        json!({ "auth_mode": "apikey", "OPENAI_API_KEY": OPENAI }).to_string(),
    );
    let opencode = json!({ "anthropic": { "type": "api", "key": KEY } });
    write(".local/share/opencode/auth.json", opencode.to_string());
    write(".claude/CLAUDE.md", "always be kind\n".to_owned());
    let repository = island.repository("shop");
    repository.commit("begin");
    repository.holm(&["up", "x"]).ok();
    for agent in ["claude", "codex", "gemini", "opencode", "aider"] {
        repository.holm(&["trust", "--agent", agent, "--yes"]).ok();
    }
    Some(world)
}

/// Runs an agent; the model's words come back, and the API saw the value.
#[track_caller]
fn speaks(world: &World, agent: &str, (value, extra): (&str, &[&str])) {
    let island = world.island();
    let mut arguments = vec!["run", "x", "--agent", agent, "--timeout", "2m"];
    arguments.extend(extra);
    arguments.push("say something");
    let mut command = island.holm_command(&island.home(), &arguments);
    match agent {
        "gemini" => _ = command.env("GEMINI_API_KEY", GEMINI),
        "aider" => _ = command.env("ANTHROPIC_API_KEY", KEY),
        _ => {}
    }
    let ran = Ran::new(&mut command);
    let log = world.seen().join("\n");
    assert_eq!(ran.code, Some(0), "{agent}: {ran:#?}\n{log}");
    assert!(
        ran.out().contains("the model has spoken"),
        "{agent}: {ran:#?}\n{log}"
    );
    assert!(log.contains(value), "{agent}: {log}");
    let inside = "grep -rl CANARY ~ /dev/shm 2>/dev/null; true";
    assert_eq!(island.sh("x", inside).out(), "", "{agent}");
}

#[test]
fn claude_is_signed_in() {
    let Some(world) = world() else { return };
    speaks(&world, "claude", (ACCESS, &[]));
}

#[test]
fn codex_is_signed_in() {
    let Some(world) = world() else { return };
    speaks(&world, "codex", (OPENAI, &[]));
}

#[test]
fn gemini_is_signed_in() {
    let Some(world) = world() else { return };
    speaks(&world, "gemini", (GEMINI, &[]));
}

#[test]
fn opencode_is_signed_in() {
    let Some(world) = world() else { return };
    speaks(&world, "opencode", (KEY, &[]));
}

#[test]
fn aider_is_signed_in() {
    let Some(world) = world() else { return };
    speaks(
        &world,
        "aider",
        (KEY, &["--env", "AIDER_MODEL=anthropic/claude-sonnet-4-5"]),
    );
}

/// A session starts at the agent's prompt, without a question, and Enter sends a message.
#[test]
fn claude_starts_at_its_prompt() {
    let Some(world) = world() else { return };
    let island = world.island();
    let new = [
        "session", "new", "x", "--agent", "claude", "--name", "c", "--detach", "--size", "120x40",
    ];
    island.holm(&new).ok();
    let screen = || island.holm(&["session", "read", "c"]).out();
    eventually("the prompt", || screen().contains("bypass permissions"));
    island
        .holm(&["session", "send", "c", "--enter", "say something"])
        .ok();
    eventually("the answer", || screen().contains("the model has spoken"));
}

const INBOX: &str = include_str!("../../../../docs/inbox.md");

/// Where the documentation puts an agent's hook, and its line.
fn hook(title: &str) -> (String, String) {
    let row = INBOX
        .lines()
        .find(|line| line.starts_with(&format!("| {title} |")))
        .unwrap();
    let mut cells = row.trim_end_matches(" |").splitn(4, " | ");
    let (_, place, line) = (cells.next(), cells.next(), cells.next());
    let plain = |cell: Option<&str>| cell.unwrap().trim_matches('`').to_owned();
    (plain(place), plain(line))
}

/// The line of the documentation makes a question of an agent that waits.
#[track_caller]
fn asks_by_its_hook(agent: &str, title: &str, ready: &str) {
    let Some(world) = world() else { return };
    let island = world.island();
    let (place, line) = hook(title);
    if place.starts_with("config.toml") {
        island.make_dir("holm/config");
        let settings = format!("[agents.{agent}]\n{line}\n");
        island.write("holm/config/config.toml", settings);
    } else {
        let script = format!("mkdir -p $(dirname {place}); cat > {place} <<'END'\n{line}\nEND");
        island.sh("x", &script).ok();
    }
    let new = [
        "session", "new", "x", "--agent", agent, "--name", "h", "--detach", "--size", "120x40",
    ];
    let mut command = island.holm_command(&island.home(), &new);
    Ran::new(command.env("GEMINI_API_KEY", GEMINI)).ok();
    let screen = || island.holm(&["session", "read", "h"]).out();
    let comes = |what: &str, condition: &dyn Fn() -> bool| {
        let told = || format!("{agent}: {what}\n{}\n{:#?}", screen(), world.seen());
        eventually_within(Duration::from_secs(150), told, condition);
    };
    comes("its prompt", &|| screen().contains(ready));
    island
        .holm(&["session", "send", "h", "--enter", "say something"])
        .ok();
    comes("its answer", &|| screen().contains("the model has spoken"));
    let question = format!("{title} waits for you");
    comes("its question", &|| {
        let inbox = island.holm(&["inbox", "--json"]).ok().json();
        inbox["items"].to_string().contains(&question)
    });
}

#[test]
fn claude_asks_by_its_hook() {
    asks_by_its_hook("claude", "Claude Code", "bypass permissions");
}

#[test]
fn codex_asks_by_its_hook() {
    asks_by_its_hook("codex", "Codex", "›");
}

#[test]
fn gemini_asks_by_its_hook() {
    asks_by_its_hook("gemini", "Gemini CLI", "Type your message");
}

#[test]
fn opencode_asks_by_its_hook() {
    asks_by_its_hook("opencode", "OpenCode", "Ask anything");
}
