//! Sending objects through a receive-pack of the daemon's.

use crate::link::bare;
use crate::sandbox::*;
use holm_core::{Code, Fault};
use holm_git::{Bare, Cancel, Repository};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A program in place of the client's connection to the daemon: it runs the daemon's receive-pack,
/// with the daemon's environment.
fn connection(sandbox: &Sandbox, bare: &Bare) -> PathBuf {
    let command = bare.receive_pack().unwrap();
    let mut words = vec![b"exec env -i".to_vec()];
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().as_bytes();
        words.push([name.as_bytes(), b"='", value, b"'"].concat());
    }
    for word in std::iter::once(command.get_program()).chain(command.get_args()) {
        words.push([b"'", word.as_bytes(), b"'"].concat());
    }
    let file = sandbox.path("connect ion");
    write(&file, [b"#!/bin/sh\n".to_vec(), words.join(&b' ')].concat());
    make_executable(&file);
    file
}

fn push(path: &Path, bare: &Bare, connection: &Path) {
    let repository = Repository::discover(path).unwrap();
    let refs = repository.refs().unwrap();
    let commit = repository.head.as_deref();
    let command = format!("'{}' project", connection.display());
    repository
        .push(&command, &refs, commit, &Cancel::default())
        .unwrap();
    bare.set_refs(&refs, commit, &repository.shallow).unwrap();
}

sealed_test! {
    fn refs_and_a_detached_commit_arrive(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        git(&path, ["tag", "-a", "-m", "x", "v1"]);
        git(&path, ["branch", "a"]);
        git(&path, ["checkout", "--quiet", "--detach"]);
        write(&path.join("b.txt"), "x");
        let commit = commit_all(&path, "detached");
        let bare = bare(sandbox, "sha1");
        let connection = connection(sandbox, &bare);
        let before = contents(&path);
        push(&path, &bare, &connection);
        assert_eq!(contents(&path), before);
        assert!(bare.has_commit(&commit).unwrap());
        git(bare.path(), ["fsck", "--strict", "--full"]);
        let names = ["for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"];
        assert_eq!(git(bare.path(), names), "refs/heads/a\nrefs/heads/main\nrefs/tags/v1");

        // A branch is replaced by a directory of branches, and sent objects are not sent again.
        git(&path, ["branch", "-D", "a"]);
        git(&path, ["branch", "a/b"]);
        write(&path.join("c.txt"), "x");
        commit_all(&path, "more");
        push(&path, &bare, &connection);
        assert_eq!(git(bare.path(), names), "refs/heads/a/b\nrefs/heads/main\nrefs/tags/v1");
        let packs = contents(&bare.objects_dir());
        push(&path, &bare, &connection);
        assert_eq!(contents(&bare.objects_dir()), packs);
    }
}

sealed_test! {
    fn a_shallow_clone_can_be_sent(sandbox: &Sandbox) {
        let path = sandbox.repository("deep");
        commit_all(&path, "second");
        let url = format!("file://{}", path.display());
        git(&sandbox.path(""), ["clone", "--quiet", "--depth=1", &url, "shallow"]);
        let bare = bare(sandbox, "sha1");
        let connection = connection(sandbox, &bare);
        push(&sandbox.path("shallow"), &bare, &connection);
        assert_eq!(git(bare.path(), ["rev-list", "--count", "main"]), "1");
        git(bare.path(), ["fsck", "--full"]);
    }
}

sealed_test! {
    fn settings_and_hooks_of_the_user_do_not_get_in_the_way(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let hook = path.join(".git/hooks/pre-push");
        write(&hook, "#!/bin/sh\nexit 1\n");
        make_executable(&hook);
        git(&path, ["config", "push.gpgSign", "true"]);
        git(&path, ["config", "protocol.allow", "never"]);
        git(&path, ["config", "push.followTags", "true"]);
        let bare = bare(sandbox, "sha1");
        let connection = connection(sandbox, &bare);
        push(&path, &bare, &connection);
        assert!(bare.has_commit(&head(&path)).unwrap());
    }
}

sealed_test! {
    fn a_connection_that_breaks_is_an_error(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let repository = Repository::discover(&path).unwrap();
        let refs = repository.refs().unwrap();
        let pushed = repository.push("exit 3;", &refs, None, &Cancel::default());
        assert_eq!(Fault::from(pushed.unwrap_err()).code, Code::GitFailed);
    }
}
