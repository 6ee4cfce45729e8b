//! Attacks on removal: unsaved work survives everything but force, and removing one workspace
//! removes nothing else.

use crate::support::{Island, Place, Ran, Running, eventually, program, send};
use crate::trash::{is_empty, text, trash};
use rustix::process::Signal;

/// Every kind of unsaved work, and how to see that it exists.
const KINDS: [(&str, &str, &str); 5] = [
    ("changed", "echo work >> README.md", "cat README.md"),
    ("untracked", "echo work > new", "cat new"),
    (
        "stashed",
        "echo work >> README.md; git stash -q",
        "git stash show -p",
    ),
    (
        "committed",
        "echo work > new; git add new; git commit -qm new",
        "git show HEAD:new",
    ),
    (
        "detached",
        "git checkout -q --detach; echo work > new; git add new; git commit -qm new",
        "git show HEAD:new",
    ),
];

#[test]
fn attack_153_unsaved_work_outlives_everything_but_force_and_force_keeps_it() {
    let island = Island::new();
    let repository = island.repository("shop");
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write(
        "holm/config/config.toml",
        "trash_days = 0\nstop_after = \"1s\"\nremove_after = \"1s\"\n",
    );
    for (label, script, _) in KINDS {
        repository.up(label);
        island.sh(label, script).ok();
    }
    // The counterpart: a workspace without unsaved work is removed by the same sweep.
    repository.up("clean");
    let live = |label: &str| {
        let list = island.holm(&["ls", "--json"]).json();
        let mut found = list["workspaces"].as_array().unwrap().iter();
        found.any(|workspace| workspace["label"] == label)
    };
    eventually("what is clean goes", || !live("clean"));
    for (label, _, _) in KINDS {
        eventually("the sweep was refused", || {
            let shown = island.holm(&["show", label, "--json"]).json();
            shown["notes"].to_string().contains("not removed")
        });
        let shown = island.holm(&["show", label]).ok().out();
        assert!(shown.contains("your repository does not have"), "{shown}");
    }
    send(island.daemon_pid(), Signal::KILL);
    island.holm(&["gc", "--all"]).ok();
    island.write("holm/config/config.toml", "");
    for (label, _, look) in KINDS {
        island.holm(&["stop", label]).ok();
        let refused = island.holm(&["rm", label, "--json"]).error(4);
        assert_eq!(refused["code"], "unsaved_work", "{label}");
        assert!(
            island.sh(label, look).ok().out().contains("work"),
            "{label}"
        );
        island.holm(&["rm", label, "--force"]).ok();
    }
    send(island.daemon_pid(), Signal::KILL);
    island.holm(&["gc"]).ok();
    for (label, _, look) in KINDS {
        island.holm(&["restore", label]).ok();
        assert!(
            island.sh(label, look).ok().out().contains("work"),
            "{label}"
        );
    }
}

#[test]
fn attack_154_removed_while_busy_and_twice_at_once() {
    let island = Island::new();
    let repository = island.repository("shop");
    let outside = island.write("home/outside", "kept");
    for round in 0..4 {
        let id = repository.up("busy");
        repository.up("beside");
        let home = island.home();
        let script = "echo ready; exec sleep 1000";
        let mut command = island.holm_command(&home, &["exec", "busy", "--", "sh", "-c", script]);
        let mut busy = Running::new(command.stderr(std::process::Stdio::null()));
        busy.says("ready");
        let codes: Vec<Option<i32>> = std::thread::scope(|scope| {
            let remove = || {
                let ran = Ran::new(&mut island.holm_command(&home, &["rm", &id, "--json"]));
                if ran.code != Some(0) {
                    assert!(ran.stderr.contains("workspace_not_found"), "{ran:?}");
                }
                ran.code
            };
            let removals: Vec<_> = (0..4).map(|_| scope.spawn(remove)).collect();
            removals
                .into_iter()
                .map(|each| each.join().unwrap())
                .collect()
        });
        assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1);
        assert_eq!(codes.iter().filter(|code| **code == Some(3)).count(), 3);
        assert_ne!(busy.code(), Some(0), "it was ended");
        assert_eq!(trash(&island).len(), round + 1);
        assert_eq!(island.sh("beside", "cat README.md").ok().out(), "# hello");
    }
    // Deleted twice at once, while others come back.
    let ids: Vec<_> = trash(&island)
        .iter()
        .map(|entry| text(&entry["id"]).to_owned())
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| island.holm(&["gc", "--all"]).ok());
        }
        for id in &ids {
            scope.spawn(|| {
                let ran = island.holm(&["restore", id]);
                assert!(matches!(ran.code, Some(0 | 1 | 3)), "{ran:?}");
            });
        }
    });
    is_empty(&island);
    let list = island.holm(&["ls", "--json"]).json();
    for workspace in list["workspaces"].as_array().unwrap() {
        assert_eq!(
            island
                .sh(text(&workspace["id"]), "cat README.md")
                .ok()
                .out(),
            "# hello"
        );
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "kept");
    assert!(repository.path.join("README.md").exists());
}

#[test]
fn a_mount_below_what_is_deleted_stops_it_and_stays_whole() {
    let island = Island::new();
    let repository = island.repository("shop");
    let outside = island.make_dir("outside");
    island.write("outside/kept", "kept");
    // On the same file system, so that only being a mount tells it apart.
    let script = format!(
        r#"set -e
        holm up x --json >/dev/null; holm rm x >/dev/null 2>&1
        place=$(echo "$HOLM_HOME"/data/trash/*/home)
        mkdir "$place/below"; mount --bind {outside} "$place/below"
        test -e "$place/below/kept"
        holm gc --all --json || echo "code $?"
        umount "$HOLM_HOME"/data/reap/*/home/below
        holm gc --all --json
        holm daemon stop --all >/dev/null 2>&1"#,
        outside = outside.display()
    );
    let out = island.elsewhere(&repository.path, &script).ok().out();
    let lines: Vec<_> = out.lines().collect();
    let [first, code, second] = lines.as_slice() else {
        panic!("{out}");
    };
    assert!(first.contains("something is mounted below it"), "{out}");
    assert_eq!(*code, "code 1");
    assert!(second.contains(r#""failed":[]"#), "{out}");
    assert_eq!(
        std::fs::read_to_string(outside.join("kept")).unwrap(),
        "kept"
    );
    is_empty(&island);
}

#[test]
fn attack_153_unsaved_work_outlives_an_upgrade_and_a_way_back() {
    let island = Island::new();
    let repository = island.repository("shop");
    for (label, script, _) in KINDS {
        repository.up(label);
        island.sh(label, script).ok();
    }
    // Another file with other content, as a new version is.
    let newer = island.make_dir("newer").join("holm");
    std::fs::copy(program(), &newer).unwrap();
    let mut file = std::fs::File::options().append(true).open(&newer).unwrap();
    std::io::Write::write_all(&mut file, b"newer").unwrap();
    drop(file);
    let refuses = |program: &std::path::Path| {
        island.kill_daemon();
        let holm =
            |arguments: &[&str]| Ran::new(island.command(program, &island.home()).args(arguments));
        holm(&["gc", "--all"]).ok();
        let pid = island.daemon_of_the_lock().expect("a daemon");
        let runs = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert_eq!(runs, program);
        for (label, _, look) in KINDS {
            let refused = holm(&["rm", label, "--json"]).error(4);
            assert_eq!(refused["code"], "unsaved_work", "{label}");
            let found = holm(&["exec", label, "--", "sh", "-c", look]).ok().out();
            assert!(found.contains("work"), "{label}");
        }
    };
    refuses(&newer);
    refuses(program());
    // By force, with one version; brought back with the other.
    for (label, _, _) in KINDS {
        island.holm(&["rm", label, "--force"]).ok();
    }
    island.kill_daemon();
    for (label, _, look) in KINDS {
        let holm =
            |arguments: &[&str]| Ran::new(island.command(&newer, &island.home()).args(arguments));
        holm(&["restore", label]).ok();
        let found = holm(&["exec", label, "--", "sh", "-c", look]).ok().out();
        assert!(found.contains("work"), "{label}");
    }
}

#[test]
fn attack_153_unsaved_work_outlives_a_workspace_without_memory() {
    let Some(place) = Place::new() else { return };
    let repository = place.configured("[limits]\nmemory = \"96MiB\"\n");
    for (label, script, _) in KINDS {
        place.holm(&repository, &["up", label]).ok();
        place.sh(label, script).ok();
        // Files in memory belong to no process that could be killed for them, so in the end init is
        // killed.
        let fill = "head -c 160M /dev/zero > /dev/shm/full; sleep 1000";
        place.sh(label, fill).exits(137);
    }
    for (label, _, look) in KINDS {
        // The daemon starts it again, or this command does.
        eventually("its files in memory are gone", || {
            place.sh(label, "test ! -e /dev/shm/full").code == Some(0)
        });
        place.holm(&repository, &["gc", "--all"]).ok();
        let refused = place.holm(&repository, &["rm", label, "--json"]).error(4);
        assert_eq!(refused["code"], "unsaved_work", "{label}");
        place.holm(&repository, &["rm", label, "--force"]).ok();
        place.holm(&repository, &["restore", label]).ok();
        let found = place.sh(label, look).ok().out();
        assert!(found.contains("work"), "{label}");
    }
}
