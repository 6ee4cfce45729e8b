//! The daemon, a keeper or an init dies before or after each step that is written down: the next
//! command finds everything finished or undone, and nothing left over (attacks 148 and 149).

use crate::support::{Island, Repository, Running, eventually, is_gone, send, state_of, times};
use rustix::process::Signal;
use std::cell::Cell;

const MOMENTS: [&str; 2] = ["before", "after"];

/// An island with a workspace that must not notice anything.
fn with_a_neighbour(island: &Island) -> (Repository<'_>, i32) {
    let repository = island.repository("shop");
    let id = repository.up("neighbour");
    island.sh("neighbour", "sleep 1000 & echo $! > ~/pid").ok();
    let init = island.init_of(&id).expect("its init");
    // The helper that measures the disk may run for a moment.
    eventually("keeper, init and the sleep are left", || {
        island.inhabitants().len() == 3
    });
    (repository, init)
}

/// The neighbour's processes are those of the beginning, and commands run in it.
#[track_caller]
fn goes_on(island: &Island, init: i32) {
    let id = island.holm(&["show", "neighbour", "--json"]).json()["id"].clone();
    assert_eq!(
        island.init_of(id.as_str().unwrap()),
        Some(init),
        "no second init"
    );
    let script = "kill -0 $(cat ~/pid) && echo alive";
    assert_eq!(island.sh("neighbour", script).ok().out(), "alive");
}

#[test]
fn attack_148_a_daemon_that_dies_while_it_creates_leaves_nothing() {
    let island = Island::new();
    let (repository, neighbour) = with_a_neighbour(&island);
    let before = island.census();
    for step in ["build_base", "make_files", "launch", "acknowledge"] {
        for moment in MOMENTS {
            let at = format!("{step}:{moment}");
            // A separate commit, so that its base has to be built.
            repository.write("step", &at);
            repository.commit(&at);
            let seen = island.inhabitants();
            let arguments = ["up", "x", "--json"];
            let died = island.holm_at(&repository.path, &format!("{at}:kill"), &arguments);
            assert_ne!(died.code, Some(0), "{at}: {died:?}");
            goes_on(&island, neighbour);
            let states = island.states();
            if at == "acknowledge:after" {
                // It was written down as the user's; only the word was lost on the way.
                assert_eq!(states["x"], "running");
            } else {
                assert!(!states.contains_key("x"), "{at}: {states:?}");
                island.is_back_to(&before);
            }
            for process in seen {
                assert!(!is_gone(process), "{at}: the neighbour's live on");
            }
            repository.up("x");
            assert_eq!(island.sh("x", "cat step").ok().out(), at);
            island.holm(&["rm", "x"]).ok();
            island.is_back_to(&before);
        }
    }
}

#[test]
fn attack_148_a_step_of_a_creation_that_fails_undoes_it() {
    let island = Island::new();
    let (repository, neighbour) = with_a_neighbour(&island);
    let before = island.census();
    for step in ["build_base", "make_files", "launch", "acknowledge"] {
        for moment in MOMENTS {
            let at = format!("{step}:{moment}");
            if at == "acknowledge:after" {
                continue;
            }
            repository.write("step", &at);
            repository.commit(&at);
            let arguments = ["up", "x", "--json"];
            let failed = island.holm_at(&repository.path, &format!("{at}:fail"), &arguments);
            let error = failed.error(1);
            assert!(error["message"].as_str().unwrap().contains(&at), "{error}");
            // The same daemon continues, and the second time it works.
            island.is_back_to(&before);
            repository.up("x");
            island.holm(&["rm", "x"]).ok();
        }
    }
    goes_on(&island, neighbour);
}

/// The goal of a verb, its start, and the steps on the way.
const VERBS: [(&str, &str, &str, &[&str]); 4] = [
    ("start", "stopped", "running", &["launch"]),
    ("stop", "running", "stopped", &["halt"]),
    ("restart", "running", "running", &["halt", "launch"]),
    (
        "rm",
        "running",
        "removed",
        &["halt", "set_aside", "removed"],
    ),
];

/// Every verb at every moment of every step, from its beginning.
fn at_every_moment(island: &Island, repository: &Repository<'_>, each: impl Fn(&str, &str, &str)) {
    for (verb, from, to, steps) in VERBS {
        for step in steps {
            for moment in MOMENTS {
                if (*step, moment) == ("removed", "after") {
                    continue;
                }
                if !island.states().contains_key("x") {
                    repository.up("x");
                    island.sh("x", "echo work > file; echo more > ~/note").ok();
                }
                let begin = if from == "stopped" { "stop" } else { "start" };
                island.holm(&[begin, "x"]).ok();
                each(verb, to, &format!("{step}:{moment}"));
            }
        }
    }
}

fn arguments(verb: &str) -> Vec<&str> {
    match verb {
        "rm" => vec!["rm", "x", "--force"],
        _ => vec![verb, "x"],
    }
}

/// The workspace is in the verb's final state, and has its work.
#[track_caller]
fn has_come_to(island: &Island, to: &str, at: &str) {
    let states = island.states();
    if to == "removed" {
        assert!(!states.contains_key("x"), "{at}: {states:?}");
        return;
    }
    assert_eq!(states["x"], to, "{at}");
    if to == "running" {
        let read = island.sh("x", "cat file ~/note").ok();
        assert_eq!(read.out(), "work\nmore", "{at}");
    }
}

#[test]
fn attack_148_a_daemon_that_dies_on_the_way_is_followed_by_one_that_arrives() {
    let island = Island::new();
    let (repository, neighbour) = with_a_neighbour(&island);
    let before = island.census();
    at_every_moment(&island, &repository, |verb, to, at| {
        let earlier = island.inhabitants();
        let point = format!("{at}:kill");
        let died = island.holm_at(&island.home(), &point, &arguments(verb));
        assert_ne!(died.code, Some(0), "{verb} {at}: {died:?}");
        has_come_to(&island, to, at);
        // Repeating it is fine, and for a removed workspace it says so.
        let again = island.holm(&arguments(verb));
        assert_eq!(
            again.code,
            Some(if to == "removed" { 3 } else { 0 }),
            "{at}"
        );
        has_come_to(&island, to, at);
        goes_on(&island, neighbour);
        if to == "removed" {
            island.is_back_to(&before);
        }
        if to != "running" {
            let left = earlier.iter().filter(|process| !is_gone(**process));
            let left = left.count();
            assert_eq!(left, before.processes, "{verb} {at}: the neighbour's only");
        }
    });
}

#[test]
fn attack_148_a_step_that_fails_can_be_done_again() {
    let island = Island::new();
    let (repository, neighbour) = with_a_neighbour(&island);
    at_every_moment(&island, &repository, |verb, to, at| {
        let point = format!("{at}:fail");
        let failed = island.holm_at(&island.home(), &point, &arguments(verb));
        assert_eq!(failed.code, Some(1), "{verb} {at}: {failed:?}");
        let again = island.holm(&arguments(verb));
        // A workspace that was in the trash before storing that failed may be gone.
        assert!(matches!(again.code, Some(0 | 3)), "{verb} {at}: {again:?}");
        has_come_to(&island, to, at);
    });
    goes_on(&island, neighbour);
}

/// Runs a verb with a daemon that is stopped at a point, does something meanwhile, and waits for
/// the verb's end.
fn meanwhile(
    island: &Island,
    repository: &Repository<'_>,
    verb: &[&str],
    at: &str,
    act: impl FnOnce(),
) {
    island.kill_daemon();
    let mut command = island.holm_command(&repository.path, verb);
    command.env("HOLM_TEST_AT", format!("{at}:stop"));
    command.stderr(std::process::Stdio::null());
    let mut running = Running::new(&mut command);
    let stopped = || {
        island
            .daemon_of_the_lock()
            .filter(|pid| state_of(*pid) == "T")
    };
    eventually(&format!("it stands still at {at}"), || stopped().is_some());
    act();
    send(stopped().expect("the daemon"), Signal::CONT);
    running.code();
}

#[test]
fn attack_148_keepers_and_inits_that_die_on_the_way_do_not_stand_in_it() {
    let island = Island::new();
    let (repository, neighbour) = with_a_neighbour(&island);
    let before = island.census();
    let kill = |whom: &str, id: &str| {
        let victim = match whom {
            "keeper" => island.keeper_of(id),
            _ => island.init_of(id),
        };
        if let Some(pid) = victim {
            send(pid, Signal::KILL);
        }
    };
    // In CI one of the two dies at each moment, and in `make soak` each of them.
    for round in 0..times(1, 2) {
        let moments = Cell::new(0);
        let next = || {
            // Before and after a step it is the same one.
            let moment = moments.replace(moments.get() + 1);
            ["keeper", "init"][(moment / 2 + round) % 2]
        };
        at_every_moment(&island, &repository, |verb, to, at| {
            let whom = next();
            let id = island.holm(&["show", "x", "--json"]).json()["id"].clone();
            meanwhile(&island, &repository, &arguments(verb), at, || {
                kill(whom, id.as_str().unwrap());
            });
            let again = island.holm(&arguments(verb));
            assert!(
                matches!(again.code, Some(0 | 3)),
                "{whom} {verb} {at}: {again:?}"
            );
            has_come_to(&island, to, &format!("{whom} {verb} {at}"));
        });
        for at in ["make_files:after", "launch:after", "acknowledge:before"] {
            let whom = next();
            let others = island.census().workspaces;
            meanwhile(&island, &repository, &["up", "y"], at, || {
                let made = island.census().workspaces;
                let id = made
                    .difference(&others)
                    .next()
                    .expect("the new one")
                    .clone();
                kill(whom, &id);
            });
            // Whether it was created or undone, it can be created now, and nothing exists twice.
            repository.up("y");
            island.sh("y", "cat README.md").ok();
            island.holm(&["rm", "y", "--force"]).ok();
        }
    }
    if island.states().contains_key("x") {
        island.holm(&["rm", "x", "--force"]).ok();
    }
    island.is_back_to(&before);
    goes_on(&island, neighbour);
}

#[test]
fn attack_148_a_return_from_the_trash_that_is_cut_short_arrives_or_can_be_done_again() {
    let island = Island::new();
    let (repository, neighbour) = with_a_neighbour(&island);
    let before = island.census();
    for how in ["kill", "fail"] {
        for moment in MOMENTS {
            let label = format!("{how}-{moment}");
            repository.up(&label);
            island.sh(&label, "echo work > file").ok();
            island.holm(&["rm", &label, "--force"]).ok();
            let point = format!("take_back:{moment}:{how}");
            let cut = island.holm_at(&island.home(), &point, &["restore", &label]);
            assert_ne!(cut.code, Some(0), "{point}: {cut:?}");
            if how == "fail" {
                assert!(!island.states().contains_key(&label), "{point}");
                island.holm(&["restore", &label]).ok();
            }
            assert_eq!(island.states()[&label], "stopped", "{point}");
            assert_eq!(island.sh(&label, "cat file").ok().out(), "work", "{point}");
            island.holm(&["rm", &label, "--force"]).ok();
            island.is_back_to(&before);
        }
    }
    goes_on(&island, neighbour);
}
