//! MCP with real clients: every tool over stdio and HTTP, scopes, cancellation, invalid messages,
//! and the configuration of clients.

use crate::support::{Door, Island, Ran, Repository, Running, eventually, program};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

const CLIENT: &str = include_str!("support/mcp_client.py");
/// Where `scripts/set-up test` puts the package.
const PYTHON: &str = "/usr/local/lib/holm-tests/mcp/bin/python";

const SHOP: &str = "[ports]\nweb = 3000\n[services.web]\nrun = \"python3 server.py\"\nready = { tcp = 3000 }\n\
     [checks.served]\nrun = \"grep -q listening server.py\"\n";
const SERVER: &str = "import http.server\nprint('listening', flush=True)\n\
    http.server.HTTPServer(('127.0.0.1', 3000), http.server.SimpleHTTPRequestHandler).serve_forever()\n";

fn shop(island: &Island) -> Repository<'_> {
    let shop = island.shop(SHOP, SERVER);
    shop.git(&["branch", "other"]);
    shop.git(&["switch", "-q", "other"]);
    shop.write("other.txt", "other\n");
    shop.commit("other");
    shop.git(&["switch", "-q", "main"]);
    island.make_dir("home/secret");
    Repository::new(island, island.home().join("secret/repo"));
    shop
}

/// Plays a scenario of the client.
fn client(island: &Island, scenario: &str, given: &Value) -> Ran {
    let given = given.to_string();
    let holm = program();
    let arguments = ["-c", CLIENT, holm.to_str().unwrap(), scenario, &given];
    island.run(&island.home(), PYTHON, &arguments)
}

#[test]
fn every_tool_over_stdio_and_http() {
    let island = Island::new();
    let shop = shop(&island);
    island.answer_ssh();
    let given = json!({
        "shop": shop.path,
        "secret": island.home().join("secret/repo"),
        "token": island.data().join("token"),
    });
    let both = client(&island, "everything", &given).json();
    let (seen, http) = (&both["stdio"], &both["http"]);
    assert_eq!(seen["called"], seen["tools"], "every tool was called");
    assert_eq!(seen["tools"].as_array().unwrap().len(), 41);
    assert!(seen["progress"].as_u64().unwrap() > 0, "{seen}");
    assert_eq!(http["tools"], seen["tools"]);
    assert_eq!(http["root"], http["pwd"]);

    // A workspace that is scoped to sees no other; and inside one it is always so.
    let list = island.holm(&["ls", "--json"]).json();
    let rows = list["workspaces"].as_array().unwrap();
    let row = |label: &str| rows.iter().find(|row| row["label"] == label).unwrap();
    let (own, other) = (row("mend"), row("by-http"));
    let one = json!({ "workspace": own["id"], "other": other });
    let outside = client(&island, "scoped", &one).json();
    assert_eq!(outside["id"], own["id"]);
    // Inside, the same program speaks through the workspace's own socket.
    let inside = inside(&island, "mend");
    assert_eq!(inside["id"], own["id"]);
    assert!(inside["tools"].as_array().unwrap().len() >= 15, "{inside}");
    http_is_guarded(&island, &Door::of(&island));
    attack_184_nonsense_is_answered_as_json_rpc_says(&island);
}

/// Speaks MCP by hand to `holm mcp` inside a workspace, where the package is missing.
fn inside(island: &Island, workspace: &str) -> Value {
    let messages = [
        initialize(),
        json!({"jsonrpc":"2.0","method":"notifications/initialized"}),
        request(2, "tools/list", json!({})),
        call(3, "here", json!({})),
        call(4, "workspace_show", json!({ "workspace": "by-http" })),
        call(5, "exec", json!({ "command": ["echo", "hello"] })),
        call(6, "changes", json!({})),
        call(7, "workspace_remove", json!({})),
    ];
    let text: String = messages
        .iter()
        .map(|message| format!("{message}\n"))
        .collect();
    island.make_dir("talk");
    let file = island.write("talk/messages", text);
    let mut command = island.holm_command(&island.home(), &["exec", workspace, "--", "sh", "-c"]);
    // Its input ends only when every answer has arrived.
    command.arg(
        "(cat; until [ -e /tmp/answered ]; do sleep 0.05; done) | holm mcp | (head -n 7; touch /tmp/answered)",
    );
    command.stdin(std::fs::File::open(file).unwrap());
    let out = Ran::new(&mut command).ok().out();
    let answers: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |id: u64| {
        answers
            .iter()
            .find(|answer| answer["id"] == id)
            .unwrap_or_else(|| panic!("{id}: {out}"))
    };
    let tools = of(2)["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].clone()).collect();
    let here = &of(3)["result"]["structuredContent"];
    assert_eq!(here["label"], workspace, "{here}");
    assert_eq!(
        of(4)["result"]["structuredContent"]["error"]["code"],
        "workspace_not_found"
    );
    assert_eq!(
        of(5)["result"]["structuredContent"]["stdout"],
        "hello\n",
        "{out}"
    );
    assert!(
        of(6)["result"]["structuredContent"]["changes"].is_array(),
        "{out}"
    );
    assert_eq!(of(7)["error"]["code"], -32602, "{out}");
    json!({ "id": here["id"], "tools": names })
}

/// Attacks 108, 110 and 121: a client without a token, or a page of another origin, has no session
/// either.
fn http_is_guarded(island: &Island, door: &Door) {
    let post = |headers: &[(&str, &str)], body: &Value| {
        door.ask_bare("POST", "/mcp", headers, body.to_string().as_bytes())
    };
    let kinds = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    let bearer = Door::bearer(&door.token);
    let with = |more: &[(&'static str, &str)]| -> Vec<(String, String)> {
        let all = kinds.iter().chain(more);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    let status = |headers: Vec<(String, String)>, body: &Value| {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        post(&headers, body)
    };
    assert_eq!(status(with(&[]), &initialize()).status, 401);
    assert_eq!(
        status(with(&[("Authorization", "Bearer x")]), &initialize()).status,
        401
    );
    let page = [
        ("Authorization", bearer.as_str()),
        ("Origin", "http://evil.test"),
    ];
    assert_eq!(status(with(&page), &initialize()).status, 403);
    let begun = status(with(&[("Authorization", &bearer)]), &initialize());
    assert_eq!(begun.status, 200, "{begun:?}");
    let session = begun
        .header("mcp-session-id")
        .expect("a session")
        .to_owned();
    assert!(session.len() >= 32, "{session}");
    let list = request(2, "tools/list", json!({}));
    let own = [
        ("Authorization", bearer.as_str()),
        ("Mcp-Session-Id", session.as_str()),
    ];
    assert_eq!(status(with(&own), &list).status, 200);
    let invented = [
        ("Authorization", bearer.as_str()),
        ("Mcp-Session-Id", "00000000-0000-4000-8000-000000000000"),
    ];
    assert_eq!(status(with(&invented), &list).status, 404);
    // The id alone opens nothing, and another caller has other sessions.
    assert_eq!(
        status(with(&[("Mcp-Session-Id", &session)]), &list).status,
        401
    );
    let other = island
        .holm(&["token", "new", "--name", "other", "--json"])
        .json();
    let other = Door::bearer(other["token"].as_str().unwrap());
    let stolen = [
        ("Authorization", other.as_str()),
        ("Mcp-Session-Id", session.as_str()),
    ];
    assert_eq!(status(with(&stolen), &list).status, 404);
    assert_eq!(status(with(&own), &list).status, 200);
}

/// Attack 184: invalid MCP gets a JSON-RPC error, and ends nothing.
fn attack_184_nonsense_is_answered_as_json_rpc_says(island: &Island) {
    let mut command = island.holm_command(&island.home(), &["mcp"]);
    let mut mcp = Running::new(command.stdin(Stdio::piped()));
    let mut say = |text: &str| mcp.write(&format!("{text}\n"));
    say(&initialize().to_string());
    say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for nonsense in [
        "",
        "garbage",
        "{",
        "null",
        "[]",
        "\"\"",
        "{}",
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":99999999999999999999999999,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":-9223372036854775808,"method":"nothing/here"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":7}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"exec","arguments":[1]}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":1e400,"message":""}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"[{"jsonrpc":"2.0","id":8,"method":"ping"},{"jsonrpc":"2.0","id":8,"method":"ping"}]"#,
        "\u{0}\u{1b}[31m",
        &deep,
        &"x".repeat(17 << 20),
    ] {
        say(nonsense);
    }
    // The same id twice, one of them cancelled at once.
    for _ in 0..2 {
        say(&call(
            9,
            "exec",
            json!({ "workspace": "mend", "command": ["sleep", "0.2"] }),
        )
        .to_string());
    }
    say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#);
    say(&request(1000, "tools/list", json!({})).to_string());
    let (mut unparsable, mut invalid) = (0, 0);
    loop {
        let line = mcp.line();
        let answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let parts = answer.as_object().unwrap();
        assert_eq!(parts["jsonrpc"], "2.0");
        if parts.get("id") == Some(&json!(7)) {
            assert_eq!(parts["error"]["code"], -32602, "{line}");
        }
        if parts.get("id") == Some(&Value::Null) {
            match parts["error"]["code"].as_i64() {
                Some(-32700) => unparsable += 1,
                Some(-32600) => invalid += 1,
                other => panic!("{other:?} {line}"),
            }
        }
        if let Some(error) = parts.get("error") {
            assert!(
                error["code"].is_i64() && error["message"].is_string(),
                "{line}"
            );
        }
        if parts.get("id") == Some(&json!(1000)) {
            assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 41);
            break;
        }
    }
    assert_eq!((unparsable, invalid), (6, 7), "of what has no id");
    mcp.close_stdin();
    eventually("it ends with its input", || mcp.has_ended());
    assert_eq!(mcp.code(), Some(0));
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn call(id: u64, name: &str, arguments: Value) -> Value {
    request(
        id,
        "tools/call",
        json!({ "name": name, "arguments": arguments }),
    )
}

fn initialize() -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    request(1, "initialize", params)
}

const MODEL: &str = include_str!("support/model.py");

const WITH_MODEL: &str = "[services.model]\nrun = \"python3 model.py 8765\"\nready = { tcp = 8765 }\n\
    [egress]\nmode = \"none\"\n";

/// A real coding agent inside a workspace, instructed by a model of our own to use holm's tools
/// there.
#[test]
fn a_real_agent_uses_holm_inside_its_workspace() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", WITH_MODEL);
    repository.write("model.py", MODEL);
    repository.commit("a model");
    repository.up("x");
    let servers =
        json!({ "mcpServers": { "holm": { "command": "holm", "args": ["mcp"] } } }).to_string();
    let command = [
        "run",
        "x",
        "--json",
        "--env",
        "ANTHROPIC_BASE_URL=http://127.0.0.1:8765",
        "--env",
        "ANTHROPIC_API_KEY=none",
        "--env",
        "ENABLE_TOOL_SEARCH=false",
        "--",
        "sh",
        "-c",
        "echo 'please do it with holm: write notes/mcp.txt: made by mcp' | claude -p --dangerously-skip-permissions \
         --strict-mcp-config --mcp-config \"$1\"",
        "sh",
        &servers,
    ];
    let ran = island.holm(&command);
    let log = || island.holm(&["logs", "x", "model"]).out();
    assert_eq!(ran.code, Some(0), "{ran:#?}\n{}", log());
    let out = ran.out();
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let changes = last["run"]["changes"].as_array().unwrap();
    let change = changes
        .iter()
        .find(|change| change["path"] == "notes/mcp.txt");
    let change = change.unwrap_or_else(|| panic!("{last:#}\n{}", log()));
    assert_eq!(change["content"], "made by mcp\n");
}

#[test]
fn clients_are_told_after_showing_it() {
    let island = Island::new();
    let home = island.home();
    let install = |arguments: &[&str]| island.holm(&[&["mcp", "install"], arguments].concat());
    // Without confirmation nothing is written, but it is shown.
    let shown = install(&["claude"]).exits(4);
    assert!(
        shown.stderr.contains("mcpServers") && shown.stderr.contains("--yes"),
        "{shown:?}"
    );
    assert!(!home.join(".claude.json").exists());
    let printed = install(&["cursor", "--print"]).ok().out();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["mcpServers"]["holm"]["args"], json!(["mcp"]));
    assert!(!home.join(".cursor").exists());

    island.write(
        "home/.claude.json",
        "{\"projects\": {\"x\": 1.50}, \"mcpServers\": {\"a\": {}}}",
    );
    island.make_dir("home/.codex");
    island.write("home/.codex/config.toml", "# mine\nmodel = \"m\"\n");
    for name in ["claude", "codex", "cursor", "gemini", "opencode"] {
        let installed = install(&[name, "--yes", "--json"]).json();
        assert_eq!(installed["written"], true, "{installed}");
        let again = install(&[name, "--yes", "--json"]).json();
        assert_eq!(
            (&again["written"], &again["unchanged"]),
            (&json!(false), &json!(true)),
            "{again}"
        );
    }
    let read = |path: &str| std::fs::read_to_string(home.join(path)).unwrap();
    let claude = read(".claude.json");
    assert!(
        claude.contains("1.50") && claude.contains("\"a\": {}"),
        "{claude}"
    );
    let codex = read(".codex/config.toml");
    assert!(codex.starts_with("# mine\nmodel = \"m\"\n"), "{codex}");
    // The written command works.
    let claude: Value = serde_json::from_str(&claude).unwrap();
    let entry = &claude["mcpServers"]["holm"];
    assert!(Path::new(entry["command"].as_str().unwrap()).exists());
    assert_eq!(
        entry["env"]["HOLM_HOME"],
        island.holm_home().to_str().unwrap()
    );
    let opencode: Value = serde_json::from_str(&read(".config/opencode/opencode.json")).unwrap();
    let environment = &opencode["mcp"]["holm"]["environment"];
    assert_eq!(
        environment["HOLM_HOME"],
        island.holm_home().to_str().unwrap()
    );
    assert_eq!(environment["HOLM_PORT"], Value::Null, "it is not set");
    let yes = ["mcp", "install", "gemini", "--yes"];
    let mut with_port = island.holm_command(&home, &yes);
    Ran::new(with_port.env("HOLM_PORT", "7555")).ok();
    let gemini: Value = serde_json::from_str(&read(".gemini/settings.json")).unwrap();
    let entry = &gemini["mcpServers"]["holm"];
    assert_eq!(entry["env"]["HOLM_PORT"], "7555");
    assert_eq!(entry["env"]["HOLM_HOME"], environment["HOLM_HOME"]);
    // A file that does not parse stays unchanged.
    island.write("home/.cursor/mcp.json", "{ not json");
    let refused = install(&["cursor", "--yes", "--json"]).error(2);
    assert_eq!(refused["code"], "invalid_config");
    assert_eq!(read(".cursor/mcp.json"), "{ not json");
}
