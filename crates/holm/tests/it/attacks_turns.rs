//! Hostile turns: what a workspace does to its repository so that a reviewer does not see a change. A review
//! shows the real tree, or says what it could not read. Counterpart: git itself, asked inside, does not tell
//! the change.

use crate::support::{Island, Repository, times};
use serde_json::Value;

/// A way to hide a change of `victim` (or of `victim/…`).
struct Case {
    name: &'static str,
    /// Run inside, in the tree.
    hide: &'static str,
    /// The path that a review must name, among its files or its risks.
    shown: &'static str,
}

const CASES: [Case; 13] = [
    Case {
        name: "assume-unchanged",
        hide: "git update-index --assume-unchanged victim; echo evil >> victim",
        shown: "victim",
    },
    Case {
        name: "skip-worktree",
        hide: "git update-index --skip-worktree victim; echo evil >> victim",
        shown: "victim",
    },
    Case {
        name: "the same size and time",
        hide: "touch -r victim /tmp/t; printf 'EVIL\\n' > victim; touch -r /tmp/t victim; \
            git update-index -q --refresh; git update-index --assume-unchanged victim",
        shown: "victim",
    },
    Case {
        name: "an exclude file",
        hide: "echo hidden >> .git/info/exclude; echo evil > hidden",
        shown: "hidden",
    },
    Case {
        name: "settings of git",
        hide: "echo other > ~/rules; git config core.excludesFile ~/rules; echo evil > other",
        shown: "other",
    },
    Case {
        name: "a filter",
        hide: "git config filter.f.clean 'echo same'; git config filter.f.smudge cat; \
            echo 'victim filter=f' > .git/info/attributes; echo evil > victim; \
            git update-index --assume-unchanged victim",
        shown: "victim",
    },
    Case {
        name: "sparse checkout",
        hide: "git sparse-checkout set --no-cone '/*' '!victim' >/dev/null 2>&1; echo evil > victim; \
            git config sparse.expectFilesOutsideOfPatterns true; git update-index --skip-worktree victim",
        shown: "victim",
    },
    Case {
        name: "a nested repository",
        hide: "git init -q deep; echo evil > deep/x; echo deep >> .git/info/exclude",
        shown: "deep",
    },
    Case {
        name: "a rule below that covers itself",
        hide: "echo '*' > dir/.gitignore; echo evil > dir/hidden",
        shown: "dir/hidden",
    },
    Case {
        name: "a replaced commit",
        hide: "echo evil >> victim; git add victim; \
            git replace -f HEAD $(git commit-tree -m x $(git write-tree))",
        shown: "victim",
    },
    Case {
        name: "a watcher that lies",
        hide: "printf '#!/bin/sh\\nprintf \"t\\\\0\"\\n' > ~/watcher; chmod +x ~/watcher; \
            git config core.fsmonitor ~/watcher; git update-index --fsmonitor; git status > /dev/null; \
            echo evil >> victim",
        shown: "victim",
    },
    Case {
        name: "another repository",
        hide: "echo evil >> victim; rm -rf .git; git init -q; git add -A; \
            git -c user.name=x -c user.email=x@example.org commit -qm all",
        shown: "victim",
    },
    Case {
        name: "a repository that is gone",
        hide: "echo evil >> victim; rm -rf .git",
        shown: "victim",
    },
];

fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("victim", "same\n");
    repository.write("dir/file", "x\n");
    repository.commit("files");
    repository
}

fn marked(island: &Island, workspace: &str) -> Value {
    island
        .holm(&["review", workspace, "--mark", "--since", "base", "--json"])
        .ok()
        .json()
}

fn names(review: &Value, list: &str) -> Vec<String> {
    let all = review[list].as_array().unwrap().iter();
    all.map(|one| one["path"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn attack_210_what_git_does_not_tell_a_review_shows() {
    let island = Island::new();
    let repository = shop(&island);
    let labels: Vec<String> = (0..CASES.len())
        .map(|number| format!("c{number}"))
        .collect();
    let mut up = vec!["up"];
    up.extend(labels.iter().map(String::as_str));
    repository.holm(&up).ok();
    for (case, label) in CASES.iter().zip(&labels) {
        let Case { name, hide, shown } = case;
        island.sh(label, hide).ok();
        // The counterpart: what a reviewer who asks git inside sees.
        let status = island.sh(
            label,
            "git status --porcelain 2>/dev/null; git diff --stat HEAD 2>/dev/null",
        );
        assert!(
            !status.out().contains(shown),
            "{name}: git tells it: {}",
            status.out()
        );
        let review = marked(&island, label);
        let (files, risks) = (names(&review, "files"), names(&review, "risks"));
        let is_shown = files.iter().chain(&risks).any(|path| path == shown);
        assert!(is_shown, "{name}: {review:#}");
    }
    // Rules of the project itself hide nothing that a person has to know of.
    repository.write(".gitignore", "build/\n");
    repository.commit("rules");
    repository.up("plain");
    island
        .sh("plain", "mkdir build; echo x > build/x; echo y > y")
        .ok();
    let review = marked(&island, "plain");
    assert_eq!(names(&review, "files"), ["y"]);
    assert!(names(&review, "risks").is_empty(), "{review:#}");
}

#[test]
fn a_git_that_lies_is_found_out() {
    let island = Island::new();
    shop(&island).up("x");
    // A process inside replaces the content in the index that holm's own git uses.
    let liar = "import os, glob, time, subprocess\n\
        os.makedirs('/tmp/w', exist_ok=True)\n\
        env = dict(os.environ)\n\
        open('/tmp/go', 'w').close()\n\
        while True:\n\
        \x20 for index in glob.glob('/tmp/tmp.*/index'):\n\
        \x20   e = dict(env, GIT_DIR=os.path.dirname(index) + '/git', GIT_INDEX_FILE=index, GIT_WORK_TREE=os.getcwd())\n\
        \x20   blob = subprocess.run(['git', 'hash-object', '-w', '--stdin'], input=b'same\\n', env=e, capture_output=True).stdout.strip().decode()\n\
        \x20   subprocess.run(['git', 'update-index', '--cacheinfo', '100644,' + blob + ',victim'], env=e, capture_output=True)\n";
    island
        .sh("x", "echo evil > victim; echo other > dir/file")
        .ok();
    island.write("liar.py", liar);
    let script = format!(
        "cat > /tmp/liar.py <<'END'\n{liar}END\nsetsid python3 /tmp/liar.py > /dev/null 2>&1 < /dev/null &"
    );
    island.sh("x", &script).ok();
    crate::support::eventually("the liar runs", || {
        island.sh("x", "test -e /tmp/go").code == Some(0)
    });
    // The lie came too early, in time or too late: the recording fails, the difference is a risk, or the file is
    // among the changes. It is never a review without the file.
    for _ in 0..5 {
        let mark = ["review", "x", "--mark", "--since", "base", "--json"];
        let ran = island.holm(&mark);
        if ran.code == Some(1) {
            assert!(ran.stderr.contains("git_failed"), "{ran:?}");
            continue;
        }
        let review = ran.json();
        let all = [names(&review, "files"), names(&review, "risks")].concat();
        assert!(all.contains(&"victim".to_owned()), "{review:#}");
    }
}

#[test]
fn names_and_kinds_of_files_do_no_harm() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("x");
    let make = "import os\n\
        open(b'esc\\x1b]0;title\\x07', 'w').write('x\\n')\n\
        open('line\\nfeed', 'w').write('x\\n')\n\
        open(b'caf\\xe9', 'w').write('x\\n')\n\
        open('-rf', 'w').write('x\\n')\n\
        open(':(exclude)dir', 'w').write('x\\n')\n\
        open('rtl\\u202egpj.exe', 'w').write('x\\n')\n\
        os.mkfifo('pipe'); os.symlink('/etc/passwd', 'link')\n\
        open('closed', 'w').write('x\\n'); os.chmod('closed', 0)\n\
        os.rename('dir/file', 'moved'); os.rmdir('dir'); open('dir', 'w').write('now a file\\n')\n";
    island.python("x", make).ok();
    let review = marked(&island, "x");
    let (files, risks) = (names(&review, "files"), names(&review, "risks"));
    for path in [
        "esc\u{1b}]0;title\u{7}",
        "line\nfeed",
        "caf\\xe9",
        "-rf",
        ":(exclude)dir",
        "moved",
        "dir",
        "link",
    ] {
        assert!(files.iter().any(|file| file == path), "{path:?} {files:?}");
    }
    for path in ["pipe", "closed", "link", "rtl\u{202e}gpj.exe"] {
        assert!(risks.iter().any(|risk| risk == path), "{path:?} {review:#}");
    }
    let text = island.holm(&["review", "x", "--stat"]).ok();
    assert!(!text.out().contains('\u{1b}'), "{:?}", text.out());
    assert!(!text.out().contains('\u{202e}'));
}

#[test]
fn what_never_stands_still_is_not_approved() {
    let island = Island::new();
    shop(&island).up("x");
    let writer = "import os\n\
        number = 0\n\
        while True:\n\
        \x20 number += 1\n\
        \x20 open('.git/next', 'w').write(str(number))\n\
        \x20 os.replace('.git/next', 'victim')\n";
    let script = format!(
        "cat > /tmp/writer.py <<'END'\n{writer}END\nsetsid python3 /tmp/writer.py > /dev/null 2>&1 < /dev/null & echo $! > /tmp/pid"
    );
    island.sh("x", &script).ok();
    crate::support::eventually("the writer runs", || {
        island.sh("x", "test \"$(cat victim)\" != same").code == Some(0)
    });
    let approve = island.holm(&["approve", "x", "--json"]);
    assert_eq!(approve.error(4)["code"], "tree_changed");
    let review = marked(&island, "x");
    let moving = review["risks"].to_string();
    assert!(
        moving.contains("changed while it was recorded"),
        "{review:#}"
    );
    island.sh("x", "kill $(cat /tmp/pid)").ok();
    island.holm(&["approve", "x"]).ok();
}

#[test]
fn the_objects_of_turns_are_out_of_reach() {
    let island = Island::new();
    let repository = shop(&island);
    let id = repository.up("x");
    island
        .holm(&["run", "x", "--", "sh", "-c", "echo two > two"])
        .ok();
    // Nothing inside can reach the recorded objects.
    let place = island.data().join("turns").join(&id);
    let inside = format!("ls {} 2>&1", place.display());
    let told = island.sh("x", &inside).out();
    assert!(
        told.contains("No such file") && told.lines().count() == 1,
        "{told}"
    );
    // A workspace that deletes everything does not take its turns along.
    island.sh("x", "rm -rf .git two victim dir").ok();
    let patch = island.holm(&["diff", "x", "--to", "@1"]).ok().out();
    assert!(patch.contains("+two"), "{patch}");
}

/// When more files changed than holm lists, only git inside determines the tree, and the review reports that
/// holm did not compare it with the disk.
#[test]
fn attack_214_too_many_files_to_be_compared_are_a_risk() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("x");
    let evil = "mkdir many; for n in $(seq 200); do echo $n > many/$n; done; \
        printf 'many\\nhidden\\n' >> .git/info/exclude; echo evil > hidden";
    island.sh("x", evil).ok();
    let texts = |review: &Value| review["risks"].to_string();
    let review = marked(&island, "x");
    assert!(
        names(&review, "risks").contains(&"hidden".to_owned()),
        "{review:#}"
    );
    island.kill_daemon();
    let mut daemon = island.holm_command(&repository.path, &["daemon", "start"]);
    daemon.env("HOLM_TEST_MOST_ENTRIES", "100");
    assert!(daemon.status().unwrap().success());
    let review = marked(&island, "x");
    assert_eq!(names(&review, "files"), [] as [&str; 0]);
    assert!(
        texts(&review).contains("did not compare the tree with the disk"),
        "{review:#}"
    );
}

/// 100,000 files in `make soak`.
#[test]
fn a_turn_of_very_many_files_is_whole() {
    let island = Island::new();
    shop(&island).up("x");
    let directories = times(10, 100);
    let make = format!(
        "import os\n\
        for d in range({directories}):\n\
        \x20 os.makedirs(f'many/{{d}}')\n\
        \x20 for f in range(1000):\n\
        \x20   open(f'many/{{d}}/{{f}}', 'w').write(f'{{d}} {{f}}\\n')\n"
    );
    island.python("x", &make).ok();
    let review = marked(&island, "x");
    assert_eq!(names(&review, "files").len(), directories * 1000);
    // What holm could not search is counted; nothing differs and nothing is hidden.
    let risks = review["risks"].as_array().unwrap();
    assert!(
        risks.iter().all(|risk| risk["kind"] == "unread"),
        "{risks:?}"
    );
    assert!(risks.iter().any(|risk| {
        let text = risk["text"].as_str().unwrap();
        risk["path"] == "" && text.contains(" further files were not searched")
    }));
    let tree = "export GIT_INDEX_FILE=/tmp/index; git read-tree HEAD; git add -A; git write-tree";
    assert_eq!(review["tree"], island.sh("x", tree).ok().out());
    // The next turn costs what changed.
    let edit = "echo more >> many/7/7; rm -r many/8";
    island.holm(&["run", "x", "--", "sh", "-c", edit]).ok();
    let turns = island.holm(&["turns", "x", "--json"]).ok().json();
    assert_eq!(turns["turns"][1]["files"], 1001, "{turns:#}");
}
