//! `up --dirty`: exactly the uncommitted state of the checkout, and nothing of it anywhere else.

use crate::support::{Island, Repository};

const STATUS: &str = "git status --porcelain=v1 -z --untracked-files=all";

/// The state outside, as git says it.
fn outside(repository: &Repository) -> Vec<u8> {
    let island = repository.island;
    island
        .run(&repository.path, "sh", &["-c", STATUS])
        .ok()
        .stdout
}

#[track_caller]
fn up_dirty(repository: &Repository, label: &str) {
    repository.holm(&["up", label, "--dirty", "--json"]).ok();
}

/// Status, staged and unstaged differences, and all files are the same inside as outside, byte for
/// byte.
#[track_caller]
fn same_inside(repository: &Repository, label: &str) {
    let files = "git ls-files -z --cached --others --exclude-standard | LC_ALL=C sort -zu | \
                 xargs -0 -n1 sh -c 'test -e \"$0\" || test -L \"$0\" || exit 0; \
                 test -d \"$0\" && exit 0; printf \"%s \" \"$0\" | od -An -c; stat -c \"%A\" -- \"$0\" | cut -c1,4; \
                 test -L \"$0\" && readlink -- \"$0\" || sha256sum < \"$0\"'";
    let island = repository.island;
    for script in [
        STATUS,
        "git status --porcelain=v2 -z --ignored=no",
        "git diff --cached --binary --no-ext-diff HEAD 2>/dev/null || git diff --cached --binary",
        "git diff --binary --no-ext-diff",
        files,
    ] {
        let outside = island.run(&repository.path, "sh", &["-c", script]).ok();
        let inside = island.sh(label, script).ok();
        assert_eq!(inside.out(), outside.out(), "{script}");
        assert_eq!(inside.stdout, outside.stdout, "{script}");
    }
}

/// A checkout with every kind of change.
fn untidy(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    for name in [
        "staged",
        "unstaged",
        "both",
        "deleted",
        "removed",
        "old-name",
        "mode",
        "becomes-link",
        "becomes-directory",
        "kept",
        "sub/a",
        "gone-directory/x",
    ] {
        repository.write(
            name,
            format!("the first content of {name}\nwith\nmore\nlines\n"),
        );
    }
    repository.write("binary", [0, 1, 2, 255, 0, 10, 13]);
    repository.write(".gitignore", "*.log\nignored/\n");
    let script = "ln -s kept link; ln -s kept becomes-file";
    island.run(&repository.path, "sh", &["-c", script]).ok();
    repository.commit("everything");
    let script = r#"set -e
        echo more >> staged; git add staged
        echo more >> unstaged
        echo one >> both; git add both; echo two >> both
        rm deleted; git rm -q removed
        git mv old-name new-name
        chmod +x mode
        rm becomes-link; ln -s kept becomes-link
        rm becomes-directory; mkdir becomes-directory; echo in > becomes-directory/in
        rm becomes-file; echo file > becomes-file
        ln -sfn staged link
        printf '\377\000\001' > binary
        rm -r gone-directory
        echo new > staged-new; git add staged-new; rm staged-new
        echo new > added; git add added; echo newer > added
        echo to be added > intended; echo to be added as well > '*intended*'; git add -N intended '*intended*'
        echo new > untracked; mkdir -p deep/er; echo new > deep/er/untracked
        echo new > 'with space'; echo new > "$(printf 'new\nline')"; echo new > grün
        echo new > "$(printf 'b\377d')"; echo new > 'quo"te\'; echo new > -dash
        echo '#!' > program; chmod +x program; ln -s nowhere dangling; : > empty-file
        mkdir empty-directory
        echo no > a.log; mkdir ignored; echo no > ignored/x
        touch kept"#;
    island.run(&repository.path, "sh", &["-c", script]).ok();
    repository
}

#[test]
fn the_uncommitted_state_arrives_exactly() {
    let island = Island::new();
    let repository = untidy(&island);
    up_dirty(&repository, "x");
    same_inside(&repository, "x");
    let status = String::from_utf8_lossy(&outside(&repository)).into_owned();
    // The counterpart: these states were really there.
    let codes = [
        "M  staged",
        " M unstaged",
        "MM both",
        " D deleted",
        "D  removed",
        "R  new-name",
        " M mode",
        " T becomes-link",
        " T becomes-file",
        "AD staged-new",
        "AM added",
        " A intended",
        " A *intended*",
        "?? untracked",
    ];
    for code in codes {
        assert!(status.contains(code), "{code}: {status:?}");
    }
    for absent in [
        "a.log",
        "ignored",
        "empty-directory",
        "deleted",
        "gone-directory",
    ] {
        island.inside("x", &["test", "!", "-e", absent]).ok();
    }
    // One without `--dirty` has none of it.
    repository.up("plain");
    assert_eq!(island.sh("plain", STATUS).ok().out(), "");
}

#[test]
fn the_users_index_and_objects_are_not_touched() {
    let island = Island::new();
    let repository = untidy(&island);
    repository.holm(&["project", "add"]).ok();
    let script = "find .git -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum; \
                  find . -path ./.git/objects -prune -o -printf '%p %y %m %T@\\n' | LC_ALL=C sort; \
                  find .git/objects | LC_ALL=C sort";
    let look = || {
        island
            .run(&repository.path, "sh", &["-c", script])
            .ok()
            .out()
    };
    let before = look();
    up_dirty(&repository, "x");
    assert_eq!(look(), before);
}

#[test]
fn in_a_subdirectory_all_of_the_checkout_counts() {
    let island = Island::new();
    let repository = untidy(&island);
    repository.holm_in("sub", &["up", "x", "--dirty"]).ok();
    same_inside(&repository, "x");
}

#[test]
fn in_an_empty_repository() {
    let island = Island::new();
    let repository = Repository::empty(&island, island.home().join("src/new"));
    repository.write(".gitignore", "*.log\n");
    repository.write("staged", "staged\n");
    repository.git(&["add", "staged"]);
    repository.write("staged", "and changed\n");
    repository.write("untracked", "untracked\n");
    repository.write("a.log", "ignored\n");
    up_dirty(&repository, "x");
    same_inside(&repository, "x");
    island
        .sh(
            "x",
            "test ! -e a.log && git commit -q -m first && git log --format=%s",
        )
        .ok();
    // An empty state is a state too.
    let bare = Repository::empty(&island, island.home().join("src/nothing"));
    up_dirty(&bare, "y");
    assert_eq!(island.sh("y", "ls -A").ok().out(), ".git");
}

#[test]
fn a_clean_checkout_is_a_state_too() {
    let island = Island::new();
    let repository = island.repository("shop");
    up_dirty(&repository, "x");
    same_inside(&repository, "x");
}

#[test]
fn in_a_linked_worktree_its_own_state_counts() {
    let island = Island::new();
    let main = island.repository("shop");
    main.write("of-main", "");
    main.git(&["worktree", "add", "-q", "-b", "feature", "../feature"]);
    let linked = Repository {
        island: &island,
        path: main.path.with_file_name("feature"),
    };
    linked.write("of-linked", "");
    linked.write("README.md", "staged\n");
    linked.git(&["add", "README.md"]);
    up_dirty(&linked, "x");
    same_inside(&linked, "x");
    island
        .sh("x", "test -e of-linked && test ! -e of-main")
        .ok();
}

#[test]
fn submodules_intent_to_add_and_conflicts_do_not_stop_it() {
    let island = Island::new();
    let library = island.repository("library");
    let repository = island.repository("shop");
    let allow = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
    ];
    repository.git(&[&allow[..], &[library.path.to_str().unwrap(), "lib"]].concat());
    repository.write("both", "base\n");
    repository.commit("with a submodule");
    repository.write("lib/changed-below", "");
    repository.write("intended", "intended\n");
    repository.git(&["add", "--intent-to-add", "intended"]);
    up_dirty(&repository, "x");
    assert_eq!(island.sh("x", "cat intended").ok().out(), "intended");
    let status = "git status --porcelain --ignore-submodules=all; ls -A lib";
    assert_eq!(island.sh("x", status).ok().out(), " A intended");
    std::fs::remove_file(repository.path.join("intended")).unwrap();
    repository.git(&["reset", "-q", "--hard"]);
    repository.git(&["checkout", "-q", "-b", "other"]);
    repository.write("both", "theirs\n");
    repository.commit("theirs");
    repository.git(&["checkout", "-q", "main"]);
    repository.write("both", "ours\n");
    repository.commit("ours");
    island
        .run(&repository.path, "git", &["merge", "-q", "other"])
        .exits(1);
    up_dirty(&repository, "y");
    let conflict = std::fs::read_to_string(repository.path.join("both")).unwrap();
    assert!(conflict.contains("<<<<<<<"));
    assert_eq!(island.sh("y", "cat both").ok().out(), conflict.trim_end());
}

#[test]
fn the_dirty_holm_toml_is_in_force() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[project]\nprotected_paths = [\"README.md\"]\n",
    );
    repository.write("infra/prod", "committed\n");
    repository.commit("configured");
    repository.up("committed");
    island.sh("committed", "echo x > README.md").exits(2);
    island.sh("committed", "echo x > infra/prod").ok();
    repository.write(
        "holm.toml",
        "[project]\nprotected_paths = [\"README.md\", \"infra\", \"absent\"]\n",
    );
    repository.write("infra/prod", "changed\n");
    repository.write("infra/new", "new\n");
    repository.write("README.md", "# changed\n");
    repository.git(&["add", "README.md"]);
    up_dirty(&repository, "x");
    same_inside(&repository, "x");
    assert_eq!(
        island
            .sh("x", "cat infra/prod infra/new README.md")
            .ok()
            .out(),
        "changed\nnew\n# changed"
    );
    for write in [
        "echo x > README.md",
        "echo x > infra/prod",
        "echo x > infra/more",
        "rm infra/new",
        "echo x > absent/x",
    ] {
        assert_ne!(island.sh("x", write).code, Some(0), "{write}");
    }
    // A broken file is reported before anything is created.
    repository.write("holm.toml", "[project]\nnam = \"x\"\n");
    let error = repository.holm(&["up", "y", "--dirty", "--json"]).error(2);
    assert_eq!(error["code"], "invalid_config");
    // Without --dirty the committed file counts. It protects less than the file in force before.
    let refused = repository.holm(&["up", "z", "--json"]).error(4);
    assert_eq!(refused["code"], "not_trusted");
    assert!(
        refused["message"].as_str().unwrap().contains("infra"),
        "{refused}"
    );
    // A deleted one is none.
    std::fs::remove_file(repository.path.join("holm.toml")).unwrap();
    let refused = repository.holm(&["up", "z", "--dirty", "--json"]).error(4);
    assert!(
        refused["message"].as_str().unwrap().contains("README.md"),
        "{refused}"
    );
}

#[test]
fn many_at_once_have_each_their_own() {
    let island = Island::new();
    let repository = untidy(&island);
    let made = repository
        .holm(&["up", "-n", "4", "x", "--dirty", "--json"])
        .json();
    assert_eq!(made["workspaces"].as_array().unwrap().len(), 4);
    for label in ["x-1", "x-4"] {
        same_inside(&repository, label);
    }
    island.sh("x-1", "echo mine > untracked").ok();
    assert_eq!(island.sh("x-2", "cat untracked").ok().out(), "new");
    // After a stop and a start the state is what the workspace made of it.
    island.holm(&["restart", "x-1"]).ok();
    assert_eq!(island.sh("x-1", "cat untracked").ok().out(), "mine");
}

#[test]
fn repositories_in_the_checkout_are_left_out_and_named() {
    let island = Island::new();
    let repository = island.repository("shop");
    Repository::new(&island, repository.path.join("in ner"));
    Repository::empty(&island, repository.path.join("deep/unborn")).write("file", "");
    repository.write("mine", "mine\n");
    let made = repository.holm(&["up", "x", "--dirty", "--json"]).json();
    let notes = made["notes"].to_string();
    assert!(
        notes.contains("in ner") && notes.contains("deep/unborn"),
        "{notes}"
    );
    assert_eq!(
        island.sh("x", "git status --porcelain; ls").ok().out(),
        "?? mine\nREADME.md\nmine"
    );
    // The command that brings it.
    repository
        .holm(&["up", "y", "--dirty", "--include", "in ner"])
        .ok();
    assert_eq!(
        island.sh("y", "git -C 'in ner' log --format=%s").ok().out(),
        "first"
    );
    assert_eq!(
        island.sh("y", "git status --porcelain").ok().out(),
        "?? mine"
    );
}

#[test]
fn a_sparse_checkout_is_not_a_deletion() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("here/a", "a\n");
    repository.write("not-here/b", "b\n");
    repository.commit("two directories");
    repository.git(&["sparse-checkout", "set", "here"]);
    assert!(!repository.path.join("not-here").exists());
    repository.write("here/new", "new\n");
    up_dirty(&repository, "x");
    assert_eq!(
        island
            .sh("x", "git status --porcelain; cat not-here/b")
            .ok()
            .out(),
        "?? here/new\nb"
    );
}
