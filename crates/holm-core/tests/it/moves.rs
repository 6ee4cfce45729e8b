//! Reactions of services to a move, as a table; and builds in the life of a service, in every order
//! of events.

use holm_core::config::{OnAssign, Pattern, Restart, Word};
use holm_core::moves::{Reaction, SetUp, Strategy, reaction, set_up};
use holm_core::service::graph::{Declared, Graph, Verdict};
use holm_core::service::{Event, Order, Readiness, Rules, State, Wish};
use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;
use std::time::Duration;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts
        .iter()
        .map(|text| Pattern::parse(text).unwrap())
        .collect()
}

fn paths(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn each_strategy_has_its_reaction() {
    let check = |word: OnAssign, changed: &[&str], again: SetUp, expect: Reaction| {
        let when = patterns(&["Cargo.lock", "src/**"]);
        let strategy = Strategy {
            on_assign: word,
            build: Some("make"),
            rebuild_when: &when,
        };
        let found = reaction(strategy, &paths(changed), again);
        assert_eq!(found, expect, "{word:?} {changed:?} {again:?}");
    };
    let (code, docs) = (&["src/a/b.rs", "README.md"], &["README.md"]);
    let no = SetUp::NotNeeded;
    check(OnAssign::None, code, no, Reaction::None);
    check(OnAssign::Hot, code, no, Reaction::Hot);
    check(OnAssign::Restart, docs, no, Reaction::Restart);
    check(OnAssign::Rebuild, code, no, Reaction::Rebuild);
    check(OnAssign::Rebuild, &["Cargo.lock"], no, Reaction::Rebuild);
    check(OnAssign::Rebuild, docs, no, Reaction::Restart);
    check(OnAssign::Rebuild, &["lib/src/x"], no, Reaction::Restart);
    // A restarted service uses the new dependencies.
    check(OnAssign::Restart, &[], SetUp::Again, Reaction::Restart);
    check(OnAssign::None, &[], SetUp::Again, Reaction::None);
    for word in [
        OnAssign::None,
        OnAssign::Hot,
        OnAssign::Restart,
        OnAssign::Rebuild,
    ] {
        check(word, &[], no, Reaction::None);
    }
}

#[test]
fn without_patterns_every_change_rebuilds_and_without_a_command_nothing_can_be_built() {
    let strategy = |build| Strategy {
        on_assign: OnAssign::Rebuild,
        build,
        rebuild_when: &[],
    };
    let changed = paths(&["README.md"]);
    let no = SetUp::NotNeeded;
    assert_eq!(
        reaction(strategy(Some("make")), &changed, no),
        Reaction::Rebuild
    );
    assert_eq!(reaction(strategy(None), &changed, no), Reaction::Restart);
}

#[test]
fn setup_runs_again_for_its_inputs_only() {
    let check = |changed: &[&str], inputs: Option<&[&str]>, expect: SetUp| {
        let inputs = inputs.map(patterns);
        assert_eq!(
            set_up(&paths(changed), inputs.as_deref()),
            expect,
            "{changed:?}"
        );
    };
    check(&["src/main.rs"], None, SetUp::NotNeeded);
    check(&["web/package-lock.json"], None, SetUp::Again);
    check(&[".gitignore"], None, SetUp::NotNeeded);
    check(
        &["package-lock.json"],
        Some(&["deps.lock"]),
        SetUp::NotNeeded,
    );
    check(&["deps.lock"], Some(&["deps.lock"]), SetUp::Again);
    check(&[], None, SetUp::NotNeeded);
}

#[test]
fn the_stronger_reaction_is_the_greater() {
    assert!(Reaction::ALL.is_sorted_by_key(|(_, reaction)| *reaction));
    for (word, reaction) in Reaction::ALL {
        assert_eq!(Reaction::parse_word(word), Some(*reaction));
        assert_eq!(reaction.word(), *word);
    }
}

fn one() -> Graph {
    let rules = Rules {
        restart: Restart::OnFailure,
        readiness: Readiness::Probed {
            within: Duration::from_secs(60),
        },
        grace: Duration::from_secs(10),
    };
    Graph::new(vec![Declared {
        name: "web".to_owned(),
        depends_on: Vec::new(),
        begins_after: Vec::new(),
        rules,
    }])
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn built(code: u8) -> Event {
    Event::Built { code, cause: None }
}

fn ready() -> Graph {
    let mut graph = one();
    assert_eq!(graph.due(at(0)), [(0, Order::Start)]);
    graph.handle(0, Event::Started { pid: 7 }, at(0));
    graph.handle(0, Event::Probed, at(1));
    graph
}

fn seen(graph: &Graph) -> (State, Option<String>, Option<u32>) {
    let report = graph.reports().remove(0);
    (report.state, report.reason, report.pid)
}

#[test]
fn a_build_runs_beside_the_service_and_then_it_is_restarted() {
    let mut graph = ready();
    graph.react(0, Wish::Rebuild);
    assert_eq!(graph.due(at(2)), [(0, Order::Build)]);
    assert_eq!(
        seen(&graph),
        (State::Starting, Some("building".to_owned()), Some(7))
    );
    assert_eq!(graph.verdict(), Verdict::Pending);
    graph.want(0, Wish::Restart);
    assert_eq!(graph.due(at(2)), [], "it is restarted anyway");
    graph.handle(0, built(0), at(3));
    assert_eq!(graph.due(at(3)), [(0, Order::Terminate)]);
    graph.handle(
        0,
        Event::Exited {
            code: 143,
            cause: None,
        },
        at(3),
    );
    graph.handle(0, Event::Gone, at(3));
    assert_eq!(graph.due(at(3)), [(0, Order::Start)]);
}

#[test]
fn a_build_that_fails_leaves_what_runs_until_it_is_started_again() {
    let mut graph = ready();
    graph.react(0, Wish::Rebuild);
    graph.due(at(2));
    graph.handle(0, built(2), at(3));
    assert_eq!(graph.due(at(3)), []);
    let (state, reason, pid) = seen(&graph);
    assert_eq!((state, pid), (State::Failed, Some(7)));
    assert!(reason.unwrap().contains("exited with 2"));
    assert_eq!(graph.verdict(), Verdict::Failing);
    graph.want(0, Wish::Restart);
    assert_eq!(graph.due(at(4)), [(0, Order::Build)]);
    // Its files changed again meanwhile: the build is outdated already.
    graph.react(0, Wish::Rebuild);
    graph.handle(0, built(0), at(5));
    assert_eq!(graph.due(at(5)), [(0, Order::Build)]);
}

#[test]
fn what_was_stopped_is_built_before_it_is_started() {
    let mut graph = ready();
    graph.want(0, Wish::Stop);
    graph.due(at(2));
    graph.handle(
        0,
        Event::Exited {
            code: 0,
            cause: None,
        },
        at(2),
    );
    graph.handle(0, Event::Gone, at(2));
    graph.react(0, Wish::Restart);
    graph.react(0, Wish::Rebuild);
    assert_eq!(graph.due(at(3)), []);
    assert_eq!(seen(&graph).0, State::Stopped);
    graph.want(0, Wish::Start);
    assert_eq!(graph.due(at(4)), [(0, Order::Build)]);
    graph.handle(0, built(0), at(5));
    assert_eq!(graph.due(at(5)), [(0, Order::Start)]);
}

#[derive(Clone, Debug)]
enum Happening {
    Wish(u8),
    Event(u8),
    Close,
}

fn happening() -> impl Generator<Value = Happening> {
    prop_oneof![
        8 => (0..5u8).prop_map(Happening::Wish),
        16 => (0..8u8).prop_map(Happening::Event),
        1 => Just(Happening::Close),
    ]
}

proptest! {
    /// Nothing starts while a build is due or under way, builds never overlap, a ready service is
    /// built, and one that waits for a build says so.
    #[test]
    fn nothing_starts_on_an_old_build(steps in prop::collection::vec(happening(), 0..60)) {
        let mut graph = one();
        graph.needs_build(0);
        let (mut is_due, mut is_building, mut now) = (true, false, 0);
        for step in steps {
            now += 1;
            match step {
                Happening::Wish(0) => graph.want(0, Wish::Start),
                Happening::Wish(1) => graph.want(0, Wish::Stop),
                Happening::Wish(2) => graph.want(0, Wish::Restart),
                Happening::Wish(3) => graph.react(0, Wish::Restart),
                Happening::Wish(_) => {
                    graph.react(0, Wish::Rebuild);
                    is_due = true;
                }
                Happening::Close => graph.close(),
                Happening::Event(kind) => {
                    let event = match kind {
                        0 => Event::Started { pid: 9 },
                        1 => Event::Probed,
                        2 => Event::Exited { code: 1, cause: None },
                        3 => Event::Exited { code: 0, cause: None },
                        4 | 5 => Event::Gone,
                        6 if is_building => {
                            is_building = false;
                            built(0)
                        }
                        7 if is_building => {
                            is_building = false;
                            is_due = true;
                            built(1)
                        }
                        _ => continue,
                    };
                    graph.handle(0, event, at(now));
                }
            }
            for (_, order) in graph.due(at(now)) {
                match order {
                    Order::Build => {
                        prop_assert!(!is_building, "two builds at once");
                        is_building = true;
                        is_due = false;
                    }
                    Order::Start => prop_assert!(!is_due && !is_building, "on an old build"),
                    Order::Terminate | Order::Kill => {}
                }
            }
            let report = graph.reports().remove(0);
            if report.state == State::Ready {
                prop_assert!(!is_building && !is_due);
            }
            prop_assert_eq!(graph.life(0).is_build_due(), is_due || is_building);
        }
    }
}
