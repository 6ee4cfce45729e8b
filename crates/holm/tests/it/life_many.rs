//! Many at once, and many one after the other: nothing adds up (attack 146). `make soak` runs the
//! cycles of this file ten thousand times.

use crate::support::{Island, Ran, eventually, state_of, times};
use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a leak in the daemon would show in: descriptors and unreaped children.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    children: usize,
}

fn held(island: &Island) -> Held {
    let pid = island.daemon_of_the_lock().expect("a daemon");
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let children: BTreeSet<String> = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    Held {
        descriptors,
        children: children.len(),
    }
}

/// Waits until a daemon at rest holds no more than it did.
#[track_caller]
fn holds_no_more_than(island: &Island, before: &Held) {
    let begun = Instant::now();
    loop {
        let now = held(island);
        if now.descriptors <= before.descriptors && now.children <= before.children {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{now:?}, before: {before:?}"
        );
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn attack_146_many_at_once_run_or_are_refused_and_all_go_again() {
    let many = times(50, 200);
    let island = Island::new();
    let repository = island.repository("shop");
    // The daemon has done everything once.
    repository.up("first");
    island.holm(&["rm", "first"]).ok();
    let (before, at_rest) = (island.census(), held(&island));
    let ran: Vec<Ran> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..many)
            .map(|number| {
                let repository = &repository;
                scope.spawn(move || repository.holm(&["up", &format!("w{number}"), "--json"]))
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    let (made, refused): (Vec<_>, Vec<_>) = ran.into_iter().partition(|ran| ran.code == Some(0));
    for ran in &refused {
        assert!(
            ran.stderr.contains("\"code\""),
            "refused without a word: {ran:?}"
        );
    }
    let states = island.states();
    assert_eq!(states.len(), made.len(), "what was refused left nothing");
    assert!(
        states.values().all(|state| state == "running"),
        "{states:?}"
    );
    // A machine that runs these tests has room for all of them.
    assert_eq!(made.len(), many, "{refused:?}");
    // Keepers start a process now and then that measures the disk.
    eventually("there is one keeper and one init each", || {
        island.inhabitants().len() == 2 * many
    });
    let labels: Vec<_> = states.keys().map(String::as_str).collect();
    island
        .holm(&[&["rm", "--force"][..], &labels].concat())
        .ok();
    island.is_back_to(&before);
    holds_no_more_than(&island, &at_rest);
}

#[test]
fn attack_146_cycles_of_creation_and_removal_leave_nothing() {
    const TOGETHER: usize = 5;
    let wanted = std::env::var("HOLM_TEST_CYCLES").ok();
    let wanted: usize = wanted
        .and_then(|text| text.parse().ok())
        .unwrap_or(times(60, 10_000));
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("first");
    island.holm(&["rm", "first"]).ok();
    let (before, at_rest) = (island.census(), held(&island));
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    // Several go at once, now and then.
                    let first = next.fetch_add(TOGETHER, Ordering::Relaxed);
                    let numbers = first..(first + TOGETHER).min(wanted);
                    let labels: Vec<_> = numbers.map(|number| format!("w{number}")).collect();
                    if labels.is_empty() {
                        return;
                    }
                    for label in &labels {
                        repository.up(label);
                    }
                    if first.is_multiple_of(2 * TOGETHER) {
                        let work = "sleep 1000 & echo work > file";
                        island.sh(&labels[0], work).ok();
                        island.holm(&["stop", &labels[0]]).ok();
                    }
                    let labels = labels.iter().map(String::as_str);
                    let arguments: Vec<_> = ["rm", "--force"].into_iter().chain(labels).collect();
                    island.holm(&arguments).ok();
                }
            });
        }
    });
    println!("{wanted} cycles in {:?}", begun.elapsed());
    island.is_back_to(&before);
    holds_no_more_than(&island, &at_rest);
    let pid = island
        .daemon_of_the_lock()
        .expect("the daemon of the beginning");
    assert_ne!(state_of(pid), "Z");
}
