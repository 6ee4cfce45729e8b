//! Git as the attack (attacks 29–34, 36, 38–40): what a workspace writes into its repository to run
//! a program in another user's git. Every command of holm is driven over each of them; the marker
//! that the program makes on the host never appears. Counterpart: the ordinary git command of the
//! host on a copy of the same tree makes it.

use crate::support::{Island, Ran, Repository};
use std::path::{Path, PathBuf};

struct Case {
    /// Run inside; `$MARK` is a program that leaves the marker and passes its input through.
    inside: &'static str,
    /// Run on the host, in a copy of the tree.
    naive: &'static str,
}

/// The marker of a case and a program, at a path inside and outside, that makes it.
struct Marker {
    file: PathBuf,
    program: PathBuf,
}

// === impl Marker ===

impl Marker {
    fn new(island: &Island, repository: &Repository) -> Self {
        // Below the repository, so that the same path exists inside; ignored, so that it stays out
        // of every tree.
        let program = repository.path.join("mark");
        let file = island.home().join("marker");
        let script = format!(
            "#!/bin/sh\ntouch {} 2>/dev/null\ncat\nexit 0\n",
            file.display()
        );
        repository.write("mark", script);
        repository.write(".gitignore", "/copy\n");
        let path = program.to_str().unwrap();
        island.run(&repository.path, "chmod", &["+x", path]).ok();
        repository.commit("the program");
        Self { file, program }
    }
}

/// A copy of a workspace's tree with its `.git`, where a naive tool of the host would have it.
fn copy(island: &Island, repository: &Repository, workspace: &str) -> PathBuf {
    // 1: a directory changed meanwhile, which overlayfs reports for those that were just copied up.
    let tar = island.sh(workspace, "tar c . || [ $? -eq 1 ]").ok().stdout;
    let file = island.write("copy.tar", tar);
    let target = island.make_dir(island.home().join("copy"));
    island
        .run(&target, "tar", &["xf", file.to_str().unwrap()])
        .ok();
    let info = target.join(".git/objects/info");
    if info.is_dir() {
        let objects = repository.path.join(".git/objects");
        island.write(info.join("alternates"), format!("{}\n", objects.display()));
    }
    target
}

/// Every command that runs git somewhere. Whether each works is another question.
fn drive(repository: &Repository, directory: &str) -> Vec<Ran> {
    let clean = || {
        repository.git(&["reset", "-q", "--hard"]);
        repository.git(&["clean", "-qfd"]);
    };
    let run = |arguments: &[&str]| repository.holm_in(directory, arguments);
    let mut ran = vec![
        run(&["changes", "x", "--json"]),
        run(&["diff", "x"]),
        run(&["fetch", "x"]),
        run(&["apply", "x", "--yes"]),
    ];
    clean();
    ran.push(run(&["fetch", "x", "--commit", "all of it"]));
    ran.push(run(&["merge", "x", "--yes"]));
    ran.push(run(&["show", "x"]));
    ran.push(run(&["restart", "x"]));
    ran.push(run(&["up", "y", "--dirty"]));
    ran.push(run(&["rm", "x"]));
    ran.push(run(&["rm", "x", "--force"]));
    ran
}

#[track_caller]
fn check(case: &Case) {
    let island = Island::new();
    let repository = island.repository("shop");
    let marker = Marker::new(&island, &repository);
    repository.write("text", "text\n");
    repository.commit("text");
    repository.up("x");
    let exports = format!("export MARK={}\n", marker.program.display());
    let script = format!("set -e\n{exports}{}\necho changed >> text\n", case.inside);
    island.sh("x", &script).ok();
    let naive = copy(&island, &repository, "x");
    for ran in &drive(&repository, ".")[..4] {
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    assert!(!marker.file.exists(), "a program of the workspace ran");
    // Counterpart. How the command ends does not matter.
    let script = format!("{exports}{}", case.naive);
    let ran = island.run(&naive, "sh", &["-c", &script]);
    assert!(marker.file.exists(), "the attack does not work: {ran:#?}");
}

#[test]
fn attack_29_fsmonitor_and_hooks() {
    check(&Case {
        inside: "git config core.fsmonitor $MARK",
        naive: "git status",
    });
    check(&Case {
        inside: "mkdir -p .git/hooks; for hook in post-index-change reference-transaction pre-commit post-checkout post-commit \
                 post-merge pre-push update post-rewrite; do cp mark .git/hooks/$hook; done",
        naive: "git add -A",
    });
    check(&Case {
        inside: "mkdir hooks; cp mark hooks/reference-transaction; cp mark hooks/post-index-change
                 git config core.hooksPath hooks",
        naive: "git branch other",
    });
}

#[test]
fn attack_30_filters_by_attributes() {
    check(&Case {
        inside: "git config filter.evil.clean $MARK; git config filter.evil.smudge $MARK
                 git config filter.evil.required true
                 echo '* filter=evil' > .gitattributes",
        naive: "git add -A",
    });
    check(&Case {
        inside: "git config filter.evil.clean $MARK
                 mkdir -p .git/info; echo 'text filter=evil' > .git/info/attributes",
        naive: "git -c core.fsmonitor= -c core.hooksPath=/dev/null diff",
    });
}

#[test]
fn attack_31_diff_and_merge_drivers() {
    check(&Case {
        inside: "git config diff.external $MARK",
        naive: "git diff",
    });
    check(&Case {
        inside: "git config diff.evil.textconv $MARK; git config diff.evil.command $MARK
                 git config merge.evil.driver \"$MARK %A\"
                 echo '* diff=evil merge=evil' > .gitattributes",
        naive: "git diff",
    });
}

#[test]
fn attack_32_signers_editors_and_helpers() {
    check(&Case {
        inside: "git config gpg.program $MARK; git config commit.gpgSign true; git config tag.gpgSign true
                 git config core.editor $MARK; git config sequence.editor $MARK; git config core.pager $MARK
                 git config core.askPass $MARK; git config credential.helper \"!$MARK\"",
        naive: "git commit -q --allow-empty -m x",
    });
    check(&Case {
        inside: "git config core.editor $MARK",
        naive: "git commit --allow-empty",
    });
}

#[test]
fn attack_33_transports() {
    check(&Case {
        inside: "git config remote.origin.url .; git config remote.origin.uploadpack $MARK
                 git config remote.origin.receivepack $MARK",
        // The marker speaks no protocol, so git would wait for it forever.
        naive: "timeout 3 git fetch",
    });
    check(&Case {
        inside: "git config core.sshCommand $MARK; git config remote.origin.url ssh://example.org/x
                 git config url.ssh://example.org/.insteadOf /",
        // The marker speaks no protocol, so git would wait for it forever.
        naive: "timeout 3 git fetch",
    });
    check(&Case {
        inside: "git config core.gitProxy $MARK; git config remote.origin.url git://example.org/x",
        // The marker speaks no protocol, so git would wait for it forever.
        naive: "timeout 3 git fetch",
    });
}

#[test]
fn attack_34_settings_by_worktree_and_include() {
    check(&Case {
        inside: "git config extensions.worktreeConfig true
                 git config --worktree core.fsmonitor $MARK",
        naive: "git status",
    });
    check(&Case {
        inside: "git config --file .git/more core.fsmonitor $MARK; git config include.path more",
        naive: "git status",
    });
    check(&Case {
        inside: "git config --file .git/more core.fsmonitor $MARK
                 git config includeIf.onbranch:holm/**.path more",
        naive: "git status",
    });
}

#[test]
fn attack_36_a_git_pointer_to_somebody_elses_directory() {
    check(&Case {
        inside: "mv .git evil; echo 'gitdir: evil' > .git; echo /evil >> evil/info/exclude
                 git config core.fsmonitor $MARK; git config core.worktree ..",
        naive: "git status",
    });
    // Pointers out of the workspace lead nowhere: nothing is found, and nothing counts as saved.
    let island = Island::new();
    let repository = island.repository("shop");
    let other = island.repository("other");
    for target in [
        other.path.join(".git"),
        PathBuf::from("/proc/1/root"),
        PathBuf::from("/proc/self/cwd"),
    ] {
        repository.up("x");
        let script = format!("rm -rf .git; echo 'gitdir: {}' > .git", target.display());
        island.sh("x", &script).ok();
        for verb in ["changes", "diff", "fetch", "apply", "merge"] {
            let error = repository.holm(&[verb, "x", "--json"]).error(1);
            assert_eq!(error["code"], "git_failed", "{verb}: {error}");
        }
        let error = repository.holm(&["rm", "x", "--json"]).error(4);
        assert_eq!(error["code"], "unsaved_work");
        repository.holm(&["rm", "x", "--force"]).ok();
    }
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    // Counterpart: on the host such a pointer leads into the other repository.
    let place = island.make_dir("pointer");
    island.write(
        place.join(".git"),
        format!("gitdir: {}/.git\n", other.path.display()),
    );
    island.run(&place, "git", &["log"]).ok();
}

#[test]
fn attack_38_a_bare_repository_in_a_subdirectory() {
    let island = Island::new();
    let repository = island.repository("shop");
    let marker = Marker::new(&island, &repository);
    repository.up("x");
    let script = format!(
        "set -e; mkdir -p bare/objects bare/refs; touch bare/objects/k bare/refs/k
         echo 'ref: refs/heads/main' > bare/HEAD
         printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = {}\\n' > bare/config
         git add -A; git commit -qm bare",
        marker.program.display()
    );
    island.sh("x", &script).ok();
    repository.holm(&["merge", "x"]).ok();
    // Whatever command is typed there, the trap's program does not run.
    repository.up("y");
    island
        .sh("y", "echo 1 > new; git add new; git commit -qm new")
        .ok();
    let ran = |arguments: &[&str]| repository.holm_in("bare", arguments);
    for arguments in [
        &["up", "z", "--dirty"][..],
        &["changes", "y"],
        &["diff", "y"],
        &["fetch", "y"],
        &["apply", "y"],
        &["merge", "y"],
        &["trust"],
        &["project", "add", "."],
        &["ls"],
        &["rm", "y"],
    ] {
        ran(arguments);
    }
    assert!(!marker.file.exists(), "a program of the workspace ran");
    island.run(&repository.path.join("bare"), "git", &["status"]);
    assert!(marker.file.exists(), "the attack does not work");
}

#[test]
fn attack_39_submodules_that_run_a_command() {
    check(&Case {
        inside: "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub; mkdir sub
                 git config submodule.sub.url ext::$MARK; git config submodule.sub.update \"!$MARK\"
                 git config submodule.recurse true; git config fetch.recurseSubmodules true
                 git config submodule.sub.active true",
        naive: "printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./.\\n' > .gitmodules
                git init -q sub; git -C sub -c user.name=x -c user.email=x commit -q --allow-empty -m x
                git -c user.name=x -c user.email=x submodule update --no-fetch",
    });
    // What git itself calls dangerous is not even fetched.
    let island = Island::new();
    let repository = island.repository("shop");
    for (number, gitmodules) in [
        "[submodule \"s\"]\\n\\tpath = s\\n\\turl = ./s\\n\\tupdate = !touch marker\\n",
        "[submodule \"s\"]\\n\\tpath = s\\n\\turl = -u./marker\\n",
        "[submodule \"s\"]\\n\\tpath = -s\\n\\turl = ./s\\n",
        "[submodule \"../s\"]\\n\\tpath = s\\n\\turl = ./s\\n",
    ]
    .iter()
    .enumerate()
    {
        let label = format!("x{number}");
        repository.up(&label);
        let script =
            format!("printf '{gitmodules}' > .gitmodules; git add -A; git commit -qm evil");
        island.sh(&label, &script).ok();
        for verb in ["fetch", "apply", "merge"] {
            let error = repository.holm(&[verb, &label, "--json"]).error(1);
            assert_eq!(error["code"], "git_failed", "{error}");
        }
        assert_eq!(
            repository.git(&["for-each-ref", "refs/holm", "refs/heads/holm"]),
            ""
        );
    }
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    // Counterpart: an ordinary fetch takes it.
    let naive = copy(&island, &repository, "x0");
    repository.git(&[
        "fetch",
        "-q",
        naive.to_str().unwrap(),
        "HEAD:refs/heads/taken",
    ]);
}

#[test]
fn attack_40_settings_of_a_nested_repository() {
    check(&Case {
        inside: "git init -q sub; cd sub; echo 1 > file; git add file
                 git -c user.name=x -c user.email=x commit -qm sub
                 git config filter.evil.clean $MARK; git config core.fsmonitor $MARK
                 echo '* filter=evil' > .gitattributes; git add .gitattributes
                 cd ..; git add sub 2>/dev/null; git commit -qm sub",
        naive: "touch sub/file; git status",
    });
}

/// Below the home of the island there is nothing that this file's programs could have left.
#[test]
fn the_marker_is_made_by_the_program_when_it_runs() {
    let island = Island::new();
    let repository = island.repository("shop");
    let marker = Marker::new(&island, &repository);
    let program = marker.program.to_str().unwrap();
    island.run(Path::new("/"), program, &[]).ok();
    assert!(marker.file.exists());
}
