//! Compose files, unchanged, in several workspaces at once: real programs in images, each with a network of its own.

use crate::rooms::redis;
use crate::services::service;
use crate::support::{Island, Repository};

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
echo "address $(redis-cli -t 2 -h 198.18.1.5 ping 2>&1)"
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
        // Another network: neither its name nor its address answers.
        assert!(!logs.contains("PONG"), "{logs}");
    }
}
