//! The machine's policy: no user or repository can exceed it, it takes effect when it is written,
//! and an unreadable one starts nothing.

use crate::support::{Door, Island, Repository};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// The user's own settings, which are wider than the policy.
const SETTINGS: &str = "\
[limits]
processes = 9000
[egress]
mode = \"open\"
[agents.other]
command = [\"cat\"]
[agents.mine]
command = [\"cat\"]
";

const POLICY: &str = "\
[egress]
mode = \"allow\"
allow = [\"*.packages.example.org\"]
[limits]
processes = 500
[island]
nested = false
isolation = \"workspace\"
drivers = [\"linux\"]
allow_degraded = []
protected_paths = [\"locked\"]
[host]
include = false
shared = false
caches = false
canonical_ports = false
builds = false
[secrets]
sources = [\"stored\"]
[agents]
allow = [\"mine\"]
[trust]
by_token = false
";

/// What a repository asks for, and the key of the policy that is in the way.
const BEYOND: [(&str, &str); 11] = [
    ("[project]\nnested = true", "island.nested"),
    ("[project]\nisolation = \"project\"", "island.isolation"),
    ("[project]\ndriver = \"docker\"", "island.drivers"),
    ("[project]\ninclude = [\".env\"]", "host.include"),
    (
        "[shared.redis]\naddress = \"127.0.0.1:6379\"\nport = 6379",
        "host.shared",
    ),
    ("[services.web]\nbuild = \"web\"", "host.builds"),
    ("[caches]\nnpm = { path = \"~/.npm\" }", "host.caches"),
    (
        "[secrets.K]\nfrom = { command = [\"op\"] }\nto = [\"runs\"]",
        "secrets.sources",
    ),
    ("[egress]\nmode = \"open\"", "egress.mode"),
    (
        "[egress]\nmode = \"allow\"\nallow = [\"evil.example.org\"]",
        "egress.allow",
    ),
    ("[limits]\nprocesses = 501", "limits.processes"),
];

fn island(policy: &str) -> Island {
    let island = Island::new();
    island.make_dir("policy");
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", SETTINGS);
    enact(&island, policy);
    island
}

fn enact(island: &Island, policy: &str) {
    if policy.is_empty() {
        let _ = std::fs::remove_file(island.policy());
        return;
    }
    island.write("policy/policy.toml", policy);
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(island.policy(), mode).unwrap();
}

fn doctor(island: &Island) -> Value {
    let ran = island.holm(&["doctor", "--json"]);
    serde_json::from_slice(&ran.stdout).unwrap()
}

fn configure(repository: &Repository, toml: &str) {
    repository.write("holm.toml", format!("{toml}\n"));
    repository.commit("configure");
}

#[track_caller]
fn refused(island: &Island, error: &Value, code: &str, key: &str) {
    assert_eq!(error["code"], code, "{key}: {error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(key), "{key}: {message}");
    let path = island.policy().display().to_string();
    assert!(message.contains(&path), "{message}");
}

#[test]
fn nobody_below_widens_it() {
    let island = island(POLICY);
    let repository = island.repository("shop");
    for (toml, key) in BEYOND {
        configure(&repository, toml);
        // Also when a person approved it.
        repository.holm(&["trust", "--yes"]).ok();
        let error = repository.holm(&["up", "x", "--json"]).error(4);
        refused(&island, &error, "policy", key);
    }
    // The user's settings and defaults are narrowed, with a message.
    configure(&repository, "[ports]\nweb = 3000");
    let made = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(made["limits"]["processes"], 500, "{made}");
    let notes = made["notes"].to_string();
    for key in ["limits.processes", "egress.mode", "island.protected_paths"] {
        assert!(notes.contains(key), "{notes}");
    }
    let path = island.policy().display().to_string();
    assert_eq!(made["policy"], json!(path));
    let shown = island.holm(&["show", "x"]).ok().out();
    assert!(shown.contains("is in force"), "{shown}");
    let doctor = doctor(&island);
    let checks = doctor["checks"].as_array().unwrap();
    let policy = checks.iter().find(|it| it["name"] == "policy").unwrap();
    assert_eq!(policy["detail"], json!(format!("{path} is in force")));
    // They are in force inside.
    island.sh("x", "touch locked/x").exits(1);
    island.sh("x", "unshare -U true").exits(1);
    let egress = island.sh("x", "getent hosts example.org").code;
    assert_ne!(egress, Some(0));
    // The command line.
    repository.write(".gitignore", ".env\n");
    repository.write(".env", "KEY=1\n");
    let error = repository
        .holm(&["up", "y", "--include", ".env", "--json"])
        .error(4);
    refused(&island, &error, "policy", "host.include");
    let error = repository
        .holm(&["up", "y", "--allow-degraded=landlock", "--json"])
        .error(4);
    refused(&island, &error, "policy", "island.allow_degraded");
    let error = island.holm(&["checkout", "x", "--json"]).error(4);
    refused(&island, &error, "policy", "host.canonical_ports");
    let error = island
        .holm(&["run", "x", "--agent", "other", "hello", "--json"])
        .error(4);
    refused(&island, &error, "policy", "agents.allow");
    island.holm(&["run", "x", "--agent", "mine", "hello"]).ok();
    // Removed parts need no approval.
    configure(&repository, "[project]\ninclude = [\".env\", \"b\"]");
    repository.holm(&["up", "y", "--untrusted"]).ok();
    // A program with a token is no person.
    let projects = island.holm(&["project", "ls", "--json"]).json();
    let body = json!({
        "project_id": projects["projects"][0]["id"],
        "digest": "0",
        "config": "[project]\nnested = true\n",
    });
    let reply = Door::of(&island).ask("POST", "/api/v1/trust", &body.to_string());
    assert_eq!(reply.code(), "policy");
}

#[test]
fn one_that_comes_later_holds_at_the_next_start() {
    let island = island("");
    let repository = island.repository("shop");
    configure(&repository, "[project]\nnested = true");
    repository.holm(&["trust", "--yes"]).ok();
    let id = repository.up("x");
    repository.up("asleep");
    island.holm(&["stop", "asleep"]).ok();
    island.sh("x", "unshare -U true; echo mine > work.txt").ok();
    let narrow = "[island]\nnested = false\n[limits]\nprocesses = 600\n";
    enact(&island, narrow);
    // Nothing new starts in a workspace that runs with more; it can be inspected and its work taken
    // out.
    let error = island.holm(&["exec", "x", "--json", "--", "true"]).error(4);
    refused(&island, &error, "policy", "island.nested");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("`holm restart {id}`")), "{error}");
    let error = island
        .holm(&["run", "x", "--json", "hello", "--agent", "mine"])
        .error(4);
    refused(&island, &error, "policy", "island.nested");
    island.holm(&["session", "new", "x", "--json"]).error(4);
    assert!(island.holm(&["diff", "x"]).ok().out().contains("mine"));
    let error = island
        .holm(&["reload", "x", "--inside", "--yes", "--json"])
        .error(4);
    refused(&island, &error, "policy", "island.nested");
    let restarted = island.holm(&["restart", "x", "--json"]).json();
    let notes = restarted.to_string();
    assert!(notes.contains("island.nested"), "{notes}");
    island.sh("x", "cat work.txt").ok();
    island.sh("x", "unshare -U true").exits(1);
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["limits"]["processes"], 600, "{shown}");
    // A command that starts a workspace starts it within the policy.
    island.sh("asleep", "unshare -U true").exits(1);
    // An unreadable policy starts nothing, and ends nothing.
    for (broken, what) in [
        ("[island]\nnested = nein\n", ":2:10: "),
        ("[islnd]\n", ":1:2: "),
    ] {
        enact(&island, broken);
        for command in [
            &["up", "y", "--json"][..],
            &["restart", "x", "--json"],
            &["exec", "x", "--json", "--", "true"],
            &["fork", "x", "z", "--json"],
        ] {
            let error = repository.holm(command).error(4);
            refused(&island, &error, "invalid_policy", what);
        }
        assert_eq!(doctor(&island)["ok"], false);
    }
    let writable = std::fs::Permissions::from_mode(0o666);
    enact(&island, narrow);
    std::fs::set_permissions(island.policy(), writable).unwrap();
    let error = repository.holm(&["up", "y", "--json"]).error(4);
    refused(
        &island,
        &error,
        "invalid_policy",
        "can be written by others",
    );
    assert!(island.holm(&["diff", "x"]).ok().out().contains("mine"));
    island.holm(&["stop", "x"]).ok();
    // Without a policy, a narrowed workspace stays so until a reload.
    enact(&island, "");
    island.sh("x", "unshare -U true").exits(1);
    island.holm(&["reload", "x", "--inside", "--yes"]).ok();
    island.holm(&["restart", "x"]).ok();
    island.sh("x", "unshare -U true").ok();
}

#[test]
fn what_comes_from_where_it_may_not_is_neither_read_nor_given() {
    let island = island("");
    let repository = island.repository("shop");
    let mark = island.write("mark", "");
    let command = format!("echo read >> {}; echo value-of-k", mark.display());
    let toml = format!(
        "[secrets.K]\nfrom = {{ command = [\"sh\", \"-c\", \"{command}\"] }}\nto = [\"runs\"]\n\
         [secrets.L]\nfrom = {{ stored = true }}\nto = [\"runs\"]"
    );
    configure(&repository, &toml);
    repository.holm(&["trust", "--yes"]).ok();
    crate::secrets::set(&repository, "L", "value-of-l");
    repository.up("x");
    let has = |expect: &str| {
        let shown = ["run", "x", "--", "sh", "-c", "echo ${K:+k} ${L:+l}"];
        assert_eq!(island.holm(&shown).ok().out(), expect);
    };
    let times = || std::fs::read_to_string(&mark).unwrap().lines().count();
    has("k l");
    let before = times();
    assert!(before > 0);
    island.holm(&["secret", "refresh", "x"]).ok();
    assert_eq!(times(), before + 1, "without a policy it is read");
    enact(&island, "[secrets]\nsources = [\"stored\"]\n");
    let refreshed = island.holm(&["secret", "refresh", "x", "--json"]).json();
    assert!(refreshed.to_string().contains("policy"), "{refreshed}");
    let restarted = island.holm(&["restart", "x", "--json"]).json();
    let notes = restarted.to_string();
    assert!(notes.contains("secrets.sources"), "{notes}");
    has("l");
    let error = repository.holm(&["up", "y", "--json"]).error(4);
    refused(&island, &error, "policy", "secrets.sources");
    assert_eq!(times(), before + 1, "nobody ran the command");
}
