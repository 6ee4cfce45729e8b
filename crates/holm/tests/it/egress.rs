//! The way out of a workspace, with real programs, to hosts in namespaces that the test made.
//!
//! Making such namespaces takes root. The suite is run by root in CI; for others there is nothing
//! to see here.

use crate::support::{Running, World, eventually};
use serde_json::Value;

const ALLOW: &str = "[egress]\nmode = \"allow\"\n\
                     allow = [\"web.test\", \"*.wild.test:80\", \"192.0.2.20\", \"v6.test\"]\n";

/// The entries of a record that have this kind and name or address.
fn entries(record: &[Value], kind: &str, target: &str) -> Vec<Value> {
    let has = |entry: &&Value| {
        entry["kind"] == kind && (entry["name"] == target || entry["address"] == target)
    };
    record.iter().filter(has).cloned().collect()
}

#[test]
fn any_program_reaches_what_is_allowed_by_name_and_by_address() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    let curl = |arguments: &str| {
        let line = format!("curl -sS --max-time 60 {arguments}");
        island.sh("x", &line).ok().out()
    };
    assert_eq!(curl("-4 http://web.test/a"), "192.0.2.10 says /a");
    assert_eq!(curl("-6 http://v6.test/b"), "2001:db8::10 says /b");
    assert_eq!(curl("http://deep.er.wild.test/c"), "192.0.2.10 says /c");
    assert_eq!(curl("http://192.0.2.20/d"), "192.0.2.20 says /d");
    assert_eq!(curl("http://WEB.test./e"), curl("http://web.test/e"));
    // A program that sends a body, half-closes and reads to the end, by name.
    let talk = "import socket\n\
        s = socket.create_connection(('web.test', 5432), 20)\n\
        s.sendall(b'x' * 300000); s.shutdown(socket.SHUT_WR)\n\
        print(len(b''.join(iter(lambda: s.recv(65536), b''))))";
    assert_eq!(island.python("x", talk).ok().out(), "300008");
    let node = "fetch('http://web.test/node').then(r => r.text()).then(console.log)";
    let got = island.inside("x", &["node", "-e", node]).ok().out();
    assert!(got.ends_with("says /node"), "{got}");
    // psql reaches the port; what answers there is no PostgreSQL.
    let psql = island.sh("x", "psql -h web.test -U me -d db -c 'select 1' 2>&1");
    assert!(!psql.out().contains("refused"), "{}", psql.out());
    assert!(world.count("echo 192.0.2.10") + world.count("echo 2001:db8::10") >= 2);
    // Programs of the workspace reach only its resolver, whatever they name.
    let hard_coded = "import socket\n\
        q = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x03web\\x04test\\0\\0\\x01\\0\\x01'\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)\n\
        s.sendto(q, ('198.51.100.10', 53)); r, who = s.recvfrom(500)\n\
        print(who[0], r[7], r[-4])\n\
        t = socket.create_connection(('2001:db8::10', 53), 20)\n\
        t.sendall(len(q).to_bytes(2) + q); print(t.recv(500)[-4])";
    let got = island.python("x", hard_coded).ok().out();
    assert_eq!(got, "198.51.100.10 1 198\n198");
    let record = world.record("x");
    let made = entries(&record, "connect", "web.test");
    let echo = made.iter().find(|entry| entry["port"] == 5432).unwrap();
    assert_eq!(
        (&echo["bytes_out"], &echo["bytes_in"]),
        (&300_000.into(), &300_008.into())
    );
    assert_eq!(echo["process"]["name"], "python3");
    assert!(echo["duration_ms"].is_u64() && echo["time"].is_string());
}

#[test]
fn git_clones_over_http() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    let source = island.repository("source");
    let served = world.served().join("repo.git");
    let served = served.to_str().unwrap();
    source.git(&["clone", "-q", "--bare", ".", served]);
    source.git(&["-C", served, "update-server-info"]);
    world.up(
        "x",
        "[egress]\nmode = \"allow\"\nallow = [\"web.test:80\"]\n",
    );
    let clone = "cd /tmp && git clone -q http://web.test/repo.git there && cat there/README.md";
    assert_eq!(island.sh("x", clone).ok().out(), "# hello");
    let refused = island.sh(
        "x",
        "cd /tmp && git clone -q http://evil.test/repo.git evil",
    );
    assert_ne!(refused.code, Some(0));
    assert_eq!(world.count("evil"), 0);
}

#[test]
fn a_refusal_is_immediate_and_says_the_line_that_would_allow_it() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    // 7: could not connect; 6: could not resolve. A time-out would be 28.
    let curl = |url: &str| {
        island
            .sh("x", &format!("curl -sS --max-time 60 {url}"))
            .code
    };
    assert_eq!(curl("http://198.51.100.10/"), Some(7));
    assert_eq!(curl("-g 'http://[2001:db8::20]/'"), Some(7));
    assert_eq!(curl("http://evil.test/"), Some(6));
    assert_eq!(curl("http://a.wild.test:443/"), Some(7));
    let mut record = Vec::new();
    eventually("all refusals are written down", || {
        record = world.record("x");
        let refused = record.iter().filter(|entry| entry["kind"] == "refuse");
        refused.count() >= 3
    });
    let allow = |kind: &str, target: &str| {
        let found = entries(&record, kind, target);
        let first = found
            .first()
            .unwrap_or_else(|| panic!("{kind} {target}: {record:?}"));
        first["allow"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        allow("refuse", "198.51.100.10"),
        "[egress] allow = [\"198.51.100.10:80\"]"
    );
    assert_eq!(
        allow("refuse", "2001:db8::20"),
        "[egress] allow = [\"[2001:db8::20]:80\"]"
    );
    assert_eq!(
        allow("resolve", "evil.test"),
        "[egress] allow = [\"evil.test\"]"
    );
    assert_eq!(
        allow("refuse", "a.wild.test"),
        "[egress] allow = [\"a.wild.test:443\"]"
    );
    let shown = island.holm(&["egress", "x"]).ok().out();
    assert!(
        shown.contains("evil.test") && shown.contains("holm trust"),
        "{shown}"
    );
    assert_eq!(world.count("198.51.100.10"), 0);
    assert_eq!(world.count("dns evil.test"), 0);
}

#[test]
fn the_record_is_followed_and_floods_are_counted() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    let mut command = island.holm_command(&island.home(), &["egress", "x", "--follow", "--json"]);
    let mut following = Running::new(&mut command);
    let flood = "import socket\n\
        for _ in range(300):\n  s = socket.socket(); s.connect_ex(('198.51.100.10', 9)); s.close()";
    island.python("x", flood).ok();
    let first: Value = serde_json::from_str(&following.line()).unwrap();
    assert_eq!(
        (&first["kind"], &first["port"]),
        (&"refuse".into(), &9.into())
    );
    let counted: Value = serde_json::from_str(&following.line()).unwrap();
    assert_eq!(
        (&counted["kind"], &counted["port"]),
        (&"refuse".into(), &9.into())
    );
    assert!(counted["count"].as_u64().unwrap() >= 100, "{counted}");
    following.signal(rustix::process::Signal::INT);
}

#[test]
fn nothing_leaves_with_mode_none_and_everything_public_with_open() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up(
        "shut",
        "[egress]\nmode = \"none\"\nallow = [\"web.test\", \"192.0.2.20\"]\n",
    );
    world.up("open", "");
    let curl = |workspace: &str, url: &str| {
        let line = format!("curl -sS --max-time 60 {url}");
        island.sh(workspace, &line)
    };
    assert_eq!(curl("shut", "http://web.test/").code, Some(6));
    assert_eq!(curl("shut", "http://192.0.2.20/").code, Some(7));
    assert_eq!(world.seen().len(), 0, "{:?}", world.seen());
    assert_eq!(
        curl("open", "http://192.0.2.20/").ok().out(),
        "192.0.2.20 says /"
    );
    assert_eq!(
        curl("open", "http://other.test/").ok().out(),
        "192.0.2.20 says /"
    );
    assert_eq!(curl("open", "http://none.test/").code, Some(6));
    // A name server that cannot answer is not a name that does not exist.
    let failed = "import socket\ntry: socket.getaddrinfo('broken.test', 80)\n\
        except socket.gaierror as e: print(e.errno == socket.EAI_AGAIN)";
    assert_eq!(island.python("open", failed).ok().out(), "True");
    // The workspace's own places are its own in every mode.
    let own = "python3 -m http.server -b 127.0.0.1 8000 >/dev/null 2>&1 & \
        for i in $(seq 100); do curl -s -o /dev/null http://localhost:8000/ && break; sleep 0.1; done; \
        curl -sS -o /dev/null -w '%{http_code}' http://a.localhost:8000/";
    assert_eq!(island.sh("shut", own).ok().out(), "200");
}

#[test]
fn shared_services_and_services_are_found_by_name() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    let server = "import socketserver\n\
        class H(socketserver.BaseRequestHandler):\n\
        \x20 def handle(self): self.request.sendall(b'host service')\n\
        socketserver.TCPServer.allow_reuse_address = True\n\
        s = socketserver.TCPServer(('127.0.0.1', 6390), H); print('ready', flush=True); s.serve_forever()";
    let mut service = Running::new(&mut world.on_machine(&["/usr/bin/python3", "-c", server]));
    service.says("ready");
    let shared = "[shared.cache]\naddress = \"127.0.0.1:6390\"\nport = 6379\n\n\
        [services.db]\nrun = \"sleep 100000\"\n\n[egress]\nmode = \"none\"\n";
    let repository = island.repository("declares");
    repository.write("holm.toml", shared);
    repository.commit("configure");
    // Only after a person said yes.
    repository.holm(&["up", "x"]).exits(4);
    repository.holm(&["up", "without", "--untrusted"]).ok();
    repository.holm(&["trust", "--yes"]).ok();
    repository.holm(&["up", "x"]).ok();
    let ask = "import socket, sys\n\
        for host in ('cache', '127.0.0.1', '::1', 'localhost'):\n\
        \x20 s = socket.create_connection((host, 6379), 20); print(s.recv(100).decode())";
    let got = island.python("x", ask).ok().out();
    assert_eq!(got, ["host service"; 4].join("\n"));
    let names =
        "getent ahosts db | head -1; getent ahosts cache | head -1; getent hosts x | head -1";
    let got = island.sh("x", names).ok().out();
    assert_eq!(got.lines().count(), 3, "{got}");
    assert!(
        got.lines()
            .all(|line| line.starts_with("::1") || line.starts_with("127.0.0.1"))
    );
    // Also for a program that asks the resolver and not the file.
    let asked = "import socket\n\
        q = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x02db\\0\\0\\x01\\0\\x01'\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)\n\
        s.sendto(q, ('198.18.0.1', 53)); print(list(s.recv(500)[-4:]))";
    assert_eq!(island.python("x", asked).ok().out(), "[127, 0, 0, 1]");
    for (workspace, expected) in [("without", "61 or 111"), ("x", "61 or 111")] {
        let refused =
            "import socket\ns = socket.socket()\nprint(s.connect_ex(('127.0.0.1', 6390)))";
        let got = island.python(workspace, refused).ok().out();
        assert!(expected.contains(&got), "{workspace}: {got}");
    }
    let without = "import socket\ns = socket.socket()\nprint(s.connect_ex(('127.0.0.1', 6379)))";
    assert_eq!(island.python("without", without).ok().out(), "111");
    let record = world.record("x");
    assert!(
        !entries(&record, "connect", "cache").is_empty(),
        "{record:?}"
    );
}

#[test]
fn a_changed_file_changes_nothing_until_it_is_taken_over() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    let project = island.home().join("src/p-x");
    let edit = |text: &str| {
        let line = format!("cat > {}/holm.toml <<'END'\n{text}END", project.display());
        island.sh("x", &line).ok();
    };
    let code = |url: &str| {
        island
            .sh("x", &format!("curl -sS --max-time 60 {url}"))
            .code
    };
    edit("[egress]\nmode = \"allow\"\nallow = [\"web.test\", \"10.9.9.9\", \"evil.test\"]\n");
    assert_eq!(code("http://10.9.9.9/"), Some(7));
    assert_eq!(code("http://evil.test/"), Some(6));
    island.holm(&["restart", "x"]).ok();
    assert_eq!(code("http://10.9.9.9/"), Some(7));
    assert_eq!(code("http://evil.test/"), Some(6));
    // An address of a private network needs a person.
    let refused = island.holm(&["reload", "x", "--inside", "--json"]).error(4);
    assert_eq!(refused["code"], "not_trusted");
    assert!(
        refused["message"].as_str().unwrap().contains("10.9.9.9"),
        "{refused}"
    );
    assert_eq!(code("http://10.9.9.9/"), Some(7));
    let said = island.holm(&["reload", "x", "--inside", "--yes"]).ok();
    assert!(
        said.stderr.contains("egress.allow: + 10.9.9.9"),
        "{}",
        said.stderr
    );
    assert_eq!(code("http://10.9.9.9/"), Some(0));
    assert_eq!(code("http://192.0.2.20/"), Some(7));
    // A narrower policy needs no approval, and what takes effect later is listed.
    edit("[ports]\nweb = 3000\n[egress]\nmode = \"allow\"\nallow = [\"web.test\"]\n");
    let done = island.holm(&["reload", "x", "--inside", "--json"]).json();
    assert_eq!(done["applied"], true);
    assert_eq!(done["at_next_start"], serde_json::json!(["ports"]));
    assert_eq!(code("http://10.9.9.9/"), Some(7));
    assert_eq!(code("http://web.test/"), Some(0));
    let again = island.holm(&["reload", "x", "--inside"]).ok();
    assert!(again.stderr.contains("nothing changed"), "{}", again.stderr);
    // It stays so after a restart.
    island.holm(&["restart", "x"]).ok();
    assert_eq!(code("http://10.9.9.9/"), Some(7));
    edit("[egress]\nmode = \"sometimes\"\n");
    island.holm(&["reload", "x", "--inside"]).exits(2);
    assert_eq!(code("http://web.test/"), Some(0));
}

/// The guest chooses the names of hosts and programs.
#[test]
fn nothing_that_a_guest_says_forges_a_line_of_the_record() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    let forge = r#"
import ctypes, re, socket
server = re.search(r"nameserver (\S+)", open("/etc/resolv.conf").read())[1]
evil = b'a\n{"kind":"connect","name":"forged"}\r\x1b[2J'
ctypes.CDLL(None).prctl(15, b"p\n\x1b[31mforged", 0, 0, 0)
family = socket.AF_INET6 if ":" in server else socket.AF_INET
for label in (evil, b"web.test", b"web\0", b'"', b"\xff\xc2\x9b2J"):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(60); s.connect((server, 53))
    name = bytes([len(label)]) + label + b"\x04test\0"
    s.send(b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0" + name + b"\0\x01\0\x01")
    print(s.recv(500)[3] & 15)
s = socket.create_connection(("web.test", 443), 20)
hello = evil + b".test"
s.sendall(b"\x16\x03\x01" + len(hello).to_bytes(2) + hello); s.recv(1); s.close()
for _ in range(2):
    try: socket.create_connection(("198.51.100.10", 80), 20)
    except ConnectionRefusedError: pass
"#;
    let said = island.python("x", forge).ok().out();
    assert!(said.lines().all(|code| code != "0"), "{said}");
    eventually("it is written down", || {
        let record = world.record("x");
        let made = !entries(&record, "connect", "web.test").is_empty();
        made && !entries(&record, "refuse", "198.51.100.10").is_empty()
    });
    let id = island.holm(&["show", "x", "--json"]).json()["id"].clone();
    let kept = island.data().join("workspaces").join(id.as_str().unwrap());
    let text = std::fs::read_to_string(kept.join("egress.jsonl")).unwrap();
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert_ne!(entry["name"], "forged");
        assert!(entry["time"].is_string() && entry["count"].is_u64());
    }
    for shown in [
        text,
        island.holm(&["egress", "x"]).ok().out(),
        island.holm(&["egress", "x", "--json"]).ok().out(),
    ] {
        let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{2028}');
        assert!(!shown.contains(steers), "{}", shown.escape_debug());
        let begins = |line: &str| line.starts_with("{\"kind\":\"connect\",\"name\"");
        assert!(!shown.lines().any(begins), "{shown}");
    }
}

#[test]
fn a_workspace_has_so_many_connections_and_its_keeper_stays_reachable() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    let repository = island.repository("many");
    // 600 descriptors: 512 are kept for the keeper, so 44 connections are carried.
    let line = format!(
        "ulimit -n 600; exec {} up x",
        crate::support::program().display()
    );
    island.run(&repository.path, "sh", &["-c", &line]).ok();
    let many = "import socket\n\
        kept = []\n\
        for _ in range(60):\n\
        \x20 try: kept.append(socket.create_connection(('192.0.2.10', 443), 60))\n\
        \x20 except ConnectionResetError: pass\n\
        open_ = 0\n\
        for s in kept:\n\
        \x20 try: s.sendall(b'x'); open_ += len(s.recv(1))\n\
        \x20 except ConnectionResetError: pass\n\
        print(open_)";
    assert_eq!(island.python("x", many).ok().out(), "44");
    assert_eq!(island.sh("x", "echo here").ok().out(), "here");
    let record = world.record("x");
    let refused = entries(&record, "refuse", "192.0.2.10");
    assert!(
        refused
            .iter()
            .any(|entry| entry["reason"] == "too much at once"),
        "{record:?}"
    );
    assert_eq!(
        island
            .sh("x", "curl -sS --max-time 60 http://192.0.2.10/")
            .code,
        Some(0)
    );
}
