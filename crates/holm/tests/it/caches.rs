//! `[caches]`: warm reads, private writes; and sharing with all workspaces of a project.

use crate::support::{Island, Repository};

fn repository<'a>(island: &'a Island, caches: &str) -> Repository<'a> {
    let repository = island.repository("shop");
    island.make_dir("home/.deps");
    island.make_dir("home/.deps/pkg");
    island.write("home/.deps/pkg/one", "one\n");
    island.write("home/.deps/index", "index\n");
    repository.write(".gitignore", ".cache/\n");
    repository.write("holm.toml", format!("[caches]\n{caches}\n"));
    repository.commit("configured");
    repository
}

#[test]
fn a_fork_is_warm_and_its_writes_are_private_attack_176() {
    let island = Island::new();
    let fork = "deps = { path = \"~/.deps\", policy = \"fork\" }";
    let repository = repository(&island, fork);
    // The user's files are not copied without approval.
    repository.holm(&["up", "a"]).exits(4);
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("a");
    repository.up("b");
    let look = "cat ~/.deps/pkg/one ~/.deps/index; ls ~/.deps ~/.deps/pkg | tr '\\n' ' '";
    let plain = "one\nindex\n/home/.deps: index pkg";
    let seen = island.sh("a", look).ok().out();
    assert!(seen.starts_with("one\nindex\n"), "{seen} {plain}");
    let poison = "echo poison > ~/.deps/pkg/one; echo poison > ~/.deps/pkg/new; rm ~/.deps/index;
        mv ~/.deps/pkg ~/.deps/pkg2 && mv ~/.deps/pkg2 ~/.deps/pkg";
    island.sh("a", poison).ok();
    assert_eq!(island.sh("b", look).ok().out(), seen);
    repository.up("c");
    assert_eq!(island.sh("c", look).ok().out(), seen);
    // Neither does the user's own directory change.
    let own = island.run(
        &island.home(),
        "sh",
        &["-c", "cat .deps/pkg/one; ls .deps .deps/pkg"],
    );
    let own = own.ok().out();
    assert!(
        own.starts_with("one\n") && own.contains("index") && !own.contains("new"),
        "{own}"
    );
    island.holm(&["restart", "a"]).ok();
    let kept = island.sh("a", "cat ~/.deps/pkg/one ~/.deps/pkg/new; ls ~/.deps");
    assert_eq!(kept.ok().out(), "poison\npoison\npkg");
    // There is one snapshot for all workspaces, deleted when none uses it.
    let disk = island.holm(&["df", "--json"]).json();
    assert_eq!(disk["layers"].as_array().unwrap().len(), 1, "{disk}");
    assert_eq!(disk["layers"][0]["used_by"], 3);
    island.holm(&["rm", "a", "b", "c"]).ok();
    let gone = island.holm(&["gc", "--all", "--json"]).json();
    let gone = gone["removed"].as_array().unwrap().iter();
    assert_eq!(gone.filter(|gone| gone["kind"] == "layer").count(), 1);
}

#[test]
fn what_is_shared_can_be_poisoned_and_that_is_said_attack_176() {
    let island = Island::new();
    let shared = "deps = { path = \"~/.deps\", policy = \"shared\" }";
    let repository = repository(&island, shared);
    repository.holm(&["trust", "--yes"]).ok();
    let made = repository.holm(&["up", "a", "--json"]).json();
    let notes = made["notes"].to_string();
    assert!(notes.contains("the cache deps is shared"), "{notes}");
    repository.up("b");
    assert_eq!(island.sh("a", "ls -A ~/.deps").ok().out(), "");
    island.sh("a", "echo poison > ~/.deps/one").ok();
    assert_eq!(island.sh("b", "cat ~/.deps/one").ok().out(), "poison");
    // It is a directory of the project, not the user's.
    assert!(!island.home().join(".deps/one").exists());
    assert!(island.home().join(".deps/index").exists());
}

#[test]
fn what_is_not_there_begins_empty_and_places_may_be_anywhere() {
    let island = Island::new();
    let caches = "absent = { path = \"~/.absent\" }\nown = { path = \".cache/deps\" }\n\
        alone = { path = \"/srv/cache\", policy = \"isolated\" }";
    let repository = repository(&island, caches);
    repository.write(".cache/deps/x", "warm\n");
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("a");
    repository.up("b");
    let script = "ls -A ~/.absent /srv/cache; cat .cache/deps/x; \
        for place in ~/.absent /srv/cache .cache/deps; do echo mine > $place/y || exit 1; done; \
        git status --porcelain";
    for label in ["a", "b"] {
        let seen = island.sh(label, script).ok().out();
        assert_eq!(seen.matches("warm").count(), 1, "{seen}");
        assert!(!seen.contains("y\n") && !seen.contains("??"), "{seen}");
    }
    // Untrusted, only the project's own caches are used.
    repository.write(
        "holm.toml",
        "[caches]\nown = { path = \".cache/deps\" }\nx = { path = \"~/.deps\" }\n",
    );
    repository.commit("another");
    repository.holm(&["up", "c", "--untrusted"]).ok();
    let seen = island.sh("c", "cat .cache/deps/x; ls -A ~/.deps 2>/dev/null | wc -l");
    assert_eq!(seen.ok().out(), "warm\n0");
}

#[test]
fn setup_reads_caches_and_its_layer_holds_nothing_of_them() {
    let island = Island::new();
    let repository = repository(&island, "deps = { path = \"~/.deps\" }");
    let config = "[project]\nsetup = [\"mkdir node_modules && cp ~/.deps/pkg/one node_modules/one && echo x > ~/.deps/made\"]\n\
        [caches]\ndeps = { path = \"~/.deps\" }\n";
    repository.write("holm.toml", config);
    repository.write(".gitignore", "node_modules\n");
    repository.commit("set up");
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("a");
    let seen = island.sh("a", "cat node_modules/one; ls ~/.deps | tr '\\n' ' '");
    assert_eq!(seen.ok().out(), "one\nindex pkg ");
}

/// A repository can commit links, and choose its root; neither makes the user's files the project's.
#[test]
fn a_cache_of_the_project_is_never_the_users_files() {
    let island = Island::new();
    let config =
        "l = { path = \"linked\" }\nd = { path = \"dir/sub\" }\nown = { path = \".cache\" }";
    let repository = repository(&island, config);
    repository.write(".cache/x", "warm\n");
    let home = island.home();
    std::os::unix::fs::symlink(home.join(".deps"), repository.path.join("linked")).unwrap();
    island.make_dir("home/secret");
    island.make_dir("home/secret/sub");
    island.write("home/secret/sub/key", "PRIVATE\n");
    std::os::unix::fs::symlink(home.join("secret"), repository.path.join("dir")).unwrap();
    repository.commit("links");
    let made = repository.holm(&["up", "a", "--json"]).json();
    let notes = made["notes"].to_string();
    for name in ["the cache l begins empty", "the cache d begins empty"] {
        assert!(notes.contains(name), "{notes}");
    }
    let seen = island.sh(
        "a",
        "cat linked/index dir/sub/key; ls -A linked dir/sub; true",
    );
    let seen = seen.ok().out();
    assert!(
        !seen.contains("index") && !seen.contains("PRIVATE"),
        "{seen}"
    );
    assert_eq!(island.sh("a", "cat .cache/x").ok().out(), "warm");
    // With a root above it, approval is needed.
    let secret = home.join("secret");
    let root = format!(
        "[project]\nroot = \"{}\"\n[caches]\nk = {{ path = \"{}\", policy = \"fork\" }}\n",
        home.join("secret").display(),
        secret.join("sub").display()
    );
    repository.write("holm.toml", root);
    repository.commit("a wide root");
    let error = repository.holm(&["up", "b", "--json"]).error(4);
    assert!(error["message"].to_string().contains("caches.k"), "{error}");
    // So is the repository's own directory of git, with its remotes and their credentials.
    repository.write(
        "holm.toml",
        "[caches]\nk = { path = \".git\", policy = \"fork\" }\n",
    );
    repository.commit("git");
    let error = repository.holm(&["up", "b", "--json"]).error(4);
    assert!(error["message"].to_string().contains("caches.k"), "{error}");
}
