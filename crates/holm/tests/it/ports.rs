//! Every port is the workspace's own, and the host reaches each by a port that stays.

use crate::support::{Island, Repository, background, eventually, fetch, host_port, port_of};
use std::io::ErrorKind;

/// A repository that declares `web`, and answers with its workspace's label.
fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nweb = 3000\napi = 8080\n");
    repository.commit("ports");
    repository
}

const SERVE: &str = "mkdir -p /tmp/site && cd /tmp/site && echo $HOLM_WORKSPACE_LABEL > index.html \
    && exec python3 -m http.server 3000";

#[test]
fn two_workspaces_run_the_same_server_on_the_same_port() {
    let island = Island::new();
    let repository = shop(&island);
    let made = repository.holm(&["up", "one", "--json"]).json();
    repository.up("two");
    let declared = made["ports"].as_array().unwrap();
    let names: Vec<_> = declared.iter().map(|port| port["name"].as_str()).collect();
    assert_eq!(names, [Some("api"), Some("web")]);
    for port in declared {
        assert_eq!(port["source"], "declared");
        assert!(port["host_port"].is_u64(), "known at once: {port}");
        assert_eq!(port["listening"], false);
    }
    let early = declared[1]["host_port"].as_u64().unwrap() as u16;
    let error = fetch("127.0.0.1", early).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "nobody listens");
    let ports = ["one", "two"].map(|label| {
        background(&island, label, SERVE);
        host_port(&island, label, 3000)
    });
    assert_eq!(ports[0], early, "it stays");
    assert_ne!(ports[0], ports[1]);
    for (label, port) in ["one", "two"].iter().zip(ports) {
        for address in ["127.0.0.1", "::1"] {
            let answer = fetch(address, port).unwrap();
            assert!(answer.trim_end().ends_with(label), "{address}: {answer}");
        }
    }
}

#[test]
fn what_opens_without_being_declared_is_found_on_either_loopback_and_goes_again() {
    let island = Island::new();
    island.repository("shop").up("one");
    let listen = |family: &str, address: &str, port: u16| {
        let script = format!(
            "exec python3 -c \"import socket,time; s=socket.socket(socket.{family}); \
             s.bind(('{address}',{port})); s.listen(); c,_=s.accept(); c.recv(99); c.sendall(b'hello'); \
             c.close(); s.close()\""
        );
        background(&island, "one", &script);
    };
    listen("AF_INET", "127.0.0.1", 4001);
    listen("AF_INET6", "::1", 4002);
    listen("AF_INET", "0.0.0.0", 4003);
    listen("AF_INET6", "::", 4004);
    for port in [4001, 4002, 4003, 4004] {
        let host_port = host_port(&island, "one", port);
        let shown = port_of(&island, "one", port).unwrap();
        assert_eq!(shown["source"], "discovered");
        assert_eq!(shown["name"], port.to_string());
        assert_eq!(fetch("127.0.0.1", host_port).unwrap(), "hello", "{port}");
        eventually("it is gone from the list", || {
            port_of(&island, "one", port).is_none()
        });
    }
}
