//! Names, refs and files of a commit.

use crate::sandbox::*;
use holm_core::{Code, Fault};
use holm_git::{Repository, refs_digest};

sealed_test! {
    fn what_a_name_stands_for(sandbox: &Sandbox) {
        let path = sandbox.repository("names");
        let first = head(&path);
        git(&path, ["tag", "-a", "-m", "x", "v1"]);
        git(&path, ["branch", "topic/größe"]);
        git(&path, ["update-ref", "refs/remotes/origin/feature", "HEAD"]);
        let second = commit_all(&path, "second");
        let repository = Repository::discover(&path).unwrap();
        let check = |name: &str, commit: &str, display: Option<&str>| {
            let resolved = repository.resolve(name).unwrap();
            assert_eq!(resolved.commit, commit, "{name}");
            assert_eq!(resolved.display.as_deref(), display, "{name}");
        };
        check("main", &second, Some("main"));
        check("HEAD", &second, Some("main"));
        check("HEAD~1", &first, None);
        check("v1", &first, Some("v1"));
        check("topic/größe", &first, Some("topic/größe"));
        check("origin/feature", &first, Some("origin/feature"));
        check(&first, &first, None);
        check(&first[..10], &first, None);
        // Names that a branch shares with something that git prefers.
        for name in ["refs/tags/both", "refs/both", "refs/stash"] {
            let branch = name.rsplit('/').next().unwrap();
            git(&path, ["update-ref", &format!("refs/heads/{branch}"), &second]);
            git(&path, ["update-ref", name, &first]);
            let resolved = repository.resolve(branch).unwrap();
            assert_eq!(resolved.commit, first, "{name}");
            git(&path, ["update-ref", "-d", name]);
            check(branch, &second, Some(branch));
        }
        git(&path, ["update-ref", "refs/heads/ORIG_HEAD", &second]);
        git(&path, ["update-ref", "ORIG_HEAD", &first]);
        assert_eq!(repository.resolve("ORIG_HEAD").unwrap().commit, first);
        git(&path, ["symbolic-ref", "refs/heads/other", "refs/heads/main"]);
        check("other", &second, Some("main"));
    }
}

sealed_test! {
    // Attack 193: whose set-up others may use.
    fn which_commits_a_person_has_in_a_branch(sandbox: &Sandbox) {
        let path = sandbox.repository("branches");
        let first = head(&path);
        git(&path, ["branch", "feature"]);
        let newer = commit_all(&path, "newer");
        git(&path, ["checkout", "-q", "-b", "evil"]);
        let evil = commit_all(&path, "evil");
        git(&path, ["checkout", "-q", "feature"]);
        let own = commit_all(&path, "own");
        let check = |commit: &str, expect: bool| {
            let repository = Repository::discover(&path).unwrap();
            assert_eq!(repository.is_contained(commit).unwrap(), expect, "{commit}");
        };
        // The branch that is checked out, and `main`.
        check(&own, true);
        check(&first, true);
        check(&newer, true);
        check(&evil, false);
        // The default branch is what `origin` says, and then `main` is any other.
        git(&path, ["update-ref", "refs/remotes/origin/trunk", &first]);
        git(&path, ["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"]);
        check(&newer, false);
        check(&first, true);
        git(&path, ["branch", "trunk", &newer]);
        check(&newer, true);
        git(&path, ["update-ref", "refs/remotes/origin/trunk", &evil]);
        check(&evil, true);
        git(&path, ["update-ref", "refs/remotes/origin/trunk", &first]);
        // A name alone does not count, wherever it points.
        git(&path, ["update-ref", "refs/remotes/origin/main", &evil]);
        git(&path, ["update-ref", "refs/heads/holm/fix", &evil]);
        check(&evil, false);
        // A merged commit is accepted.
        git(&path, ["merge", "-q", "-m", "merge", "evil"]);
        check(&evil, true);
    }
}

sealed_test! {
    // Attack 44: names as arguments.
    fn what_is_no_name_is_not_found(sandbox: &Sandbox) {
        let path = sandbox.repository("names");
        git(&path, ["update-ref", "refs/remotes/origin/feature", "HEAD"]);
        let repository = Repository::discover(&path).unwrap();
        let marker = sandbox.path("marker");
        let long = "a".repeat(4096);
        let output = format!("--output={}", marker.display());
        let check = |name: &str, hint: &str| {
            let fault = Fault::from(repository.resolve(name).unwrap_err());
            assert_eq!(fault.code, Code::RefNotFound, "{name}");
            assert_eq!(fault.code.kind().exit_code(), 3);
            assert!(fault.message().len() < 200, "{}", fault.message());
            assert!(!fault.message().contains('\n'), "{}", fault.message());
            assert!(fault.hint.contains(hint), "{}", fault.hint);
        };
        check("--upload-pack=x", "git branch -a");
        check("-oProxyCommand=x", "git branch -a");
        check(&output, "git branch -a");
        check("--all", "git branch -a");
        check("main\nHEAD", "git branch -a");
        check("main..HEAD", "git branch -a");
        check("../../etc/passwd", "git branch -a");
        check("HEAD:a.txt", "git branch -a");
        check("", "git branch -a");
        check(&long, "git branch -a");
        check("mian", "did you mean `main`?");
        check("feature", "did you mean `origin/feature`?");
        assert!(!marker.exists());
    }
}

sealed_test! {
    fn refs_are_the_users_and_no_others(sandbox: &Sandbox) {
        let path = sandbox.repository("refs");
        let commit = head(&path);
        git(&path, ["tag", "v1"]);
        git(&path, ["update-ref", "refs/remotes/origin/main", "HEAD"]);
        git(&path, ["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
        git(&path, ["update-ref", "refs/holm/w0123456789ab", "HEAD"]);
        write(&path.join("a.txt"), "changed");
        git(&path, ["stash", "--quiet"]);
        let repository = Repository::discover(&path).unwrap();
        let refs = repository.refs().unwrap();
        let names: Vec<_> = refs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["refs/heads/main", "refs/remotes/origin/main", "refs/tags/v1"]);
        assert!(refs.iter().all(|(_, object)| *object == commit));

        let digest = refs_digest(&refs, &[]);
        assert_eq!(digest, refs_digest(&repository.refs().unwrap(), &[]));
        assert_ne!(digest, refs_digest(&refs, std::slice::from_ref(&commit)));
        assert_ne!(digest, refs_digest(&refs[1..], &[]));
        // The same in every build, because it is stored.
        let known = [("refs/heads/main".to_owned(), "1".repeat(40))];
        assert!(refs_digest(&known, &[]).starts_with("9d7636cc"), "{}", refs_digest(&known, &[]));
    }
}

sealed_test! {
    fn files_of_a_commit_in_one_go(sandbox: &Sandbox) {
        let path = sandbox.repository("files");
        write(&path.join("empty"), "");
        write(&path.join("binary"), b"\x00\n missing\n\xff");
        let commit = commit_all(&path, "second");
        write(&path.join("a.txt"), "not committed");
        let repository = Repository::discover(&path).unwrap();
        let asked = ["a.txt", "no such missing", "binary", "bin", "empty", "größe 日本.txt", "line\nfeed"];
        let files = repository.files_at(&commit, &asked).unwrap();
        let expect: [Option<&[u8]>; 7] = [
            Some(b"one\n"),
            None,
            Some(b"\x00\n missing\n\xff"),
            None,
            Some(b""),
            Some(b"x\n"),
            None,
        ];
        let files: Vec<_> = files.iter().map(Option::as_deref).collect();
        assert_eq!(files, expect);
        assert!(repository.files_at("HEAD", &["a.txt"]).is_err());
    }
}

sealed_test! {
    fn the_files_say_what_git_lists(sandbox: &Sandbox) {
        let path = sandbox.repository("listed");
        let check = |path: &std::path::Path| {
            let format = "--format=%(refname) %(objectname) %(symref)";
            let listed = git(path, ["for-each-ref", format, "refs/heads", "refs/tags", "refs/remotes"]);
            let listed: Vec<(String, String)> = listed
                .lines()
                .map(|line| line.split(' ').collect::<Vec<_>>())
                .filter(|words| words[2].is_empty())
                .map(|words| (words[0].to_owned(), words[1].to_owned()))
                .collect();
            let repository = Repository::discover(path).unwrap();
            assert_eq!(repository.refs().unwrap(), listed);
            assert_eq!(repository.head, Some(head(path)));
            listed.len()
        };
        assert_eq!(check(&path), 1);
        git(&path, ["tag", "-a", "-m", "x", "v1"]);
        git(&path, ["branch", "topic/a"]);
        git(&path, ["branch", "topic-a"]);
        git(&path, ["update-ref", "refs/remotes/origin/main", "HEAD"]);
        git(&path, ["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
        git(&path, ["update-ref", "refs/other/x", "HEAD"]);
        assert_eq!(check(&path), 5);
        git(&path, ["pack-refs", "--all"]);
        assert_eq!(check(&path), 5);
        // The loose one counts, not the packed one.
        commit_all(&path, "newer");
        git(&path, ["branch", "-D", "topic-a"]);
        assert_eq!(check(&path), 4);
        git(&path, ["branch", "größe"]);
        assert_eq!(check(&path), 5);
        git(&path, ["checkout", "-q", "--detach"]);
        assert_eq!(check(&path), 5);
        let linked = path.with_file_name("linked");
        git(&path, ["worktree", "add", "-q", linked.to_str().unwrap()]);
        assert_eq!(check(&linked), 6);
    }
}

sealed_test! {
    fn files_of_different_commits(sandbox: &Sandbox) {
        let path = sandbox.repository("early");
        std::fs::write(path.join("holm.toml"), "a").unwrap();
        let first = commit_all(&path, "first");
        std::fs::write(path.join("holm.toml"), "b").unwrap();
        let second = commit_all(&path, "second");
        let paths = ["holm.toml", "missing"];
        let repository = Repository::discover(&path).unwrap();
        let read = |commit: &str, paths: &[&str]| repository.files_at(commit, paths).unwrap();
        assert_eq!(read(&second, &paths), [Some(b"b".to_vec()), None]);
        assert_eq!(read(&first, &paths), [Some(b"a".to_vec()), None]);
        assert_eq!(read(&second, &["holm.toml"]), [Some(b"b".to_vec())]);
    }
}
