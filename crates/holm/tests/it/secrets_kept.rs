//! Stored secrets: who may write them, that they are never returned, which one counts, and that the
//! record cannot be changed without detection (attacks 131, 132, 134).

use crate::secrets::{audit, canary, events, has_canary, piped, set, shop, state, sweep, with_env};
use crate::support::{Island, Ran, Repository, eventually};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn attack_131_odd_names_and_values_are_refused_without_being_shown() {
    let island = Island::new();
    let repository = island.repository("shop");
    let value = canary("odd");
    let refused = |name: &str, value: &[u8]| {
        let ran = piped(&repository, &["secret", "set", name, "--json"], value);
        let shown = format!("{}{}", ran.stderr, ran.out());
        assert!(!has_canary(shown.as_bytes()), "{shown}");
        assert_eq!(ran.error(2)["code"], "invalid_secret");
    };
    for name in [
        "A=B",
        "",
        "A\nB",
        "A B",
        "1A",
        "ä",
        "../A",
        &"A".repeat(5000),
    ] {
        refused(name, value.as_bytes());
    }
    refused("A", b"");
    refused("A", format!("{value}\0").as_bytes());
    refused("A", &[value.as_bytes(), b"\xff\xfe"].concat());
    refused("A", &[value.as_bytes(), &vec![b'x'; 1 << 20]].concat());
    // The counterpart: an unusual but valid value is given unchanged.
    repository.write("holm.toml", "[secrets.MANY]\nto = [\"runs\"]\n");
    repository.commit("a secret");
    repository.holm(&["trust", "--yes"]).ok();
    set(&repository, "MANY", "two lines\nand = signs\t\"'$(true)\n");
    repository.up("x");
    let given = island.holm(&[
        "run",
        "x",
        "--",
        "sh",
        "-c",
        "printf %s \"$MANY\" | tr a-z A-Z",
    ]);
    assert_eq!(given.ok().out(), "TWO LINES\nAND = SIGNS\t\"'$(TRUE)");
    // Not even a request of the wrong form has its value in the answer, or in the log.
    let project = repository.git(&["config", "holm.projectId"]);
    for body in [
        format!("{{\"name\":\"A\",\"scope\":\"user\",\"value\":[\"{value}\"]}}"),
        format!("{{\"name\":\"A\",\"scope\":\"user\",\"value\":\"{value}\\u0000\"}}"),
        format!("{{\"name\":\"A\",\"scope\":\"user\",\"value\":\"{value}\",\"{value}\":1}}"),
        format!("{{\"name\":\"A\",\"scope\":\"{value}\",\"value\":\"{value}\"}}"),
        format!("{{\"name\":\"A\",\"scope\":{{\"project\":\"{project}\"}},\"value\":7{value}}}"),
    ] {
        let (code, answer) = island.ask("PUT", "/api/v1/secrets", body.as_bytes());
        assert_eq!(code, 400, "{}", String::from_utf8_lossy(&answer));
        assert!(!has_canary(&answer), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(sweep(&island.holm_home()), Vec::<String>::new());
    // Sources that have no such value are said in a note, and the workspace starts without.
    island.write("home/odd", format!("{value}\0"));
    repository.write(
        "holm.toml",
        "[secrets.A]\nfrom = { file = \"~/odd\" }\nto = [\"runs\"]\n\
         [secrets.B]\nfrom = { command = [\"/bin/false\"] }\nto = [\"runs\"]\n\
         [secrets.C]\nfrom = { env = \"NOT_SET_HERE\" }\nto = [\"runs\"]\n\
         [secrets.D]\nto = [\"runs\"]\n",
    );
    repository.commit("sources");
    repository.holm(&["trust", "--yes"]).ok();
    let made = repository.holm(&["up", "y", "--json"]).json();
    let notes = made["notes"].to_string();
    for part in [
        "secret A is not given: it has a NUL byte",
        "/bin/false ended with",
        "the variable NOT_SET_HERE is not set",
        "`holm secret set D`",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert!(!has_canary(notes.as_bytes()), "{notes}");
    // An unknown receiver is an error of the file.
    repository.write("holm.toml", "[secrets.A]\nto = [\"nobody\"]\n");
    repository.commit("nobody");
    let error = repository.holm(&["up", "z", "--json"]).error(2);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("nobody") && message.contains("holm.toml:2"),
        "{error}"
    );
}

#[test]
fn attack_132_nothing_that_is_answered_listed_or_exported_has_a_value() {
    let island = Island::new();
    let repository = shop(&island);
    set(&repository, "STORED", &canary("stored"));
    piped(
        &repository,
        &["secret", "set", "STORED", "--user"],
        canary("user"),
    )
    .ok();
    let made = with_env(&repository, &["up", "x", "--json"]).ok();
    let told: Value = serde_json::from_slice(&made.stdout).unwrap();
    let id = told["id"].as_str().unwrap().to_owned();
    let own = ["secret", "set", "STORED", "--workspace", "x", "--json"];
    let own = piped(&repository, &own, canary("own"));
    let mut shown = vec![made.stdout, own.ok().stdout];
    for arguments in [
        &["secret", "ls"][..],
        &["secret", "ls", "--json"],
        &["secret", "ls", "x"],
        &["secret", "audit", "--json"],
        &["ls", "--json"],
        &["show", "x", "--json"],
        &["status", "--json"],
        &["doctor", "--json"],
        &["events", "--json"],
        &["audit", "--json"],
    ] {
        shown.push(repository.holm(arguments).stdout);
    }
    let given = repository.holm(&["secret", "ls", "x"]).ok().out();
    let line = given.lines().find(|line| line.starts_with("STORED"));
    assert!(line.is_some_and(|line| line.contains("given")), "{given}");
    let routes = [
        "/secrets".to_owned(),
        "/secrets/audit?verify=true".to_owned(),
        "/workspaces".to_owned(),
        format!("/workspaces/{id}"),
        format!("/workspaces/{id}/secrets"),
        "/openapi.json".to_owned(),
        "/metrics".to_owned(),
    ];
    for route in routes {
        shown.push(island.ask("GET", &format!("/api/v1{route}"), b"").1);
    }
    for text in &shown {
        assert!(!has_canary(text), "{}", String::from_utf8_lossy(text));
    }
    let list = repository.holm(&["secret", "ls", "--json"]).json();
    assert_eq!(list["secrets"].as_array().unwrap().len(), 3, "{list}");
    // An export opens with its passphrase and not without.
    let parcel = island.home().join("parcel");
    let parcel = parcel.to_str().unwrap();
    let export = piped(&repository, &["secret", "export", parcel], "open sesame\n").ok();
    let text = std::fs::read(parcel).unwrap();
    assert!(!has_canary(&text) && !has_canary(&export.stdout));
    let mode = Path::new(parcel).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for name in ["--user", "--workspace=x"] {
        repository.holm(&["secret", "rm", "STORED", name]).ok();
    }
    repository.holm(&["secret", "rm", "STORED"]).ok();
    repository.holm(&["secret", "rm", "STORED"]).exits(3);
    let import = ["secret", "import", parcel, "--json"];
    let wrong = piped(&repository, &import, "open barley\n").error(4);
    assert_eq!(wrong["code"], "wrong_passphrase");
    island.write("home/no-parcel", "{}");
    let other = island.home().join("no-parcel");
    let other = ["secret", "import", other.to_str().unwrap(), "--json"];
    assert_eq!(
        piped(&repository, &other, "x\n").error(2)["code"],
        "invalid_secret"
    );
    let imported = piped(&repository, &import, "open sesame\n").ok();
    assert!(!has_canary(&imported.stdout));
    // It came back whole: the counterpart of what could not be read.
    let list = repository.holm(&["secret", "ls", "--json"]).json();
    assert_eq!(list["secrets"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!(state(&island, &id, "STORED"), "given");
    let told = audit(&island);
    for event in ["exported", "imported"] {
        assert!(told.iter().any(|line| line["event"] == event), "{event}");
    }
    assert_eq!(sweep(&island.holm_home()), Vec::<String>::new());
}

/// Sets and deletes one name in one place, again and again.
fn churn(island: &Island, scope: &str, value: &str) {
    for turn in 0..50 {
        let body = format!("{{\"name\":\"KEY\",\"scope\":{scope},\"value\":\"{value} {turn}\"}}");
        let set = island.ask("PUT", "/api/v1/secrets", body.as_bytes());
        assert_eq!(set.0, 200, "{}", String::from_utf8_lossy(&set.1));
        if turn % 2 == 0 {
            let body = format!("{{\"name\":\"KEY\",\"scope\":{scope}}}");
            let removed = island.ask("DELETE", "/api/v1/secrets", body.as_bytes());
            assert_eq!(removed.0, 200, "{}", String::from_utf8_lossy(&removed.1));
        }
    }
}

fn key_of(repository: &Repository<'_>, workspace: &str) -> String {
    let show = "echo \"${KEY:-none}\" | tr a-z A-Z";
    let run = ["run", workspace, "--", "sh", "-c", show];
    repository.holm(&run).ok().out()
}

#[test]
fn attack_134_one_name_of_two_users_two_projects_and_many_at_once_is_not_mixed_up() {
    let users = [Island::new(), Island::new()];
    let repositories: Vec<_> = users
        .iter()
        .flat_map(|user| ["shop", "other"].map(|name| user.repository(name)))
        .collect();
    for repository in &repositories {
        repository.write("holm.toml", "[secrets.KEY]\nto = [\"runs\"]\n");
        repository.commit("a key");
        repository.holm(&["trust", "--yes"]).ok();
        repository.holm(&["up", "x"]).ok();
    }
    std::thread::scope(|scope| {
        for (number, repository) in repositories.iter().enumerate() {
            scope.spawn(move || {
                let id = repository.git(&["config", "holm.projectId"]);
                let scope = format!("{{\"project\":\"{id}\"}}");
                churn(repository.island, &scope, &format!("value {number}"));
            });
        }
    });
    for (number, repository) in repositories.iter().enumerate() {
        let name = repository.path.file_name().unwrap().to_str().unwrap();
        let workspace = format!("{name}/x");
        assert_eq!(key_of(repository, &workspace), format!("VALUE {number} 49"));
        let list = repository.holm(&["secret", "ls", "--json"]).json();
        assert_eq!(list["secrets"].as_array().unwrap().len(), 2, "{list}");
    }
    // The counterpart: records that change places on the disk are what a mix-up would be. Each is
    // bound to whose it is, so they open no more.
    let (island, repository) = (&users[0], &repositories[0]);
    island.holm(&["daemon", "stop"]).ok();
    let vault = island.data().join("secrets/vault.json");
    let mut text: Value = serde_json::from_slice(&std::fs::read(&vault).unwrap()).unwrap();
    let records = text["records"].as_array_mut().unwrap();
    let stored: Vec<usize> = (0..records.len())
        .filter(|at| records[*at]["entry"]["scope"].get("project").is_some())
        .collect();
    assert_eq!(stored.len(), 2, "{text}");
    let records = text["records"].as_array_mut().unwrap();
    let first = records[stored[0]]["sealed"].clone();
    records[stored[0]]["sealed"] = records[stored[1]]["sealed"].clone();
    records[stored[1]]["sealed"] = first;
    std::fs::write(&vault, text.to_string()).unwrap();
    let error = repository
        .holm(&["secret", "refresh", "shop/x", "--json"])
        .error(1);
    assert_eq!(error["code"], "corrupt_state");
}

#[test]
fn a_workspaces_own_value_counts_before_the_projects_and_that_before_the_users() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[secrets.KEY]\nto = [\"runs\"]\n\
         [secrets.READ]\nfrom = { file = \"~/read\" }\nto = [\"runs\"]\n",
    );
    repository.commit("keys");
    island.write("home/read", "read");
    repository.holm(&["trust", "--yes"]).ok();
    let id = repository.up("x");
    repository.up("y");
    let own = |name: &str, whose: &[&str], value: &str| {
        let arguments = [&["secret", "set", name], whose].concat();
        piped(&repository, &arguments, value).ok();
    };
    assert_eq!(key_of(&repository, "x"), "NONE");
    own("KEY", &["--workspace", "x"], "own");
    own("KEY", &["--user"], "user");
    let keys = || ["x", "y"].map(|workspace| key_of(&repository, workspace));
    assert_eq!(keys(), ["OWN", "USER"]);
    own("KEY", &[], "project");
    assert_eq!(keys(), ["OWN", "PROJECT"]);
    repository
        .holm(&["secret", "rm", "KEY", "--workspace", "x"])
        .ok();
    assert_eq!(keys(), ["PROJECT", "PROJECT"]);
    repository.holm(&["secret", "rm", "KEY"]).ok();
    assert_eq!(keys(), ["USER", "USER"]);
    repository.holm(&["secret", "rm", "KEY", "--user"]).ok();
    assert_eq!(keys(), ["NONE", "NONE"]);
    // Also instead of a source; a value stored for another workspace does not count.
    let read = |workspace: &str| {
        let show = "echo \"${READ:-none}\" | tr a-z A-Z";
        repository
            .holm(&["run", workspace, "--", "sh", "-c", show])
            .ok()
            .out()
    };
    own("READ", &["--user"], "user");
    own("READ", &["--workspace", "x"], "own");
    assert_eq!([read("x"), read("y")], ["OWN", "READ"]);
    repository.holm(&["secret", "refresh"]).ok();
    assert_eq!([read("x"), read("y")], ["OWN", "READ"]);
    let removed = repository.holm(&["secret", "rm", "READ", "--workspace", "x", "--json"]);
    let notes = removed.json()["notes"].to_string();
    assert!(notes.contains("holm secret refresh x"), "{notes}");
    assert_eq!(state(&island, &id, "READ"), "missing");
    assert_eq!([read("x"), read("y")], ["NONE", "READ"]);
    repository.holm(&["secret", "refresh", "x"]).ok();
    assert_eq!(read("x"), "READ");
    // What a reload adds to a workspace that had none is given from the next start on.
    repository.write("holm.toml", "");
    repository.commit("nothing");
    repository.up("z");
    let adds = "printf '[services.a]\\nrun = \"echo got $KEY; sleep 1000\"\\n\
         [secrets.KEY]\\nto = [\"a\"]\\n' > holm.toml";
    island.sh("z", adds).ok();
    let reloaded = repository
        .holm(&["reload", "z", "--inside", "--json"])
        .error(4);
    assert_eq!(reloaded["code"], "not_trusted");
    repository.holm(&["reload", "z", "--inside", "--yes"]).ok();
    let set = ["secret", "set", "KEY", "--workspace", "z", "--json"];
    let set = piped(&repository, &set, canary("later")).json();
    let note = set["notes"][0].as_str().unwrap();
    assert!(note.contains("holm restart"), "{set}");
    repository.holm(&["restart", "z"]).ok();
    eventually("it is given", || {
        let log = repository.holm(&["logs", "z", "a"]).ok().out();
        log.contains("got [secret]")
    });
}

#[test]
fn a_key_is_rotated_put_behind_a_passphrase_and_given_once_for_each_daemon() {
    let island = Island::new();
    let repository = shop(&island);
    set(&repository, "STORED", &canary("stored"));
    let key = island.data().join("secrets/key.json");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let first = std::fs::read(&key).unwrap();
    repository.holm(&["secret", "rotate-key"]).ok();
    assert_ne!(std::fs::read(&key).unwrap(), first);
    let rotate = ["secret", "rotate-key", "--passphrase"];
    piped(&repository, &rotate, "open sesame\n").ok();
    let weaker = repository
        .holm(&["secret", "rotate-key", "--json"])
        .error(4);
    assert_eq!(weaker["code"], "refused");
    // A new daemon gives nothing before it is unlocked.
    island.holm(&["daemon", "stop"]).ok();
    let locked = with_env(&repository, &["up", "x", "--json"]).error(4);
    assert_eq!(locked["code"], "secrets_locked");
    let unlock = ["secret", "unlock", "--json"];
    let wrong = piped(&repository, &unlock, "open barley\n").error(4);
    assert_eq!(wrong["code"], "wrong_passphrase");
    piped(&repository, &unlock, "open sesame\n").ok();
    with_env(&repository, &["up", "x"]).ok();
    let told = audit(&island);
    for event in ["rotated", "unlocked"] {
        let found = told.iter().find(|line| line["event"] == event);
        assert!(
            found.unwrap()["who"].as_str().unwrap().contains("user"),
            "{told:?}"
        );
    }
}

#[test]
fn a_record_that_was_changed_cut_or_taken_away_is_noticed() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.holm(&["project", "add"]).ok();
    for name in ["A", "B", "C"] {
        set(&repository, name, &canary(name));
    }
    assert_eq!(events(&audit(&island), "B"), ["set"]);
    let directory = island.data().join("secrets");
    let (lines, head) = (
        directory.join("audit.jsonl"),
        directory.join("audit-head.json"),
    );
    let before = [&lines, &head].map(|path| std::fs::read(path).unwrap());
    let verify = |what: &str| -> Ran {
        let broken = island.holm(&["secret", "audit", "--verify"]).exits(1);
        let is_said = broken.stderr.contains("the record was changed");
        assert!(is_said, "{what}: {broken:?}");
        for (path, bytes) in [&lines, &head].into_iter().zip(&before) {
            std::fs::write(path, bytes).unwrap();
        }
        island.holm(&["secret", "audit", "--verify"]).ok()
    };
    let text = String::from_utf8(before[0].clone()).unwrap();
    std::fs::write(&lines, text.replacen("\"B\"", "\"X\"", 1)).unwrap();
    verify("a line was changed");
    std::fs::write(&lines, format!("{text}{{}}\n")).unwrap();
    verify("a line was added");
    std::fs::write(&lines, &text[..text.trim_end().rfind('\n').unwrap() + 1]).unwrap();
    verify("a line was cut off");
    std::fs::remove_file(&lines).unwrap();
    verify("the lines were taken away");
    std::fs::remove_file(&lines).unwrap();
    std::fs::remove_file(&head).unwrap();
    verify("lines and head were taken away");
    // A later daemon, or later lines, do not hide it.
    std::fs::remove_file(&lines).unwrap();
    std::fs::remove_file(&head).unwrap();
    island.holm(&["daemon", "stop"]).ok();
    for name in ["A", "B", "C", "D", "E"] {
        set(&repository, name, &canary(name));
    }
    let broken = island
        .holm(&["secret", "audit", "--verify", "--json"])
        .exits(1);
    assert!(broken.stderr.contains("record_changed"), "{broken:?}");
    let list = repository.holm(&["secret", "ls", "--json"]).json();
    assert_eq!(list["secrets"].as_array().unwrap().len(), 5, "{list}");
}
