//! Merges of trees outside of any checkout.

use crate::sandbox::*;
use holm_git::{Bare, Cancel, Merge, can_merge_trees};
use std::path::Path;

/// Three commits of a repository: the first, and two sides.
fn sides(path: &Path, one: &dyn Fn(), other: &dyn Fn()) -> (String, [String; 2]) {
    let base = head(path);
    let side = |change: &dyn Fn()| {
        git(path, ["checkout", "--quiet", "--detach", &base]);
        change();
        commit_all(path, "side");
        head(path)
    };
    let sides = [side(one), side(other)];
    (base, sides)
}

fn merge(path: &Path, base: &str, sides: [&str; 2]) -> Merge {
    Merge {
        objects: vec![path.join(".git/objects")],
        object_format: git(path, ["rev-parse", "--show-object-format"]),
        base: Some(base.to_owned()),
        sides: sides.map(str::to_owned),
    }
}

sealed_test! {
    fn what_cannot_be_merged_is_named_and_nothing_is_left(sandbox: &Sandbox) {
        assert!(can_merge_trees().unwrap());
        for format in ["sha1", "sha256"] {
            let path = sandbox.directory(format);
            git(&path, ["init", "--quiet", "--object-format", format]);
            write(&path.join("a.txt"), "one\ntwo\nthree\nfour\nfive\n");
            write(&path.join("line\nfeed"), "x\n");
            write(&path.join("gone"), "x\n");
            commit_all(&path, "first");
            let one = || {
                write(&path.join("a.txt"), "ONE\ntwo\nthree\nfour\nfive\n");
                write(&path.join("line\nfeed"), "1\n");
                write(&path.join("gone"), "1\n");
            };
            let other = || {
                write(&path.join("a.txt"), "one\ntwo\nthree\nfour\nFIVE\n");
                write(&path.join("line\nfeed"), "2\n");
                std::fs::remove_file(path.join("gone")).unwrap();
            };
            let (base, [one, other]) = sides(&path, &one, &other);
            let place = sandbox.path("place");
            let before = contents(&path.join(".git/objects"));
            let conflicts = |sides| merge(&path, &base, sides).conflicts(&place, &Cancel::default()).unwrap();
            assert_eq!(conflicts([&one, &other]), [b"gone".to_vec(), b"line\nfeed".to_vec()]);
            assert_eq!(conflicts([&one, &one]), Vec::<Vec<u8>>::new());
            assert_eq!(conflicts([&one, &base]), Vec::<Vec<u8>>::new());
            let tree = git(&path, ["rev-parse", &format!("{one}^{{tree}}")]);
            assert_eq!(conflicts([&tree, &other]).len(), 2, "a tree does as well");
            let mut unrelated = merge(&path, &base, [&one, &other]);
            unrelated.base = None;
            assert_eq!(unrelated.conflicts(&place, &Cancel::default()).unwrap().len(), 2);
            assert!(!place.exists());
            assert_eq!(contents(&path.join(".git/objects")), before);
        }
    }
}

sealed_test! {
    fn attributes_and_drivers_of_the_trees_run_nothing(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let marker = sandbox.path("marker");
        let driver = format!("touch {}; exit 0", marker.display());
        write(&path.join(".gitattributes"), "a.txt merge=evil filter=evil diff=evil\n");
        for name in ["merge.evil.driver", "filter.evil.smudge", "diff.evil.textconv"] {
            git(&path, ["config", name, &driver]);
        }
        commit_all(&path, "attributes");
        let edit = |text: &'static str| {
            let file = path.join("a.txt");
            move || write(&file, text)
        };
        let (base, [one, other]) = sides(&path, &edit("1\n"), &edit("2\n"));
        // The counterpart: git in that repository runs the driver.
        let _ = std::fs::remove_file(&marker);
        try_git(&path, ["merge-tree", "--write-tree", &one, &other]);
        assert!(marker.exists());
        std::fs::remove_file(&marker).unwrap();
        let merge = merge(&path, &base, [&one, &other]);
        let found = merge.conflicts(&sandbox.path("place"), &Cancel::default()).unwrap();
        assert_eq!(found, [b"a.txt".to_vec()]);
        assert!(!marker.exists());
    }
}

sealed_test! {
    fn wrong_ids_and_a_raised_cancel_leave_nothing(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let edit = |text: &'static str| {
            let file = path.join("a.txt");
            move || write(&file, text)
        };
        let (base, [one, other]) = sides(&path, &edit("1\n"), &edit("2\n"));
        let place = sandbox.path("place");
        let absent = "1".repeat(40);
        for sides in [["--exec=x", &one], [&absent, &one]] {
            assert!(merge(&path, &base, sides).conflicts(&place, &Cancel::default()).is_err());
            assert!(!place.exists());
        }
        let cancel = Cancel::default();
        cancel.raise();
        assert!(merge(&path, &base, [&one, &other]).conflicts(&place, &cancel).is_err());
        assert!(!place.exists());
    }
}

sealed_test! {
    fn branches_and_their_common_commit_are_found(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let (base, [one, other]) = sides(
            &path,
            &|| write(&path.join("b"), "1\n"),
            &|| write(&path.join("b"), "2\n"),
        );
        git(&path, ["branch", "one", &one]);
        git(&path, ["branch", "other", &other]);
        git(&path, ["checkout", "--quiet", "--orphan", "alone"]);
        commit_all(&path, "alone");
        let bare: Bare = crate::link::bare(sandbox, "sha1");
        crate::link::sync(&path, &bare);
        assert_eq!(bare.branch("one").unwrap().as_ref(), Some(&one));
        assert_eq!(bare.branch("none").unwrap(), None);
        assert_eq!(bare.merge_base(&one, &other).unwrap(), Some(base));
        assert_eq!(bare.merge_base(&one, &head(&path)).unwrap(), None);
        assert!(bare.merge_base(&one, "--all").is_err());
    }
}
