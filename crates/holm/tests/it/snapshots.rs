//! Freeze, branch, go back: `snapshot`, `fork` and `reset`, of code and real databases.

use crate::support::{Island, Repository, eventually};
use crate::volume_seeds::{ROWS, sql, with_postgres};
use serde_json::Value;

#[track_caller]
fn pid_of(island: &Island, workspace: &str, service: &str) -> u64 {
    let shown = island.holm(&["show", workspace, "--json"]).json();
    let services = shown["services"].as_array().unwrap().iter();
    let mut found = services.filter(|found| found["name"] == service);
    found.next().expect("the service")["pid"]
        .as_u64()
        .expect("a pid")
}

/// A project with a database and an unrelated service.
fn shop(island: &Island) -> Repository<'_> {
    let repository = with_postgres(island);
    let toml = std::fs::read_to_string(repository.path.join("holm.toml")).unwrap();
    let web = "\n[services.web]\nrun = \"exec sleep 100000\"\n\
        [volumes.uploads]\npath = \"/data/uploads\"\n";
    repository.write("holm.toml", toml + web);
    repository.commit("a web server");
    repository
}

#[test]
fn a_fresh_database_while_everything_else_runs_on() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("w");
    repository.up("other");
    sql(&island, "w", "drop table products");
    sql(&island, "other", "drop table products");
    island
        .sh(
            "w",
            "echo mine > /data/uploads/x; (sleep 100000 & echo $! > ~/pid)",
        )
        .ok();
    let (web, db) = (pid_of(&island, "w", "web"), pid_of(&island, "w", "db"));
    // Twice: a reset volume can be reset again.
    for _ in 0..2 {
        let reset = island
            .holm(&["reset", "w", "--volume", "pg", "--json"])
            .json();
        assert_eq!(reset["state"], "running");
        // Ready when it returns.
        assert_eq!(
            sql(&island, "w", "select count(*) from products"),
            ROWS.to_string()
        );
        sql(&island, "w", "insert into products values (0, 'x')");
        assert_eq!(pid_of(&island, "w", "web"), web, "the web server ran on");
        assert_ne!(
            pid_of(&island, "w", "db"),
            db,
            "the database is another one"
        );
        island.sh("w", "kill -0 $(cat ~/pid)").ok();
        assert_eq!(
            island.sh("w", "cat /data/uploads/x").out(),
            "mine",
            "other volumes stay"
        );
    }
    island.holm(&["restart", "w"]).ok();
    let rows = sql(&island, "w", "select count(*) from products");
    assert_eq!(rows, (ROWS + 1).to_string(), "what was written since");
    let gone = island.sh(
        "other",
        "psql -h 127.0.0.1 -U shop -c 'table products' shop",
    );
    assert_eq!(gone.code, Some(1), "another workspace's stays as it is");
    // The old files take no space any more.
    let id = island.holm(&["show", "w", "--json"]).json()["id"].clone();
    let place = island.data().join("workspaces").join(id.as_str().unwrap());
    eventually("the old ones are deleted", || {
        let left = std::fs::read_dir(place.join("volumes/pg")).unwrap().count();
        left == 1 && !place.join("old").exists()
    });
    let missing = island
        .holm(&["reset", "w", "--volume", "nope", "--json"])
        .error(3);
    assert_eq!(missing["code"], "volume_not_found");
    let missing = island
        .holm(&["reset", "w", "--at", "nope", "--json"])
        .error(3);
    assert_eq!(missing["code"], "snapshot_not_found");
}

#[test]
fn a_stopped_one_and_one_at_the_top_are_reset_too_and_a_shared_one_is_not() {
    let island = Island::new();
    let repository = island.repository("shop");
    let toml = "[volumes.top]\npath = \"/top\"\n[volumes.all]\npath = \"/data/all\"\npolicy = \"shared\"\n\
        [services.s]\nrun = \"cd /top && exec sleep 100000\"\n";
    repository.write("holm.toml", toml);
    repository.commit("volumes");
    repository.up("w");
    island.sh("w", "echo x > /top/x; echo x > /data/all/x").ok();
    island.holm(&["reset", "w", "--volume", "top"]).ok();
    assert_eq!(
        island
            .sh("w", "ls /top; echo new > /top/y; cat /top/y")
            .ok()
            .out(),
        "new"
    );
    island.holm(&["stop", "w"]).ok();
    island.holm(&["reset", "w", "--volume", "top"]).ok();
    assert_eq!(island.states()["w"], "stopped");
    assert_eq!(island.sh("w", "ls /top").ok().out(), "");
    let error = island
        .holm(&["reset", "w", "--volume", "all", "--json"])
        .error(4);
    assert_eq!(error["code"], "refused");
    assert_eq!(island.sh("w", "cat /data/all/x").ok().out(), "x");
}

#[test]
fn a_fork_has_everything_and_goes_its_own_way() {
    let island = Island::new();
    let repository = shop(&island);
    let source = repository.up("w");
    sql(&island, "w", "insert into products values (0, 'mine')");
    let work = "echo untracked > new; echo changed > seed.sh; git rm -q migrations/001.sql; \
        git commit -qm inside -- migrations; mkdir d && echo x > d/x && rm -r d; \
        echo home > ~/note; echo up > /data/uploads/u; mkdir -m 000 /data/uploads/closed";
    island.sh("w", work).ok();
    let (web, db) = (pid_of(&island, "w", "web"), pid_of(&island, "w", "db"));
    let made = island.holm(&["fork", "w", "f", "--json"]).json();
    assert_eq!(made["label"], "f");
    assert_eq!(made["created"], true);
    assert_ne!(made["id"], Value::String(source));
    // The original did not notice the copy.
    assert_eq!(
        (pid_of(&island, "w", "web"), pid_of(&island, "w", "db")),
        (web, db)
    );
    let look = "git status --porcelain; git log --format=%s -1; cat new ~/note /data/uploads/u; \
        git rev-parse --abbrev-ref HEAD; stat -c %a /data/uploads/closed; ls";
    let seen = |workspace: &str| island.sh(workspace, look).ok().out();
    assert_eq!(seen("f"), seen("w").replace("holm/w", "holm/f"));
    assert_eq!(
        sql(&island, "f", "select name from products where id = 0"),
        "mine"
    );
    // Two ways.
    sql(&island, "f", "delete from products");
    sql(&island, "w", "insert into products values (-1, 'after')");
    island
        .sh("f", "echo other > new; git add -A; git commit -qm forked")
        .ok();
    assert_eq!(
        sql(&island, "w", "select count(*) from products"),
        (ROWS + 2).to_string()
    );
    assert_eq!(sql(&island, "f", "select count(*) from products"), "0");
    assert_eq!(
        island.sh("w", "cat new; git log --format=%s -1").out(),
        "untracked\ninside"
    );
    // A fork of a fork, of a stopped one, with a generated label.
    island.holm(&["stop", "f"]).ok();
    let again = island.holm(&["fork", "f", "--json"]).json();
    let label = again["label"].as_str().unwrap();
    assert_eq!(island.states()["f"], "stopped");
    assert_eq!(sql(&island, label, "select count(*) from products"), "0");
    assert_eq!(
        island.sh(label, "cat new; git log --format=%s -1").out(),
        "other\nforked"
    );
    island.holm(&["rm", "--force", "w", "f"]).ok();
    island.holm(&["gc", "--all"]).ok();
    island.holm(&["restart", label]).ok();
    assert_eq!(
        sql(&island, label, "select count(*) from products"),
        "0",
        "it needs nobody"
    );
    let taken = island.holm(&["fork", label, label, "--json"]).error(4);
    assert_eq!(taken["code"], "already_exists");
}

#[test]
fn a_snapshot_of_a_database_that_writes_is_of_one_instant_attack_162() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("w");
    sql(&island, "w", "create table log (n int)");
    let writer = "for i in $(seq 1 100000); do echo \"insert into log values ($i);\"; done | \
        psql -h 127.0.0.1 -U shop -q shop >/dev/null 2>&1 & echo $! > ~/writer";
    island.sh("w", writer).ok();
    let count = |workspace: &str| -> u32 {
        sql(&island, workspace, "select count(*) from log")
            .parse()
            .unwrap()
    };
    eventually("it writes", || count("w") > 50);
    let before = count("w");
    island.holm(&["snapshot", "w", "one"]).ok();
    let after = count("w");
    eventually("it writes on", || count("w") > after);
    island.holm(&["fork", "w", "f", "--at", "one"]).ok();
    // Without a gap, nothing acknowledged before is missing, and nothing later is there.
    let seen = sql(&island, "f", "select count(*), min(n), max(n) from log");
    let parts: Vec<u32> = seen.split('|').map(|part| part.parse().unwrap()).collect();
    assert_eq!(parts[0], parts[2], "{seen}");
    assert_eq!(parts[1], 1);
    assert!(
        (before..=after).contains(&parts[0]),
        "{before} {seen} {after}"
    );
    // It does not change, however often it is used.
    sql(&island, "f", "drop table log");
    island.holm(&["fork", "w", "g", "--at", "one"]).ok();
    assert_eq!(
        sql(&island, "g", "select count(*), min(n), max(n) from log"),
        seen
    );
    let same = island.holm(&["snapshot", "w", "one", "--json"]).error(4);
    assert_eq!(same["code"], "already_exists");
    island.holm(&["snapshot", "w", "No Name"]).exits(2);
    let shown = island.holm(&["show", "w", "--json"]).json();
    assert_eq!(shown["snapshots"][0]["name"], "one");
}

/// Two files in two places, the second written after the first: at no instant is it ahead.
const IN_ORDER: &str = r#"
import os, sys
def put(path, n):
    with open(path + ".new", "w") as file: file.write(str(n) + "\n")
    os.rename(path + ".new", path)
for n in range(1, 10**9):
    put("/data/uploads/first", n)
    put(os.path.expanduser("~/second"), n)
"#;

#[track_caller]
fn is_of_one_instant(island: &Island) -> bool {
    let repository = shop(island);
    repository.up("w");
    // Copied before and after the two: time for them to move on.
    island
        .sh(
            "w",
            "mkdir ~/a /data/uploads/z; for i in $(seq 1 3000); do echo x > ~/a/$i; done",
        )
        .ok();
    let script = format!("cat > ~/w.py <<'END'\n{IN_ORDER}END\npython3 ~/w.py >/dev/null 2>&1 &");
    island.sh("w", &script).ok();
    eventually("it writes", || {
        island.sh("w", "cat ~/second").code == Some(0)
    });
    (0..3).all(|number| {
        let name = format!("n-{number}");
        // What moves may be gone before it is copied.
        if island.holm(&["snapshot", "w", &name]).code != Some(0) {
            return false;
        }
        island
            .holm(&["fork", "w", &name, "--at", &name, "--no-wait"])
            .ok();
        let seen = island
            .sh(&name, "cat /data/uploads/first ~/second")
            .ok()
            .out();
        let parts: Vec<u64> = seen.lines().map(|line| line.parse().unwrap()).collect();
        let is_so = parts[0] == parts[1] || parts[0] == parts[1] + 1;
        island.holm(&["rm", "--force", &name]).ok();
        is_so
    })
}

#[test]
fn what_is_written_in_order_is_in_order_in_the_copy_attack_162() {
    assert!(is_of_one_instant(&Island::new()));
}

#[test]
fn a_copy_of_what_moves_is_of_no_instant_attack_162() {
    assert!(!is_of_one_instant(&Island::without("stillness")));
}

#[test]
fn back_to_the_beginning_or_to_a_snapshot_and_no_work_is_lost_attack_153() {
    let island = Island::new();
    let repository = shop(&island);
    repository.write(".env", "local\n");
    repository.write(".gitignore", ".env\n");
    repository.commit("ignored");
    let made = repository
        .holm(&["up", "w", "--include", ".env", "--json"])
        .json();
    let id = made["id"].as_str().unwrap();
    sql(&island, "w", "insert into products values (0, 'good')");
    island
        .sh(
            "w",
            "echo good > work; echo up > /data/uploads/u; echo stays > ~/note",
        )
        .ok();
    let refused = island.holm(&["reset", "w", "--json"]).error(4);
    assert_eq!(refused["code"], "unsaved_work");
    assert!(
        refused["hint"].as_str().unwrap().contains("holm reset"),
        "{refused}"
    );
    assert_eq!(island.sh("w", "cat work").out(), "good", "nothing was done");
    island.holm(&["snapshot", "w", "good"]).ok();
    sql(&island, "w", "delete from products");
    island
        .sh("w", "echo bad > work; rm .env seed.sh; git commit -qam bad")
        .ok();

    let reset = island.holm(&["reset", "w", "--force", "--json"]).json();
    assert_eq!(reset["id"], id);
    assert!(
        reset["notes"].to_string().contains("before-reset"),
        "{reset}"
    );
    let look = "git status --porcelain; cat .env ~/note; ls /data/uploads; ls work 2>/dev/null; git log --format=%s -1";
    assert_eq!(island.sh("w", look).out(), "local\nstays\nignored");
    assert_eq!(
        sql(&island, "w", "select count(*), min(id) from products"),
        format!("{ROWS}|1")
    );
    // The replaced work is kept.
    island
        .holm(&["fork", "w", "kept", "--at", "before-reset"])
        .ok();
    assert_eq!(
        island.sh("kept", "cat work; git log --format=%s -1").out(),
        "bad\nbad"
    );
    assert_eq!(sql(&island, "kept", "select count(*) from products"), "0");
    // Without unsaved code, too: the data of volumes is kept.
    sql(&island, "w", "delete from products where id > 1");
    let reset = island.holm(&["reset", "w", "--json"]).json();
    let notes = reset["notes"].to_string();
    assert!(notes.contains("before-reset-2"), "{notes}");
    let all = format!("{ROWS}|1");
    let count = "select count(*), min(id) from products";
    assert_eq!(sql(&island, "w", count), all);
    island
        .holm(&["fork", "w", "data", "--at", "before-reset-2"])
        .ok();
    assert_eq!(sql(&island, "data", count), "1|1");
    island.holm(&["rm", "data", "--force"]).ok();

    island.holm(&["reset", "w", "--at", "good"]).ok();
    assert_eq!(
        island
            .sh("w", "cat work .env seed.sh | head -2; cat /data/uploads/u")
            .out(),
        "good\nlocal\nup"
    );
    assert_eq!(
        sql(&island, "w", "select name from products where id = 0"),
        "good"
    );
    // One volume of a snapshot.
    sql(&island, "w", "drop table products");
    island.sh("w", "echo later > work").ok();
    island
        .holm(&["reset", "w", "--volume", "pg", "--at", "good"])
        .ok();
    assert_eq!(
        sql(&island, "w", "select name from products where id = 0"),
        "good"
    );
    assert_eq!(island.sh("w", "cat work").out(), "later");
    // They live as long as the workspace, and no longer.
    island.holm(&["rm", "--force", "w"]).ok();
    island.holm(&["restore", "w"]).ok();
    island
        .holm(&["fork", "w", "late", "--at", "good", "--no-wait"])
        .ok();
    assert_eq!(island.sh("late", "cat work").out(), "good");
}

#[test]
fn a_daemon_that_dies_in_the_middle_leaves_it_done_or_not_done_attack_148() {
    let island = Island::new();
    let repository = island.repository("shop");
    let toml =
        "[volumes.v]\npath = \"/data/v\"\npolicy = \"fork\"\nseed = [\"echo seed > /data/v/x\"]\n";
    repository.write("holm.toml", toml);
    repository.commit("a volume");
    repository.up("w");
    let dirty = "echo mine > /data/v/x; echo mine > work";
    for moment in ["before", "after"] {
        island.sh("w", dirty).ok();
        let at = |step: &str, arguments: &[&str]| {
            let at = format!("{step}:{moment}:kill");
            let died = island.holm_at(&repository.path, &at, arguments);
            assert_ne!(died.code, Some(0), "{at}");
        };
        // A snapshot exists completely, or not at all.
        let name = format!("s-{moment}");
        at("take_snapshot", &["snapshot", "w", &name]);
        let shown = island.holm(&["show", "w", "--json"]).json();
        let is_listed = shown["snapshots"].to_string().contains(&name);
        assert!(!is_listed, "it was not told of");
        island.holm(&["snapshot", "w", &name]).ok();
        // The desired state is reached.
        at("renew_volumes", &["reset", "w", "--volume", "v"]);
        assert_eq!(island.sh("w", "cat /data/v/x work").out(), "seed\nmine");
        island.sh("w", dirty).ok();
        at("remake_files", &["reset", "w", "--force"]);
        assert_eq!(
            island.sh("w", "cat /data/v/x; ls work 2>/dev/null").out(),
            "seed"
        );
        // A fork that was not acknowledged is undone.
        for step in ["make_files", "launch", "acknowledge"] {
            if (step, moment) == ("acknowledge", "after") {
                continue;
            }
            at(step, &["fork", "w", "f"]);
            assert!(!island.states().contains_key("f"), "{step}");
        }
        assert_eq!(island.states()["w"], "running");
    }
    let left = std::fs::read_dir(island.data().join("workspaces"))
        .unwrap()
        .count();
    assert_eq!(left, 1);
}

#[test]
fn no_link_inside_leads_a_reset_elsewhere() {
    let island = Island::new();
    let repository = island.repository("shop");
    let toml = "[project]\nprotected_paths = [\"infra\"]\n[volumes.v]\npath = \"~/data/infra\"\n";
    repository.write("holm.toml", toml);
    repository.write("infra/prod", "kept\n");
    repository.commit("protected");
    repository.up("w");
    // The volume's path now resolves to the protected directory.
    island
        .sh(
            "w",
            "mv ~/data ~/away && ln -s \"$HOLM_ROOT\" ~/data && cat ~/data/infra/prod",
        )
        .ok();
    let _ = island.holm(&["reset", "w", "--volume", "v"]);
    let attempt = "cat \"$HOLM_ROOT\"/infra/prod; echo x 2>/dev/null > \"$HOLM_ROOT\"/infra/prod || echo refused";
    let seen = island.holm(&["exec", "w", "--no-start", "--", "sh", "-c", attempt]);
    assert!(
        seen.code != Some(0) || seen.out() == "kept\nrefused",
        "{}",
        seen.out()
    );
}

#[test]
fn what_all_begin_with_cannot_be_written_by_any_link_attack_24() {
    let island = Island::new();
    let repository = island.repository("shop");
    let seeded = |policy: &str| {
        let seed = match policy {
            "fork" => "seed = [\"echo base > /data/v/x; ln /data/v/x /data/v/y\"]\n",
            _ => "",
        };
        format!("[volumes.v]\npath = \"/data/v\"\npolicy = \"{policy}\"\n{seed}")
    };
    let attack = "cd /data/v && ln x z; echo poison > z; echo poison >> y; chmod 777 x; \
        python3 -c \"import mmap; f = open('x', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'!'; m.flush()\"";
    repository.write("holm.toml", seeded("fork"));
    repository.commit("a fork");
    repository.up("a");
    repository.up("b");
    island.sh("a", attack).ok();
    assert_eq!(
        island
            .sh("b", "cat /data/v/x /data/v/y; ls /data/v")
            .ok()
            .out(),
        "base\nbase\nx\ny"
    );
    repository.up("c");
    assert_eq!(
        island.sh("c", "cat /data/v/x /data/v/y").ok().out(),
        "base\nbase"
    );
    // Without its own overlay it would be.
    repository.write("holm.toml", seeded("shared"));
    repository.commit("shared");
    repository.up("d");
    repository.up("e");
    island
        .sh(
            "d",
            &format!("echo base > /data/v/x; ln /data/v/x /data/v/y; {attack}"),
        )
        .ok();
    assert_ne!(island.sh("e", "cat /data/v/x").ok().out(), "base");
}
