//! `diff`, `changes`, `fetch`, `apply` and `merge` as a person uses them.

use crate::support::{Island, Repository, noise, times};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// The documents of `changes`, by path.
#[track_caller]
fn changes(island: &Island, workspace: &str) -> Vec<Value> {
    let document = island.holm(&["changes", workspace, "--json"]).json();
    let mut changes = document["changes"].as_array().unwrap().clone();
    changes.sort_by_key(|change| change["path"].as_str().unwrap().to_owned());
    changes
}

fn change(path: &str, operation: &str, from: Option<&str>, binary: bool) -> Value {
    json!({ "path": path, "operation": operation, "from": from, "binary": binary })
}

/// A repository with a few files of different kinds, and a workspace `x` that changed all of them.
fn changed_workspace(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("kept", "kept\n");
    repository.write("edited", "one\ntwo\nthree\n");
    repository.write("gone", "gone\n");
    repository.write("moved", "a file that moves\nwith some lines\nin it\n");
    repository.write("script", "#!/bin/sh\n");
    repository.write("picture", noise(5000));
    repository.write(".gitignore", "ignored\n");
    repository.commit("files");
    repository.up("x");
    let script = "set -e
        echo four >> edited; git commit -qam 'edit inside'
        rm gone; mkdir sub; git mv moved sub/moved; chmod +x script
        head -c 3000 /dev/urandom > picture
        echo new > 'new file'; ln -s kept link; echo no > ignored
        printf 'x' > \"$(printf 'caf\\351')\"";
    island.sh("x", script).ok();
    repository
}

#[test]
fn changes_names_every_kind_of_change_committed_or_not() {
    let island = Island::new();
    let repository = changed_workspace(&island);
    let status = island.sh("x", "git status --porcelain").ok().out();
    let mut expect = vec![
        change("edited", "update", None, false),
        change("gone", "delete", None, false),
        change("link", "create", None, false),
        change("new file", "create", None, false),
        change("picture", "update", None, true),
        change("script", "update", None, false),
        change("sub/moved", "rename", Some("moved"), false),
    ];
    let mut odd = change("caf\\xe9", "create", None, false);
    odd["path_bytes"] = json!(b"caf\xe9");
    expect.insert(0, odd);
    assert_eq!(changes(&island, "x"), expect);
    // The index inside is unchanged, and a stopped workspace is started.
    assert_eq!(island.sh("x", "git status --porcelain").ok().out(), status);
    repository.holm(&["stop", "x"]).ok();
    assert_eq!(changes(&island, "x"), expect);
    let text = island.holm(&["changes", "x"]).ok().out();
    assert!(text.contains("R sub/moved, was moved"), "{text}");
    let picture = text.lines().find(|line| line.contains("picture"));
    assert!(
        picture.is_some_and(|line| line.ends_with("  binary")),
        "{text}"
    );
    assert!(text.contains("8 files +4 −1 since main"), "{text}");
    repository.up("y");
    assert_eq!(changes(&island, "y"), Vec::<Value>::new());
    island.holm(&["changes", "nobody"]).exits(3);
}

#[test]
fn a_diff_is_a_patch_that_git_applies() {
    let island = Island::new();
    let repository = changed_workspace(&island);
    let patch = island.holm(&["diff", "x"]).ok().stdout;
    let other = island.home().join("other");
    let source = repository.path.to_str().unwrap();
    repository.git(&["clone", "-q", source, other.to_str().unwrap()]);
    let file = island.write("x.patch", &patch);
    let at = |program: &str, arguments: &[&str]| island.run(&other, program, arguments).ok().out();
    at("git", &["apply", file.to_str().unwrap()]);
    at("git", &["add", "-A"]);
    let tree = at("git", &["write-tree"]);
    let inside = island.sh("x", "git add -A && git write-tree").ok().out();
    assert_eq!(tree, inside);
    let document = island.holm(&["diff", "x", "--json"]).json();
    assert!(document["diff"].as_str().unwrap().contains("+four"));
}

#[test]
fn fetch_makes_a_branch_that_git_log_shows_and_rm_knows_it_is_saved() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    island
        .sh(
            "x",
            "echo 1 > a; git add a; git commit -qm inside; git tag t; echo 2 > b",
        )
        .ok();
    island.holm(&["rm", "x"]).exits(4);
    let ran = repository.holm(&["fetch", "x"]).ok();
    assert!(ran.stderr.contains("not committed"), "{}", ran.stderr);
    assert!(ran.stderr.contains('b'), "{}", ran.stderr);
    assert_eq!(
        repository.git(&["log", "-1", "--format=%s", "holm/x"]),
        "inside"
    );
    let branches = repository.git(&["branch", "--format=%(refname:short)", "-a"]);
    assert_eq!(branches, "holm/x\nmain");
    let head = island.sh("x", "git rev-parse HEAD").ok().out();
    assert_eq!(
        repository.git(&["rev-parse", &format!("refs/holm/{id}")]),
        head
    );
    assert_eq!(repository.git(&["tag"]), "", "no tag comes along");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert!(!repository.path.join(".git/FETCH_HEAD").exists());

    let fetched = repository
        .holm(&["fetch", "x", "--commit", "all of it", "--json"])
        .json();
    assert_eq!(fetched["branch"], "holm/x");
    assert_eq!(fetched["uncommitted"], 0);
    let log = repository.git(&["log", "-1", "--format=%s,%an,%ae", "holm/x"]);
    assert_eq!(log, "all of it,Tess Ter,tess@example.org");
    assert_eq!(repository.git(&["show", "holm/x:b"]), "2");
    assert_eq!(island.sh("x", "git status --porcelain").ok().out(), "");
    let again = repository.holm(&["fetch", "x", "--json"]).json();
    assert_eq!(again["moved"], false);
    repository.holm(&["fetch", "x", "--commit", " "]).exits(2);
    // Everything is in the user's repository now. The tag is on a commit that it has.
    island.holm(&["rm", "x"]).ok();
}

#[test]
fn commits_that_were_not_fetched_are_still_unsaved() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    island
        .sh("x", "git commit -q --allow-empty -m one; git branch other")
        .ok();
    repository.holm(&["fetch", "x"]).ok();
    island
        .sh(
            "x",
            "git switch -q other; git commit -q --allow-empty -m two; git switch -q -",
        )
        .ok();
    let error = island.holm(&["rm", "x", "--json"]).error(4);
    assert_eq!(error["code"], "unsaved_work");
    assert!(
        error["message"].as_str().unwrap().contains("other"),
        "{error}"
    );
}

#[test]
fn a_branch_is_moved_only_by_the_workspace_that_wrote_it_last() {
    let island = Island::new();
    let repository = island.repository("shop");
    let first = repository.up("x");
    let commit = |workspace: &str, text: &str| {
        let script = format!("git commit -q --allow-empty -m {text}; git rev-parse HEAD");
        island.sh(workspace, &script).ok().out()
    };
    let one = commit("x", "one");
    repository.holm(&["fetch", "x"]).ok();
    // Amending inside moves it, too.
    let amended = "git commit -q --amend --allow-empty -m amended; git rev-parse HEAD";
    let amended = island.sh("x", amended).ok().out();
    repository.holm(&["fetch", "x"]).ok();
    assert_eq!(repository.git(&["rev-parse", "holm/x"]), amended);
    // A renamed workspace writes another branch and leaves the old one.
    island.holm(&["rename", &first, "renamed"]).ok();
    assert_eq!(
        island.sh(&first, "git branch --show-current").ok().out(),
        "holm/x"
    );
    repository.holm(&["fetch", &first]).ok();
    assert_eq!(repository.git(&["rev-parse", "holm/renamed"]), amended);
    // The label is used again: the branch is the first one's.
    let second = repository.up("x");
    let two = commit(&second, "two");
    let fetched = repository.holm(&["fetch", "x", "--json"]).json();
    let own = format!("holm/x-{}", &second[..4]);
    assert_eq!(fetched["branch"], own.as_str());
    assert_eq!(fetched["avoided"], "holm/x");
    assert_eq!(repository.git(&["rev-parse", "holm/x"]), amended);
    assert_eq!(repository.git(&["rev-parse", &own]), two);
    let three = commit(&second, "three");
    let ran = repository.holm(&["fetch", "x"]).ok();
    assert!(
        ran.stderr.contains("holm/x was last written"),
        "{}",
        ran.stderr
    );
    assert_eq!(repository.git(&["rev-parse", &own]), three);
    // A branch that the user wrote is the user's.
    repository.git(&["update-ref", "refs/heads/holm/renamed", &one]);
    commit(&first, "more");
    let fetched = repository.holm(&["fetch", &first, "--json"]).json();
    assert_eq!(fetched["branch"], format!("holm/renamed-{}", &first[..4]));
    assert_eq!(repository.git(&["rev-parse", "holm/renamed"]), one);
}

#[test]
fn a_branch_that_is_checked_out_is_not_moved_under_the_checkout() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    repository.holm(&["fetch", "x"]).ok();
    repository.git(&["switch", "-q", "holm/x"]);
    island
        .sh("x", "echo 1 > a; git add a; git commit -qm inside")
        .ok();
    let error = repository.holm(&["fetch", "x", "--json"]).error(4);
    assert!(
        error["hint"].as_str().unwrap().contains("refs/holm/"),
        "{error}"
    );
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

#[test]
fn fetch_works_from_elsewhere_and_apply_does_not() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    island.sh("x", "git commit -q --allow-empty -m inside").ok();
    island.holm(&["fetch", "x"]).ok();
    assert_eq!(
        repository.git(&["log", "-1", "--format=%s", "holm/x"]),
        "inside"
    );
    let other = island.repository("other");
    for verb in ["apply", "merge"] {
        let error = other.holm(&[verb, &id, "--json"]).error(4);
        assert!(error["hint"].as_str().unwrap().contains("shop"), "{error}");
    }
}

#[test]
fn apply_brings_the_whole_difference_uncommitted() {
    let island = Island::new();
    let repository = changed_workspace(&island);
    let head = repository.git(&["rev-parse", "HEAD"]);
    let applied = repository.holm(&["apply", "x", "--json"]).json();
    assert_eq!(applied["changed"], 9, "{applied}");
    assert_eq!(repository.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(repository.git(&["diff", "--cached", "--name-only"]), "");
    let inside = island.sh("x", "git add -A && git write-tree").ok().out();
    let mode = |path: &str| {
        repository
            .path
            .join(path)
            .metadata()
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!(mode("script") & 0o111, 0o111);
    assert!(repository.path.join("link").is_symlink());
    assert!(!repository.path.join("gone").exists() && !repository.path.join("ignored").exists());
    // Applied again, there is nothing more to do; and it is exactly the state inside.
    let again = repository.holm(&["apply", "x", "--json"]).json();
    assert_eq!(again["changed"], 0);
    repository.git(&["add", "-A"]);
    assert_eq!(repository.git(&["write-tree"]), inside);
    assert_eq!(
        repository.git(&["branch", "--format=%(refname:short)"]),
        "main"
    );
}

#[test]
fn apply_merges_with_what_was_committed_meanwhile_and_refuses_what_does_not_fit() {
    let island = Island::new();
    let repository = island.repository("shop");
    let lines: String = (1..30).map(|number| format!("line {number}\n")).collect();
    repository.write("text", &lines);
    repository.commit("text");
    repository.up("x");
    repository.up("y");
    island
        .sh("x", "sed -i 's/line 3$/line three/' text; echo new > new")
        .ok();
    island
        .sh("y", "sed -i 's/line 28$/conflict/' text; echo more > more")
        .ok();
    repository.write("text", lines.replace("line 28\n", "line twenty-eight\n"));
    repository.commit("meanwhile");
    repository.holm(&["apply", "x"]).ok();
    let text = std::fs::read_to_string(repository.path.join("text")).unwrap();
    assert!(text.contains("line three") && text.contains("line twenty-eight"));
    let state = |repository: &Repository| {
        let script = "git status --porcelain; git write-tree; find . -path ./.git -prune -o -type f -print0 \
                      | sort -z | xargs -0 sha256sum";
        island
            .run(&repository.path, "sh", &["-c", script])
            .ok()
            .out()
    };
    // The applied change is uncommitted: y touches the same file.
    let before = state(&repository);
    let error = repository.holm(&["apply", "y", "--json"]).error(4);
    assert!(
        error["message"].as_str().unwrap().contains("text"),
        "{error}"
    );
    assert_eq!(state(&repository), before);
    repository.commit("applied");
    let before = state(&repository);
    let error = repository.holm(&["apply", "y", "--json"]).error(4);
    assert_eq!(error["code"], "does_not_apply");
    assert_eq!(state(&repository), before);
}

#[test]
fn apply_leaves_uncommitted_edits_alone() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("a", "a\n");
    repository.write(".gitignore", "secret\n");
    repository.commit("a");
    repository.up("x");
    island.sh("x", "echo inside >> a; echo new > new").ok();
    // An edit of the same file, an untracked file of the same name, an ignored one.
    repository.write("a", "mine\n");
    let error = repository.holm(&["apply", "x", "--json"]).error(4);
    assert!(["dirty_checkout", "does_not_apply"].contains(&error["code"].as_str().unwrap()));
    assert!(!repository.path.join("new").exists());
    repository.git(&["checkout", "-q", "a"]);
    repository.write("new", "mine\n");
    repository.holm(&["apply", "x"]).exits(4);
    assert_eq!(
        std::fs::read(repository.path.join("new")).unwrap(),
        b"mine\n"
    );
    assert_eq!(repository.git(&["diff", "--name-only"]), "");
    std::fs::remove_file(repository.path.join("new")).unwrap();
    repository.write("secret", "mine\n");
    island
        .sh(
            "x",
            "echo theirs > secret; git add -f secret; git commit -qm secret",
        )
        .ok();
    repository.holm(&["apply", "x"]).exits(4);
    assert_eq!(
        std::fs::read(repository.path.join("secret")).unwrap(),
        b"mine\n"
    );
    assert_eq!(repository.git(&["diff", "--name-only"]), "");
    // Edits of other files do not matter, and stay.
    std::fs::remove_file(repository.path.join("secret")).unwrap();
    repository.write("README.md", "edited\n");
    repository.holm(&["apply", "x"]).ok();
    assert_eq!(repository.git(&["diff", "--name-only"]), "README.md\na");
}

#[test]
fn apply_of_a_workspace_that_began_with_the_uncommitted_state() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("a", "one\n");
    repository.commit("a");
    repository.write("a", "one\nmine\n");
    repository.write("untracked", "mine\n");
    repository.holm(&["up", "x", "--dirty"]).ok();
    island
        .sh("x", "echo inside >> a; echo inside >> untracked")
        .ok();
    repository.holm(&["apply", "x"]).ok();
    let read = |path: &str| std::fs::read_to_string(repository.path.join(path)).unwrap();
    assert_eq!(read("a"), "one\nmine\ninside\n");
    assert_eq!(read("untracked"), "mine\ninside\n");
    // And into a clean checkout everything comes.
    repository.git(&["checkout", "-q", "."]);
    std::fs::remove_file(repository.path.join("untracked")).unwrap();
    repository.holm(&["apply", "x"]).ok();
    assert_eq!(read("a"), "one\nmine\ninside\n");
    assert_eq!(read("untracked"), "mine\ninside\n");
}

#[test]
fn merge_is_fetch_and_git_merge_and_wants_a_clean_checkout() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("a", "a\n");
    repository.commit("a");
    repository.up("x");
    let nothing = repository.holm(&["merge", "x"]).ok();
    assert!(nothing.stderr.contains("nothing to merge"), "{nothing:?}");
    assert!(!nothing.stderr.contains("is merged"), "{nothing:?}");
    let nothing = repository.holm(&["merge", "x", "--json"]).json();
    assert_eq!(nothing["merged"], false);
    repository.git(&["branch", "-D", "holm/x"]);
    island
        .sh("x", "echo inside > new; git add new; git commit -qm inside")
        .ok();
    repository.write("a", "edited\n");
    let error = repository.holm(&["merge", "x", "--json"]).error(4);
    assert_eq!(error["code"], "dirty_checkout");
    assert_eq!(
        repository.git(&["branch", "--format=%(refname:short)"]),
        "main"
    );
    repository.commit("mine");
    let merged = repository.holm(&["merge", "x", "--json"]).json();
    assert_eq!(merged["merged"], true);
    assert_eq!(
        merged["head"],
        repository.git(&["rev-parse", "HEAD"]).as_str()
    );
    let log = repository.git(&["log", "-1", "--format=%s"]);
    assert_eq!(log, "Merge branch 'holm/x'");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(repository.git(&["show", "HEAD:new"]), "inside");
    // An untracked file in the way, and a conflict, which is left as git leaves it.
    island
        .sh("x", "echo 1 > untracked; git add .; git commit -qm 2")
        .ok();
    repository.write("untracked", "mine\n");
    repository.holm(&["merge", "x"]).exits(4);
    std::fs::remove_file(repository.path.join("untracked")).unwrap();
    island
        .sh("x", "echo theirs > README.md; git commit -qam 3")
        .ok();
    repository.write("README.md", "mine\n");
    repository.commit("mine, too");
    let error = repository.holm(&["merge", "x", "--json"]).error(1);
    assert!(
        error["hint"].as_str().unwrap().contains("--abort"),
        "{error}"
    );
    repository.git(&["merge", "--abort"]);
}

#[test]
fn thousands_of_changed_files_come_back() {
    let directories = times(30, 100);
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let script = format!(
        "import os
for directory in range({directories}):
    os.mkdir(f'd{{directory}}')
    for number in range(100):
        open(f'd{{directory}}/f{{number}}', 'w').write(f'{{directory}} {{number}}\\n')"
    );
    island.python("x", &script).ok();
    assert_eq!(changes(&island, "x").len(), directories * 100);
    let applied = repository.holm(&["apply", "x", "--json"]).json();
    assert_eq!(applied["changed"], directories * 100);
    let fetched = repository
        .holm(&["fetch", "x", "--commit", "all", "--json"])
        .json();
    assert_eq!(fetched["moved"], true);
    repository.git(&["add", "-A"]);
    let tree = repository.git(&["write-tree"]);
    assert_eq!(repository.git(&["rev-parse", "holm/x^{tree}"]), tree);
}

#[test]
fn a_repository_without_a_commit_brings_its_first() {
    let island = Island::new();
    let repository = Repository::empty(&island, island.home().join("src/new"));
    repository.up("x");
    island.sh("x", "echo 1 > a").ok();
    let error = repository.holm(&["fetch", "x", "--json"]).error(3);
    assert!(
        error["hint"].as_str().unwrap().contains("--commit"),
        "{error}"
    );
    assert_eq!(changes(&island, "x"), [change("a", "create", None, false)]);
    repository.holm(&["apply", "x"]).ok();
    assert_eq!(repository.git(&["status", "--porcelain"]), "?? a");
    repository.holm(&["fetch", "x", "--commit", "first"]).ok();
    assert_eq!(repository.git(&["show", "holm/x:a"]), "1");
}

#[test]
fn submodule_pointers_come_back_and_nested_repositories_are_named() {
    let island = Island::new();
    let repository = island.repository("shop");
    let library = island.repository("library");
    library.commit("second");
    let second = library.head();
    let first = library.git(&["rev-parse", "HEAD~1"]);
    let entry = format!("160000,{first},lib");
    repository.git(&["update-index", "--add", "--cacheinfo", &entry]);
    repository.git(&["commit", "-qm", "pointer"]);
    island.make_dir(repository.path.join("lib"));
    repository.up("x");
    let script = format!(
        "git update-index --cacheinfo 160000,{second},lib; git commit -qm pointer; git init -q nested; touch nested/a"
    );
    island.sh("x", &script).ok();
    assert_eq!(
        changes(&island, "x"),
        [change("lib", "update", None, false)]
    );
    let ran = repository.holm(&["apply", "x"]).ok();
    assert!(ran.stderr.contains("nested"), "{}", ran.stderr);
    assert_eq!(
        repository.git(&["ls-files", "-s", "lib"]),
        format!("160000 {second} 0\tlib")
    );
}

#[test]
fn with_an_older_git_changes_are_merged_by_whole_files() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    repository.write("b", "b\n");
    repository.commit("files");
    repository.up("x");
    repository.up("y");
    island
        .sh("x", "echo inside >> b; echo new > new; git rm -q README.md")
        .ok();
    island.sh("y", "echo inside >> a").ok();
    repository.write("a", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
    repository.commit("meanwhile");
    // A git without `merge-tree --write-tree`, which came with 2.38.
    let folder = island.make_dir("older");
    let older = "#!/bin/sh\nfor word; do [ \"$word\" = --write-tree ] && exit 129; done\nexec /usr/bin/git \"$@\"\n";
    let program = island.write("older/git", older);
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let apply = |workspace: &str| {
        let mut command = island.holm_command(&repository.path, &["apply", workspace, "--json"]);
        crate::support::Ran::new(command.env("PATH", &path))
    };
    assert_eq!(apply("x").json()["changed"], 3);
    let status = repository.git(&["status", "--porcelain"]);
    assert_eq!(status, " D README.md\n M b\n?? new");
    repository.git(&["reset", "-q", "--hard"]);
    repository.git(&["clean", "-qfd"]);
    assert_eq!(apply("y").error(4)["code"], "does_not_apply");
    // A newer one merges the lines.
    repository.holm(&["apply", "y"]).ok();
}

#[test]
fn what_becomes_something_else_and_what_cannot_be_read() {
    let island = Island::new();
    let repository = island.repository("shop");
    for name in ["file", "folder/a", "folder/deep/b", "linked/c", "secret"] {
        repository.write(name, "x\n");
    }
    repository.commit("more");
    repository.up("x");
    let script = "rm file; mkdir -p file/in; echo y > file/in/it; rm -r folder; echo y > folder;
        rm -r linked; ln -s file linked; printf 'new\\n' > 'line
feed'; echo y > staged; git add staged; echo z > staged; git rm -q --cached README.md;
        echo intended > intended; git add -N intended";
    island.sh("x", script).ok();
    let expected = [
        change("file", "delete", None, false),
        change("file/in/it", "create", None, false),
        change("folder", "create", None, false),
        change("folder/a", "delete", None, false),
        change("folder/deep/b", "delete", None, false),
        change("intended", "create", None, false),
        change("line\nfeed", "create", None, false),
        change("linked", "create", None, false),
        change("linked/c", "delete", None, false),
        change("staged", "create", None, false),
    ];
    let by_path = |mut list: Vec<Value>| {
        list.sort_by_key(|one| one["path"].to_string());
        list
    };
    let index = "git diff --cached --name-status; git diff --name-status";
    let before = island.sh("x", index).ok().out();
    assert_eq!(by_path(changes(&island, "x")), by_path(expected.to_vec()));
    // The index inside is as it was.
    assert_eq!(island.sh("x", index).ok().out(), before);
    // Unreadable files are listed, and everything else is there.
    island
        .sh("x", "echo longer >> secret; chmod 000 secret")
        .ok();
    let ran = repository.holm(&["changes", "x"]).ok();
    assert!(ran.stderr.contains("secret"), "{ran:?}");
    assert_eq!(by_path(changes(&island, "x")), by_path(expected.to_vec()));
}
