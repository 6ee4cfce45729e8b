//! Features: their order, their options, and those that cannot be installed.

use super::{FILE, HOLM, container, read, service};
use holm_core::image_build::Dockerfile;
use std::path::Path;

fn feature(id: &str, more: &str) -> String {
    format!(r#"{{"id": "{id}", "version": "1.0.0", "name": "{id}"{more}}}"#)
}

#[test]
fn features_are_installed_in_their_order() {
    let (a, b, c) = (
        feature(
            "a",
            r#", "installsAfter": ["b"], "options": {"ver-sion": {"type": "string", "default": "1"}, "on": {"type": "boolean", "default": false}}"#,
        ),
        feature(
            "b",
            r#", "containerEnv": {"PATH": "/b:${PATH}"}, "postCreateCommand": "b-hook", "mounts": ["source=b,target=/b"]"#,
        ),
        feature("c", r#", "dependsOn": {"../d": {"x": "y"}}"#),
    );
    let d = feature(
        "d",
        r#", "options": {"x": {"type": "string", "default": ""}}"#,
    );
    let files: Vec<(&str, &str)> = vec![
        (
            FILE,
            r#"{"image": "x.test/a", "containerUser": "dev", "postCreateCommand": "own",
            "features": {"./a": {"ver-sion": "it's"}, "./b": {}, "./c": true}}"#,
        ),
        (".devcontainer/a/devcontainer-feature.json", &a),
        (".devcontainer/a/install.sh", "echo a"),
        (".devcontainer/b/devcontainer-feature.json", &b),
        (".devcontainer/b/install.sh", "echo b"),
        (".devcontainer/c/devcontainer-feature.json", &c),
        (".devcontainer/c/install.sh", "echo c"),
        (".devcontainer/d/devcontainer-feature.json", &d),
        (".devcontainer/d/install.sh", "echo d"),
    ];
    let config = read(HOLM, &files).unwrap();
    let image = service(&config, "devcontainer").image.as_ref().unwrap();
    assert!(image.reference.is_built());
    let build = image.build.as_ref().unwrap();
    assert_eq!(
        build.dockerfile,
        Dockerfile::Inline("FROM x.test/a:latest\n".to_owned())
    );
    let features = build.features.as_ref().unwrap();
    let expected = ["b", "a", "d", "c"].map(|name| format!(".devcontainer/{name}"));
    assert_eq!(features.directories, expected);
    let text = features.appended_to("FROM x.test/a\n");
    assert!(
        text.contains("COPY .holm-features/0 /tmp/holm-features/0\nENV PATH=\"/b:${PATH}\"\n"),
        "{text}"
    );
    assert!(
        text.contains(r"ON='false' VER_SION='it'\''s' ./install.sh"),
        "{text}"
    );
    assert!(
        text.contains("X='y' ./install.sh") && text.contains("_REMOTE_USER='dev'"),
        "{text}"
    );
    assert!(text.ends_with("USER dev\n"), "{text}");
    let commands = &config.dev_container.as_ref().unwrap().commands;
    let shown: Vec<_> = commands.iter().map(|it| it.commands[0].shown()).collect();
    assert_eq!(shown, ["b-hook", "own"]);
    assert_eq!(
        container(&config, "devcontainer").mounts[0].target,
        Path::new("/b")
    );
    let mut changed = files.clone();
    changed[2] = (".devcontainer/a/install.sh", "echo other");
    let other = read(HOLM, &changed).unwrap();
    let other = service(&other, "devcontainer")
        .image
        .clone()
        .unwrap()
        .build
        .unwrap();
    assert_ne!(
        other.features, build.features,
        "another script is another request"
    );
}

#[test]
fn features_that_cannot_be_installed_are_errors() {
    let check = |features: &str, more: &[(&str, &str)], expected: &str| {
        let text = format!(r#"{{"image": "x.test/a", "features": {features}}}"#);
        let mut files = vec![(FILE, text.as_str())];
        files.extend(more);
        let error = read(HOLM, &files).unwrap_err();
        assert!(error.contains(expected), "{features}: {error}");
    };
    check(
        r#"{"registry.test/features/node:1": {}}"#,
        &[],
        "1:36: the feature `registry.test/features/node:1` is not in the repository",
    );
    check(
        r#"{"../../x": {}}"#,
        &[],
        "the feature `../../x` is outside of the project's root",
    );
    check(
        r#"{"./../../etc": {}}"#,
        &[],
        "is outside of the project's root",
    );
    check(
        r#"{"./no": {}}"#,
        &[],
        "has no file .devcontainer/no/devcontainer-feature.json",
    );
    let (one, two) = (
        feature("one", r#", "installsAfter": ["two"]"#),
        feature("two", r#", "installsAfter": ["one"]"#),
    );
    let both = [
        (".devcontainer/one/devcontainer-feature.json", one.as_str()),
        (".devcontainer/two/devcontainer-feature.json", two.as_str()),
        (".devcontainer/one/install.sh", ""),
        (".devcontainer/two/install.sh", ""),
    ];
    check(
        r#"{"./one": {}, "./two": {}}"#,
        &both,
        "the features `./one`, `./two` wait for each other",
    );
    check(r#"{"./one": {}}"#, &both[..1], "has no install.sh");
    let broken = [
        (".devcontainer/one/devcontainer-feature.json", "{\n\"id\""),
        (".devcontainer/one/install.sh", ""),
    ];
    check(
        r#"{"./one": {}}"#,
        &broken,
        ".devcontainer/one/devcontainer-feature.json:",
    );
    let choice = feature(
        "one",
        r#", "options": {"v": {"enum": ["a"], "default": "a"}}"#,
    );
    let files = [
        (
            ".devcontainer/one/devcontainer-feature.json",
            choice.as_str(),
        ),
        (".devcontainer/one/install.sh", ""),
    ];
    check(r#"{"./one": {"v": "z"}}"#, &files, "must be one of `a`");
}
