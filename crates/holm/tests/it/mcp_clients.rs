//! MCP with clients of others (attack 121): the conformance suite and the inspector.
//!
//! The suite's scenarios for servers in [`NOT_OURS`] need a server made for the suite: tools,
//! prompts and resources (`test://…`) with fixed names, answers that ask the client back, log
//! messages and subscriptions, which holm's server does not offer. The suite fails when one of them
//! passes anyway, or any other does not: handshake, ping, lists, several streams at once, and Host
//! and Origin.

use crate::schema::tool;
use crate::support::{Door, Island, Ran, program};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;

const NOT_OURS: [&str; 24] = [
    "logging-set-level",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-with-logging",
    "tools-call-error",
    "tools-call-with-progress",
    "tools-call-sampling",
    "tools-call-elicitation",
    "json-schema-2020-12",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    // Priming events are there; the suite tests continuing a call on another stream with a fixed
    // tool.
    "server-sse-polling",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
];

/// The suite cannot send a token, so a proxy adds it. Names of hosts and pages pass unchanged,
/// except for the port.
fn with_token(door: &Door) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let own = listener.local_addr().unwrap().port();
    let (port, token) = (door.port, door.token.clone());
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let token = token.clone();
            // A connection that breaks is the suite's to complain about.
            std::thread::spawn(move || pass_on(client, (own, port), &token));
        }
    });
    own
}

fn pass_on(mut client: TcpStream, (own, port): (u16, u16), token: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let lines = head.trim_end().split("\r\n");
    let lines = lines.filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let mut head: String = lines
        .map(|line| {
            let line = line.replace(&format!("localhost:{own}"), &format!("localhost:{port}"));
            format!("{line}\r\n")
        })
        .collect();
    head.push_str(&format!(
        "Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    ));
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    server.write_all(head.as_bytes())?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let copied = std::io::copy(&mut from, &mut to);
        // A client that is gone wants no answer.
        let _ = to.shutdown(Shutdown::Both);
        copied
    });
    std::io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Both)
}

#[test]
fn attack_121_clients_of_others_find_a_server_that_conforms() {
    let island = Island::new();
    island.repository("shop").up("one");
    let door = Door::of(&island);
    let place = tempfile::tempdir().unwrap();
    let known = place.path().join("not-ours.yml");
    let listed = NOT_OURS.map(|name| format!("  - {name}\n")).concat();
    std::fs::write(&known, format!("server:\n{listed}")).unwrap();
    let port = with_token(&door);
    let suite = Command::new(tool("mcp/node_modules/.bin/conformance"))
        .current_dir(place.path())
        .args(["server", "--suite", "all", "--url"])
        .arg(format!("http://localhost:{port}/mcp"))
        .arg("--expected-failures")
        .arg(&known)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&suite.stdout);
    assert!(suite.status.success(), "{said}");
    for scenario in [
        "server-initialize",
        "ping",
        "tools-list",
        "dns-rebinding-protection",
    ] {
        assert!(
            said.contains(&format!("✓ {scenario}: ")),
            "{scenario}: {said}"
        );
    }

    // The inspector, over HTTP and by starting `holm mcp` itself.
    let inspect = |words: &[&str]| -> Value {
        let mut command = island.command(
            tool("mcp/node_modules/.bin/mcp-inspector-cli"),
            &island.home(),
        );
        Ran::new(command.arg("--cli").args(words)).json()
    };
    let url = format!("http://127.0.0.1:{}/mcp", door.port);
    let token = format!("Authorization: {}", Door::bearer(&door.token));
    let over_http = [url.as_str(), "--transport", "http", "--header", &token];
    let tools = inspect(&[&over_http[..], &["--method", "tools/list"]].concat());
    assert_eq!(tools["tools"].as_array().unwrap().len(), 41);
    let holm = program();
    let show = ["--method", "tools/call", "--tool-name", "workspace_show"];
    let show = [&show[..], &["--tool-arg", "workspace=one"]].concat();
    let stdio = [holm.to_str().unwrap(), "mcp"];
    let shown = inspect(&[&stdio[..], &show].concat());
    let same = inspect(&[&over_http[..], &show].concat());
    for shown in [shown, same] {
        assert_eq!(shown["structuredContent"]["label"], "one", "{shown}");
    }
}
