//! Tests of the policy file: its content, its owner, and that nothing else is accepted as one.

use super::*;
use holm_core::fitness::Status;
use std::os::unix::fs::{PermissionsExt, symlink};

const WHOLE: &str = "\
[egress]
mode = \"allow\"
allow = [\"*.example.org\", \"10.0.0.0/8\"]
[limits]
memory = \"4GiB\"
cpus = 2.0
processes = 1000
disk = \"10GiB\"
[island]
nested = false
isolation = \"workspace\"
drivers = [\"linux\"]
allow_degraded = []
protected_paths = [\"AGENTS.md\"]
[host]
include = false
shared = false
caches = false
canonical_ports = false
[secrets]
sources = [\"stored\", \"env\"]
[agents]
allow = [\"claude\"]
[trust]
by_token = false
";

#[test]
fn every_key_is_read() {
    let policy = parse(WHOLE, PATH).unwrap();
    let forbidden = Permission::Forbidden;
    for permission in [
        policy.nested,
        policy.siblings,
        policy.include,
        policy.shared,
        policy.caches,
        policy.canonical_ports,
        policy.trust_by_token,
    ] {
        assert_eq!(permission, forbidden);
    }
    assert_eq!(policy.egress_mode.map(|mode| mode.as_str()), Some("allow"));
    assert_eq!(policy.egress_allow.map(|list| list.len()), Some(2));
    assert_eq!(policy.limits.memory, Some(4 << 30));
    assert_eq!(policy.limits.cpus, Some(2.0));
    assert_eq!(policy.limits.processes, Some(1000));
    assert_eq!(policy.limits.disk, Some(10 << 30));
    assert_eq!(policy.drivers, Some(vec![DriverName::Linux]));
    assert_eq!(policy.degraded, Some(Vec::new()));
    assert_eq!(policy.protected_paths.len(), 1);
    let sources = [SourceKind::Stored, SourceKind::Env];
    assert_eq!(policy.secret_sources.as_deref(), Some(&sources[..]));
    assert_eq!(policy.agents.map(|list| list.len()), Some(1));
    // An empty file sets no bounds, and `true` is the same as nothing.
    assert_eq!(parse("", PATH).unwrap(), MachinePolicy::default());
    let open = "[island]\nnested = true\nisolation = \"project\"\n[host]\ninclude = true\n";
    assert_eq!(parse(open, PATH).unwrap(), MachinePolicy::default());
}

#[test]
fn every_error_has_its_place() {
    for (text, place, what) in [
        ("[egres]\n", "1:2", "unknown key `egres`"),
        ("[egress]\nmode = \"closed\"\n", "2:8", "cannot be `closed`"),
        ("[limits]\n\nmemory = 4\n", "3:10", "must be a string"),
        ("[host]\ninclude = \"no\"\n", "2:11", "`true` or `false`"),
        ("[secrets]\nsources = [\"op\"]\n", "2:12", "cannot be `op`"),
        ("[island\n", "1:8", ""),
    ] {
        let errors = parse(text, PATH).unwrap_err().to_string();
        let place = format!("{PATH}:{place}: ");
        assert!(
            errors.starts_with(&place) && errors.contains(what),
            "{errors}"
        );
    }
}

fn own(path: &Path) -> PolicyFile {
    PolicyFile {
        path: path.to_owned(),
        owner: rustix::process::geteuid().as_raw(),
    }
}

#[track_caller]
fn unusable(file: &PolicyFile, why: &str) {
    let fault = file.load().unwrap_err();
    assert_eq!(fault.code, Code::InvalidPolicy);
    assert_eq!(fault.code.kind().exit_code(), 4);
    assert!(fault.message().contains(why), "{fault}");
    let path = file.path.display().to_string();
    assert!(fault.message().contains(&path), "{fault}");
    assert_eq!(file.check().status, Status::Missing);
}

#[test]
fn only_a_file_that_nobody_else_writes_is_a_policy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    let file = own(&path);
    assert_eq!(file.load(), Ok(None));
    assert!(file.check().detail.contains("there is none"));
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::write(&path, "[island]\nnested = false\n").unwrap();
    mode(&path, 0o644);
    let policy = file.load().unwrap().unwrap();
    assert_eq!(policy.nested, Permission::Forbidden);
    assert!(file.check().detail.contains("is in force"));
    for open in [0o664, 0o646, 0o666] {
        mode(&path, open);
        unusable(&file, "can be written by others");
    }
    mode(&path, 0o644);
    for open in [0o777, 0o770, 0o1777] {
        mode(directory.path(), open);
        unusable(&file, "can be written by others");
    }
    mode(directory.path(), 0o755);
    // A file of another user.
    let of_root = PolicyFile {
        owner: ROOT,
        ..file.clone()
    };
    let _ = std::os::unix::fs::chown(&path, Some(65534), None);
    unusable(&of_root, "not to root");
    std::os::unix::fs::chown(&path, Some(file.owner), None).unwrap();
    // Incomplete, not text, not a file.
    std::fs::write(&path, "[island]\nnested = nein\n").unwrap();
    unusable(&file, "policy.toml:2:10");
    std::fs::write(&path, b"\xff").unwrap();
    unusable(&file, "cannot be read");
    std::fs::write(&path, vec![b'#'; 1 << 21]).unwrap();
    unusable(&file, "larger than");
    std::fs::remove_file(&path).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    std::fs::write(&elsewhere, "").unwrap();
    symlink(&elsewhere, &path).unwrap();
    unusable(&file, "it is a link");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    unusable(&file, "not an ordinary file");
    let below = own(&elsewhere.join("policy.toml"));
    unusable(&below, "cannot be opened");
}

/// Whatever the environment says: a release build looks nowhere else.
#[test]
fn the_place_is_fixed_in_what_users_get() {
    let machine = PolicyFile::of_machine();
    if !cfg!(debug_assertions) || std::env::var_os("HOLM_TEST_POLICY").is_none() {
        assert_eq!(machine.path, Path::new("/etc/holm/policy.toml"));
        assert_eq!(machine.owner, ROOT);
    }
}
