//! What a `devcontainer.json` may do to the host: nothing without approval, and exactly what was shown with it.

use crate::builds::{builds, copy_programs, holm as holm_with_builder, rootless};
use crate::devcontainer::{FILE, HOLM, project, said};
use crate::services::service;
use crate::support::{Island, Ran, Repository};
use std::os::unix::fs::symlink;
use std::path::Path;

/// CAP_CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID and SETPCAP, in a user namespace that owns nothing else.
const OF_ROOM_ROOT: u64 = 0x1fb;

/// Every key that reaches the host.
fn hostile(marks: &Path) -> String {
    let marks = marks.display();
    format!(
        r#"{{
            "image": "tools:1",
            "initializeCommand": {{"a": "touch {marks}/initialize", "b": ["touch", "{marks}/second"]}},
            "workspaceFolder": "/workspaces/shop",
            "mounts": ["type=bind,source={marks},target=/host", "type=bind,source={marks}/host.sock,target=/host.sock"],
            "runArgs": ["--volume={marks}:/args", "--privileged"],
            "privileged": true,
            "capAdd": ["SYS_ADMIN"],
            "securityOpt": ["seccomp=unconfined"],
            "hostRequirements": {{"gpu": "optional"}},
            "containerEnv": {{"STOLEN": "${{localEnv:HOLM_TEST_TOKEN}}", "FROM_HOST": "${{localEnv:NOT_SET:nothing}}"}},
            "postCreateCommand": "ls /host > /saw 2>/dev/null; true",
            "waitFor": "postCreateCommand"
        }}"#
    )
}

fn with_token(repository: &Repository<'_>, arguments: &[&str]) -> Ran {
    let island = repository.island;
    let mut command = island.holm_command(&repository.path, arguments);
    Ran::new(command.env("HOLM_TEST_TOKEN", "canary-4711"))
}

fn marks(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn attack_220_nothing_of_a_container_reaches_the_host_without_approval() {
    let island = Island::new();
    let place = island.make_dir("home/marks");
    island.write("home/marks/secret", "of the host\n");
    let _socket = std::os::unix::net::UnixListener::bind(place.join("host.sock")).unwrap();
    let repository = project(&island, &hostile(&place), "");
    let before = marks(&place);
    let refused = with_token(&repository, &["up", "a", "--json"]).error(4);
    assert_eq!(refused["code"], "not_trusted", "{refused:#}");
    let shown = refused["message"].as_str().unwrap();
    let keys = [
        "devcontainer.initializeCommand",
        "devcontainer.mounts",
        "devcontainer.runArgs",
        "devcontainer.privileged",
        "devcontainer.capAdd",
        "devcontainer.securityOpt",
        "devcontainer.hostRequirements",
        "environment.HOLM_TEST_TOKEN",
    ];
    for key in keys {
        assert!(shown.contains(key), "{key}: {shown}");
    }
    assert!(!shown.contains("canary"), "{shown}");
    with_token(&repository, &["up", "a", "--untrusted"]).ok();
    let inside = "echo \"$STOLEN-$FROM_HOST\"; cat /saw; ls /host /host.sock 2>/dev/null; \
                  grep -c canary /proc/self/environ";
    assert_eq!(island.sh("a", inside).out(), "-nothing\n0");
    assert_eq!(marks(&place), before, "nothing happened on the host");
    // The counterpart: the same file, approved.
    with_token(&repository, &["trust", "--yes"]).ok();
    with_token(&repository, &["up", "b"]).ok();
    let seen = said(&island, "b", "echo $STOLEN; cat /host/secret");
    assert_eq!(seen, "canary-4711\nof the host");
    let mut after = before.clone();
    after.extend(["initialize", "second"].map(str::to_owned));
    after.sort();
    assert_eq!(marks(&place), after);
    // Privileges are not given, approved or not. Root of an image has rights with the image's own files and users.
    let rights = said(
        &island,
        "b",
        "grep -E '^(CapEff|Seccomp|NoNewPrivs):' /proc/self/status | cut -f2",
    );
    let mut rights = rights.lines();
    let capabilities = u64::from_str_radix(rights.next().unwrap(), 16).unwrap();
    assert_eq!(capabilities & !OF_ROOM_ROOT, 0, "{capabilities:x}");
    assert_eq!(rights.collect::<Vec<_>>(), ["1", "2"]);
    // Another command is another request.
    repository.write(FILE, hostile(&place).replace("/second", "/third"));
    repository.commit("another command");
    with_token(&repository, &["up", "c", "--json"]).error(4);
    assert_eq!(marks(&place), after);
}

#[test]
fn attack_221_paths_of_a_container_do_not_leave_the_tree() {
    let island = Island::new();
    let secret = island.write("home/secret", "of the host\n");
    let repository = project(
        &island,
        r#"{"image": "tools:1", "mounts": [
            {"type": "bind", "source": "${localWorkspaceFolder}/sub/link", "target": "/link"}]}"#,
        "",
    );
    symlink(&secret, repository.path.join("sub/link")).unwrap();
    repository.commit("a link to the host");
    // The link is resolved below the tree, where it leads nowhere.
    repository.holm(&["up", "a", "--no-wait"]);
    let seen = island.inside("a", &["cat", "/link"]);
    assert!(seen.code != Some(0), "{seen:?}");
    assert!(!seen.out().contains("of the host"), "{seen:?}");
    // A file that is a link itself is not followed out of the checkout.
    std::fs::remove_file(repository.path.join(FILE)).unwrap();
    let outside = island.write("home/outside.json", r#"{"image": "tools:1"}"#);
    symlink(outside, repository.path.join(FILE)).unwrap();
    let refused = repository.holm(&["up", "b", "--dirty", "--json"]).error(2);
    assert_eq!(refused["code"], "invalid_config", "{refused:#}");
}

/// A feature that a build installs.
const INSTALL: &str = "#!/bin/sh\nset -e\necho \"$GREETING $_REMOTE_USER\" > /installed\n\
    cat ./more >> /installed\n";
const METADATA: &str = r#"{"id": "hello", "version": "1.0.0", "name": "Hello",
    "options": {"greeting": {"type": "string", "default": "hi"}},
    "containerEnv": {"FROM_FEATURE": "yes"}, "postCreateCommand": "cat /installed > /seen"}"#;

fn with_feature<'a>(island: &'a Island) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM);
    repository.write(
        FILE,
        r#"{"build": {"dockerfile": "Dockerfile"}, "remoteUser": "root", "waitFor": "postCreateCommand",
            "features": {"./hello": {"greeting": "good day"}}}"#,
    );
    let dockerfile = "FROM scratch\nCOPY root/ /\n";
    repository.write(".devcontainer/Dockerfile", dockerfile);
    repository.write(".devcontainer/.dockerignore", "*\n!root\n");
    let feature = ".devcontainer/hello";
    repository.write(&format!("{feature}/devcontainer-feature.json"), METADATA);
    repository.write(&format!("{feature}/install.sh"), INSTALL);
    repository.write(&format!("{feature}/more"), "more\n");
    let programs = [
        "/bin/sh",
        "/usr/bin/cat",
        "/usr/bin/chmod",
        "/usr/bin/cut",
        "/usr/bin/getent",
        "/usr/bin/sleep",
    ];
    copy_programs(&repository, ".devcontainer/root", &programs);
    let users = "root:x:0:0::/root:/bin/sh\n";
    repository.write(".devcontainer/root/etc/passwd", users);
    repository.commit("a feature");
    repository
}

#[test]
fn a_dockerfile_with_a_feature_is_built_once_after_approval() {
    let Some(island) = rootless("buildah") else {
        return;
    };
    let repository = with_feature(&island);
    let refused = holm_with_builder(&repository, &["up", "a", "--json"]).error(4);
    let shown = refused["message"].as_str().unwrap();
    let scripts = "install scripts of `.devcontainer/hello`";
    assert!(shown.contains(scripts), "{shown}");
    assert!(builds(&island).is_empty(), "no image was built");
    holm_with_builder(&repository, &["trust", "--yes"]).ok();
    for label in ["a", "b"] {
        let made = holm_with_builder(&repository, &["up", label, "--json"]).json();
        assert_eq!(service(&made, "devcontainer")["state"], "ready", "{made:#}");
        let seen = said(&island, label, "cat /installed /seen; echo $FROM_FEATURE");
        let installed = "good day root\nmore\n";
        assert_eq!(seen, format!("{installed}{installed}yes"));
    }
    assert_eq!(builds(&island).len(), 1);
    // It can be built again.
    holm_with_builder(&repository, &["restart", "a", "--rebuild"]).ok();
    assert_eq!(builds(&island).len(), 2);
    said(&island, "a", "cat /installed");
    // Another content of the script asks again.
    let other = "#!/bin/sh\ntouch /other /installed\n";
    repository.write(".devcontainer/hello/install.sh", other);
    repository.commit("another script");
    holm_with_builder(&repository, &["up", "c", "--json"]).error(4);
}

#[test]
fn attack_222_a_feature_has_no_links() {
    let Some(island) = rootless("buildah") else {
        return;
    };
    let repository = with_feature(&island);
    let secret = island.write("home/secret", "of the host\n");
    symlink(secret, repository.path.join(".devcontainer/hello/link")).unwrap();
    repository.commit("a link");
    holm_with_builder(&repository, &["trust", "--yes"]).ok();
    let refused = holm_with_builder(&repository, &["up", "a", "--json"]);
    assert!(refused.code != Some(0), "{refused:?}");
    assert!(refused.stderr.contains("has the link"), "{refused:?}");
    assert!(builds(&island).is_empty(), "no image was built");
}
