//! Completions in the real shells: commands, options and labels; never a daemon, never an error in
//! the line.

use crate::support::{Act, Island, Ran, play, program};
use std::process::Command;

/// A shell in which `holm` is found.
fn shell(island: &Island, name: &str, arguments: &[&str]) -> Command {
    let mut command = island.command(name, &island.home());
    let directory = program().parent().unwrap().display();
    command
        .args(arguments)
        .env("PATH", format!("{directory}:/usr/local/bin:/usr/bin:/bin"));
    command
}

/// An island with three workspaces, one label of which is used twice.
fn island() -> Island {
    let island = Island::new();
    island.repository("shop").up("fix-login");
    island.repository("blog").up("fix-feed");
    for project in ["shop", "blog"] {
        let repository = island.home().join("src").join(project);
        Ran::new(&mut island.holm_command(&repository, &["up", "same"])).ok();
    }
    island
}

/// What bash offers for a line that ends at its last word.
fn in_bash(island: &Island, words: &[&str]) -> Vec<String> {
    let script = "source <(holm completions bash)
        function=$(complete -p holm | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_LINE=\"$*\"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
        $function holm \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = shell(island, "bash", &["--norc", "-c", script, "bash"]);
    let ran = Ran::new(command.args(words)).ok();
    assert_eq!(ran.stderr, "");
    let mut offered: Vec<_> = ran
        .out()
        .lines()
        .map(|line| line.trim().to_owned())
        .collect();
    offered.sort();
    offered
}

#[test]
fn bash_completes_commands_options_and_labels() {
    let island = island();
    let offered = in_bash(&island, &["holm", ""]);
    for verb in [
        "up",
        "ls",
        "exec",
        "enter",
        "doctor",
        "daemon",
        "completions",
    ] {
        assert!(
            offered.iter().any(|one| one == verb),
            "{verb} in {offered:?}"
        );
    }
    assert!(
        !offered.iter().any(|one| one == "receive-pack"),
        "{offered:?}"
    );
    assert_eq!(
        in_bash(&island, &["holm", "re"]),
        ["reload", "rename", "reset", "restart", "restore", "review"]
    );
    assert_eq!(
        in_bash(&island, &["holm", "exec", "fix"]),
        ["fix-feed", "fix-login"]
    );
    assert_eq!(
        in_bash(&island, &["holm", "rm", "fix-login", "fix-f"]),
        ["fix-feed"]
    );
    // `restore` completes entries of the trash.
    island.holm(&["rm", "fix-feed"]).ok();
    let restored = in_bash(&island, &["holm", "restore", "fi"]);
    assert_eq!(restored, ["fix-feed"]);
    // A label that is not enough comes with its project.
    assert_eq!(
        in_bash(&island, &["holm", "show", "shop/"]),
        ["shop/fix-login", "shop/same"]
    );
    let all = in_bash(&island, &["holm", "stop", ""]);
    assert!(all.contains(&"blog/same".to_owned()) && all.contains(&"shop/same".to_owned()));
    assert!(in_bash(&island, &["holm", "up", "--fr"]).contains(&"--from".to_owned()));
    assert!(in_bash(&island, &["holm", "completions", "z"]).contains(&"zsh".to_owned()));
}

#[test]
fn bash_and_zsh_complete_what_is_typed() {
    let island = island();
    let bash = shell(&island, "bash", &["--norc", "-i"]);
    let zsh = shell(&island, "zsh", &["-f", "-i"]);
    let load = [
        (bash, "source <(holm completions bash); echo rea''dy\r"),
        (
            zsh,
            "autoload -U compinit; compinit -u -D; source <(holm completions zsh); echo rea''dy\r",
        ),
    ];
    for (shell, load) in load {
        let played = play(
            &shell,
            &[
                Act::Type(load),
                Act::See("ready"),
                Act::Type("holm sho\tfix-l\t --json | grep -o '\"state\":\"[a-z]*\"'\r"),
                Act::See("fix-login"),
                Act::See("\"state\":\"running\""),
                Act::Type("exit\r"),
            ],
        );
        assert!(!played.screen.contains("error"), "{played:?}");
    }
}

#[test]
fn fish_completes_commands_options_and_labels() {
    let island = island();
    let complete = |line: &str| -> Vec<String> {
        let script = format!("holm completions fish | source; complete -C '{line}'");
        let ran = Ran::new(&mut shell(&island, "fish", &["--no-config", "-c", &script])).ok();
        let offered = ran.out();
        let words = offered
            .lines()
            .map(|line| line.split('\t').next().unwrap().to_owned());
        words.collect()
    };
    assert_eq!(complete("holm exec fix"), ["fix-feed", "fix-login"]);
    assert_eq!(
        complete("holm re"),
        ["rename", "restart", "reset", "restore", "review", "reload"]
    );
    assert!(complete("holm up --fr").contains(&"--from".to_owned()));
}

#[test]
fn completing_starts_nothing_and_says_nothing() {
    let island = Island::new();
    let only_options = |offered: Vec<String>| offered.iter().all(|one| one.starts_with("--"));
    assert!(only_options(in_bash(&island, &["holm", "exec", ""])));
    assert_eq!(
        in_bash(&island, &["holm", "re"]),
        ["reload", "rename", "reset", "restart", "restore", "review"]
    );
    assert!(!island.holm_home().exists(), "no daemon was started");
    // Also when a file is in the daemon's place.
    island.make_dir("holm");
    island.make_dir("holm/run");
    island.write("holm/run/daemon.sock", "not a socket");
    assert!(only_options(in_bash(&island, &["holm", "exec", ""])));
}
