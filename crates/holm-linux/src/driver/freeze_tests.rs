//! Tests of pruning without overlayfs: whiteouts need rights that tests may not have, so the tests
//! in `crates/holm` cover those.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::TempDir;

struct Trees {
    place: TempDir,
}

impl Trees {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let trees = Self { place };
        for (path, content) in [("base/a", "1"), ("base/lib/b", "2"), ("upper/.git/x", "")] {
            trees.write(path, content);
        }
        trees
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn has(&self, path: &str) -> bool {
        self.place.path().join(path).symlink_metadata().is_ok()
    }

    fn prune(&self, before: &Before, ignored: &[&str]) -> Kept {
        let path = |name| self.place.path().join(name);
        let ignored: Vec<_> = ignored.iter().map(|p| p.as_bytes().to_vec()).collect();
        prune(&path("upper"), &path("base"), before, &ignored).unwrap()
    }

    fn before(&self) -> Before {
        Before::look(&self.place.path().join("upper")).unwrap()
    }
}

#[test]
fn only_what_is_ignored_is_kept() {
    let trees = Trees::new();
    trees.write("upper/node_modules/p/i.js", "x");
    trees.write("upper/lib/out/o", "x");
    trees.write("upper/lib/seen.log", "x");
    trees.write("upper/new", "x");
    trees.write("upper/deep/new", "x");
    let kept = trees.prune(
        &Before::default(),
        &["node_modules/", "lib/out/", "lib/seen.log"],
    );
    assert_eq!(kept.changed, Vec::<String>::new());
    assert_eq!(kept.left_out, ["deep/new", "new"]);
    for path in ["node_modules/p/i.js", "lib/out/o", "lib/seen.log"] {
        assert!(trees.has(&format!("upper/{path}")), "{path}");
    }
    for path in [".git", "new", "deep"] {
        assert!(!trees.has(&format!("upper/{path}")), "{path}");
    }
}

#[test]
fn tracked_files_that_changed_are_named() {
    let trees = Trees::new();
    // Copied up by a touch, with the same content.
    trees.write("upper/a", "1");
    assert_eq!(
        trees.prune(&Before::default(), &[]).changed,
        Vec::<String>::new()
    );
    assert!(!trees.has("upper/a"));
    trees.write("upper/a", "9");
    trees.write("upper/lib/b", "2");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(trees.place.path().join("upper/lib/b"), mode).unwrap();
    // Whether git calls them ignored makes no difference.
    let kept = trees.prune(&Before::default(), &["a", "lib/b", "lib/"]);
    assert_eq!(kept.changed, ["a", "lib/b"]);
    // They stay, for the user to look into.
    assert!(trees.has("upper/a") && trees.has("upper/lib/b"));
    let lib = trees.place.path().join("upper/lib");
    fs::remove_file(trees.place.path().join("upper/a")).unwrap();
    fs::remove_dir_all(&lib).unwrap();
    symlink("x", &lib).unwrap();
    let kept = trees.prune(&Before::default(), &["lib"]);
    assert_eq!(kept.changed, ["lib"]);
    fs::remove_file(lib).unwrap();
    trees.write("upper/a/now/a/directory", "1");
    assert_eq!(trees.prune(&Before::default(), &["a/"]).changed, ["a"]);
}

#[test]
fn an_uncommitted_state_is_no_change_of_the_set_up() {
    let trees = Trees::new();
    trees.write("upper/a", "edited");
    trees.write("upper/new", "untracked");
    let before = trees.before();
    trees.write("upper/out/o", "made");
    let kept = trees.prune(&before, &["out/"]);
    assert!(kept.changed.is_empty() && kept.left_out.is_empty());
    assert!(!trees.has("upper/a") && !trees.has("upper/new") && trees.has("upper/out/o"));

    trees.write("upper/a", "edited");
    trees.write("upper/new", "untracked");
    let before = trees.before();
    trees.write("upper/a", "and changed by the set-up");
    fs::remove_file(trees.place.path().join("upper/new")).unwrap();
    assert_eq!(trees.prune(&before, &[]).changed, ["a", "new"]);
}

#[test]
fn download_caches_are_left_out_and_links_are_not_followed() {
    let trees = Trees::new();
    for path in [
        "home/.npm/_cacache/a/b",
        "home/.npm/kept",
        "home/.cache/deps",
        "host/pip/x",
    ] {
        trees.write(path, "1");
    }
    let home = trees.place.path().join("home");
    fs::remove_dir_all(home.join(".cache")).unwrap();
    symlink(trees.place.path().join("host"), home.join(".cache")).unwrap();
    leave_out(
        &home,
        &[".npm/_cacache", ".cache/pip", ".absent/x", "absent"],
    )
    .unwrap();
    assert!(!trees.has("home/.npm/_cacache") && trees.has("home/.npm/kept"));
    assert!(
        trees.has("host/pip/x"),
        "the setup chose where the link leads"
    );
    // What a plain removal would have done.
    fs::remove_dir_all(home.join(".cache/pip")).unwrap();
    assert!(!trees.has("host/pip/x"));
}
