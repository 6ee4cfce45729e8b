//! `apply --undo`: the checkout is as before, or nothing is changed and the reason is said.

use crate::support::{Island, Ran, program};
use crate::work_crash::{Case, contents};
use std::fs;
use std::process::Command;

/// Runs `holm apply x --undo` and does something to a rename of a path.
fn with_rename(case: &Case, path: &str, call: &str, what: &str) -> Command {
    let repository = &case.repository;
    let mut command = repository.island.command("strace", &repository.path);
    command
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg(repository.path.join(path))
        .args(["-e", &format!("trace={call}"), "-e"])
        .args([&format!("inject={call}:{what}:when=1"), "--"])
        .arg(program())
        .args(["apply", "x", "--undo", "--json"]);
    command
}

#[test]
fn an_apply_is_taken_back_completely_or_not_at_all() {
    let island = Island::new();
    let case = Case::new(&island);
    let repository = &case.repository;
    let checkout = || contents(&repository.path);
    let undo = || repository.holm(&["apply", "x", "--undo", "--json"]);

    // Files that differ from what apply wrote are listed, and nothing is changed.
    repository.holm(&["apply", "x"]).ok();
    repository.write("f1", "edited since\n");
    fs::remove_file(repository.path.join("f2")).unwrap();
    repository.write("gone", "written anew\n");
    let before = checkout();
    let refused = undo().error(4);
    assert_eq!(refused["code"], "dirty_checkout", "{refused}");
    let message = refused["message"].as_str().unwrap();
    let listed: Vec<&str> = message.lines().skip(1).map(str::trim).collect();
    assert_eq!(listed, ["f1", "f2", "gone"], "{message}");
    assert_eq!(checkout(), before);

    // The same content in a new file is no difference, and other files of the person stay.
    repository.write("f1", "1\n");
    repository.write("f2", "2\n");
    fs::remove_file(repository.path.join("gone")).unwrap();
    repository.write("later", "not of the apply\n");
    let undone = undo().ok().json();
    assert_eq!(undone["undone"], 12, "{undone}");
    let mut expected = case.old.clone();
    let later = repository.path.join("later");
    expected.extend(checkout().remove_entry(&later));
    assert_eq!(checkout(), expected);
    case.nothing_is_left("after an undo");
    assert_eq!(undo().error(4)["code"], "refused");
    fs::remove_file(later).unwrap();

    // Killed at a move, the next command here finishes or undoes it.
    repository.holm(&["apply", "x"]).ok();
    assert_eq!(checkout(), case.new);
    let mut mixed = 0;
    for (path, call) in [
        ("f3", "rename"),
        ("gone", "renameat2"),
        ("README.md", "renameat2"),
    ] {
        let killed = Ran::new(&mut with_rename(&case, path, call, "signal=KILL"));
        assert_ne!(killed.code, Some(0), "{path}: {killed:?}");
        let now = checkout();
        // Killed is the moving process, and the client when it makes the same move to recover.
        mixed += u32::from(now != case.old && now != case.new);
        repository.holm(&["up", "y", "--dirty", "--no-wait"]);
        assert_eq!(checkout(), case.new, "{path}: {killed:?}");
        island.holm(&["rm", "y", "--force"]);
    }
    // The counterpart: without the journal these would have stayed so.
    assert!(mixed > 0);
    let failed = Ran::new(&mut with_rename(&case, "gone", "renameat2", "error=ENOSPC"));
    assert_eq!(failed.error(1)["code"], "disk_full");
    assert_eq!(checkout(), case.new);

    // A removed workspace can be undone, too.
    island.holm(&["rm", "x", "--force"]).ok();
    undo().ok();
    assert_eq!(checkout(), case.old);
    case.nothing_is_left("in the end");
}
