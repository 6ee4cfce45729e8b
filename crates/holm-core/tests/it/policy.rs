//! The machine's policy: it finds every breach, and narrowing only removes rights.

use holm_core::config::{
    Destination, EgressMode, Image, Limits, Name, OnAssign, ProjectConfig, ProtectedPath, Restart,
    Scope, Service, Word,
};
use holm_core::image_build::WrittenBuild;
use holm_core::image_reference::ImageReference;
use holm_core::policy::{MachinePolicy, Permission, Rights, SourceKind, Typed};
use proptest::prelude::*;
use std::collections::BTreeMap;

const NAMES: [&str; 8] = [
    "example.org",
    "a.example.org",
    "*.example.org",
    "*.a.example.org:443",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.3:80",
    "[fd00::1]",
];

fn destination(text: &str) -> Destination {
    Destination::parse(text).unwrap()
}

#[test]
fn one_destination_covers_another() {
    for (wide, narrow, expect) in [
        ("example.org", "example.org", true),
        ("example.org", "example.org:443", true),
        ("example.org:443", "example.org", false),
        ("example.org:443", "example.org:80", false),
        ("example.org", "a.example.org", false),
        ("*.example.org", "a.example.org", true),
        ("*.example.org", "a.b.example.org:1", true),
        ("*.example.org", "example.org", false),
        ("*.example.org", "evilexample.org", false),
        ("*.example.org", "*.a.example.org", true),
        ("*.a.example.org", "*.example.org", false),
        ("a.example.org", "*.example.org", false),
        ("10.0.0.0/8", "10.1.2.3:80", true),
        ("10.0.0.0/8", "10.1.0.0/16", true),
        ("10.1.0.0/16", "10.0.0.0/8", false),
        ("10.0.0.0/8", "11.0.0.1", false),
        ("0.0.0.0/0", "[fd00::1]", false),
        ("10.1.2.3", "[::ffff:10.1.2.3]", true),
        ("10.0.0.0/8", "example.org", false),
        ("*.example.org", "10.1.2.3", false),
    ] {
        let covers = destination(wide).covers(&destination(narrow));
        assert_eq!(covers, expect, "{wide} {narrow}");
    }
}

/// Each key alone: it finds its own breach, and nothing else.
#[test]
fn each_key_refuses_what_it_is_about() {
    let open = MachinePolicy::default();
    let wide = wide();
    let typed = Typed {
        included: &[".env".to_owned()],
        degraded: &["landlock".to_owned()],
    };
    assert_eq!(open.breaches(&wide, typed), []);
    let forbidden = Permission::Forbidden;
    let policies = [
        (
            "egress.mode",
            MachinePolicy {
                egress_mode: Some(EgressMode::Allow),
                ..open.clone()
            },
        ),
        (
            "egress.allow",
            MachinePolicy {
                egress_allow: Some(vec![destination("b.example.org")]),
                ..open.clone()
            },
        ),
        (
            "limits.memory",
            limited(|limits| limits.memory = Some(1 << 30)),
        ),
        ("limits.cpus", limited(|limits| limits.cpus = Some(1.5))),
        (
            "limits.processes",
            limited(|limits| limits.processes = Some(10)),
        ),
        ("limits.disk", limited(|limits| limits.disk = Some(1 << 30))),
        (
            "island.nested",
            MachinePolicy {
                nested: forbidden,
                ..open.clone()
            },
        ),
        (
            "island.protected_paths",
            MachinePolicy {
                protected_paths: vec![ProtectedPath::parse("a").unwrap()],
                ..open.clone()
            },
        ),
        (
            "island.isolation",
            MachinePolicy {
                siblings: forbidden,
                ..open.clone()
            },
        ),
        (
            "island.drivers",
            MachinePolicy {
                drivers: Some(Vec::new()),
                ..open.clone()
            },
        ),
        (
            "island.allow_degraded",
            MachinePolicy {
                degraded: Some(vec!["cgroup".to_owned()]),
                ..open.clone()
            },
        ),
        (
            "host.include",
            MachinePolicy {
                include: forbidden,
                ..open.clone()
            },
        ),
        (
            "host.builds",
            MachinePolicy {
                builds: forbidden,
                ..open.clone()
            },
        ),
    ];
    for (key, policy) in policies {
        let found = policy.breaches(&wide, typed);
        let keys: Vec<_> = found.iter().map(|breach| breach.key).collect();
        assert_eq!(keys, [key], "{found:?}");
        assert!(found[0].words.len() > 5, "{found:?}");
        let nothing = policy.breaches(&ProjectConfig::default(), Typed::default());
        let is_empty = nothing.is_empty() || key == "island.drivers";
        assert!(is_empty, "{nothing:?}");
    }
    let some = MachinePolicy {
        agents: Some(vec![Name::parse("claude").unwrap()]),
        canonical_ports: forbidden,
        trust_by_token: forbidden,
        builds: forbidden,
        ..open.clone()
    };
    assert!(some.may_run(&Name::parse("claude").unwrap()).is_ok());
    let refused = some.may_run(&Name::parse("other").unwrap()).unwrap_err();
    assert_eq!(refused.key, "agents.allow");
    assert_eq!(
        some.may_take_canonical_ports().unwrap_err().key,
        "host.canonical_ports"
    );
    assert_eq!(some.may_trust_by_token().unwrap_err().key, "trust.by_token");
    assert_eq!(some.may_build().unwrap_err().key, "host.builds");
    assert!(open.may_take_canonical_ports().is_ok() && open.may_trust_by_token().is_ok());
    assert_eq!(SourceKind::ALL.map(SourceKind::as_str)[2], "command");
}

fn limited(set: impl FnOnce(&mut Limits)) -> MachinePolicy {
    let mut policy = MachinePolicy::default();
    set(&mut policy.limits);
    policy
}

fn wide() -> ProjectConfig {
    let mut config = ProjectConfig::default();
    config.egress.mode = Some(EgressMode::Open);
    config.egress.allow = vec![destination("a.example.org"), destination("b.example.org")];
    config.limits = Limits {
        memory: Some(2 << 30),
        cpus: Some(2.0),
        processes: Some(11),
        disk: Some(2 << 30),
    };
    config.project.nested = true;
    config.project.isolation = Scope::Project;
    let service = Service {
        run: String::new(),
        image: Some(Image {
            reference: ImageReference::unbuilt().unwrap(),
            build: Some(WrittenBuild::default().build("").unwrap()),
            tree: None,
            volumes: Vec::new(),
            container: None,
        }),
        ready: None,
        depends_on: Vec::new(),
        restart: Restart::No,
        on_assign: OnAssign::default(),
        build: None,
        rebuild_when: Vec::new(),
        env: BTreeMap::new(),
    };
    config.services.insert(Name::parse("web").unwrap(), service);
    config
}

#[test]
fn what_was_open_reaches_the_names_that_still_may_be_and_no_private_network() {
    let policy = MachinePolicy {
        egress_mode: Some(EgressMode::Allow),
        egress_allow: Some(NAMES.map(destination).to_vec()),
        ..MachinePolicy::default()
    };
    let open = Rights {
        mode: EgressMode::Open,
        ..nothing()
    };
    let (narrow, _) = policy.narrow(&open);
    assert_eq!(narrow.mode, EgressMode::Allow);
    assert_eq!(
        narrow.allow,
        NAMES[..4]
            .iter()
            .map(|it| destination(it))
            .collect::<Vec<_>>()
    );
    let none = MachinePolicy {
        egress_mode: Some(EgressMode::None),
        ..policy
    };
    assert_eq!(none.narrow(&open).0.allow, []);
}

fn nothing() -> Rights {
    Rights {
        mode: EgressMode::None,
        allow: Vec::new(),
        limits: Limits::default(),
        is_nested: false,
        shows_siblings: false,
        shared: Vec::new(),
        degraded: Vec::new(),
        protected_paths: Vec::new(),
        secrets: Vec::new(),
    }
}

fn names() -> impl Strategy<Value = Vec<Destination>> {
    let some = proptest::sample::subsequence(NAMES.to_vec(), 0..NAMES.len());
    some.prop_map(|some| some.into_iter().map(destination).collect())
}

fn mode() -> impl Strategy<Value = EgressMode> {
    let words: Vec<_> = EgressMode::ALL.iter().map(|(_, mode)| *mode).collect();
    proptest::sample::select(words)
}

fn limits() -> impl Strategy<Value = Limits> {
    let whole = || proptest::option::of(1..100_u64);
    (whole(), whole(), whole(), whole()).prop_map(|(memory, cpus, processes, disk)| Limits {
        memory,
        cpus: cpus.map(|cpus| cpus as f64),
        processes,
        disk,
    })
}

fn paths() -> impl Strategy<Value = Vec<ProtectedPath>> {
    let some = proptest::sample::subsequence(vec!["a", "a/b", "c", "d/e"], 0..4);
    let parse = |path| ProtectedPath::parse(path).unwrap();
    some.prop_map(move |some| some.into_iter().map(parse).collect())
}

fn words() -> impl Strategy<Value = Vec<String>> {
    let some = proptest::sample::subsequence(vec!["landlock", "cgroup", "redis"], 0..3);
    some.prop_map(|some| some.into_iter().map(str::to_owned).collect())
}

fn permission() -> impl Strategy<Value = Permission> {
    proptest::sample::select(vec![Permission::Allowed, Permission::Forbidden])
}

fn policy() -> impl Strategy<Value = MachinePolicy> {
    let egress = (
        proptest::option::of(mode()),
        proptest::option::of(names()),
        limits(),
    );
    let rest = (
        permission(),
        permission(),
        permission(),
        proptest::option::of(words()),
        paths(),
        proptest::option::of(proptest::sample::subsequence(
            SourceKind::ALL.to_vec(),
            0..4,
        )),
    );
    (egress, rest).prop_map(|((mode, allow, limits), rest)| {
        let (nested, siblings, shared, degraded, protected_paths, secret_sources) = rest;
        MachinePolicy {
            egress_mode: mode,
            egress_allow: allow,
            limits,
            nested,
            siblings,
            shared,
            degraded,
            protected_paths,
            secret_sources,
            ..MachinePolicy::default()
        }
    })
}

fn rights() -> impl Strategy<Value = Rights> {
    let flags = (any::<bool>(), any::<bool>());
    let kinds = proptest::sample::subsequence(SourceKind::ALL.to_vec(), 0..4);
    let rest = (paths(), kinds);
    (mode(), names(), limits(), flags, words(), words(), rest).prop_map(
        |(mode, allow, limits, (is_nested, shows_siblings), shared, degraded, rest)| {
            let (protected_paths, kinds) = rest;
            let secrets = kinds.into_iter().map(|kind| (kind.to_string(), kind));
            Rights {
                secrets: secrets.collect(),
                mode,
                allow,
                limits,
                is_nested,
                shows_siblings,
                shared,
                degraded,
                protected_paths,
            }
        },
    )
}

fn is_within<T: PartialOrd + Copy>(has: Option<T>, most: Option<T>) -> bool {
    most.is_none_or(|most| has.is_some_and(|has| has <= most))
}

proptest! {
    #[test]
    fn what_is_narrowed_is_within_the_policy_and_never_more_than_it_was(
        policy in policy(),
        rights in rights(),
    ) {
        let (narrow, lost) = policy.narrow(&rights);
        prop_assert_eq!(lost.is_empty(), narrow == rights);
        // Once is enough.
        prop_assert_eq!(policy.narrow(&narrow), (narrow.clone(), Vec::new()));
        // Within.
        prop_assert!(policy.egress_mode.is_none_or(|most| narrow.mode <= most));
        let allowed = |entry: &Destination| {
            let listed = policy.egress_allow.as_ref();
            listed.is_none_or(|listed| listed.iter().any(|it| it.covers(entry)))
        };
        prop_assert!(narrow.allow.iter().all(allowed));
        let (has, most) = (&narrow.limits, &policy.limits);
        prop_assert!(is_within(has.memory, most.memory) && is_within(has.disk, most.disk));
        prop_assert!(is_within(has.cpus, most.cpus) && is_within(has.processes, most.processes));
        let covered = |path: &ProtectedPath| narrow.protected_paths.iter().any(|it| it.covers(path));
        prop_assert!(policy.protected_paths.iter().all(covered));
        // Not more.
        prop_assert!(narrow.mode <= rights.mode);
        let was_open = rights.mode == EgressMode::Open;
        for entry in &narrow.allow {
            prop_assert!(rights.allow.contains(entry) || (was_open && !entry.is_address()));
        }
        prop_assert!(rights.is_nested || !narrow.is_nested);
        prop_assert!(policy.protected_paths.is_empty() || !narrow.is_nested);
        prop_assert!(rights.shows_siblings || !narrow.shows_siblings);
        prop_assert!(narrow.secrets.iter().all(|(_, kind)| policy.may_read(*kind)));
        prop_assert!(narrow.secrets.iter().all(|it| rights.secrets.contains(it)));
        prop_assert!(narrow.shared.iter().all(|it| rights.shared.contains(it)));
        prop_assert!(narrow.degraded.iter().all(|it| rights.degraded.contains(it)));
        prop_assert!(rights.protected_paths.iter().all(|it| narrow.protected_paths.contains(it)));
        prop_assert!(is_within(narrow.limits.memory, rights.limits.memory));
        prop_assert!(is_within(narrow.limits.cpus, rights.limits.cpus));
    }
}
