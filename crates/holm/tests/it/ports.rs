//! Every port is the workspace's own, and the host reaches each by a port that stays.

use crate::support::{Island, Repository, background, eventually, fetch, host_port, port_of, take};
use serde_json::Value;
use std::io::ErrorKind;

/// A repository that declares two ports.
fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nweb = 3000\napi = 8080\n");
    repository.commit("ports");
    repository
}

/// Answers with the label of its workspace.
const PYTHON: &str = "mkdir -p /tmp/site && cd /tmp/site && echo $HOLM_WORKSPACE_LABEL > index.html \
    && exec python3 -m http.server 3000";

const NODE: &str = "exec node -e \"require('http').createServer((q, s) => \
    s.end(process.env.HOLM_WORKSPACE_LABEL + '\\n')).listen(3000, 'localhost')\"";

fn kind_of_failure(port: u16) -> ErrorKind {
    match fetch("127.0.0.1", port) {
        Ok(answer) => panic!("somebody answers: {answer}"),
        Err(error) => error.kind(),
    }
}

#[test]
fn two_workspaces_run_the_same_server_on_the_same_port() {
    let island = Island::new();
    let repository = shop(&island);
    let made = repository.holm(&["up", "one", "--json"]).json();
    let said = repository.holm(&["up", "two"]).ok().stderr;
    let line = said.lines().find(|line| line.contains("→ :3000")).unwrap();
    assert!(line.contains("http://web.two.localhost:"), "{line}");
    assert!(line.contains("http://127.0.0.1:2"), "{line}");
    let declared = made["ports"].as_array().unwrap();
    let names: Vec<_> = declared.iter().map(|port| port["name"].as_str()).collect();
    assert_eq!(names, [Some("api"), Some("web")]);
    for port in declared {
        assert_eq!(port["source"], "declared");
        assert!(port["host_port"].is_u64(), "known at once: {port}");
        assert_eq!(port["listening"], false);
        assert_eq!(port["canonical"], false);
    }
    let early = declared[1]["host_port"].as_u64().unwrap() as u16;
    assert!((20_000..30_000).contains(&early));
    assert_eq!(kind_of_failure(early), ErrorKind::ConnectionReset);
    for server in [PYTHON, NODE] {
        let ports = ["one", "two"].map(|label| {
            background(&island, label, server);
            host_port(&island, label, 3000)
        });
        assert_eq!(ports[0], early, "it stays");
        assert_ne!(ports[0], ports[1]);
        for (label, port) in ["one", "two"].iter().zip(ports) {
            for address in ["127.0.0.1", "::1"] {
                let answer = fetch(address, port).unwrap();
                assert!(answer.trim_end().ends_with(label), "{address}: {answer}");
            }
            island.holm(&["restart", label]).ok();
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
             s.bind(('{address}',{port})); s.listen(); c,_=s.accept(); c.recv(99); \
             c.sendall(b'hello'); c.close(); s.close()\""
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
        assert_eq!(kind_of_failure(host_port), ErrorKind::ConnectionReset);
    }
}

#[test]
fn the_list_has_every_port_and_inside_knows_its_own() {
    let island = Island::new();
    let repository = shop(&island);
    let id = repository.up("one");
    background(&island, "one", "exec python3 -m http.server 9999");
    let found = host_port(&island, "one", 9999);
    let all = island.holm(&["ports", "--json"]).json();
    let of_one = island.holm(&["ports", "one", "--json"]).json();
    assert_eq!(all, of_one, "there is only one workspace");
    let ports = all["ports"].as_array().unwrap();
    let names: Vec<_> = ports.iter().map(|port| port["name"].as_str()).collect();
    assert_eq!(names, [Some("api"), Some("web"), Some("9999")]);
    for port in ports {
        assert_eq!(port["workspace"], *id);
        assert_eq!(port["label"], "one");
        for field in ["name", "port", "host_port", "url", "canonical", "source"] {
            assert!(port.get(field).is_some(), "{field} of {port}");
        }
    }
    let url = |name: &str| {
        let port = ports.iter().find(|port| port["name"] == name).unwrap();
        port["url"].as_str().unwrap().to_owned()
    };
    assert!(
        url("web").starts_with("http://web.one.localhost:"),
        "{}",
        url("web")
    );
    assert!(url("9999").starts_with("http://9999.one.localhost:"));
    let inside = island.sh("one", "echo $HOLM_URL_WEB $HOLM_URL_API").ok();
    assert_eq!(inside.out(), format!("{} {}", url("web"), url("api")));
    island.holm(&["rename", "one", "two"]).ok();
    island.holm(&["rename", "two", "one"]).ok();
    let table = island.holm(&["ports"]).ok().out();
    assert!(table.contains(&format!("127.0.0.1:{found}")), "{table}");
    assert!(table.contains(":9999"), "{table}");
    eventually("inside, too", || {
        let here = island.inside("one", &["holm", "here", "--json"]).json();
        let found = ports.iter().zip(here["ports"].as_array().unwrap());
        here["ports"].as_array().unwrap().len() == ports.len()
            && found.into_iter().all(|(one, other)| {
                one["name"] == other["name"] && one["host_port"] == other["host_port"]
            })
    });
    island.holm(&["ports", "nobody"]).exits(3);
}

/// The keeper does not look for ports while only init runs, so it has to know of programs that left their command.
#[test]
fn a_port_that_a_detached_program_opens_late_is_found() {
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let late = "until [ -e ~/go ]; do sleep 0.1; done; exec python3 -m http.server 4567";
    island
        .sh(
            "x",
            &format!("setsid sh -c '{late}' >/dev/null 2>&1 </dev/null &"),
        )
        .ok();
    // From outside: a command inside would be activity.
    let home = island.data().join("workspaces").join(&id).join("home");
    std::fs::write(home.join("go"), "").unwrap();
    host_port(&island, "x", 4567);
    island.sh("x", "pkill -f '[h]ttp.server'").ok();
    eventually("it is gone", || {
        let ports = island.holm(&["ports", "x", "--json"]).json();
        let mut ports = ports["ports"].as_array().unwrap().iter();
        !ports.any(|port| port["listening"] == true)
    });
}

#[test]
fn what_is_ready_by_its_port_is_listening_in_every_answer() {
    let island = Island::new();
    let server = "import os, socket, time\n\
        listener = socket.create_server(('127.0.0.1', 3000))\n\
        while not os.path.exists('close'): time.sleep(0.05)\n\
        listener.close()\n\
        time.sleep(1000)\n";
    let config = "[ports]\nweb = 3000\n[services.web]\nrun = \"exec python3 server.py\"\n\
        ready = { tcp = 3000 }\n";
    let repository = island.shop(config, server);
    let is_listening = |answer: &Value| {
        let mut ports = answer["ports"].as_array().unwrap().iter();
        ports.all(|port| port["listening"] == true)
    };
    // What listens is looked at a few times in a second, so one try could be lucky.
    for label in ["one", "two", "three"] {
        repository.holm(&["up", label]).ok();
        let ports = island.holm(&["ports", label, "--json"]).json();
        assert!(is_listening(&ports), "{ports}");
        let shown = island.holm(&["show", label, "--json"]).json();
        assert!(is_listening(&shown), "{shown}");
    }
    let all = island.holm(&["ports", "--json"]).json();
    assert!(is_listening(&all), "{all}");
    // A service that is ready and does not listen any more is not said to listen.
    island.sh("one", "touch close").ok();
    eventually("it is said", || {
        let shown = island.holm(&["show", "one", "--json"]).json();
        assert_eq!(shown["services"][0]["state"], "ready", "{shown}");
        !is_listening(&shown)
    });
}

#[test]
fn host_ports_stay_until_the_workspace_is_gone_for_good() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("one");
    background(&island, "one", PYTHON);
    background(&island, "one", "exec python3 -m http.server 9999");
    let (web, found) = (
        host_port(&island, "one", 3000),
        host_port(&island, "one", 9999),
    );
    let both = |island: &Island| {
        background(island, "one", PYTHON);
        background(island, "one", "exec python3 -m http.server 9999");
        (
            host_port(island, "one", 3000),
            host_port(island, "one", 9999),
        )
    };
    island.holm(&["stop", "one"]).ok();
    assert_eq!(
        kind_of_failure(web),
        ErrorKind::ConnectionReset,
        "it is held"
    );
    island.holm(&["start", "one"]).ok();
    assert_eq!(both(&island), (web, found));

    island.kill_daemon();
    eventually("its ports are closed", || {
        kind_of_failure(web) == ErrorKind::ConnectionRefused
    });
    // A new daemon finds running workspaces, and forwards the same ports.
    island.holm(&["ls"]).ok();
    assert_eq!(
        (
            host_port(&island, "one", 3000),
            host_port(&island, "one", 9999)
        ),
        (web, found)
    );
    assert!(fetch("127.0.0.1", web).unwrap().contains("one"));

    island.holm(&["rm", "one", "--force"]).ok();
    assert_eq!(kind_of_failure(web), ErrorKind::ConnectionRefused);
    repository.up("one");
    assert_ne!(port_of(&island, "one", 3000).unwrap()["host_port"], web);
    let trash = island.holm(&["ls", "--trash", "--json"]).json();
    let id = trash["workspaces"][0]["id"].as_str().unwrap().to_owned();
    island.holm(&["restore", &id]).ok();
    assert_eq!(port_of(&island, &id, 3000).unwrap()["host_port"], web);
}

#[test]
fn a_host_port_that_another_program_took_meanwhile_is_exchanged() {
    let island = Island::new();
    let repository = shop(&island);
    let id = repository.up("one");
    background(&island, "one", PYTHON);
    let before = host_port(&island, "one", 3000);
    island.kill_daemon();
    let taken = take("::1", before);
    let after = host_port(&island, "one", 3000);
    assert_ne!(after, before);
    assert!(fetch("127.0.0.1", after).unwrap().contains("one"));
    let shown = island.holm(&["show", "one", "--json"]).json();
    let note = shown["notes"].to_string();
    assert!(note.contains(&before.to_string()), "{note}");
    let mut moved = Value::Null;
    eventually("it is told", || {
        let mut all = events(&island).into_iter();
        moved = all
            .find(|event| event["type"] == "port.moved")
            .unwrap_or_default();
        !moved.is_null()
    });
    assert_eq!(moved["workspace"], *id);
    assert_eq!(moved["earlier_host_port"], before);
    assert_eq!(moved["host_port"], after);
    // It stays there, also when the first is free again.
    drop(taken);
    island.kill_daemon();
    assert_eq!(host_port(&island, "one", 3000), after);
}

#[test]
fn two_daemons_of_one_machine_never_have_the_same_port() {
    let islands = [Island::new(), Island::new()];
    let mut all: Vec<u64> = Vec::new();
    for island in &islands {
        let repository = shop(island);
        repository.holm(&["up", "-n", "5", "w"]).ok();
        let listed = island.holm(&["ports", "--json"]).json();
        let ports = listed["ports"].as_array().unwrap().clone();
        all.extend(ports.iter().map(|port| port["host_port"].as_u64().unwrap()));
    }
    assert_eq!(all.len(), 20);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 20);
}

#[test]
fn databases_are_reached_with_their_own_clients() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\ndb = 5432\nredis = 6379\n");
    repository.commit("ports");
    let home = island.home();
    for label in ["one", "two"] {
        repository.up(label);
        let script = r#"
            PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | head -1)
            initdb -D ~/pg -U me --no-sync >/dev/null
            pg_ctl -D ~/pg -w -s -l ~/pg.log -o "-k /tmp -c listen_addresses=127.0.0.1" start
            redis-server --daemonize yes --dir ~ --bind ::1 --logfile ~/redis.log >/dev/null"#;
        island.inside(label, &["bash", "-euc", script]).ok();
        let ports = [5432, 6379].map(|port| host_port(&island, label, port).to_string());
        let query = |sql: &str| {
            let arguments = [
                "-h",
                "127.0.0.1",
                "-p",
                &ports[0],
                "-U",
                "me",
                "-Atqc",
                sql,
                "postgres",
            ];
            island.run(&home, "psql", &arguments).ok().out()
        };
        query(&format!("create table t as select '{label}' as label"));
        let redis = |command: &[&str]| {
            let arguments = [&["-p", ports[1].as_str()], command].concat();
            island.run(&home, "redis-cli", &arguments).ok().out()
        };
        assert_eq!(redis(&["set", "label", label]), "OK");
        assert_eq!(query("select label from t"), label);
        assert_eq!(redis(&["get", "label"]), label);
        // Much at once, both ways.
        let rows = query(
            "select count(*) from (select repeat('x', 1000) from generate_series(1, 20000)) t",
        );
        assert_eq!(rows, "20000");
        let long = query("select repeat('x', 5000000)");
        assert_eq!(long.len(), 5_000_000);
    }
}

#[test]
fn ssh_is_reached_with_its_own_client() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nssh = 2222\n");
    repository.commit("ports");
    let home = island.home();
    let key = home.join("key").display().to_string();
    let quiet = ["-q", "-t", "ed25519", "-N", "", "-f", &key];
    island.run(&home, "ssh-keygen", &quiet).ok();
    let public = std::fs::read_to_string(format!("{key}.pub")).unwrap();
    for label in ["one", "two"] {
        repository.up(label);
        let script = format!(
            "mkdir -p ~/ssh && cd ~/ssh && echo '{}' > allowed && echo {label} > /tmp/who \
             && ssh-keygen -q -t ed25519 -N '' -f host",
            public.trim()
        );
        island.sh(label, &script).ok();
        let options = "-o Port=2222 -o ListenAddress=127.0.0.1 -o UsePAM=no -o StrictModes=no \
             -o PidFile=none -o HostKey=$HOME/ssh/host -o AuthorizedKeysFile=$HOME/ssh/allowed";
        let server = format!("exec /usr/sbin/sshd -D -e -f /dev/null {options}");
        background(&island, label, &server);
        let port = host_port(&island, label, 2222).to_string();
        let user = island.sh(label, "id -un").ok().out();
        let ssh = |address: &str, command: &str| {
            let there = format!("{user}@{address}");
            let mut arguments = vec!["-F", "none", "-i", &key, "-p", &port];
            for option in [
                "BatchMode=yes",
                "IdentitiesOnly=yes",
                "StrictHostKeyChecking=no",
                "UserKnownHostsFile=/dev/null",
            ] {
                arguments.extend(["-o", option]);
            }
            island
                .run(&home, "ssh", &[&arguments[..], &[&there, command]].concat())
                .ok()
                .out()
        };
        assert_eq!(ssh("127.0.0.1", "cat /tmp/who"), label);
        assert_eq!(ssh("::1", "head -c 3000000 /dev/zero | wc -c"), "3000000");
        assert_eq!(ssh("::1", "head -c 3000000 /dev/zero").len(), 3_000_000);
    }
}

#[test]
fn traffic_of_a_route_counts_as_use() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("used");
    repository.up("idle");
    background(&island, "used", PYTHON);
    let port = host_port(&island, "used", 3000);
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "stop_after = \"5s\"\n");
    let state = |workspace: &str| {
        let list = island.holm(&["ls", "--json"]).json();
        let all = list["workspaces"].as_array().unwrap().clone();
        let found = all.into_iter().find(|found| found["label"] == workspace);
        found.unwrap()["state"].clone()
    };
    eventually("what nobody uses is stopped", || {
        assert!(fetch("127.0.0.1", port).unwrap().contains("used"));
        state("idle") == "stopped"
    });
    assert_eq!(state("used"), "running");
    eventually("without traffic the other is, too", || {
        state("used") == "stopped"
    });
}

/// Everything that happened.
fn events(island: &Island) -> Vec<Value> {
    let ran = island.holm(&["events", "--json"]).ok();
    let lines = ran.out();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn of_two_projects_with_one_label_the_first_has_it_as_its_address() {
    let island = Island::new();
    let config = "[ports]\nweb = 3000\n";
    let repositories = ["shop", "blog"].map(|name| {
        let repository = island.repository(name);
        repository.write("holm.toml", config);
        repository.commit("ports");
        repository
    });
    let site = |id: &str| {
        let url = port_of(&island, id, 3000).unwrap()["url"].clone();
        let url = url.as_str().unwrap().strip_prefix("http://web.").unwrap();
        url.split(".localhost").next().unwrap().to_owned()
    };
    let [shop, blog] = repositories
        .each_ref()
        .map(|repository| repository.up("fix"));
    assert_eq!(
        (site(&shop), site(&blog)),
        ("fix".into(), "fix--blog".into())
    );
    // A workspace that gets a label later, in any way, does not take over the URL of the earlier
    // one.
    let other = repositories[1].up("other");
    island.holm(&["rename", &shop, "old"]).ok();
    island.holm(&["rename", &other, "fix-2"]).ok();
    assert_eq!(site(&blog), "fix");
    island.holm(&["rename", &shop, "fix"]).ok();
    assert_eq!(
        (site(&shop), site(&blog)),
        ("fix--shop".into(), "fix".into())
    );
    island.kill_daemon();
    assert_eq!(
        (site(&shop), site(&blog)),
        ("fix--shop".into(), "fix".into())
    );
}
