//! The front door's port, its access rules, and what many clients cannot take away (attacks 93, 94,
//! 107, 141).

use crate::support::{
    Island, Running, background, eventually, fetch, free_port, host_port, program,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn port(island: &Island) -> u16 {
    let status = island.holm(&["daemon", "status", "--json"]).json();
    status["port"].as_u64().expect("the front door's port") as u16
}

/// Sends a raw head; returns the response.
fn raw(port: u16, head: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_port_that_was_asked_for_and_is_taken_names_its_holder() {
    let island = Island::new();
    let number = free_port().to_string();
    let taken = TcpListener::bind(format!("127.0.0.1:{number}")).unwrap();
    let start = |variables: &[(&str, &str)]| {
        let mut command = island.holm_command(&island.home(), &["daemon", "start", "--json"]);
        command.envs(variables.iter().copied());
        crate::support::Ran::new(&mut command)
    };
    let error = start(&[("HOLM_PORT", &number)]).error(4);
    assert_eq!(error["code"], "port_taken");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains(&number) && message.contains("(pid "),
        "{message}"
    );
    // The same from the settings, and on the other loopback address.
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write(
        "holm/config/config.toml",
        format!("[daemon]\nport = {number}\n"),
    );
    assert_eq!(start(&[]).error(4)["code"], "port_taken");
    drop(taken);
    let six = TcpListener::bind(format!("[::1]:{number}")).unwrap();
    assert_eq!(start(&[]).error(4)["code"], "port_taken");
    drop(six);
    // Free again, it is had, on both addresses.
    start(&[]).ok();
    assert_eq!(port(&island).to_string(), number);
    for address in [format!("127.0.0.1:{number}"), format!("[::1]:{number}")] {
        TcpStream::connect(&address).unwrap_or_else(|error| panic!("{address}: {error}"));
    }
}

#[test]
fn without_a_wish_it_is_the_next_free_one_and_stays() {
    let [first, second] = [Island::new(), Island::new()];
    first.holm(&["daemon", "start"]).ok();
    second.holm(&["daemon", "start"]).ok();
    let (had, other) = (port(&first), port(&second));
    assert_ne!(had, other);
    assert!((7070..=7099).contains(&other), "{other}");
    // It keeps its port although an earlier one is free now.
    first.holm(&["daemon", "stop"]).ok();
    second.holm(&["daemon", "stop"]).ok();
    second.holm(&["daemon", "start"]).ok();
    assert_eq!(port(&second), other);
    let status = second.holm(&["daemon", "status"]).ok().out();
    assert!(
        status.contains(&format!("http://localhost:{other}")),
        "{status}"
    );
}

#[test]
fn attack_94_foreign_names_are_refused_and_own_ones_give_nothing_away() {
    let island = Island::new();
    island.repository("shop").up("one");
    let port = port(&island);
    let routes = [
        "/",
        "/api/v1/workspaces",
        "/api/v1/daemon/stop",
        "/mcp",
        "/events",
        "/health",
    ];
    for route in routes {
        // The daemon's routes need a token, except for health; the rest does not exist.
        let own = match route {
            "/" | "/events" => 404,
            _ => 401,
        };
        for (host, expect) in [
            ("attacker.test".to_owned(), 421),
            (format!("attacker.test:{port}"), 421),
            (format!("localhost.attacker.test:{port}"), 421),
            ("192.0.2.1".to_owned(), 421),
            ("[".to_owned(), 400),
            ("x".repeat(8192), 400),
            (format!("localhost:{port}"), own),
            (format!("holm.localhost:{port}"), own),
            (format!("127.0.0.1:{port}"), own),
        ] {
            for method in ["GET", "POST"] {
                let more = "Connection: close\r\nContent-Length: 0\r\n";
                let answer = raw(
                    port,
                    &format!("{method} {route} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"),
                );
                // The dashboard's name has its page at every other path, and nothing else without a token.
                let is_page = expect == 404 && host.starts_with("holm.");
                let expect = match (method, route, expect) {
                    ("GET", "/health", 401) => 200,
                    ("GET", _, _) if is_page => 200,
                    _ if is_page => 401,
                    _ => expect,
                };
                let status = format!("HTTP/1.1 {expect} ");
                assert!(
                    answer.starts_with(&status),
                    "{method} {route} {host}: {answer}"
                );
                assert!(!answer.contains("\"workspaces\""), "{answer}");
            }
        }
    }
    let upgrade = "Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let answer = raw(
        port,
        &format!("GET /api/v1/workspaces/x/exec HTTP/1.1\r\nHost: attacker.test\r\n{upgrade}\r\n"),
    );
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    // It is alive after all of this.
    eventually("the daemon answers", || {
        island.holm(&["daemon", "status", "--json"]).json()["running"] == 1
    });
}

/// As many files as the daemon and the server beside it may have open, and more clients than that.
const FILES: usize = 768;
const CLIENTS: usize = 900;

/// Clients that send half a request, and keep their connections.
fn flood(port: u16) -> Vec<TcpStream> {
    let clients = (0..CLIENTS).map(|_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // A connection that was not accepted may be closed already.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: web.one.local");
        stream
    });
    clients.collect()
}

#[test]
fn attack_141_a_flood_at_the_door_takes_nothing_from_the_rest() {
    // A server that accepts every client has no descriptor left for anything else.
    let island = Island::new();
    let script = "import errno, socket, sys
s = socket.create_server(('127.0.0.1', 0), backlog=2000); print(s.getsockname()[1], flush=True)
kept = []
try:
    while True: kept.append(s.accept())
except OSError: pass
try: print('a file', open('/dev/null'), flush=True)
except OSError as error: print(errno.errorcode[error.errno], flush=True)
sys.stdin.read()";
    let mut command = island.command("sh", &island.home());
    let line = format!("ulimit -n {FILES}; exec python3 -c \"$0\"");
    let mut open = Running::new(command.args(["-c", &line, script]));
    let clients = flood(open.line().trim().parse().unwrap());
    open.says("EMFILE");
    drop(clients);

    let line = format!(
        "ulimit -n {FILES}; exec {} daemon start",
        program().display()
    );
    island.run(&island.home(), "sh", &["-c", &line]).ok();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nweb = 3000\n");
    repository.commit("ports");
    repository.up("one");
    background(
        &island,
        "one",
        "exec python3 -m http.server 3000 --bind 127.0.0.1",
    );
    let host_port = host_port(&island, "one", 3000);
    let door = port(&island);
    let preview =
        format!("GET / HTTP/1.1\r\nHost: web.one.localhost:{door}\r\nConnection: close\r\n\r\n");
    assert!(raw(door, &preview).starts_with("HTTP/1.1 200 "));
    let daemon = island.daemon_pid();
    let files = move || {
        let files = std::fs::read_dir(format!("/proc/{daemon}/fd"));
        files.map_or(0, Iterator::count)
    };
    // The daemon opens some for a moment now and then, so the least of many counts is the one at rest.
    let counts = (0..100).map(|_| {
        std::thread::park_timeout(Duration::from_millis(1));
        files()
    });
    let before = counts.min().unwrap();
    let clients = flood(door);
    eventually("the door is full", || files() >= before + FILES / 3 - 1);
    // Watched all the time: when the clients have been cut off, there is room in any case.
    let is_over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&is_over);
    let watching = std::thread::spawn(move || {
        let mut most = 0;
        while !ended.load(Ordering::Relaxed) {
            most = files().max(most);
            std::thread::park_timeout(Duration::from_millis(1));
        }
        most
    });
    for _ in 0..20 {
        assert!(fetch("127.0.0.1", host_port).unwrap().contains(" 200 "));
    }
    island.holm(&["ls"]).ok();
    assert_eq!(island.sh("one", "echo here").ok().out(), "here");
    repository.up("two");
    is_over.store(true, Ordering::Relaxed);
    let most = watching.join().unwrap();
    assert!(most < FILES * 2 / 3, "{most}");
    drop(clients);
    eventually("previews are served again", || {
        raw(door, &preview).starts_with("HTTP/1.1 200 ")
    });
}
