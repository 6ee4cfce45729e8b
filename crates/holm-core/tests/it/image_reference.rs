//! Names of images: what they mean, what is refused, and that a written reference parses as itself.

use holm_core::image_reference::{DEFAULT_REGISTRY, ImageReference};
use proptest::prelude::*;

fn written(text: &str) -> String {
    text.parse::<ImageReference>().unwrap().to_string()
}

#[test]
fn the_default_registry_is_complete() {
    let registry = &DEFAULT_REGISTRY;
    let values = [registry.alias, registry.host, registry.realm];
    assert!(values.iter().all(|host| host.contains('.')), "{registry:?}");
    assert!(!registry.official.is_empty());
}

#[test]
fn a_short_name_is_completed() {
    let default = DEFAULT_REGISTRY.name;
    assert_eq!(
        written("postgres:16"),
        format!("{default}/library/postgres:16")
    );
    assert_eq!(
        written("postgres"),
        format!("{default}/library/postgres:latest")
    );
    assert_eq!(written("team/app"), format!("{default}/team/app:latest"));
    let alias = format!("{}/postgres", DEFAULT_REGISTRY.alias);
    assert_eq!(written(&alias), written("postgres"));
    let reference: ImageReference = "postgres".parse().unwrap();
    assert_eq!(reference.api_host(), DEFAULT_REGISTRY.host);
    let familiar = |text: &str| text.parse::<ImageReference>().unwrap().familiar();
    for name in [
        "postgres:16",
        "team/app:1",
        "library/a/b:1",
        "registry.example.org/library/a:1",
    ] {
        assert_eq!(familiar(name), name);
    }
    // Without its registry, this would be the name of another one.
    let odd = format!("{default}/localhost/a:1");
    assert_eq!(familiar(&odd), odd);
}

#[test]
fn a_full_name_keeps_all_its_parts() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let text = format!("registry.example.org:5000/a/b:v1@{digest}");
    let reference: ImageReference = text.parse().unwrap();
    assert_eq!(reference.registry(), "registry.example.org:5000");
    assert_eq!(reference.repository(), "a/b");
    assert_eq!(reference.tag(), Some("v1"));
    assert_eq!(reference.digest().unwrap().to_string(), digest);
    assert_eq!(reference.to_string(), text);
    let text = format!("registry.example.org/b@{digest}");
    assert_eq!(written(&text), text);
    assert_eq!(written("LOCALHOST:5000/a"), "localhost:5000/a:latest");
    assert_eq!(written("[::1]:5000/a"), "[::1]:5000/a:latest");
    assert_eq!(
        written("a__b/c--d.e_f:1"),
        format!("{}/a__b/c--d.e_f:1", DEFAULT_REGISTRY.name)
    );
}

#[test]
fn names_that_mean_nothing_are_refused() {
    let upper = format!("a@sha256:{}", "0A".repeat(32));
    let long = format!("a/{}", "b".repeat(300));
    for text in [
        "",
        ":16",
        "a:",
        "a:-x",
        "A",
        "a//b",
        "/a",
        "a/",
        "a/../b",
        "a b",
        "a@sha256:12",
        "a@md5:12",
        "-a",
        "a___b",
        "a..b",
        "a_",
        "example.org:0/a",
        "example.org:70000/a",
        "example.org:+80/a",
        "-x.example.org/a",
        "user@example.org/a",
        "example.org:80:80/a",
        "[::1/a",
        "https://example.org/a",
        "a\n",
        "é",
        "example.org/",
        &upper,
        &long,
    ] {
        assert!(text.parse::<ImageReference>().is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn a_written_reference_parses_as_itself(
        registry in proptest::option::of("[a-z][a-z0-9]{0,8}\\.test(:[1-9][0-9]{0,3})?"),
        repository in "[a-z0-9]{1,6}([._-][a-z0-9]{1,5}){0,2}(/[a-z0-9]{1,6}){0,3}",
        tag in proptest::option::of("[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}"),
        bytes in proptest::option::of("[0-9a-f]{64}"),
    ) {
        let mut text = registry.map(|host| host + "/").unwrap_or_default() + &repository;
        text += &tag.map(|tag| format!(":{tag}")).unwrap_or_default();
        text += &bytes.map(|hex| format!("@sha256:{hex}")).unwrap_or_default();
        // A repository that looks like a host is a host.
        let parsed = text.parse::<ImageReference>();
        if let Ok(parsed) = parsed {
            prop_assert_eq!(&parsed.to_string().parse::<ImageReference>().unwrap(), &parsed);
            prop_assert!(parsed.tag().is_some() || parsed.digest().is_some());
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
        if let Ok(parsed) = text.parse::<ImageReference>() {
            prop_assert_eq!(&written(&parsed.to_string()), &parsed.to_string());
        }
    }
}
