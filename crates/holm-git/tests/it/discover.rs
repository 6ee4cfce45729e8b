//! Finding the repository around the current directory.

use crate::sandbox::*;
use holm_core::spec::Remote;
use holm_core::{Code, Fault, ProjectId};
use holm_git::{GitError, Repository, project_id_of};
use std::os::unix::fs::MetadataExt;

sealed_test! {
    fn a_repository_and_a_subdirectory_of_it(sandbox: &Sandbox) {
        let path = sandbox.repository("größe mit leer");
        let top = Repository::discover(&path).unwrap();
        assert_eq!(top.toplevel, path);
        assert_eq!(top.git_dir, path.join(".git"));
        assert_eq!(top.common_dir, path.join(".git"));
        assert_eq!(top.main_root, path);
        assert_eq!(top.object_format, "sha1");
        assert_eq!(top.head, Some(head(&path)));
        assert_eq!(top.branch.as_deref(), Some("main"));
        assert_eq!(top.user_name.as_deref(), Some("Ada of Tests"));
        assert_eq!(top.user_email.as_deref(), Some("ada@example.org"));
        assert_eq!(top.shallow, Vec::<String>::new());
        assert!(!top.partial);
        let meta = std::fs::metadata(path.join(".git")).unwrap();
        assert_eq!((top.device, top.inode), (meta.dev(), meta.ino()));
        // The user's own configuration has a project id; it says nothing about this repository.
        assert_eq!(top.project_id, None);
        let below = Repository::discover(&path.join("bin")).unwrap();
        assert_eq!(below.toplevel, path);
    }
}

sealed_test! {
    fn a_line_feed_in_the_path(sandbox: &Sandbox) {
        let path = sandbox.repository("two\nlines");
        let found = Repository::discover(&path.join("bin")).unwrap();
        assert_eq!(found.toplevel, path);
        assert_eq!(found.common_dir, path.join(".git"));
        assert_eq!(found.head, Some(head(&path)));
        assert_eq!(found.object_format, "sha1");
    }
}

sealed_test! {
    fn without_commits_and_with_sha256(sandbox: &Sandbox) {
        let path = sandbox.directory("empty");
        git(&path, ["init", "--quiet", "--object-format=sha256"]);
        let found = Repository::discover(&path).unwrap();
        assert_eq!(found.head, None);
        assert_eq!(found.branch.as_deref(), Some("main"));
        assert_eq!(found.object_format, "sha256");
        commit_all(&path, "first");
        let found = Repository::discover(&path).unwrap();
        assert_eq!(found.head, Some(head(&path)));
        assert_eq!(found.object_format, "sha256");
    }
}

sealed_test! {
    fn a_linked_worktree_leads_to_the_main_one(sandbox: &Sandbox) {
        let path = sandbox.repository("main");
        git(&path, ["worktree", "add", "--quiet", "--detach", "../linked"]);
        let found = Repository::discover(&sandbox.path("linked/bin")).unwrap();
        assert_eq!(found.toplevel, sandbox.path("linked"));
        assert_eq!(found.git_dir, path.join(".git/worktrees/linked"));
        assert_eq!(found.common_dir, path.join(".git"));
        assert_eq!(found.main_root, path);
        assert_eq!(found.branch, None);
        let id = ProjectId::random();
        found.set_project_id(&id).unwrap();
        assert_eq!(Repository::discover(&path).unwrap().project_id, Some(id.clone()));
        assert_eq!(project_id_of(&path.join(".git")).unwrap(), Some(id));
        assert_eq!(project_id_of(&sandbox.path("nowhere")).unwrap(), None);
        assert_eq!(project_id_of(&sandbox.repository("other").join(".git")).unwrap(), None);
    }
}

sealed_test! {
    fn git_directories_elsewhere(sandbox: &Sandbox) {
        let path = sandbox.directory("work");
        git(&path, ["init", "--quiet", "--separate-git-dir=../elsewhere.git"]);
        let found = Repository::discover(&path).unwrap();
        assert_eq!(found.common_dir, sandbox.path("elsewhere.git"));
        assert_eq!(found.main_root, path);

        let inner = sandbox.repository("inner");
        let outer = sandbox.repository("outer");
        git(&outer, ["submodule", "--quiet", "add", inner.to_str().unwrap(), "lib/in"]);
        let found = Repository::discover(&outer.join("lib/in")).unwrap();
        assert_eq!(found.main_root, outer.join("lib/in"));
    }
}

sealed_test! {
    fn a_shallow_clone(sandbox: &Sandbox) {
        let path = sandbox.repository("deep");
        commit_all(&path, "second");
        let url = format!("file://{}", path.display());
        git(&sandbox.path(""), ["clone", "--quiet", "--depth=1", &url, "shallow"]);
        let found = Repository::discover(&sandbox.path("shallow")).unwrap();
        assert_eq!(found.shallow, [head(&path)]);
    }
}

sealed_test! {
    fn remotes_come_without_credentials(sandbox: &Sandbox) {
        let path = sandbox.repository("remotes");
        git(&path, ["remote", "add", "origin", "https://ada:token@example.org/x.git"]);
        git(&path, ["remote", "add", "a.b", "git@example.org:x.git"]);
        git(&path, ["config", "remote.origin.pushurl", "https://ada:token@example.org/y.git"]);
        git(&path, ["config", "remote.nourl.fetch", "x"]);
        git(&path, ["config", "remote.helper.url", "ext::sh -c token"]);
        let fetch = |name: &str| vec![format!("+refs/heads/*:refs/remotes/{name}/*")];
        let remote = |name: &str, url: &str| Remote {
            name: name.to_owned(),
            url: url.to_owned(),
            fetch: fetch(name),
        };
        let found = Repository::discover(&path).unwrap();
        assert_eq!(
            found.remotes,
            [
                remote("origin", "https://example.org/x.git"),
                remote("a.b", "git@example.org:x.git")
            ]
        );
    }
}

sealed_test! {
    fn what_is_no_work_tree_is_refused(sandbox: &Sandbox) {
        let check = |path: &std::path::Path| {
            let error = Repository::discover(path).unwrap_err();
            assert!(matches!(error, GitError::NotARepository { .. }), "{error:?}");
            let fault = Fault::from(error);
            assert_eq!(fault.code, Code::NotARepository);
            assert_eq!(fault.code.kind().exit_code(), 2);
            assert!(!fault.hint.is_empty());
        };
        check(&sandbox.directory("plain"));
        let bare = sandbox.directory("bare.git");
        git(&bare, ["init", "--quiet", "--bare"]);
        check(&bare);
        check(&sandbox.repository("work").join(".git"));
    }
}

sealed_test! {
    fn a_broken_configuration_is_told_as_git_says_it(sandbox: &Sandbox) {
        let path = sandbox.repository("broken");
        write(&path.join(".git/config"), "[core\n");
        let fault = Fault::from(Repository::discover(&path).unwrap_err());
        assert_eq!(fault.code, Code::GitFailed);
        assert!(fault.message().contains("bad config"), "{}", fault.message());
    }
}

sealed_test! {
    fn hooks_and_fsmonitor_of_the_repository_do_not_run(sandbox: &Sandbox) {
        let path = sandbox.repository("hooked");
        let marker = sandbox.path("marker");
        let script = format!("#!/bin/sh\ntouch '{}'\n", marker.display());
        for hook in ["post-index-change", "pre-push", "reference-transaction", "fsmonitor"] {
            let file = path.join(".git/hooks").join(hook);
            write(&file, &script);
            make_executable(&file);
        }
        let monitor = path.join(".git/hooks/fsmonitor");
        git(&path, ["config", "core.fsmonitor", monitor.to_str().unwrap()]);
        let found = Repository::discover(&path).unwrap();
        let out = sandbox.directory("out");
        found.dirty_state(&out, &Default::default()).unwrap();
        found.ignored_matching(&["*".to_owned()]).unwrap();
        found.refs().unwrap();
        assert!(!marker.exists());
        // The counterpart: with an ordinary git, the hook runs.
        git(&path, ["status"]);
        assert!(marker.exists());
    }
}

sealed_test! {
    fn a_repository_of_another_user_is_told_with_the_way_out(sandbox: &Sandbox) {
        let path = sandbox.repository("theirs");
        // Only root can give a file to another user.
        if std::os::unix::fs::chown(&path, Some(65534), None).is_err() {
            return crate::skip::skipped("it needs root, and `make unit` runs it so");
        }
        std::os::unix::fs::chown(path.join(".git"), Some(65534), None).unwrap();
        let error = Repository::discover(&path).unwrap_err();
        assert!(matches!(error, GitError::DubiousOwnership { .. }), "{error:?}");
        let fault = Fault::from(error);
        let way_out = format!("safe.directory '{}'", path.display());
        assert!(fault.hint.contains(&way_out), "{}", fault.hint);
        git(&path, ["config", "--global", "safe.directory", path.to_str().unwrap()]);
        Repository::discover(&path).unwrap();
    }
}
