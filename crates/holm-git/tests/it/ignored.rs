//! Ignored files that `include` selects, and those that are mentioned because they are not copied.

use crate::sandbox::*;
use holm_git::Repository;
use std::path::PathBuf;

fn checkout(sandbox: &Sandbox) -> Repository {
    let path = sandbox.repository("work");
    write(
        &path.join(".gitignore"),
        ".env*\n/node_modules/\n*.log\nforced.log\n",
    );
    write(&path.join("forced.log"), "tracked although ignored");
    git(&path, ["add", "--force", "forced.log"]);
    commit_all(&path, "second");
    write(&path.join(".env"), "SECRET=1");
    write(&path.join(".env.local"), "x");
    write(&path.join("pkg/.env.local"), "x");
    write(&path.join("not-ignored.local"), "x");
    write(&path.join("größe.log"), "x");
    write(&path.join("node_modules/a/index.js"), "x");
    write(&path.join("node_modules/a/.env.local"), "x");
    Repository::discover(&path.join("bin")).unwrap()
}

sealed_test! {
    fn only_what_is_ignored_and_asked_for(sandbox: &Sandbox) {
        let repository = checkout(sandbox);
        let check = |patterns: &[&str], expect: &[&str]| {
            let patterns: Vec<_> = patterns.iter().map(|p| (*p).to_owned()).collect();
            let found = repository.ignored_matching(&patterns).unwrap();
            let expect: Vec<_> = expect.iter().map(PathBuf::from).collect();
            assert_eq!(found, expect, "{patterns:?}");
        };
        check(&[], &[]);
        check(&["# .env", ""], &[]);
        check(&["/.env.local"], &[".env.local"]);
        check(&["/.env", "pkg/.env.local"], &[".env", "pkg/.env.local"]);
        check(&[".env.local"], &[".env.local", "node_modules/a/.env.local", "pkg/.env.local"]);
        check(&[".env*", "!.env"], &[".env.local", "node_modules/a/.env.local", "pkg/.env.local"]);
        check(&["*.local"], &[".env.local", "node_modules/a/.env.local", "pkg/.env.local"]);
        check(&["/not-ignored.local"], &[]);
        check(&["/forced.log"], &[]);
        check(&["*.log"], &["größe.log"]);
        check(&["/node_modules/"], &["node_modules/a/.env.local", "node_modules/a/index.js"]);
        check(&["/../outside", "/.git/config", "/nowhere"], &[]);
        check(&["--exclude-standard"], &[]);
    }
}

sealed_test! {
    fn what_is_worth_a_word(sandbox: &Sandbox) {
        let repository = checkout(sandbox);
        let expect = [".env", ".env.local", "größe.log", "node_modules/"];
        assert_eq!(repository.ignored_notable().unwrap(), expect);
        let clean = Repository::discover(&sandbox.repository("clean")).unwrap();
        assert!(clean.ignored_notable().unwrap().is_empty());
    }
}
