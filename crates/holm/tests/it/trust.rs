//! A repository's requests to the host take effect only after a person approved exactly this
//! content; commands inside need no approval.

use crate::support::{Act, Island, Repository};
use serde_json::{Value, json};

/// The user's own settings, below which a project is free.
const SETTINGS: &str = "\
[limits]
memory = \"1GiB\"
cpus = 1.0
processes = 2000
disk = \"1GiB\"

[egress]
mode = \"allow\"
allow = [\"packages.example.org\"]

[agents.claude]
command = [\"claude\"]
env = [\"ANTHROPIC_API_KEY\"]
";

/// A request, its key, and words that a person is shown.
const ASKS: &[(&str, &str, &str)] = &[
    (
        "[project]\ninclude = [\".env\"]",
        "project.include",
        "copy `.env` from your checkout",
    ),
    (
        "[project]\nisolation = \"project\"",
        "project.isolation",
        "read the files of the project's other workspaces",
    ),
    (
        "[project]\nnested = true",
        "project.nested",
        "make user namespaces",
    ),
    (
        "[project]\ndriver = \"docker\"",
        "project.driver",
        "driver `docker`",
    ),
    (
        "[shared.redis]\naddress = \"127.0.0.1:6379\"\nport = 6379",
        "shared.redis",
        "127.0.0.1:6379",
    ),
    (
        "[caches]\nnpm = { path = \"~/.npm\", policy = \"fork\" }",
        "caches.npm",
        "~/.npm",
    ),
    (
        "[caches]\nall = { path = \"/srv/cache\", policy = \"shared\" }",
        "caches.all",
        "one directory, at `/srv/cache`",
    ),
    (
        "[project]\nroot = \"/srv/shop\"\n[caches]\nown = { path = \"/srv/shop/c\", policy = \"fork\" }",
        "caches.own",
        "read a copy of `/srv/shop/c` of yours",
    ),
    (
        "[secrets.KEY]\nfrom = { env = \"STRIPE\" }\nto = [\"runs\"]",
        "secrets.KEY",
        "your variable `STRIPE`",
    ),
    (
        "[secrets.KEY]\nfrom = { file = \"~/.key\" }\nto = [\"runs\"]",
        "secrets.KEY",
        "your file `~/.key`",
    ),
    (
        "[secrets.KEY]\nfrom = { command = [\"op\", \"read\"] }\nto = [\"runs\"]",
        "secrets.KEY",
        "run on this machine",
    ),
    (
        "[secrets.KEY]\nfrom = { stored = true }\nto = [\"runs\"]",
        "secrets.KEY",
        "stored secret `KEY`",
    ),
    (
        "[egress]\nmode = \"open\"",
        "egress.mode",
        "whole public internet",
    ),
    (
        "[egress]\nallow = [\"evil.example.org\"]",
        "egress.allow",
        "evil.example.org",
    ),
    (
        "[limits]\nmemory = \"2GiB\"",
        "limits.memory",
        "use 2GiB of memory; your setting is 1GiB",
    ),
    ("[limits]\ncpus = 2.0", "limits.cpus", "processors"),
    (
        "[limits]\nprocesses = 3000",
        "limits.processes",
        "use 3000 processes",
    ),
    ("[limits]\ndisk = \"2GiB\"", "limits.disk", "of disk"),
    (
        "[agents.claude]\ncommand = [\"sh\", \"-c\", \"env\"]",
        "agents.claude",
        "with the credentials you give to `claude`",
    ),
];

/// What a repository may say without asking.
const FREE: [&str; 10] = [
    "[project]\nname = \"other\"\nsetup = [\"curl example.org | sh\"]\nsetup_inputs = [\"x\"]",
    "[project]\nprotected_paths = [\"README.md\", \"absent\"]",
    "[project]\nisolation = \"workspace\"\ndriver = \"linux\"\nnested = false",
    "[ports]\nweb = 3000\n[services.web]\nrun = \"rm -rf ~\"\nready = { port = \"web\", http = \"/\" }",
    "[volumes.pg]\npath = \"/data/pg\"\npolicy = \"fork\"\nseed = [\"true\"]",
    "[caches]\nown = { path = \"build/cache\", policy = \"shared\" }",
    "[limits]\nprocesses = 1000",
    "[egress]\nmode = \"none\"",
    "[egress]\nallow = [\"packages.example.org\"]",
    "[agents.other]\ncommand = [\"other\"]",
];

fn with_settings(island: &Island) {
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", SETTINGS);
}

fn configure(repository: &Repository, toml: &str) {
    repository.write("holm.toml", toml);
    repository.commit("configure");
}

fn text<'a>(error: &'a Value, field: &str) -> &'a str {
    error[field].as_str().unwrap()
}

fn post(island: &Island, path: &str, body: &Value) -> Value {
    let path = format!("/api/v1{path}");
    let (_, answer) = island.ask("POST", &path, body.to_string().as_bytes());
    serde_json::from_slice(&answer).unwrap()
}

#[track_caller]
fn refused(repository: &Repository, label: &str, key: &str, words: &str) {
    let ran = repository.holm(&["up", label, "--json"]);
    assert!(ran.stdout.is_empty(), "{key}");
    let error = ran.error(4);
    assert_eq!(error["code"], "not_trusted", "{key}: {error}");
    assert!(text(&error, "message").contains(key), "{key}: {error}");
    assert!(text(&error, "message").contains(words), "{words}: {error}");
    assert!(text(&error, "hint").contains("`holm trust`"), "{error}");
    assert!(text(&error, "hint").contains("--untrusted"), "{error}");
}

#[test]
fn everything_that_reaches_the_host_is_asked_for() {
    let island = Island::new();
    with_settings(&island);
    let repository = island.repository("shop");
    for (index, (toml, key, words)) in ASKS.iter().enumerate() {
        configure(&repository, toml);
        refused(&repository, "x", key, words);
        // Looking is not approving.
        let error = repository.holm(&["trust", "--json"]).error(4);
        assert!(text(&error, "message").contains(words), "{error}");
        assert!(
            text(&error, "hint").contains("`holm trust --yes`"),
            "{error}"
        );
        refused(&repository, "x", key, words);
        // Without it.
        let label = format!("without-{index}");
        let made = repository
            .holm(&["up", &label, "--untrusted", "--json"])
            .json();
        assert!(made["notes"].to_string().contains(key), "{key}: {made}");
        assert!(
            made["notes"].to_string().contains("not approved"),
            "{key}: {made}"
        );
    }
    let made = island.holm(&["ls", "--json"]).json();
    assert_eq!(made["workspaces"].as_array().unwrap().len(), ASKS.len());
}

/// An approved content with one byte changed, and what a person is told about it.
const ONE_BYTE: [(&str, &str, &str, &str); 14] = [
    (
        "[project]\ninclude = [\".env\"]",
        ".env",
        ".enw",
        "added: copy `.enw`",
    ),
    (
        "[project]\nprotected_paths = [\"infra\"]",
        "infra",
        "intra",
        "added: let agents write to `infra`",
    ),
    (
        "[project]\nisolation = \"project\"",
        "isolation = ",
        "#solation = ",
        "removed: let each workspace read",
    ),
    (
        "[project]\nnested = true",
        "nested",
        "#ested",
        "removed: let programs inside make user namespaces",
    ),
    (
        "[project]\ndriver = \"docker\"",
        "driver",
        "#river",
        "removed: run workspaces with the driver `docker`",
    ),
    (
        "[shared.redis]\naddress = \"127.0.0.1:6379\"\nport = 6379",
        "port = 6379",
        "port = 6378",
        "changed: reach `127.0.0.1:6379`",
    ),
    (
        "[caches]\nnpm = { path = \"~/.npm\", policy = \"fork\" }",
        ".npm",
        ".npn",
        "changed: read a copy of `~/.npn` of yours",
    ),
    (
        "[secrets.KEY]\nfrom = { env = \"A\" }\nto = [\"runs\"]",
        "\"A\"",
        "\"B\"",
        "changed: give your variable `B`",
    ),
    (
        "[secrets.KEY]\nfrom = { command = [\"op\", \"a\"] }\nto = [\"runs\"]",
        "\"a\"",
        "\"b\"",
        "changed: give what `\"op\" \"b\"` prints",
    ),
    (
        "[secrets.KEY]\nfrom = { stored = true }\nto = [\"runs\"]\nhosts = [\"a.example.org\"]",
        "a.example",
        "b.example",
        "for b.example.org",
    ),
    (
        "[egress]\nmode = \"open\"",
        "mode",
        "#ode",
        "removed: connect to the whole public internet",
    ),
    (
        "[egress]\nallow = [\"a.example.org\"]",
        "a.example",
        "b.example",
        "added: connect to `b.example.org`",
    ),
    (
        "[limits]\nmemory = \"2GiB\"",
        "2GiB",
        "3GiB",
        "changed: use 3GiB of memory",
    ),
    (
        "[agents.claude]\ncommand = [\"a\"]",
        "\"a\"",
        "\"b\"",
        "changed: run [\"b\"] as `claude`",
    ),
];

#[test]
fn one_changed_byte_is_asked_for_again_and_told() {
    let island = Island::new();
    with_settings(&island);
    for (index, (toml, from, to, told)) in ONE_BYTE.iter().enumerate() {
        let repository = island.repository(&format!("shop-{index}"));
        let changed = toml.replacen(from, to, 1);
        assert!(*toml != changed && toml.len() == changed.len(), "{toml}");
        configure(&repository, toml);
        let first = repository.holm(&["trust", "--yes", "--json"]).json();
        // Fewer protected paths are asked for once they are in force.
        let is_free = toml.contains("protected_paths");
        if is_free {
            drop(repository.up("before"))
        } else {
            assert_eq!(first["changes"][0]["change"], "added", "{first}")
        }
        let again = repository.holm(&["trust", "--json"]).json();
        assert_eq!(again["approved"], true, "{again}");
        assert_eq!(again["changes"], json!([]), "{again}");
        assert_eq!(again["approved_at"].is_string(), !is_free, "{again}");
        configure(&repository, &changed);
        if told.starts_with("removed") {
            // Less than was approved needs no approval, and is shown anyway.
            let less = repository.holm(&["trust", "--json"]).json();
            assert_eq!(less["asks"], json!([]), "{less}");
            let change = &less["changes"][0];
            let words = format!("{}: {}", text(change, "change"), text(change, "words"));
            assert!(words.starts_with(told), "{words}");
        } else {
            let error = repository.holm(&["up", "x", "--json"]).error(4);
            assert_eq!(error["code"], "not_trusted", "{error}");
            let message = text(&error, "message");
            let since = if is_free {
                // Nothing was approved before, so all of it is new.
                told.strip_prefix("added: ").unwrap()
            } else {
                assert!(message.contains("since the last approval ("), "{message}");
                told
            };
            assert!(message.contains(since), "{message} {told}");
            let shown = repository.holm(&["trust"]).exits(4);
            assert!(shown.stderr.contains(since), "{}", shown.stderr);
        }
    }
}

#[test]
fn an_approval_belongs_to_one_project_and_one_content() {
    let island = Island::new();
    let nested = "[project]\nnested = true\n";
    let repository = island.repository("shop");
    configure(&repository, nested);
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("a");
    // The same content in another project.
    let other = island.repository("blog");
    configure(&other, nested);
    refused(&other, "x", "project.nested", "user namespaces");
    // Another repository at the same place, with the same content and with another one.
    let aside = repository.path.with_extension("aside");
    std::fs::rename(&repository.path, &aside).unwrap();
    let usurper = island.repository("shop");
    assert_eq!(usurper.path, repository.path);
    configure(&usurper, nested);
    refused(&usurper, "x", "project.nested", "user namespaces");
    let seen = usurper.holm(&["trust", "--json"]).error(4);
    assert!(!text(&seen, "message").contains("since"), "{seen}");
    configure(&usurper, "[project]\nnested = true\ninclude = [\".env\"]\n");
    refused(&usurper, "x", "project.include", ".env");
    // Nothing is approved that was not shown: a digest alone is worth nothing.
    let projects = island.holm(&["project", "ls", "--json"]).json();
    let projects = projects["projects"].as_array().unwrap();
    let id = projects.iter().find(|it| it["name"] == "shop-2").unwrap()["id"].clone();
    let plain = "[project]\nname = \"shop\"\n";
    let check = json!({ "project_id": id, "config": nested });
    let shown = post(&island, "/trust/check", &check);
    let approve = |config: &str| {
        let body = json!({ "project_id": id, "digest": shown["digest"], "config": config });
        post(&island, "/trust", &body)
    };
    let refusal = approve(plain);
    assert_eq!(refusal["error"]["code"], "not_trusted", "{refusal}");
    assert_eq!(post(&island, "/trust/check", &check)["approved"], false);
    approve(nested);
    assert_eq!(post(&island, "/trust/check", &check)["approved"], true);
}

#[test]
fn what_runs_inside_is_not_asked_for() {
    let island = Island::new();
    with_settings(&island);
    for (index, toml) in FREE.iter().enumerate() {
        // Another repository each: leaving a protected path out again would be asked for.
        let repository = island.repository(&format!("shop-{index}"));
        configure(&repository, toml);
        let trust = repository.holm(&["trust", "--json"]).json();
        assert_eq!(trust["asks"], json!([]), "{toml}");
        // One of them is a service that never gets ready; only its permission to run matters here.
        repository.holm(&["up", "x", "--no-wait", "--json"]).ok();
    }
}

#[test]
fn exactly_what_was_approved_and_nothing_else() {
    let island = Island::new();
    with_settings(&island);
    let repository = island.repository("shop");
    let nested = "[project]\nnested = true\n";
    configure(&repository, nested);
    refused(&repository, "x", "project.nested", "user namespaces");
    let shown = repository.holm(&["trust", "--yes", "--json"]).json();
    assert_eq!(shown["approved"], true);
    assert_eq!(shown["asks"][0]["key"], "project.nested");
    repository.up("approved");
    // It is in force, and the unapproved part is not.
    island.sh("approved", "unshare -U true").ok();
    repository
        .holm(&["up", "still", "--untrusted", "--json"])
        .ok();
    island.sh("still", "unshare -U true").ok();
    // Comments, order and commands do not matter.
    configure(
        &repository,
        "# words\n[ports]\nweb = 3000\n\n[project]\nsetup = [\"true\"]\nnested = true\n",
    );
    repository.up("same");
    // One more ask: the whole is another content.
    configure(
        &repository,
        &format!("{nested}[limits]\nprocesses = 3000\n"),
    );
    refused(&repository, "x", "limits.processes", "3000");
    repository
        .holm(&["up", "without", "--untrusted", "--json"])
        .ok();
    island.sh("without", "unshare -U true").exits(1);
    // An earlier approved content is still approved when it comes back.
    configure(&repository, nested);
    repository.up("back");
    // Another value of the same key.
    configure(&repository, "[limits]\nprocesses = 3000\n");
    repository.holm(&["trust", "--yes"]).ok();
    assert_eq!(
        repository.holm(&["up", "more", "--json"]).json()["limits"]["processes"],
        3000
    );
    configure(&repository, "[limits]\nprocesses = 3001\n");
    refused(&repository, "x", "limits.processes", "3001");
    let without = repository
        .holm(&["up", "less", "--untrusted", "--json"])
        .json();
    assert_eq!(without["limits"]["processes"], 2000);
    // Approvals outlive the daemon.
    island.holm(&["daemon", "stop"]).ok();
    configure(&repository, nested);
    repository.up("after");
}

#[test]
fn fewer_protected_paths_are_asked_for_and_kept_without_approval() {
    let island = Island::new();
    let repository = island.repository("shop");
    configure(
        &repository,
        "[project]\nprotected_paths = [\"README.md\", \"infra\"]\n",
    );
    repository.up("before");
    configure(&repository, "[project]\nprotected_paths = [\"infra\"]\n");
    refused(
        &repository,
        "x",
        "project.protected_paths",
        "`README.md`, which was protected before",
    );
    repository.holm(&["up", "kept", "--untrusted"]).ok();
    island.sh("kept", "echo x > README.md").exits(2);
    refused(&repository, "x", "project.protected_paths", "README.md");
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("fewer");
    island.sh("fewer", "echo x > README.md").ok();
    island.sh("fewer", "echo x > infra/x").exits(2);
    // A removed holm.toml protects nothing any more.
    repository.git(&["rm", "-q", "holm.toml"]);
    repository.commit("none");
    refused(&repository, "x", "project.protected_paths", "infra");
    // A directory that covers them is not fewer.
    configure(
        &repository,
        "[project]\nprotected_paths = [\"infra\", \"more\"]\n",
    );
    repository.up("more");
}

#[test]
fn the_start_that_is_asked_for_is_what_is_approved() {
    let island = Island::new();
    let repository = island.repository("shop");
    let plain = "[project]\nname = \"shop\"\n";
    configure(&repository, plain);
    repository.git(&["checkout", "-q", "-b", "asking"]);
    configure(&repository, "[project]\nnested = true\n");
    repository.git(&["checkout", "-q", "main"]);
    // Of another ref.
    let error = repository
        .holm(&["up", "x", "--from", "asking", "--json"])
        .error(4);
    assert!(
        text(&error, "hint").contains("`holm trust --from asking`"),
        "{error}"
    );
    assert_eq!(
        repository.holm(&["trust", "--json"]).json()["asks"],
        json!([])
    );
    repository
        .holm(&["up", "x", "--from", "asking", "--json"])
        .error(4);
    repository
        .holm(&["trust", "--from", "asking", "--yes"])
        .ok();
    repository
        .holm(&["up", "x", "--from", "asking", "--json"])
        .ok();
    // Of the checkout.
    repository.write("holm.toml", "[project]\nisolation = \"project\"\n");
    repository.holm(&["up", "committed", "--json"]).ok();
    let error = repository.holm(&["up", "y", "--dirty", "--json"]).error(4);
    assert!(
        text(&error, "hint").contains("`holm trust --dirty`"),
        "{error}"
    );
    repository.holm(&["trust", "--dirty", "--yes"]).ok();
    repository.holm(&["up", "y", "--dirty", "--json"]).ok();
    // An unknown one.
    assert_eq!(
        repository
            .holm(&["trust", "--from", "no", "--json"])
            .error(3)["code"],
        "ref_not_found"
    );
}

#[test]
fn on_a_terminal_it_is_shown_in_plain_words_and_asked() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(".gitignore", ".env\n");
    configure(&repository, "[project]\ninclude = [\".env\"]\n");
    repository.write(".env", "KEY=1\n");
    let question = [
        Act::See("copy `.env` from your checkout"),
        Act::See("Approve this for"),
    ];
    let answered = |arguments: &[&str], answer: &str| {
        let acts = [&question[..], &[Act::Type(answer)]].concat();
        island.play(&repository.path, arguments, &acts)
    };
    for no in ["n\n", "\n", "whatever\n"] {
        let played = answered(&["up", "x"], no);
        assert_eq!(played.code, 4, "{no:?}: {}", played.screen);
        assert!(played.is_restored);
        assert_eq!(answered(&["trust"], no).code, 4);
    }
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"],
        json!([])
    );
    let played = answered(&["up", "x"], "y\n");
    assert_eq!(played.code, 0, "{}", played.screen);
    assert_eq!(island.sh("x", "cat .env").ok().out(), "KEY=1");
    // Asked once: from now on scripts go through.
    repository.up("y");
    assert_eq!(island.sh("y", "cat .env").ok().out(), "KEY=1");
    configure(&repository, "[project]\ninclude = [\".env\", \"*.pem\"]\n");
    let question = [
        Act::See("*.pem"),
        Act::See("Approve this for"),
        Act::Type("yes\n"),
        Act::See("approved"),
    ];
    assert_eq!(island.play(&repository.path, &["trust"], &question).code, 0);
    repository.up("z");
    // Approved requests are shown, too.
    let shown = repository.holm(&["trust"]).ok();
    assert!(shown.stderr.contains("*.pem"), "{}", shown.stderr);
    // With --json there is no question, terminal or not.
    configure(&repository, "[project]\ninclude = [\"*.key\"]\n");
    let played = island.play(&repository.path, &["up", "w", "--json"], &[]);
    assert_eq!(played.code, 4, "{}", played.screen);
    assert!(played.screen.contains("not_trusted"), "{}", played.screen);
}

#[test]
fn nothing_in_a_name_steers_the_terminal() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(".gitignore", "*\n");
    repository.write(".worktreeinclude", "a\u{202e}b\nc\u{9b}2Kd\n");
    let ran = repository.holm(&["up", "x"]);
    assert_ne!(ran.code, Some(0));
    assert!(
        !ran.stderr.contains('\u{9b}') && !ran.stderr.contains('\u{202e}'),
        "{:?}",
        ran.stderr
    );
}

#[test]
fn a_driver_that_is_not_there_is_refused_also_when_approved() {
    let island = Island::new();
    let repository = island.repository("shop");
    configure(&repository, "[project]\ndriver = \"kubernetes\"\n");
    repository.holm(&["trust", "--yes"]).ok();
    let error = repository.holm(&["up", "x", "--json"]).error(4);
    assert_eq!(error["code"], "driver_unavailable");
}
