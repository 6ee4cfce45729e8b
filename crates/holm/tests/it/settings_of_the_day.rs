//! What people edit every day: `[env]`, the `Host` of a port, and `holm reload` of the checkout's file.

use crate::support::Island;
use serde_json::json;

const SHOP: &str = r#"
[ports]
web = { port = 3000, host = "shop.test:3000" }
db = 5432

[env]
DATABASE_URL = "${services.db.url}/app"
WEB = "${ports.web}"
MODE = "shared"

[services.db]
run = "exec sleep 1000"
ready = { command = "true" }

[services.web]
run = "echo web sees $MODE $DATABASE_URL; exec sleep 1000"
ready = { command = "true" }
env = { MODE = "own" }
"#;

#[test]
fn every_program_inside_gets_the_variables() {
    let island = Island::new();
    let shop = island.shop(SHOP, "");
    shop.up("x");
    let printed = island.sh("x", "echo $DATABASE_URL $WEB $MODE").ok().out();
    assert_eq!(printed.trim(), "postgres://127.0.0.1:5432/app 3000 shared");
    // What is typed wins, and a service's own variable wins over the shared one.
    let typed = island.holm(&[
        "exec",
        "x",
        "--env",
        "MODE=typed",
        "--",
        "sh",
        "-c",
        "echo $MODE",
    ]);
    assert_eq!(typed.ok().out().trim(), "typed");
    let logs = island.holm(&["logs", "x", "web"]).ok().out();
    assert!(
        logs.contains("web sees own postgres://127.0.0.1:5432/app"),
        "{logs}"
    );
    let run = island
        .holm(&["run", "x", "--", "sh", "-c", "echo run $MODE"])
        .ok();
    assert!(run.out().contains("run shared"), "{}", run.out());
}

#[test]
fn programs_of_holm_itself_do_not_get_the_variables() {
    let island = Island::new();
    let shop = island.shop("[env]\nMODE = \"shared\"\n", "");
    shop.up("x");
    // A filter that git runs writes down whether it sees the variable.
    let script = "git config filter.f.clean 'echo \"git $MODE\" >> ../seen; cat' && \
                  echo '*.txt filter=f' > .gitattributes && echo 1 > a.txt";
    island.sh("x", script).ok();
    island.holm(&["changes", "x"]).ok();
    let seen = island.sh("x", "cat ../seen").ok().out();
    assert!(seen.contains("git"), "the filter ran: {seen}");
    assert!(!seen.contains("shared"), "{seen}");
    island.sh("x", "git add a.txt").ok();
    let seen = island.sh("x", "cat ../seen").ok().out();
    assert!(
        seen.contains("git shared"),
        "git of a person gets it: {seen}"
    );
}

#[test]
fn wrong_variables_are_errors_with_their_place() {
    let island = Island::new();
    let shop = island.shop("", "");
    for (line, expect) in [
        ("PATH = \"/x\"", "`PATH` is not a valid name in `env`"),
        ("LD_PRELOAD = \"x\"", "names that begin with `LD_`"),
        ("GIT_DIR = \"x\"", "names that begin with `GIT_`"),
        ("HOLM_ROOT = \"x\"", "holm sets it"),
        ("A = \"${ports.nope}\"", "there is no port `nope`"),
        ("A = \"${services.nope.url}\"", "there is no service `nope`"),
        ("A = \"${HOME}\"", "is no reference"),
    ] {
        shop.write("holm.toml", format!("[env]\n{line}\n"));
        shop.commit("wrong");
        let error = shop.holm(&["up", "x", "--json"]).error(2);
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("holm.toml:2:") && message.contains(expect),
            "{message}"
        );
    }
    shop.write(
        "holm.toml",
        "[env]\nSTRIPE_KEY = \"sk_live_0123456789abcdef\"\n",
    );
    shop.commit("secret");
    let said = shop.holm(&["up", "x"]).ok().stderr;
    assert!(
        said.contains("looks like a secret") && !said.contains("sk_live"),
        "{said}"
    );
}

#[test]
fn addresses_have_the_scheme_of_what_they_serve() {
    let island = Island::new();
    let shop = island.shop(SHOP, "");
    let made = shop.holm(&["up", "x", "--json"]).json();
    let port = |name: &str| {
        let ports = made["ports"].as_array().unwrap().iter();
        let mut found = ports.filter(|port| port["name"] == name);
        found.next().unwrap().clone()
    };
    let db = port("db");
    assert_eq!(
        db["url"],
        json!(format!("postgres://127.0.0.1:{}", db["host_port"]))
    );
    let web = port("web")["url"].as_str().unwrap().to_owned();
    assert!(web.starts_with("http://web.x.localhost:"), "{web}");
    let inside = island.sh("x", "echo $HOLM_URL_DB $HOLM_URL_WEB").ok().out();
    assert_eq!(
        inside.trim(),
        format!("{} {web}", db["url"].as_str().unwrap())
    );
    let here = island.sh("x", "holm here").ok().out();
    assert!(here.contains("postgres://127.0.0.1:"), "{here}");
}

#[test]
fn a_reload_takes_the_file_of_the_checkout() {
    let island = Island::new();
    let shop = island.shop("[env]\nMODE = \"one\"\n", "");
    shop.up("x");
    let mode = || island.sh("x", "echo $MODE").ok().out().trim().to_owned();
    let nothing = shop.holm(&["reload", "x"]).ok().stderr;
    assert!(nothing.contains("nothing changed"), "{nothing}");
    // Not committed.
    let two = "[env]\nMODE = \"two\"\n[volumes.data]\npath = \"/data/v\"\n";
    shop.write("holm.toml", two);
    let dry = shop.holm(&["reload", "x", "--dry-run", "--json"]).json();
    assert_eq!((&dry["applied"], mode().as_str()), (&json!(false), "one"));
    let said = shop.holm(&["reload"]).ok().stderr;
    assert!(said.contains("env.MODE: another value"), "{said}");
    assert!(
        said.contains("needs a restart: volumes   holm restart x"),
        "{said}"
    );
    assert_eq!(mode(), "two");
    island.holm(&["restart", "x"]).ok();
    island.sh("x", "test -d /data/v").ok();
    assert_eq!(mode(), "two", "it stays after a restart");
    // The file of the commit is the one that it started with.
    let back = shop.holm(&["reload", "x", "--committed", "--json"]).json();
    assert_eq!((&back["applied"], mode().as_str()), (&json!(true), "one"));
    // From elsewhere, and by the API, it is the same file.
    island.holm(&["reload", "x", "--json"]).ok();
    assert_eq!(mode(), "two");
    shop.write("holm.toml", "[env]\nMODE = \"three\"\n");
    let id = island.holm(&["show", "x", "--json"]).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/api/v1/workspaces/{id}/reload");
    let (status, body) = island.ask("POST", &path, b"{}");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    assert_eq!(mode(), "three");
    // A file that a program inside wrote is named, and taken only on request.
    island
        .sh("x", "printf '[env]\\nMODE = \"four\"\\n' > holm.toml")
        .ok();
    let said = shop.holm(&["reload", "x"]).ok().stderr;
    assert!(said.contains("holm reload x --inside"), "{said}");
    assert_eq!(mode(), "three");
    shop.holm(&["reload", "x", "--inside"]).ok();
    assert_eq!(mode(), "four");
}

#[test]
fn a_preview_shows_the_host_that_the_server_wants() {
    let island = Island::new();
    let server = "import http.server\n\
        class Strict(http.server.BaseHTTPRequestHandler):\n    \
            def do_GET(self):\n        \
                good = self.headers['Host'] == 'shop.test:3000'\n        \
                self.send_response(302 if good else 400)\n        \
                self.send_header('Location', 'http://shop.test:3000/next')\n        \
                self.end_headers()\n\
        http.server.HTTPServer(('127.0.0.1', 3000), Strict).serve_forever()\n";
    let toml = "[ports]\nweb = { port = 3000, host = \"shop.test:3000\" }\n\
        [services.web]\nrun = \"exec python3 server.py\"\nready = { tcp = 3000 }\n";
    let shop = island.shop(toml, server);
    shop.write("server.py", server);
    shop.commit("server");
    let made = shop.holm(&["up", "x", "--json"]).json();
    let url = made["ports"][0]["url"].as_str().unwrap().to_owned();
    let head = island
        .run(&island.home(), "curl", &["-si", &format!("{url}/")])
        .ok()
        .out();
    assert!(head.starts_with("HTTP/1.1 302"), "{head}");
    assert!(head.contains(&format!("{url}/next")), "{head}");
}
