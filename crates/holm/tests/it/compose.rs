//! Compose files, unchanged, in several workspaces at once: real programs in images, each with a network of its own.

use crate::rooms::redis;
use crate::services::service;
use crate::support::{Island, Repository, TestImage, World, eventually};
use serde_json::json;

/// Two servers on one port, networks that separate them, a check, a job, and the tree.
const STACK: &str = r#"
x-server: &server
  image: redis:7
  command: redis-server --save "" --protected-mode no
services:
  cache:
    <<: *server
    container_name: shop-cache
    ports: ["127.0.0.1:16379:6379"]
    networks: {front: {aliases: [memory]}}
    healthcheck: {test: [CMD, redis-cli, ping], interval: 1s}
  my_queue:
    <<: *server
    ports: ["16380:6379"]
    networks: [back]
    volumes: ["queue:/data"]
  fill:
    image: redis:7
    command: redis-cli -h memory set colour green
    networks: [front]
    depends_on: {cache: {condition: service_healthy}}
  app:
    image: redis:7
    entrypoint: /bin/sh
    command: [/code/look.sh]
    hostname: shop
    environment: {SPRING.COLOUR: blue}
    networks: [front]
    volumes: [".:/code:ro", "/code/kept", "settings:/settings"]
    tmpfs: /scratch
    configs: [greeting]
    depends_on: {fill: {condition: service_completed_successfully}}
networks: {front: {}, back: {}}
volumes: {queue: {}, settings: {}}
configs: {greeting: {content: "good day\n"}}
"#;

const LOOK: &str = r#"
for name in cache memory shop-cache; do echo "$name $(redis-cli -h $name get colour)"; done
echo "queue $(redis-cli -t 2 -h my_queue ping 2>&1)"
echo "address $(redis-cli -t 2 -h 198.19.1.5 ping 2>&1)"
echo "host $(cat /proc/sys/kernel/hostname) $(cat /greeting)"
touch /code/no 2>/dev/null || echo "read-only"
touch /code/kept/yes /scratch/yes /settings/yes && echo "writable"
cat /proc/$$/environ; echo
exec sleep 1000
"#;

fn stack<'a>(island: &'a Island, compose: &str) -> Repository<'a> {
    redis().add(island, "redis:7");
    let repository = island.repository("shop");
    repository.write("compose.yaml", compose);
    repository.write("look.sh", LOOK);
    repository.write("kept/.keep", "");
    repository.write("holm.toml", "[project]\ncompose = \"compose.yaml\"\n");
    repository.commit("a stack");
    repository
}

#[test]
fn a_stack_runs_unchanged_in_two_workspaces_at_once() {
    let island = Island::new();
    let repository = stack(&island, STACK);
    for label in ["a", "b"] {
        let made = repository.holm(&["up", label, "--json"]).json();
        assert_eq!(service(&made, "cache")["state"], "ready", "{made:#}");
        assert_eq!(service(&made, "fill")["state"], "exited", "{made:#}");
        assert_eq!(service(&made, "app")["state"], "ready", "{made:#}");
        island
            .inside(label, &["redis-cli", "-p", "16379", "set", "who", label])
            .ok();
        island
            .inside(
                label,
                &["redis-cli", "-h", "my-queue", "set", "who", "queue"],
            )
            .ok();
    }
    for label in ["a", "b"] {
        // Nothing that the kernel sends by itself is refused.
        let refused = island.holm(&["egress", label, "--json"]).json();
        assert!(!refused.to_string().contains("refuse"), "{refused:#}");
        let get = |words: &[&str]| {
            let words = [&["redis-cli"], words, &["get", "who"]].concat();
            island.inside(label, &words).ok().out()
        };
        assert_eq!(get(&["-h", "cache"]), label);
        assert_eq!(get(&["-p", "16380"]), "queue");
        let logs = island.holm(&["logs", label, "app"]).ok().out();
        for line in [
            "cache green",
            "memory green",
            "shop-cache green",
            "host shop good day",
            "read-only",
            "writable",
            "SPRING.COLOUR=blue",
        ] {
            assert!(logs.contains(line), "{line}: {logs}");
        }
        eventually("published ports are seen", || {
            let listed = island.holm(&["ports", label, "--json"]).json();
            listed.to_string().matches("\"listening\":true").count() == 2
        });
        // Another network: neither its name nor its address answers.
        assert!(!logs.contains("PONG"), "{logs}");
    }
}

/// A service leaves by the same gateway and the same rules as the workspace; one in an internal network does not leave.
const LEAVING: &str = r#"
services:
  app:
    image: curl:1
    command: [/bin/sh, -c, "
      curl -sS http://web.test/a; echo; curl -sS http://192.0.2.20/b; echo;
      curl -sS http://198.51.100.10/c; curl -sS http://evil.test/d; echo looked; exec sleep 1000"]
    healthcheck: {test: "test -e /proc/1"}
  inner:
    image: curl:1
    command: [/bin/sh, -c, "curl -sS http://192.0.2.20/inner; echo looked; exec sleep 1000"]
    networks: [closed]
  alone:
    image: curl:1
    command: [/bin/sh, -c, "curl -sS http://192.0.2.20/alone; echo looked; exec sleep 1000"]
    network_mode: none
networks: {closed: {internal: true}}
"#;

fn curl() -> TestImage {
    TestImage::with_shell(json!({"Env": ["PATH=/usr/bin:/bin"]})).program("/usr/bin/curl")
}

fn leave(world: &World) -> impl Fn(&str) -> String {
    let island = world.island();
    curl().add(island, "curl:1");
    let repository = island.repository("leaving");
    repository.write("compose.yaml", LEAVING);
    repository.write(
        "holm.toml",
        "[project]\ncompose = \"compose.yaml\"\n[egress]\nmode = \"allow\"\nallow = [\"web.test\", \"192.0.2.20\"]\n",
    );
    repository.commit("a stack");
    repository.holm(&["trust", "--yes"]).ok();
    repository.holm(&["up", "x"]).ok();
    move |service: &str| {
        let mut logs = String::new();
        eventually("it has looked", || {
            logs = island.holm(&["logs", "x", service]).ok().out();
            logs.contains("looked")
        });
        logs
    }
}

#[test]
fn services_leave_by_the_gateway_of_the_workspace() {
    let Some(world) = World::new() else { return };
    let logs = leave(&world);
    let app = logs("app");
    assert!(app.contains("192.0.2.10 says /a"), "{app}");
    assert!(app.contains("192.0.2.20 says /b"), "{app}");
    assert!(
        !app.contains("says /c") && !app.contains("says /d"),
        "{app}"
    );
    for service in ["inner", "alone"] {
        assert!(!logs(service).contains("says"), "{}", logs(service));
    }
    assert_eq!(world.count("198.51.100.10") + world.count("evil"), 0);
    assert_eq!(world.count("/inner") + world.count("/alone"), 0);
    eventually("the refusal is written down", || {
        let refused = world.record("x").into_iter();
        let mut refused = refused.filter(|entry| entry["kind"] == "refuse");
        refused.any(|entry| entry["address"] == "198.51.100.10")
    });
}

/// The same stack without the kernel's rules and the gateway's check: the address answers.
#[test]
fn without_the_rules_a_service_reaches_what_is_not_allowed() {
    let Some(world) = World::without("egress_rules,gateway") else {
        return;
    };
    let logs = leave(&world);
    assert!(logs("app").contains("198.51.100.10 says /c"));
}

/// What reaches the host needs a yes, and happens only then.
#[test]
fn attack_202_a_compose_file_reaches_the_host_only_with_approval() {
    let island = Island::new();
    curl().add(&island, "curl:1");
    let secret = island.home().join("outside.txt");
    std::fs::write(&secret, "of the host\n").unwrap();
    let repository = island.repository("shop");
    let service = "image: curl:1\n    command: [/bin/sh, -c, 'cat /seen; echo looked; exec sleep 1000']\n    \
        privileged: true\n    volumes: [\"~/outside.txt:/seen:ro\"]\n";
    repository.write("compose.yaml", format!("services:\n  app:\n    {service}"));
    repository.write("holm.toml", "[project]\ncompose = \"compose.yaml\"\n");
    repository.commit("a stack");
    let refused = repository.holm(&["up", "x", "--json"]).error(4);
    assert_eq!(refused["code"], "not_trusted", "{refused}");
    for part in ["services.app.privileged", "outside.txt"] {
        assert!(
            refused["message"].as_str().unwrap().contains(part),
            "{refused}"
        );
    }
    let words = refused["message"].as_str().unwrap();
    let key = "services.app.volumes.source";
    assert_eq!(words.matches(key).count(), 1, "{words}");
    let looked = |label: &str| {
        let mut logs = String::new();
        eventually("it has looked", || {
            logs = island.holm(&["logs", label, "app"]).ok().out();
            logs.contains("looked")
        });
        logs
    };
    repository.holm(&["up", "x", "--untrusted"]).ok();
    assert!(!looked("x").contains("of the host"), "{}", looked("x"));
    repository.holm(&["trust", "--yes"]).ok();
    repository.holm(&["up", "y"]).ok();
    assert!(looked("y").contains("of the host"), "{}", looked("y"));
}

#[test]
fn what_is_wrong_is_named_and_what_has_no_effect_too() {
    let island = Island::new();
    let repository = stack(
        &island,
        "services:\n  web:\n    image: redis:7\n    bild: .\n",
    );
    let wrong = repository.holm(&["up", "x", "--json"]).error(2);
    assert_eq!(wrong["code"], "invalid_config");
    assert!(
        wrong["message"]
            .as_str()
            .unwrap()
            .contains("compose.yaml:4:5"),
        "{wrong}"
    );
    repository.write(
        "compose.yaml",
        "services:\n  web:\n    image: redis:7\n    mem_limit: 1g\n    ports: [6379]\n    command: redis-server --protected-mode no\n",
    );
    repository.write(
        "holm.toml",
        "[project]\ncompose = \"compose.yaml\"\n[services.webb]\non_assign = \"none\"\n",
    );
    repository.commit("mistyped");
    let wrong = repository.holm(&["up", "x", "--json"]).error(2);
    assert!(
        wrong["message"]
            .as_str()
            .unwrap()
            .contains("did you mean `web`"),
        "{wrong}"
    );
    repository.write(
        "holm.toml",
        "[project]\ncompose = \"compose.yaml\"\n[services.web]\non_assign = \"none\"\n",
    );
    repository.commit("right");
    let made = repository.holm(&["up", "x", "--json"]).json();
    let notes = made["notes"].to_string();
    assert!(
        notes.contains("compose.yaml:4: `services.web.mem_limit`"),
        "{made:#}"
    );
    // A port without a number outside is published under its own.
    let ping = island.inside("x", &["redis-cli", "-p", "6379", "ping"]);
    assert_eq!(ping.ok().out(), "PONG");
    // A file that was changed in the checkout is taken over.
    repository.write(
        "compose.yaml",
        "services:\n  web:\n    image: redis:7\n    ports: [6379]\n    restart: always\n",
    );
    let reloaded = repository.holm(&["reload", "x", "--json"]).ok().out();
    assert!(reloaded.contains("services.web"), "{reloaded}");
    // What a move brings into the tree is not in force by itself.
    repository.write(
        "compose.yaml",
        "services: {web: {image: 'redis:7', ports: [6380:6379]}}\n",
    );
    repository.commit("another port");
    let moved = repository.holm(&["assign", "x", "main", "--json"]).json();
    let notes = moved["notes"].to_string();
    assert!(
        notes.contains("compose.yaml of this commit differs from the one in force"),
        "{moved:#}"
    );
}

/// A program that asks the DNS server itself, and commands beside the program.
const BESIDE: &str = r#"
services:
  app:
    image: ask:1
    command: [/bin/bash, /code/serve.sh]
    volumes: [".:/code"]
    networks: [front]
    post_start:
      - {command: [/bin/sh, -c, "cat /proc/1/comm > /dev/null; echo begun as $$ROLE in $$(pwd)"], working_dir: /tmp, environment: {ROLE: helper}}
      - {command: [/bin/sh, -c, "echo no > /dev/stderr; exit 3"]}
    pre_stop:
      - {command: [/bin/sh, -c, "echo before the end"]}
  alone:
    image: ask:1
    command: [/bin/bash, /code/serve.sh]
    volumes: [".:/code"]
    networks: [closed]
  cache: {image: redis:7, command: redis-server --protected-mode no, networks: [front, closed]}
networks: {front: {}, closed: {internal: true}}
"#;

/// Asks for the address of a name, and prints the code of the answer with the last four bytes.
const SERVE: &str = r#"
trap 'echo ending; exit 0' TERM
server=$(sed -n 's/^nameserver //p' /etc/resolv.conf)
ask() {
    exec 3<>"/dev/udp/$server/53"
    question="\x07\x09\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    for label in ${1//./ }; do question+="$(printf '\\x%02x%s' ${#label} "$label")"; done
    printf "$question\x00\x00\x01\x00\x01" >&3
    echo "$1 $(dd bs=512 count=1 <&3 2>/dev/null | od -An -v -tu1 | tr -s ' \n' ' ')"
}
for name in cache alone evil.test; do ask "$name"; done
echo asked
while :; do sleep 1; done
"#;

#[test]
fn names_over_dns_and_commands_beside_a_program() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    redis().add(island, "redis:7");
    ["bash", "dd", "od", "tr", "sed"]
        .iter()
        .fold(curl(), |image, name| {
            image.program(&format!("/usr/bin/{name}"))
        })
        .link("bin/bash", "/usr/bin/bash")
        .add(island, "ask:1");
    let repository = island.repository("shop");
    repository.write("compose.yaml", BESIDE);
    repository.write("serve.sh", SERVE);
    repository.write("holm.toml", "[project]\ncompose = \"compose.yaml\"\n");
    repository.commit("a stack");
    let made = repository.holm(&["up", "x", "--json"]).json();
    let logs = |service: &str, text: &str| {
        let mut logs = String::new();
        eventually(text, || {
            logs = island.holm(&["logs", "x", service]).ok().out();
            logs.contains(text)
        });
        logs
    };
    let answer = |logs: &str, name: &str| {
        let line = logs
            .lines()
            .find(|line| line.contains(&format!("{name}  7 9 ")));
        let line = line.unwrap_or_else(|| panic!("{name}: {logs}"));
        let bytes = line.split(&format!("{name}  ")).nth(1).unwrap();
        let bytes: Vec<u8> = bytes
            .split(' ')
            .filter_map(|byte| byte.parse().ok())
            .collect();
        (bytes[3] & 15, bytes[bytes.len() - 4..].to_vec())
    };
    let app = logs("app", "asked");
    // `alone` is the first service, `app` the second, `cache` the third.
    assert_eq!(answer(&app, "cache"), (0, vec![198, 19, 1, 4]));
    assert_eq!(answer(&app, "alone").0, 3, "another network");
    assert_eq!(answer(&app, "evil.test").0, 0, "as before");
    let alone = logs("alone", "asked");
    assert_eq!(answer(&alone, "cache"), (0, vec![198, 19, 1, 4]));
    assert_eq!(answer(&alone, "evil.test").0, 3, "nothing outside");

    logs("app", "begun as helper in /tmp");
    let app = logs("app", "[post_start exited with 3]");
    assert!(app.contains("no"), "{app}");
    eventually("users see that post_start failed", || {
        let shown = island.holm(&["show", "x", "--json"]).json();
        service(&shown, "app")["reason"] == "post_start exited with 3"
    });
    assert_eq!(service(&made, "app")["state"], "ready");
    island.holm(&["stop", "x"]).ok();
    let app = logs("app", "before the end");
    let (before, ending) = (app.find("before the end"), app.find("ending"));
    assert!(before < ending, "{app}");
}

/// Several instances, UDP between services, a terminal, an input that stays open, limits and settings of the network.
const DETAILS: &str = r#"
services:
  web:
    image: node:22
    command: [node, -e, "require('http').createServer((_, reply) => reply.end(require('os').networkInterfaces().eth0?.[0].address ?? JSON.stringify(require('os').networkInterfaces()))).listen(80)"]
    scale: 3
    ports: ["8080-8081:80"]
  clock:
    image: node:22
    command: [node, -e, "const udp = require('dgram').createSocket('udp4'); udp.on('message', (text, from) => udp.send('heard ' + text, from.port, from.address)).bind(7777)"]
  look:
    image: node:22
    depends_on: [web, clock]
    command:
      - sh
      - -c
      - |
        [ -t 0 ] && [ -t 1 ] && echo "has a terminal"
        echo "files $$(ulimit -Sn) $$(ulimit -Hn), queue $$(cat /proc/sys/net/core/somaxconn), memory $$(stat -f -c '%b of %S' /dev/shm)"
        node -e "require('dns').lookup('web', { all: true }, (_, all) => console.log('found', all.length))"
        node -e "const udp = require('dgram').createSocket('udp4'); udp.on('message', (text) => { console.log(String(text)); process.exit() }); setInterval(() => udp.send('me', 7777, 'clock'), 100)"
        echo looked
        exec cat
    tty: true
    shm_size: 3m
    ulimits: {nofile: {soft: 100, hard: 200}}
    sysctls: {net.core.somaxconn: 77}
  waits:
    image: node:22
    command: [sh, -c, "echo begins; cat; echo ended"]
    stdin_open: true
"#;

#[test]
fn instances_terminals_limits_and_settings_are_as_in_the_file() {
    let island = Island::new();
    crate::compose_shapes::node().add(&island, "node:22");
    let repository = island.repository("shop");
    repository.write("compose.yaml", DETAILS);
    repository.write("holm.toml", "[project]\ncompose = \"compose.yaml\"\n");
    repository.commit("a stack");
    let made = repository.holm(&["up", "x", "--json"]).json();
    for name in ["web", "web-2", "web-3", "clock", "look", "waits"] {
        assert_eq!(service(&made, name)["state"], "ready", "{made}");
    }
    let logs = |name: &str| island.holm(&["logs", "x", name]).ok().out();
    eventually("it has looked", || logs("look").contains("looked"));
    let said = logs("look");
    for told in [
        "has a terminal\n",
        "files 100 200, queue 77, memory 768 of 4096\n",
        "found 3\n",
        "heard me\n",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    // Each port of the range leads to another instance.
    let ask = |port: &str| {
        let url = format!("http://127.0.0.1:{port}/");
        let mut answer = String::new();
        eventually("it answers", || {
            answer = island.inside("x", &["curl", "-s", &url]).out();
            !answer.is_empty()
        });
        answer
    };
    assert_ne!(ask("8080"), ask("8081"));
    assert!(logs("waits").contains("begins") && !logs("waits").contains("ended"));
    let shown = island.holm(&["show", "x", "--json"]).json();
    for name in ["look", "waits"] {
        assert_eq!(service(&shown, name)["state"], "ready", "{shown}");
    }
}
