//! Which lock files of a checkout are installed in it completely, so that `up --warm` can take what is there instead
//! of installing it again. Package managers leave a copy of what they installed beside the packages.

use holm_core::layer::InstalledLock;
use serde_json::{Map, Value};
use std::path::Path;

/// The largest lock file that is compared.
const LARGEST: u64 = 64 << 20;

/// Of the checkout's files, the lock files in its root that are installed. `files` have their current content ids.
pub fn locks(toplevel: &Path, files: Vec<InstalledLock>) -> Vec<InstalledLock> {
    let is_installed = |it: &InstalledLock| match it.path.as_str() {
        "package-lock.json" => npm(toplevel),
        "pnpm-lock.yaml" => pnpm(toplevel),
        _ => false,
    };
    files.into_iter().filter(is_installed).collect()
}

fn read(path: &Path) -> Option<String> {
    let metadata = path.symlink_metadata().ok()?;
    let is_fit = metadata.is_file() && metadata.len() <= LARGEST;
    is_fit.then(|| std::fs::read_to_string(path).ok())?
}

/// npm's own list of what is in `node_modules` names every package of the lock file, with the same content.
/// Optional packages of other systems are not installed.
fn npm(toplevel: &Path) -> bool {
    let packages = |path: &str| -> Option<Map<String, Value>> {
        let mut document: Value = serde_json::from_str(&read(&toplevel.join(path))?).ok()?;
        match document.get_mut("packages")?.take() {
            Value::Object(packages) => Some(packages),
            _ => None,
        }
    };
    let wanted = packages("package-lock.json");
    let found = packages("node_modules/.package-lock.json");
    let (Some(wanted), Some(found)) = (wanted, found) else {
        return false;
    };
    let is_same = |one: &Value, other: &Value| {
        ["version", "resolved", "integrity", "link"]
            .iter()
            .all(|key| one.get(key) == other.get(key))
    };
    let is_there = |(path, package): (&String, &Value)| match found.get(path) {
        Some(other) => is_same(package, other),
        // The project and the packages of its workspaces are not in `node_modules`.
        None if !path.starts_with("node_modules/") && !path.contains("/node_modules/") => true,
        None => package.get("optional") == Some(&Value::Bool(true)),
    };
    wanted.iter().all(is_there) && found.keys().all(|path| wanted.contains_key(path))
}

/// pnpm keeps a copy of the lock file that it installed.
fn pnpm(toplevel: &Path) -> bool {
    let wanted = read(&toplevel.join("pnpm-lock.yaml"));
    wanted.is_some() && wanted == read(&toplevel.join("node_modules/.pnpm/lock.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"{"packages":{"":{"name":"x"},"node_modules/a":{"version":"1.0.0","integrity":"i"},
        "node_modules/b":{"version":"1.0.0","optional":true}}}"#;

    fn installed(lock: (&str, &str), copy: Option<(&str, &str)>) -> bool {
        let place = tempfile::tempdir().unwrap();
        let write = |(path, text): (&str, &str)| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(lock);
        copy.into_iter().for_each(write);
        let file = |path: &str| InstalledLock {
            path: path.to_owned(),
            object: "1".to_owned(),
        };
        let found = locks(place.path(), vec![file("src/main.js"), file(lock.0)]);
        assert!(found.iter().all(|it| it.path == lock.0));
        !found.is_empty()
    }

    #[test]
    fn npm_has_installed_what_its_own_list_says() {
        let check = |copy: Option<&str>, expect: bool| {
            let copy = copy.map(|text| ("node_modules/.package-lock.json", text));
            assert_eq!(
                installed(("package-lock.json", LOCK), copy),
                expect,
                "{copy:?}"
            );
        };
        check(
            Some(r#"{"packages":{"node_modules/a":{"version":"1.0.0","integrity":"i"}}}"#),
            true,
        );
        check(
            Some(r#"{"packages":{"node_modules/a":{"version":"1.0.1","integrity":"i"}}}"#),
            false,
        );
        check(
            Some(r#"{"packages":{"node_modules/b":{"version":"1.0.0"}}}"#),
            false,
        );
        let more = r#"{"packages":{"node_modules/a":{"version":"1.0.0","integrity":"i"},"node_modules/c":{}}}"#;
        check(Some(more), false);
        check(Some("nonsense"), false);
        check(None, false);
    }

    #[test]
    fn pnpm_has_installed_the_lock_file_that_it_copied() {
        let lock = ("pnpm-lock.yaml", "lockfileVersion: '9.0'\n");
        assert!(installed(
            lock,
            Some(("node_modules/.pnpm/lock.yaml", lock.1))
        ));
        assert!(!installed(
            lock,
            Some(("node_modules/.pnpm/lock.yaml", "other"))
        ));
        assert!(!installed(lock, None));
    }
}
