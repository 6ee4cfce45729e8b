//! Services: started in order by the keeper, ready by their checks, ended in reverse order, with
//! correct error reports. Real programs on a real kernel.

use crate::support::{Island, Repository, Running, eventually, send};
use rustix::process::Signal;
use serde_json::Value;

/// A repository whose `holm.toml` declares these services.
pub fn with_services<'a>(island: &'a Island, services: &str) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write("holm.toml", services);
    repository.write("listen.py", LISTEN);
    repository.commit("services");
    repository
}

/// `listen.py ADDRESS PORT [SECONDS]`: answers GETs there, after a while.
const LISTEN: &str = r#"
import http.server, socket, sys, time
address, port = sys.argv[1], int(sys.argv[2])
time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 else 0)
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404 if self.path == "/missing" else 200)
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *rest):
        print("asked", self.path, flush=True)
print("listening", flush=True)
Server((address, port), Handler).serve_forever()
"#;

/// One service of a workspace.
#[track_caller]
pub fn service(workspace: &Value, name: &str) -> Value {
    let services = workspace["services"].as_array().expect("services");
    let found = services.iter().find(|service| service["name"] == name);
    found.expect("the service").clone()
}

#[track_caller]
fn show(island: &Island) -> Value {
    island.holm(&["show", "x", "--json"]).json()
}

#[track_caller]
fn state(island: &Island, name: &str) -> String {
    service(&show(island), name)["state"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn all_start_in_order_and_end_in_reverse_and_up_returns_when_they_are_ready() {
    let island = Island::new();
    let note = |name: &str| {
        format!("echo +{name} >> ~/order; trap 'echo -{name} >> ~/order; exit 0' TERM;")
    };
    let repository = with_services(
        &island,
        &format!(
            "[ports]\nweb = 3000\n\
             [services.web]\nrun = \"{} python3 listen.py 127.0.0.1 3000 0.3 & wait\"\n\
             ready = {{ http = \"/\", port = \"web\" }}\ndepends_on = [\"api\", \"cache\"]\n\
             env = {{ COLOUR = \"green\" }}\n\
             [services.api]\nrun = \"{} python3 listen.py ::1 8080 0.3 & wait\"\n\
             ready = {{ tcp = 8080 }}\ndepends_on = [\"db\"]\n\
             [services.db]\nrun = \"{} sleep 0.3; echo database is up; sleep 1000 & wait\"\n\
             ready = {{ log = \"is up\" }}\n\
             [services.cache]\nrun = \"{} sleep 0.2; touch ~/cache; sleep 1000 & wait\"\n\
             ready = {{ command = \"test -e ~/cache\" }}\n",
            note("web"),
            note("api"),
            note("db"),
            note("cache")
        ),
    );
    let made = repository.holm(&["up", "x", "--json"]).json();
    for name in ["web", "api", "db", "cache"] {
        let service = service(&made, name);
        assert_eq!(service["state"], "ready", "{made}");
        assert_eq!(service["restarts"], 0);
        assert!(service["pid"].as_u64().is_some_and(|pid| pid > 1));
    }
    assert_eq!(service(&made, "web")["port"], 3000);
    assert_eq!(service(&made, "api")["port"], 8080);
    assert_eq!(made["state"], "running");
    assert_eq!(made["reason"], Value::Null);
    assert_eq!(made["notes"], Value::Null, "nothing is left to be started");
    let get = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:3000').read())";
    assert_eq!(island.python("x", get).ok().out(), "b'hello'");
    let pid = service(&made, "web")["pid"].to_string();
    let script = format!("tr '\\0' '\\n' < /proc/{pid}/environ | grep -e HOLM_SERVICE -e COLOUR");
    let seen = island.sh("x", &script).ok().out();
    assert!(
        seen.contains("HOLM_SERVICE=web") && seen.contains("COLOUR=green"),
        "{seen}"
    );
    let here: Value = island.inside("x", &["holm", "here", "--json"]).json();
    assert_eq!(service(&here, "web")["state"], "ready");

    let order = || island.sh("x", "cat ~/order").ok().out();
    let begun: Vec<String> = order().lines().map(str::to_owned).collect();
    let place = |name: &str| begun.iter().position(|line| line == name).unwrap();
    assert!(
        place("+db") < place("+api") && place("+api") < place("+web"),
        "{begun:?}"
    );
    assert!(place("+cache") < place("+web"), "{begun:?}");
    island.holm(&["stop", "x"]).ok();
    let stopped = show(&island);
    assert_eq!(service(&stopped, "web")["state"], "stopped");
    assert_eq!(service(&stopped, "web")["pid"], Value::Null);
    let id = made["id"].as_str().unwrap();
    let home = island.data().join("workspaces").join(id).join("home");
    let text = std::fs::read_to_string(home.join("order")).unwrap();
    let ended: Vec<&str> = text.lines().skip(4).collect();
    let place = |name: &str| ended.iter().position(|line| *line == name).unwrap();
    assert_eq!(ended.len(), 4, "each heard SIGTERM once: {ended:?}");
    assert!(
        place("-web") < place("-api") && place("-api") < place("-db"),
        "{ended:?}"
    );
    let again = island.holm(&["start", "x", "--json"]).json();
    assert_eq!(
        service(&again, "web")["state"],
        "ready",
        "start brings all back"
    );
}

#[test]
fn a_crash_loop_is_given_up_and_said_with_its_last_lines() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"for i in $(seq 20); do echo line $i; done; echo last words >&2; exit 3\"\n\
         ready = { tcp = 8 }\n\
         [services.late]\nrun = \"sleep 1000\"\ndepends_on = [\"web\"]\nready = { tcp = 9 }\n",
    );
    let failed = repository.holm(&["up", "x"]).exits(1);
    let said = &failed.stderr;
    for part in [
        "; web failed\n",
        "  ✗ web  crash loop: exited with 3, 5 times in ",
        "│ line 20\n",
        "error: service web of x failed\n",
        "last words",
        "not started for that: late",
        "holm logs x web",
        "holm service x restart web",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!said.contains("line 5\n"), "only the last lines: {said}");
    let shown = show(&island);
    assert_eq!(shown["state"], "running");
    assert_eq!(shown["reason"], "service web failed");
    let web = service(&shown, "web");
    assert_eq!(
        (&web["state"], &web["restarts"]),
        (&"failed".into(), &4.into())
    );
    assert_eq!(service(&shown, "late")["reason"], "waits for web");
    assert_eq!(service(&shown, "late")["state"], "stopped");
    assert!(island.holm(&["ls"]).ok().out().contains("failed"));
    let table = island.holm(&["service", "x", "ls"]).ok().out();
    assert!(
        table.contains("crash loop") && table.contains("service"),
        "{table}"
    );
    // The user may try again at once, and the count restarts.
    let tried = island
        .holm(&["service", "x", "restart", "web", "--no-wait", "--json"])
        .json();
    assert_ne!(service(&tried, "web")["state"], "failed", "{tried}");
}

#[test]
fn one_that_is_never_ready_and_one_that_ends_before() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"python3 listen.py 127.0.0.1 3000\"\n\
         ready = { http = \"/missing\", port = 3000, timeout = \"8s\" }\n\
         [services.job]\nrun = \"echo done\"\n\
         [services.background]\nrun = \"sleep 1000 & echo $! > ~/left\"\nready = { tcp = 4000, timeout = \"30s\" }\n",
    );
    let failed = repository.holm(&["up", "x", "--json"]).exits(1);
    let made: Value = serde_json::from_slice(&failed.stdout).unwrap();
    let error: Value = serde_json::from_str(&failed.stderr).unwrap();
    assert_eq!(error["error"]["code"], "service_not_ready");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("service `web` is not ready: not ready within 8s"),
        "{message}"
    );
    assert!(message.contains("asked /missing"), "{message}");
    assert!(
        message.contains("service `background` is not ready: exited with 0 before"),
        "{message}"
    );
    assert!(!message.contains("`job`"), "its work is done: {message}");
    assert_eq!(service(&made, "web")["state"], "failed");
    assert!(service(&made, "web")["pid"].is_u64(), "it is left alone");
    assert_eq!(service(&made, "job")["state"], "exited");
    assert_eq!(service(&made, "job")["reason"], "exited with 0");
    assert_eq!(service(&made, "background")["state"], "exited");
    // Its background processes end with it.
    island.sh("x", "kill -0 $(cat ~/left)").ok();
    island.holm(&["service", "x", "stop", "background"]).ok();
    island.sh("x", "kill -0 $(cat ~/left)").exits(1);
}

#[test]
fn without_a_check_a_service_is_ready_when_its_port_answers_and_not_while_nothing_listens() {
    let island = Island::new();
    // A watcher: it survives its program, and starts it again when a file appears.
    let repository = with_services(
        &island,
        "[ports]\nweb = 3000\n\
         [services.web]\nrun = \"\"\"\nsleep 0.5; touch ~/waited; while [ ! -e ~/go ]; do sleep 0.1; done\n\
         while :; do python3 listen.py 127.0.0.1 3000; rm ~/go; \
         while [ ! -e ~/go ]; do sleep 0.1; done; done\n\"\"\"\n",
    );
    repository.holm(&["up", "x", "--no-wait"]).ok();
    // It runs for longer than a service without a port needs to count as ready.
    eventually("it runs", || {
        island.sh("x", "test -e ~/waited").code == Some(0)
    });
    assert_eq!(state(&island, "web"), "starting");
    island.sh("x", "touch ~/go").ok();
    let ready = || state(&island, "web") == "ready";
    eventually("its port answers", ready);
    island.inside("x", &["pkill", "-x", "python3"]).ok();
    eventually("nothing listens", || state(&island, "web") == "starting");
    let web = service(&show(&island), "web");
    assert_eq!(web["reason"], "nothing listens on port 3000");
    assert!(web["pid"].is_u64(), "the watcher runs: {web}");
    island.sh("x", "touch ~/go").ok();
    eventually("it is back", ready);
    assert_eq!(service(&show(&island), "web")["restarts"], 0);
}

#[test]
fn a_program_that_does_not_exist_is_not_tried_again() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"no-such-program --port 3000\"\n\
         [services.wrapped]\nrun = \"no-such-program; exit 1\"\n",
    );
    let said = repository.holm(&["up", "x"]).exits(1).stderr;
    for part in [
        "  ✗ web  exited with 127: sh: 1: no-such-program: not found; it is not started again by itself",
        "  ✗ wrapped  exited with 1: sh: 1: no-such-program: not found;",
        "error: services web, wrapped of x failed",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let shown = show(&island);
    for name in ["web", "wrapped"] {
        let service = service(&shown, name);
        assert_eq!(service["state"], "failed");
        assert_eq!(service["restarts"], 0, "{service}");
    }
}

#[test]
fn waiting_can_be_interrupted_and_the_workspace_stays() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"touch ~/runs; sleep 1000\"\nready = { tcp = 3000 }\n",
    );
    let mut up = Running::new(
        island
            .holm_command(&repository.path, &["up", "x"])
            .stderr(std::process::Stdio::piped()),
    );
    eventually("the service starts", || {
        island.holm(&["show", "x", "--json"]).code == Some(0) && state(&island, "web") == "starting"
    });
    eventually("it runs", || service(&show(&island), "web")["pid"].is_u64());
    // A waiting client continues with another daemon.
    island.kill_daemon();
    assert_eq!(state(&island, "web"), "starting");
    assert!(!up.has_ended());
    up.signal(Signal::INT);
    assert_eq!(up.code(), Some(130));
    assert_eq!(island.states()["x"], "running");
    assert_eq!(state(&island, "web"), "starting");
    let quick = repository.holm(&["up", "y", "--no-wait", "--json"]).json();
    assert_eq!(
        service(&quick, "web")["state"],
        "starting",
        "never ready before it is"
    );
}

#[test]
fn a_service_is_stopped_and_started_with_all_its_processes() {
    let island = Island::new();
    let stubborn =
        "trap '' TERM; sh -c 'trap \\\"\\\" TERM; setsid sleep 1001' & while :; do sleep 1; done";
    let repository = with_services(
        &island,
        &format!(
            "[services.away]\nrun = \"setsid sh -c 'setsid sleep 1002 &' ; exec sleep 1003\"\n\
             [services.stubborn]\nrun = \"{stubborn}\"\n"
        ),
    );
    repository.up("x");
    let count = |what: &str| island.sh("x", &format!("pgrep -fc '^sleep {what}$'")).out();
    eventually("the daemon of the service runs", || {
        count("1002") == "1" && count("1001") == "1"
    });
    let before = service(&show(&island), "away")["pid"].clone();
    let list = island
        .holm(&["service", "x", "restart", "away", "--json"])
        .json();
    let away = service(&list, "away");
    assert_eq!(away["state"], "ready");
    assert_eq!(away["restarts"], 1);
    assert_ne!(away["pid"], before);
    eventually("one of each is left", || {
        count("1002") == "1" && count("1003") == "1"
    });
    island.holm(&["service", "x", "stop", "away"]).ok();
    assert_eq!(
        (count("1002"), count("1003")),
        ("0".to_owned(), "0".to_owned())
    );
    assert_eq!(state(&island, "away"), "stopped");
    // It ignores SIGTERM, but not SIGKILL.
    island.holm(&["service", "x", "stop", "stubborn"]).ok();
    assert_eq!(count("1001"), "0");
    assert_eq!(state(&island, "stubborn"), "stopped");
    assert_eq!(island.states()["x"], "running");
    let list = island
        .holm(&["service", "x", "start", "away", "--json"])
        .json();
    assert_eq!(service(&list, "away")["state"], "ready");
}

#[test]
fn names_that_are_not_there_and_workspaces_that_do_not_run() {
    let island = Island::new();
    let repository = with_services(&island, "[services.web]\nrun = \"sleep 1000\"\n");
    repository.up("x");
    for arguments in [
        &["service", "x", "stop", "wbe", "--json"][..],
        &["logs", "x", "wbe", "--json"],
    ] {
        let error = island.holm(arguments).error(3);
        assert_eq!(error["code"], "service_not_found");
        assert!(error["hint"].as_str().unwrap().contains("web"), "{error}");
    }
    island.holm(&["stop", "x"]).ok();
    let error = island
        .holm(&["service", "x", "start", "web", "--json"])
        .error(4);
    assert_eq!(error["code"], "not_running");
    let bare = island.repository("bare");
    bare.up("y");
    let error = island
        .holm(&["service", "y", "start", "web", "--json"])
        .error(3);
    assert!(
        error["hint"].as_str().unwrap().contains("[services]"),
        "{error}"
    );
    assert_eq!(
        island.holm(&["service", "y", "ls", "--json"]).json()["services"],
        Value::Array(vec![])
    );
}

#[test]
fn daemons_come_and_go_and_services_do_not_notice() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.count]\nrun = \"i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done\"\n",
    );
    repository.up("x");
    let before = service(&show(&island), "count")["pid"].clone();
    for _ in 0..3 {
        island.kill_daemon();
        let after = service(&show(&island), "count");
        assert_eq!((&after["state"], &after["pid"]), (&"ready".into(), &before));
    }
    let mut log = String::new();
    eventually("it goes on", || {
        log = island.holm(&["logs", "x", "--json"]).ok().out();
        log.lines().count() > 10
    });
    for (number, line) in log.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["text"], number.to_string(), "no line is lost");
    }
}

#[test]
fn attack_51_what_a_service_left_behind_dies_with_its_keeper_and_start_brings_all_back() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"setsid sh -c 'env -i setsid sleep 1000 &'; echo up; exec python3 listen.py 127.0.0.1 3000\"\n\
         ready = { tcp = 3000 }\n[services.bad]\nrun = \"exit 7\"\nrestart = \"no\"\n",
    );
    let id = repository.holm(&["up", "x", "--no-wait", "--json"]).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    eventually("all is settled", || {
        state(&island, "web") == "ready" && state(&island, "bad") == "exited"
    });
    let inhabitants = island.inhabitants();
    send(island.keeper_of(&id).unwrap(), Signal::KILL);
    eventually("everything is gone", || {
        inhabitants
            .iter()
            .all(|process| crate::support::is_gone(*process))
    });
    let shown = show(&island);
    assert_eq!(service(&shown, "web")["state"], "stopped");
    let bad = service(&shown, "bad");
    assert_eq!(
        (&bad["state"], &bad["reason"]),
        (&"exited".into(), &"exited with 7".into()),
        "it is known after the end"
    );
    assert!(
        island
            .holm(&["logs", "x", "web"])
            .ok()
            .out()
            .contains("web  up")
    );
    island.holm(&["start", "x"]).exits(1);
    assert_eq!(state(&island, "web"), "ready", "the port is free");
    island.holm(&["stop", "x"]).ok();
    assert_eq!(island.inhabitants().len(), 0);
}

#[test]
fn uncommitted_work_is_there_before_services_start() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.web]\nrun = \"cat README.md; sleep 1000\"\n",
    );
    repository.write("README.md", "uncommitted\n");
    repository.holm(&["up", "x", "--dirty"]).ok();
    let mut log = String::new();
    eventually("it says something", || {
        log = island.holm(&["logs", "x", "--json"]).ok().out();
        !log.is_empty()
    });
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(line["text"], "uncommitted");
    assert_eq!(log.lines().count(), 1, "it was started once: {log}");
}

#[test]
fn cycles_and_unknown_names_are_errors_with_their_place() {
    let island = Island::new();
    let check = |text: &str, expect: &[&str]| {
        let repository = island.repository("bad");
        repository.write("holm.toml", text);
        repository.commit("bad");
        let said = repository.holm(&["up", "x"]).exits(2).stderr;
        for part in expect {
            assert!(said.contains(part), "{part} in {said}");
        }
        std::fs::remove_dir_all(&repository.path).unwrap();
    };
    check(
        "[services.a]\nrun = \"x\"\ndepends_on = [\"b\"]\n[services.b]\nrun = \"x\"\ndepends_on = [\"a\"]\n",
        &["holm.toml:6:15", "services wait for each other: a → b → a"],
    );
    check(
        "[services.web]\nrun = \"x\"\ndepends_on = [\"dd\"]\n[services.db]\nrun = \"x\"\n",
        &["holm.toml:3:15", "no service `dd`", "did you mean `db`?"],
    );
    check(
        "[services.web]\nrun = \"x\"\nready = { http = \"/\", port = \"wbe\" }\n[ports]\nweb = 3000\n",
        &["holm.toml:3:30", "no port `wbe`"],
    );
}

#[test]
fn a_reload_starts_what_is_new_ends_what_is_gone_and_restarts_what_changed() {
    let island = Island::new();
    let loud = |name: &str, more: &str| {
        format!(
            "[services.{name}]\nrun = \"trap 'echo {name} ends; exit 0' TERM; echo {name} {more}; while :; do sleep 0.01; done\"\n"
        )
    };
    let repository = with_services(
        &island,
        &[loud("same", "1"), loud("other", "1"), loud("old", "1")].concat(),
    );
    repository.up("x");
    let pid = |name: &str| service(&show(&island), name)["pid"].clone();
    let (same, other, old) = (pid("same"), pid("other"), pid("old"));
    let nothing = island.holm(&["reload", "x", "--inside"]).ok().stderr;
    assert!(nothing.contains("nothing changed"), "{nothing}");
    let next = [loud("same", "1"), loud("other", "2"), loud("fresh", "1")].concat();
    let path = format!("{}/holm.toml", repository.path.display());
    let configure = |text: &str| {
        let script = "printf %s \"$2\" > \"$1\"";
        island
            .inside("x", &["sh", "-c", script, "sh", &path, text])
            .ok();
    };
    configure(&next);
    let reloaded = island.holm(&["reload", "x", "--inside", "--json"]).json();
    assert_eq!(
        reloaded["changes"],
        serde_json::json!([
            "services.old: − (it is stopped)",
            "services.other: run (it is restarted)",
            "services.fresh: + (it is started)",
        ])
    );
    let shown = show(&island);
    let names: Vec<_> = shown["services"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| &found["name"])
        .collect();
    assert_eq!(names, ["fresh", "other", "same"]);
    for name in ["fresh", "other", "same"] {
        assert_eq!(service(&shown, name)["state"], "ready", "{name}");
    }
    assert_eq!(pid("same"), same, "it was left alone");
    assert_ne!(pid("other"), other);
    eventually("it was ended and started again", || {
        let said = island.holm(&["logs", "x", "other"]).ok().out();
        let lines = said.lines().filter_map(|line| line.split_once("other  "));
        lines
            .map(|(_, text)| text)
            // The shell says this of its `sleep`.
            .filter(|text| *text != "Terminated")
            .eq(["other 1", "other ends", "other 2"])
    });
    eventually("what is gone ends", || {
        island.sh("x", &format!("kill -0 {old}")).code != Some(0)
    });
    island.holm(&["service", "x", "restart", "old"]).exits(3);
    // It is so after a start too.
    island.holm(&["restart", "x"]).ok();
    assert_eq!(service(&show(&island), "fresh")["state"], "ready");
    // A workspace without services gets its first, and loses its last.
    island
        .holm(&["exec", "x", "--", "sh", "-c", "> \"$1\"", "sh", &path])
        .ok();
    island.holm(&["reload", "x", "--inside"]).ok();
    assert_eq!(show(&island)["services"], serde_json::json!([]));
    configure(&loud("first", "1"));
    island.holm(&["reload", "x", "--inside"]).ok();
    assert_eq!(state(&island, "first"), "ready");
}
