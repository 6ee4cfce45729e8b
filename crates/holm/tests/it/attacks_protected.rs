//! Attacks on protected paths (attacks 3 to 6) and on repositories in the tree (attack 8). Each is
//! shown to work where the one defence that stops it is switched off.

use crate::support::{Island, Repository, eventually};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The errors of a refused change. `EXDEV`: a protected path is a separate mount.
const REFUSED: [&str; 4] = ["EROFS", "EBUSY", "EXDEV", "EACCES"];

/// A repository with files, and with paths in every shape protected.
pub fn protected_repository(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    let paths = [
        "AGENTS.md",
        "infra/",
        "conf/deep/file",
        "conf",
        "way/to/file",
        ".git/hooks",
        ".git/config",
        ".env",
        ".mcp.json",
        ".claude/settings.json",
        "way/absent",
        "none/of/this",
    ];
    repository.write(
        "holm.toml",
        format!("[project]\nprotected_paths = {paths:?}\n"),
    );
    for file in [
        "AGENTS.md",
        "infra/key",
        "conf/deep/file",
        "way/to/file",
        "way/free",
    ] {
        repository.write(file, "original\n");
    }
    repository.commit("protected");
    repository
}

/// Everything that changes a file, its name or its metadata.
fn change_script(paths: &[&str]) -> String {
    format!(
        r#"
def recreate(path):
    os.unlink(path)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
def replace(path):
    os.close(os.open("fresh", os.O_CREAT | os.O_WRONLY))
    os.rename("fresh", path)
def exchange(path):
    os.close(os.open("fresh", os.O_CREAT | os.O_WRONLY))
    call(libc.renameat2, -100, b"fresh", -100, path.encode(), 2)
for at, path in enumerate({paths:?}):
    attempt(path + " times", os.utime, path, (1, 1))
    attempt(path + " chmod", os.chmod, path, 0o600)
    attempt(path + " attribute", os.setxattr, path, "user.holm", b"x")
    attempt(path + " write", write, path)
    attempt(path + " by root", write, "/proc/self/root" + os.path.abspath(path))
    attempt(path + " by descriptor", lambda: write("/proc/self/fd/%d" % os.open(path, os.O_RDONLY)))
    attempt(path + " O_TRUNC", lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)))
    attempt(path + " truncate", os.truncate, path, 0)
    attempt(path + " link", os.link, path, "alias-%d" % at)
    attempt(path + " replace", replace, path)
    attempt(path + " exchange", exchange, path)
    attempt(path + " recreate", recreate, path)
    attempt(path + " rename", os.rename, path, "elsewhere-%d" % at)
"#
    )
}

const FILES: [&str; 4] = ["AGENTS.md", "infra/key", "conf/deep/file", "way/to/file"];

#[test]
fn attack_3_a_protected_file_is_not_changed_in_any_way() {
    let island = Island::new();
    let repository = protected_repository(&island);
    repository.up("x");
    let look = format!("stat -c '%n %s %a %i %Y %Z' {0}; cat {0}", FILES.join(" "));
    let before = island.sh("x", &look).ok().out();
    for _ in 0..2 {
        island
            .attempts("x", &change_script(&FILES))
            .refused(&REFUSED);
        assert_eq!(island.sh("x", &look).ok().out(), before);
        // Not by git either.
        for line in [
            "git rm -q AGENTS.md",
            "git mv infra infra-moved",
            "git mv way/to/file way/to/moved",
            "git config core.pager evil",
        ] {
            let ran = island.sh("x", line);
            assert_ne!(ran.code, Some(0), "{ran:?}");
        }
        island.sh("x", "git reset -q --hard; rm -f fresh").ok();
        assert_eq!(island.sh("x", &look).ok().out(), before);
        // Again after a restart, which sees what the first run left.
        island.holm(&["restart", "x"]).ok();
    }
    // `show` and `here` name them.
    for path in ["AGENTS.md", "way/absent"] {
        let shown = island.holm(&["show", "x"]).ok();
        assert!(shown.out().contains(path), "{shown:?}");
        let here = island.inside("x", &["holm", "here"]).ok();
        assert!(here.out().contains(path), "{here:?}");
    }
    // Files beside them can be changed.
    island
        .sh(
            "x",
            "echo new > way/free; echo new > way/new; mv way/free way/moved",
        )
        .ok();
}

#[test]
fn attack_3_works_without_protection() {
    let island = Island::without("protection");
    let repository = protected_repository(&island);
    repository.up("x");
    island.attempts("x", &change_script(&FILES)).succeeded();
}

#[test]
fn attack_3_git_goes_on_around_protected_paths() {
    let island = Island::new();
    let repository = protected_repository(&island);
    repository.git(&["checkout", "-q", "-b", "other"]);
    repository.write("AGENTS.md", "other\n");
    repository.write(".mcp.json", "{}\n");
    repository.commit("other");
    repository.git(&["checkout", "-q", "main"]);
    repository.up("x");
    let status = |expect: &str| {
        assert_eq!(island.sh("x", "git status --porcelain").ok().out(), expect);
    };
    status("");
    island
        .sh("x", "echo 1 > way/free; echo 2 > new; git stash -q -u && git clean -qfd && git stash pop -q")
        .ok();
    status(" M way/free\n?? new");
    island
        .sh(
            "x",
            "git add -A && git commit -qm work && git reset -q --hard HEAD~1",
        )
        .ok();
    status("");
    // A commit that changes protected paths cannot be checked out, and the files stay. Git's
    // `checkout` prints that and exits with 0, as whenever it cannot write a file.
    let other = repository.git(&["rev-parse", "other"]);
    for command in ["checkout -q", "reset -q --hard", "merge -q", "cherry-pick"] {
        let refused = island.sh("x", &format!("git {command} {other}"));
        let is_said = refused.stderr.contains("unable to create file .mcp.json");
        let is_refused = refused.code != Some(0) || command.starts_with("checkout") && is_said;
        assert!(is_refused, "{refused:?}");
        let seen =
            "cat AGENTS.md; ls -A | grep mcp; git checkout -q -f holm/x; git status --porcelain";
        assert_eq!(island.sh("x", seen).ok().out(), "original");
    }
}

/// Moves ways to protected paths aside and builds others in their place.
fn move_ancestors(paths: &[&str]) -> String {
    format!(
        r#"
def rebuild(path):
    os.rename(path, path + "-aside")
    os.mkdir(path)
for path in {paths:?}:
    attempt(path, rebuild, path)
"#
    )
}

/// A workspace with a protected path in directories of its own layer. The kernel does not rename
/// directories of a lower layer, so only the pins hold these.
fn up_with_own_ways(island: &Island) {
    let repository = protected_repository(island);
    let text = "[project]\nprotected_paths = [\"way/to/file\", \"own/way/file\", \".git/hooks\"]\n";
    repository.write("holm.toml", text);
    repository.write("own/way/file", "original\n");
    repository.holm(&["up", "x", "--dirty"]).ok();
}

#[test]
fn attack_4_moving_an_ancestor_of_a_protected_path_is_refused() {
    let island = Island::new();
    up_with_own_ways(&island);
    let ways = move_ancestors(&["own/way", "own", "way/to", "way", ".git"]);
    let above = r#"
for path in [".", "..", "../.."]:
    path = os.path.abspath(path)
    attempt(path, os.rename, path, path + "-aside")
    attempt(path + " removed", os.rmdir, path)
"#;
    for _ in 0..2 {
        island.attempts("x", &ways).refused(&["EBUSY"]);
        island
            .attempts("x", above)
            .refused(&["EBUSY", "EROFS", "EACCES"]);
        let files = island.sh("x", "cat way/to/file own/way/file").ok();
        assert_eq!(files.out(), "original\noriginal");
        island.holm(&["restart", "x"]).ok();
    }
}

#[test]
fn attack_4_works_without_pins() {
    let island = Island::without("pins");
    up_with_own_ways(&island);
    let ways = move_ancestors(&["own"]);
    island.attempts("x", &ways).succeeded();
    island
        .sh("x", "mkdir own/way && echo forged > own/way/file")
        .ok();
    // The way to the tree is free as well.
    let above = "cd / && mv ~/src ~/aside && mkdir -p \"$HOLM_ROOT\" && echo forged > \"$HOLM_ROOT/AGENTS.md\"";
    island.sh("x", above).ok();
}

/// Creates something at a protected path that did not exist at the start.
const CREATE: &str = r#"
def make(path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
def replace(path):
    os.close(os.open("fresh", os.O_CREAT | os.O_WRONLY))
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    os.rename("fresh", path)
def link(path):
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink("/tmp", path)
for path in [".env", ".mcp.json", ".claude/settings.json", "way/absent", "none/of/this"]:
    attempt(path, make, path)
    attempt(path + " by rename", replace, path)
    attempt(path + " by link", link, path)
attempt("hook", make, ".git/hooks/post-checkout")
"#;

/// Whether something of the protected paths was left in a directory.
fn is_clean(directory: &Path) -> bool {
    let paths = [
        ".env",
        ".mcp.json",
        ".claude",
        "way/absent",
        "none",
        ".git/hooks",
    ];
    paths
        .iter()
        .all(|path| directory.join(path).symlink_metadata().is_err())
}

/// Whether an upper layer has nothing of the protected paths that overlayfs would show: only
/// whiteouts, and their directories.
fn shows_nothing(upper: &Path) -> bool {
    let is_hidden = |path: &str| {
        let metadata = upper.join(path).symlink_metadata();
        metadata.map_or(true, |metadata| metadata.file_type().is_char_device())
    };
    let paths = [".env", ".mcp.json", ".claude/settings.json", "way/absent"];
    let more = ["none/of/this", ".git/hooks"];
    paths.into_iter().chain(more).all(is_hidden)
}

#[test]
fn attack_5_a_protected_path_that_is_absent_cannot_be_made_and_leaves_nothing() {
    let island = Island::new();
    let repository = protected_repository(&island);
    std::fs::remove_dir_all(repository.path.join(".git/hooks")).unwrap();
    let id = repository.up("x");
    let upper = island.data().join("workspaces").join(&id).join("upper");
    let refused = ["EROFS", "EBUSY", "EISDIR", "EXDEV", "EACCES"];
    for end in ["stop", "kill"] {
        island.attempts("x", CREATE).refused(&refused);
        island
            .sh("x", "rm -f fresh; test -z \"$(git status --porcelain)\"")
            .ok();
        if end == "stop" {
            island.holm(&["stop", "x"]).ok();
        } else {
            let pid = rustix::process::Pid::from_raw(island.keeper_of(&id).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            eventually("the workspace is known to have died", || {
                island.holm(&["show", "x", "--json"]).json()["state"] != "running"
            });
        }
        assert!(is_clean(&repository.path), "after {end}");
        assert!(shows_nothing(&upper), "after {end}");
        island.holm(&["start", "x"]).ok();
    }
}

#[test]
fn attack_5_works_without_protection() {
    let island = Island::without("protection");
    let repository = protected_repository(&island);
    let id = repository.up("x");
    island.attempts("x", CREATE).succeeded();
    assert!(!is_clean(
        &island.data().join("workspaces").join(id).join("upper")
    ));
}

#[test]
fn attack_5_a_protected_path_that_the_checkout_deleted_cannot_be_made() {
    let island = Island::new();
    let repository = protected_repository(&island);
    for path in ["conf", "way", "infra"] {
        std::fs::remove_dir_all(repository.path.join(path)).unwrap();
    }
    std::fs::remove_file(repository.path.join("AGENTS.md")).unwrap();
    repository.holm(&["up", "x", "--dirty"]).ok();
    let status = "git status --porcelain";
    let expect = repository.git(&["status", "--porcelain"]);
    assert_eq!(island.sh("x", status).ok().out(), expect);
    let script = r#"
for path in ["AGENTS.md", "conf/deep/file", "way/to/file", "infra/key"]:
    attempt(path, lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)))
    attempt(path + " in it", lambda: os.mkdir(path + "/x"))
for path in ["conf", "way/to", "way"]:
    attempt(path, os.rename, path, path + "-aside")
"#;
    let refused = ["EROFS", "EBUSY", "EISDIR", "ENOENT"];
    for _ in 0..2 {
        island.attempts("x", script).refused(&refused);
        island.holm(&["restart", "x"]).ok();
    }
    // Free paths of the same directories come back.
    island
        .sh("x", "git checkout -q -- way/free && cat way/free")
        .ok();
}

/// A repository whose protected path is, or goes through, something that cannot be protected.
fn crooked<'a>(island: &'a Island, name: &str, path: &str) -> Repository<'a> {
    let repository = island.repository(name);
    repository.write("real/file", "original\n");
    repository.write(
        "holm.toml",
        format!("[project]\nprotected_paths = [{path:?}]\n"),
    );
    for (target, link) in [
        ("real/file", "leaf"),
        ("real", "folder"),
        ("nowhere", "dangling"),
    ] {
        island
            .run(&repository.path, "ln", &["-s", target, link])
            .ok();
    }
    repository.commit("crooked");
    repository
}

#[test]
fn attack_6_links_in_the_place_of_protected_paths_end_the_start() {
    let island = Island::new();
    for (number, path) in [
        "leaf",
        "folder",
        "folder/file",
        "dangling",
        "dangling/x",
        "real/file/x",
    ]
    .iter()
    .enumerate()
    {
        let repository = crooked(&island, &format!("r{number}"), path);
        let refused = repository.holm(&["up", "x", "--json"]).error(4);
        assert_eq!(refused["code"], "protected_path", "{path}: {refused}");
        assert!(
            refused["message"].as_str().unwrap().contains(path),
            "{refused}"
        );
    }
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"],
        serde_json::json!([])
    );
    let left = std::fs::read_dir(island.data().join("workspaces")).unwrap();
    assert_eq!(left.count(), 0);
    // The real path can be protected, and then the links to it are no way around.
    crooked(&island, "real", "real/file").up("x");
    let script = r#"
attempt("leaf", write, "leaf")
attempt("folder", write, "folder/file")
attempt("retarget", os.rename, "leaf", "real/file")
"#;
    island.attempts("x", script).refused(&REFUSED);
}

#[test]
fn attack_6_works_without_protection() {
    let island = Island::without("protection");
    for (number, path) in ["leaf", "folder/file"].iter().enumerate() {
        let label = format!("x{number}");
        crooked(&island, &label, path).up(&label);
        let script = format!("attempt('write', write, {path:?})");
        island.attempts(&label, &script).succeeded();
    }
}

/// In its own user namespace: leaves the mounts, then removes what is under them.
const LEAVE_THE_MOUNTS: &str = r#"
uid, gid = os.getuid(), os.getgid()
tree = os.open(".", os.O_RDONLY)
def unshare():
    call(libc.unshare, 0x10000000 | 0x20000)
    for name, text in [("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)]:
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
def leave():
    os.makedirs("/tmp/new", exist_ok=True)
    call(libc.mount, b"none", b"/tmp/new", b"tmpfs", 0, None)
    os.mkdir("/tmp/new/old")
    os.chdir("/tmp/new")
    call(libc.pivot_root, b".", b"old")
    call(libc.umount2, b"/old", 2)
attempt("unshare", unshare)
attempt("leave", leave)
"#;

#[test]
fn attack_4_protected_paths_and_nested_user_namespaces_do_not_go_together() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("file", "original\n");
    let with = "[project]\nnested = true\nprotected_paths = [\"file\"]\n";
    repository.write("holm.toml", with);
    repository.commit("both");
    repository.holm(&["trust", "--yes"]).ok();
    let refused = repository.holm(&["up", "x", "--json"]).error(4);
    assert_eq!(refused["code"], "protected_path", "{refused}");
    // Why: there a program gets away from every mount that could hold a path.
    repository.write("holm.toml", "[project]\nnested = true\n");
    repository.commit("nested only");
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("nested");
    island.attempts("nested", LEAVE_THE_MOUNTS).succeeded();
    // And without `nested` it does not.
    repository.write("holm.toml", "[project]\nprotected_paths = [\"file\"]\n");
    repository.commit("protected only");
    repository.holm(&["up", "x"]).ok();
    let attempts = island.attempts("x", LEAVE_THE_MOUNTS);
    attempts.refused(&["EPERM", "EACCES"]);
}

/// A script that leaves a mark outside when it runs there; inside, the path is another home's.
fn marking(marker: &Path) -> String {
    format!("#!/bin/sh\ntouch {}\n", marker.display())
}

#[test]
fn attack_8_hooks_and_settings_of_nested_repositories_run_inside_only() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    let marker: PathBuf = island.home().join("marker");
    let hook = marking(&marker);
    let plant = format!(
        r#"
set -e
hook={hook:?}
arm() {{
  printf '%b' "$hook" > "$1/evil"; chmod +x "$1/evil"
  mkdir -p "$1/hooks" "$1/info"
  for name in post-checkout pre-commit post-commit post-index-change reference-transaction; do
    cp "$1/evil" "$1/hooks/$name"
  done
  git --git-dir="$1" config core.fsmonitor "$1/evil"
  git --git-dir="$1" config filter.evil.clean "$1/evil"
  git --git-dir="$1" config diff.external "$1/evil"
  git --git-dir="$1" config extensions.worktreeConfig true
  printf '[core]\n\tpager = %s\n' "$1/evil" > "$1/config.worktree"
  echo '* filter=evil' > "$1/info/attributes"
}}
place=$PWD
for depth in 1 2 3 4 5 6 7 8; do
  place=$place/vendor; mkdir -p "$place/x"
  git init -q "$place/x"; echo text > "$place/x/file"
  arm "$place/x/.git"
done
mkdir -p .git/modules/m; git init -q --bare .git/modules/m; arm "$PWD/.git/modules/m"
arm "$PWD/.git"
"#
    );
    island.inside("x", &["bash", "-c", &plant]).ok();
    // Inside they do run: the mark is in the workspace's own home.
    island
        .sh(
            "x",
            "rm -f ~/marker; git status >/dev/null; test -e ~/marker",
        )
        .ok();
    for line in [
        &["ls"][..],
        &["show", "x"],
        &["stop", "x"],
        &["start", "x"],
        &["restart", "x"],
        &["exec", "x", "--", "git", "status"],
        &["up", "x"],
        &["rename", "x", "y"],
    ] {
        repository.holm(line).ok();
    }
    repository.holm(&["rm", "y", "--json"]).error(4);
    repository.holm(&["rm", "y", "--force"]).ok();
    repository.up("z");
    assert!(
        !marker.exists(),
        "something of the workspace ran on the host"
    );

    // A host program that used the repository would have run them.
    let nested = island.data().join("trash").join(id).join("upper/vendor/x");
    island.run(&nested, "git", &["commit", "--allow-empty", "-m", "x"]);
    assert!(marker.exists());
}
