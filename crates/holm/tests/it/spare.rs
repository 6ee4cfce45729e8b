//! The program that keepers and inits run, and the keeper that is started ahead.

use crate::support::{Island, eventually, is_gone, send};
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;

/// Keepers run the small program if this build has one (`make unit` builds with it).
const PROGRAM: &str = match option_env!("HOLM_ROLES_PROGRAM") {
    Some(_) => "holm-roles",
    None => "holm",
};

/// The program of keepers below the data directory.
fn kept(island: &Island) -> PathBuf {
    let versions = fs::read_dir(island.data().join("program")).unwrap();
    let versions: Vec<_> = versions.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(versions.len(), 1, "{versions:?}");
    versions[0].join(PROGRAM)
}

/// The spare keeper, as soon as there is one.
fn spare(island: &Island) -> (i32, u64) {
    eventually("a spare keeper waits", || island.spares().len() == 1);
    island.spares()[0]
}

#[test]
fn keepers_and_inits_run_the_program_of_roles() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    let (keeper, init) = (island.keeper_of(&id).unwrap(), island.init_of(&id).unwrap());
    // The copies that tests lend to daemons are what a daemon writes, and where it writes them.
    let other = Island::new();
    other.holm(&["daemon", "start"]).ok();
    let [lent, written] = [kept(&island), kept(&other)];
    assert_eq!(
        lent.parent().unwrap().file_name(),
        written.parent().unwrap().file_name()
    );
    assert!(fs::read(lent).unwrap() == fs::read(written).unwrap());
    let command = fs::read(format!("/proc/{keeper}/cmdline")).unwrap();
    let program = command.split(|byte| *byte == 0).next().unwrap();
    assert_eq!(program, kept(&island).as_os_str().as_encoded_bytes());
    for process in [keeper, init] {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap();
        assert_eq!(name.trim(), PROGRAM);
    }
    // Programs inside call the whole one.
    let said = island.sh("x", "command -v holm; holm --version").ok().out();
    assert!(said.starts_with("/run/holm/bin/holm\nholm "), "{said}");
}

#[test]
fn the_next_workspace_gets_the_spare_keeper() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let first = spare(&island);
    // A helper that measures the disk may run for a moment.
    eventually(
        "x is a keeper and an init, and the spare belongs to none",
        || island.inhabitants().len() == 2,
    );
    let y = repository.up("y");
    assert_eq!(island.keeper_of(&y), Some(first.0));
    assert_ne!(spare(&island), first, "the next one");
    // Its log is the workspace's.
    let stderr = fs::read_link(format!("/proc/{}/fd/2", first.0));
    let log = island.data().join("workspaces").join(&y).join("keeper.log");
    assert!(stderr.is_err() || stderr.unwrap() == log);
    assert!(log.exists());
    // The empty files that were made ahead got their content and their names.
    let dir = island.data().join("workspaces").join(&y);
    let is_draft = |entry: fs::DirEntry| entry.path().extension() == Some("new".as_ref());
    eventually("no file is only a draft", || {
        let mut found = [&dir, &dir.join("guest")]
            .map(|dir| fs::read_dir(dir).unwrap())
            .into_iter()
            .flatten();
        !found.any(|entry| is_draft(entry.unwrap()))
    });
}

#[test]
fn a_spare_keeper_ends_with_its_daemon() {
    let island = Island::new();
    let repository = island.repository("shop");
    let x = repository.up("x");
    let waiting = spare(&island);
    let keeper = island.keeper_of(&x);
    island.kill_daemon();
    eventually("the spare keeper ends", || is_gone(waiting));
    assert_eq!(island.keeper_of(&x), keeper, "a workspace's keeper stays");
    assert!(keeper.is_some());
    island.sh("x", "true").ok();
}

#[test]
fn a_spare_keeper_of_another_program_is_not_used() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let waiting = spare(&island);
    let program = kept(&island);
    let fresh = program.with_extension("fresh");
    fs::copy(&program, &fresh).unwrap();
    fs::rename(&fresh, &program).unwrap();
    let y = repository.up("y");
    assert_ne!(island.keeper_of(&y), Some(waiting.0));
    eventually("the old spare keeper ends", || is_gone(waiting));
}

#[test]
fn a_killed_spare_keeper_costs_nothing() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let waiting = spare(&island);
    send(waiting.0, Signal::KILL);
    eventually("it is gone", || is_gone(waiting));
    repository.up("y");
    assert_eq!(island.sh("y", "echo here").ok().out(), "here");
}
