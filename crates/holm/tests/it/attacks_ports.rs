//! What a workspace could do to others, or to the host, by way of its ports.

use crate::support::{
    Island, Ran, Running, World, background, eventually, fetch, host_port, port_of, send,
};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::process::Command;

fn ports(island: &Island, workspace: &str) -> Vec<Value> {
    let listed = island.holm(&["ports", workspace, "--json"]).json();
    listed["ports"].as_array().unwrap().clone()
}

/// Listens on many ports, as nothing sensible does.
const MANY: &str = "exec python3 -c \"
import socket, time, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for port in range(5000, 5700):
    s = socket.socket(); s.bind(('127.0.0.1', port)); s.listen(); held.append(s)
time.sleep(1000)
\"";

#[test]
fn many_ports_of_one_take_nothing_from_another() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nweb = 3000\n");
    repository.commit("ports");
    repository.up("greedy");
    repository.up("other");
    background(&island, "greedy", MANY);
    eventually("they are seen", || ports(&island, "greedy").len() > 500);
    let found = ports(&island, "greedy");
    let hosted = found
        .iter()
        .filter(|port| port["host_port"].is_u64())
        .count();
    assert_eq!(hosted, 65, "64 that were found, and the declared one");
    background(&island, "greedy", "exec python3 -m http.server 3000");
    host_port(&island, "greedy", 3000);
    background(&island, "other", "exec python3 -m http.server 4000");
    let port = host_port(&island, "other", 4000);
    assert!(fetch("127.0.0.1", port).unwrap().contains("200 OK"));
}

#[test]
fn a_host_port_of_one_that_is_gone_leads_to_nobody() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nweb = 3000\n");
    repository.commit("ports");
    repository.up("old");
    let old = port_of(&island, "old", 3000).unwrap()["host_port"]
        .as_u64()
        .unwrap() as u16;
    island.holm(&["rm", "old", "--force"]).ok();
    island.holm(&["gc", "--all"]).ok();
    repository.holm(&["up", "-n", "20", "new"]).ok();
    let listed = island.holm(&["ports", "--json"]).json();
    let all = listed["ports"].as_array().unwrap();
    assert_eq!(all.len(), 20);
    assert!(all.iter().all(|port| port["host_port"] != old));
    let refused = fetch("127.0.0.1", old).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn nothing_inside_reaches_the_host_ports_or_another_workspace() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("one");
    repository.up("two");
    background(&island, "one", "exec python3 -m http.server 3000");
    let port = host_port(&island, "one", 3000);
    let dial =
        |port: u16| format!("import socket; socket.create_connection(('127.0.0.1', {port}), 5)");
    for port in [port, 3000] {
        let ran = island.python("two", &dial(port));
        assert!(ran.stderr.contains("ConnectionRefused"), "{ran:?}");
    }
    // The counterpart: each is reachable, one from the host and one from its own inside.
    island.python("one", &dial(3000)).ok();
    assert!(fetch("127.0.0.1", port).is_ok());
}

#[test]
fn a_stopped_first_process_does_not_hold_up_connections() {
    // The sockets of connections inward are made without it, so it cannot withhold or watch them.
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("one");
    background(&island, "one", "exec python3 -m http.server 3000");
    let port = host_port(&island, "one", 3000);
    let init = island.init_of(&id).unwrap();
    send(init, Signal::STOP);
    assert!(fetch("127.0.0.1", port).unwrap().contains("200 OK"));
    send(init, Signal::CONT);
}

/// Holds every host port but the last twenty, and takes and lets go of those as fast as it can.
const CROWD: &str = "import resource, socket, sys, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
def take(address, port):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try: s.bind((address, port)); s.listen()
    except OSError: s.close(); return None
    return s
held = [take('127.0.0.1', port) for port in range(20000, 29980)]
print('ready', flush=True)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
turns = won = 0
while not ended.is_set():
    for port in range(29980, 30000):
        s = take('::1' if turns % 2 else '127.0.0.1', port)
        turns += 1
        if s: won += 1; s.close()
print('turns', turns > 0, won > 0, flush=True)
";

/// Attack 172: the port is taken between choosing and binding it, and two daemons want the same.
#[test]
fn attack_172_host_ports_are_taken_atomically_and_tried_again() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nweb = 3000\napi = 8080\n");
    repository.commit("ports");
    let homes = ["holm", "other"].map(|name| island.make_dir(name));
    let holm = |home: usize, arguments: &[&str]| -> Command {
        let mut command = island.holm_command(&repository.path, arguments);
        command.env("HOLM_HOME", &homes[home]);
        command
    };
    // The daemons have their own ports (the front door) before the crowd comes.
    for home in [0, 1] {
        Ran::new(&mut holm(home, &["daemon", "start"])).ok();
    }
    let mut crowd = Running::new(&mut world.on_machine(&["/usr/bin/python3", "-c", CROWD]));
    crowd.says("ready");
    // 2 daemons, 4 workspaces each, 2 ports each: 16 of the 20 that are left.
    let mut both = [0, 1].map(|home| Running::new(&mut holm(home, &["up", "-n", "4", "w"])));
    for one in &mut both {
        assert_eq!(one.code(), Some(0));
    }
    let listed = |home: usize| -> Vec<(String, u64)> {
        let listed = Ran::new(&mut holm(home, &["ports", "--json"])).json();
        let ports = listed["ports"].as_array().unwrap().clone();
        let key = |port: &Value| format!("{home} {} {}", port["label"], port["port"]);
        ports
            .iter()
            .map(|port| (key(port), port["host_port"].as_u64().expect("a host port")))
            .collect()
    };
    let all = [listed(0), listed(1)].concat();
    assert_eq!(all.len(), 16);
    let numbers: BTreeSet<u64> = all.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers.len(), 16, "{all:?}");
    assert!(numbers.iter().all(|number| *number >= 29_980), "{all:?}");
    // Announced ports are bound, on both addresses, under load.
    let held = world.on_machine(&["ss", "-Hltn"]).output().unwrap();
    let held = String::from_utf8(held.stdout).unwrap();
    for number in &numbers {
        for address in ["127.0.0.1", "[::1]"] {
            let place = format!("{address}:{number} ");
            assert!(held.contains(&place), "{place}: {held}");
        }
    }
    crowd.close_stdin();
    crowd.says("turns True True");
    Ran::new(&mut holm(1, &["daemon", "stop", "--all"])).ok();
}

/// Echoes to any number of clients; after a complete request it ends.
const ECHO: &str = "exec python3 -c \"
import asyncio, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
async def serve(reader, writer):
    try:
        while data := await reader.read(1000):
            writer.write(data)
            if b'GET / ' in data: break
    except OSError: pass
    writer.close()
async def main():
    async with await asyncio.start_server(serve, '127.0.0.1', 3000, backlog=2000) as server:
        await server.serve_forever()
asyncio.run(main())
\"";

/// Keeps 2000 connections open. Says how many of them are answered, and how the others end.
const CLIENTS: &str = "import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
port, words = int(sys.argv[1]), sys.argv[2].encode().decode('unicode_escape').encode()
kept, counts = [], {'answered': 0, 'reset': 0, 'refused': 0}
for _ in range(2000):
    s = socket.socket(); s.settimeout(60); kept.append(s)
    try: s.connect(('127.0.0.1', port)); s.sendall(words); got = s.recv(1000)
    except OSError: got = b''
    word = 'refused' if b' 503 ' in got else 'answered' if got else 'reset'
    counts[word] += 1
print(*counts.values(), flush=True)
sys.stdin.read()
";

fn descriptors(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

/// Attack 141: many connections to one workspace take nothing from another.
#[test]
fn attack_141_many_connections_to_one_leave_another_alone_and_all_recovers() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nweb = 3000\n");
    repository.commit("ports");
    // As most machines have it: 512 connections alone would take all of these files.
    let program = crate::support::program().display();
    let line = format!("ulimit -Sn 1024; exec {program} daemon start");
    island.run(&island.home(), "sh", &["-c", &line]).ok();
    for label in ["flooded", "other"] {
        repository.up(label);
        background(&island, label, ECHO);
    }
    let inside = island.sh("flooded", "ulimit -n").ok().out();
    assert_eq!(inside, "1024", "what the daemon takes is not for programs");
    let [flooded, other] = ["flooded", "other"].map(|label| host_port(&island, label, 3000));
    let door = island.holm(&["daemon", "status", "--json"]).json()["port"].to_string();
    let is_served = |port: u16| fetch("127.0.0.1", port).is_ok_and(|answer| answer.contains("GET"));
    let is_shown = |label: &str| {
        let url = format!("http://web.{label}.localhost:{door}/");
        let arguments = ["-sS", "--http0.9", "--max-time", "60", &url];
        // What answers there is no web server; that it was asked is what counts.
        let said = island.run(&island.home(), "curl", &arguments).out();
        said.contains("not HTTP")
    };
    assert!(is_served(flooded) && is_served(other));
    assert!(is_shown("other"));
    let daemon = island.daemon_pid();
    let before = descriptors(daemon);
    let flood = |port: &str, words: &str, expected: &str| {
        let mut command = Command::new("/usr/bin/python3");
        let mut clients = Running::new(command.args(["-c", CLIENTS, port, words]));
        clients.says(expected);
        for _ in 0..20 {
            assert!(is_served(other));
        }
        assert!(is_shown("other"));
        island.holm(&["ls"]).ok();
        assert_eq!(island.sh("flooded", "echo here").ok().out(), "here");
        clients
    };
    let mut clients = flood(&flooded.to_string(), "hello", "512 1488 0");
    assert!(!is_served(flooded), "it has as many as it may");
    assert_eq!(clients.code(), Some(0));
    eventually("it is served again", || is_served(flooded));
    eventually("the daemon has let go of everything", || {
        descriptors(daemon) <= before
    });
}
