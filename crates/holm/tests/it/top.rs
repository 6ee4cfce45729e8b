//! `holm top` and the numbers of `show` match what runs, on a terminal and for machines.

use crate::support::{Act, Island, Repository, eventually, host_port};
use serde_json::Value;

const CONFIG: &str = "[services.busy]\nrun = \"while :; do :; done\"\n\
    [services.fat]\nrun = \"exec python3 -c 'import time; x = bytearray(80 << 20); time.sleep(1000)'\"\n\
    [services.idle]\nrun = \"exec sleep 1000\"\n";

fn with_services(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", CONFIG);
    repository.commit("services");
    repository
}

fn of<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter();
    let mut found = found.filter(|one| one["label"] == name || one["name"] == name);
    found.next().expect("it is there")
}

#[test]
fn the_numbers_are_those_of_what_runs() {
    let island = Island::new();
    let repository = with_services(&island);
    repository.up("x");
    repository.holm(&["up", "y", "--json"]).ok();
    for name in ["busy", "fat"] {
        repository.holm(&["service", "y", "stop", name]).ok();
    }
    repository.up("z");
    repository.holm(&["stop", "z"]).ok();
    // The program has to have taken its memory, and the processors have to be given some time.
    let mut top = Value::Null;
    eventually("they are seen", || {
        top = repository.holm(&["top", "--json"]).json();
        let x = of(&top["workspaces"], "x");
        let number = |value: &Value| value.as_f64().unwrap();
        let (busy, fat) = (of(&x["services"], "busy"), of(&x["services"], "fat"));
        number(&busy["cpu"]) > 0.05 && number(&fat["memory"]) > 80e6 && x["disk"].is_u64()
    });
    let [x, y, z] = ["x", "y", "z"].map(|label| of(&top["workspaces"], label));
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&x["cpu"]) > number(&y["cpu"]), "{top}");
    assert!(
        number(&x["memory"]) > 80e6 && number(&y["memory"]) < 80e6,
        "{top}"
    );
    let idle = of(&x["services"], "idle");
    assert_eq!(
        (&idle["processes"], &idle["state"]),
        (&1.into(), &"ready".into())
    );
    assert!(number(&idle["cpu"]) < 0.05, "{top}");
    assert!(
        number(&x["processes"]) >= 4.0,
        "init and three services: {top}"
    );
    let stopped = of(&y["services"], "busy");
    assert_eq!(
        (&stopped["processes"], &stopped["state"]),
        (&0.into(), &"stopped".into())
    );
    assert_eq!(
        (&z["state"], &z["cpu"], &z["memory"]),
        (&"stopped".into(), &0.0.into(), &0.into())
    );
    assert!(!x["history"]["cpu"].as_array().unwrap().is_empty(), "{top}");

    let shown = repository.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["label"], "x");
    assert!(number(&shown["numbers"]["memory"]) > 80e6, "{shown}");
    assert!(shown["numbers"]["disk"].is_u64(), "{shown}");
    let text = repository.holm(&["show", "x"]).ok().out();
    assert!(
        text.contains("  memory ") && text.contains(" in, "),
        "{text}"
    );
    assert!(text.contains("service busy  ready"), "{text}");
    let text = repository.holm(&["show", "z"]).ok().out();
    assert!(!text.contains(" in, "), "{text}");
}

/// What a workspace sends through its gateway is counted, in both directions.
#[test]
fn bytes_through_the_gateway_are_counted() {
    let island = Island::new();
    let repository = island.repository("shop");
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let config = format!("[shared.thing]\naddress = \"127.0.0.1:{port}\"\nport = 4000\n");
    repository.write("holm.toml", config);
    repository.commit("shared");
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("x");
    let before = repository.holm(&["show", "x", "--json"]).json();
    assert_eq!(before["numbers"]["network_in"], 0);
    let serving = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = server.accept().unwrap();
        let mut asked = [0; 1000];
        stream.read_exact(&mut asked).unwrap();
        stream.write_all(&vec![b'x'; 50_000]).unwrap();
    });
    let script = "import socket; s = socket.create_connection(('127.0.0.1', 4000)); \
        s.sendall(b'y' * 1000); n = 0\nwhile n < 50000: n += len(s.recv(65536))\nprint(n)";
    assert_eq!(island.python("x", script).ok().out(), "50000");
    serving.join().unwrap();
    eventually("they are counted", || {
        let after = repository.holm(&["show", "x", "--json"]).json();
        let numbers = &after["numbers"];
        (&numbers["network_in"], &numbers["network_out"]) == (&50_000.into(), &1_000.into())
    });
}

/// Bytes from outside are counted for the service that serves them, and the disk is shown by its
/// parts.
#[test]
fn a_service_has_the_bytes_of_its_port_and_a_volume_its_disk() {
    let island = Island::new();
    let repository = island.repository("shop");
    let config = "[ports]\nweb = 3000\n[volumes.data]\npath = \"/data\"\n\
        [services.web]\nrun = \"cd /data && head -c 3000000 /dev/zero > big && exec python3 -m http.server 3000\"\n\
        ready = { tcp = 3000 }\n\
        [services.idle]\nrun = \"exec sleep 1000\"\n";
    repository.write("holm.toml", config);
    repository.commit("services");
    repository.up("x");
    island
        .sh("x", "head -c 1000000 /dev/zero > new; sync new /data/big")
        .ok();
    // Disk is measured rarely, so everything exists before the first request.
    let before = repository.holm(&["show", "x", "--json"]).json();
    assert_eq!(of(&before["numbers"]["services"], "web")["network_out"], 0);
    let port = host_port(&island, "x", 3000);
    let url = format!("http://127.0.0.1:{port}/big");
    let fetched = island.run(&island.home(), "curl", &["-sSf", "-o", "/dev/null", &url]);
    fetched.ok();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    eventually("disk and bytes are told", || {
        let numbers = repository.holm(&["show", "x", "--json"]).json()["numbers"].clone();
        let (web, idle) = (
            of(&numbers["services"], "web"),
            of(&numbers["services"], "idle"),
        );
        assert_eq!(
            (number(&idle["network_in"]), number(&idle["network_out"])),
            (0, 0)
        );
        let data = number(&of(&numbers["volumes"], "data")["bytes"]);
        let tree = number(&numbers["disk_tree"]);
        number(&web["network_out"]) > 3_000_000
            && number(&web["network_in"]) > 50
            && numbers["network_out"] == web["network_out"]
            && (3_000_000..4_000_000).contains(&data)
            && (1_000_000..3_000_000).contains(&tree)
            && number(&numbers["disk"]) >= data + tree
    });
    let text = repository.holm(&["show", "x"]).ok().out();
    let has_parts = |line: &str| line.contains("(tree ") && line.contains("; data 2.8 MiB)");
    assert!(text.lines().any(has_parts), "{text}");
    let text = repository.holm(&["top", "--once"]).ok().out();
    assert!(
        text.contains("VOLUMES") && text.contains("2.8 MiB"),
        "{text}"
    );
}

#[test]
fn on_a_terminal_it_is_drawn_and_the_terminal_is_as_it_was() {
    let island = Island::new();
    let repository = with_services(&island);
    repository.up("x");
    for (name, end, code) in [
        ("q", Act::Type("q"), 0),
        ("ctrl-C", Act::Type("\x03"), 0),
        ("escape", Act::Type("\x1b"), 0),
        ("SIGTERM", Act::Signal(15), 143),
    ] {
        let played = island.play(
            &repository.path,
            &["top"],
            &[
                Act::See("1 of 1 running"),
                Act::See("shop/x"),
                Act::See("busy"),
                Act::See("q quit   s sort   v services"),
                end,
            ],
        );
        assert_eq!(played.code, code, "{name}: {played:?}");
        assert!(played.is_restored, "{name}");
        let screen = &played.screen;
        assert!(
            screen.contains("\x1b[?1049h") && screen.ends_with("\x1b[?25h\x1b[?1049l"),
            "{name}: {screen:?}"
        );
    }
    // Smaller than anything that could be drawn, and larger again; services hidden; another order.
    let acts = [
        Act::See("fat"),
        Act::Resize(3, 20),
        Act::See("shop/x"),
        Act::Resize(1, 1),
        Act::See("h"),
        Act::Resize(50, 200),
        Act::See("NET IN"),
        Act::Type("s"),
        Act::See("MEMORY▾"),
        Act::Type("v"),
        Act::See("shop/x"),
        Act::Type("q"),
    ];
    let played = island.play(&repository.path, &["top"], &acts);
    assert!(played.code == 0 && played.is_restored, "{played:?}");
}

#[test]
fn without_workspaces_and_without_a_terminal_it_is_printed_once() {
    let island = Island::new();
    let text = island.holm(&["top"]).ok().out();
    assert!(
        text.contains("0 of 0 running") && text.contains("holm up"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "{text:?}");
    let empty = island.holm(&["top", "--json"]).json();
    assert_eq!(empty["workspaces"], Value::Array(Vec::new()));
    let played = island.play(
        &island.home(),
        &["top"],
        &[Act::See("no workspace"), Act::Type("q")],
    );
    assert_eq!((played.code, played.is_restored), (0, true));
}

/// The daemon dies: another one is started, and drawing continues.
#[test]
fn another_daemon_is_found() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let first = island.daemon_of_the_lock().expect("a daemon");
    let kill = format!("kill -9 {first}");
    let mut acts = vec![Act::See("1 of 1 running"), Act::Meanwhile(&kill)];
    acts.extend([Act::See("1 of 1 running"); 4]);
    acts.push(Act::Type("q"));
    let played = island.play(&repository.path, &["top"], &acts);
    assert!(played.code == 0 && played.is_restored, "{played:?}");
    let second = island.daemon_of_the_lock().expect("another daemon");
    assert_ne!(second, first);
}

/// Redis writes its title over the environment that it was started with.
#[test]
fn a_program_that_hides_its_environment_is_counted_for_its_service() {
    let island = Island::new();
    let repository = island.repository("shop");
    let redis = "[services.cache]\nrun = \"exec redis-server --save '' --appendonly no\"\nready = { tcp = 6379 }\n";
    repository.write("holm.toml", redis);
    repository.commit("services");
    repository.up("x");
    let environment = "tr '\\0' '\\n' < /proc/$(pgrep redis-server)/environ | grep -c HOLM_SERVICE";
    assert_eq!(island.sh("x", environment).out(), "0", "it hides it");
    // Another daemon has not seen it begin.
    island.kill_daemon();
    eventually("it is counted", || {
        let top = repository.holm(&["top", "--json"]).json();
        let cache = of(&of(&top["workspaces"], "x")["services"], "cache").clone();
        cache["processes"] == 1 && cache["memory"].as_f64().unwrap() > 1e6
    });
}
