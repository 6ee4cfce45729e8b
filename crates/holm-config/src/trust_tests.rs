//! Tests of each setting that needs trust: its request, its digest, and what remains without it.

use super::*;
use crate::{project, user};
use holm_core::config::{ProjectConfig, ProtectedPath};
use holm_core::trust::{Change, asks, changes, without_untrusted};
use std::path::Path;

const USER: &str = "[limits]\nmemory = \"4GiB\"\ncpus = 2\nprocesses = 1024\ndisk = \"20GiB\"\n\
                    [agents.claude]\nenv = [\"ANTHROPIC_API_KEY\"]\n[agents.plain]\n";

fn config(text: &str) -> ProjectConfig {
    project::parse(text, "holm.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn baseline_of(user_text: &str, before: Option<&[&str]>) -> Baseline {
    let user = user::parse(user_text, "config.toml", Path::new("/home/me")).unwrap();
    let parsed = |paths: &[&str]| {
        paths
            .iter()
            .map(|path| ProtectedPath::parse(path).unwrap())
            .collect()
    };
    baseline(&user, before.map(parsed))
}

/// One row: the text, the requested keys, and a changed version of the text.
#[track_caller]
fn check(text: &str, keys: &[&str], changed: &str) {
    check_with(&baseline_of(USER, None), text, keys, changed);
}

#[track_caller]
fn check_with(baseline: &Baseline, text: &str, keys: &[&str], changed: &str) {
    let found = asks(&config(text), baseline);
    let found_keys: Vec<_> = found.iter().map(|ask| ask.key.as_str()).collect();
    assert_eq!(found_keys, keys, "{text}");
    assert!(found.iter().all(|ask| ask.words.len() > 10), "{found:?}");
    let other = asks(&config(changed), baseline);
    assert_ne!(digest(&found), digest(&other), "{text} and {changed}");

    let left = without_untrusted(&config(text), baseline);
    assert_eq!(asks(&left, baseline), [], "{text}");
}

#[test]
fn files_and_services_of_the_host() {
    check(
        "[project]\ninclude = [\".env\"]",
        &["project.include"],
        "[project]\ninclude = [\".enw\"]",
    );
    check(
        "[shared.redis]\naddress = \"127.0.0.1:6379\"",
        &["shared.redis"],
        "[shared.redis]\naddress = \"127.0.0.1:6378\"",
    );
    check(
        "[shared.redis]\naddress = \"127.0.0.1:6379\"\nport = 1",
        &["shared.redis"],
        "[shared.redis]\naddress = \"127.0.0.1:6379\"\nport = 2",
    );
    check(
        "[caches]\na = { path = \"~/.npm\" }",
        &["caches.a"],
        "[caches]\na = { path = \"~/.npn\" }",
    );
    check(
        "[caches]\na = { path = \"/x\", policy = \"fork\" }",
        &["caches.a"],
        "[caches]\na = { path = \"/x\", policy = \"shared\" }",
    );
    // The repository chooses `root`, which does not make a host path the project's.
    check(
        "[project]\nroot = \"/home/me/src\"\n[caches]\na = { path = \"/home/me/src/x\" }",
        &["caches.a"],
        "[project]\nroot = \"/home/me/src\"\n[caches]\na = { path = \"/home/me/src/y\" }",
    );
    check(
        "[caches]\na = { path = \".git/config\" }",
        &["caches.a"],
        "[caches]\na = { path = \"sub/.git\" }",
    );
}

#[test]
fn what_changed_since_the_last_approval() {
    let baseline = baseline_of(USER, None);
    let of = |text: &str| asks(&config(text), &baseline);
    let explained = |before: &str, now: &str| -> Vec<String> {
        let changes = changes(&of(before), &of(now));
        changes.iter().map(ToString::to_string).collect()
    };
    let none: [&str; 0] = [];
    let one = "[project]\ninclude = [\".env\"]\n[limits]\nmemory = \"5GiB\"\n";
    assert_eq!(explained(one, one), none);
    assert_eq!(explained("", ""), none);
    assert_eq!(
        explained(
            one,
            "[limits]\nmemory = \"6GiB\"\n[project]\nnested = true\n"
        ),
        [
            "added project.nested: let programs inside make user namespaces, which weakens the isolation",
            "changed limits.memory: use 6GiB of memory; your setting is 4GiB (it was: use 5GiB of memory; \
             your setting is 4GiB)",
            "removed project.include: copy `.env` from your checkout into workspaces",
        ]
    );
    // Entries of a list are added and removed, never changed into each other.
    let two = "[project]\ninclude = [\"a\", \"b\"]\n[egress]\nallow = [\"10.0.0.1\"]\n";
    let other = "[project]\ninclude = [\"b\", \"c\"]\n[egress]\nallow = [\"10.0.0.2\"]\n";
    let listed = changes(&of(two), &of(other));
    let is_changed = |change: &Change| matches!(change, Change::Changed { .. });
    assert_eq!(listed.len(), 4, "{listed:?}");
    assert!(!listed.iter().any(is_changed), "{listed:?}");
    // Each is described in words, and none only by a digest or a canonical form.
    assert_eq!(changes(&[], &of(one)).len(), 2);
    assert_eq!(changes(&of(one), &[]).len(), 2);
}

#[test]
fn secrets() {
    let to = "[secrets.KEY]\nto = [\"runs\"]\n";
    let keys = ["secrets.KEY"];
    let from = |from: &str| format!("{to}from = {from}\n");
    check(&from("{ env = \"A\" }"), &keys, &from("{ env = \"B\" }"));
    check(
        &from("{ file = \"~/a\" }"),
        &keys,
        &from("{ file = \"~/b\" }"),
    );
    check(
        &from("{ file = \"~/a\" }"),
        &keys,
        &from("{ file = \"a\" }"),
    );
    check(
        &from("{ command = [\"a\", \"b\"] }"),
        &keys,
        &from("{ command = [\"a b\"] }"),
    );
    check(
        &from("{ stored = true }"),
        &keys,
        &from("{ env = \"KEY\" }"),
    );
    // Receivers, form and hosts are part of the approval.
    check(to, &keys, "[secrets.KEY]\nto = [\"runs\", \"sessions\"]\n");
    check(to, &keys, &format!("{to}inject = \"file\"\n"));
    check(to, &keys, &format!("{to}hosts = [\"example.org\"]\n"));
    check(to, &keys, &format!("{to}ttl = \"1h\"\n"));
    check(to, &keys, "[secrets.KEX]\nto = [\"runs\"]\n");
}

#[test]
fn what_weakens_the_island() {
    check(
        "[project]\nisolation = \"project\"",
        &["project.isolation"],
        "",
    );
    check("[project]\nnested = true", &["project.nested"], "");
    check(
        "[project]\ndriver = \"docker\"",
        &["project.driver"],
        "[project]\ndriver = \"kubernetes\"",
    );
    check(
        "[limits]\nmemory = \"5GiB\"",
        &["limits.memory"],
        "[limits]\nmemory = \"6GiB\"",
    );
    check(
        "[limits]\ncpus = 2.5",
        &["limits.cpus"],
        "[limits]\ncpus = 2.6",
    );
    check(
        "[limits]\nprocesses = 1025",
        &["limits.processes"],
        "[limits]\nprocesses = 1026",
    );
    check(
        "[limits]\ndisk = \"21GiB\"",
        &["limits.disk"],
        "[limits]\ndisk = \"22GiB\"",
    );
    check(
        "[agents.claude]\ncommand = [\"a\"]",
        &["agents.claude"],
        "[agents.claude]\ncommand = [\"b\"]",
    );
    // Lower limits, protection, and agents without credentials need no approval.
    let nothing = "[limits]\nmemory = \"4GiB\"\ncpus = 1\n[project]\nprotected_paths = [\"a\"]\n\
                   [agents.plain]\ncommand = [\"a\"]\n[caches]\na = { path = \"build\" }\n";
    assert_eq!(asks(&config(nothing), &baseline_of(USER, None)), []);
}

#[test]
fn fewer_protected_paths_than_before() {
    let before = baseline_of(USER, Some(&["AGENTS.md", "infra/prod"]));
    let keys = ["project.protected_paths"];
    let one = "[project]\nprotected_paths = [\"AGENTS.md\"]";
    check_with(
        &before,
        one,
        &keys,
        "[project]\nprotected_paths = [\"infra/prod\"]",
    );
    check_with(&before, "", &[keys[0], keys[0]], one);
    let enough = config("[project]\nprotected_paths = [\"infra\", \"AGENTS.md\", \"x\"]");
    assert_eq!(asks(&enough, &before), []);
    let left = without_untrusted(&config(one), &before);
    let left: Vec<_> = left
        .project
        .protected_paths
        .iter()
        .map(ProtectedPath::as_str)
        .collect();
    assert_eq!(left, ["AGENTS.md", "infra/prod"]);
}

#[test]
fn egress_that_is_wider_than_the_users() {
    let open = baseline_of("", None);
    let listed = baseline_of("[egress]\nmode = \"allow\"\nallow = [\"a.test\"]", None);
    let closed = baseline_of("[egress]\nmode = \"none\"", None);
    let keys = |text: &str, baseline: &Baseline| {
        let asks = asks(&config(text), baseline);
        asks.into_iter().map(|ask| ask.key).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    let names = "[egress]\nmode = \"allow\"\nallow = [\"a.test\", \"b.test\"]";
    assert_eq!(keys(names, &open), none);
    assert_eq!(keys(names, &listed), ["egress.allow"]);
    assert_eq!(
        keys(names, &closed),
        ["egress.mode", "egress.allow", "egress.allow"]
    );
    assert_eq!(
        keys("[egress]\nallow = [\"b.test\"]", &listed),
        ["egress.allow"]
    );
    assert_eq!(keys("[egress]\nmode = \"open\"", &open), none);
    assert_eq!(keys("[egress]\nmode = \"open\"", &listed), ["egress.mode"]);
    assert_eq!(keys("[egress]\nmode = \"none\"", &open), none);
    // An address may be in a private network, even when the internet is open.
    assert_eq!(
        keys("[egress]\nallow = [\"10.0.0.1:5432\"]", &open),
        ["egress.allow"]
    );
    assert_eq!(
        keys("[egress]\nallow = [\"10.0.0.0/8\"]", &open),
        ["egress.allow"]
    );
    for baseline in [&open, &listed, &closed] {
        for text in [names, "[egress]\nmode = \"open\"\nallow = [\"10.0.0.1\"]"] {
            let left = without_untrusted(&config(text), baseline);
            assert_eq!(asks(&left, baseline), [], "{text}");
        }
    }
}

const EXAMPLE: &str = include_str!("../assets/example.toml");

#[test]
fn other_edits_do_not_change_the_digest() {
    let baseline = baseline_of(USER, None);
    let of = |text: &str| digest(&asks(&config(text), &baseline));
    let original = of(EXAMPLE);
    assert_eq!(original.len(), 64);
    for (from, to) in [
        ("npm run dev", "npm run other"),
        ("web = 3000", "web = 3001"),
        ("\"npm ci\"", "\"npm install\""),
        ("name = \"shop\"", "name = \"store\""),
        (
            "policy = \"fork\"                     #",
            "policy = \"shared\" #",
        ),
        ("\"AGENTS.md\", ", ""),
        ("memory = \"4GiB\"", "memory = \"3GiB\""),
        ("[ports]", "# a remark\n[ports]"),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        assert_eq!(of(&EXAMPLE.replacen(from, to, 1)), original, "{from}");
    }
    for (from, to) in [
        (".env.local", ".env.locak"),
        ("127.0.0.1:6379", "127.0.0.1:6370"),
        ("~/.npm", "~/.npn"),
        ("env = \"STRIPE_KEY\"", "env = \"STRIPE_KEZ\""),
        ("memory = \"4GiB\"", "memory = \"5GiB\""),
        ("nested = false", "nested = true"),
        ("context = \"mail\"", "context = \"post\""),
        ("LANG = \"en\"", "LANG = \"de\""),
        (
            "build = { context",
            "build = { network = \"default\", context",
        ),
        ("build = { context", "build = { target = \"x\", context"),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        assert_ne!(of(&EXAMPLE.replace(from, to)), original, "{from}");
    }
}

#[test]
fn untrusted_parts_are_dropped_and_nothing_else() {
    let baseline = baseline_of("", None);
    let whole = config(EXAMPLE);
    let left = without_untrusted(&whole, &baseline);
    assert_eq!(asks(&left, &baseline), []);
    let mut services = whole.services.clone();
    // Its image is built.
    services.retain(|name, _| name.as_str() != "mail");
    assert_eq!(left.services, services);
    assert_eq!(left.ports, whole.ports);
    assert_eq!(left.volumes, whole.volumes);
    assert_eq!(left.agents, whole.agents);
    assert_eq!(left.limits, whole.limits);
    assert_eq!(left.egress, whole.egress);
    assert_eq!(left.project.protected_paths, whole.project.protected_paths);
    assert!(left.project.include.is_empty() && left.shared.is_empty());
    assert!(left.caches.is_empty() && left.secrets.is_empty());
}

#[test]
fn the_order_in_the_file_does_not_matter_and_words_cannot_act_on_a_terminal() {
    let baseline = baseline_of("", None);
    let of = |text: &str| digest(&asks(&config(text), &baseline));
    assert_eq!(
        of("[project]\ninclude = [\"a\", \"b\"]"),
        of("[project]\ninclude = [\"b\", \"a\"]")
    );
    let text = "[secrets.K]\nto = [\"runs\"]\nfrom = { command = [\"\\u001b[2J\", \"\\n\"] }";
    for ask in asks(&config(text), &baseline) {
        assert!(!ask.words.chars().any(char::is_control), "{ask:?}");
        assert!(!ask.canonical.contains('\n'), "{ask:?}");
    }
}
