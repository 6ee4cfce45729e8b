//! A live workspace moves to another commit: its tree and its branch, its refusals, what it keeps.

use crate::support::{Island, Repository};
use serde_json::Value;

/// `main` and `feature`, which differ in kinds of entries: a directory that becomes a file, a file
/// that becomes a directory, a moved one, an executable, a symlink, and one that only `main` has.
fn with_branches(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("lib/deep/one.txt", "one on main\n");
    repository.write("lib/deep/two.txt", "two\n");
    repository.write("name", "a file\n");
    repository.write("moved/here.txt", "the same content in both\n");
    repository.write("only-main.txt", "main\n");
    repository.write("both.txt", "main\n");
    repository.commit("main");
    repository.git(&["switch", "-q", "-c", "feature"]);
    repository.git(&["rm", "-q", "-r", "lib", "name", "only-main.txt"]);
    repository.write("lib", "a file where a directory was\n");
    repository.write("name/in.txt", "a directory where a file was\n");
    repository.git(&["mv", "moved", "elsewhere"]);
    repository.write("both.txt", "feature\n");
    repository.write("run.sh", "#!/bin/sh\necho ran\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(repository.path.join("run.sh"), executable).unwrap();
    std::os::unix::fs::symlink("both.txt", repository.path.join("link")).unwrap();
    repository.commit("feature");
    repository.git(&["checkout", "-q", "-f", "main"]);
    repository
}

/// Everything in the tree with its content, and what git says of it.
fn tree(island: &Island, workspace: &str) -> String {
    let script = "find . -path ./.git -prune -o -print | sort; \
        find . -path ./.git -prune -o -type f -exec cksum {} + | sort; git status --porcelain";
    island.sh(workspace, script).ok().out()
}

fn git(island: &Island, arguments: &[&str]) -> String {
    island
        .inside("x", &[&["git"], arguments].concat())
        .ok()
        .out()
}

#[test]
fn the_tree_and_the_branch_follow_and_what_was_before_is_kept() {
    let island = Island::new();
    let repository = with_branches(&island);
    let fresh = |label: &str, from: &str| {
        repository
            .holm(&["up", label, "--from", from, "--json"])
            .json();
        tree(&island, label)
    };
    let (main, feature) = (fresh("main", "main"), fresh("feature", "feature"));
    repository.up("x");
    island
        .sh(
            "x",
            "echo mine > mine.txt && git add -A && git commit -qm mine",
        )
        .ok();
    let mine = git(&island, &["rev-parse", "HEAD"]);

    let moved = repository
        .holm(&["assign", "x", "feature", "--json"])
        .json();
    assert_eq!(tree(&island, "x"), feature);
    let commit = repository.git(&["rev-parse", "feature"]);
    assert_eq!(
        (&moved["commit"], &moved["ref"]),
        (&commit.clone().into(), &"feature".into())
    );
    assert_eq!(moved["move"]["from"], mine.as_str());
    assert_eq!(git(&island, &["symbolic-ref", "HEAD"]), "refs/heads/holm/x");
    assert_eq!(git(&island, &["rev-parse", "HEAD"]), commit);
    let before = git(
        &island,
        &["for-each-ref", "--format=%(objectname)", "refs/holm/before"],
    );
    assert_eq!(before, mine, "commits of its own are not lost");
    let here: Value = island.inside("x", &["holm", "here", "--json"]).json();
    assert_eq!(here["commit"], commit.as_str());

    // Differences are against the new start.
    island.sh("x", "echo more >> both.txt").ok();
    let changes = repository.holm(&["changes", "x", "--json"]).json();
    assert_eq!(changes["changes"].as_array().unwrap().len(), 1, "{changes}");
    island.sh("x", "git checkout -q both.txt").ok();

    // Also after a restart, and back again; the directories are those of that branch.
    repository.holm(&["restart", "x"]).ok();
    assert_eq!(tree(&island, "x"), feature);
    repository.holm(&["assign", "x", "main"]).ok();
    assert_eq!(tree(&island, "x"), main);
    repository.holm(&["restart", "x"]).ok();
    assert_eq!(tree(&island, "x"), main);
    // No new workspace starts from its base any more, but it stays; the other is deleted.
    repository.holm(&["assign", "x", "feature"]).ok();
    repository.holm(&["rm", "main", "feature"]).ok();
    repository.holm(&["gc", "--all"]).ok();
    let disk = repository.holm(&["df", "--json"]).json();
    let bases = disk["bases"].as_array().unwrap().iter();
    let bases: Vec<&str> = bases.map(|base| base["commit"].as_str().unwrap()).collect();
    assert_eq!(bases, [repository.git(&["rev-parse", "main"])]);
    repository.holm(&["restart", "x"]).ok();
    assert_eq!(tree(&island, "x"), feature);
    // Its earlier commit is work that the user's repository does not have.
    let refused = repository.holm(&["rm", "x", "--json"]).error(4);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("refs/holm/before"),
        "{refused}"
    );
}

#[test]
fn changes_are_refused_or_become_a_stash() {
    let island = Island::new();
    let repository = with_branches(&island);
    repository.up("x");
    island.sh("x", "echo changed >> both.txt; echo new > new.txt; echo staged > staged.txt; git add staged.txt").ok();
    let before = tree(&island, "x");
    let refused = repository
        .holm(&["assign", "x", "feature", "--json"])
        .error(4);
    assert_eq!(refused["code"], "unsaved_work");
    let message = refused["message"].as_str().unwrap();
    for name in ["both.txt", "new.txt", "staged.txt"] {
        assert!(message.contains(name), "{message}");
    }
    assert!(
        refused["hint"].as_str().unwrap().contains("--stash"),
        "{refused}"
    );
    assert_eq!(tree(&island, "x"), before, "nothing was touched");
    let shown = repository.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["ref"], "main");
    assert_eq!(shown["notes"], Value::Null, "nothing is under way");

    let moved = repository
        .holm(&["assign", "x", "feature", "--stash", "--json"])
        .json();
    assert_eq!(git(&island, &["status", "--porcelain"]), "");
    assert_eq!(island.sh("x", "cat both.txt").ok().out(), "feature");
    let stash = git(&island, &["rev-parse", "refs/stash"]);
    assert_eq!(moved["move"]["stash"], stash.as_str());
    assert!(git(&island, &["stash", "list"]).contains("feature"));
    // It is a stash like any other: back on main it comes back whole.
    repository.holm(&["assign", "x", "main"]).ok();
    git(&island, &["stash", "pop", "--index"]);
    assert_eq!(tree(&island, "x"), before);
}

#[test]
fn what_git_is_in_the_middle_of_is_left_alone() {
    let island = Island::new();
    let repository = with_branches(&island);
    repository.up("x");
    let script = "git branch theirs && echo a > both.txt && git commit -qam a && git switch -q theirs && \
        echo b > both.txt && git commit -qam b && git switch -q holm/x && ! git merge theirs";
    island.sh("x", script).ok();
    let refused = repository
        .holm(&["assign", "x", "feature", "--stash", "--json"])
        .error(4);
    assert!(
        refused["message"].as_str().unwrap().contains("MERGE_HEAD"),
        "{refused}"
    );
    git(&island, &["merge", "--abort"]);
    repository.holm(&["assign", "x", "feature"]).ok();
    // Another branch keeps its commits; the workspace is on its own branch again.
    git(&island, &["switch", "-q", "theirs"]);
    let theirs = git(&island, &["rev-parse", "theirs"]);
    repository.holm(&["assign", "x", "main"]).ok();
    assert_eq!(git(&island, &["symbolic-ref", "--short", "HEAD"]), "holm/x");
    assert_eq!(git(&island, &["rev-parse", "theirs"]), theirs);
    // Commits that no branch has are kept, too.
    island
        .sh(
            "x",
            "git checkout -q --detach && git commit -q --allow-empty -m lonely",
        )
        .ok();
    let lonely = git(&island, &["rev-parse", "HEAD"]);
    repository.holm(&["assign", "x", "feature"]).ok();
    let kept = git(
        &island,
        &["for-each-ref", "--format=%(objectname)", "refs/holm/before"],
    );
    assert!(kept.contains(&lonely), "{kept}");
}

#[test]
fn a_ref_that_is_not_there_and_one_that_is_there_already() {
    let island = Island::new();
    let repository = with_branches(&island);
    repository.up("x");
    let missing = repository
        .holm(&["assign", "x", "nothing", "--json"])
        .error(3);
    assert_eq!(missing["code"], "ref_not_found");
    repository
        .holm(&["assign", "x", "--", "--upload-pack=touch /tmp/x"])
        .exits(3);
    let ran = repository.holm(&["assign", "x", "main"]).ok();
    assert!(ran.stderr.contains("already"), "{ran:?}");
    // Where nothing is to be switched changes are refused or stashed, too.
    island.sh("x", "echo new > new.txt").ok();
    let refused = repository.holm(&["assign", "x", "main", "--json"]).error(4);
    assert_eq!(refused["code"], "unsaved_work", "{refused}");
    assert!(
        refused["message"].as_str().unwrap().contains("new.txt"),
        "{refused}"
    );
    assert_eq!(island.sh("x", "cat new.txt").ok().out(), "new");
    let same = repository.holm(&["sync", "x"]).ok();
    assert!(same.stderr.contains("already"), "{same:?}");
    let stashed = repository
        .holm(&["assign", "x", "main", "--stash", "--json"])
        .json();
    assert!(stashed["move"]["stash"].is_string(), "{stashed}");
    assert_eq!(git(&island, &["status", "--porcelain"]), "");
    // By its commit, and of a workspace that is stopped.
    repository.holm(&["stop", "x"]).ok();
    let commit = repository.git(&["rev-parse", "feature"]);
    let moved = repository.holm(&["assign", "x", &commit, "--json"]).json();
    assert_eq!(
        (&moved["ref"], &moved["state"]),
        (&Value::Null, &"running".into())
    );
    assert_eq!(island.sh("x", "./run.sh").ok().out(), "ran");
    let events = repository.holm(&["events", "--json"]).ok().out();
    assert!(events.contains("workspace.moved"), "{events}");
}

/// Programs inside own the files of the workspace, and so its hooks and settings: these run inside,
/// if at all.
#[test]
fn hooks_and_settings_of_the_workspace_do_nothing_outside() {
    let island = Island::new();
    let repository = with_branches(&island);
    repository.up("x");
    let host = island.home().join("host-was-here");
    let script = format!(
        "mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch {} ~/hook-ran\\n' > .git/hooks/post-checkout; \
         chmod +x .git/hooks/post-checkout; git config core.fsmonitor 'touch {}'; \
         git config filter.evil.smudge 'touch {} ~/filter-ran; cat'; \
         echo '* filter=evil' > .git/info/attributes",
        host.display(),
        host.display(),
        host.display()
    );
    island.sh("x", &script).ok();
    repository.holm(&["assign", "x", "feature"]).ok();
    assert!(!host.exists());
    // The filter is how the tree is laid out, and ran where it can do no harm.
    island
        .sh("x", "test -e ~/filter-ran && ! test -e ~/hook-ran")
        .ok();
    assert_eq!(island.sh("x", "cat both.txt").ok().out(), "feature");
}

#[test]
fn protected_paths_change_with_the_commit_and_stay_protected() {
    let island = Island::new();
    let repository = island.repository("shop");
    let config = "[project]\nprotected_paths = [\"AGENTS.md\", \"infra\", \"later\"]\n\
        [services.web]\nrun = \"cat infra/prod/deploy > ~/seen; exec sleep 1000\"\n";
    repository.write("holm.toml", config);
    repository.write("AGENTS.md", "be careful\n");
    repository.write("infra/prod/deploy", "main\n");
    repository.write("code", "main\n");
    repository.commit("main");
    repository.git(&["switch", "-q", "-c", "plain"]);
    repository.write("code", "plain\n");
    repository.commit("plain");
    repository.git(&["switch", "-q", "-c", "feature"]);
    repository.write("AGENTS.md", "be bold\n");
    repository.write("infra/prod/deploy", "feature\n");
    repository.write("later/new", "new\n");
    repository.commit("feature");
    repository.git(&["switch", "-q", "main"]);
    repository.up("x");
    let pid = || {
        island
            .sh("x", "cat /proc/1/stat | cut -d' ' -f22")
            .ok()
            .out()
    };
    let begun = pid();
    let moved = repository.holm(&["assign", "x", "plain", "--json"]).json();
    assert_eq!(moved["move"]["restarted"], false);
    assert_eq!(pid(), begun, "it went on");

    let moved = repository
        .holm(&["assign", "x", "feature", "--json"])
        .json();
    assert_eq!(moved["move"]["restarted"], true, "{moved}");
    let seen = island.sh(
        "x",
        "cat AGENTS.md infra/prod/deploy later/new ~/seen; git status --porcelain",
    );
    assert_eq!(seen.ok().out(), "be bold\nfeature\nnew\nfeature");
    for attack in [
        "echo x > AGENTS.md",
        "echo x > infra/prod/deploy",
        "mv infra elsewhere",
        "touch later/x",
        "rm -r later",
    ] {
        assert_ne!(island.sh("x", attack).code, Some(0), "{attack}");
    }
    // Where they go away, the place stays closed.
    repository.holm(&["assign", "x", "main"]).ok();
    assert_eq!(
        island.sh("x", "cat AGENTS.md infra/prod/deploy").ok().out(),
        "be careful\nmain"
    );
    assert_ne!(
        island.sh("x", "mkdir -p later && touch later/x").code,
        Some(0)
    );
    assert_eq!(git(&island, &["status", "--porcelain"]), "");
}

#[test]
fn sync_goes_forward_or_says_why_not() {
    let island = Island::new();
    let repository = with_branches(&island);
    let id = repository.up("x");
    let same = repository.holm(&["sync", "x"]).ok();
    assert!(same.stderr.contains("already"), "{same:?}");
    // Programs name a ref alone; the daemon finds its commit in the user's repository.
    let over_http = |route: &str, reference: &str| {
        let path = format!("/api/v1/workspaces/{id}/{route}");
        let body = format!("{{\"ref\":\"{reference}\"}}");
        let (status, body) = island.ask("POST", &path, body.as_bytes());
        let text = String::from_utf8(body).unwrap();
        assert_eq!(status, 200, "{text}");
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert!(last["moved"].is_object(), "{text}");
    };
    over_http("assign", "feature");
    assert_eq!(island.sh("x", "cat both.txt").ok().out(), "feature");
    over_http("assign", "main");
    repository.write("http.txt", "by a program\n");
    repository.commit("for a program");
    over_http("sync", "main");
    assert_eq!(island.sh("x", "cat http.txt").ok().out(), "by a program");
    repository.write("new.txt", "new\n");
    repository.commit("newer");
    let newest = repository.head();
    let moved = repository.holm(&["sync", "x", "--json"]).json();
    assert_eq!(
        (&moved["commit"], &moved["ref"]),
        (&newest.clone().into(), &"main".into())
    );
    assert_eq!(island.sh("x", "cat new.txt").ok().out(), "new");
    assert_eq!(git(&island, &["rev-parse", "HEAD"]), newest);
    assert_eq!(git(&island, &["symbolic-ref", "--short", "HEAD"]), "holm/x");

    // With changes it stays where it is.
    island.sh("x", "echo mine > mine.txt").ok();
    repository.write("new.txt", "newer\n");
    repository.commit("newest");
    let refused = repository.holm(&["sync", "x", "--json"]).error(4);
    assert_eq!(refused["code"], "unsaved_work");
    // The same with commits of its own, whatever is on top of them.
    island.sh("x", "git add -A && git commit -qm mine").ok();
    let refused = repository.holm(&["sync", "x", "--json"]).error(4);
    assert!(
        refused["message"].as_str().unwrap().contains("a commit"),
        "{refused}"
    );
    assert_eq!(island.sh("x", "cat new.txt").ok().out(), "new");
    // A workspace ahead of the branch has nothing to fetch, and keeps the commit it is compared
    // with.
    repository.git(&["reset", "-q", "--hard", &newest]);
    let ahead = repository.holm(&["sync", "x", "--json"]).json();
    assert_eq!(ahead["commit"], newest.as_str());
    assert_eq!(island.sh("x", "cat mine.txt").ok().out(), "mine");
    // The user's repository is where the branch is looked up, wherever it is typed.
    repository.write("other.txt", "other\n");
    repository.commit("from afar");
    island.sh("x", "git reset -q --hard HEAD~1").ok();
    island.holm(&["sync", "x"]).ok();
    assert_eq!(island.sh("x", "cat other.txt").ok().out(), "other");
    // Somewhere else, or from nowhere.
    git(&island, &["switch", "-q", "-c", "elsewhere"]);
    let refused = repository.holm(&["sync", "x", "--json"]).error(4);
    assert!(
        refused["message"].as_str().unwrap().contains("elsewhere"),
        "{refused}"
    );
    repository.holm(&["up", "bare", "--from", &newest]).ok();
    let refused = repository.holm(&["sync", "bare", "--json"]).error(4);
    assert!(
        refused["hint"]
            .as_str()
            .unwrap()
            .contains("holm assign bare"),
        "{refused}"
    );
}

#[test]
fn a_shallow_clone_moves_too() {
    let island = Island::new();
    let origin = with_branches(&island);
    let clone = island.home().join("src/clone");
    let url = format!("file://{}", origin.path.display());
    let arguments = [
        "clone",
        "-q",
        "--depth=1",
        "--no-single-branch",
        &url,
        "clone",
    ];
    island
        .run(&island.home().join("src"), "git", &arguments)
        .ok();
    let repository = Repository {
        island: &island,
        path: clone,
    };
    repository.up("x");
    repository.holm(&["assign", "x", "origin/feature"]).ok();
    assert_eq!(
        island
            .sh("x", "cat both.txt && git log --oneline | wc -l")
            .ok()
            .out(),
        "feature\n1"
    );
}

#[test]
fn one_that_was_moved_forks_and_begins_anew_with_the_commit_it_was_moved_to() {
    let island = Island::new();
    let repository = island.repository("shop");
    let config = "[project]\nsetup = [\"cp word deps\"]\nsetup_inputs = [\"word\"]\n";
    repository.write("holm.toml", config);
    repository.write(".gitignore", "deps\n");
    repository.write("word", "old\n");
    repository.commit("old");
    repository.git(&["switch", "-q", "-c", "feature"]);
    repository.write("word", "new\n");
    repository.commit("new");
    repository.git(&["switch", "-q", "main"]);
    let words = |workspace: &str| {
        let script = "cat word deps; git status --porcelain; git log -1 --format=%s";
        island.sh(workspace, script).ok().out()
    };
    repository.up("x");
    assert_eq!(words("x"), "old\nold\nold");
    island.holm(&["snapshot", "x", "before"]).ok();
    repository.holm(&["assign", "x", "feature"]).ok();
    assert_eq!(words("x"), "new\nnew\nnew");
    island.holm(&["fork", "x", "y"]).ok();
    assert_eq!(words("y"), "new\nnew\nnew");

    island.sh("x", "echo mine > word; rm deps").ok();
    island.holm(&["reset", "x", "--force"]).ok();
    assert_eq!(words("x"), "new\nnew\nnew");
    island
        .holm(&["reset", "x", "--force", "--at", "before"])
        .ok();
    assert_eq!(words("x"), "old\nold\nold");
    // Nothing of it is left half done.
    island.holm(&["restart", "x"]).ok();
    assert_eq!(words("x"), "old\nold\nold");
}
