//! Protected paths that are absent (attack 5): nothing is seen there, and nothing can be made there.

use crate::attacks_protected::protected_repository;
use crate::support::Island;
use std::path::Path;

/// Every way to make something at a path, also from another mount and by git.
const MAKE: &str = r#"
def temporary(path):
    whole = os.open(os.path.dirname(path) or ".", os.O_TMPFILE | os.O_WRONLY)
    os.link("/proc/self/fd/%d" % whole, path, follow_symlinks=True)
def bind(path):
    socket.socket(socket.AF_UNIX).bind(path)
def rename(path, source, flags):
    call(libc.renameat2, -100, source.encode(), -100, path.encode(), flags)
def moved(path, source):
    os.makedirs(source + "/sub", exist_ok=True)
    os.rename(source, path)
import socket
os.close(os.open("fresh", os.O_CREAT | os.O_WRONLY))
os.close(os.open("/tmp/fresh", os.O_CREAT | os.O_WRONLY))
for path in PATHS:
    attempt(path, lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)))
    attempt(path + " exclusively", lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)))
    attempt(path + " directory", os.mkdir, path)
    attempt(path + " link", os.link, "fresh", path)
    attempt(path + " symbolic link", os.symlink, "fresh", path)
    attempt(path + " pipe", os.mkfifo, path)
    attempt(path + " temporary", temporary, path)
    attempt(path + " socket", bind, path)
    attempt(path + " rename", rename, path, "fresh", 0)
    attempt(path + " rename, not replacing", rename, path, "fresh", 1)
    attempt(path + " from elsewhere", rename, path, "/tmp/fresh", 0)
    attempt(path + " renamed directory", moved, path, "new-directory")
    attempt(path + " directory of a commit", os.rename, "src", path)
"#;

#[test]
fn attack_5_an_absent_protected_path_is_not_seen_and_nothing_is_made_there() {
    let island = Island::new();
    let repository = protected_repository(&island);
    repository.write("src/file", "original\n");
    repository.commit("a directory");
    repository.up("x");
    let absent = [
        ".env",
        ".claude/settings.json",
        "way/absent",
        "none/of/this",
    ];
    let script = MAKE.replace("PATHS", &format!("{absent:?}"));
    let is_unseen = |workspace: &str, when: &str| {
        for path in absent {
            let name = Path::new(path).file_name().unwrap().to_str().unwrap();
            let parent = Path::new(path).parent().unwrap().join(".");
            let look = format!(
                "stat {path}; cat {path}; ls -Al {} | grep -w -- {name}; find . -name {name}",
                parent.display()
            );
            let seen = island.sh(workspace, &look);
            assert_eq!(seen.out(), "", "{path} {when}");
        }
        let status = "git status --porcelain --untracked-files=all; git add -A -n";
        assert_eq!(island.sh(workspace, status).ok().out(), "", "{when}");
    };
    for when in ["at first", "after a restart"] {
        is_unseen("x", when);
        let refused = ["EBUSY", "EXDEV", "ENOENT"];
        island.attempts("x", &script).refused(&refused);
        // The attempts left nothing behind and destroyed nothing.
        let left = "ls -A /tmp . .claude none/of | grep '^\\.holm' | grep -v '^\\.holm-protected$'; cat way/to/file; \
            rm -r fresh /tmp/fresh new-directory && git status --porcelain";
        assert_eq!(island.sh("x", left).out(), "original", "{when}");
        is_unseen("x", when);
        // Directories that exist only for protected paths are not in git's way.
        island
            .sh(
                "x",
                "echo 1 > new; git stash -q -u && git clean -qfd && git stash pop -q; rm new",
            )
            .ok();
        // And others can use them.
        island
            .sh("x", "echo 1 > .claude/other && echo 1 > none/of/other")
            .ok();
        let new = island.sh(
            "x",
            "git status --porcelain --untracked-files=all; rm .claude/other none/of/other",
        );
        assert_eq!(new.out(), "?? .claude/other\n?? none/of/other");
        island.holm(&["restart", "x"]).ok();
    }
    island.holm(&["snapshot", "x", "s"]).ok();
    island.holm(&["fork", "x", "y", "--at", "s"]).ok();
    is_unseen("y", "in a fork");
    island
        .attempts(
            "y",
            "attempt('.env', lambda: os.close(os.open('.env', os.O_CREAT)))",
        )
        .refused(&["EBUSY"]);
}

#[test]
fn attack_5_an_absent_path_that_is_protected_later_is_held_where_directories_were_made_anew() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("kept/file", "original\n");
    repository.commit("directories");
    repository.up("x");
    // One that the commit does not have, and one that hides the commit's.
    island
        .sh(
            "x",
            "mkdir made && echo 1 > made/other && rm -r kept && mkdir kept && echo 1 > kept/other",
        )
        .ok();
    let protect = "printf '[project]\\nprotected_paths = [\"made/absent\", \"kept/absent\", \"deep/er/absent\"]\\n' > holm.toml";
    island.sh("x", protect).ok();
    island.holm(&["reload", "x", "--inside"]).ok();
    for _ in 0..2 {
        island.holm(&["restart", "x"]).ok();
        let script = MAKE.replace("PATHS", "['made/absent', 'kept/absent', 'deep/er/absent']");
        let refused = [
            "EBUSY",
            "EROFS",
            "EISDIR",
            "EEXIST",
            "EXDEV",
            "ENOENT",
            "EADDRINUSE",
        ];
        let script = script.replace("\"src\"", "\"nowhere\"");
        island.attempts("x", &script).refused(&refused);
        let shown = island.sh(
            "x",
            "cat made/other kept/other; ls made; ls kept/file 2>&1 | wc -l",
        );
        assert_eq!(shown.out(), "1\n1\nother\n1");
        island.sh("x", "rm -r fresh /tmp/fresh new-directory").ok();
    }
}

#[test]
fn attack_5_an_absent_path_is_made_without_protection() {
    let island = Island::without("protection");
    protected_repository(&island).up("x");
    let make = "attempt('.env', lambda: os.close(os.open('.env', os.O_CREAT | os.O_WRONLY)))";
    island.attempts("x", make).succeeded();
}
