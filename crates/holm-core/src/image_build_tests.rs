//! Builds as files describe them, and Dockerfiles that reach out.

use super::{Dockerfile, ImageBuild, WrittenBuild, downloader, reaches_out, without_frontend};
use crate::image_reference::ImageReference;
use std::collections::BTreeMap;

fn written(context: &str, dockerfile: &str) -> WrittenBuild {
    WrittenBuild {
        context: Some(context.to_owned()),
        dockerfile: Some(dockerfile.to_owned()),
        ..WrittenBuild::default()
    }
}

#[test]
fn paths_are_resolved_and_stay_below_the_root() {
    let check = |base: &str, context: &str, dockerfile: &str, expect: Option<[&str; 2]>| {
        let found = written(context, dockerfile).build(base).ok();
        let found = found.map(|it| (it.context, it.dockerfile));
        let expect =
            expect.map(|[context, file]| (context.to_owned(), Dockerfile::File(file.to_owned())));
        assert_eq!(found, expect, "{base} {context} {dockerfile}");
    };
    check("", ".", "Dockerfile", Some(["", "Dockerfile"]));
    check(
        "",
        "./web/",
        "prod.Dockerfile",
        Some(["web", "web/prod.Dockerfile"]),
    );
    check("", "web", "../docker/web", Some(["web", "docker/web"]));
    check(
        ".devcontainer",
        "..",
        ".devcontainer/Dockerfile",
        Some(["", ".devcontainer/Dockerfile"]),
    );
    check("", "..", "Dockerfile", None);
    check("", "web/../..", "Dockerfile", None);
    check("", "web", "../../etc/passwd", None);
    check("", "/etc", "Dockerfile", None);
    check("", "~", "Dockerfile", None);
    check("", ".", "/etc/passwd", None);
    check("", "https://example.org/a.git", "Dockerfile", None);
    check("", "a\n", "Dockerfile", None);
    let plain = WrittenBuild::default().build("").unwrap();
    assert_eq!(plain.dockerfile, Dockerfile::File("Dockerfile".to_owned()));
}

#[test]
fn no_name_becomes_an_option_of_the_builder() {
    let with = |name: &str, value: &str, target: Option<&str>| WrittenBuild {
        args: BTreeMap::from([(name.to_owned(), value.to_owned())]),
        target: target.map(str::to_owned),
        ..WrittenBuild::default()
    };
    assert!(with("A_1", "--privileged", Some("prod")).build("").is_ok());
    for name in [
        "",
        "-v",
        "--network",
        "A B",
        "1A",
        "A=B",
        "BUILDKIT_SYNTAX",
        "A\0",
    ] {
        assert!(with(name, "x", None).build("").is_err(), "{name:?}");
    }
    assert!(with("A", "x\0", None).build("").is_err());
    for target in ["", "-t", "--secret", "a b", "a=b"] {
        assert!(
            with("A", "x", Some(target)).build("").is_err(),
            "{target:?}"
        );
    }
    for (network, expect) in [
        ("none", Some(false)),
        ("default", Some(true)),
        ("host", Some(true)),
        ("--x", None),
    ] {
        let build = WrittenBuild {
            network: Some(network.to_owned()),
            ..WrittenBuild::default()
        };
        let found: Option<ImageBuild> = build.build("").ok();
        assert_eq!(found.map(|it| it.network), expect, "{network}");
    }
}

#[test]
fn instructions_that_use_the_network_are_found_however_they_are_written() {
    for text in [
        "FROM a\nRUN --network=host id",
        "FROM a\nrun  --NETWORK=default id",
        "FROM a\nRUN --mount=type=cache,target=/x --security=insecure id",
        "FROM a\nRUN \\\n  # a comment\n\n  --network=host id",
        "FROM a\nRUN --net\\\nwork=host id",
        "# escape=`\nFROM a\nRUN `\n--network=host id",
        "FROM a\nR\\\nUN --network=host id",
        "FROM a\nADD https://example.org/x /x",
        "FROM a\nADD git@example.org:a/b /x",
        "FROM a\nARG U=x\nADD $U /x",
        "FROM a\nADD \\\n https://example.org/x /x",
        "FROM a\nONBUILD ADD https://example.org/x /x",
        "FROM a\nONBUILD RUN --network=host id",
        "FROM a\nRUN <<E\nx\\\nE\nADD https://example.org/x /x",
    ] {
        assert!(reaches_out(text).is_some(), "{text}");
    }
    let long = format!(
        "FROM a\nADD {}\\\nhttps://example.org/x /",
        "a ".repeat(3000)
    );
    assert!(reaches_out(&long).is_some());
    for text in [
        "FROM a\nRUN npm ci --network=host",
        "FROM a\nRUN --mount=type=cache,target=/x id",
        "FROM a\nADD a.tar /x\nCOPY --from=b / /\n# ADD https://example.org/x /x",
        "FROM registry.example.org:5000/a:1\nRUN curl https://example.org/x",
    ] {
        assert_eq!(reaches_out(text), None, "{text}");
    }
}

#[test]
fn programs_that_load_something_are_found() {
    let check = |text: &str, expect: Option<&str>| assert_eq!(downloader(text), expect, "{text}");
    check("FROM a\nRUN apt-get update", Some("apt-get"));
    check(
        "FROM a\nrun set -e; \\\n  # why\n\n  /usr/bin/pip install x",
        Some("pip"),
    );
    check("FROM a\nRUN [\"npm\", \"ci\"]", Some("npm"));
    check(
        "FROM a\nRUN --mount=type=cache,target=/x ./mvnw package",
        Some("mvnw"),
    );
    for text in [
        "FROM a\nCMD npm start",
        "FROM a\n# RUN npm ci",
        "FROM a\nRUN make\nCOPY npm /x",
        "FROM a\nRUN echo go-away \\",
        "",
    ] {
        check(text, None);
    }
}

#[test]
fn a_program_that_reads_the_dockerfile_is_left_out() {
    let check = |text: &str, expect: &str| assert_eq!(without_frontend(text), expect);
    check("# syntax=example.org/x:1\nFROM a\n", "#\nFROM a\n");
    check("#SYNTAX = x\n# escape=`\nFROM a", "#\n# escape=`\nFROM a");
    check("// syntax=x\nFROM a\n", "#\nFROM a\n");
    check("FROM a\nRUN echo syntax=x\n", "FROM a\nRUN echo syntax=x\n");
}

#[test]
fn names_of_built_images_are_recognised() {
    let key = "0123456789abcdef".repeat(4);
    assert!(ImageReference::built(&key).unwrap().is_built());
    assert!(ImageReference::unbuilt().unwrap().is_built());
    assert_eq!(ImageReference::built("latest"), None);
    for other in [
        "localhost/holm-build-x:1",
        "holm-build:1",
        "example.org/holm-build:1",
    ] {
        assert!(
            !other.parse::<ImageReference>().unwrap().is_built(),
            "{other}"
        );
    }
}
