//! What a workspace could do to others, or to the host, by way of its ports.

use crate::support::{Island, background, eventually, fetch, host_port, port_of, send};
use rustix::process::Signal;
use serde_json::Value;
use std::io::ErrorKind;

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
    // The counterpart: from the host the one, and from its own inside the other, is there.
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
