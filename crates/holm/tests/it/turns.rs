//! Turns: when they are recorded, what they contain, and going back to one.

use crate::support::{Island, Repository, eventually};
use serde_json::{Value, json};

/// A repository with two files, and a workspace `x` of it.
fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("a.txt", "one\n");
    repository.write("dir/b.txt", "two\n");
    repository.write(".gitignore", "ignored/\n*.log\n");
    repository.commit("files");
    repository.up("x");
    repository
}

fn turns(island: &Island, workspace: &str) -> Vec<Value> {
    let list = island.holm(&["turns", workspace, "--json"]).ok().json();
    list["turns"].as_array().unwrap().clone()
}

/// `n cause files +added -removed` of each turn.
fn told(island: &Island) -> Vec<String> {
    let turns = turns(island, "x");
    let told = turns.iter().map(|turn| {
        assert_eq!(turn["tree"].as_str().unwrap().len(), 40, "{turn}");
        assert!(turn["at"].as_str().unwrap().ends_with('Z'), "{turn}");
        format!(
            "{} {} {} +{} -{}",
            turn["n"],
            turn["cause"].as_str().unwrap(),
            turn["files"],
            turn["added"],
            turn["removed"]
        )
    });
    told.collect()
}

#[test]
fn every_cause_records_a_turn_and_the_same_tree_none() {
    let island = Island::new();
    shop(&island);
    island.holm(&["run", "x", "--", "true"]).ok();
    assert!(told(&island).is_empty(), "nothing changed");
    island
        .sh(
            "x",
            "mkdir ignored; echo x > ignored/x; echo x > x.log; touch a.txt",
        )
        .ok();
    let marked = island
        .holm(&["review", "x", "--mark", "--json"])
        .ok()
        .json();
    assert!(marked["to"].is_null(), "only ignored files: {marked:#}");
    let script = "printf 'one\\nmore\\n' > a.txt; echo new > new.txt; rm dir/b.txt";
    island.holm(&["run", "x", "--", "sh", "-c", script]).ok();
    assert_eq!(told(&island), ["1 run 3 +2 -1"]);
    let shown = island.holm(&["turns", "x"]).ok().out();
    let row: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..6], ["@1", "run", "3", "files", "+2", "−1"], "{shown}");
    // Committing changes no file.
    island
        .holm(&[
            "run",
            "x",
            "--",
            "sh",
            "-c",
            "git add -A && git commit -qm all",
        ])
        .ok();
    assert_eq!(told(&island).len(), 1);
    island.sh("x", "echo third >> a.txt").ok();
    island.holm(&["stop", "x"]).ok();
    assert_eq!(told(&island)[1..], ["2 stop 1 +1 -0"]);
    // The last turn beside the commit that the workspace started from.
    let list = island.holm(&["turns", "x", "--json"]).ok().json();
    let whole = json!({ "files": 3, "added": 3, "removed": 1 });
    assert_eq!(list["since_start"], whole, "{list:#}");
    // A stopped workspace that did not change is not started, and the turns outlive the daemon.
    island.kill_daemon();
    island.holm(&["review", "x", "--stat"]).ok();
    let show = island.holm(&["show", "x", "--json"]).ok().json();
    assert_eq!(show["state"], "stopped");
    assert_eq!(told(&island).len(), 2);
    island.holm(&["start", "x"]).ok();
    island.sh("x", "chmod +x a.txt").ok();
    island.holm(&["review", "x", "--mark", "--stat"]).ok();
    assert_eq!(told(&island)[2..], ["3 mark 1 +0 -0"]);
    // `fetch` brings files that the index tracks although they are ignored.
    island.sh("x", "git add -f x.log").ok();
    island.holm(&["review", "x", "--mark", "--stat"]).ok();
    assert_eq!(told(&island)[3..], ["4 mark 1 +1 -0"]);
    // A name in the index that is below a symlink by now does not hide another one.
    let script = "git add -f ignored/x; mkdir d; echo n > d/n; git add d/n; rm -r d; ln -s /tmp d";
    island.sh("x", script).ok();
    island.holm(&["review", "x", "--mark", "--stat"]).ok();
    assert_eq!(told(&island)[4..], ["5 mark 2 +2 -0"]);
}

/// The scripts of runs after the first. Each leaves most files as they were.
const LATER: [&str; 7] = [
    "echo more >> many/7",
    "rm many/8 dir/b.txt; mv many/9 many/nine; echo x > 'odd\nname'",
    // The same size, and the time of before.
    "touch -r many/10 /tmp/t; printf 'XX\\n' > many/10; touch -r /tmp/t many/10; chmod +x many/11",
    "rm -rf many/1*; mkdir many/1; echo deep > many/1/deep; ln -s many/2 link",
    "rm -r dir; echo 'now a file' > dir; git add -A; git commit -qm all",
    "printf '* text=auto\\n' > .gitattributes; printf 'a\\r\\nb\\r\\n' > crlf",
    "rm link .gitattributes; git mv many/2 two; echo '*.new' >> .gitignore",
];

/// The risks that say that a turn is not what the files are.
fn odd(island: &Island) -> Vec<String> {
    let review = ["review", "x", "--since", "base", "--json"];
    let review = island.holm(&review).ok().json();
    let risks = review["risks"].as_array().unwrap().iter();
    let told = risks.map(|risk| {
        let (kind, path) = (risk["kind"].as_str(), risk["path"].as_str());
        format!("{} {}", kind.unwrap(), path.unwrap())
    });
    let is_odd = |risk: &String| {
        ["differs", "hidden", "unread"]
            .iter()
            .any(|kind| risk.starts_with(kind))
    };
    told.filter(is_odd).collect()
}

#[test]
fn a_turn_reads_what_changed_since_the_last_one_and_is_the_whole_tree() {
    let island = Island::new();
    shop(&island);
    let first = "mkdir many; for n in $(seq 300); do echo $n > many/$n; done";
    // What git itself calls the tree, with an index of its own.
    let tree = "rm -f /tmp/index; export GIT_INDEX_FILE=/tmp/index; git read-tree HEAD; git add -A; git write-tree";
    for (number, script) in [first].iter().chain(&LATER).enumerate() {
        island.holm(&["run", "x", "--", "sh", "-c", script]).ok();
        let turns = turns(&island, "x");
        assert_eq!(turns.len(), number + 1, "{script}");
        let expected = island.sh("x", tree).ok().out();
        assert_eq!(turns[number]["tree"], expected, "{script}");
        assert_eq!(odd(&island), [] as [&str; 0], "{script}");
    }
    // So large that holm does not compare it: that stays true while no recording reads the file.
    for script in ["truncate -s 65M big", "echo y >> many/40"] {
        island.holm(&["run", "x", "--", "sh", "-c", script]).ok();
        assert_eq!(odd(&island), ["unread big"], "{script}");
    }
    // A rule that is new hides files that did not change: they leave the tree, and the review names them.
    let hide = "echo 'many/3*' >> .git/info/exclude; git rm -rq --cached 'many/3*'";
    island.holm(&["run", "x", "--", "sh", "-c", hide]).ok();
    let review = ["review", "x", "--since", "base", "--json"];
    let review = island.holm(&review).ok().json();
    assert!(review["risks"].to_string().contains("hidden"), "{review:#}");
    assert!(
        !review["files"].to_string().contains("\"many/30\""),
        "{review:#}"
    );
    assert!(
        review["files"].to_string().contains("\"many/40\""),
        "{review:#}"
    );
    // A daemon that knows nothing of the last turn reads every file, and finds the same tree.
    let before = turns(&island, "x");
    island.kill_daemon();
    island.holm(&["run", "x", "--", "touch", "many/40"]).ok();
    assert_eq!(turns(&island, "x"), before);
}

#[test]
fn a_session_that_becomes_quiet_records_a_turn() {
    let island = Island::new();
    let repository = shop(&island);
    island.kill_daemon();
    let mut daemon = island.holm_command(&repository.path, &["daemon", "start"]);
    daemon.env("HOLM_TEST_SESSION_QUIET_MS", "300");
    assert!(daemon.status().unwrap().success());
    let new = ["session", "new", "x", "--json", "--", "sh"];
    let session = island.holm(&new).ok().json();
    let id = session["id"].as_str().unwrap();
    island
        .holm(&["session", "send", id, "echo hi > said.txt", "--enter"])
        .ok();
    eventually("a turn of the session", || {
        told(&island)
            .iter()
            .any(|turn| turn.starts_with("1 session 1 +1"))
    });
}

#[test]
fn turns_are_compared_restored_and_started_from() {
    let island = Island::new();
    let repository = shop(&island);
    for script in [
        "echo 2 >> a.txt; echo new > n",
        "echo 3 >> a.txt; rm n; echo z > dir/z; git add -A",
    ] {
        island.holm(&["run", "x", "--", "sh", "-c", script]).ok();
    }
    let patch = island
        .holm(&["diff", "x", "--from", "@1", "--to", "@2"])
        .ok()
        .out();
    assert!(
        patch.contains("+3") && patch.contains("deleted file") && !patch.contains("+2"),
        "{patch}"
    );
    let whole = island.holm(&["diff", "x", "--to", "@1"]).ok().out();
    assert!(whole.contains("+2") && !whole.contains("+3"), "{whole}");
    let wrong = island.holm(&["diff", "x", "--from", "@9"]);
    assert_eq!(wrong.code, Some(3), "{wrong:?}");
    assert_eq!(island.holm(&["diff", "x", "--from", "9"]).code, Some(2));

    let made = repository
        .holm(&["up", "y", "--at", "x@1", "--json"])
        .ok()
        .json();
    assert_eq!(made["created"], true);
    let read = "cat a.txt n; test -e dir/z || echo none; git status --porcelain";
    let told_by = island.sh("y", read).ok().out();
    assert_eq!(told_by, "one\n2\nnew\nnone\n M a.txt\n?? n");

    island.sh("x", "echo unsaved > unsaved").ok();
    let reset = island
        .holm(&["reset", "x", "--at", "@1", "--json"])
        .ok()
        .json();
    assert!(reset["notes"].to_string().contains("@3"), "{reset:#}");
    let there = island
        .sh(
            "x",
            "cat a.txt n; ls -d unsaved dir/z 2>&1 | grep -c cannot",
        )
        .ok();
    assert_eq!(there.out(), "one\n2\nnew\n2");
    let trees: Vec<Value> = turns(&island, "x")
        .iter()
        .map(|turn| turn["tree"].clone())
        .collect();
    assert_eq!(trees.len(), 4);
    assert_eq!(trees[3], trees[0]);
    island.holm(&["reset", "x", "--at", "@3"]).ok();
    assert_eq!(island.sh("x", "cat unsaved dir/z").ok().out(), "unsaved\nz");
}

#[test]
fn turns_go_with_the_trash_entry() {
    let island = Island::new();
    shop(&island);
    island
        .holm(&["run", "x", "--", "sh", "-c", "echo 2 >> a.txt"])
        .ok();
    let id = island.holm(&["show", "x", "--json"]).ok().json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let place = island.data().join("turns").join(&id);
    assert!(place.is_dir());
    island.holm(&["rm", "x", "--force"]).ok();
    assert!(place.is_dir());
    island.holm(&["restore", &id]).ok();
    assert_eq!(told(&island).len(), 1);
    island.holm(&["diff", "x", "--to", "@1"]).ok();
    island.holm(&["rm", "x", "--force"]).ok();
    island.holm(&["gc", "--all"]).ok();
    eventually("the turns are deleted", || !place.exists());
}

#[test]
fn a_reset_to_a_turn_does_not_replace_what_no_turn_has() {
    let island = Island::new();
    shop(&island);
    let first = "echo old > out; mkdir deep; echo old > deep/file";
    island.holm(&["run", "x", "--", "sh", "-c", first]).ok();
    let later = "printf 'out\\ndeep\\n' > .gitignore; echo precious > out; rm -r deep; echo precious > deep";
    island.holm(&["run", "x", "--", "sh", "-c", later]).ok();
    let reset = ["reset", "x", "--at", "@1", "--json"];
    let refused = island.holm(&reset).error(4);
    assert_eq!(refused["code"], "unsaved_work", "{refused:#}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.ends_with(": deep, out"), "{message}");
    let there = "cat out deep .gitignore";
    assert_eq!(
        island.sh("x", there).ok().out(),
        "precious\nprecious\nout\ndeep"
    );
    island.holm(&["reset", "x", "--at", "@1", "--force"]).ok();
    assert_eq!(island.sh("x", "cat out deep/file").ok().out(), "old\nold");
}
