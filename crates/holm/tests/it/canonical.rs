//! `holm checkout`: `localhost:<port>` of the host belongs to one workspace at a time.
//!
//! Each test uses its own ports: tests share a machine's loopback.

use crate::support::{
    Island, Repository, background, eventually, fetch, free_port, host_port, take,
};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;

fn free_ports() -> [u16; 2] {
    [free_port(), free_port()]
}

fn shop<'a>(island: &'a Island, [web, api]: [u16; 2]) -> Repository<'a> {
    let repository = island.repository("shop");
    let config = format!("[ports]\nweb = {web}\napi = {api}\n");
    repository.write("holm.toml", config);
    repository.commit("ports");
    repository
}

/// Sends the label of the workspace to each client, then echoes line by line.
fn echo(port: u16) -> String {
    format!(
        "exec python3 -c \"
import os, socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write((os.environ['HOLM_WORKSPACE_LABEL'] + '\\n').encode())
        for line in self.rfile: self.wfile.write(line)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(('127.0.0.1', {port}), Echo).serve_forever()
\""
    )
}

fn serve(island: &Island, workspace: &str, port: u16) {
    background(island, workspace, &echo(port));
    host_port(island, workspace, port);
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn dial(address: &str, port: u16) -> Self {
        Self(BufReader::new(TcpStream::connect((address, port)).unwrap()))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn say(&mut self, text: &str) {
        self.0
            .get_mut()
            .write_all(format!("{text}\n").as_bytes())
            .unwrap();
    }
}

fn who(port: u16) -> String {
    Client::dial("127.0.0.1", port).line()
}

/// No workspace has a canonical port, and this one is closed.
#[track_caller]
fn nobody_has(island: &Island, port: u16) {
    let refused = TcpStream::connect(("127.0.0.1", port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{port}");
    let none = island.holm(&["checkout", "--json"]).json();
    assert_eq!(none["checkout"], serde_json::json!([]));
}

#[test]
fn new_connections_move_at_once_and_the_others_stay() {
    let island = Island::new();
    let [web, api] = free_ports();
    let repository = shop(&island, [web, api]);
    let ids = ["one", "two"].map(|label| {
        let id = repository.up(label);
        serve(&island, label, web);
        id
    });
    let taken = island.holm(&["checkout", "one", "--json"]).json();
    let ports = taken["checkout"].as_array().unwrap();
    assert_eq!(ports.len(), 2, "all that are declared");
    assert!(ports.iter().all(|port| port["workspace"] == *ids[0]));
    assert!(ports.iter().all(|port| port["before"].is_null()));
    let mut early = Client::dial("127.0.0.1", web);
    assert_eq!(early.line(), "one");
    let mut six = Client::dial("::1", web);
    assert_eq!(six.line(), "one");

    let moved = island
        .holm(&["checkout", "two", "--ports", "web", "--json"])
        .json();
    let ports = moved["checkout"].as_array().unwrap();
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0]["before"]["label"], "one");
    assert_eq!(ports[0]["before"]["workspace"], *ids[0]);
    assert_eq!(who(web), "two");
    for client in [&mut early, &mut six] {
        client.say("still here");
        assert_eq!(client.line(), "still here");
    }
    let said = island
        .holm(&["checkout", "one", "--ports", "web"])
        .ok()
        .stderr;
    assert!(said.contains("until now two"), "{said}");
    assert_eq!(who(web), "one");
    let shown = island.holm(&["show", "one", "--json"]).json();
    let canonical: Vec<_> = shown["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port["canonical"] == true)
        .collect();
    assert_eq!(canonical, [true, true], "the other port was left alone");

    let released = island.holm(&["checkout", "--none", "--json"]).json();
    assert_eq!(released["checkout"].as_array().unwrap().len(), 2);
    nobody_has(&island, web);
}

#[test]
fn a_port_of_another_program_is_an_error_that_names_it_and_nothing_is_half_taken() {
    let island = Island::new();
    let [web, api] = free_ports();
    let repository = shop(&island, [web, api]);
    repository.up("one");
    let script = format!(
        "import socket,sys; s=socket.socket(); s.bind(('127.0.0.1',{api})); s.listen(); print('held', flush=True); sys.stdin.read()"
    );
    let mut command = island.command("python3", &island.home());
    command.args(["-c", &script]);
    let mut holder = crate::support::Running::new(&mut command);
    holder.says("held");
    let error = island.holm(&["checkout", "one", "--json"]).error(4);
    assert_eq!(error["code"], "port_taken");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&api.to_string()), "{message}");
    assert!(message.contains("python3"), "{message}");
    assert!(
        message.contains(&format!("pid {}", holder.pid())),
        "{message}"
    );
    nobody_has(&island, web);
    // The counterpart: without that program it works.
    holder.close_stdin();
    holder.code();
    island.holm(&["checkout", "one"]).ok();
}

#[test]
fn names_that_are_not_there_are_answered_with_those_that_are() {
    let island = Island::new();
    let repository = shop(&island, free_ports());
    repository.up("one");
    let error = island
        .holm(&["checkout", "one", "--ports", "web,wbe", "--json"])
        .error(3);
    assert_eq!(error["code"], "port_not_found");
    let text = error.to_string();
    assert!(text.contains("wbe") && text.contains("api, web"), "{text}");
    for empty in ["", "web,"] {
        let error = island
            .holm(&["checkout", "one", "--ports", empty, "--json"])
            .error(2);
        assert_eq!(error["code"], "usage");
        let text = error.to_string();
        assert!(
            text.contains("empty") && text.contains("api, web"),
            "{text}"
        );
    }
    island.holm(&["checkout", "nobody"]).exits(3);
    island.holm(&["checkout", "one", "--none"]).exits(2);
    island.holm(&["checkout", "--ports", "web"]).exits(2);
    island.repository("plain").up("plain");
    let error = island.holm(&["checkout", "plain", "--json"]).error(3);
    assert!(
        error["hint"].as_str().unwrap().contains("[ports]"),
        "{error}"
    );
    let [port, _] = free_ports();
    background(&island, "plain", &echo(port));
    host_port(&island, "plain", port);
    island
        .holm(&["checkout", "plain", "--ports", &port.to_string()])
        .ok();
    assert_eq!(who(port), "plain", "a discovered one by its number");
}

#[test]
fn it_survives_daemons_and_stops_and_ends_with_the_workspace() {
    let island = Island::new();
    let [web, api] = free_ports();
    let repository = shop(&island, [web, api]);
    repository.up("one");
    serve(&island, "one", web);
    island.holm(&["checkout", "one", "--ports", "web"]).ok();
    island.kill_daemon();
    island.holm(&["ls"]).ok();
    eventually("it leads there again", || {
        TcpStream::connect(("127.0.0.1", web)).is_ok() && who(web) == "one"
    });
    island.holm(&["stop", "one"]).ok();
    let cut = fetch("127.0.0.1", web).unwrap_err();
    assert_eq!(cut.kind(), ErrorKind::ConnectionReset, "it is kept");
    island.holm(&["start", "one"]).ok();
    serve(&island, "one", web);
    assert_eq!(who(web), "one");
    island.holm(&["rm", "one", "--force"]).ok();
    nobody_has(&island, web);
}

/// What the events say of canonical ports, from the oldest on.
fn told(island: &Island) -> Vec<String> {
    let events = island.holm(&["events"]).ok().out();
    let lines = events.lines().filter(|line| line.contains("checkout."));
    let ends = lines.map(|line| line.rsplit("  ").next().unwrap_or_default().to_owned());
    ends.collect()
}

#[test]
fn events_tell_what_was_taken_and_released_and_only_that() {
    let island = Island::new();
    let repository = shop(&island, free_ports());
    for label in ["one", "two"] {
        repository.up(label);
    }
    let checkout = |arguments: &[&str]| island.holm(&[&["checkout"], arguments].concat()).ok();
    checkout(&["one", "--ports", "web"]);
    assert_eq!(told(&island), ["taken"]);
    checkout(&["one", "--ports", "web"]);
    assert_eq!(told(&island), ["taken"], "nothing changed");
    checkout(&["two", "--ports", "web"]);
    checkout(&["--none"]);
    assert_eq!(told(&island), ["taken", "taken from one", "released"]);
}

#[test]
fn a_workspace_that_does_not_run_gets_its_ports_and_it_is_said() {
    let island = Island::new();
    shop(&island, free_ports()).up("one");
    let says = |arguments: &[&str]| island.holm(arguments).ok().stderr;
    assert!(!says(&["checkout", "one"]).contains("holm start"));
    island.holm(&["stop", "one"]).ok();
    for arguments in [&["checkout", "one"][..], &["checkout"]] {
        let said = says(arguments);
        assert!(
            said.contains("one is stopped") && said.contains("`holm start one`"),
            "{said}"
        );
    }
}

#[test]
fn a_port_that_was_taken_while_there_was_no_daemon_is_said_and_taken_back() {
    let island = Island::new();
    let [web, api] = free_ports();
    let repository = shop(&island, [web, api]);
    repository.up("one");
    serve(&island, "one", web);
    island.holm(&["checkout", "one", "--ports", "web"]).ok();
    island.kill_daemon();
    let taken = take("127.0.0.1", web);
    let shown = island.holm(&["show", "one", "--json"]).json();
    let notes = shown["notes"].to_string();
    assert!(notes.contains(&web.to_string()), "{notes}");
    let list = island.holm(&["checkout", "--json"]).json();
    assert!(list["checkout"][0]["problem"].is_string(), "{list}");
    eventually("it is told", || {
        let events = island.holm(&["events", "--json"]).ok().out();
        events.contains("checkout.lost")
    });
    drop(taken);
    eventually("it is taken back", || {
        TcpStream::connect(("127.0.0.1", web)).is_ok() && who(web) == "one"
    });
}
