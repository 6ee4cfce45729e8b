//! Ids are the only keys. Labels are display: used twice, used again, changed, ambiguous, they never
//! reach the wrong workspace.

use crate::support::{Island, Ran, Repository};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Stdio;

fn id(workspace: &Value) -> &str {
    workspace["id"].as_str().expect("an id")
}

fn all(island: &Island) -> Vec<Value> {
    let list = island.holm(&["ls", "--json"]).json();
    list["workspaces"].as_array().expect("a list").clone()
}

#[test]
fn many_at_once_are_all_different() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "-n", "8", "x", "--json"]).json();
    let made = made["workspaces"].as_array().unwrap();
    let ids: BTreeSet<&str> = made.iter().map(id).collect();
    assert_eq!(ids.len(), 8);
    for (number, workspace) in made.iter().enumerate() {
        assert_eq!(workspace["label"], format!("x-{}", number + 1));
        assert_eq!(workspace["state"], "running");
        assert_eq!(workspace["created"], true);
        let id = id(workspace);
        let shape = id.len() == 13
            && id.starts_with('w')
            && id
                .chars()
                .skip(1)
                .all(|c| c.is_ascii_digit() || c.is_ascii_lowercase());
        assert!(shape && !id[1..].contains(['i', 'l', 'o', 'u']), "{id}");
        let script = "echo $HOLM_WORKSPACE_ID $HOLM_WORKSPACE_LABEL; echo $HOLM_WORKSPACE_ID > own; \
                      git branch --show-current";
        let said = island.sh(id, script).ok().out();
        let label = workspace["label"].as_str().unwrap();
        assert_eq!(said, format!("{id} {label}\nholm/{label}"));
    }
    // Each wrote the same path, and each has its own.
    for workspace in made {
        assert_eq!(
            island.sh(id(workspace), "cat own").ok().out(),
            id(workspace)
        );
    }
    assert_eq!(all(&island).len(), 8);
    // Without a label they get pleasant ones.
    let made = repository.holm(&["up", "-n", "3", "--json"]).json();
    let labels = made["workspaces"].as_array().unwrap().iter();
    let labels: BTreeSet<_> = labels.map(|made| made["label"].to_string()).collect();
    assert_eq!(labels.len(), 3);
}

#[test]
fn fifty_at_once_of_one_label_are_one() {
    let island = Island::new();
    let repository = island.repository("shop");
    // Without a daemon and without a project: those are made by all at once, too.
    let start = |_| {
        let mut command = island.holm_command(&repository.path, &["up", "same", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let started: Vec<_> = (0..50).map(start).collect();
    let mut ids = BTreeSet::new();
    let mut made = 0;
    for child in started {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let workspace: Value = serde_json::from_slice(&output.stdout).unwrap();
        made += usize::from(workspace["created"] == true);
        assert_eq!(workspace["state"], "running");
        ids.insert(id(&workspace).to_owned());
    }
    assert_eq!((ids.len(), made), (1, 1), "{ids:?}");
    assert_eq!(all(&island).len(), 1);
    let projects = island.holm(&["project", "ls", "--json"]).json();
    assert_eq!(
        projects["projects"].as_array().unwrap().len(),
        1,
        "{projects}"
    );
}

#[test]
fn up_is_idempotent_and_options_that_would_make_another_are_refused() {
    let island = Island::new();
    let repository = island.repository("shop");
    let made = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(made["created"], true);
    island.sh("x", "echo kept > kept").ok();
    repository.write("later", "");
    repository.commit("later");
    let again = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(
        (id(&again), &again["created"]),
        (id(&made), &Value::Bool(false))
    );
    assert_eq!(again["commit"], made["commit"], "it does not move");
    island.holm(&["stop", "x"]).ok();
    let started = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(
        (id(&started), &started["created"]),
        (id(&made), &Value::Bool(false))
    );
    assert_eq!(started["state"], "running");
    assert_eq!(island.sh("x", "cat kept").ok().out(), "kept");
    for options in [&["--from", "main"][..], &["--from", "HEAD"], &["--dirty"]] {
        let ran = repository.holm(&[&["up", "x", "--json"], options].concat());
        assert!(ran.stdout.is_empty());
        let error = ran.error(4);
        assert_eq!(error["code"], "already_exists", "{options:?}");
        assert!(
            error["message"].as_str().unwrap().contains(id(&made)),
            "{error}"
        );
    }
    // Of several nothing is made when one exists.
    repository.up("y-2");
    let error = repository.holm(&["up", "-n", "3", "y", "--json"]).error(4);
    assert_eq!(error["code"], "already_exists");
    assert!(
        error["message"].as_str().unwrap().contains("y-2"),
        "{error}"
    );
    let labels: BTreeSet<_> = all(&island)
        .iter()
        .map(|w| w["label"].to_string())
        .collect();
    assert_eq!(labels.len(), 2, "{labels:?}");
}

#[test]
fn the_same_label_in_two_projects() {
    let island = Island::new();
    let shop = island.repository("shop");
    let blog = island.repository("blog");
    let (in_shop, in_blog) = (shop.up("fix"), blog.up("fix"));
    assert_ne!(in_shop, in_blog);
    island.sh(&in_shop, "echo shop > which").ok();
    island.sh(&in_blog, "echo blog > which").ok();
    let which = |repository: &Repository, name: &str| {
        let ran = repository.holm(&["exec", name, "--", "cat", "which"]);
        ran.ok().out()
    };
    // In a project's directory its labels come first; anywhere, `project/label` and ids are clear.
    assert_eq!(which(&shop, "fix"), "shop");
    assert_eq!(which(&blog, "fix"), "blog");
    assert_eq!(which(&shop, "blog/fix"), "blog");
    assert_eq!(which(&shop, &in_blog), "blog");
    let ran = island.holm(&["show", "fix", "--json"]);
    assert!(ran.stdout.is_empty());
    let error = ran.error(4);
    assert_eq!(error["code"], "ambiguous");
    for candidate in [&in_shop, &in_blog, "shop/fix", "blog/fix"] {
        assert!(
            error["message"].as_str().unwrap().contains(candidate),
            "{error}"
        );
    }
    // Nothing dangerous happens to either by a guess.
    for verb in [
        &["stop", "fix"][..],
        &["rm", "fix"],
        &["restart", "fix"],
        &["rename", "fix", "other"],
    ] {
        assert_eq!(
            island.holm(&[verb, &["--json"]].concat()).error(4)["code"],
            "ambiguous"
        );
    }
    assert!(
        all(&island)
            .iter()
            .all(|workspace| workspace["state"] == "running")
    );
    // One leaves, and the word is clear again.
    island.holm(&["rename", "blog/fix", "other"]).ok();
    let shown = island.holm(&["show", "fix", "--json"]).json();
    assert_eq!(id(&shown), in_shop);
}

#[test]
fn ids_prefixes_and_what_is_not_there() {
    let island = Island::new();
    let repository = island.repository("shop");
    // 33 ids: two of them begin with the same two characters.
    let made = repository.holm(&["up", "-n", "33", "x", "--json"]).json();
    let ids: Vec<&str> = made["workspaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(id)
        .collect();
    let shared = |prefix: &str| ids.iter().filter(|id| id.starts_with(prefix)).count();
    let twice = ids
        .iter()
        .map(|id| &id[..2])
        .find(|prefix| shared(prefix) > 1)
        .unwrap();
    let error = island.holm(&["show", twice, "--json"]).error(4);
    assert_eq!(error["code"], "ambiguous");
    let named = |id: &&&str| error["message"].as_str().unwrap().contains(**id);
    assert_eq!(ids.iter().filter(named).count(), shared(twice));
    let one = ids[0];
    let length = (2..13).find(|length| shared(&one[..*length]) == 1).unwrap();
    let shown = island.holm(&["show", &one[..length], "--json"]).json();
    assert_eq!(id(&shown), one);
    // What looks like a path or a pattern is no name.
    for unknown in [
        "nothing",
        "w000000000000",
        "shop/nothing",
        "no/x-1",
        "..",
        "*",
        "x-",
        "",
        ".",
        "X-1",
    ] {
        let ran = island.holm(&["show", unknown, "--json"]);
        assert!(ran.stdout.is_empty());
        let error = ran.error(3);
        assert_eq!(error["code"], "workspace_not_found", "{unknown}");
    }
    let near = island.holm(&["show", "x-3x", "--json"]).error(3);
    assert!(near["hint"].as_str().unwrap().contains("`x-3`"), "{near}");
}

#[test]
fn labels_that_cannot_be() {
    let island = Island::new();
    let repository = island.repository("shop");
    let long = "a".repeat(41);
    for label in [
        "Fix",
        "a_b",
        "a b",
        "-a",
        "a-",
        "a--b",
        "holm",
        "größe",
        "w4k9m2p7q3r8t",
        "",
        "a/b",
        "..",
        &long,
    ] {
        let ran = repository.holm(&["up", "--json", "--", label]);
        assert!(ran.stdout.is_empty(), "{label}");
        assert_eq!(ran.error(2)["code"], "invalid_label", "{label}");
    }
    let longest = "a".repeat(40);
    repository.up(&longest);
    let error = repository
        .holm(&["rename", &longest, "Not", "--json"])
        .error(2);
    assert_eq!(error["code"], "invalid_label");
    repository.up("x");
    let error = repository
        .holm(&["rename", "x", &longest, "--json"])
        .error(4);
    assert_eq!(error["code"], "label_taken");
}

#[test]
fn a_label_used_again_reaches_nothing_of_the_old_workspace() {
    let island = Island::new();
    let repository = island.repository("shop");
    let old = repository.up("x");
    island
        .sh(
            "x",
            "echo old > file; echo old > ~/note; echo old > /tmp/t; git stash list; \
                    git tag old; (sleep 1000 &)",
        )
        .ok();
    island.holm(&["rm", "x", "--force"]).ok();
    let new = repository.up("x");
    assert_ne!(new, old);
    let script = "ls -A; ls -A ~ /tmp; git tag; ps ax | grep -c '[s]leep 1000'";
    let seen = island.sh("x", script).out();
    assert!(
        !seen.contains("old") && !seen.contains("file") && !seen.contains("note"),
        "{seen}"
    );
    assert!(seen.ends_with('0'), "{seen}");
    // The old id means the old workspace, which is removed.
    let shown = island.holm(&["show", &old, "--json"]).json();
    assert_eq!(shown["state"], "removed");
    for verb in ["stop", "start", "restart", "rm"] {
        let error = island.holm(&[verb, &old, "--json"]).error(3);
        assert_eq!(error["code"], "workspace_not_found", "{verb}");
    }
    let error = island.holm(&["exec", &old, "--json", "--", "true"]);
    assert_eq!(error.code, Some(3), "{error:?}");
    assert_eq!(
        island.holm(&["show", "x", "--json"]).json()["state"],
        "running"
    );
}

#[test]
fn rename_changes_the_label_and_nothing_else() {
    let island = Island::new();
    let repository = island.repository("shop");
    let before = repository.holm(&["up", "old", "--json"]).json();
    island.sh("old", "echo 1 > one; (sleep 1000 &)").ok();
    let renamed = island.holm(&["rename", "old", "new", "--json"]).json();
    assert_eq!(renamed["label"], "new");
    let mut after = island.holm(&["show", "new", "--json"]).json();
    let mut before = before;
    for changing in [
        "label",
        "last_used_at",
        "created",
        "ms",
        "dirty",
        "notes",
        "numbers",
    ] {
        before.as_object_mut().unwrap().remove(changing);
        after.as_object_mut().unwrap().remove(changing);
    }
    assert_eq!(after, before);
    let script = "cat one; git branch --show-current; ps ax | grep -c '[s]leep 1000'";
    assert_eq!(island.sh("new", script).ok().out(), "1\nholm/old\n1");
    island.holm(&["show", "old", "--json"]).error(3);
    assert_ne!(repository.up("old"), id(&before));
}

#[test]
fn files_and_sockets_are_named_by_ids() {
    let island = Island::new();
    let repository = island.repository("telling-project");
    let id = repository.up("telling-label");
    // What the workspace itself sees (its branch, the way to its root) says the label, of course.
    let script = "find . -path '*/upper/*' -prune -o -path '*/home/*' -prune -o -name '*telling*' -print; true";
    assert_eq!(
        island
            .run(&island.holm_home(), "sh", &["-c", script])
            .ok()
            .out(),
        ""
    );
    assert!(island.data().join("workspaces").join(&id).is_dir());
    assert!(
        island
            .holm_home()
            .join("run/w")
            .join(format!("{id}.sock"))
            .exists()
    );
}

fn project(repository: &Repository, label: &str) -> (String, String) {
    let made = repository.holm(&["up", label, "--json"]).json();
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    (text("project_id"), text("project"))
}

fn at<'a>(island: &'a Island, name: &str) -> Repository<'a> {
    Repository {
        island,
        path: island.home().join("src").join(name),
    }
}

#[test]
fn a_moved_repository_is_the_same_project() {
    let island = Island::new();
    let repository = island.repository("shop");
    let (first, _) = project(&repository, "x");
    assert_eq!(
        repository.git(&["config", "--local", "holm.projectId"]),
        first
    );
    std::fs::rename(&repository.path, island.home().join("src/moved")).unwrap();
    let moved = at(&island, "moved");
    let (second, name) = project(&moved, "y");
    assert_eq!((&*second, &*name), (&*first, "shop"));
    assert_eq!(all(&island).len(), 2);
    let projects = island.holm(&["project", "ls", "--json"]).json();
    assert_eq!(
        projects["projects"][0]["path"],
        moved.path.to_str().unwrap()
    );
    assert_eq!(projects["projects"][0]["workspaces"], 2);
    // Existing workspaces stay where they were.
    assert_eq!(
        island.sh("x", "pwd").ok().out(),
        repository.path.to_str().unwrap()
    );
    assert_eq!(moved.holm(&["up", "x", "--json"]).json()["created"], false);
    // At the old place something else can live.
    let other = Repository::new(&island, repository.path.clone());
    let (third, name) = project(&other, "x");
    assert_ne!(third, first);
    assert_eq!(name, "shop-2");
}

#[test]
fn a_second_clone_and_a_copied_directory_are_projects_of_their_own() {
    let island = Island::new();
    let repository = island.repository("shop");
    let (original, _) = project(&repository, "x");
    let source = repository.path.to_str().unwrap();
    island
        .run(
            &island.home().join("src"),
            "git",
            &["clone", "-q", source, "clone"],
        )
        .ok();
    let (cloned, _) = project(&at(&island, "clone"), "x");
    island
        .run(&island.home().join("src"), "cp", &["-a", source, "copy"])
        .ok();
    let copy = at(&island, "copy");
    assert_eq!(copy.git(&["config", "holm.projectId"]), original);
    let (copied, _) = project(&copy, "x");
    assert_eq!(copy.git(&["config", "holm.projectId"]), copied);
    let ids = BTreeSet::from([&original, &cloned, &copied]);
    assert_eq!(ids.len(), 3);
    // The original is not disturbed, and each finds its own `x`.
    assert_eq!(project(&repository, "x").0, original);
    assert_eq!(project(&copy, "x").0, copied);
    assert_eq!(all(&island).len(), 3);
    let root = |repository: &Repository| repository.holm(&["exec", "x", "--", "pwd"]).ok().out();
    assert_eq!(root(&copy), copy.path.to_str().unwrap());
    assert_eq!(root(&repository), source);
    // The copy's original is removed; the copy stays.
    std::fs::rename(&repository.path, island.home().join("away")).unwrap();
    assert_eq!(project(&copy, "x").0, copied);
}

#[test]
fn an_id_in_the_users_own_git_configuration_does_not_make_all_one_project() {
    let island = Island::new();
    let (shop, blog) = (island.repository("shop"), island.repository("blog"));
    let (first, _) = project(&shop, "x");
    island
        .run(
            &island.home(),
            "git",
            &["config", "--global", "holm.projectId", &first],
        )
        .ok();
    let (second, _) = project(&blog, "x");
    assert_ne!(first, second);
}

#[test]
fn project_names_are_valid_and_unique() {
    let island = Island::new();
    let check = |directory: &str, expect: &str| {
        let repository = island.repository(directory);
        let (_, name) = project(&repository, "x");
        assert_eq!(name, expect, "{directory}");
    };
    check("shop", "shop");
    check("other/shop", "shop-2");
    check("My_Großes Projekt", "my-gro-es-projekt");
    let named = island.repository("directory");
    named.write("holm.toml", "[project]\nname = \"called\"\n");
    named.commit("named");
    assert_eq!(project(&named, "x").1, "called");
    let shown = Ran::new(&mut island.holm_command(&named.path, &["show", "called/x", "--json"]));
    assert_eq!(shown.json()["project"], "called");
}
