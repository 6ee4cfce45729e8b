//! Into the trash, back from it, out of it for good; and what takes room on the disk.

use crate::support::{Island, Repository, Running, eventually, noise, send};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

pub fn trash(island: &Island) -> Vec<Value> {
    let list = island.holm(&["ls", "--trash", "--json"]).json();
    list["workspaces"].as_array().expect("a list").clone()
}

fn entries(path: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(path).unwrap();
    found.map(|entry| entry.unwrap().path()).collect()
}

/// Nothing is in the trash or on its way out of it.
#[track_caller]
pub fn is_empty(island: &Island) {
    assert_eq!(trash(island), Vec::<Value>::new());
    for place in ["trash", "reap"] {
        assert_eq!(entries(&island.data().join(place)), Vec::<PathBuf>::new());
    }
}

fn bases(island: &Island) -> Vec<PathBuf> {
    let projects = entries(&island.data().join("projects"));
    let bases = projects.iter().flat_map(|project| {
        let bases = project.join("bases");
        if bases.exists() {
            entries(&bases)
        } else {
            Vec::new()
        }
    });
    bases.collect()
}

const WORK: &str = "echo changed >> README.md; git commit -qam one; git branch side; \
     echo stashed > README.md; git stash -q; echo new > untracked; echo kept > ~/note; \
     mkdir -p ~/closed && echo x > ~/closed/x && chmod 0 ~/closed";

const LOOK: &str = "cat README.md untracked ~/note; git stash list | wc -l; \
     git branch --format '%(refname:short)'; git stash show -p | grep '^+stashed'; \
     stat -c %a ~/closed";

#[test]
fn what_was_removed_comes_back_with_everything_it_had() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("fix");
    island.sh("fix", WORK).ok();
    let before = island.sh("fix", LOOK).ok().out();
    let removed = island.holm(&["rm", "fix", "--force"]).ok();
    let said = "fix is in the trash until ";
    assert!(removed.stderr.contains(said), "{removed:?}");
    let entry = trash(&island).remove(0);
    assert_eq!((text(&entry["id"]), text(&entry["label"])), (&*id, "fix"));
    assert_eq!(
        (text(&entry["project"]), text(&entry["state"])),
        ("shop", "removed")
    );
    assert!(entry["bytes"].as_u64().unwrap() > 0);
    assert!(text(&entry["expires_at"]) > text(&entry["removed_at"]));
    let human = island.holm(&["ls", "--trash"]).ok().out();
    assert!(
        human.contains("fix") && human.contains(" d left"),
        "{human}"
    );
    // A request that names it gets the hint to restore it.
    for command in [
        vec!["exec", &id, "--json", "--", "true"],
        vec!["exec", "fix", "--json", "--", "true"],
        vec!["show", &id[..6], "--json"],
        vec!["stop", "shop/fix", "--json"],
        vec!["rm", &id, "--json"],
        vec!["checkout", &id, "--json"],
    ] {
        let error = island.holm(&command).error(3);
        assert_eq!(error["code"], "workspace_not_found", "{command:?}");
        assert!(text(&error["message"]).contains("in the trash"), "{error}");
        assert!(
            text(&error["hint"]).contains(&format!("holm restore {id}")),
            "{error}"
        );
    }
    let unknown = island.holm(&["show", "nobody", "--json"]).error(3);
    assert!(!unknown.to_string().contains("trash"), "{unknown}");

    let back = island.holm(&["restore", "fix", "--json"]).json();
    assert_eq!((text(&back["id"]), text(&back["label"])), (&*id, "fix"));
    assert_eq!(back["state"], "stopped");
    assert_eq!(back.get("notes"), None);
    assert_eq!(back.get("removed_at"), None);
    assert_eq!(island.sh("fix", LOOK).ok().out(), before);
    is_empty(&island);
    island.holm(&["restore", "fix", "--json"]).error(3);
    island.holm(&["restore", &id, "--json"]).error(3);
}

#[test]
fn a_taken_label_gets_a_number_and_ambiguous_ones_are_refused() {
    let island = Island::new();
    let repository = island.repository("shop");
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(repository.up("fix"));
        island.holm(&["rm", "fix"]).ok();
    }
    let live = repository.up("fix");
    let refused = island.holm(&["restore", "fix", "--json"]).error(4);
    assert_eq!(refused["code"], "ambiguous");
    for id in &ids {
        assert!(text(&refused["message"]).contains(id), "{refused}");
    }
    let back = island.holm(&["restore", &ids[0], "--json"]).json();
    assert_eq!(
        (text(&back["id"]), text(&back["label"])),
        (&*ids[0], "fix-2")
    );
    assert!(text(&back["notes"][0]).contains("`fix-2`"), "{back}");
    // Now the label is that of one entry; and the beginning of an id is enough.
    let said = island.holm(&["restore", &ids[1][..9]]).ok().stderr;
    assert!(said.contains("fix-3") && said.contains("note"), "{said}");
    assert_eq!(
        island.holm(&["show", &live, "--json"]).json()["label"],
        "fix"
    );
    let refused = island.holm(&["restore", "nobody", "--json"]).error(3);
    assert!(text(&refused["hint"]).contains("ls --trash"), "{refused}");
    // Several at once, as with `rm`.
    island.holm(&["rm", "fix-2", "fix-3"]).ok();
    let both = island.holm(&["restore", "fix-2", "fix-3", "--json"]).json();
    assert_eq!(both["workspaces"].as_array().unwrap().len(), 2);
}

#[test]
fn what_was_removed_comes_back_when_its_repository_has_moved_or_is_forgotten() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("fix");
    let project = island.holm(&["show", "fix", "--json"]).json()["project_id"].clone();
    island.sh("fix", "echo work > work").ok();
    island.holm(&["rm", "fix", "--force"]).ok();
    let moved = repository.path.with_file_name("moved");
    std::fs::rename(&repository.path, &moved).unwrap();
    island.holm(&["restore", "fix"]).ok();
    assert_eq!(
        island.sh("fix", "cat work README.md").ok().out(),
        "work\n# hello"
    );
    let here = Repository {
        island: &island,
        path: moved,
    };
    let found = here.holm(&["up", "fix", "--json"]).json();
    assert_eq!((text(&found["id"]), &found["project_id"]), (&*id, &project));
    // A project without live workspaces is forgotten, and shown again when one is restored.
    island.holm(&["rm", "fix", "--force"]).ok();
    island.holm(&["project", "rm", "shop"]).ok();
    island.holm(&["gc"]).ok();
    let projects = island.holm(&["project", "ls", "--json"]).json();
    assert_eq!(projects["projects"], json!([]));
    assert_eq!(
        island.holm(&["restore", &id, "--json"]).json()["project"],
        "shop"
    );
    assert_eq!(island.sh(&id, "cat work").ok().out(), "work");
    island.holm(&["rm", &id, "--force"]).ok();
    island.holm(&["project", "rm", "shop"]).ok();
    // With the last of its trash it goes altogether.
    let gone = island.holm(&["gc", "--all", "--json"]).json();
    let kinds = gone["removed"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.map(|removed| text(&removed["kind"])).collect();
    assert_eq!(kinds, ["workspace", "project"]);
    assert_eq!(
        entries(&island.data().join("projects")),
        Vec::<PathBuf>::new()
    );
    is_empty(&island);
    // And the repository may come again.
    here.up("again");
}

#[test]
fn entries_go_by_age_or_all_at_once_and_nothing_else_goes() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("live");
    repository.up("old");
    island
        .sh(
            "old",
            "head -c 3000000 /dev/urandom > ~/large; sync ~/large",
        )
        .ok();
    island.holm(&["rm", "old"]).ok();
    let nothing = island.holm(&["gc", "--json"]).json();
    assert_eq!(nothing["removed"], json!([]));
    assert_eq!(nothing["freed_bytes"], 0);
    assert_eq!(trash(&island).len(), 1);
    let gone = island.holm(&["gc", "--all", "--json"]).json();
    assert_eq!(gone["removed"][0]["kind"], "workspace");
    assert_eq!(gone["removed"][0]["label"], "old");
    assert!(gone["freed_bytes"].as_u64().unwrap() >= 3_000_000, "{gone}");
    is_empty(&island);
    assert_eq!(island.sh("live", "cat README.md").ok().out(), "# hello");
    // The setting is read each time.
    repository.up("old");
    island.holm(&["rm", "old"]).ok();
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "trash_days = 0\n");
    let said = island.holm(&["gc"]).ok().stderr;
    assert!(said.contains("old") && said.contains("1 deleted"), "{said}");
    is_empty(&island);
    // Expired entries are deleted when a daemon starts.
    repository.up("old");
    island.holm(&["rm", "old"]).ok();
    island.holm(&["daemon", "stop"]).ok();
    island.holm(&["daemon", "start"]).ok();
    eventually("expired entries go", || trash(&island).is_empty());
    eventually("and their files", || {
        entries(&island.data().join("reap")).is_empty()
    });
    island.sh("live", "true").ok();
}

#[test]
fn bases_go_when_nothing_needs_them() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("one");
    repository.write("more", "more");
    repository.commit("more");
    repository.up("two");
    repository.write("more", "most");
    repository.commit("most");
    repository.up("three");
    island.holm(&["gc", "--all"]).ok();
    assert_eq!(bases(&island).len(), 3, "all are in use");
    island.holm(&["rm", "one", "two", "three"]).ok();
    island.holm(&["gc"]).ok();
    assert_eq!(bases(&island).len(), 3, "the trash needs them");
    let two = text(&island.holm(&["restore", "two", "--json"]).json()["id"]).to_owned();
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "trash_days = 0\n");
    let gone = island.holm(&["gc", "--json"]).json();
    assert_eq!(gone["removed"].as_array().unwrap().len(), 3, "{gone}");
    assert_eq!(bases(&island).len(), 2, "one is used, one is the latest");
    assert_eq!(island.sh(&two, "cat more").ok().out(), "more");
    island.holm(&["rm", &two]).ok();
    island.holm(&["gc", "--all"]).ok();
    assert_eq!(bases(&island), Vec::<PathBuf>::new());
    // They are rebuilt when they are needed.
    repository.up("four");
    assert_eq!(island.sh("four", "cat more").ok().out(), "most");
}

#[test]
fn leftovers_go_and_what_nobody_knows_is_named_and_stays() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("live");
    // `df` promises nothing that `gc` does not delete.
    let leftovers = || island.holm(&["df", "--json"]).json()["leftovers"].clone();
    assert_eq!(leftovers(), 0);
    let base = bases(&island).remove(0);
    let building = base.with_file_name(".building-0123");
    for made in [
        "holm/data/program/0-0-0",
        "holm/data/workspaces/w000000000000",
        "holm/data/workspaces/strange",
        "holm/data/trash/w000000000000",
        "holm/data/trial-w000000000000",
    ] {
        island.make_dir(made);
    }
    island.make_dir(&building);
    island.write("holm/data/program/0-0-0/holm", "an old one");
    island.write("holm/data/workspaces/w000000000000/work", "work");
    let upload = island.write("holm/data/incoming/left", "left");
    let young = island.write("holm/data/incoming/young", "young");
    let trial = island.data().join("trial-w000000000000");
    let home = island.home();
    for old in [&upload, &trial] {
        let old = old.to_str().unwrap();
        island.run(&home, "touch", &["-d", "3 days ago", old]).ok();
    }
    assert_ne!(leftovers(), 0);
    let gone = island.holm(&["gc", "--json"]).json();
    let removed = gone["removed"].as_array().unwrap();
    assert_eq!(removed.len(), 4, "{gone}");
    assert!(removed.iter().all(|removed| removed["kind"] == "leftover"));
    for path in [&building, &upload, &trial] {
        assert!(!path.exists(), "{}", path.display());
    }
    assert!(young.exists());
    assert_eq!(entries(&island.data().join("program")).len(), 1);
    let unknown = gone["unknown"].as_array().unwrap();
    assert_eq!(unknown.len(), 3, "{gone}");
    island.holm(&["gc", "--all"]).ok();
    assert!(island.data().join("workspaces/w000000000000/work").exists());
    assert!(island.data().join("trash/w000000000000").exists());
    let said = island.holm(&["gc"]).ok().stderr;
    assert!(said.contains("strange"), "{said}");
    island.sh("live", "true").ok();
}

const HOSTILE: &str = r#"
import os
home = os.environ["HOME"]
os.chdir(home)
os.symlink("/", "root"); os.symlink("../../../outside", "out"); os.symlink("loop", "loop")
os.mkfifo("fifo")
for name in [b"new\nline", b"\xff\xfe", b"-rf", b"*", b"\x1b[2J", b" "]:
    os.mkdir(os.path.join(os.fsencode(home), name))
    open(os.path.join(os.fsencode(home), name, name), "w").close()
for mode in (0, 0o111, 0o444, 0o500):
    os.makedirs("closed%o/inner" % mode); open("closed%o/inner/file" % mode, "w").close()
    os.chmod("closed%o/inner" % mode, mode); os.chmod("closed%o" % mode, mode)
open("own", "w").close(); os.chmod("own", 0)
here = os.open(".", os.O_RDONLY)
for depth in range(1500):
    os.mkdir("d" * 100, dir_fd=here)
    deeper = os.open("d" * 100, os.O_RDONLY, dir_fd=here); os.close(here); here = deeper
os.chmod(home, 0)
"#;

#[test]
fn trees_that_resist_are_deleted_and_nothing_behind_their_links() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("hostile");
    let outside = island.write("outside", "kept");
    island.python("hostile", HOSTILE).ok();
    island.holm(&["df"]).ok();
    island.holm(&["rm", "hostile", "--force"]).ok();
    island.holm(&["ls", "--trash"]).ok();
    island.holm(&["restore", &id]).ok();
    island.holm(&["rm", &id, "--force"]).ok();
    island.holm(&["gc", "--all"]).ok();
    is_empty(&island);
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "kept");
    assert!(repository.path.join("README.md").exists());
}

#[test]
fn a_daemon_that_is_killed_in_the_middle_of_deleting() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("large");
    let fill = "import os\nfor d in range(60):\n os.mkdir(os.path.expanduser(f'~/{d}'))\n \
        [open(os.path.expanduser(f'~/{d}/{n}'), 'w').close() for n in range(500)]";
    island.python("large", fill).ok();
    repository.up("live");
    island.holm(&["rm", "large", "--force"]).ok();
    let daemon = island.daemon_pid();
    let home = island.home();
    let mut command = island.holm_command(&home, &["gc", "--all"]);
    let mut collecting = Running::new(command.stderr(std::process::Stdio::null()));
    let condemned = island.data().join("reap").join(&id);
    eventually("it is being deleted", || condemned.exists());
    send(daemon, Signal::KILL);
    assert_ne!(collecting.code(), Some(0));
    assert!(condemned.exists(), "killed in the middle");
    // A partial entry is not restored, and the next daemon finishes the deletion.
    island.holm(&["restore", &id, "--json"]).error(3);
    eventually("the rest goes", || !condemned.exists());
    let gone = island.holm(&["gc", "--all", "--json"]).json();
    assert_eq!(gone["failed"], json!([]));
    is_empty(&island);
    island.sh("live", "true").ok();
}

#[test]
fn what_cannot_be_deleted_is_said_and_stays_whole() {
    use std::os::unix::fs::PermissionsExt;
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("fix");
    island.sh("fix", "echo work > work").ok();
    island.holm(&["rm", "fix", "--force"]).ok();
    let reap = island.data().join("reap");
    std::fs::set_permissions(&reap, PermissionsExt::from_mode(0o500)).unwrap();
    let failed = island.holm(&["gc", "--all", "--json"]).exits(1);
    let failed: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(failed["failed"][0]["code"], "read_only", "{failed}");
    assert_eq!(failed["removed"], json!([]));
    let said = island.holm(&["gc", "--all"]).exits(1).stderr;
    assert!(said.contains("warning") && said.contains(&id), "{said}");
    assert_eq!(trash(&island).len(), 1);
    std::fs::set_permissions(&reap, PermissionsExt::from_mode(0o700)).unwrap();
    // A place that cannot be written keeps it from coming back, and loses nothing.
    let workspaces = island.data().join("workspaces");
    std::fs::set_permissions(&workspaces, PermissionsExt::from_mode(0o500)).unwrap();
    let refused = island.holm(&["restore", "fix", "--json"]).error(1);
    assert_eq!(refused["code"], "read_only");
    assert_eq!(trash(&island).len(), 1);
    std::fs::set_permissions(&workspaces, PermissionsExt::from_mode(0o700)).unwrap();
    island.holm(&["restore", "fix"]).ok();
    assert_eq!(island.sh("fix", "cat work").ok().out(), "work");
}

#[test]
fn a_nearly_full_disk_is_said_early_and_a_full_one_can_be_cleared() {
    let island = Island::new();
    let repository = island.repository("shop");
    let script = r#"mkdir -p "$HOLM_HOME" && mount -t tmpfs -o size=400m small "$HOLM_HOME" || exit 99
        set -e
        holm up x --json; holm ls --json; holm df --json
        holm up x 2>&1; holm ls 2>&1
        holm exec x -- sh -c 'head -c 60000000 /dev/zero > ~/large'
        holm rm x --force 2>&1
        dd if=/dev/zero of="$HOLM_HOME/fill" bs=1M 2>/dev/null || true
        holm gc --all --json; holm ls --trash --json
        rm "$HOLM_HOME/fill"
        holm daemon stop --all >/dev/null 2>&1"#;
    let ran = island.elsewhere(&repository.path, script).ok();
    let out = ran.out();
    let documents: Vec<Value> = out
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let [up, ls, df, gc, trash] = documents.as_slice() else {
        panic!("{out}");
    };
    for document in [up, ls, df] {
        let notes = document["notes"].to_string();
        assert!(
            notes.contains("nearly full") && notes.contains("holm gc"),
            "{document}"
        );
    }
    assert_eq!(out.matches("the disk is nearly full").count(), 6, "{out}");
    assert!(gc["freed_bytes"].as_u64().unwrap() >= 60_000_000, "{gc}");
    assert_eq!(gc["failed"], json!([]));
    assert_eq!(trash["workspaces"], json!([]));
}

#[test]
fn df_counts_what_the_disk_holds() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("large", noise(4_000_000));
    repository.commit("large");
    repository.up("one");
    repository.write("small", "small");
    repository.commit("small");
    repository.up("two");
    repository.up("gone");
    let fill = "head -c 2000000 /dev/urandom > ~/large; truncate -s 50G sparse; \
        head -c 1000000 /dev/urandom > /tmp/t; head -c 1000000 /dev/urandom > code; sync";
    island.sh("two", fill).ok();
    island
        .sh(
            "gone",
            "head -c 1000000 /dev/urandom > ~/large; sync ~/large",
        )
        .ok();
    island.holm(&["rm", "gone", "--force"]).ok();
    let disk = island.holm(&["df", "--json"]).json();
    let size = |value: &Value| value.as_u64().expect("a size");
    let two = &disk["workspaces"][1];
    assert_eq!(two["label"], "two");
    let within = |bytes: u64, least: u64| (least..least + 400_000).contains(&bytes);
    assert!(within(size(&two["home"]), 2_000_000), "{two}");
    assert!(within(size(&two["tmp"]), 1_000_000), "{two}");
    assert!(within(size(&two["upper"]), 1_000_000), "{two}");
    assert!(size(&disk["trash"][0]["bytes"]) >= 1_000_000, "{disk}");
    // The large file is in both bases, and once on the disk.
    let bases = disk["bases"].as_array().unwrap();
    assert_eq!(bases.len(), 2);
    let both: u64 = bases.iter().map(|base| size(&base["bytes"])).sum();
    assert!(within(both, 4_000_000), "{bases:?}");
    let users: u64 = bases.iter().map(|base| size(&base["used_by"])).sum();
    assert_eq!(users, 3);
    // The objects are the very files of the user's repository.
    let objects = &disk["repositories"][0];
    assert!(size(&objects["shared"]) >= 4_000_000, "{objects}");
    assert!(size(&disk["total"]) < 1 << 30, "{disk}");
    assert!(size(&disk["free"]) <= size(&disk["size"]));
    assert!(
        disk["notes"].to_string().contains("holm gc --all"),
        "{disk}"
    );
    let human = island.holm(&["df"]).ok().out();
    for word in [
        "shop/two",
        "trash",
        "base",
        "repository",
        "MiB",
        "holm gc --all",
    ] {
        assert!(human.contains(word), "{word} in {human}");
    }
}
