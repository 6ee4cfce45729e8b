//! Services live as their rules say: orders in dependency order, pauses that grow, loops that end.
//! Time is an argument, so none passes.

use holm_core::config::Restart;
use holm_core::service::graph::{Declared, Graph, Verdict};
use holm_core::service::{Event, Order, Readiness, Rules, State, Wish};
use proptest::prelude::*;
use std::time::Duration;

fn rules(restart: Restart) -> Rules {
    Rules {
        restart,
        readiness: Readiness::Probed {
            within: Duration::from_secs(60),
        },
        grace: Duration::from_secs(10),
    }
}

fn declared(name: &str, needs: &[&str], rules: Rules) -> Declared {
    Declared {
        name: name.to_owned(),
        depends_on: needs.iter().map(|name| (*name).to_owned()).collect(),
        begins_after: Vec::new(),
        rules,
    }
}

fn one(restart: Restart) -> Graph {
    Graph::new(vec![declared("web", &[], rules(restart))])
}

/// `db` ← `api` ← `web`, and `cache` on its own.
fn stack() -> Graph {
    let entry = |name: &str, needs: &[&str]| declared(name, needs, rules(Restart::OnFailure));
    Graph::new(vec![
        entry("api", &["db"]),
        entry("cache", &[]),
        entry("db", &[]),
        entry("web", &["api", "cache"]),
    ])
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn exited(code: u8) -> Event {
    Event::Exited { code, cause: None }
}

fn state(graph: &Graph, index: usize) -> (State, Option<String>) {
    let report = graph.reports().swap_remove(index);
    (report.state, report.reason)
}

#[test]
fn each_starts_when_what_it_needs_is_ready_and_ends_before_it() {
    let mut graph = stack();
    let (api, cache, db, web) = (0, 1, 2, 3);
    assert_eq!(
        graph.due(at(0)),
        [(cache, Order::Start), (db, Order::Start)]
    );
    let waits = |text: &str| (State::Starting, Some(text.to_owned()));
    assert_eq!(state(&graph, web), waits("waits for api, cache"));
    for (index, pid) in [(cache, 7), (db, 8)] {
        graph.handle(index, Event::Started { pid }, at(0));
    }
    assert_eq!(graph.due(at(0)), [], "running is not ready");
    graph.handle(db, Event::Probed, at(1));
    assert_eq!(graph.due(at(1)), [(api, Order::Start)]);
    graph.handle(api, Event::Started { pid: 9 }, at(1));
    graph.handle(api, Event::Probed, at(2));
    assert_eq!(graph.due(at(2)), [], "one of two is not enough");
    graph.handle(cache, Event::Probed, at(3));
    assert_eq!(graph.due(at(3)), [(web, Order::Start)]);
    assert_eq!(graph.verdict(), Verdict::Pending);
    graph.handle(web, Event::Started { pid: 10 }, at(3));
    graph.handle(web, Event::Probed, at(4));
    assert_eq!(graph.verdict(), Verdict::Ready);

    graph.close();
    assert_eq!(graph.due(at(5)), [(web, Order::Terminate)]);
    graph.handle(web, exited(143), at(5));
    assert_eq!(graph.due(at(5)), [], "what it started still runs");
    graph.handle(web, Event::Gone, at(5));
    assert_eq!(
        graph.due(at(5)),
        [(api, Order::Terminate), (cache, Order::Terminate)]
    );
    graph.handle(api, exited(0), at(5));
    graph.handle(api, Event::Gone, at(5));
    assert_eq!(graph.due(at(5)), [(db, Order::Terminate)]);
    assert_eq!(graph.due(at(15)), [(cache, Order::Kill), (db, Order::Kill)]);
    assert!(!graph.is_down());
    for index in [cache, db] {
        graph.handle(index, exited(137), at(15));
        graph.handle(index, Event::Gone, at(15));
    }
    assert_eq!(graph.due(at(15)), []);
    assert!(graph.is_down());
}

/// `api` stands before the service that it needs, which becomes ready by time and not by an event.
#[test]
fn one_starts_at_once_when_what_it_needs_has_settled() {
    let settles = Rules {
        readiness: Readiness::Running,
        ..rules(Restart::OnFailure)
    };
    let mut graph = Graph::new(vec![
        declared("api", &["worker"], settles.clone()),
        declared("worker", &[], settles),
    ]);
    assert_eq!(graph.due(at(0)), [(1, Order::Start)]);
    graph.handle(1, Event::Started { pid: 7 }, at(0));
    assert_eq!(graph.due(at(1)), [(0, Order::Start)]);
    assert_eq!(graph.verdict(), Verdict::Pending);
}

#[test]
fn one_waits_for_the_end_of_a_job_and_for_the_mere_start_of_another() {
    let job = Rules {
        readiness: Readiness::Exited,
        ..rules(Restart::No)
    };
    let mut graph = Graph::new(vec![
        declared("migrate", &[], job),
        declared("db", &[], rules(Restart::No)),
        Declared {
            begins_after: vec!["db".to_owned()],
            ..declared("web", &["migrate"], rules(Restart::No))
        },
    ]);
    assert_eq!(graph.due(at(0)), [(0, Order::Start), (1, Order::Start)]);
    graph.handle(0, Event::Started { pid: 7 }, at(0));
    graph.handle(1, Event::Started { pid: 8 }, at(0));
    // The job works as long as it wants; the database need not be ready.
    assert_eq!(graph.due(at(900)), []);
    let exited = |code| Event::Exited { code, cause: None };
    graph.handle(0, exited(0), at(901));
    assert_eq!(graph.due(at(901)), [(2, Order::Start)]);
    assert_eq!(graph.reports()[0].state, State::Exited);

    let job = Rules {
        readiness: Readiness::Exited,
        ..rules(Restart::No)
    };
    let web = declared("web", &["migrate"], rules(Restart::No));
    let mut graph = Graph::new(vec![declared("migrate", &[], job), web]);
    graph.due(at(0));
    graph.handle(0, Event::Started { pid: 7 }, at(0));
    graph.handle(0, exited(1), at(1));
    assert_eq!(graph.due(at(1)), []);
    assert_eq!(graph.verdict(), Verdict::Failing);
}

#[test]
fn pauses_grow_and_a_loop_is_given_up_and_said() {
    let mut graph = one(Restart::OnFailure);
    let mut now = Duration::ZERO;
    let times = ["1st", "2nd", "3rd", "4th"];
    for (pause, nth) in [1, 2, 4, 8].into_iter().zip(times) {
        assert_eq!(graph.due(now), [(0, Order::Start)]);
        assert_eq!(graph.life(0).end_in_words(), None);
        graph.handle(0, Event::Started { pid: 5 }, now);
        graph.handle(0, exited(1), now);
        let said = format!("exited with 1; starts again after {pause}s");
        assert_eq!(state(&graph, 0), (State::Backoff, Some(said)));
        let logged = format!("exited with 1; restarted, {nth} time");
        assert_eq!(graph.life(0).end_in_words(), Some(logged));
        assert_eq!(graph.wake_at(), Some(now + at(pause)));
        assert_eq!(graph.due(now + at(pause) - Duration::from_millis(1)), []);
        now += at(pause);
    }
    assert_eq!(graph.due(now), [(0, Order::Start)]);
    graph.handle(0, Event::Started { pid: 5 }, now);
    graph.handle(0, exited(1), now);
    let said = "crash loop: exited with 1, 5 times in 15 s".to_owned();
    assert_eq!(graph.life(0).end_in_words(), Some(said.clone()));
    assert_eq!(state(&graph, 0), (State::Failed, Some(said)));
    assert_eq!(graph.verdict(), Verdict::Failing);
    assert_eq!(graph.due(at(100_000)), [], "nobody starts it again");
    graph.want(0, Wish::Restart);
    assert_eq!(graph.due(at(100_000)), [(0, Order::Start)]);
    graph.handle(0, Event::Started { pid: 6 }, at(100_000));
    graph.handle(0, exited(1), at(100_000));
    assert_eq!(state(&graph, 0).0, State::Backoff, "it begins anew");
    assert_eq!(graph.reports()[0].restarts, 5);
}

#[test]
fn a_minute_of_running_forgives() {
    let mut graph = one(Restart::Always);
    let mut now = Duration::ZERO;
    for _ in 0..20 {
        assert_eq!(graph.due(now), [(0, Order::Start)]);
        graph.handle(0, Event::Started { pid: 5 }, now);
        graph.handle(0, Event::Probed, now);
        now += at(60);
        graph.handle(0, exited(0), now);
        now += at(1);
    }
    assert_eq!(graph.reports()[0].restarts, 19);
}

#[test]
fn what_the_policy_says_of_an_end() {
    let check = |restart, code, expect| {
        let mut graph = one(restart);
        graph.due(at(0));
        graph.handle(0, Event::Started { pid: 5 }, at(0));
        graph.handle(0, Event::Probed, at(0));
        graph.handle(0, exited(code), at(1));
        assert_eq!(state(&graph, 0).0, expect, "{restart:?} {code}");
        assert_eq!(graph.reports()[0].exit, Some(code));
    };
    check(Restart::No, 0, State::Exited);
    check(Restart::No, 1, State::Exited);
    check(Restart::OnFailure, 0, State::Exited);
    check(Restart::OnFailure, 1, State::Backoff);
    check(Restart::Always, 0, State::Backoff);
}

#[test]
fn late_is_failed_until_it_is_ready_after_all() {
    let mut graph = one(Restart::OnFailure);
    graph.due(at(0));
    graph.handle(0, Event::Started { pid: 5 }, at(0));
    graph.due(at(59));
    assert_eq!(state(&graph, 0), (State::Starting, None));
    assert_eq!(graph.due(at(60)), [], "it is left alone");
    let said = Some("not ready within 60s".to_owned());
    assert_eq!(state(&graph, 0), (State::Failed, said));
    assert_eq!(graph.verdict(), Verdict::Failing);
    graph.handle(0, Event::Probed, at(70));
    assert_eq!(state(&graph, 0), (State::Ready, None));
}

#[test]
fn without_a_probe_it_is_ready_when_it_did_not_end_at_once() {
    let mut graph = Graph::new(vec![declared(
        "job",
        &[],
        Rules {
            readiness: Readiness::Running,
            ..rules(Restart::No)
        },
    )]);
    graph.due(at(0));
    graph.handle(0, Event::Started { pid: 5 }, at(0));
    graph.due(at(0));
    assert_eq!(state(&graph, 0).0, State::Starting);
    graph.due(at(1));
    assert_eq!(state(&graph, 0).0, State::Ready);
    graph.handle(0, exited(0), at(2));
    assert_eq!(graph.verdict(), Verdict::Ready, "its work is done");
}

#[test]
fn what_waits_for_a_failed_one_says_so_and_starts_when_that_is_mended() {
    let mut graph = stack();
    let (api, db) = (0, 2);
    graph.due(at(0));
    graph.handle(1, Event::Started { pid: 7 }, at(0));
    graph.handle(1, Event::Probed, at(0));
    graph.handle(db, Event::Started { pid: 8 }, at(0));
    graph.due(at(60));
    let waits = (State::Stopped, Some("waits for db".to_owned()));
    assert_eq!(state(&graph, api), waits);
    assert_eq!(graph.verdict(), Verdict::Failing);
    graph.want(db, Wish::Restart);
    assert_eq!(graph.due(at(61)), [(db, Order::Terminate)]);
    assert_eq!(state(&graph, api).0, State::Starting);
    graph.handle(db, exited(0), at(61));
    graph.handle(db, Event::Gone, at(61));
    assert_eq!(graph.due(at(61)), [(db, Order::Start)]);
    graph.handle(db, Event::Started { pid: 9 }, at(61));
    graph.handle(db, Event::Probed, at(61));
    assert_eq!(graph.due(at(61)), [(api, Order::Start)]);
}

#[test]
fn stopping_while_it_is_being_started_and_what_hangs_in_the_kernel() {
    let mut graph = one(Restart::Always);
    graph.due(at(0));
    graph.want(0, Wish::Stop);
    assert_eq!(graph.due(at(0)), []);
    graph.handle(0, Event::Started { pid: 5 }, at(0));
    assert_eq!(graph.due(at(0)), [(0, Order::Terminate)]);
    assert_eq!(graph.due(at(10)), [(0, Order::Kill)]);
    assert_eq!(graph.due(at(14)), []);
    assert!(!graph.is_down());
    assert_eq!(graph.due(at(15)), []);
    assert!(graph.is_down(), "it is not waited for for ever");
}

/// What can happen next in a random life.
#[derive(Clone, Debug)]
enum Step {
    Hear(usize, Event),
    Want(usize, Wish),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let index = 0usize..4;
    let event = prop_oneof![
        Just(Event::Started { pid: 5 }),
        Just(Event::Probed),
        Just(Event::Gone),
        (0u8..3).prop_map(exited),
        Just(Event::NotStarted {
            code: 127,
            cause: "gone".to_owned()
        }),
    ];
    let wish = prop_oneof![Just(Wish::Start), Just(Wish::Stop), Just(Wish::Restart)];
    prop_oneof![
        6 => (index.clone(), event).prop_map(|(index, event)| Step::Hear(index, event)),
        1 => (index, wish).prop_map(|(index, wish)| Step::Want(index, wish)),
        2 => (0u64..20_000).prop_map(Step::Pass),
    ]
}

proptest! {
    /// For every sequence of events: no service is started twice, or before its dependencies are
    /// ready, and at the end all have ended.
    #[test]
    fn no_order_is_wrong_whatever_happens(steps in prop::collection::vec(step(), 0..200)) {
        let needs: [&[usize]; 4] = [&[2], &[], &[], &[0, 1]];
        let mut graph = stack();
        let mut now = Duration::ZERO;
        for step in steps {
            match step {
                Step::Pass(milliseconds) => now += Duration::from_millis(milliseconds),
                Step::Want(index, wish) => graph.want(index, wish),
                Step::Hear(index, event) => {
                    // What does not run cannot end and does not start.
                    let fits = match event {
                        Event::Started { .. } | Event::NotStarted { .. } => graph.life(index).pid().is_none(),
                        _ => true,
                    };
                    if fits {
                        graph.handle(index, event, now);
                    }
                }
            }
            let ready: Vec<bool> = (0..4).map(|index| graph.life(index).is_satisfied()).collect();
            for (index, order) in graph.due(now) {
                if order == Order::Start {
                    prop_assert!(graph.life(index).pid().is_none());
                    for need in needs[index] {
                        prop_assert!(ready[*need] || graph.life(*need).is_satisfied());
                    }
                }
            }
        }
        graph.close();
        for _ in 0..20 {
            for (_, order) in graph.due(now) {
                prop_assert!(order != Order::Start);
            }
            for index in 0..4 {
                graph.handle(index, Event::Started { pid: 5 }, now);
                graph.handle(index, exited(0), now);
                graph.handle(index, Event::Gone, now);
            }
            now += at(20);
        }
        prop_assert!(graph.is_down());
    }
}

#[test]
fn other_declarations_start_end_and_renew_what_they_name() {
    let all = |names: &[&str]| {
        let entries = names.iter().map(|name| {
            let needs: &[&str] = if *name == "web" { &["db"] } else { &[] };
            declared(name, needs, rules(Restart::OnFailure))
        });
        entries.collect::<Vec<_>>()
    };
    let names = |graph: &Graph| {
        let reports = graph.reports().into_iter();
        reports.map(|report| report.name).collect::<Vec<_>>()
    };
    let mut graph = Graph::new(all(&["db", "old"]));
    let (db, old, web) = (0, 1, 2);
    assert_eq!(graph.due(at(0)), [(db, Order::Start), (old, Order::Start)]);
    graph.handle(old, Event::Started { pid: 7 }, at(0));
    graph.handle(old, Event::Probed, at(0));
    // `db` is still being launched with its old declaration, so it is restarted once that is known.
    graph.declare(all(&["db", "web"]), |name| name == "db");
    assert_eq!(names(&graph), ["db", "web"]);
    assert_eq!(graph.due(at(1)), [(old, Order::Terminate)]);
    assert_eq!(graph.find("old"), None);
    graph.handle(db, Event::Started { pid: 8 }, at(1));
    assert_eq!(graph.due(at(1)), [(db, Order::Terminate)]);
    graph.handle(db, exited(0), at(1));
    graph.handle(db, Event::Gone, at(1));
    assert_eq!(graph.due(at(1)), [(db, Order::Start)]);
    graph.handle(db, Event::Started { pid: 9 }, at(1));
    graph.handle(db, Event::Probed, at(1));
    assert_eq!(graph.due(at(1)), [(web, Order::Start)], "it waited for db");
    graph.handle(old, exited(0), at(1));
    graph.handle(old, Event::Gone, at(1));
    // A service that the user stopped stays stopped, whatever changes; one that is declared again
    // is started.
    graph.want(db, Wish::Stop);
    graph.due(at(2));
    graph.handle(db, exited(0), at(2));
    graph.handle(db, Event::Gone, at(2));
    graph.declare(all(&["db", "web", "old"]), |name| name == "db");
    assert_eq!(graph.due(at(2)), [(old, Order::Start)]);
    // A service that is no longer declared is waited for at the end.
    graph.handle(old, Event::Started { pid: 10 }, at(2));
    graph.declare(all(&["db"]), |_| false);
    graph.close();
    assert!(graph.due(at(3)).contains(&(old, Order::Terminate)));
    assert!(!graph.is_down());
}

#[test]
fn a_missing_program_is_not_started_again() {
    let check = |code: u8, cause: Option<&str>, restart, expect: State| {
        let mut graph = one(restart);
        graph.due(at(0));
        graph.handle(0, Event::Started { pid: 5 }, at(0));
        let cause = cause.map(str::to_owned);
        graph.handle(0, Event::Exited { code, cause }, at(1));
        assert_eq!(state(&graph, 0).0, expect, "{code}");
        assert_eq!(
            graph.verdict() == Verdict::Failing,
            expect != State::Backoff
        );
        if expect == State::Failed {
            assert_eq!(graph.due(at(100)), []);
            graph.want(0, Wish::Start);
            assert_eq!(graph.due(at(101)), [(0, Order::Start)]);
        }
    };
    check(127, None, Restart::OnFailure, State::Failed);
    check(127, None, Restart::Always, State::Failed);
    check(127, None, Restart::No, State::Exited);
    let said = Some("sh: 1: vite: not found");
    check(1, said, Restart::OnFailure, State::Failed);
    check(
        1,
        Some("something else"),
        Restart::OnFailure,
        State::Backoff,
    );
    check(126, None, Restart::OnFailure, State::Backoff);
}

#[test]
fn a_service_whose_port_falls_silent_is_not_ready() {
    let mut graph = one(Restart::OnFailure);
    graph.due(at(0));
    graph.handle(0, Event::Started { pid: 5 }, at(0));
    // Nothing to lose before it was ready.
    graph.handle(0, Event::Silent { port: 3000 }, at(1));
    assert_eq!(state(&graph, 0), (State::Starting, None));
    graph.handle(0, Event::Probed, at(2));
    graph.handle(0, Event::Silent { port: 3000 }, at(100));
    let reason = Some("nothing listens on port 3000".to_owned());
    assert_eq!(state(&graph, 0), (State::Starting, reason));
    assert_eq!(graph.verdict(), Verdict::Pending);
    graph.handle(0, Event::Probed, at(101));
    assert_eq!(state(&graph, 0), (State::Ready, None));
    graph.handle(0, Event::Silent { port: 3000 }, at(200));
    graph.due(at(260));
    let reason = Some("nothing listens on port 3000 for 60s".to_owned());
    assert_eq!(state(&graph, 0), (State::Failed, reason));
    assert_eq!(graph.verdict(), Verdict::Failing);
    graph.handle(0, Event::Probed, at(300));
    assert_eq!(state(&graph, 0), (State::Ready, None));
    // Without a probe no port belongs to it.
    let rules = Rules {
        readiness: Readiness::Running,
        ..rules(Restart::No)
    };
    let mut graph = Graph::new(vec![declared("job", &[], rules)]);
    graph.due(at(0));
    graph.handle(0, Event::Started { pid: 5 }, at(0));
    graph.due(at(1));
    graph.handle(0, Event::Silent { port: 3000 }, at(2));
    assert_eq!(state(&graph, 0).0, State::Ready);
}
