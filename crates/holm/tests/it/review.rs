//! Reviews: risks, evidence, looks and approvals, as a person uses them.

use crate::support::{Door, Island, JSON, Ran, Repository};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const HOLM_TOML: &str = "[project]\nprotected_paths = [\"infra\"]\n\n[egress]\nmode = \"none\"\n";

fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM_TOML);
    repository.write("a.txt", "one\n");
    repository.write("tests/login_test.py", "assert True\n");
    repository.write("infra/prod.tf", "x\n");
    repository.commit("files");
    repository.up("x");
    repository
}

fn review(island: &Island, arguments: &[&str]) -> Value {
    let all = [&["review", "x", "--json"], arguments].concat();
    island.holm(&all).ok().json()
}

fn run(island: &Island, script: &str) {
    island.holm(&["run", "x", "--", "sh", "-c", script]);
}

#[test]
fn a_review_tells_risks_evidence_and_files_since_the_last_look() {
    let island = Island::new();
    shop(&island);
    let script = "rm tests/login_test.py; echo two >> a.txt; echo '{}' > package-lock.json; \
        echo x > run.sh; chmod +x run.sh; echo hi > ~/note; \
        python3 -c 'import socket; socket.create_connection((\"no.example.org\", 443))'; exit 3";
    run(&island, script);
    let first = review(&island, &[]);
    assert_eq!(
        (&first["from"], &first["to"]),
        (&Value::Null, &json!(1)),
        "{first:#}"
    );
    let kinds = |review: &Value| -> Vec<String> {
        let risks = review["risks"].as_array().unwrap().iter();
        let words = risks.map(|risk| {
            format!(
                "{} {}",
                risk["kind"].as_str().unwrap(),
                risk["path"].as_str().unwrap()
            )
        });
        words.collect()
    };
    assert_eq!(
        kinds(&first),
        [
            "test tests/login_test.py",
            "lock package-lock.json",
            "exec run.sh"
        ]
    );
    let evidence = &first["evidence"];
    assert_eq!(evidence["commands"][0]["exit_code"], 3, "{evidence:#}");
    assert_eq!(
        evidence["hosts"][0]["host"], "no.example.org",
        "{evidence:#}"
    );
    assert_eq!(evidence["hosts"][0]["refused"], true);
    let outside = evidence["outside"].to_string();
    assert!(outside.contains("~/note"), "{outside}");
    for list in ["checks", "volumes", "processes"] {
        assert!(evidence[list].is_array(), "{list}");
    }
    let files = first["files"].as_array().unwrap();
    assert_eq!(files[0]["path"], "tests/login_test.py");
    assert_eq!(files[0]["operation"], "delete");
    assert_eq!(files.last().unwrap()["path"], "a.txt");
    assert!(files.iter().all(|file| file["viewed"] == false));

    let text = island.holm(&["review", "x", "--stat"]).ok().out();
    assert!(
        text.contains("Risks 3") && text.contains("base → @1"),
        "{text}"
    );
    assert!(text.contains("refused no.example.org"), "{text}");
    island.holm(&["review", "x", "--looked", "--stat"]).ok();
    let after = review(&island, &[]);
    assert_eq!(
        (&after["from"], &after["files"]),
        (&json!(1), &json!([])),
        "{after:#}"
    );
    // Viewed marks are about contents: a file that changes again is unviewed again.
    run(&island, "echo three >> a.txt");
    let second = review(&island, &[]);
    assert_eq!(second["files"].as_array().unwrap().len(), 1, "{second:#}");
    assert_eq!(second["files"][0]["viewed"], false);
    let base = review(&island, &["--since", "base"]);
    let viewed: Vec<_> = base["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|file| file["viewed"] == false)
        .map(|file| file["path"].clone())
        .collect();
    assert_eq!(viewed, ["a.txt"]);
    assert_eq!(review(&island, &["--since", "@2"])["files"], json!([]));
    assert_eq!(island.holm(&["review", "x", "--since", "@9"]).code, Some(3));
    assert_eq!(
        island.holm(&["review", "x", "--since", "yesterday"]).code,
        Some(2)
    );
    island.sh("x", "echo four >> a.txt").ok();
    assert_eq!(review(&island, &[])["changed_since"], true);
}

#[test]
fn attack_211_an_approval_is_for_one_tree_and_the_next_edit_voids_it() {
    let island = Island::new();
    let repository = shop(&island);
    let nothing = island.holm(&["approve", "x", "--json"]);
    assert_eq!(nothing.code, Some(4), "{nothing:?}");
    island
        .sh("x", "echo two >> a.txt; git commit -qam two")
        .ok();
    assert_eq!(repository.holm(&["apply", "x", "--approved"]).code, Some(4));
    let approved = island.holm(&["approve", "x", "--json"]).ok().json();
    let tree = approved["tree"].as_str().unwrap().to_owned();
    assert_eq!(
        (&approved["turn"], &approved["files"]),
        (&json!(1), &json!(["a.txt"]))
    );
    assert_eq!(tree, island.sh("x", "git rev-parse HEAD^{tree}").ok().out());
    let audit = island.holm(&["audit", "--json"]).ok().json().to_string();
    assert!(audit.contains(&format!("approved tree {tree}")), "{audit}");
    let shown = island.holm(&["review", "x", "--stat"]).ok().out();
    assert!(shown.contains("✓ approved by user "), "{shown}");

    island.sh("x", "echo three >> a.txt").ok();
    let wrong = island.holm(&["approve", "x", "--tree", &tree, "--json"]);
    assert_eq!(wrong.code, Some(4), "{wrong:?}");
    assert!(wrong.stderr.contains("tree_changed"), "{wrong:?}");
    let apply = repository.holm(&["apply", "x", "--approved", "--json"]);
    assert_eq!(apply.code, Some(4), "{apply:?}");
    assert!(apply.stderr.contains("not_approved"), "{apply:?}");
    // HEAD still has the approved tree.
    repository.holm(&["fetch", "x", "--approved"]).ok();
    assert_eq!(repository.git(&["rev-parse", "holm/x^{tree}"]), tree);
    island.sh("x", "git commit -qam three").ok();
    let fetch = repository.holm(&["fetch", "x", "--approved", "--json"]);
    assert_eq!(fetch.code, Some(4), "{fetch:?}");
    assert_eq!(
        repository.git(&["rev-parse", "holm/x^{tree}"]),
        tree,
        "nothing moved"
    );
    assert_eq!(
        repository.git(&["for-each-ref", "refs/holm/unapproved"]),
        ""
    );
    // A commit has a pointer in place of such a file.
    island
        .sh(
            "x",
            "echo '*.bin filter=lfs' > .gitattributes; echo x > a.bin",
        )
        .ok();
    let large = island.holm(&["approve", "x", "--json"]).error(4);
    assert!(
        large["message"].as_str().unwrap().contains("a.bin"),
        "{large:#}"
    );
    island.sh("x", "rm a.bin .gitattributes").ok();
    let again = island.holm(&["approve", "x", "--json"]).ok().json();
    let short = &again["tree"].as_str().unwrap()[..7];
    island.holm(&["approve", "x", "--tree", short]).ok();
    repository.holm(&["apply", "x", "--approved"]).ok();
    let applied = std::fs::read_to_string(repository.path.join("a.txt")).unwrap();
    assert_eq!(applied, "one\ntwo\nthree\n");
}

/// A git of the user that lets the agent commit another change, once, at the first git command or when the approved
/// commit is fetched.
fn late_edit(island: &Island, label: &str, when: &str) -> String {
    let place = island.make_dir(format!("late-{label}"));
    let holm = crate::support::program();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in {when})\n  if mkdir '{done}' 2>/dev/null; then\n    \
         HOME='{home}' HOLM_HOME='{holm_home}' PATH=/usr/local/bin:/usr/bin:/bin '{holm}' exec {label} -- \
         sh -c 'echo evil >> a.txt; git commit -qam evil' > /dev/null || exit 99\n  fi;;\nesac\n\
         exec /usr/bin/git \"$@\"\n",
        done = place.join("done").display(),
        holm = holm.display(),
        home = island.home().display(),
        holm_home = island.holm_home().display(),
    );
    let git = island.write(place.join("git"), script);
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/local/bin:/usr/bin:/bin", place.display())
}

#[test]
fn data_processes_and_services_are_evidence_and_an_approval_keeps_it() {
    let island = Island::new();
    let holm_toml = r#"
[volumes.rows]
path = "/rows"
policy = "fork"
seed = ["echo seed > /rows/seed"]
[volumes.own]
path = "/own"
[services.db]
run = "test -e well && exec sleep 100000; echo $PLACE; exit 4"
restart = "no"
env = { PLACE = "/rows" }
# Databases overwrite their environment, too.
[services.worker]
run = "exec env -i sh -c 'sleep 98764 & wait'"
"#;
    let repository = island.repository_of("shop", &[("holm.toml", holm_toml)]);
    repository.holm(&["up", "x"]);
    island.sh("x", "echo x > f.txt").ok();
    let volumes = |arguments: &[&str]| {
        let review = review(&island, arguments);
        let volumes = review["evidence"]["volumes"].as_array().unwrap().iter();
        let volumes = volumes.map(|one| json!([one["name"], one["files"], one["services"]]));
        volumes.collect::<Vec<_>>()
    };
    assert_eq!(volumes(&[]), [] as [Value; 0], "a seed is no change");
    island
        .holm(&["review", "x", "--mark", "--looked", "--stat"])
        .ok();

    // A run that changes only data records no turn.
    run(
        &island,
        "echo row > /rows/new; rm /rows/seed; echo x > /own/x",
    );
    let expected = [json!(["rows", 2, ["db"]]), json!(["own", 1, []])];
    let mut found = volumes(&[]);
    found.sort_by_key(|one| one[0] != "rows");
    assert_eq!(found, expected);
    assert_eq!(review(&island, &[])["to"], 1);
    // It is listed by its name, which it has when setsid has executed it.
    let left =
        "setsid sleep 98765 > /dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done";
    island.sh("x", left).ok();
    let text = island.holm(&["review", "x", "--stat"]).ok().out();
    for part in [
        "rows (2 files written, used by service db)",
        "1 left running: sleep 98765",
        "db exited (exit 4)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let evidence = review(&island, &[])["evidence"].clone();
    let service = |one: &&Value| one["kind"] == "service";
    let services = evidence["commands"].as_array().unwrap().iter();
    let codes: Vec<&Value> = services
        .filter(service)
        .map(|one| &one["exit_code"])
        .collect();
    assert_eq!(codes, [&json!(4), &Value::Null], "{evidence:#}");

    // The evidence is with the approval, and in the audit record after the workspace is gone.
    island.holm(&["approve", "x"]).ok();
    let id = island.holm(&["show", "x", "--json"]).ok().json()["id"].clone();
    island.holm(&["rm", "x", "--force"]).ok();
    island.holm(&["gc", "--all"]).ok();
    let approved = |entry: &&Value| entry["route"] == "/workspaces/{id}/approve";
    let audit = island.holm(&["audit", "--json"]).ok().json();
    let entry = audit["audit"].as_array().unwrap().iter().find(approved);
    let entry = entry.unwrap_or_else(|| panic!("{audit:#}"));
    assert_eq!(entry["workspace"], id);
    let basis = &entry["basis"]["evidence"];
    assert_eq!(basis["volumes"].as_array().unwrap().len(), 2, "{entry:#}");
    let text = island.holm(&["audit", "--evidence"]).ok().out();
    assert!(text.contains("rows (2 files written"), "{text}");
}

#[test]
fn an_edit_between_the_check_and_the_use_of_an_approval_is_never_taken() {
    let island = Island::new();
    let repository = shop(&island);
    let moments = [("first", "*"), ("fetch", "*\" fetch \"*")];
    for (number, (verb, (moment, when))) in ["fetch", "apply", "merge"]
        .into_iter()
        .flat_map(|verb| moments.map(|moment| (verb, moment)))
        .enumerate()
    {
        let at = format!("{verb}, {moment}");
        let label = format!("r{number}");
        repository.up(&label);
        island
            .sh(
                &label,
                &format!("echo {number} > new{number}; git add -A; git commit -qm new"),
            )
            .ok();
        island.holm(&["approve", &label]).ok();
        let path = late_edit(&island, &label, when);
        let arguments = [verb, &label, "--approved", "--json"];
        let mut command = island.holm_command(&repository.path, &arguments);
        let ran = Ran::new(command.env("PATH", path));
        let has_edited = island.sh(&label, "git log -1 --format=%s").out();
        assert_eq!(has_edited, "evil", "{at}: {ran:?}");
        let is_taken = ran.code == Some(0);
        if !is_taken {
            assert_eq!(ran.error(4)["code"], "not_approved", "{at}");
        }
        let taken = repository.git(&["log", "--all", "--format=%s"]);
        assert!(!taken.contains("evil"), "{at}: {taken}");
        let file = repository.path.join("a.txt");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "one\n", "{at}");
        // The approved tree is taken whole, or nothing of it.
        let is_there = repository.path.join(format!("new{number}")).exists();
        assert_eq!(is_there, verb != "fetch" && is_taken, "{at}");
        repository.git(&["add", "-A"]);
        repository.git(&["commit", "-q", "--allow-empty", "-m", &at]);
        let again = repository.holm(&arguments);
        assert_eq!(again.error(4)["code"], "not_approved", "{at}");
    }
}

#[test]
fn an_approval_can_be_demanded_by_settings_and_by_the_project() {
    let island = Island::new();
    let repository = shop(&island);
    repository.write(
        "holm.toml",
        format!("{HOLM_TOML}\n[review]\nrequired = true\n"),
    );
    repository.commit("demand");
    repository.up("y");
    for workspace in ["x", "y"] {
        island
            .sh(workspace, "echo two >> a.txt; git commit -qam two")
            .ok();
    }
    for verb in ["apply", "fetch", "merge"] {
        let refused = repository.holm(&[verb, "y", "--json"]);
        assert_eq!(refused.code, Some(4), "{verb} {refused:?}");
        assert!(refused.stderr.contains("holm.toml"), "{refused:?}");
    }
    repository.holm(&["fetch", "x"]).ok();
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "[review]\nrequired = true\n");
    let refused = repository.holm(&["fetch", "x", "--json"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    island.holm(&["approve", "x"]).ok();
    repository.holm(&["fetch", "x"]).ok();
}

#[test]
fn the_daemon_refuses_what_policy_demands_an_approval_of() {
    let island = Island::new();
    island.make_dir("policy");
    let repository = shop(&island);
    island
        .sh(
            "x",
            "echo two >> a.txt; git commit -qam two; echo three >> a.txt",
        )
        .ok();
    let shown = island.holm(&["show", "x", "--json"]).ok().json();
    let id = shown["id"].as_str().unwrap().to_owned();
    let token = island.holm(&["token", "new", "--json"]).ok().json()["token"].clone();
    let head = island.sh("x", "git rev-parse HEAD").ok().out();
    let door = Door::of(&island);
    // A client that compares nothing.
    let take = |commit: &str| {
        let path = format!("/api/v1/workspaces/{id}/upload-pack?commit={commit}");
        door.open_socket(token.as_str().unwrap(), &path, &[])
    };
    assert_eq!(take(&head).status, 101, "without a demand it is served");
    assert_eq!(take("HEAD").status, 400);
    island.write("policy/policy.toml", "[review]\nrequired = true\n");
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(island.policy(), mode).unwrap();
    for verb in ["apply", "fetch", "merge"] {
        let refused = repository.holm(&[verb, "x", "--json"]);
        let error = refused.error(4);
        assert_eq!(error["code"], "not_approved", "{verb}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("policy"), "{message}");
    }
    assert_eq!(take(&head).status, 409);
    // The approved tree has a file that is not committed.
    island.holm(&["approve", "x"]).ok();
    assert_eq!(take(&head).status, 409);
    let merge = repository.holm(&["merge", "x", "--json"]);
    let error = merge.error(4);
    assert_eq!(error["code"], "not_approved", "{error:#}");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("not committed inside: 1 file"),
        "{error:#}"
    );
    assert!(
        error["hint"]
            .as_str()
            .unwrap()
            .contains("holm merge x --commit"),
        "{error:#}"
    );
    // What the hint says works.
    repository
        .holm(&["fetch", "x", "--commit", "three", "--approved"])
        .ok();
    repository.holm(&["merge", "x", "--approved"]).ok();
    let merged = std::fs::read_to_string(repository.path.join("a.txt")).unwrap();
    assert_eq!(merged, "one\ntwo\nthree\n");
    let head = island.sh("x", "git rev-parse HEAD").ok().out();
    assert_eq!(take(&head).status, 101);
}

#[test]
fn only_people_and_tokens_made_for_it_approve() {
    let island = Island::new();
    let repository = shop(&island);
    island.sh("x", "echo two >> a.txt").ok();
    let id = island.holm(&["show", "x", "--json"]).ok().json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let token = |arguments: &[&str]| {
        let all = [&["token", "new", "--json"], arguments].concat();
        island.holm(&all).ok().json()["token"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let door = Door::of(&island);
    let approve = |token: &str| {
        let path = format!("/api/v1/workspaces/{id}/approve");
        let bearer = Door::bearer(token);
        door.ask_bare("POST", &path, &[JSON, ("Authorization", &bearer)], b"{}")
    };
    let plain = approve(&token(&[]));
    assert_eq!(plain.status, 403, "{plain:?}");
    assert!(String::from_utf8_lossy(&plain.body).contains("token new --may approve"));
    assert_eq!(approve(&token(&["--workspace", "x"])).status, 403);
    let inside = island.sh("x", "holm approve x");
    assert_ne!(inside.code, Some(0), "{inside:?}");
    let none = repository.holm(&["apply", "x", "--approved", "--json"]);
    assert_eq!(none.error(4)["code"], "not_approved");
    assert_eq!(approve(&token(&["--may", "approve"])).status, 200);
    assert_eq!(
        island
            .holm(&["token", "new", "--workspace", "x", "--may", "approve"])
            .code,
        Some(2)
    );
}
