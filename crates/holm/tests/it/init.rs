//! `holm init`: shows its findings and writes them, never over an existing file, and executes
//! nothing.

use crate::rooms::redis;
use crate::services::service;
use crate::support::{Act, Island, Repository, eventually};
use std::os::unix::fs::{PermissionsExt, symlink};

const VITE: &str = r#"{"scripts":{"dev":"vite","preinstall":"touch /tmp/holm-init-ran"},"devDependencies":{"vite":"5"}}"#;

fn node<'a>(island: &'a Island, name: &str) -> Repository<'a> {
    let repository = island.repository(name);
    repository.write("package.json", VITE);
    repository.write("package-lock.json", "{}");
    repository.commit("a project");
    repository
}

fn config(repository: &Repository<'_>) -> toml::Table {
    let text = std::fs::read_to_string(repository.path.join("holm.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

#[test]
fn it_is_shown_written_and_never_written_over() {
    let island = Island::new();
    let repository = node(&island, "shop");
    repository.write("sub/dir/x", "");
    // From anywhere below, to the root.
    let ran = repository.holm_in("sub/dir", &["init"]).ok();
    assert!(ran.stdout.is_empty());
    let path = repository.path.join("holm.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    for shown in [
        "[services.web]",
        "run = \"npm run dev\"",
        "✓ wrote holm.toml",
    ] {
        assert!(ran.stderr.contains(shown), "{}", ran.stderr);
    }
    assert_eq!(
        config(&repository)["services"]["web"]["run"].as_str(),
        Some("npm run dev")
    );
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(
        mode & 0o444,
        0o444,
        "everybody who reads the code reads this"
    );
    let left: Vec<_> = std::fs::read_dir(&repository.path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("holm.toml"))
        .collect();
    assert_eq!(left, ["holm.toml"]);
    // Again: refused without a change, unless forced.
    repository.write("holm.toml", "# mine\n");
    for arguments in [&["init", "--json"][..], &["init", "--yes", "--json"]] {
        let refused = repository.holm(arguments).error(4);
        assert_eq!(refused["code"], "config_exists");
        assert!(
            refused["hint"]
                .as_str()
                .unwrap()
                .contains("holm init --force")
        );
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\n");
    let printed = repository.holm(&["init", "--print"]).ok();
    assert_eq!(printed.out() + "\n", text);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\n");
    repository.holm(&["init", "--force"]).ok();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    assert!(!std::path::Path::new("/tmp/holm-init-ran").exists());
    // No daemon was needed.
    assert!(!island.data().exists());
}

#[test]
fn machines_are_told_the_same() {
    let island = Island::new();
    let repository = node(&island, "shop");
    repository.write("compose.yaml", "services: {mail: {image: mailhog}}");
    let printed = repository.holm(&["init", "--print", "--json"]).json();
    assert_eq!(printed["written"], false);
    assert!(!repository.path.join("holm.toml").exists());
    let written = repository.holm(&["init", "--json"]).json();
    assert_eq!(written["written"], true);
    assert_eq!(written["text"], printed["text"]);
    assert_eq!(written["found"][0]["kind"], "Node");
    assert_eq!(written["found"][1]["file"], "compose.yaml");
    assert_eq!(written["setup"], serde_json::json!(["npm ci"]));
    assert_eq!(written["compose"], "compose.yaml");
    assert_eq!(written["services"], serde_json::json!(["mail", "web"]));
    assert_eq!(written["needs_approval"], serde_json::json!([]));
    repository.write(
        "compose.yaml",
        "services:\n  mail: {image: mailhog, privileged: true}\n  x: {}\n",
    );
    let printed = repository.holm(&["init", "--print", "--json"]).json();
    assert!(printed.get("compose").is_none(), "{printed}");
    let refused = printed["refused"][0].as_str().unwrap();
    assert!(refused.starts_with("compose.yaml:3:"), "{refused}");
    repository.write(
        "compose.yaml",
        "services:\n  mail: {image: mailhog, privileged: true}\n",
    );
    let printed = repository.holm(&["init", "--print", "--json"]).json();
    let asked = printed["needs_approval"][0].as_str().unwrap();
    assert!(
        asked.starts_with("compose.yaml:2: `services.mail.privileged`"),
        "{asked}"
    );
    assert_eq!(
        written["path"].as_str().unwrap(),
        repository.path.join("holm.toml").to_str().unwrap()
    );
    let outside = island.holm(&["init", "--json"]).error(2);
    assert_eq!(outside["code"], "not_a_repository");
    island.holm(&["init", "--yes", "--print"]).exits(2);
}

#[test]
fn a_program_that_is_not_installed_is_named_before_it_is_written() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("Procfile", "web: no-such-server --port 3000\n");
    repository.commit("a project");
    let said = repository.holm(&["init"]).ok().stderr;
    let warning =
        "! not installed on this machine: no-such-server (for web); install it, or change the line";
    let (warned, written) = (said.find(warning), said.find("✓ wrote holm.toml"));
    assert!(warned.is_some() && warned < written, "{said}");
    let printed = repository.holm(&["init", "--print", "--json"]).json();
    let missing = serde_json::json!([{"program": "no-such-server", "needed_by": "web"}]);
    assert_eq!(printed["missing"], missing);
    repository.write("Procfile", "web: python3 -m http.server 3000\n");
    let printed = repository.holm(&["init", "--print", "--json"]).json();
    assert_eq!(printed["missing"], serde_json::json!([]));
}

#[test]
fn in_a_subdirectory_its_project_is_looked_at() {
    let island = Island::new();
    let repository = node(&island, "shop");
    repository.write(
        "tools/api/package.json",
        r#"{"scripts":{"dev":"vite --port 4000"}}"#,
    );
    repository.commit("another project");
    repository.holm_in("tools/api", &["init"]).ok();
    let written = config(&repository);
    assert_eq!(written["ports"]["api"].as_integer(), Some(4000));
    assert!(written["services"].get("web").is_none(), "{written}");
    let run = written["services"]["api"]["run"].as_str();
    assert_eq!(run, Some("cd tools/api && npm run dev"));
}

#[test]
fn on_a_terminal_a_person_is_asked() {
    let island = Island::new();
    let repository = node(&island, "shop");
    let path = repository.path.join("holm.toml");
    let answer = |arguments: &[&str], question: &str, typed: &str| {
        let acts = [
            Act::See("[services.web]"),
            Act::See(question),
            Act::Type(typed),
        ];
        island.play(&repository.path, arguments, &acts)
    };
    for no in ["n\r", "\u{4}"] {
        let played = answer(&["init"], "Write ", no);
        assert_eq!(played.code, 130, "{played:?}");
        assert!(
            played.screen.contains("holm.toml was not written"),
            "{played:?}"
        );
        assert!(!path.exists());
    }
    // Enter means yes, except where a file would be replaced.
    for yes in ["y\r", "\r"] {
        assert_eq!(answer(&["init"], "Write ", yes).code, 0);
        std::fs::remove_file(&path).unwrap();
    }
    repository.write("holm.toml", "# mine\n");
    for no in ["n\r", "\r"] {
        assert_eq!(answer(&["init", "--force"], "Replace ", no).code, 130);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\n");
    }
    let played = island.play(&repository.path, &["init", "--force", "--yes"], &[]);
    assert_eq!(played.code, 0);
    assert!(!played.screen.contains("[y/N]"), "{played:?}");
    assert!(path.metadata().unwrap().len() > 100);
}

#[test]
fn a_link_in_the_place_of_the_file_leads_nowhere() {
    let island = Island::new();
    let repository = node(&island, "shop");
    let outside = island.write("home/precious", "precious");
    let path = repository.path.join("holm.toml");
    symlink(&outside, &path).unwrap();
    repository.holm(&["init", "--json"]).error(4);
    // What a plain write would have done.
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    repository.holm(&["init", "--force"]).ok();
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "precious");
    assert!(path.symlink_metadata().unwrap().is_file());
    // Also for a dangling symlink.
    std::fs::remove_file(&path).unwrap();
    symlink(island.home().join("new"), &path).unwrap();
    repository.holm(&["init", "--json"]).error(4);
    assert!(!island.home().join("new").exists());
}

#[test]
fn what_cannot_be_written_is_an_error_and_an_empty_repository_is_none() {
    let island = Island::new();
    let repository = Repository::empty(&island, island.home().join("src/empty"));
    repository.holm(&["init"]).ok();
    assert!(config(&repository).is_empty());
    std::fs::remove_file(repository.path.join("holm.toml")).unwrap();
    std::fs::set_permissions(&repository.path, PermissionsExt::from_mode(0o555)).unwrap();
    let failed = repository.holm(&["init", "--json"]).error(1);
    assert_eq!(failed["code"], "read_only");
    assert!(failed["message"].as_str().unwrap().contains("holm.toml"));
}

#[test]
fn up_names_what_init_would_write() {
    let island = Island::new();
    let repository = node(&island, "shop");
    let notes = |label: &str| {
        let workspace = repository.holm(&["up", label, "--json"]).json();
        workspace["notes"].as_array().unwrap().clone()
    };
    assert_eq!(
        notes("one"),
        [
            "looks like Node (package.json); `holm init` would write a holm.toml with set-up `npm ci`; services web"
        ]
    );
    // It is written and not committed: no workspace uses it yet, and holm says so.
    repository.holm(&["init"]).ok();
    let found = notes("two");
    assert!(
        found[0].as_str().unwrap().contains("is not in the commit"),
        "{found:?}"
    );
    assert_eq!(found.len(), 1);
    // Nothing to say about a repository that runs nothing.
    let plain = island.repository("plain");
    let workspace = plain.holm(&["up", "x", "--json"]).json();
    assert!(workspace.get("notes").is_none(), "{workspace}");
    // Inside, programs can write the file.
    let refused = island.sh("one", "holm init --json").error(4);
    assert_eq!(refused["code"], "inside_workspace");
}

/// A program that writes to its database and serves what it reads there.
const SERVER: &str = r#"
const { hostname, port } = new URL(process.env.REDIS_URL);
const redis = require("node:net").connect(port || 6379, hostname);
redis.write("incr starts\r\n");
redis.once("data", (reply) => {
  require("node:http").createServer((_, answer) => answer.end(String(reply).trim())).listen(3000);
});
"#;

#[test]
fn a_proposal_with_a_compose_file_comes_up() {
    let island = Island::new();
    redis().add(&island, "redis:7");
    let repository = island.repository("shop");
    repository.write(
        "package.json",
        r#"{"name":"shop","scripts":{"dev":"node server.js"}}"#,
    );
    repository.write(
        "package-lock.json",
        r#"{"lockfileVersion":3,"packages":{}}"#,
    );
    repository.write("server.js", SERVER);
    repository.write(".env.example", "REDIS_URL=redis://localhost:6379\n");
    repository.write(
        "compose.yaml",
        "services:\n  cache:\n    image: redis:7\n    command: redis-server --protected-mode no\n",
    );
    repository.holm(&["init"]).ok();
    let written = config(&repository);
    assert_eq!(written["project"]["compose"].as_str(), Some("compose.yaml"));
    assert!(written["services"].get("cache").is_none(), "{written}");
    repository.commit("what init wrote");
    for label in ["a", "b"] {
        let made = repository.holm(&["up", label, "--json"]).json();
        assert_eq!(service(&made, "cache")["state"], "ready", "{made:#}");
        assert_eq!(service(&made, "web")["state"], "ready", "{made:#}");
        let read = island.inside(label, &["curl", "-sS", "http://127.0.0.1:3000/"]);
        assert_eq!(read.ok().out(), ":1");
    }
}

const NEEDS: &str =
    r#"{"scripts":{"dev":"x"},"dependencies":{"pg":"8","ioredis":"5","mysql2":"3"}}"#;

#[test]
fn the_databases_of_a_proposal_really_run() {
    let island = Island::new();
    let repository = island.repository("shop");
    // The file stays uncommitted, so that only this test starts the commands.
    repository.up("x");
    repository.write("package.json", NEEDS);
    repository.write(
        ".env.example",
        "DATABASE_URL=postgres://shop:x@db/shop_dev\n",
    );
    repository.holm(&["init"]).ok();
    let config = config(&repository);
    let ask = [
        (
            "db",
            "psql -h 127.0.0.1 -U shop -d shop_dev -Atc 'select 40 + 2'",
            "42",
        ),
        ("redis", "redis-cli ping", "PONG"),
        (
            "mariadb",
            "mariadb --no-defaults -h 127.0.0.1 -u root -px app -Nse 'select 40 + 2'",
            "42",
        ),
    ];
    // Twice: a new database, and an existing one.
    for _ in 0..2 {
        for (name, question, answer) in ask {
            let run = config["services"][name]["run"].as_str().unwrap();
            let script = format!("({run}\n) >~/{name}.log 2>&1 &");
            island.sh("x", &script).ok();
            eventually(name, || island.sh("x", question).out() == answer);
        }
        island.holm(&["stop", "x"]).ok();
    }
    // The probe that says when PostgreSQL answers is a line that it really prints.
    let probe = config["services"]["db"]["ready"]["log"].as_str().unwrap();
    island.sh("x", &format!("grep -q '{probe}' ~/db.log")).ok();
}
