//! holm typed by root: everything runs as the user `holm`, and root's commands talk to that.
//!
//! Being root takes root. The suite is run by root in CI; for others there is nothing to see here.

use crate::support::{Place, Ran, program};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

fn holm_uid() -> u32 {
    let known = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = known.lines().find(|line| line.starts_with("holm:"));
    let line = line.expect("the user holm: `scripts/set-up test` makes it");
    line.split(':').nth(2).unwrap().parse().unwrap()
}

#[test]
fn everything_runs_as_the_user_holm() {
    let Some(place) = Place::new() else { return };
    let repository = place.repository();
    let made = place.holm(&repository, &["up", "x", "--json"]).json();
    assert_eq!(made["root"], repository.to_str().unwrap());
    let status = place
        .holm(&repository, &["daemon", "status", "--json"])
        .json();
    let uid = holm_uid();
    assert_eq!(status["uid"], uid);
    assert_eq!(status["user"], "holm");
    let proc = format!("/proc/{}", status["pid"]);
    assert_eq!(std::fs::metadata(&proc).unwrap().uid(), uid);
    let environ = std::fs::read(format!("{proc}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environ).contains("canary"));
    let status = std::fs::read_to_string(format!("{proc}/status")).unwrap();
    let groups = status
        .lines()
        .find(|line| line.starts_with("Groups:"))
        .unwrap();
    assert!(
        !groups.split_whitespace().any(|group| group == "0"),
        "{groups}"
    );
    // Inside it is that user, with no way to be more.
    let inside = |script: &str| place.holm(&repository, &["exec", "x", "--", "sh", "-c", script]);
    assert_eq!(inside("id -u; whoami").ok().out(), format!("{uid}\nholm"));
    assert_eq!(
        inside("cat README.md; git log --format='%s by %an'")
            .ok()
            .out(),
        "hello\nfirst by Root"
    );
    inside("echo more > file && git add file && git commit -qm more").ok();
    let script = "sleep 1000 & echo started";
    assert_eq!(inside(script).ok().out(), "started");
    let data = place.holm_home().join("data");
    let walk = Ran::new(
        Command::new("find")
            .arg(&data)
            .args(["-not", "-uid", &uid.to_string()]),
    )
    .ok();
    assert_eq!(walk.out(), "", "all files are the user's");
    assert_eq!(
        std::fs::metadata(place.holm_home()).unwrap().mode() & 0o777,
        0o700
    );
}

#[test]
fn code_of_root_is_pushed_and_comes_along_in_every_way() {
    let Some(place) = Place::new() else { return };
    let repository = place.repository();
    place.holm(&repository, &["up", "first"]).ok();
    // The user `holm` cannot read root's repository: the daemon has a copy, and no link to it.
    assert_eq!(
        std::fs::metadata(place.home()).unwrap().mode() & 0o777,
        0o700
    );
    let script = "echo second > second && git add second && git commit -qm second && echo dirty >> README.md && echo new > untracked";
    Ran::new(place.command("sh", &repository).args(["-c", script])).ok();
    place
        .holm(
            &repository,
            &["up", "dirty", "--dirty", "--include", ".env"],
        )
        .ok();
    let inside = |label: &str, script: &str| {
        place
            .holm(&repository, &["exec", label, "--", "sh", "-c", script])
            .ok()
            .out()
    };
    assert_eq!(
        inside("dirty", "cat README.md untracked .env second"),
        "hello\ndirty\nnew\nA=1\nsecond"
    );
    assert_eq!(
        inside("dirty", "git status --porcelain"),
        "M README.md\n?? untracked".replacen('M', " M", 1)
    );
    assert_eq!(
        inside("first", "ls second 2>/dev/null; git log --format=%s"),
        "first"
    );
    let before = Ran::new(
        place
            .command("git", &repository)
            .args(["status", "--porcelain"]),
    )
    .ok()
    .out();
    assert_eq!(before, " M README.md\n?? untracked");
    // Files that were made in root's repository are still root's.
    let walk = Ran::new(
        Command::new("find")
            .arg(&repository)
            .args(["-not", "-uid", "0"]),
    )
    .ok();
    assert_eq!(walk.out(), "");
    place.holm(&repository, &["rm", "dirty", "--force"]).ok();
    place.holm(&repository, &["doctor"]).ok();
}

#[test]
fn a_home_of_root_is_handed_over_only_when_it_is_empty() {
    let Some(place) = Place::new() else { return };
    let repository = place.repository();
    std::fs::create_dir(place.holm_home()).unwrap();
    std::fs::write(place.holm_home().join("precious"), "root's").unwrap();
    let refused = place.holm(&repository, &["up", "x", "--json"]);
    assert!(matches!(refused.code, Some(1 | 4)), "{refused:?}");
    let metadata = std::fs::metadata(place.holm_home()).unwrap();
    assert_eq!(metadata.uid(), 0, "it is still root's");
    std::fs::remove_file(place.holm_home().join("precious")).unwrap();
    place.holm(&repository, &["up", "x"]).ok();
    assert_eq!(
        std::fs::metadata(place.holm_home()).unwrap().uid(),
        holm_uid()
    );
}

#[test]
fn without_the_user_holm_it_says_how_to_make_it() {
    let Some(place) = Place::new() else { return };
    let repository = place.repository();
    // In a separate mount namespace: the host's file is not touched.
    let script = "grep -v '^holm:' /etc/passwd > \"$HOME/passwd\" &&
        mount --bind \"$HOME/passwd\" /etc/passwd && exec \"$0\" \"$@\"";
    let verbs: [&[&str]; 4] = [&["up", "x"], &["ls"], &["daemon", "start"], &["doctor"]];
    for verb in verbs {
        let mut command = place.command("unshare", &repository);
        command
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .arg(program())
            .args(verb)
            .arg("--json");
        let refused = Ran::new(&mut command).error(4);
        assert_eq!(refused["code"], "root_user", "{verb:?}");
        assert!(
            refused["hint"]
                .as_str()
                .unwrap()
                .contains("useradd --create-home holm"),
            "{refused}"
        );
    }
    assert!(!place.holm_home().exists());
}
