//! `reset --volume`, and what follows it: each policy, running and stopped, to the initial state
//! and to a snapshot. Afterwards commands and a restarted service write the volume.

use crate::support::{Island, Ran, Repository, eventually};

/// One volume of each kind that a workspace can reset, one that it cannot, and a service that
/// writes all of them when it starts.
fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    let toml = r#"
[volumes.own]
path = "/data/own"
[volumes.home]
path = "~/.local/share/shop"
[volumes.tree]
path = "PATH/var/db"
[volumes.bare]
path = "/data/bare"
policy = "fork"
[volumes.seeded]
path = "/data/seeded"
policy = "fork"
seed = ["echo seed > /data/seeded/seed"]
[volumes.all]
path = "/data/all"
policy = "shared"
[services.writer]
run = "for v in /data/own ~/.local/share/shop var/db /data/bare /data/seeded /data/all; do date > $v/served || exit 1; done; exec sleep 100000"
restart = "no"
"#;
    let root = repository.path.display().to_string();
    repository.write("holm.toml", toml.replace("PATH", &root));
    repository.write(".gitignore", "var/\n");
    repository.commit("volumes");
    repository
}

/// What a workspace can reset, and where it is inside.
const VOLUMES: [(&str, &str); 5] = [
    ("own", "/data/own"),
    ("home", "~/.local/share/shop"),
    ("tree", "var/db"),
    ("bare", "/data/bare"),
    ("seeded", "/data/seeded"),
];

#[track_caller]
fn names(island: &Island, place: &str) -> Vec<String> {
    let listed = island.sh("w", &format!("ls -A {place}")).ok().out();
    let names = listed.lines().map(str::to_owned);
    names.filter(|name| name != "served").collect()
}

/// Writes through the path, from a directory in it, and by the service, which has to start there.
#[track_caller]
fn is_written(island: &Island, place: &str, when: &str) {
    let write = format!(
        "echo new > {place}/new && cd {place} && mkdir -p sub && mv new sub/moved && cat sub/moved && rm -r sub"
    );
    assert_eq!(island.sh("w", &write).ok().out(), "new", "{place}, {when}");
    island.sh("w", &format!("rm -f {place}/served")).ok();
    island.holm(&["service", "w", "restart", "writer"]).ok();
    eventually("the service writes", || {
        island.sh("w", &format!("test -s {place}/served")).code == Some(0)
    });
    let shown = island.holm(&["show", "w", "--json"]).json();
    assert_eq!(shown["services"][0]["state"], "ready", "{place}, {when}");
}

#[test]
fn every_volume_that_was_reset_while_the_workspace_runs_can_be_written() {
    let island = Island::new();
    shop(&island).up("w");
    let reset = |words: &[&str]| -> Ran {
        let shown = island.holm(&["show", "w", "--json"]).json();
        let running = shown["state"].clone();
        let ran = island.holm(&[&["reset", "w", "--volume"], words].concat());
        let shown = island.holm(&["show", "w", "--json"]).json();
        assert_eq!(shown["state"], running);
        ran
    };
    for (name, place) in VOLUMES {
        let begun: &[&str] = match name {
            "seeded" => &["seed"],
            _ => &[],
        };
        island.sh("w", &format!("echo x > {place}/before")).ok();
        // Twice: the second one is mounted on what the first one mounted.
        for when in ["once", "twice"] {
            reset(&[name]).ok();
            let id = island.holm(&["show", "w", "--json"]).json()["id"].clone();
            let old = island.data().join("workspaces").join(id.as_str().unwrap());
            eventually("what was there before takes no room", || {
                !old.join("old").exists() && is_emptied(&old.join("volumes").join(name))
            });
            assert_eq!(names(&island, place), begun, "{name}, {when}");
            is_written(&island, place, when);
            island.sh("w", &format!("echo kept > {place}/kept")).ok();
            if when == "once" {
                continue;
            }
            island.holm(&["snapshot", "w", &format!("of-{name}")]).ok();
            island.sh("w", &format!("rm {place}/kept")).ok();
            reset(&[name, "--at", &format!("of-{name}")]).ok();
            assert_eq!(island.sh("w", &format!("cat {place}/kept")).out(), "kept");
            is_written(&island, place, "at a snapshot");
        }
    }
    let refused = island
        .holm(&["reset", "w", "--volume", "all", "--json"])
        .error(4);
    assert_eq!(refused["code"], "refused");
    is_written(&island, "/data/all", "which is shared");

    // Data written after a reset is what later forks and snapshots start with.
    island.holm(&["fork", "w", "f"]).ok();
    island.holm(&["restart", "w"]).ok();
    for (_, place) in VOLUMES {
        let look = format!("cat {place}/kept");
        assert_eq!(
            island.sh("w", &look).out(),
            "kept",
            "{place}, after a restart"
        );
        assert_eq!(island.sh("f", &look).out(), "kept", "{place}, of a fork");
        is_written(&island, place, "after a restart");
    }
    let left = |name: &str| {
        let id = island.holm(&["show", "w", "--json"]).json()["id"].clone();
        let place = island.data().join("workspaces").join(id.as_str().unwrap());
        std::fs::read_dir(place.join("volumes").join(name))
            .unwrap()
            .count()
    };
    for (name, _) in VOLUMES {
        eventually("the old ones are deleted", || left(name) == 1);
    }
    island.holm(&["reset", "w", "--force"]).ok();
    for (name, place) in VOLUMES {
        let expect = usize::from(name == "seeded");
        assert_eq!(names(&island, place).len(), expect, "{name}");
        is_written(&island, place, "after a reset of everything");
    }
}

/// Whether only the newest generation of a volume has content.
fn is_emptied(volume: &std::path::Path) -> bool {
    let generations = std::fs::read_dir(volume).unwrap().flatten();
    let mut numbers: Vec<u64> = generations
        .map(|entry| entry.file_name().to_str().unwrap().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers.pop();
    numbers.iter().all(|number| {
        let own = volume.join(number.to_string()).join("own");
        std::fs::read_dir(own).is_ok_and(|mut entries| entries.next().is_none())
    })
}

#[test]
fn every_volume_of_a_stopped_workspace_is_reset_and_can_be_written() {
    let island = Island::new();
    shop(&island).up("w");
    for (_, place) in VOLUMES {
        island.sh("w", &format!("echo kept > {place}/kept")).ok();
    }
    island.holm(&["snapshot", "w", "kept"]).ok();
    for at in [None, Some("kept")] {
        island.holm(&["stop", "w"]).ok();
        for (name, _) in VOLUMES {
            let to = at.map_or(vec![], |at| vec!["--at", at]);
            let words = [&["reset", "w", "--volume", name][..], &to].concat();
            island.holm(&words).ok();
            assert_eq!(island.states()["w"], "stopped");
        }
        for (name, place) in VOLUMES {
            let seed = usize::from(name == "seeded");
            let expect = seed + usize::from(at.is_some());
            assert_eq!(names(&island, place).len(), expect, "{name} {at:?}");
            is_written(&island, place, "started again");
        }
    }
}
