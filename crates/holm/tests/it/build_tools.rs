//! Modification times from base to base: unchanged files keep theirs, changed ones get a new one, so
//! that real build tools rebuild exactly what changed.

use crate::support::{Island, Ran, Repository, Toolchain};
use std::path::Path;

/// When files were changed last, to the nanosecond.
fn times(island: &Island, label: &str, files: &str) -> Vec<String> {
    let script = format!("stat -c %.9Y {files}");
    let listed = island.sh(label, &script).ok().out();
    listed.lines().map(str::to_owned).collect()
}

/// Copies the build output from inside into the user's checkout, with its times.
fn take_out(repository: &Repository, label: &str, directory: &str) {
    let island = repository.island;
    let archive = island
        .sh(label, &format!("tar -c --format=pax {directory}"))
        .ok();
    let file = island.write("built.tar", &archive.stdout);
    unpack(island, &repository.path, &file);
}

fn unpack(island: &Island, into: &Path, archive: &Path) {
    island
        .run(into, "tar", &["-xpf", archive.to_str().unwrap()])
        .ok();
}

#[test]
fn unchanged_files_keep_their_time_and_changed_ones_get_a_new_one() {
    let island = Island::new();
    let repository = island.repository("shop");
    for name in ["same", "changed", "mode", "deep/same", "deep/changed"] {
        repository.write(name, format!("{name}\n"));
    }
    repository.commit("first");
    let first = repository.head();
    repository.up("one");
    let files = "same deep/same changed deep/changed mode";
    let before = times(&island, "one", files);
    repository.write("changed", "another\n");
    repository.write("deep/changed", "another\n");
    repository.write("new", "new\n");
    island.run(&repository.path, "chmod", &["+x", "mode"]).ok();
    repository.commit("second");
    repository.up("two");
    let after = times(&island, "two", files);
    assert_eq!(after[..2], before[..2], "unchanged");
    for index in [2, 3, 4] {
        assert!(
            after[index] > before[index],
            "{index}: {before:?} {after:?}"
        );
    }
    assert_eq!(
        times(&island, "one", files),
        before,
        "the first base is as it was"
    );
    assert_eq!(
        island
            .sh("one", "cat changed; git status --porcelain")
            .ok()
            .out(),
        "changed"
    );
    // Times are the same in every workspace of a commit, and after a restart.
    repository.holm(&["up", "again", "--from", &first]).ok();
    assert_eq!(times(&island, "again", files), before);
    island.holm(&["restart", "two"]).ok();
    assert_eq!(times(&island, "two", files), after);
    // Writing inside is the workspace's own.
    island.sh("two", "touch same").ok();
    assert_eq!(times(&island, "again", "same"), before[..1]);
}

const MAKEFILE: &str = "\
all: build/a build/b
build/%: src/%.c src/common.h
\t@mkdir -p build
\tcc -o $@ $<
";

#[test]
fn make_rebuilds_exactly_what_changed() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("Makefile", MAKEFILE);
    repository.write(".gitignore", "/build\n");
    repository.write("src/common.h", "#define GREETING \"hello\"\n");
    for name in ["a", "b"] {
        let main = format!(
            "#include \"common.h\"\n#include <stdio.h>\nint main() {{ puts(GREETING \" {name}\"); }}\n"
        );
        repository.write(&format!("src/{name}.c"), main);
    }
    repository.commit("first");
    repository.up("one");
    let built = island.sh("one", "make 2>&1").ok().out();
    assert!(
        built.contains("build/a") && built.contains("build/b"),
        "{built}"
    );
    assert!(
        island
            .sh("one", "make")
            .ok()
            .out()
            .contains("Nothing to be done")
    );
    take_out(&repository, "one", "build");

    let changed = "#include <stdio.h>\nint main() { puts(\"changed\"); }\n";
    repository.write("src/a.c", changed);
    repository.commit("second");
    repository.holm(&["up", "two", "--include", "build"]).ok();
    let built = island.sh("two", "make 2>&1").ok().out();
    assert!(
        built.contains("build/a") && !built.contains("build/b"),
        "{built}"
    );
    let greetings = island.sh("two", "build/a; build/b").ok().out();
    assert_eq!(greetings, "changed\nhello b");
    // A third, from what the second built: nothing that matters changed.
    take_out(&repository, "two", "build");
    repository.write("README.md", "# other words\n");
    repository.commit("third");
    repository.holm(&["up", "three", "--include", "build"]).ok();
    assert!(
        island
            .sh("three", "make")
            .ok()
            .out()
            .contains("Nothing to be done")
    );

    // The counterpart: in a fresh clone every file is new, and all is built again.
    let clone = repository.path.with_file_name("clone");
    let arguments = [
        "clone",
        "-q",
        repository.path.to_str().unwrap(),
        clone.to_str().unwrap(),
    ];
    island.run(&island.home(), "git", &arguments).ok();
    unpack(&island, &clone, &island.home().with_file_name("built.tar"));
    let built = island.run(&clone, "make", &[]).ok().out();
    assert!(
        built.contains("build/a") && built.contains("build/b"),
        "{built}"
    );
}

#[test]
fn cargo_rebuilds_exactly_what_changed() {
    let island = Island::in_tmp();
    let toolchain = Toolchain::install(&island);
    let repository = island.repository("shop");
    repository.write(
        "Cargo.toml",
        "[workspace]\nresolver = \"2\"\nmembers = [\"one\", \"two\", \"top\"]\n",
    );
    repository.write(".gitignore", "/target\n/Cargo.lock\n");
    for (name, needs) in [
        ("one", ""),
        ("two", ""),
        (
            "top",
            "one = { path = \"../one\" }\ntwo = { path = \"../two\" }\n",
        ),
    ] {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{needs}"
        );
        repository.write(&format!("{name}/Cargo.toml"), manifest);
    }
    repository.write(
        "one/src/lib.rs",
        "pub fn word() -> &'static str { \"one\" }\n",
    );
    repository.write(
        "two/src/lib.rs",
        "pub fn word() -> &'static str { \"two\" }\n",
    );
    repository.write(
        "top/src/main.rs",
        "fn main() { println!(\"{} {}\", one::word(), two::word()); }\n",
    );
    repository.commit("first");
    let up = |arguments: &[&str]| {
        let mut command = island.holm_command(&repository.path, &[&["up"], arguments].concat());
        Ran::new(command.env("PATH", toolchain.path())).ok();
    };
    let build = |label: &str| {
        island
            .sh(
                label,
                "cargo build --offline 2>&1 | grep -o 'Compiling [a-z]*' | sort",
            )
            .ok()
            .out()
    };
    up(&["first"]);
    assert_eq!(
        build("first"),
        "Compiling one\nCompiling top\nCompiling two"
    );
    assert_eq!(build("first"), "");
    take_out(&repository, "first", "target");
    repository.write(
        "two/src/lib.rs",
        "pub fn word() -> &'static str { \"changed\" }\n",
    );
    repository.commit("second");
    up(&["second", "--include", "target"]);
    assert_eq!(build("second"), "Compiling top\nCompiling two");
    assert_eq!(
        island.sh("second", "target/debug/top").ok().out(),
        "one changed"
    );
    assert_eq!(island.sh("second", "git status --porcelain").ok().out(), "");

    // The counterpart: the same output beside a fresh checkout of the same path is built again.
    let script = "git init -q /tmp/fresh && cd /tmp/fresh && git fetch -q $HOLM_ROOT HEAD && \
                  git checkout -q FETCH_HEAD && cp -a $HOLM_ROOT/target . && \
                  cargo build --offline 2>&1 | grep -c Compiling";
    assert_eq!(island.sh("second", script).ok().out(), "3");
}
