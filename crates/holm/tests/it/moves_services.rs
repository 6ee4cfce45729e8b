//! A workspace moves, and each of its services does what its strategy says: a real watcher, a real API, a
//! compiled program, a database that is left alone.

use crate::services::service;
use crate::support::{Island, Repository, Running, eventually, send};
use rustix::process::Signal;
use serde_json::Value;

const CONFIG: &str = r#"
[project]
setup = ["make"]
setup_inputs = ["Makefile", "deps.lock"]

[ports]
web = 3000
api = 8080

[services.web]
run = "exec vite --host 127.0.0.1 --port 3000 --strictPort"
ready = { http = "/", port = "web" }
on_assign = "hot"

[services.api]
run = "exec python3 api.py"
ready = { http = "/", port = "api" }
depends_on = ["worker"]

[services.worker]
run = "exec bin/worker"
ready = { log = "working" }
on_assign = "rebuild"
build = "make bin/worker"
rebuild_when = ["src/**"]

[services.db]
run = "exec sleep 1000"
on_assign = "none"
"#;

const API: &str = r#"
import http.server
ANSWER = b"main"
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(ANSWER + b" " + open("deps").read().strip().encode())
    def log_message(self, *rest):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"#;

const WORKER: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(void) { printf("working on %s\n", "main"); fflush(stdout); for (;;) pause(); }
"#;

const MAKEFILE: &str = "all: bin/worker\n\tcp deps.lock deps\nbin/worker: src/worker.c\n\tmkdir -p bin\n\tgcc -o $@ $<\n";

fn with_services(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", CONFIG);
    repository.write(".gitignore", "bin/\ndeps\n");
    repository.write("Makefile", MAKEFILE);
    repository.write("deps.lock", "one\n");
    repository.write("api.py", API);
    repository.write("src/worker.c", WORKER);
    repository.write(
        "index.html",
        "<!doctype html><script type=module src=/word.js></script>",
    );
    repository.write("word.js", "export const word = 'main';\n");
    repository.commit("main");
    let branch = |name: &str, change: &dyn Fn()| {
        repository.git(&["switch", "-q", "-c", name, "main"]);
        change();
        repository.commit(name);
    };
    let replaced =
        |path: &str, text: &str| repository.write(path, text.replace("main\"", "feature\""));
    branch("feature", &|| {
        replaced("api.py", API);
        replaced("src/worker.c", WORKER);
        repository.write("word.js", "export const word = 'feature';\n");
    });
    branch("docs", &|| repository.write("README.md", "# other words\n"));
    branch("deps", &|| repository.write("deps.lock", "two\n"));
    branch("broken", &|| {
        repository.write("src/worker.c", "int main(void) { return nothing; }\n")
    });
    repository.git(&["switch", "-q", "main"]);
    repository
}

/// What a GET inside answers.
fn get(island: &Island, port: u16, path: &str) -> String {
    let script = format!(
        "import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}{path}').read().decode())"
    );
    island.python("x", &script).ok().out()
}

fn pids(workspace: &Value) -> [u64; 4] {
    let pid = |name| service(workspace, name)["pid"].as_u64().expect("it runs");
    ["web", "api", "worker", "db"].map(pid)
}

fn reactions(moved: &Value) -> String {
    let services = moved["move"]["services"].as_array().unwrap().iter();
    let words = services.map(|one| format!("{}={}", one["name"], one["reaction"]).replace('"', ""));
    words.collect::<Vec<_>>().join(" ")
}

fn worker_said(island: &Island) -> String {
    let said = island.holm(&["logs", "x", "worker", "--json"]).ok().out();
    let mut lines = said.lines().filter(|line| line.contains("working on"));
    let last: Value = serde_json::from_str(lines.next_back().expect("it works")).unwrap();
    last["text"].as_str().unwrap().trim().to_owned()
}

#[test]
fn each_service_reacts_by_its_strategy() {
    let island = Island::new();
    let repository = with_services(&island);
    let made = repository.holm(&["up", "x", "--json"]).json();
    let before = pids(&made);
    assert_eq!(get(&island, 8080, "/"), "main one");
    assert!(get(&island, 3000, "/word.js").contains("'main'"));
    assert_eq!(worker_said(&island), "working on main");

    let moved = repository
        .holm(&["assign", "x", "feature", "--json"])
        .json();
    assert_eq!(
        reactions(&moved),
        "api=restart db=none web=hot worker=rebuild"
    );
    assert_eq!(moved["move"]["setup"], false);
    for name in ["web", "api", "worker", "db"] {
        assert_eq!(service(&moved, name)["state"], "ready", "{moved}");
    }
    let after = pids(&moved);
    assert_eq!((after[0], after[3]), (before[0], before[3]), "these go on");
    assert!(
        after[1] != before[1] && after[2] != before[2],
        "these do not"
    );
    // The result is in place when the command returns; the watcher saw its events.
    assert_eq!(get(&island, 8080, "/"), "feature one");
    assert_eq!(worker_said(&island), "working on feature");
    eventually("the watcher serves the new file", || {
        get(&island, 3000, "/word.js").contains("'feature'")
    });

    // Where nothing relevant changed a restart is enough.
    repository.holm(&["assign", "x", "main"]).ok();
    let built = || island.sh("x", "stat -c '%i %Y' bin/worker").ok().out();
    let binary = built();
    let moved = repository.holm(&["assign", "x", "docs", "--json"]).json();
    assert_eq!(
        reactions(&moved),
        "api=restart db=none web=hot worker=restart"
    );
    assert_eq!(built(), binary);
    // Without any change nothing happens.
    let before = pids(&moved);
    let again = repository.holm(&["assign", "x", "docs", "--json"]).json();
    assert_eq!(pids(&again), before);
    assert_eq!(reactions(&again), "api=none db=none web=none worker=none");
}

#[test]
fn a_new_lock_file_runs_setup_in_place_before_services_react() {
    let island = Island::new();
    let repository = with_services(&island);
    repository.up("x");
    let moved = repository.holm(&["assign", "x", "deps", "--json"]).json();
    assert_eq!(moved["move"]["setup"], true, "{moved}");
    assert_eq!(
        reactions(&moved),
        "api=restart db=none web=hot worker=restart"
    );
    assert_eq!(get(&island, 8080, "/"), "main two");
    // The layer that it began with is as it was, for others and after a restart of this one.
    repository.holm(&["restart", "x"]).ok();
    assert_eq!(get(&island, 8080, "/"), "main two");
    repository.up("y");
    assert_eq!(island.sh("y", "cat deps").ok().out(), "one");

    // A failing one is reported with its output; services go on.
    repository.git(&["switch", "-q", "-c", "wrong", "main"]);
    repository.write("Makefile", "all:\n\techo it is all wrong >&2; exit 3\n");
    repository.commit("wrong");
    let before = pids(&repository.holm(&["show", "x", "--json"]).json());
    let failed = repository
        .holm(&["assign", "x", "wrong", "--json"])
        .error(1);
    assert_eq!(failed["code"], "setup_failed");
    assert!(
        failed["message"]
            .as_str()
            .unwrap()
            .contains("it is all wrong"),
        "{failed}"
    );
    assert!(
        failed["hint"].as_str().unwrap().contains("holm assign"),
        "{failed}"
    );
    let shown = repository.holm(&["show", "x", "--json"]).json();
    assert_eq!((&shown["ref"], pids(&shown)), (&"wrong".into(), before));
    assert!(
        shown["notes"].to_string().contains("not finished"),
        "{shown}"
    );
    // It is still owed when the next move has the same inputs.
    repository.write("Makefile", MAKEFILE);
    repository.commit("mended");
    let moved = repository.holm(&["sync", "x", "--json"]).json();
    assert_eq!(moved["move"]["setup"], true, "{moved}");
    assert_eq!(moved["notes"], Value::Null);
    assert_eq!(get(&island, 8080, "/"), "main one");
}

#[test]
fn a_build_that_fails_leaves_what_runs_and_says_why() {
    let island = Island::new();
    let repository = with_services(&island);
    let made = repository.holm(&["up", "x", "--json"]).json();
    let pid = |workspace: &Value| service(workspace, "worker")["pid"].clone();
    let ran = repository.holm(&["assign", "x", "broken", "--json"]);
    let moved: Value = serde_json::from_slice(&ran.stdout).expect("what was done is told");
    let error = ran.error(1);
    assert_eq!(error["code"], "service_not_ready");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the build exited with 2"), "{message}");
    assert!(message.contains("nothing"), "what gcc said: {message}");
    let worker = service(&moved, "worker");
    assert_eq!(
        (&worker["state"], pid(&moved)),
        (&"failed".into(), pid(&made))
    );
    assert_eq!(moved["ref"], "broken");
    let log = island.holm(&["logs", "x", "worker"]).ok().out();
    assert!(log.contains("[build: make bin/worker]"), "{log}");
    // Mended inside, a restart builds first.
    island.sh("x", "git checkout -q main -- src/worker.c").ok();
    repository.holm(&["service", "x", "restart", "worker"]).ok();
    let shown = repository.holm(&["show", "x", "--json"]).json();
    assert_eq!(service(&shown, "worker")["state"], "ready");
    assert_ne!(pid(&shown), pid(&made));
}

#[test]
fn what_was_stopped_stays_stopped_and_is_built_before_it_starts() {
    let island = Island::new();
    let repository = with_services(&island);
    repository.up("x");
    for name in ["api", "worker"] {
        repository.holm(&["service", "x", "stop", name]).ok();
    }
    let moved = repository
        .holm(&["assign", "x", "feature", "--json"])
        .json();
    for name in ["api", "worker"] {
        assert_eq!(service(&moved, name)["state"], "stopped", "{moved}");
    }
    assert_eq!(worker_said(&island), "working on main");
    // Also by another keeper.
    repository.holm(&["restart", "x"]).ok();
    assert_eq!(worker_said(&island), "working on feature");
    assert_eq!(get(&island, 8080, "/"), "feature one");
}

#[test]
fn a_keeper_that_dies_during_a_build_is_followed_by_one_that_builds_first() {
    let island = Island::new();
    let repository = with_services(&island);
    let slow = CONFIG.replace(
        "make bin/worker\"",
        "touch /tmp/building; while ! test -e /tmp/go; do sleep 0.02; done; make bin/worker\"",
    );
    repository.write("holm.toml", slow);
    repository.commit("slow");
    let id = repository.up("x");
    let shared = island.data().join("workspaces").join(&id).join("tmp");
    repository.git(&["switch", "-q", "-c", "next"]);
    repository.write("src/worker.c", WORKER.replace("main\"", "next\""));
    repository.commit("next");
    let mut assign =
        Running::new(&mut island.holm_command(&repository.path, &["assign", "x", "next"]));
    eventually("it builds", || shared.join("building").exists());
    let shown = repository.holm(&["show", "x", "--json"]).json();
    let worker = service(&shown, "worker");
    assert_eq!(
        (&worker["state"], &worker["reason"]),
        (&"starting".into(), &"building".into())
    );
    send(island.keeper_of(&id).expect("its keeper"), Signal::KILL);
    assert_ne!(assign.code(), Some(0));
    island.write(shared.join("go"), "");
    repository.holm(&["start", "x"]).ok();
    assert_eq!(worker_said(&island), "working on next");
}
