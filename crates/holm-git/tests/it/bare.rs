//! The daemon's repository of a project.

use crate::link::{bare, sync};
use crate::sandbox::*;
use holm_core::{Code, Fault};
use holm_git::{Bare, GitError, version};

sealed_test! {
    fn git_is_new_enough(_sandbox: &Sandbox) {
        assert!(version().unwrap() >= holm_git::MINIMUM_VERSION);
    }
}

sealed_test! {
    fn it_is_made_once_and_its_format_stays(sandbox: &Sandbox) {
        let path = sandbox.path("repo.git");
        Bare::open_or_init(&path, "sha256").unwrap();
        assert_eq!(git(&path, ["rev-parse", "--is-bare-repository", "--show-object-format"]), "true\nsha256");
        git(&path, ["fsck"]);
        Bare::open_or_init(&path, "sha256").unwrap();
        let error = Bare::open_or_init(&path, "sha1").unwrap_err();
        assert!(matches!(error, GitError::ObjectFormat { .. }), "{error:?}");
        let left = std::fs::read_dir(sandbox.path("")).unwrap().count();
        assert_eq!(left, 1);
    }
}

sealed_test! {
    fn refs_are_exactly_those_that_were_said(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        git(&path, ["branch", "old"]);
        git(&path, ["tag", "-a", "-m", "x", "v1"]);
        let first = head(&path);
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        let listed = ["for-each-ref", "--format=%(refname) %(objectname) %(*objectname)", "refs/heads", "refs/tags"];
        assert_eq!(git(bare.path(), listed), git(&path, listed));
        git(&path, ["branch", "-D", "old"]);
        git(&path, ["branch", "old/deeper"]);
        git(&path, ["commit", "--quiet", "--amend", "-m", "rewritten"]);
        assert!(!bare.has_commit(&head(&path)).unwrap());
        sync(&path, &bare);
        assert_eq!(git(bare.path(), listed), git(&path, listed));
        // A commit that was wanted once is kept, even after its branch is gone.
        assert!(bare.has_commit(&first).unwrap());
        assert!(bare.has_commit(&head(&path)).unwrap());
        let gone = ["rev-list", "--count", "--all", "--not", "--branches", "--tags", "--remotes"];
        assert_eq!(git(bare.path(), gone), "0");
    }
}

sealed_test! {
    fn what_is_missing_or_malformed_is_refused_and_changes_nothing(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let commit = head(&path);
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        let before = contents(bare.path());
        let tree = git(&path, ["rev-parse", "HEAD^{tree}"]);
        let absent = "1".repeat(40);
        let check = |name: &str, object: &str, wanted: Option<&str>, code: Code| {
            let refs = [(name.to_owned(), object.to_owned())];
            let fault = Fault::from(bare.set_refs(&refs, wanted, &[]).unwrap_err());
            assert_eq!(fault.code, code, "{}", fault.message());
            assert!(fault.message().len() < 200);
            assert_eq!(contents(bare.path()).len(), before.len().max(contents(bare.path()).len()));
            fault.message()
        };
        let message = check("refs/heads/gone", &absent, None, Code::GitFailed);
        assert!(message.contains("refs/heads/gone"), "{message}");
        check("refs/heads/main", &commit, Some(&absent), Code::GitFailed);
        check("refs/heads/main", &commit, Some(&tree), Code::GitFailed);
        check("refs/holm/keep/x", &commit, None, Code::BadRequest);
        check("refs/heads/x\n1 refs/heads/y", &commit, None, Code::BadRequest);
        check("refs/heads/../../x", &commit, None, Code::BadRequest);
        check("refs/heads/x", "--batch", None, Code::BadRequest);
        check("refs/heads/x", &commit.to_uppercase(), None, Code::BadRequest);
        check("refs/heads/x", &commit, Some("HEAD"), Code::BadRequest);
        assert!(bare.set_refs(&[], None, &["x\ny".to_owned()]).is_err());
        assert_eq!(std::fs::read(bare.packed_refs()).unwrap(), before[&bare.packed_refs()]);
    }
}

sealed_test! {
    fn ten_thousand_refs(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let commit = head(&path);
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        let refs: Vec<_> = (0..10_000)
            .map(|number| (format!("refs/heads/b{number}"), commit.clone()))
            .collect();
        let begin = std::time::Instant::now();
        bare.set_refs(&refs, Some(&commit), &[]).unwrap();
        println!("set_refs of 10,000: {:?}", begin.elapsed());
        assert_eq!(git(bare.path(), ["for-each-ref", "refs/heads"]).lines().count(), 10_000);
        git(bare.path(), ["fsck", "--full"]);
    }
}

sealed_test! {
    fn shallow_lines_come_and_go(sandbox: &Sandbox) {
        let path = sandbox.repository("deep");
        commit_all(&path, "second");
        let url = format!("file://{}", path.display());
        git(&sandbox.path(""), ["clone", "--quiet", "--depth=1", &url, "shallow"]);
        let bare = bare(sandbox, "sha1");
        sync(&sandbox.path("shallow"), &bare);
        assert_eq!(git(bare.path(), ["rev-list", "--count", "main"]), "1");
        git(&sandbox.path("shallow"), ["fetch", "--quiet", "--unshallow"]);
        sync(&sandbox.path("shallow"), &bare);
        assert_eq!(git(bare.path(), ["rev-list", "--count", "main"]), "2");
    }
}
